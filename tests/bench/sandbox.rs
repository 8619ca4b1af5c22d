//! What a sandbox costs a command: `cargo bench -- sandbox [--gimlet PATH] [--peer PATH] [--rounds N]
//! [--only NAME]`.
//!
//! The same command bare, through the runner of a session (which is what a session pays for
//! each command), through `gimlet sandbox`, and through the peer's. Rounds alternate.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gimlet::protocol::{GitAccess, Network, SandboxMode, SandboxPolicy};
use gimlet::sandbox::{CommandRunner, ExecRequest, LocalRunner};
use tokio::io::AsyncReadExt;

/// The command that is run: what it does itself should not matter.
const COMMAND: &str = "/bin/true";
/// Rounds when none are named; one takes some 100 ms.
const ROUNDS: usize = 50;

/// What a row is called, and what is timed for it.
type Row<'a> = (&'a str, Box<dyn FnMut() -> Duration + 'a>);

/// Prints the table.
pub(crate) fn run(args: &[String]) {
    let (mut gimlet, mut peer, mut rounds) = (crate::release_binary(), None, ROUNDS);
    let mut only: Option<String> = None;
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("{name} wants a value"));
        match name.as_str() {
            "--gimlet" => gimlet = value.into(),
            "--peer" => peer = Some(PathBuf::from(value)),
            "--only" => only = Some(value.clone()),
            "--rounds" => rounds = value.parse().expect("--rounds wants a number"),
            _ => {
                panic!("unknown option {name}: --gimlet PATH, --peer PATH, --rounds N, --only NAME")
            }
        }
    }
    let workspace = tempfile::tempdir().unwrap();
    let cwd = workspace.path().canonicalize().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runner = LocalRunner::new(gimlet.clone());
    let program = gimlet.display().to_string();
    let ours = [&program, "sandbox", "--", COMMAND];
    let unconfined = [&program, "sandbox", "--mode", "danger-full-access", "--", COMMAND];
    let mut rows: Vec<Row<'_>> = vec![
        ("bare command", Box::new(|| time_command(&[COMMAND], &cwd))),
        (
            "in a session, no sandbox",
            Box::new(|| runtime.block_on(time_in_session(&runner, &cwd, false))),
        ),
        (
            "in a session, sandboxed",
            Box::new(|| runtime.block_on(time_in_session(&runner, &cwd, true))),
        ),
        ("gimlet sandbox, no sandbox", Box::new(|| time_command(&unconfined, &cwd))),
        ("gimlet sandbox", Box::new(|| time_command(&ours, &cwd))),
    ];
    if let Some(peer) = peer.map(|peer| peer.display().to_string()) {
        let cwd = cwd.clone();
        let argv = move || time_command(&[&peer, "sandbox", "--", COMMAND], &cwd);
        rows.push(("the peer's sandbox", Box::new(argv)));
    }
    rows.retain(|(name, _)| {
        only.as_deref().is_none_or(|only| *name == only || name.starts_with("bare"))
    });
    let mut figures: Vec<Vec<f64>> = vec![Vec::new(); rows.len()];
    for round in 0..=rounds {
        for ((_, play), figures) in rows.iter_mut().zip(&mut figures) {
            let took = play().as_secs_f64() * 1e3;
            // The first round warms caches.
            if round > 0 {
                figures.push(took);
            }
        }
    }
    let bare = median(&mut figures[0].clone());
    println!("{:<28} {:>9} {:>9} {:>9}", COMMAND, "median ms", "least ms", "over bare");
    for ((name, _), figures) in rows.iter().zip(&mut figures) {
        let median = median(figures);
        println!("{name:<28} {median:>9.2} {:>9.2} {:>9.2}", figures[0], median - bare);
    }
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn time_command(argv: &[&str], cwd: &Path) -> Duration {
    let started = Instant::now();
    let status = Command::new(argv[0])
        .args(&argv[1..])
        .current_dir(cwd)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let took = started.elapsed();
    assert!(status.success(), "{argv:?} ended with {status}");
    took
}

async fn time_in_session(runner: &LocalRunner, cwd: &Path, confined: bool) -> Duration {
    let policy = SandboxPolicy {
        mode: SandboxMode::WorkspaceWrite,
        roots: vec![cwd.to_path_buf()],
        network: Network::Off,
        deny_read: Vec::new(),
        deny_write: Vec::new(),
        git: GitAccess::Ask,
        tmp: true,
    };
    let request = ExecRequest {
        argv: vec![COMMAND.to_owned()],
        cwd: cwd.to_path_buf(),
        env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        sandbox: confined.then_some(policy),
        attempts: None,
    };
    let started = Instant::now();
    let mut process = runner.spawn(request).unwrap();
    let mut output = Vec::new();
    process.output.read_to_end(&mut output).await.unwrap();
    let end = process.control.wait().await.unwrap();
    // A session goes on when nothing is left of its command.
    process.control.kill().await;
    let took = started.elapsed();
    assert_eq!(end.code, Some(0), "{}", String::from_utf8_lossy(&output));
    took
}
