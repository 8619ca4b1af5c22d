//! The system calls of a commit, each on a directory's descriptor and a name in it.
//!
//! Every call goes through `Disk::call`, so that tests can let each of them fail in turn, or
//! end the process there. Knows no step and no journal. Called by the rest of the phase.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs as sys;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawMode, RenameFlags, Stat};
use rustix::io::Errno;

/// Attributes of one file that are carried over; more is not a source file's doing.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Syncs waited for at one time; more gain nothing.
const SYNC_THREADS: usize = 16;

/// Names taken away at one time. On a disk that is told of each freed block, each call waits
/// for the disk.
const UNLINK_THREADS: usize = 8;

/// Steps up to which what a commit makes is waited for file by file. Past it the whole file
/// system is synced once, which costs as much as a few files, though it may write what is not
/// ours: thousands of files one by one take seconds.
const EACH_MAX: usize = if cfg!(target_os = "linux") { 128 } else { usize::MAX };

/// The mode bits that `chmod` takes.
pub(super) const MODE_BITS: RawMode = 0o7777;

const PLAIN: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NOCTTY);

/// The way to the system.
#[derive(Debug)]
pub(super) struct Disk {
    /// A commit of more steps is a large one.
    pub(super) each_max: usize,
    #[cfg(test)]
    pub(super) faults: super::tests::Faults,
}

/// Names and values of a file's extended attributes, access lists among them.
pub(super) type Attributes = Vec<(OsString, Vec<u8>)>;

impl Default for Disk {
    fn default() -> Self {
        Self {
            each_max: EACH_MAX,
            #[cfg(test)]
            faults: super::tests::Faults::default(),
        }
    }
}

#[cfg_attr(not(test), allow(clippy::unused_self))] // Where tests count, there is something.
impl Disk {
    /// Makes one system call, again when a signal broke it.
    pub(super) fn call<T>(&self, run: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
        #[cfg(test)]
        self.faults.before_call()?;
        Ok(rustix::io::retry_on_intr(run)?)
    }

    /// Makes one call of the standard library.
    pub(super) fn run<T>(&self, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        #[cfg(test)]
        self.faults.before_call()?;
        run()
    }

    /// Opens a directory by its whole path; one that may not be listed is opened for names only.
    pub(super) fn open_root(&self, path: &Path) -> io::Result<OwnedFd> {
        self.open_directory(|flags| sys::open(path, flags, Mode::empty()))
    }

    /// Opens a directory below another, through nothing but directories.
    pub(super) fn open_beneath(&self, root: &OwnedFd, below: &Path) -> io::Result<OwnedFd> {
        self.open_directory(|flags| open_beneath(root, below, flags))
    }

    fn open_directory(
        &self,
        mut open: impl FnMut(OFlags) -> rustix::io::Result<OwnedFd>,
    ) -> io::Result<OwnedFd> {
        self.call(|| {
            let flags = PLAIN | OFlags::DIRECTORY;
            match open(flags | OFlags::RDONLY) {
                #[cfg(target_os = "linux")]
                Err(Errno::ACCESS) => open(flags | OFlags::PATH),
                other => other,
            }
        })
    }

    /// Opens a file for reading; a pipe does not hold it up.
    pub(super) fn open_file(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<File> {
        let flags = PLAIN | OFlags::RDONLY | OFlags::NONBLOCK;
        self.call(|| sys::openat(dir, name, flags, Mode::empty())).map(File::from)
    }

    /// Makes a new file for writing.
    pub(super) fn create(&self, dir: &OwnedFd, name: &OsStr, mode: RawMode) -> io::Result<File> {
        let flags = PLAIN | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        self.call(|| sys::openat(dir, name, flags, Mode::from_raw_mode(mode))).map(File::from)
    }

    /// Returns what stands under a name, links not followed; `None` when nothing does.
    pub(super) fn stat(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<Option<Stat>> {
        self.call(|| match sys::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Returns what is open.
    pub(super) fn stat_open(&self, file: impl AsFd) -> io::Result<Stat> {
        self.call(|| sys::fstat(&file))
    }

    /// Reads on, up to the buffer's length.
    pub(super) fn read(&self, file: &File, buffer: &mut [u8]) -> io::Result<usize> {
        self.call(|| rustix::io::read(file, &mut *buffer))
    }

    /// Writes on, and says how much.
    pub(super) fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        self.call(|| rustix::io::write(file, bytes))
    }

    /// Writes parts on, and says how many bytes.
    pub(super) fn write_parts(&self, file: &File, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.call(|| rustix::io::writev(file, parts))
    }

    /// Returns a link's target.
    pub(super) fn read_link(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<OsString> {
        let target = self.call(|| sys::readlinkat(dir, name, Vec::new()))?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes a link.
    pub(super) fn symlink(&self, target: &Path, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        self.call(|| sys::symlinkat(target, dir, name))
    }

    /// Gives an open file its mode bits.
    pub(super) fn set_mode(&self, file: impl AsFd, mode: RawMode) -> io::Result<()> {
        self.call(|| sys::fchmod(&file, Mode::from_raw_mode(mode & MODE_BITS)))
    }

    /// Gives an open file its owner and group.
    pub(super) fn set_owner(&self, file: &File, like: &Stat) -> io::Result<()> {
        let (owner, group) = (sys::Uid::from_raw(like.st_uid), sys::Gid::from_raw(like.st_gid));
        self.call(|| sys::fchown(file, Some(owner), Some(group)))
    }

    /// Gives an open file its group alone, which its owner may do where root is needed otherwise.
    pub(super) fn set_group(&self, file: &File, like: &Stat) -> io::Result<()> {
        self.call(|| sys::fchown(file, None, Some(sys::Gid::from_raw(like.st_gid))))
    }

    /// Returns the attributes that can be read; a file system without any has none.
    pub(super) fn attributes(&self, file: &File) -> io::Result<Attributes> {
        let mut names = Vec::new();
        let read = self.call(|| {
            names.resize(sys::flistxattr_query(file)?.min(ATTRIBUTES_BYTES_MAX), 0);
            if names.is_empty() { Ok(0) } else { sys::flistxattr(file, &mut names[..]) }
        });
        names.truncate(match read {
            Err(error) if is_unsupported(&error) => 0,
            read => read?,
        });
        let mut attributes = Attributes::new();
        for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
            let name = OsString::from_vec(name.to_vec());
            let mut value = vec![0; ATTRIBUTES_BYTES_MAX];
            // One that may not be read may not be set either.
            if let Ok(length) = self.call(|| sys::fgetxattr(file, &*name, &mut value[..])) {
                value.truncate(length);
                attributes.push((name, value));
            }
        }
        Ok(attributes)
    }

    /// Sets one attribute.
    pub(super) fn set_attribute(&self, file: &File, name: &OsStr, value: &[u8]) -> io::Result<()> {
        self.call(|| sys::fsetxattr(file, name, value, sys::XattrFlags::empty()))
    }

    /// Exchanges two names; an error that `is_unsupported` knows where the file system cannot.
    pub(super) fn exchange(&self, one: At<'_>, other: At<'_>) -> io::Result<()> {
        #[cfg(test)]
        self.faults.check_exchange()?;
        self.call(|| rename_with(one, other, RenameFlags::EXCHANGE))
    }

    /// Renames to a name that is free.
    pub(super) fn rename_new(&self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        #[cfg(test)]
        let renamed = self.faults.check_exchange();
        #[cfg(not(test))]
        let renamed = Ok(());
        match renamed.and_then(|()| self.call(|| rename_with(from, to, RenameFlags::NOREPLACE))) {
            Err(error) if is_unsupported(&error) => {}
            result => return result,
        }
        // A second name is as exclusive; where there are none either, looking first must do.
        match self.link(from, to) {
            Ok(()) => self.unlink(from),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) => match self.stat(to.dir, to.name)? {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => self.rename(from, to),
            },
        }
    }

    /// Renames, replacing what is there.
    pub(super) fn rename(&self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        self.call(|| sys::renameat(from.dir, from.name, to.dir, to.name))
    }

    /// Gives a file a second name.
    pub(super) fn link(&self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        self.call(|| sys::linkat(from.dir, from.name, to.dir, to.name, AtFlags::empty()))
    }

    /// Takes a name away.
    pub(super) fn unlink(&self, at: At<'_>) -> io::Result<()> {
        self.call(|| sys::unlinkat(at.dir, at.name, AtFlags::empty()))
    }

    /// Makes a directory.
    pub(super) fn make_dir(&self, at: At<'_>, mode: RawMode) -> io::Result<()> {
        self.call(|| sys::mkdirat(at.dir, at.name, Mode::from_raw_mode(mode)))
    }

    /// Takes an empty directory away.
    pub(super) fn remove_dir(&self, at: At<'_>) -> io::Result<()> {
        self.call(|| sys::unlinkat(at.dir, at.name, AtFlags::REMOVEDIR))
    }

    /// Waits until a file or directory is on disk.
    pub(super) fn sync(&self, file: impl AsFd) -> io::Result<()> {
        let synced = self.call(|| sys::fsync(&file));
        match synced {
            // A directory opened for names only, or a file system that has no disk.
            Err(error) if is_unsupported(&error) || error.raw_os_error() == Some(9) => Ok(()),
            synced => synced,
        }
    }

    /// Waits until everything on the file system of a directory is on disk, its names too.
    pub(super) fn sync_whole(&self, dir: &OwnedFd) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        let synced = self.call(|| sys::syncfs(dir));
        #[cfg(not(target_os = "linux"))]
        let synced = self.sync(dir);
        match synced {
            // Nobody can say whether it failed, but it is done.
            Err(error) if is_unsupported(&error) => self.run(|| {
                sys::sync();
                Ok(())
            }),
            synced => synced,
        }
    }

    /// Waits until all of these are on disk. Together they take little longer than one: a file
    /// system writes down at once what is waited for at once.
    pub(super) fn sync_each(&self, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        share_out(files, SYNC_THREADS, |file| self.sync(file))
    }

    /// Takes these names away, and returns whether all of them are gone.
    pub(super) fn unlink_each(&self, names: &[(Arc<OwnedFd>, OsString)]) -> bool {
        let unlink = |(dir, name): &(Arc<OwnedFd>, OsString)| match self.unlink(At { dir, name }) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        };
        share_out(names, UNLINK_THREADS, unlink).is_ok()
    }
}

/// A name in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    /// The directory.
    pub(super) dir: &'a OwnedFd,
    /// The name.
    pub(super) name: &'a OsStr,
}

/// Returns what kind of thing this is.
pub(super) fn kind_of(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the bits that `chmod` sets.
pub(super) fn mode_of(stat: &Stat) -> RawMode {
    stat.st_mode & MODE_BITS
}

/// Returns whether a call failed for want of the ability.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let known = [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|errno| known.contains(&errno))
}

/// Returns whether a directory could not be opened because nothing is there, or no directory.
pub(super) fn is_nowhere(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].contains(&errno))
}

fn rename_with(from: At<'_>, to: At<'_>, flags: RenameFlags) -> rustix::io::Result<()> {
    sys::renameat_with(from.dir, from.name, to.dir, to.name, flags)
}

fn open_beneath(root: &OwnedFd, below: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        loop {
            match sys::openat2(root, below, flags, Mode::empty(), resolve) {
                // A rename elsewhere raced with it.
                Err(Errno::AGAIN) => {}
                // Old kernels and some containers lack this call; name by name is the same.
                Err(Errno::NOSYS | Errno::PERM) => break,
                other => return other,
            }
        }
    }
    let step = OFlags::RDONLY | PLAIN | OFlags::DIRECTORY;
    let mut dir = sys::openat(root, ".", step, Mode::empty())?;
    let mut names = below.components().peekable();
    while let Some(name) = names.next() {
        let last = names.peek().is_none();
        let flags = if last { flags } else { step };
        if matches!(name, std::path::Component::ParentDir) {
            return Err(Errno::XDEV);
        }
        dir = sys::openat(&dir, name.as_os_str(), flags, Mode::empty())?;
    }
    Ok(dir)
}

/// Does the same with each, several at a time; goes on after a failure, and returns one.
fn share_out<T: Sync>(
    all: &[T],
    threads_max: usize,
    run: impl Fn(&T) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let run_all = |share: &[T]| {
        let mut result = Ok(());
        for one in share {
            result = result.and(run(one));
        }
        result
    };
    let threads = all.len().clamp(1, threads_max);
    if threads == 1 {
        return run_all(all);
    }
    let run_all = &run_all;
    std::thread::scope(|scope| {
        let mut handles = Vec::with_capacity(threads);
        let mut result = Ok(());
        for share in all.chunks(all.len().div_ceil(threads)) {
            let handle = std::thread::Builder::new().spawn_scoped(scope, move || run_all(share));
            match handle {
                Ok(handle) => handles.push(handle),
                // Without a thread it takes longer.
                Err(_) => result = result.and(run_all(share)),
            }
        }
        for handle in handles {
            let ended = handle.join().unwrap_or_else(|_| Err(io::Error::other("a call broke")));
            result = result.and(ended);
        }
        result
    })
}
