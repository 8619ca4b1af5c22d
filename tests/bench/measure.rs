//! Runs one program and reports its wall time, CPU time and peak memory.
//!
//! A process of its own does this: a child's peak memory counts what its parent held when it
//! forked, and the bench holds a stream of 44 MB. So the bench runs itself again with `COMMAND`,
//! and that small process forks. Times are nanoseconds of the monotonic clock, which is the
//! same for all processes.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

/// The bench's own subcommand: `COMMAND REPORT PROGRAM ARGS…`.
pub(crate) const COMMAND: &str = "__measure";

/// What one run took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Run {
    pub(crate) started_ns: i64,
    pub(crate) ended_ns: i64,
    pub(crate) cpu_ns: i64,
    pub(crate) peak_bytes: i64,
    pub(crate) code: i32,
}

/// Runs a program through the small process, without stdin.
pub(crate) fn run(folder: &Path, program: &Path, args: &[&str], env: &[(&str, &str)]) -> Run {
    run_reading(folder, Stdio::null(), program, args, env)
}

/// Runs a program through the small process.
pub(crate) fn run_reading(
    folder: &Path,
    stdin: Stdio,
    program: &Path,
    args: &[&str],
    env: &[(&str, &str)],
) -> Run {
    let report = folder.join("report.txt");
    let _ = std::fs::remove_file(&report);
    let status = Command::new(std::env::current_exe().unwrap())
        .arg(COMMAND)
        .arg(&report)
        .arg(program)
        .args(args)
        .current_dir(folder.join("workspace"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LANG", "C.UTF-8")
        .envs(env.iter().copied())
        .stdin(stdin)
        .stdout(File::create(folder.join("stdout.txt")).unwrap())
        .stderr(File::create(folder.join("stderr.txt")).unwrap())
        .status()
        .unwrap();
    assert!(status.success(), "the measuring process failed in {}", folder.display());
    let text = std::fs::read_to_string(&report).unwrap();
    let mut numbers = text.split_whitespace().map(|word| word.parse::<i64>().unwrap());
    let mut next = || numbers.next().unwrap();
    Run {
        started_ns: next(),
        ended_ns: next(),
        cpu_ns: next(),
        peak_bytes: next(),
        code: i32::try_from(next()).unwrap(),
    }
}

/// Is the small process: runs the program and writes the report.
pub(crate) fn run_and_report(args: &[String]) {
    let [report, program, rest @ ..] = args else { panic!("{COMMAND} REPORT PROGRAM ARGS") };
    let started = now_ns();
    let child = Command::new(program).args(rest).spawn().unwrap();
    let (cpu_ns, peak_bytes, code) = wait(child);
    let ended = now_ns();
    std::fs::write(report, format!("{started} {ended} {cpu_ns} {peak_bytes} {code}\n")).unwrap();
}

/// Returns the monotonic clock.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard clock cannot be compared between processes")]
pub(crate) fn now_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live value of the right type.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(result, 0);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// Waits for the child; returns CPU time with that of its own children, peak memory, exit code.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the standard library does not report what a child used")]
#[expect(clippy::needless_pass_by_value, reason = "once waited for, the child is gone")]
fn wait(child: std::process::Child) -> (i64, i64, i32) {
    use std::os::unix::process::ExitStatusExt;
    let pid = i32::try_from(child.id()).unwrap();
    let mut status = 0;
    // SAFETY: all-zero bytes are a valid rusage.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right types; the child is ours.
    let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut used) };
    assert_eq!(waited, pid);
    let ns = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1000;
    let status = std::process::ExitStatus::from_raw(status);
    let cpu = ns(used.ru_utime) + ns(used.ru_stime);
    (cpu, used.ru_maxrss * 1024, status.code().unwrap_or(-1))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn now_ns() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

#[cfg(not(target_os = "linux"))]
fn wait(mut child: std::process::Child) -> (i64, i64, i32) {
    (0, 0, child.wait().unwrap().code().unwrap_or(-1))
}
