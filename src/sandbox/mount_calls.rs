//! The mount calls of the kernel, as safe functions over paths.
//!
//! Knows no plan and decides nothing. Each is one system call, so that what `namespaces.rs`
//! does costs what it says; none may be called before this process has a mount namespace of
//! its own.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Writes fail.
pub(crate) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
/// Programs gain nothing by who owns them, and device files are only names.
pub(crate) const TAMED: u64 = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;

/// What `mount_setattr` reads.
#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// How much of a tree a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// One mount.
    One,
    /// It and all mounts below it.
    All,
}

/// Cuts this mount namespace off from what others mount and unmount.
pub(crate) fn make_private() -> io::Result<()> {
    let flags = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the target is a text that ends in NUL; the other pointers may be null here.
    check(unsafe {
        libc::mount(std::ptr::null(), c"/".as_ptr(), std::ptr::null(), flags, std::ptr::null())
    })
}

/// Mounts a new file system of a kind.
pub(crate) fn mount_new(
    kind: &CStr,
    at: &Path,
    flags: libc::c_ulong,
    options: &str,
) -> io::Result<()> {
    let (at, options) = (to_text(at)?, CString::new(options)?);
    // SAFETY: all four are texts that end in NUL and live until the call returns.
    check(unsafe {
        libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast())
    })
}

/// Returns a copy of what lies at a path with all mounts below it, mounted nowhere yet. Of a
/// symbolic link it is the link itself.
pub(crate) fn copy_tree(path: &Path) -> io::Result<OwnedFd> {
    const RECURSIVE: libc::c_uint = 0x8000;
    open_tree(libc::AT_FDCWD, &to_text(path)?, RECURSIVE | libc::AT_SYMLINK_NOFOLLOW.unsigned_abs())
}

/// Returns a copy of an open place, mounted nowhere yet.
pub(crate) fn copy_open(place: &OwnedFd) -> io::Result<OwnedFd> {
    open_tree(place.as_raw_fd(), c"", libc::AT_EMPTY_PATH.unsigned_abs())
}

fn open_tree(at: libc::c_int, path: &CStr, flags: libc::c_uint) -> io::Result<OwnedFd> {
    const CLONE: libc::c_uint = 1;
    let flags = flags | CLONE | libc::O_CLOEXEC.unsigned_abs();
    // SAFETY: the path is a text that ends in NUL and lives until the call returns.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, at, path.as_ptr(), flags) };
    let fd = i32::try_from(fd).map_err(io::Error::other)?;
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Mounts a copied tree over a path; a symbolic link at its end is not followed.
pub(crate) fn place_tree(tree: &OwnedFd, at: &Path) -> io::Result<()> {
    const FROM_EMPTY_PATH: libc::c_uint = 4;
    let at = to_text(at)?;
    // SAFETY: both paths are texts that end in NUL and live until the call returns.
    check_long(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            at.as_ptr(),
            FROM_EMPTY_PATH,
        )
    })
}

/// Adds attributes to the mount at a path.
pub(crate) fn restrict_path(at: &Path, set: u64, extent: Extent) -> io::Result<()> {
    set_attributes(libc::AT_FDCWD, &to_text(at)?, set, extent)
}

/// Adds attributes to a copied tree.
pub(crate) fn restrict_tree(tree: &OwnedFd, set: u64, extent: Extent) -> io::Result<()> {
    set_attributes(tree.as_raw_fd(), c"", set, extent)
}

fn set_attributes(at: libc::c_int, path: &CStr, set: u64, extent: Extent) -> io::Result<()> {
    const RECURSIVE: libc::c_uint = 0x8000;
    const EMPTY_PATH: libc::c_uint = 0x1000;
    let mut flags = if extent == Extent::All { RECURSIVE } else { 0 };
    if path.is_empty() {
        flags |= EMPTY_PATH;
    }
    let attributes = Attributes { set, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path ends in NUL, the structure has the layout of the call's first version,
    // and both live until the call returns.
    check_long(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            at,
            path.as_ptr(),
            flags,
            std::ptr::from_ref(&attributes),
            size_of::<Attributes>(),
        )
    })
}

fn to_text(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

fn check(result: libc::c_int) -> io::Result<()> {
    check_long(result.into())
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
