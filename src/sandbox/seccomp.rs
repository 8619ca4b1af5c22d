//! seccomp: which system calls a confined command gets.
//!
//! A list of refusals: what bypasses Landlock, what makes namespaces and mounts, what looks
//! into other processes, and the network when it is off. Applied last, by the helper, which
//! has one thread then. Knows nothing of paths.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that no confined command gets, whatever their arguments.
const REFUSED: &[i64] = &[
    // They run other calls where no filter sees them.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // They reach into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    // They change what a path means.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // They talk to the depths of the kernel.
    libc::SYS_bpf,
    libc::SYS_userfaultfd,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_nfsservctl,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
];

/// Flags of `clone` that make a namespace.
const NAMESPACE_FLAGS: [i32; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];

/// `fchmodat2`, the same on every processor; not every version of the C library names it.
const SYS_FCHMODAT2: i64 = 452;

/// The first number of the x32 calls, which are the same calls under other numbers.
const X32_BIT: u32 = 0x4000_0000;

/// Returns whether filters can be built for this processor.
pub(crate) fn is_supported() -> bool {
    TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

/// What sockets a command may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sockets {
    /// Those of the network, and those of any program.
    Open,
    /// Local ones; Landlock keeps them among the command's own processes.
    Local,
    /// Local ones in pairs alone: a connection could be to a program that nothing confines.
    Paired,
}

/// Whose processes a command could name in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of its own namespace.
    OwnProcesses,
    /// All of the system, those of its user among them.
    AllProcesses,
}

/// Filters the system calls of this thread and of what it starts.
pub(crate) fn restrict_calls(sockets: Sockets, reach: Reach) -> Result<(), String> {
    // The C library knows how to do without clone3, whose flags a filter cannot see, and
    // without openat2, whose modes it cannot see; it tells by ENOSYS, and a filter has one
    // answer, so there are two filters.
    let unknown = [libc::SYS_clone3, libc::SYS_openat2].map(|call| (call, Vec::new()));
    let unknown = build_filter(BTreeMap::from(unknown), libc::ENOSYS)?;
    let mut rules = build_rules(sockets).map_err(in_words)?;
    if reach == Reach::AllProcesses {
        rules.extend(build_process_rules().map_err(in_words)?);
    }
    let mut refused = build_filter(rules, libc::EPERM)?;
    refused.splice(0..0, build_x32_guard());
    seccompiler::apply_filter(&unknown).map_err(in_words)?;
    seccompiler::apply_filter(&refused).map_err(in_words)
}

fn in_words(error: impl std::fmt::Display) -> String {
    format!("seccomp: {error}")
}

fn build_filter(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(in_words)?;
    let answer = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, answer, arch)
        .and_then(BpfProgram::try_from)
        .map_err(in_words)
}

/// Returns instructions that refuse all x32 calls: load the number, compare, return ENOSYS.
fn build_x32_guard() -> [sock_filter; 3] {
    let enosys = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    [
        sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        sock_filter { code: 0x35, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: 0x06, jt: 0, jf: 0, k: enosys },
    ]
}

fn build_rules(sockets: Sockets) -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};

    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    let namespaces: Result<Vec<_>, _> = NAMESPACE_FLAGS
        .iter()
        .map(|flag| u64::from(flag.unsigned_abs()))
        .map(|flag| when(&[(0, MaskedEq(flag), flag)]))
        .collect();
    rules.insert(libc::SYS_clone, namespaces?);
    // Plain personality, no address randomisation, and the question which it is.
    let personalities = [(0, Ne, 0), (0, Ne, 0x0004_0000), (0, Ne, 0xffff_ffff)];
    rules.insert(libc::SYS_personality, vec![when(&personalities)?]);
    // They type into a terminal on the user's behalf.
    let typing = vec![when(&[(1, Eq, 0x5412)])?, when(&[(1, Eq, 0x541c)])?];
    rules.insert(libc::SYS_ioctl, typing);
    rules.insert(libc::SYS_socket, build_socket_rules(sockets)?);
    rules.extend(build_mode_rules()?);
    if sockets == Sockets::Paired {
        rules.insert(libc::SYS_connect, Vec::new());
        rules.insert(libc::SYS_socketpair, build_datagram_rules()?);
    }
    Ok(rules)
}

/// Returns rules against programs that run as their owner, whoever starts them: made by root in
/// a workspace, one would be root's outside.
fn build_mode_rules() -> Result<Rules, seccompiler::BackendError> {
    const SET_USER_ID: u64 = 0o4000;
    let calls = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, 1),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, 1),
        (libc::SYS_fchmod, 1),
        (libc::SYS_fchmodat, 2),
        (SYS_FCHMODAT2, 2),
        (libc::SYS_mknodat, 2),
    ];
    let mut rules = Rules::new();
    for (call, argument) in calls {
        let sets = (argument, SeccompCmpOp::MaskedEq(SET_USER_ID), SET_USER_ID);
        rules.insert(call, vec![when(&[sets])?]);
    }
    // Their mode counts only where they make a file; else it is whatever was in the register.
    let creates = u64::from((libc::O_CREAT).unsigned_abs());
    let temporary = u64::from((libc::O_TMPFILE & !libc::O_DIRECTORY).unsigned_abs());
    let opens = [
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, 1),
        (libc::SYS_openat, 2),
    ];
    for (call, flags) in opens {
        let sets = (flags + 1, SeccompCmpOp::MaskedEq(SET_USER_ID), SET_USER_ID);
        let making = |flag| (flags, SeccompCmpOp::MaskedEq(flag), flag);
        rules.insert(
            call,
            vec![when(&[sets.clone(), making(creates)])?, when(&[sets, making(temporary)])?],
        );
    }
    Ok(rules)
}

/// Returns rules against calls that change how other processes run, where a command sees those
/// of its user: each of these may be about the caller alone.
fn build_process_rules() -> Result<Rules, seccompiler::BackendError> {
    use SeccompCmpOp::Ne;

    let mut rules = Rules::new();
    for (call, argument) in [
        (libc::SYS_setpriority, 1),
        (libc::SYS_ioprio_set, 1),
        (libc::SYS_prlimit64, 0),
        (libc::SYS_sched_setaffinity, 0),
        (libc::SYS_sched_setattr, 0),
        (libc::SYS_sched_setparam, 0),
        (libc::SYS_sched_setscheduler, 0),
        (libc::SYS_migrate_pages, 0),
    ] {
        rules.insert(call, vec![when(&[(argument, Ne, 0)])?]);
    }
    // Of all processes of a user, which 0 names as well as a number does.
    let of_user = |number| when(&[(0, SeccompCmpOp::Eq, number)]);
    rules.entry(libc::SYS_setpriority).or_default().push(of_user(2)?);
    rules.entry(libc::SYS_ioprio_set).or_default().push(of_user(3)?);
    Ok(rules)
}

/// Returns rules against local datagram sockets, paired or not: each message may name where it
/// goes, in memory that a filter cannot see. The kernel takes a raw one for the same.
fn build_datagram_rules() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    const TYPE_MASK: u64 = 0xf;
    let datagram = SeccompCmpOp::MaskedEq(TYPE_MASK);
    [libc::SOCK_DGRAM, libc::SOCK_RAW]
        .iter()
        .map(|kind| when(&[(1, datagram.clone(), u64::from(kind.unsigned_abs()))]))
        .collect()
}

fn build_socket_rules(sockets: Sockets) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    use SeccompCmpOp::{Eq, Ne};

    let family = |family: i32| u64::from(family.unsigned_abs());
    let not_local = (0, Ne, family(libc::AF_UNIX));
    match sockets {
        Sockets::Open => {}
        Sockets::Local => return Ok(vec![when(&[not_local])?]),
        Sockets::Paired => {
            let mut rules = build_datagram_rules()?;
            rules.push(when(&[not_local])?);
            return Ok(rules);
        }
    }
    let netlink = family(libc::AF_NETLINK);
    let unknown = [
        not_local,
        (0, Ne, family(libc::AF_INET)),
        (0, Ne, family(libc::AF_INET6)),
        (0, Ne, netlink),
    ];
    // Looking up a name asks for the routes.
    let not_routes = [(0, Eq, netlink), (2, Ne, family(libc::NETLINK_ROUTE))];
    Ok(vec![when(&unknown)?, when(&not_routes)?])
}

fn when(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    conditions
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()
        .and_then(SeccompRule::new)
}
