//! Measures the program from outside, beside a second one, against a mock server in-process.
//!
//! `cargo bench -- [--gimlet PATH] [--peer PATH] [--rounds N]` prints a table of medians. Rounds
//! alternate between the two, so that a busy machine is unfair to neither.
//! `cargo bench -- edits [--peer PATH] [--rounds N] [--only NAME]` does so for changing files.
//! `cargo bench -- sandbox [--peer PATH] [--rounds N]` does so for the sandbox's cost.
//! `cargo bench -- serve --script FILE [--port N] [--record DIR]` leaves the mock standing, for
//! `tests/sdk` and for use by hand; the script is that of `tests/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench stops at the first thing that is not as it should be, and says so"
)]

mod edit_cases;
mod edit_table;
mod edits;
mod measure;
#[cfg(target_os = "linux")]
mod sandbox;
mod scenario;
mod serve;
#[path = "../it/support/server.rs"]
#[allow(dead_code, reason = "tests/it uses the rest")]
mod server;
mod snapshots;
#[path = "../it/support/sse.rs"]
#[allow(dead_code, reason = "tests/it uses the rest")]
mod sse;
mod table;

use std::path::PathBuf;

use crate::scenario::{Kind, Stage, Subject};

/// Medians of fewer rounds say little.
const ROUNDS: usize = 7;

struct Options {
    gimlet: PathBuf,
    peer: Option<PathBuf>,
    rounds: usize,
    deltas: usize,
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.first().map(String::as_str) {
        Some(measure::COMMAND) => measure::run_and_report(&args.split_off(1)),
        Some("edits") => edits::run(&args.split_off(1)),
        #[cfg(target_os = "linux")]
        Some("sandbox") => sandbox::run(&args.split_off(1)),
        Some("serve") => serve::serve(&args.split_off(1)),
        _ => compare(&parse_options(&args)),
    }
}

/// Returns where the binary is that is measured unless another is named.
pub(crate) fn release_binary() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    target.join("release/gimlet")
}

fn parse_options(args: &[String]) -> Options {
    let gimlet = release_binary();
    let mut options = Options { gimlet, peer: None, rounds: ROUNDS, deltas: 200_000 };
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("{name} wants a value"));
        match name.as_str() {
            "--gimlet" => options.gimlet = value.into(),
            "--peer" => options.peer = Some(value.into()),
            "--rounds" => options.rounds = value.parse().expect("--rounds wants a number"),
            "--deltas" => options.deltas = value.parse().expect("--deltas wants a number"),
            _ => {
                panic!("unknown option {name}: --gimlet PATH, --peer PATH, --rounds N, --deltas N")
            }
        }
    }
    options
}

fn compare(options: &Options) {
    let mut subjects = vec![Subject::new(Kind::Gimlet, &options.gimlet)];
    subjects.extend(options.peer.as_ref().map(|peer| Subject::new(Kind::Peer, peer)));
    subjects.retain(|subject| {
        let there = subject.program.is_file();
        if !there {
            eprintln!("{} is not there: left out", subject.program.display());
        }
        there
    });
    let stage = Stage::new(options.deltas);
    // The first round warms the page cache and is not counted.
    for round in 0..=options.rounds {
        for subject in &mut subjects {
            eprintln!("round {round} of {}: {}", options.rounds, subject.kind.name());
            stage.play_round(subject, round > 0);
        }
    }
    table::print(&subjects);
}
