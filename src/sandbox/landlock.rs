//! Landlock: which files a command reaches. Also tells whether this kernel has what we promise.
//!
//! Promises the rights of ABI 3 or fails; what newer kernels add is taken where it is there.
//! Restricts the calling thread, so the helper calls it while it has only one.
#![allow(unsafe_code)]

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};

use crate::sandbox::plan::Confinement;

/// The least ABI that we promise: with it, no file outside is truncated, linked or renamed.
const ABI_MIN: ABI = ABI::V3;

/// Returns why Landlock does not keep what we promise of it here.
pub(crate) fn find_obstacle() -> Option<String> {
    match probe_abi() {
        Ok(abi) if abi >= ABI_MIN as i64 => None,
        Ok(_) => Some("this kernel's Landlock is too old (before 6.2)".to_owned()),
        Err(Some(libc::EOPNOTSUPP)) => Some("Landlock is switched off in this kernel".to_owned()),
        Err(_) => Some("this kernel has no Landlock".to_owned()),
    }
}

/// Returns whether this kernel keeps local sockets within the command's own processes.
pub(crate) fn confines_sockets() -> bool {
    probe_abi().is_ok_and(|abi| abi >= ABI::V9 as i64)
}

/// Asks the kernel for its Landlock version; the error number when it has none to offer.
fn probe_abi() -> Result<i64, Option<i32>> {
    const VERSION_QUESTION: libc::c_uint = 1;
    let nothing = std::ptr::null::<libc::c_void>();
    // SAFETY: with this flag the call takes no structure and only returns a number.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION_QUESTION)
    };
    if abi < 0 { Err(std::io::Error::last_os_error().raw_os_error()) } else { Ok(abi) }
}

/// Confines this thread and what it starts; an error means that the promise is not kept.
pub(crate) fn restrict_files(confinement: &Confinement) -> Result<(), String> {
    let status = build_ruleset(confinement)
        .and_then(RulesetCreated::restrict_self)
        .map_err(|error| format!("Landlock: {error}"))?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("Landlock is not enforced".to_owned());
    }
    Ok(())
}

fn build_ruleset(confinement: &Confinement) -> Result<RulesetCreated, landlock::RulesetError> {
    let newer = AccessFs::IoctlDev | AccessFs::ResolveUnix;
    let read = AccessFs::from_read(ABI_MIN);
    let devices = AccessFs::ReadFile
        | AccessFs::ReadDir
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::IoctlDev;
    let mut write: BitFlags<AccessFs> = AccessFs::from_write(ABI_MIN);
    write.remove(AccessFs::MakeChar | AccessFs::MakeBlock);
    // Not what is writable, least of all `/tmp`: other programs' sockets lie there.
    let is_open = confinement.network && confinement.view.is_none();
    let sockets: &[&str] = if is_open { &["/"] } else { &[] };

    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI_MIN))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(newer)?
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()?
        .set_compatibility(CompatLevel::BestEffort)
        .add_rules(path_beneath_rules(&confinement.read, read))?
        .add_rules(path_beneath_rules(&confinement.list, AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(&confinement.write, write))?
        .add_rules(path_beneath_rules(&confinement.devices, devices))?
        .add_rules(path_beneath_rules(sockets, AccessFs::ResolveUnix))
}
