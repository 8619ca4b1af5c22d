//! `gimlet sandbox` and `gimlet doctor` as people and scripts use them, and what is left of a
//! session's processes however it ends: nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gimlet::protocol::SandboxLevel;
use gimlet::sandbox::{level, open_at_reduced_level};
use rustix::process::{Pid, Signal};

use crate::support::run::{Ended, House, RUN_AT_MOST, Stdin, run, start};

fn confines() -> bool {
    let (level, reason) = level();
    if level == SandboxLevel::None {
        eprintln!("SKIPPED: {}", reason.unwrap_or_default());
    }
    level != SandboxLevel::None
}

fn has_full_level() -> bool {
    let (level, reason) = level();
    if level != SandboxLevel::Full {
        eprintln!("SKIPPED: no full sandbox here: {}", reason.unwrap_or_default());
    }
    level == SandboxLevel::Full
}

fn sandbox(house: &House, args: &[&str], stdin: Stdin<'_>) -> Ended {
    let args = ["sandbox"].iter().chain(args);
    run(house.command(args), stdin)
}

#[test]
fn a_command_has_our_streams_and_we_have_its_end() {
    if !confines() {
        return;
    }
    let house = House::new();
    let script = "cat; echo wrong >&2; exit 7";
    let ended = sandbox(&house, &["--", "sh", "-c", script], Stdin::Text("through\n"));
    assert_eq!((ended.stdout.as_str(), ended.code), ("through\n", 7), "{ended:?}");
    assert!(ended.stderr.ends_with("wrong\n"), "{ended:?}");
    let killed = sandbox(&house, &["--", "sh", "-c", "kill -9 $$"], Stdin::Nothing);
    assert_eq!(killed.code, 137, "{killed:?}");
    // Options after the program are the program's.
    let ended = sandbox(&house, &["printf", "%s", "--explain"], Stdin::Nothing);
    assert_eq!((ended.stdout.as_str(), ended.code), ("--explain", 0), "{ended:?}");
}

#[test]
fn what_cannot_be_run_has_a_code_of_its_own() {
    if !confines() {
        return;
    }
    let house = House::new();
    fs::write(house.workspace().join("text"), "no program").unwrap();
    for (args, code, said) in [
        (&["--", "no-such-program"][..], 127, "no-such-program: command not found"),
        (&["--", "./text"], 126, "./text: Permission denied"),
        (&["--cwd", "no-such-directory", "--", "true"], 125, "no-such-directory"),
        (&["-c", "sandbox_level_max=none", "--", "true"], 125, "cannot be set up"),
        (&["-c", "sandbox_limits.memory_mib=many", "--", "true"], 125, "sandbox_limits"),
        (&[], 2, "Usage"),
    ] {
        let ended = sandbox(&house, args, Stdin::Nothing);
        assert_eq!(ended.code, code, "{args:?} {ended:?}");
        assert!(ended.stderr.contains(said), "{args:?} {ended:?}");
    }
}

#[test]
fn a_mode_and_a_directory_can_be_chosen() {
    if !confines() {
        return;
    }
    let house = House::new();
    let other = house.root().join("other");
    fs::create_dir(&other).unwrap();
    let there = other.display().to_string();
    let script = "pwd; echo x > f";
    let read = ["--mode", "read-only", "--cwd", &there, "--", "sh", "-c", script];
    let ended = sandbox(&house, &read, Stdin::Nothing);
    assert!(ended.stdout.starts_with(&there) && !other.join("f").exists(), "{ended:?}");
    let write = ["--mode", "workspace-write", "--cwd", &there, "--", "sh", "-c", script];
    assert_eq!(sandbox(&house, &write, Stdin::Nothing).code, 0);
    assert!(other.join("f").exists());
    let free = format!("echo x > {}/free", house.root().display());
    let ended =
        sandbox(&house, &["--mode", "danger-full-access", "--", "sh", "-c", &free], Stdin::Nothing);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(house.root().join("free").exists());
}

#[test]
fn explaining_says_what_would_hold_and_runs_nothing() {
    if !has_full_level() {
        return;
    }
    let house = House::new();
    fs::create_dir_all(house.workspace().join("sub/.git")).unwrap();
    fs::create_dir(house.root().join("home/.ssh")).unwrap();
    let ended = sandbox(&house, &["--explain", "--", "touch", "made"], Stdin::Nothing);
    let root = house.root().display().to_string();
    for said in [
        "namespaces of its own",
        "Landlock",
        "/         read-only, but for:",
        &format!("  {root}/workspace  writable"),
        &format!("  {root}/workspace/sub/.git  read-only"),
        &format!("  {root}/workspace/.codex  read-only"),
        &format!("  {root}/home/.ssh  hidden"),
        "network   closed, but for a loopback of its own",
        "limits    memory ",
    ] {
        assert!(ended.stdout.contains(said), "{said}\n{ended:?}");
    }
    assert!(!house.workspace().join("made").exists());
    assert!(!house.workspace().join(".codex").exists());
    let open = sandbox(&house, &["--explain", "--network", "on", "--", "true"], Stdin::Nothing);
    assert!(open.stdout.contains("network   open"), "{open:?}");
}

#[test]
fn a_limit_ends_a_command_and_is_named() {
    if !confines() {
        return;
    }
    let house = House::new();
    let script = "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; wait";
    let args = ["-c", "sandbox_limits.processes=20", "--", "sh", "-c", script];
    let ended = sandbox(&house, &args, Stdin::Nothing);
    assert_eq!(ended.code, 137, "{ended:?}");
    assert!(ended.stderr.contains("it had more than 20 processes"), "{ended:?}");
}

#[test]
fn an_interrupt_is_the_commands_and_a_second_is_ours() {
    if !confines() {
        return;
    }
    let house = House::new();
    let script = "trap 'echo heard; exit 5' INT; echo > ready; while :; do sleep 0.05; done";
    let command = house.command(["sandbox", "--", "sh", "-c", script]);
    let (running, _) = start(command, Stdin::Nothing);
    wait_for(&house.workspace().join("ready"));
    running.signal(Signal::INT);
    let ended = running.wait();
    assert_eq!((ended.stdout.as_str(), ended.code), ("heard\n", 5), "{ended:?}");
}

#[test]
fn doctor_says_what_holds_here() {
    let house = House::new();
    let plain = house.run(&["doctor"]);
    assert!(plain.stdout.contains("ok    version  gimlet "), "{plain:?}");
    let ended = house.run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let find = |name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["check"] == name).unwrap().clone()
    };
    let (best, _) = level();
    let expected = match best {
        SandboxLevel::Full => "ok",
        SandboxLevel::Reduced => "warning",
        SandboxLevel::None => "failed",
    };
    assert_eq!(find("sandbox")["status"], expected, "{report}");
    assert_eq!(ended.code, i32::from(best == SandboxLevel::None));
    assert_eq!(find("key")["status"], "warning");
    assert_eq!(find("state")["status"], "ok");

    house.write_config("model = 3\n");
    let broken = house.run(&["doctor"]);
    assert!(broken.stdout.contains("FAIL  config"), "{broken:?}");
    assert_eq!(broken.code, 1);
}

#[test]
fn doctor_lists_what_a_reduced_sandbox_leaves_open() {
    if !confines() {
        return;
    }
    let mut house = House::new();
    house.set_env("OPENAI_API_KEY", "sk-never-shown");
    house.write_config("sandbox_level_max = \"reduced\"\n");
    let ended = house.run(&["doctor"]);
    assert!(ended.stdout.contains("note  sandbox  reduced: "), "{ended:?}");
    for clause in open_at_reduced_level() {
        assert!(ended.stdout.contains(clause), "{clause}\n{ended:?}");
    }
    assert!(ended.stdout.contains("from OPENAI_API_KEY"), "{ended:?}");
    assert!(!ended.stdout.contains("never-shown"), "{ended:?}");
    let ended = sandbox(&house, &["--", "true"], Stdin::Nothing);
    assert!(ended.stderr.starts_with("note: reduced sandbox: "), "{ended:?}");
    assert_eq!(ended.code, 0);
}

fn wait_for(path: &Path) {
    let at_most = Instant::now() + RUN_AT_MOST;
    while !path.exists() {
        assert!(Instant::now() < at_most, "{} does not come", path.display());
        std::thread::yield_now();
    }
}

/// Waits until no process has this in its arguments; returns those that do not go.
fn find_survivors(mark: &str) -> Vec<Pid> {
    let at_most = Instant::now() + Duration::from_secs(20);
    loop {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let has = |pid: &i32| {
            let text = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&text).contains(mark)
        };
        let left: Vec<Pid> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
            .filter(has)
            .filter_map(Pid::from_raw)
            .collect();
        if left.is_empty() || Instant::now() > at_most {
            return left;
        }
        std::thread::yield_now();
    }
}

/// How a session is ended.
#[derive(Debug, Clone, Copy)]
enum End {
    By(Signal),
    ByItsTerminal,
}

/// A session that runs a tree of processes: a child, one of another session, one forked twice,
/// one that hears no signals.
fn end_a_session(mode: &str, level_max: &str, end: End, number: usize) {
    let house = House::new();
    let mark = format!("8{:07}{number:03}", std::process::id());
    let tree = format!(
        "sleep {mark} & setsid sleep {mark} & (setsid sh -c 'sleep {mark} & exit' &)\n\
         setsid sh -c 'trap \"\" TERM HUP INT; sleep {mark}' &\n\
         echo > ready; sleep {mark}"
    );
    let call = serde_json::json!({"call": {"name": "exec_command", "arguments": {"cmd": tree}}});
    let script = house.root().join("script.jsonl");
    fs::write(&script, format!("{call}\n{{\"end\": {{}}}}\n")).unwrap();
    let script = script.display().to_string();
    let (mode, level) =
        (format!("sandbox_mode=\"{mode}\""), format!("sandbox_level_max=\"{level_max}\""));
    let args = [
        "exec",
        "--driver",
        "fake",
        "--script",
        &script,
        "-c",
        &mode,
        "-c",
        &level,
        "-c",
        "approval_policy=\"never\"",
        "go",
    ];
    let ready = house.workspace().join("ready");
    match end {
        End::By(signal) => {
            let (running, _) = start(house.command(args), Stdin::Nothing);
            wait_for(&ready);
            running.signal(signal);
            let ended = running.wait();
            assert!(!ended.hung, "{mode} {end:?} {ended:?}");
        }
        End::ByItsTerminal => {
            let (terminal, name) = open_terminal();
            let side = || File::options().read(true).write(true).open(&name).unwrap();
            let usual = house.command(args);
            let mut command = Command::new("setsid");
            command.arg("--ctty").arg(usual.get_program()).args(usual.get_args());
            command.current_dir(house.workspace()).env_clear();
            command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.stdin(side()).stdout(Stdio::null()).stderr(Stdio::null());
            let Ok(mut child) = command.spawn() else {
                eprintln!("SKIPPED: there is no setsid");
                return;
            };
            wait_for(&ready);
            drop(terminal);
            child.wait().unwrap();
        }
    }
    let left = find_survivors(&mark);
    for pid in &left {
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
    assert!(left.is_empty(), "{mode} {level} {end:?}: {left:?}");
}

fn open_terminal() -> (std::os::fd::OwnedFd, PathBuf) {
    use std::os::unix::ffi::OsStringExt;
    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let terminal = rustix::pty::openpt(flags | rustix::pty::OpenptFlags::CLOEXEC).unwrap();
    rustix::pty::grantpt(&terminal).unwrap();
    rustix::pty::unlockpt(&terminal).unwrap();
    let name = rustix::pty::ptsname(&terminal, Vec::new()).unwrap();
    (terminal, std::ffi::OsString::from_vec(name.into_bytes()).into())
}

#[test]
fn no_process_outlives_its_session() {
    let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL].map(End::By);
    let ends: Vec<End> = ends.into_iter().chain([End::ByItsTerminal]).collect();
    let mut settings = vec![("danger-full-access", "full")];
    if confines() {
        settings.extend([("workspace-write", "full"), ("workspace-write", "reduced")]);
    }
    std::thread::scope(|scope| {
        for (place, (mode, level)) in settings.iter().enumerate() {
            let ends = &ends;
            scope.spawn(move || {
                for (number, end) in ends.iter().enumerate() {
                    end_a_session(mode, level, *end, place * ends.len() + number);
                }
            });
        }
    });
}

#[test]
fn a_home_that_is_the_workspace_keeps_its_secrets_and_what_is_gimlets() {
    if !has_full_level() {
        return;
    }
    let house = House::new();
    // Where the program looks without GIMLET_HOME.
    let home = house.workspace();
    for directory in [".local/state/gimlet", ".config/gh", ".cache"] {
        fs::create_dir_all(home.join(directory)).unwrap();
    }
    fs::write(home.join(".config/gh/hosts.yml"), "oauth_token: hidden-words").unwrap();
    let play = |script: &str| {
        let mut command = house.command(["sandbox", "--", "sh", "-c", script]);
        command.env_remove("GIMLET_HOME").env("HOME", &home);
        run(command, Stdin::Nothing)
    };
    for script in [
        "mv .local .moved",
        "mv .local/state .moved",
        "mv .config .moved",
        // None that is not there can be made, either.
        "mkdir .config/gimlet && echo '[[rule]]' > .config/gimlet/rules.toml",
        "cat .config/gh/hosts.yml",
    ] {
        let ended = play(script);
        assert_ne!(ended.code, 0, "{script}: {ended:?}");
        assert!(!ended.stdout.contains("hidden-words"), "{script}: {ended:?}");
    }
    let ended = play("mv .cache .moved && echo x > .config/new && mv .moved .cache");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(!home.join(".config/gimlet").exists());
}
