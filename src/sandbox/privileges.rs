//! What a process gives up for good, and whom it dies with.
//!
//! Plain calls of the kernel on the calling process. Knows no plan. Called by `command.rs`
//! and `init.rs`, in processes with one thread.
#![allow(unsafe_code)]

use std::io;

/// Gains nothing any more from the programs it executes.
pub(crate) fn forgo_new() -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// Is killed when its parent ends.
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) })
}

/// Becomes the one that orphans below it come to.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) })
}

/// Keeps others of the same user from looking into this process.
pub(crate) fn close_to_others() -> io::Result<()> {
    // SAFETY: the call takes plain numbers.
    check(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })
}

/// Drops root's powers, all but the one over file modes where the workspace needs it.
pub(crate) fn drop_capabilities(keep_mode_override: bool) -> io::Result<()> {
    const CAP_DAC_OVERRIDE: u32 = 1;
    const VERSION_3: u32 = 0x2008_0522;
    const NUMBER_MAX: u32 = 63;
    /// Root is no one special, no user id brings powers, and none of it changes: the locked
    /// `NOROOT`, `NO_SETUID_FIXUP`, `KEEP_CAPS` (off) and `NO_CAP_AMBIENT_RAISE`.
    const SECURE_BITS: u32 = 0b1110_1111;
    let kept = if keep_mode_override { 1_u32 << CAP_DAC_OVERRIDE } else { 0 };
    for number in 0..=NUMBER_MAX {
        if number == CAP_DAC_OVERRIDE && keep_mode_override {
            continue;
        }
        // SAFETY: the call takes plain numbers. It fails past the last capability, and for a
        // user who may not, who has none to lose and can gain none.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
    }
    if !keep_mode_override {
        // SAFETY: the call takes plain numbers. A user who may not has no root to be.
        unsafe { libc::prctl(libc::PR_SET_SECUREBITS, SECURE_BITS, 0, 0, 0) };
    }
    // SAFETY: the call takes plain numbers; kernels without ambient sets have none to clear.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let header = [VERSION_3, 0];
    let held = if rustix::process::geteuid().is_root() { kept } else { 0 };
    // Effective, permitted, inheritable, for the lower and the upper 32 numbers.
    let sets = [held, held, 0, 0, 0, 0];
    // SAFETY: the header and the two triples have the layout of version 3.
    let result = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
