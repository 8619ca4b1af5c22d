//! Prints the figures of `edits`: medians by program, the ratio to the peer, the goals.

use crate::edit_cases::{Case, Goal};
use crate::edits::{Figures, Program};
use crate::measure::Run;
use crate::table::{median, shown};

/// Programs in the order of the columns.
const COLUMNS: &[(Program, &str)] = &[
    (Program::Ours, "gimlet"),
    (Program::Peer, "peer"),
    (Program::Git, "git apply"),
    (Program::Patch, "patch"),
    (Program::Copy, "cp"),
    (Program::Start, "--version"),
    (Program::PeerStart, "peer's"),
];

/// Of a large edit, at most so many times the touched bytes may be in memory.
const MEMORY_TIMES_MAX: f64 = 3.0;

/// An edit smaller than this says nothing of memory: the program itself is larger.
const LARGE_BYTES: usize = 20 * 1024 * 1024;

pub(crate) fn print(cases: &[Case], figures: &Figures) {
    let names: String = COLUMNS.iter().map(|(_, name)| format!(" {name:>10}")).collect();
    println!("{:<38}{names} {:>8}  goal", "median", "to peer");
    for case in cases.iter().filter(|case| figures.keys().any(|(name, _)| *name == case.name)) {
        let figure = |program: Program, of: fn(&Run) -> f64| {
            let runs = figures.get(&(case.name, program))?;
            median(&runs.iter().map(of).collect::<Vec<f64>>())
        };
        let (wall, memory) = (|program| figure(program, wall_ms), |program| figure(program, mib));
        print_row(&format!("{} (ms)", case.name), &wall, &judge_time(case, &wall));
        print_row("    peak memory (MiB)", &memory, &judge_memory(case, &memory));
    }
}

fn print_row(label: &str, figure: &impl Fn(Program) -> Option<f64>, verdict: &str) {
    let cells: String =
        COLUMNS.iter().map(|(program, _)| format!(" {:>10}", shown(figure(*program), 2))).collect();
    let ratio = figure(Program::Ours).zip(figure(Program::Peer)).map(|(ours, peer)| ours / peer);
    println!("{label:<38}{cells} {:>8}  {verdict}", shown(ratio, 3));
}

fn judge_time(case: &Case, wall: &impl Fn(Program) -> Option<f64>) -> String {
    let Some(ours) = wall(Program::Ours) else { return String::new() };
    let (text, max) = match case.goal {
        Goal::None => return String::new(),
        Goal::Ms(max) => (format!("{max} ms"), Some(max)),
        Goal::MsOverStart(more) => {
            (format!("--version + {more} ms"), wall(Program::Start).map(|start| start + more))
        }
        Goal::OfPeer(times) => {
            (format!("peer x {times}"), wall(Program::Peer).map(|peer| peer * times))
        }
    };
    format!("{text}{}", if max.is_some_and(|max| ours > max) { ", missed" } else { "" })
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn judge_memory(case: &Case, memory: &impl Fn(Program) -> Option<f64>) -> String {
    let touched = case.touched_bytes();
    if touched < LARGE_BYTES {
        return String::new();
    }
    let max = MEMORY_TIMES_MAX * touched as f64 / 1_048_576.0;
    let missed = memory(Program::Ours).is_some_and(|ours| ours > max);
    format!("{MEMORY_TIMES_MAX} x touched = {max:.0}{}", if missed { ", missed" } else { "" })
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn wall_ms(run: &Run) -> f64 {
    (run.ended_ns - run.started_ns) as f64 / 1e6
}

#[expect(clippy::cast_precision_loss, reason = "figures for a table")]
fn mib(run: &Run) -> f64 {
    run.peak_bytes as f64 / 1_048_576.0
}
