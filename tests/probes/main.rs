//! The probe of the escape suite: one system call or trick per name, tried for real.
//!
//! `probe NAME [ARGUMENT…]` prints `ESCAPED` and ends with 0 when what it tried worked, says why
//! not and ends with 1 otherwise. Each is harmless where it works: it opens without writing,
//! works on files of the suite, or in a namespace of its own. Built as an example so that the
//! suite needs nothing beyond cargo.

#![allow(
    unsafe_code,
    clippy::print_stdout,
    clippy::undocumented_unsafe_blocks,
    clippy::too_many_lines,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::unwrap_used,
    reason = "raw calls by number are what this program is for"
)]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map(String::as_str).unwrap_or_default();
    match linux::attempt(name, args.get(1..).unwrap_or_default()) {
        Ok(()) => println!("ESCAPED {name}"),
        Err(why) => {
            println!("no: {name}: {why}");
            std::process::exit(1);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::CString;
    use std::fs::{File, OpenOptions};
    use std::io::{Error, Read, Write};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::os::unix::fs::OpenOptionsExt;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::time::Duration;

    use libc::{c_long, c_void, syscall};

    type Outcome = Result<(), Error>;

    fn call(result: c_long) -> Result<c_long, Error> {
        if result < 0 { Err(Error::last_os_error()) } else { Ok(result) }
    }

    fn text(args: &[String], index: usize) -> Result<&str, Error> {
        args.get(index).map(String::as_str).ok_or_else(|| Error::other("an argument is missing"))
    }

    fn number(args: &[String], index: usize) -> Result<c_long, Error> {
        text(args, index)?.parse().map_err(Error::other)
    }

    fn path(args: &[String], index: usize) -> Result<CString, Error> {
        CString::new(text(args, index)?).map_err(Error::other)
    }

    fn done(result: c_long) -> Outcome {
        call(result).map(drop)
    }

    pub(super) fn attempt(name: &str, args: &[String]) -> Outcome {
        match name {
            "open-write" => OpenOptions::new()
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                .open(text(args, 0)?)
                .map(drop),
            "open-read" => {
                let mut file = OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
                    .open(text(args, 0)?)?;
                file.read(&mut [0; 16]).map(drop)
            }
            "contains" => contains(args),
            "truncate" => done(unsafe { libc::truncate(path(args, 0)?.as_ptr(), 0) }.into()),
            "utimes" => {
                let file = path(args, 0)?;
                let times = [libc::timeval { tv_sec: 1, tv_usec: 0 }; 2];
                done(unsafe { libc::utimes(file.as_ptr(), times.as_ptr()) }.into())
            }
            "setxattr" => {
                let file = path(args, 0)?;
                let (name, value) = (c"user.probe", b"1");
                done(
                    unsafe {
                        libc::setxattr(file.as_ptr(), name.as_ptr(), value.as_ptr().cast(), 1, 0)
                    }
                    .into(),
                )
            }
            "inode-flags" => inode_flags(args),
            "rename-exchange" => {
                let (from, to) = (path(args, 0)?, path(args, 1)?);
                done(unsafe {
                    syscall(
                        libc::SYS_renameat2,
                        libc::AT_FDCWD,
                        from.as_ptr(),
                        libc::AT_FDCWD,
                        to.as_ptr(),
                        libc::RENAME_EXCHANGE,
                    )
                })
            }
            "tmpfile-link" => tmpfile_link(args),
            "mkfifo" => done(unsafe { libc::mkfifo(path(args, 0)?.as_ptr(), 0o600) }.into()),
            "mknod-device" => {
                let file = path(args, 0)?;
                let device = libc::makedev(1, 3);
                done(unsafe { libc::mknod(file.as_ptr(), libc::S_IFCHR | 0o600, device) }.into())
            }
            "bind-unix" => UnixListener::bind(text(args, 0)?).map(drop),
            "set-user-id" => set_user_id(args),
            "fallocate" => {
                let file = OpenOptions::new().write(true).open(text(args, 0)?)?;
                done(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 1 << 16) }.into())
            }
            "map-shared" => map_shared(args),
            "copy-range" => copy_range(args),
            "fd-dir-open" => fd_dir_open(args),
            _ => attempt_kernel(name, args),
        }
    }

    fn attempt_kernel(name: &str, args: &[String]) -> Outcome {
        let zero = 0_usize;
        match name {
            "unshare" => done(unsafe { libc::unshare(number(args, 0)? as libc::c_int) }.into()),
            "clone-newuser" => clone_flags(libc::CLONE_NEWUSER),
            "clone-newns" => clone_flags(libc::CLONE_NEWNS),
            "clone3-newuser" => clone3(libc::CLONE_NEWUSER as u64),
            "setns" => setns(args),
            "mount-tmpfs" => mount_tmpfs(args),
            "mount-tmpfs-in-userns" => mount_in_userns(args),
            "bind-mount-in-userns" => bind_in_userns(args),
            "umount" => umount(args),
            "pivot-root" => {
                let file = path(args, 0)?;
                done(unsafe { syscall(libc::SYS_pivot_root, file.as_ptr(), file.as_ptr()) })
            }
            "chroot" => done(unsafe { libc::chroot(path(args, 0)?.as_ptr()) }.into()),
            "open-tree" => {
                let file = path(args, 0)?;
                done(unsafe { syscall(libc::SYS_open_tree, libc::AT_FDCWD, file.as_ptr(), 1) })
            }
            "fsopen" => done(unsafe { syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) }),
            "mount-setattr" => mount_setattr(),
            "open-by-handle" => open_by_handle(args),
            "io-uring" => {
                let mut parameters = [0_u8; 120];
                done(unsafe { syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) })
            }
            "bpf" => bpf(),
            "perf" => perf(),
            "userfaultfd" => done(unsafe { syscall(libc::SYS_userfaultfd, 1) }),
            "add-key" => done(unsafe {
                syscall(
                    libc::SYS_add_key,
                    c"user".as_ptr(),
                    c"probe".as_ptr(),
                    b"1".as_ptr(),
                    1,
                    -2_i64,
                )
            }),
            "keyctl" => done(unsafe { syscall(libc::SYS_keyctl, 0, -3_i64, 1, 0, 0) }),
            "request-key" => match done(unsafe {
                syscall(libc::SYS_request_key, c"user".as_ptr(), c"none".as_ptr(), zero, 0)
            }) {
                Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => Ok(()),
                outcome => outcome,
            },
            "ptrace-attach" => {
                let pid = number(args, 0)?;
                let outcome = done(unsafe { syscall(libc::SYS_ptrace, 0x4206, pid, 0, 0) });
                unsafe { syscall(libc::SYS_ptrace, 17, pid, 0, 0) };
                outcome
            }
            "ptrace-traceme" => done(unsafe { syscall(libc::SYS_ptrace, 0, 0, 0, 0) }),
            "vm-read" => process_vm(libc::SYS_process_vm_readv, args),
            "vm-write" => process_vm(libc::SYS_process_vm_writev, args),
            "pidfd-getfd" => {
                let pidfd = call(unsafe { syscall(libc::SYS_pidfd_open, number(args, 0)?, 0) })?;
                done(unsafe { syscall(libc::SYS_pidfd_getfd, pidfd, 0, 0) })
            }
            "kcmp" => {
                let pid = number(args, 0)?;
                let me = c_long::from(std::process::id());
                done(unsafe { syscall(libc::SYS_kcmp, me, pid, 1, 0, 0) })
            }
            "pidfd-signal" => {
                let pidfd = call(unsafe { syscall(libc::SYS_pidfd_open, number(args, 0)?, 0) })?;
                done(unsafe { syscall(libc::SYS_pidfd_send_signal, pidfd, libc::SIGKILL, 0, 0) })
            }
            "kill" => {
                let (pid, signal) = (number(args, 0)?, number(args, 1)?);
                done(unsafe { libc::kill(pid as i32, signal as i32) }.into())
            }
            "setpriority" => {
                let (which, who) = (number(args, 0)?, number(args, 1)?);
                done(unsafe { syscall(libc::SYS_setpriority, which, who, 19) })
            }
            "sched" => {
                let parameters = [0_i32; 1];
                done(unsafe {
                    syscall(libc::SYS_sched_setscheduler, number(args, 0)?, 3, parameters.as_ptr())
                })
            }
            "affinity" => {
                let mask = [1_u64; 16];
                done(unsafe {
                    syscall(libc::SYS_sched_setaffinity, number(args, 0)?, 128, mask.as_ptr())
                })
            }
            "prlimit" => {
                let limit = [64_u64, 64];
                done(unsafe {
                    syscall(libc::SYS_prlimit64, number(args, 0)?, 7, limit.as_ptr(), zero)
                })
            }
            "ioprio" => {
                let idle = 3 << 13;
                done(unsafe { syscall(libc::SYS_ioprio_set, 1, number(args, 0)?, idle) })
            }
            "personality" => {
                let outcome = done(unsafe { libc::personality(0x0040_0000) }.into());
                unsafe { libc::personality(0) };
                outcome
            }
            "tiocsti" => terminal(libc::TIOCSTI as u64),
            "tioclinux" => terminal(0x541c),
            "int80" => int80(),
            "x32" => done(unsafe { syscall(0x4000_0000 + libc::SYS_getpid) }),
            "swapoff" => permission(unsafe { syscall(libc::SYS_swapoff, c"/none".as_ptr()) }),
            "quotactl" => {
                permission(unsafe { syscall(libc::SYS_quotactl, 0x0080_0001, zero, 0, zero) })
            }
            "sethostname" => sethostname(),
            "settime" => {
                // A time that no clock takes: refused before that is to be seen, or not.
                let time = [0_i64, -1];
                permission(unsafe { syscall(libc::SYS_clock_settime, 0, time.as_ptr()) })
            }
            "syslog" => done(unsafe { syscall(libc::SYS_syslog, 10, zero, 0) }),
            "finit-module" => {
                permission(unsafe { syscall(libc::SYS_finit_module, -1, c"".as_ptr(), 0) })
            }
            "kexec" => permission(unsafe { syscall(libc::SYS_kexec_load, 0, 99, zero, 0) }),
            "iopl" => iopl(),
            "move-pages" => done(unsafe {
                syscall(libc::SYS_move_pages, number(args, 0)?, 0, zero, zero, zero, 0)
            }),
            "capset-sys-admin" => effective_capabilities(),
            "setuid-other" => done(unsafe { libc::setuid(1) }.into()),
            "shm-attach" => shm_attach(args),
            "shm-make" => shm_make(),
            "shm-remove" => {
                let nothing = std::ptr::null_mut();
                done(
                    unsafe { libc::shmctl(number(args, 0)? as i32, libc::IPC_RMID, nothing) }
                        .into(),
                )
            }
            _ => attempt_network(name, args),
        }
    }

    fn attempt_network(name: &str, args: &[String]) -> Outcome {
        match name {
            "tcp" => {
                let mut stream = TcpStream::connect(text(args, 0)?)?;
                stream.write_all(b"hello\n")
            }
            "tcp-fast-open" => tcp_fast_open(args),
            "mptcp" => mptcp(args),
            "udp" => {
                let to: std::net::SocketAddr = text(args, 0)?.parse().map_err(Error::other)?;
                let from = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(from)?;
                socket.connect(to)?;
                socket.send(b"hello")?;
                // One that nobody takes comes back.
                socket.set_read_timeout(Some(Duration::from_millis(300)))?;
                match socket.recv(&mut [0; 8]) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error),
                }
            }
            "unix" => UnixStream::connect(text(args, 0)?)?.write_all(b"hello"),
            "unix-datagram" => UnixDatagram::unbound()?.send_to(b"hello", text(args, 0)?).map(drop),
            "unix-datagram-pair" => {
                UnixDatagram::pair()?.0.send_to(b"hello", text(args, 0)?).map(drop)
            }
            "abstract" => {
                use std::os::linux::net::SocketAddrExt;
                let address = std::os::unix::net::SocketAddr::from_abstract_name(text(args, 0)?)?;
                UnixStream::connect_addr(&address)?.write_all(b"hello")
            }
            "listen-outside" => {
                // Whoever can be reached from outside listens on an address of the machine.
                let listener = TcpListener::bind(text(args, 0)?)?;
                listener.set_nonblocking(true)?;
                Ok(())
            }
            "socket" => {
                let (family, kind, protocol) =
                    (number(args, 0)?, number(args, 1)?, number(args, 2)?);
                done(unsafe { libc::socket(family as i32, kind as i32, protocol as i32) }.into())
            }
            _ => Err(Error::other("there is no such attempt")),
        }
    }

    /// Works where the call is refused for its arguments, not for who makes it.
    fn permission(result: c_long) -> Outcome {
        match call(result) {
            Err(error)
                if matches!(
                    error.raw_os_error(),
                    Some(libc::EPERM | libc::EACCES | libc::ENOSYS)
                ) =>
            {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    fn contains(args: &[String]) -> Outcome {
        let mut found = Vec::new();
        File::open(text(args, 0)?)?.take(1 << 20).read_to_end(&mut found)?;
        let wanted = text(args, 1)?.as_bytes();
        let has = found.windows(wanted.len()).any(|window| window == wanted);
        if has { Ok(()) } else { Err(Error::other("it does not say so")) }
    }

    fn inode_flags(args: &[String]) -> Outcome {
        const GET: u64 = 0x8008_6601;
        const SET: u64 = 0x4008_6602;
        const NO_DUMP: c_long = 0x40;
        let file = File::open(text(args, 0)?)?;
        let mut flags: c_long = 0;
        call(unsafe { libc::ioctl(file.as_raw_fd(), GET, &raw mut flags) }.into())?;
        flags ^= NO_DUMP;
        done(unsafe { libc::ioctl(file.as_raw_fd(), SET, &raw mut flags) }.into())
    }

    fn tmpfile_link(args: &[String]) -> Outcome {
        let directory = text(args, 0)?;
        let mut file =
            OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(directory)?;
        file.write_all(b"in")?;
        let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        let to = CString::new(format!("{directory}/linked"))?;
        let follow = libc::AT_SYMLINK_FOLLOW;
        done(
            unsafe {
                libc::linkat(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), follow)
            }
            .into(),
        )
    }

    fn set_user_id(args: &[String]) -> Outcome {
        use std::os::unix::fs::PermissionsExt;
        let file = text(args, 0)?;
        std::fs::write(file, b"x")?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o4755))
    }

    fn map_shared(args: &[String]) -> Outcome {
        let file = OpenOptions::new().read(true).write(true).open(text(args, 0)?)?;
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        let place =
            unsafe { libc::mmap(std::ptr::null_mut(), 1, protection, libc::MAP_SHARED, fd, 0) };
        if place == libc::MAP_FAILED {
            return Err(Error::last_os_error());
        }
        unsafe { place.cast::<u8>().write(b'!') };
        Ok(())
    }

    fn copy_range(args: &[String]) -> Outcome {
        let from = File::open(text(args, 0)?)?;
        let to = OpenOptions::new().write(true).open(text(args, 1)?)?;
        let none = std::ptr::null_mut();
        done(unsafe { libc::copy_file_range(from.as_raw_fd(), none, to.as_raw_fd(), none, 4, 0) }
            as c_long)
    }

    /// Opens a file for writing through a directory that is only open for its path.
    fn fd_dir_open(args: &[String]) -> Outcome {
        let directory = path(args, 0)?;
        let fd = call(unsafe { libc::open(directory.as_ptr(), libc::O_PATH) }.into())?;
        let name = path(args, 1)?;
        let flags = libc::O_WRONLY | libc::O_CREAT;
        done(unsafe { libc::openat(fd as i32, name.as_ptr(), flags, 0o600) }.into())
    }

    fn clone_flags(flags: libc::c_int) -> Outcome {
        let flags = c_long::from(flags | libc::SIGCHLD);
        let pid = call(unsafe { syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
        if pid == 0 {
            unsafe { libc::_exit(0) }
        }
        unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
        Ok(())
    }

    fn clone3(flags: u64) -> Outcome {
        let mut arguments = [0_u64; 11];
        arguments[0] = flags;
        arguments[4] = libc::SIGCHLD as u64;
        let pid = call(unsafe { syscall(libc::SYS_clone3, arguments.as_ptr(), 88) })?;
        if pid == 0 {
            unsafe { libc::_exit(0) }
        }
        unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), 0) };
        Ok(())
    }

    fn setns(args: &[String]) -> Outcome {
        let file = File::open(text(args, 0)?)?;
        done(unsafe { syscall(libc::SYS_setns, file.as_raw_fd(), 0) })
    }

    fn mount_at(args: &[String]) -> Outcome {
        let at = path(args, 0)?;
        let (kind, nothing) = (c"tmpfs".as_ptr(), std::ptr::null::<c_void>());
        done(unsafe { libc::mount(kind, at.as_ptr(), kind, 0, nothing) }.into())
    }

    /// In a mount namespace of its own where that is to be had, so that nothing is left.
    fn mount_tmpfs(args: &[String]) -> Outcome {
        let private = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        if private < 0 {
            return Err(Error::last_os_error());
        }
        keep_to_itself();
        mount_at(args)
    }

    fn keep_to_itself() {
        let nothing = std::ptr::null();
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        unsafe { libc::mount(nothing, c"/".as_ptr(), nothing, flags, nothing.cast()) };
    }

    fn mount_in_userns(args: &[String]) -> Outcome {
        call(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
        mount_at(args)
    }

    /// Lays a writable copy of the root somewhere and writes outside through it.
    fn bind_in_userns(args: &[String]) -> Outcome {
        call(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())?;
        let at = path(args, 0)?;
        let flags = libc::MS_BIND | libc::MS_REC;
        let nothing = std::ptr::null();
        let bound =
            unsafe { libc::mount(c"/".as_ptr(), at.as_ptr(), nothing, flags, nothing.cast()) };
        call(bound.into())?;
        std::fs::write(format!("{}{}/bound", text(args, 0)?, text(args, 1)?), b"x")
    }

    fn umount(args: &[String]) -> Outcome {
        let at = path(args, 0)?;
        // In a namespace of its own where that is to be had, so that nothing is lost.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
            keep_to_itself();
        }
        done(unsafe { libc::umount2(at.as_ptr(), libc::MNT_DETACH) }.into())
    }

    fn mount_setattr() -> Outcome {
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
            keep_to_itself();
        }
        let clear_read_only = [0_u64, 1, 0, 0];
        done(unsafe {
            syscall(
                libc::SYS_mount_setattr,
                libc::AT_FDCWD,
                c"/".as_ptr(),
                0,
                clear_read_only.as_ptr(),
                32,
            )
        })
    }

    fn open_by_handle(args: &[String]) -> Outcome {
        #[repr(C)]
        struct Handle {
            bytes: u32,
            kind: i32,
            handle: [u8; 128],
        }
        let mut handle = Handle { bytes: 128, kind: 0, handle: [0; 128] };
        let mut mount = 0_i32;
        let file = path(args, 0)?;
        done(unsafe {
            syscall(
                libc::SYS_name_to_handle_at,
                libc::AT_FDCWD,
                file.as_ptr(),
                &raw mut handle,
                &raw mut mount,
                0,
            )
        })
    }

    fn bpf() -> Outcome {
        // A map of one element.
        let attributes: [u32; 32] = {
            let mut attributes = [0; 32];
            attributes[..4].copy_from_slice(&[2, 4, 4, 1]);
            attributes
        };
        done(unsafe { syscall(libc::SYS_bpf, 0, attributes.as_ptr(), 128) })
    }

    fn perf() -> Outcome {
        let mut attributes = [0_u64; 16];
        // Software clock, of this process, user space alone.
        attributes[0] = 1 | (128 << 32);
        attributes[5] = 0b110_0000;
        done(unsafe { syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) })
    }

    fn process_vm(number_of_call: c_long, args: &[String]) -> Outcome {
        // Where the other process lies does not matter: a wrong place is found out only by who
        // may look at all.
        let mut bytes = [0_u8; 8];
        let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 8 };
        let there = libc::iovec { iov_base: 8_usize as *mut c_void, iov_len: 8 };
        let pid = number(args, 0)?;
        match call(unsafe {
            syscall(number_of_call, pid, &raw const here, 1, &raw const there, 1, 0)
        }) {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    fn terminal(request: u64) -> Outcome {
        // A pair of its own, whose line discipline takes the byte.
        let master = call(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) }.into())?;
        let master = unsafe { File::from_raw_fd(master as i32) };
        unsafe { libc::unlockpt(master.as_raw_fd()) };
        unsafe { libc::setsid() };
        let mut name = [0_u8; 64];
        call(unsafe { libc::ptsname_r(master.as_raw_fd(), name.as_mut_ptr().cast(), 64) }.into())?;
        let slave = call(unsafe { libc::open(name.as_ptr().cast(), libc::O_RDWR) }.into())?;
        unsafe { libc::ioctl(slave as i32, libc::TIOCSCTTY, 0) };
        let byte = b'x';
        let result = unsafe { libc::ioctl(slave as i32, request, &raw const byte) };
        // Of a console there is none here: only a refusal says that the filter saw it.
        match call(result.into()) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn int80() -> Outcome {
        let result: i64;
        unsafe {
            std::arch::asm!(
                "xchg {keep}, rbx",
                "int 0x80",
                "xchg {keep}, rbx",
                keep = inout(reg) 0_u64 => _,
                inlateout("rax") 20_i64 => result,
            );
        }
        if result > 0 { Ok(()) } else { Err(Error::other("no such calls")) }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn int80() -> Outcome {
        Err(Error::other("not on this processor"))
    }

    fn sethostname() -> Outcome {
        let mut name = [0_u8; 65];
        call(unsafe { libc::gethostname(name.as_mut_ptr().cast(), 64) }.into())?;
        let length = name.iter().position(|byte| *byte == 0).unwrap_or(64);
        done(unsafe { libc::sethostname(name.as_ptr().cast(), length) }.into())
    }

    #[cfg(target_arch = "x86_64")]
    fn iopl() -> Outcome {
        done(unsafe { syscall(libc::SYS_iopl, 3) })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn iopl() -> Outcome {
        Err(Error::other("not on this processor"))
    }

    fn effective_capabilities() -> Outcome {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("CapBnd:\t"));
        match line.map(|line| u64::from_str_radix(line.trim(), 16)) {
            Some(Ok(bits)) if bits != 0 => Ok(()),
            _ => Err(Error::other("no capability is left")),
        }
    }

    /// Says the number of a new segment, for others to attach; not an attempt.
    fn shm_make() -> Outcome {
        let flags = libc::IPC_CREAT | 0o666;
        let id = call(unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, flags) }.into())?;
        println!("{id}");
        std::process::exit(0);
    }

    fn shm_attach(args: &[String]) -> Outcome {
        let id = number(args, 0)?;
        let place = unsafe { libc::shmat(id as i32, std::ptr::null(), 0) };
        if place as isize == -1 { Err(Error::last_os_error()) } else { Ok(()) }
    }

    fn tcp_fast_open(args: &[String]) -> Outcome {
        let to: std::net::SocketAddrV4 = text(args, 0)?.parse().map_err(Error::other)?;
        let socket = call(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }.into())?;
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as u16;
        address.sin_port = to.port().to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
        let (place, size) = (&raw const address, size_of::<libc::sockaddr_in>() as u32);
        let flags = libc::MSG_FASTOPEN;
        let sent = unsafe {
            libc::sendto(socket as i32, b"hello".as_ptr().cast(), 5, flags, place.cast(), size)
        };
        done(sent as c_long)
    }

    fn mptcp(args: &[String]) -> Outcome {
        let to: std::net::SocketAddrV4 = text(args, 0)?.parse().map_err(Error::other)?;
        let socket = call(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 262) }.into())?;
        let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        address.sin_family = libc::AF_INET as u16;
        address.sin_port = to.port().to_be();
        address.sin_addr.s_addr = u32::from_ne_bytes(to.ip().octets());
        let (place, size) = (&raw const address, size_of::<libc::sockaddr_in>() as u32);
        done(unsafe { libc::connect(socket as i32, place.cast(), size) }.into())
    }
}
