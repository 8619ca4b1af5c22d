//! The sandbox for real: this kernel, this binary as the helper.
//!
//! What the kernel cannot do is said with `SKIPPED: why`, never passed over in silence.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gimlet::protocol::{GitAccess, Network, Pattern, SandboxLevel, SandboxMode, SandboxPolicy};
use gimlet::sandbox::{
    CommandEnd, CommandRunner, ExecRequest, ExecResult, ExitState, LimitHit, LocalRunner,
    OUTPUT_BYTES_MAX, ResourceKind, ResourceLimits, RunLimits, RunnerSettings, SandboxError, level,
    likely_denied, run,
};
use tokio_util::sync::CancellationToken;

use crate::support::run::{
    Ended, House, Stdin, closed_directory, copy_program, run as run_program,
};

/// Long enough that a test which reaches it has failed.
const LONG: Duration = Duration::from_secs(60);

struct Bench {
    directory: tempfile::TempDir,
}

impl Bench {
    /// Makes a workspace, with a place outside beside it. Not below `/tmp`, which is writable.
    fn new() -> Self {
        let directory = tempfile::tempdir_in(closed_directory()).unwrap();
        fs::create_dir(directory.path().join("work")).unwrap();
        fs::create_dir(directory.path().join("outside")).unwrap();
        fs::write(directory.path().join("outside/secret"), "hidden words").unwrap();
        Self { directory }
    }

    fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    fn policy(&self, mode: SandboxMode) -> SandboxPolicy {
        SandboxPolicy {
            mode,
            roots: vec![self.work()],
            network: Network::Off,
            deny_read: Vec::new(),
            deny_write: Vec::new(),
            git: GitAccess::Ask,
            tmp: false,
        }
    }

    fn request(&self, script: &str, sandbox: Option<SandboxPolicy>) -> ExecRequest {
        ExecRequest {
            argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()],
            cwd: self.work(),
            env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
            sandbox,
            attempts: None,
        }
    }

    fn confined(&self, script: &str) -> ExecResult {
        let policy = self.policy(SandboxMode::WorkspaceWrite);
        run_within(self.request(script, Some(policy)), LONG).unwrap()
    }

    fn free(&self, script: &str) -> ExecResult {
        run_within(self.request(script, None), LONG).unwrap()
    }
}

fn run_within(request: ExecRequest, timeout: Duration) -> Result<ExecResult, SandboxError> {
    run_with(request, timeout, &CancellationToken::new(), &mut |_| {})
}

/// Runs a command where no more than a level is made use of.
fn run_at(level_max: SandboxLevel, request: ExecRequest) -> ExecResult {
    run_bounded(request, RunnerSettings { level_max, ..RunnerSettings::default() }).unwrap()
}

fn run_bounded(request: ExecRequest, settings: RunnerSettings) -> Result<ExecResult, SandboxError> {
    let runner = LocalRunner::with(helper(), settings);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = RunLimits { timeout: LONG };
    runtime.block_on(run(&runner, request, limits, &CancellationToken::new(), &mut |_| {}))
}

fn helper() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_gimlet"))
}

/// Returns the levels that this machine has, but none.
fn levels() -> Vec<SandboxLevel> {
    let (best, reason) = level();
    if best < SandboxLevel::Full {
        eprintln!("SKIPPED: no full sandbox here: {}", reason.unwrap_or_default());
    }
    [SandboxLevel::Full, SandboxLevel::Reduced].into_iter().filter(|it| *it <= best).collect()
}

fn report_at(level_max: SandboxLevel, policy: &SandboxPolicy) -> Option<String> {
    let settings = RunnerSettings { level_max, ..RunnerSettings::default() };
    LocalRunner::with(helper(), settings).level_under(policy, &[]).reason
}

fn run_with(
    request: ExecRequest,
    timeout: Duration,
    cancel: &CancellationToken,
    on_output: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<ExecResult, SandboxError> {
    let runner = LocalRunner::new(helper());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(&runner, request, RunLimits { timeout }, cancel, on_output))
}

fn text(result: &ExecResult) -> String {
    String::from_utf8_lossy(&result.output).into_owned()
}

fn exited(code: i32) -> CommandEnd {
    CommandEnd::Exited(ExitState { code: Some(code), signal: None })
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn can_confine() -> bool {
    let (level, reason) = level();
    if level == SandboxLevel::None {
        eprintln!("SKIPPED: {}", reason.unwrap_or_default());
    }
    level != SandboxLevel::None
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn the_workspace_can_be_written_and_the_rest_only_read() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    let outside = bench.outside();
    let script = format!(
        "mkdir d && echo in > d/f && mv d/f g && cat g && cat {0}/secret && echo x > /dev/null\n\
         echo out > {0}/new; echo out >> {0}/secret; rm {0}/secret; mv {0}/secret stolen; true",
        outside.display()
    );
    let result = bench.confined(&script);
    assert_eq!(result.end, exited(0), "{}", text(&result));
    assert!(text(&result).starts_with("in\nhidden words"), "{}", text(&result));
    assert!(!outside.join("new").exists());
    assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "hidden words");
}

#[test]
fn read_only_writes_nothing() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    let policy = bench.policy(SandboxMode::ReadOnly);
    let result = run_within(bench.request("ls / >/dev/null && echo x > f", Some(policy)), LONG);
    let result = result.unwrap();
    assert_ne!(result.end, exited(0));
    assert!(likely_denied(&result), "{}", text(&result));
    assert!(!bench.work().join("f").exists());
}

#[test]
fn a_hidden_path_cannot_be_read() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    fs::write(bench.work().join("open"), "open words").unwrap();
    std::os::unix::fs::symlink(bench.outside(), bench.directory.path().join("link")).unwrap();
    let mut policy = bench.policy(SandboxMode::WorkspaceWrite);
    policy.deny_read = vec![Pattern(bench.outside().display().to_string())];
    let script = "cat open; echo new > new; cat new; cat ../outside/secret ../link/secret; \
                  cat /proc/self/root/$PWD/../outside/secret; ls / | grep -c usr";
    let result = run_within(bench.request(script, Some(policy)), LONG).unwrap();
    let text = text(&result);
    assert!(text.starts_with("open words"), "{text}");
    assert!(text.contains("new\n"), "{text}");
    assert!(!text.contains("hidden words"), "{text}");
    assert_eq!(text.matches("Permission denied").count(), 3, "{text}");
    assert_eq!(result.end, exited(0), "{text}");
}

#[test]
fn the_network_is_closed_unless_opened() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for level in levels() {
        let bench = Bench::new();
        let mut request = bench.request("", Some(bench.policy(SandboxMode::WorkspaceWrite)));
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached");
        request.argv = vec!["bash".to_owned(), "-c".to_owned(), script];
        let closed = run_at(level, request.clone());
        assert_ne!(closed.end, exited(0), "{level:?}");
        request.sandbox.as_mut().unwrap().network = Network::On;
        assert_eq!(text(&run_at(level, request)), "reached\n", "{level:?}");
    }
}

#[test]
fn a_private_network_has_a_loopback_that_programs_listen_on() {
    if !levels().contains(&SandboxLevel::Full) {
        return;
    }
    let bench = Bench::new();
    let script = r#"use Socket;
        socket(my $l, PF_INET, SOCK_STREAM, 0) or die "socket $!";
        bind($l, sockaddr_in(0, INADDR_LOOPBACK)) or die "bind $!"; listen($l, 1) or die;
        socket(my $c, PF_INET, SOCK_STREAM, 0) or die;
        connect($c, getsockname($l)) or die "connect $!"; print "connected\n";
        socket(my $u, AF_UNIX, SOCK_STREAM, 0); bind($u, sockaddr_un("u")); listen($u, 1);
        socket(my $v, AF_UNIX, SOCK_STREAM, 0); connect($v, sockaddr_un("u")) or die "unix $!";
        print "locally, too\n";"#;
    let policy = bench.policy(SandboxMode::WorkspaceWrite);
    let mut request = bench.request("", Some(policy));
    request.argv = ["perl", "-e", script].map(str::to_owned).to_vec();
    match run_within(request, LONG) {
        Err(SandboxError::NotFound { .. }) => eprintln!("SKIPPED: there is no perl"),
        result => assert_eq!(text(&result.unwrap()), "connected\nlocally, too\n"),
    }
}

/// A program outside that listens, as tmux and docker do, and a command that speaks to it.
fn speaks_to_a_listener(
    level: SandboxLevel,
    network: Network,
    mode: SandboxMode,
) -> Option<String> {
    let bench = Bench::new();
    let socket = bench.work().join("s");
    let datagrams = bench.work().join("d");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let datagram = std::os::unix::net::UnixDatagram::bind(&datagrams).unwrap();
    datagram.set_nonblocking(true).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut policy = bench.policy(mode);
    policy.network = network;
    let mut request = bench.request("", Some(policy));
    let script = r#"use Socket; my $to;
        socket($a, AF_UNIX, SOCK_STREAM, 0) or print "no stream\n";
        connect($a, sockaddr_un("s")) or print "no connection: $!\n";
        socket($b, AF_UNIX, SOCK_DGRAM, 0) && send($b, "hi", 0, sockaddr_un("d")) or print "no datagram\n";
        socketpair($c, $d, AF_UNIX, SOCK_DGRAM, 0) && send($c, "hi", 0, sockaddr_un("d")) or print "no pair of datagrams\n";
        socketpair($e, $f, AF_UNIX, SOCK_STREAM, 0) && syswrite($e, "hi") && print "a pair\n";
        socket($g, AF_UNIX, SOCK_STREAM, 0); unlink "t"; bind($g, sockaddr_un("t")) && listen($g, 1) && print "listening\n";"#;
    request.argv = ["perl", "-e", script].map(str::to_owned).to_vec();
    let settings = RunnerSettings { level_max: level, ..RunnerSettings::default() };
    let said = match run_bounded(request, settings) {
        Err(SandboxError::NotFound { .. }) => return None,
        result => text(&result.unwrap()),
    };
    let connected = if listener.accept().is_ok() { "connected\n" } else { "" };
    let got = if datagram.recv(&mut [0; 8]).is_ok() { "got a datagram\n" } else { "" };
    Some(format!("{said}{connected}{got}"))
}

#[test]
fn other_programs_sockets_are_out_of_reach() {
    use SandboxMode::{ReadOnly, WorkspaceWrite};
    for level in levels() {
        let is_full = level == SandboxLevel::Full;
        for (network, mode) in [
            (Network::Off, ReadOnly),
            (Network::Off, WorkspaceWrite),
            (Network::On, WorkspaceWrite),
        ] {
            let is_open = network == Network::On && !is_full;
            let Some(said) = speaks_to_a_listener(level, network, mode) else {
                eprintln!("SKIPPED: there is no perl");
                return;
            };
            let reached = said.contains("connected") || said.contains("got");
            assert_eq!(reached, is_open, "{level:?} {mode:?} {said}");
            assert_eq!(said.contains("no connection: "), !is_open, "{level:?} {mode:?} {said}");
            assert!(said.contains("a pair\n"), "{said}");
            let may_bind = mode == WorkspaceWrite;
            assert_eq!(said.contains("listening\n"), may_bind, "{said}");
        }
        let policy = Bench::new().policy(WorkspaceWrite);
        let policy = SandboxPolicy { network: Network::On, ..policy };
        let reason = report_at(level, &policy);
        let is_told = reason.is_some_and(|reason| reason.contains("sockets of other programs"));
        assert_eq!(is_told, !is_full);
    }
}

#[test]
fn shared_memory_and_terminals_are_a_commands_own_or_nobodys() {
    let file = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
    let script = format!("echo mine > {}; exec 3<>/dev/ptmx", file.path().display());
    for level in levels() {
        for mode in [SandboxMode::ReadOnly, SandboxMode::WorkspaceWrite] {
            fs::write(file.path(), "theirs").unwrap();
            let bench = Bench::new();
            let result = run_at(level, bench.request(&script, Some(bench.policy(mode))));
            let is_kept = fs::read_to_string(file.path()).unwrap() == "theirs";
            let is_full = level == SandboxLevel::Full;
            let told = format!("{level:?} {mode:?} {}", text(&result));
            assert_eq!(is_kept, is_full || mode == SandboxMode::ReadOnly, "{told}");
            assert_eq!(text(&result).contains("/dev/ptmx"), !is_full, "{told}");
        }
    }
}

#[test]
fn a_hidden_path_below_a_root_is_hidden_or_told_and_breaks_nothing() {
    for level in levels() {
        let bench = Bench::new();
        let secret = bench.work().join("secret");
        fs::write(&secret, "hidden words").unwrap();
        fs::write(bench.work().join("secret.other"), "hidden words").unwrap();
        let mut policy = bench.policy(SandboxMode::WorkspaceWrite);
        policy.deny_read = vec![
            Pattern(secret.display().to_string()),
            Pattern(bench.work().join("*.other").display().to_string()),
        ];
        let script = "cat secret secret.other; echo hi > n && cat n";
        let said = text(&run_at(level, bench.request(script, Some(policy.clone()))));
        assert!(said.ends_with("hi\n"), "{said}");
        let is_full = level == SandboxLevel::Full;
        assert_eq!(said.contains("hidden words"), !is_full, "{said}");
        policy.deny_write = vec![bench.work()];
        let reason = report_at(level, &policy).unwrap_or_default();
        for told in [
            "can read what lies inside a writable root: ",
            "work/secret, ",
            "secret.other",
            "can change what lies inside a writable root: ",
        ] {
            assert_eq!(reason.contains(told), !is_full, "{reason}");
        }

        policy.mode = SandboxMode::ReadOnly;
        let script = "cat secret secret.other; echo x > /dev/null";
        let result = run_at(level, bench.request(script, Some(policy.clone())));
        assert_eq!(text(&result).matches("Permission denied").count(), 2, "{}", text(&result));
        assert!(!report_at(level, &policy).unwrap_or_default().contains("writable root"));
    }
}

/// Returns every name below a directory.
fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn mount_points_are_taken_away_again() {
    let bench = Bench::new();
    let script = "mkdir .git/made; mkdir .codex/made; ls .git .codex; sleep 1000";
    let policy = bench.policy(SandboxMode::WorkspaceWrite);
    // Two at once, one of which ends early: the other is protected to its end.
    let both = std::thread::scope(|scope| {
        let early = scope
            .spawn(|| run_within(bench.request("true", Some(policy.clone())), LONG).unwrap().end);
        let request = bench.request(script, Some(policy.clone()));
        let late = run_within(request, Duration::from_secs(1)).unwrap();
        (early.join().unwrap(), text(&late))
    });
    assert_eq!(both.0, exited(0));
    assert!(!both.1.contains("made\n"), "{}", both.1);
    assert!(names(&bench.work()).is_empty(), "{:?}", names(&bench.work()));
}

#[test]
fn an_open_repository_takes_commits_and_no_hooks() {
    if !levels().contains(&SandboxLevel::Full) {
        return;
    }
    let bench = Bench::new();
    let mut policy = bench.policy(SandboxMode::WorkspaceWrite);
    let mut request = bench.request("git init -q .", None);
    request.env.push(("HOME".to_owned(), bench.outside().display().to_string()));
    if run_within(request, LONG).unwrap().end != exited(0) {
        eprintln!("SKIPPED: there is no git");
        return;
    }
    policy.git = GitAccess::Allow;
    let script = "git add -A . ; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m m; \
        git log --format=%s; echo x > .git/hooks/pre-commit; git config core.pager x; \
        mkdir -p .git/info; echo x > .git/info/attributes; true";
    let result = run_within(bench.request(script, Some(policy)), LONG).unwrap();
    assert!(text(&result).contains("m\n"), "{}", text(&result));
    assert!(!bench.work().join(".git/hooks/pre-commit").exists());
    assert!(!bench.work().join(".git/info/attributes").exists());
    let config = fs::read_to_string(bench.work().join(".git/config")).unwrap();
    assert!(!config.contains("pager"), "{config}");
}

#[test]
fn each_session_has_a_tmp_of_its_own_that_its_commands_share() {
    if !levels().contains(&SandboxLevel::Full) {
        return;
    }
    let bench = Bench::new();
    let mut policy = bench.policy(SandboxMode::WorkspaceWrite);
    policy.tmp = true;
    let runner = LocalRunner::new(helper());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let play = |script: &str, runner: &LocalRunner| {
        let request = bench.request(script, Some(policy.clone()));
        let (limits, cancel) = (RunLimits { timeout: LONG }, CancellationToken::new());
        text(&runtime.block_on(run(runner, request, limits, &cancel, &mut |_| {})).unwrap())
    };
    assert_eq!(play("echo kept > $TMPDIR/f; stat -c %a /tmp", &runner), "700\n");
    assert_eq!(play("cat /tmp/f", &runner), "kept\n");
    assert!(!play("cat /tmp/f", &LocalRunner::new(helper())).contains("kept"));
    assert!(!Path::new("/tmp/f").exists());
}

fn bounded(limits: ResourceLimits) -> RunnerSettings {
    RunnerSettings { limits, ..RunnerSettings::default() }
}

#[test]
fn what_uses_up_too_much_is_stopped_and_told() {
    let bench = Bench::new();
    let none = ResourceLimits::NONE;
    let memory = ResourceLimits { memory_bytes_max: Some(64 << 20), ..none };
    let processes = ResourceLimits { processes_max: Some(64), ..none };
    let output = ResourceLimits { output_bytes_max: Some(8 << 20), ..none };
    // Each of three takes less than the bound, all together more; a shell that went on as its
    // last command would give it back.
    let grow = "for i in 1 2 3; do (v=$(head -c 30000000 /dev/zero | tr '\\0' x); sleep 1000; :) & done; wait";
    // Ended by its bound, whatever it is; a bomb that nothing stopped would grow no further.
    let bomb = "i=0; while [ $i -lt 200 ]; do sleep 1000 & i=$((i+1)); done; wait";
    for (limits, kind, value, script) in [
        (memory, ResourceKind::Memory, 64 << 20, grow),
        (processes, ResourceKind::Processes, 64, bomb),
        (output, ResourceKind::Output, 8 << 20, "yes"),
    ] {
        for level_max in levels() {
            let policy = bench.policy(SandboxMode::WorkspaceWrite);
            let settings = RunnerSettings { level_max, ..bounded(limits) };
            let result = run_bounded(bench.request(script, Some(policy)), settings).unwrap();
            let hit = LimitHit { kind, value };
            assert_eq!(
                result.end,
                CommandEnd::LimitReached(hit),
                "{level_max:?} {}",
                text(&result)
            );
        }
    }
}

#[test]
fn one_process_that_takes_too_much_at_once_gets_nothing() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    let limits = ResourceLimits {
        memory_bytes_max: Some(64 << 20),
        disk_bytes_max: Some(1 << 20),
        open_files_max: Some(32),
        ..ResourceLimits::NONE
    };
    let policy = bench.policy(SandboxMode::WorkspaceWrite);
    let script = "perl -e 'my $x = \"x\" x (1 << 30); print \"got it\\n\"'; \
        head -c 2000000 /dev/zero > big; stat -c %s big; ulimit -n";
    let result = run_bounded(bench.request(script, Some(policy)), bounded(limits)).unwrap();
    let said = text(&result);
    assert!(!said.contains("got it"), "{said}");
    assert!(said.contains("1048576\n32\n"), "{said}");
}

#[test]
fn a_killed_supervisor_leaves_nothing_behind() {
    let bench = Bench::new();
    let script = "setsid sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000' &\n\
                  while [ ! -e pid ]; do :; done; kill -9 $PPID; sleep 1000";
    let result = run_within(bench.request(script, None), LONG);
    assert_eq!(result, Err(SandboxError::SupervisorKilled));
    assert!(!is_alive(&bench.work().join("pid")));
}

#[test]
fn the_helper_has_nothing_of_the_commands_environment() {
    let bench = Bench::new();
    // What the dynamic linker says of a library that is not there comes out of the helper first.
    let mut request = bench.request("cat /proc/$PPID/environ; echo end", None);
    request.env.push(("LD_PRELOAD".to_owned(), "/nowhere.so".to_owned()));
    request.env.push(("MARK".to_owned(), "1".to_owned()));
    let result = run_within(request, LONG).unwrap();
    assert!(!text(&result).contains("MARK"), "{}", text(&result));
    assert!(text(&result).ends_with("end\n"), "{}", text(&result));
}

/// Has a scripted model run commands, by a program at a place of the caller's choice.
fn play(house: &House, program: &Path, commands: &[&str], flags: &[&str]) -> Ended {
    let mut text = String::new();
    for command in commands {
        let arguments = serde_json::json!({ "cmd": command });
        let call =
            serde_json::json!({ "call": { "name": "exec_command", "arguments": arguments } });
        text.push_str(&format!("{call}\n{{\"end\": {{}}}}\n"));
    }
    text.push_str("{\"say\": \"done\"}\n{\"end\": {}}\n");
    let script = house.root().join("script.jsonl");
    fs::write(&script, text).unwrap();
    let script = script.display().to_string();
    let usual = house.command(["exec", "--driver", "fake", "--script", &script, "--json"]);
    let mut command = std::process::Command::new(program);
    command.args(usual.get_args()).args(flags).arg("go");
    command.current_dir(house.workspace()).env_clear();
    command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run_program(command, Stdin::Nothing)
}

#[test]
fn what_git_is_made_to_run_only_reads() {
    if !can_confine() {
        return;
    }
    let house = House::new();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(arguments).current_dir(house.workspace()).env("HOME", house.root());
        command.output()
    };
    if git(&["init", "-q"]).is_err() {
        eprintln!("SKIPPED: there is no git");
        return;
    }
    let monitor = house.workspace().join("monitor");
    fs::write(&monitor, "#!/bin/sh\necho seen >&2\necho out > written\n").unwrap();
    fs::set_permissions(&monitor, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    git(&["config", "core.fsmonitor", &monitor.display().to_string()]).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_gimlet"));
    for mode in ["workspace-write", "danger-full-access"] {
        let mode = format!("sandbox_mode=\"{mode}\"");
        let flags = ["-c", "approval_policy=\"untrusted\"", "-c", &mode];
        let ended = play(&house, program, &["git status --short"], &flags);
        assert!(ended.stdout.contains("?? monitor"), "{mode}: {ended:?}");
        assert!(!house.workspace().join("written").exists(), "{mode}: {ended:?}");
    }
}

#[test]
fn a_replaced_program_is_not_started_as_the_helper() {
    if !can_confine() {
        return;
    }
    let house = House::new();
    let program = house.workspace().join("tool");
    copy_program(&helper(), &house.workspace());
    fs::rename(house.workspace().join("gimlet"), &program).unwrap();
    let marker = house.root().join("escaped");
    fs::write(
        house.workspace().join("evil"),
        format!("#!/bin/sh\necho out > '{}'\n", marker.display()),
    )
    .unwrap();
    let replace = "chmod +x evil && mv -f evil tool && head -c 9 tool";
    let ended = play(&house, &program, &[replace, "echo inside; echo out > ../escaped"], &[]);
    assert!(ended.stdout.contains("#!/bin/sh"), "it was not replaced: {ended:?}");
    assert!(ended.stdout.contains("inside"), "{ended:?}");
    assert!(!marker.exists(), "{ended:?}");
}

#[test]
fn dangerous_calls_are_refused() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    let result = bench.confined(
        "unshare -U true || echo refused; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status",
    );
    let text = text(&result);
    assert!(text.contains("refused"), "{text}");
    assert!(text.contains("CapEff:\t0000000000000000"), "{text}");
    assert!(text.contains("NoNewPrivs:\t1"), "{text}");
    assert!(text.contains("Seccomp:\t2"), "{text}");
}

#[test]
fn the_supervisor_is_out_of_reach() {
    if !can_confine() {
        return;
    }
    let bench = Bench::new();
    let result = bench.confined("cat /proc/$PPID/environ; kill -0 $PPID; echo $?");
    assert!(!text(&result).ends_with("\n0\n"), "{}", text(&result));
}

#[test]
fn ends_are_exact() {
    let bench = Bench::new();
    assert_eq!(bench.free("exit 37").end, exited(37));
    let killed = ExitState { code: None, signal: Some(9) };
    assert_eq!(bench.free("kill -9 $$").end, CommandEnd::Exited(killed));
    assert_eq!(bench.free("trap '' PIPE; true").end, exited(0));
}

#[test]
fn both_streams_come_in_order_and_live() {
    let bench = Bench::new();
    let mut seen = Vec::new();
    let request = bench.request("echo 1; echo 2 >&2; echo 3; echo 4 >&2", None);
    let result = run_with(request, LONG, &CancellationToken::new(), &mut |piece| {
        seen.extend_from_slice(piece);
    });
    assert_eq!(text(&result.unwrap()), "1\n2\n3\n4\n");
    assert_eq!(seen, b"1\n2\n3\n4\n");
}

#[test]
fn endless_output_is_bounded() {
    let bench = Bench::new();
    let result = bench.free("head -c 5000000 /dev/zero; echo end");
    assert_eq!(result.output.len(), OUTPUT_BYTES_MAX);
    assert_eq!(result.omitted_bytes, 5_000_004 - OUTPUT_BYTES_MAX as u64);
    assert!(result.output.ends_with(b"end\n"));
}

#[test]
fn a_timeout_kills_all_that_was_started() {
    let bench = Bench::new();
    // One that left the session and its parent, and that does not listen to SIGTERM.
    let script = "(setsid sh -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 0.1; done' &)\n\
                  while [ ! -s daemon ]; do :; done; sleep 1000";
    let result = run_within(bench.request(script, None), Duration::from_secs(1)).unwrap();
    assert_eq!(result.end, CommandEnd::TimedOut);
    assert!(!is_alive(&bench.work().join("daemon")));
}

#[test]
fn a_background_child_neither_blocks_nor_survives() {
    let bench = Bench::new();
    let result = bench.free("setsid sleep 1000 & echo $! > background; echo done");
    assert_eq!(result.end, exited(0));
    assert_eq!(text(&result), "done\n");
    assert!(result.duration < LONG);
    assert!(!is_alive(&bench.work().join("background")));
}

#[test]
fn a_cancelled_command_is_killed() {
    let bench = Bench::new();
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let request = bench.request("echo $$ > pid; echo ready; sleep 1000", None);
    let result = run_with(request, LONG, &cancel, &mut |_| stop.cancel()).unwrap();
    assert_eq!(result.end, CommandEnd::Interrupted);
    assert_eq!(text(&result), "ready\n");
    assert!(!is_alive(&bench.work().join("pid")));
}

#[test]
fn a_dropped_command_is_killed() {
    let bench = Bench::new();
    let runner = LocalRunner::new(PathBuf::from(env!("CARGO_BIN_EXE_gimlet")));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let request = bench.request("echo $$ > pid; echo ready; sleep 1000", None);
    let pid = bench.work().join("pid");
    runtime.block_on(async {
        use tokio::io::AsyncReadExt;
        let mut process = runner.spawn(request).unwrap();
        let mut ready = [0; 6];
        process.output.read_exact(&mut ready).await.unwrap();
        drop(process.control);
        // The stream ends when all that could write to it have closed it, which the kernel
        // does a moment before it calls them dead.
        assert_eq!(process.output.read(&mut ready).await.unwrap(), 0);
    });
    let at_most = std::time::Instant::now() + LONG;
    while is_alive(&pid) && std::time::Instant::now() < at_most {
        std::thread::yield_now();
    }
    assert!(!is_alive(&pid));
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let bench = Bench::new();
    let mut request = bench.request("", None);
    request.argv = vec!["env".to_owned()];
    request.env.push(("A".to_owned(), "1 =2".to_owned()));
    let path = std::env::var("PATH").unwrap();
    let result = run_within(request, LONG).unwrap();
    let mut lines: Vec<String> = text(&result).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["A=1 =2".to_owned(), format!("PATH={path}")]);
}

#[test]
fn a_command_holds_no_descriptor_but_its_streams() {
    let bench = Bench::new();
    let result = bench.confined("ls /proc/self/fd; cat; tty");
    // 3 is the directory that `ls` reads.
    assert_eq!(text(&result), "0\n1\n2\n3\nnot a tty\n");
}

#[test]
fn what_cannot_start_says_why() {
    let bench = Bench::new();
    let mut request = bench.request("", None);
    request.argv = vec!["no-such-program".to_owned(), "x".to_owned()];
    let error = run_within(request.clone(), LONG).unwrap_err();
    assert_eq!(error.to_string(), "no-such-program: command not found");

    request.argv = vec![bench.outside().join("secret").display().to_string()];
    let error = run_within(request.clone(), LONG).unwrap_err();
    assert!(error.to_string().ends_with("secret: Permission denied"), "{error}");

    request.cwd = bench.work().join("missing");
    let error = run_within(request, LONG).unwrap_err();
    assert!(matches!(error, SandboxError::BadDirectory { .. }), "{error}");
    assert!(error.to_string().ends_with("No such file or directory"), "{error}");
}

#[test]
fn a_helper_that_is_none_is_an_error() {
    let bench = Bench::new();
    let runner = LocalRunner::new(PathBuf::from("/bin/true"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limits = RunLimits { timeout: LONG };
    let request = bench.request("true", Some(bench.policy(SandboxMode::ReadOnly)));
    let cancel = CancellationToken::new();
    let result = runtime.block_on(run(&runner, request, limits, &cancel, &mut |_| {}));
    assert!(matches!(result, Err(SandboxError::Spawn(_))), "{result:?}");
}
