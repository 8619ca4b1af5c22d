//! Namespaces, and the view of the system in them.
//!
//! The root is not exchanged but made read-only where it stands, and overlays are laid on it:
//! nothing of the old view is left to be found, and nothing has to be taken apart. Knows no
//! policy; carries a `View` out. Called by `init.rs`, the first process of the new namespaces,
//! which has one thread; and by `probe.rs` to learn whether any of this works here.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::net::{AddressFamily, SocketType};

use crate::sandbox::linux::mount_calls::{
    Extent, READ_ONLY, TAMED, copy_open, copy_tree, make_private, mount_at, mount_new, place_tree,
    restrict_all, restrict_path, restrict_tree,
};
use crate::sandbox::linux::overlay::{Overlay, OverlayKind};
use crate::sandbox::linux::plan::{Namespaces, View};

/// Devices that hold nothing.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Links that programs expect below `/dev`.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

/// What the kernel tells of itself and of all processes, and no command needs.
const KERNEL_SECRETS: [&str; 20] = [
    "/proc/acpi",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/sysrq-trigger",
    "/proc/timer_list",
    "/proc/vmallocinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/pstore",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/tracing",
];

/// Bytes of shared memory. What is in it counts as memory of the command besides.
const SHARED_MEMORY_BYTES: u64 = 1 << 30;

/// The least bound on process numbers that a kernel takes.
const PID_MAX_LEAST: u64 = 301;

/// Returns the flags that make a process the first of new namespaces.
pub(crate) fn clone_flags(namespaces: Namespaces, network: bool) -> libc::c_int {
    let user = if namespaces == Namespaces::OfUser { libc::CLONE_NEWUSER } else { 0 };
    let own_network = if network { 0 } else { libc::CLONE_NEWNET };
    libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | user
        | own_network
}

/// Starts a process in namespaces of its own; returns as `fork` does. It shares no memory.
pub(crate) fn fork_into(flags: libc::c_int, end_signal: libc::c_int) -> io::Result<i32> {
    let flags = libc::c_long::from(flags | end_signal);
    // SAFETY: without a stack of its own and without shared memory this is `fork`; the caller
    // sees to it that a child of several threads does no more than such a child may.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0_usize, 0_usize, 0_usize, 0_usize) };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    i32::try_from(pid).map_err(io::Error::other)
}

/// Who a process is to be in its own user namespace: who it was outside.
#[derive(Debug)]
pub(crate) struct IdMaps {
    user: String,
    group: String,
}

impl IdMaps {
    /// Returns the maps for the one who calls this, outside.
    pub(crate) fn of_caller() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self { user: format!("{user} {user} 1"), group: format!("{group} {group} 1") }
    }

    /// Makes this process who it was, in its new user namespace.
    pub(crate) fn write(&self) -> io::Result<()> {
        // Without giving up on groups, no user may map its own.
        write_to("/proc/self/setgroups", "deny")?;
        write_to("/proc/self/uid_map", &self.user)?;
        write_to("/proc/self/gid_map", &self.group)
    }
}

fn write_to(path: &str, text: &str) -> io::Result<()> {
    use io::Write;
    fs::OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

/// Lays a view over the system, in a new mount namespace. An error names the step.
pub(crate) fn lay_view(view: &View, processes_max: Option<u64>) -> Result<(), String> {
    make_private().map_err(at("the mount namespace"))?;
    let trees = copy_sources(view)?;
    let devices = copy_devices();
    let attributes = if view.all_writable { TAMED } else { TAMED | READ_ONLY };
    restrict_all(attributes).map_err(at("/"))?;
    let masks = make_masks().map_err(at("the masks"))?;
    lay_devices(&devices).map_err(at("/dev"))?;
    for (overlay, tree) in view.overlays.iter().zip(&trees) {
        lay(overlay, tree.as_ref(), &masks)
            .map_err(|error| format!("{}: {error}", overlay.at.display()))?;
    }
    for overlay in view.overlays.iter().filter(|it| it.kind == OverlayKind::Sealed) {
        restrict_path(&overlay.at, READ_ONLY, Extent::One).map_err(at("a private directory"))?;
    }
    restrict_path(Path::new("/dev"), READ_ONLY, Extent::One).map_err(at("/dev"))?;
    lay_processes(processes_max).map_err(at("/proc"))?;
    if view.all_writable {
        restrict_path(Path::new("/sys"), READ_ONLY, Extent::All).map_err(at("/sys"))?;
    }
    for path in KERNEL_SECRETS.iter().map(Path::new) {
        masks.lay(path).map_err(at("a path of the kernel's"))?;
    }
    Ok(())
}

fn at(step: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("{step}: {error}")
}

/// Copies what overlays show, before anything is laid over it.
fn copy_sources(view: &View) -> Result<Vec<Option<OwnedFd>>, String> {
    view.overlays
        .iter()
        .map(|overlay| {
            let (source, attributes) = match &overlay.kind {
                OverlayKind::Writable | OverlayKind::Pinned => (&overlay.at, TAMED),
                OverlayKind::From(source) => (source, TAMED),
                OverlayKind::Exposed | OverlayKind::Protected => (&overlay.at, TAMED | READ_ONLY),
                OverlayKind::Hidden | OverlayKind::Sealed => return Ok(None),
            };
            let copied = copy_tree(source).and_then(|tree| {
                restrict_tree(&tree, attributes, Extent::All)?;
                Ok(tree)
            });
            match copied {
                Ok(tree) => Ok(Some(tree)),
                // What is exposed is a convenience, and may have gone meanwhile.
                Err(_) if overlay.kind == OverlayKind::Exposed => Ok(None),
                // What is gone needs no protection.
                Err(error)
                    if matches!(overlay.kind, OverlayKind::Protected | OverlayKind::Pinned)
                        && error.kind() == io::ErrorKind::NotFound =>
                {
                    Ok(None)
                }
                Err(error) => Err(format!("{}: {error}", source.display())),
            }
        })
        .collect()
}

fn lay(overlay: &Overlay, tree: Option<&OwnedFd>, masks: &Masks) -> io::Result<()> {
    match (&overlay.kind, tree) {
        (OverlayKind::Hidden, _) => masks.lay(&overlay.at),
        (OverlayKind::Sealed, _) => {
            make_room(&overlay.at, true)?;
            mount_tmpfs(&overlay.at, 16 << 20)
        }
        (_, Some(tree)) => match place_tree(tree, &overlay.at) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let is_directory = rustix::fs::fstat(tree).is_ok_and(|stat| {
                    rustix::fs::FileType::from_raw_mode(stat.st_mode)
                        == rustix::fs::FileType::Directory
                });
                make_room(&overlay.at, is_directory)?;
                place_tree(tree, &overlay.at)
            }
            result => result,
        },
        (_, None) => Ok(()),
    }
}

/// Makes a place to mount on, inside a private directory.
fn make_room(path: &Path, directory: bool) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if directory {
        return fs::create_dir_all(path);
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create(path).map(drop)
}

fn mount_tmpfs(path: &Path, bytes: u64) -> io::Result<()> {
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    mount_new(c"tmpfs", path, flags, &format!("mode=755,size={bytes}"))
}

/// An empty directory and an empty file that nobody may open, to lay over what is hidden.
struct Masks {
    directory: OwnedFd,
    file: OwnedFd,
}

/// Makes the masks where `/proc` will be laid over them.
fn make_masks() -> io::Result<Masks> {
    let place = Path::new("/proc");
    mount_tmpfs(place, 16 << 10)?;
    let (directory, file) = (place.join("directory"), place.join("file"));
    fs::create_dir(&directory)?;
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o000))?;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o000).open(&file)?;
    restrict_path(place, READ_ONLY, Extent::One)?;
    Ok(Masks { directory: open_place(&directory)?, file: open_place(&file)? })
}

fn open_place(path: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?)
}

impl Masks {
    /// Lays a mask over a path; what is not there, or is out of reach anyway, needs none.
    fn lay(&self, path: &Path) -> io::Result<()> {
        let mask = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => &self.directory,
            Ok(_) => &self.file,
            Err(error) if is_out_of_reach(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        match place_tree(&copy_open(mask)?, path) {
            Err(error) if is_out_of_reach(&error) => Ok(()),
            result => result,
        }
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EACCES | libc::ENOTDIR))
}

/// Copies the devices, as they are, for the new `/dev`.
fn copy_devices() -> Vec<(&'static str, OwnedFd)> {
    // One that this machine does not have, a command does without.
    let copy = |name| Some((name, copy_tree(&Path::new("/dev").join(name)).ok()?));
    DEVICES.into_iter().filter_map(copy).collect()
}

fn lay_devices(devices: &[(&str, OwnedFd)]) -> io::Result<()> {
    let place = Path::new("/dev");
    mount_tmpfs(place, 64 << 10)?;
    for (name, tree) in devices {
        let path = place.join(name);
        File::create(&path)?;
        place_tree(tree, &path)?;
    }
    for (target, link) in DEVICE_LINKS {
        std::os::unix::fs::symlink(target, link)?;
    }
    fs::create_dir(place.join("pts"))?;
    fs::create_dir(place.join("shm"))?;
    let flags = libc::MS_NOSUID | libc::MS_NOEXEC;
    // A kernel without private terminals leaves a command without any.
    drop(mount_new(c"devpts", &place.join("pts"), flags, "newinstance,ptmxmode=0666,mode=620"));
    let flags = libc::MS_NOSUID | libc::MS_NODEV;
    let options = format!("mode=1777,size={SHARED_MEMORY_BYTES}");
    mount_new(c"tmpfs", &place.join("shm"), flags, &options)
}

/// Mounts the processes of this namespace, with nothing in it that can be changed.
fn lay_processes(processes_max: Option<u64>) -> io::Result<()> {
    let place = Path::new("/proc");
    mount_processes()?;
    if let Some(bound) = processes_max {
        // Twice the bound: what grows steadily meets the watch first, which names it. Kernels
        // before 6.14 have one bound for all and refuse.
        let bound = bound.saturating_mul(2).saturating_add(PID_MAX_LEAST);
        drop(write_to("/proc/sys/kernel/pid_max", &bound.to_string()));
    }
    restrict_path(place, READ_ONLY, Extent::One)
}

/// Mounts a new `/proc`; refused where the old one is not whole, as in some containers.
pub(crate) fn mount_processes() -> io::Result<()> {
    mount_at(c"proc", c"/proc", libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, c"")
}

/// Brings the private network's loopback up; without it a command has no network at all, which
/// is no reason not to run it.
pub(crate) fn raise_loopback() {
    #[repr(C)]
    struct Request {
        name: [u8; 16],
        flags: libc::c_short,
        rest: [u8; 22],
    }
    let Ok(socket) = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None) else {
        return;
    };
    let mut name = [0; 16];
    name[..2].copy_from_slice(b"lo");
    let up = libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).unwrap_or_default();
    let request = Request { name, flags: up, rest: [0; 22] };
    // SAFETY: the kernel reads a request of this size with a name that ends in NUL.
    unsafe {
        libc::ioctl(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            libc::SIOCSIFFLAGS,
            std::ptr::from_ref(&request),
        )
    };
}
