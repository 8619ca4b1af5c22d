//! The store as a whole: what is recorded comes back, whatever was done to the tree.
//!
//! Trees are arbitrary: names that are no text, modes, links, empty directories, files that
//! become directories. A tree is read back by code of its own, not by the walk under test.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::path::PathBuf;

use proptest::prelude::*;

use crate::store::snapshot::Force;
use crate::store::snapshot::SnapshotLimits;
use crate::store::snapshot::SnapshotSpec;
use crate::store::snapshot::SnapshotStore;
use crate::store::snapshot::Step;

const LIMITS: SnapshotLimits = SnapshotLimits {
    file_bytes_max: 1 << 20,
    ignored_file_bytes_max: 1_000,
    ignored_total_bytes_max: 1_500,
    keep_bytes_max: 1 << 30,
    keep_days_max: 30,
};

fn is_placeholder(mode: u32, _uid: u32) -> bool {
    matches!(mode & 0o7777, 0o1500 | 0o1400)
}

/// A workspace and a state directory that vanish with it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        Self { folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join("work")
    }

    fn open(&self) -> SnapshotStore {
        self.open_with(LIMITS)
    }

    fn open_with(&self, limits: SnapshotLimits) -> SnapshotStore {
        let state = self.folder.path().canonicalize().unwrap().join("state");
        SnapshotStore::open(SnapshotSpec {
            state,
            roots: vec![self.work()],
            limits,
            is_placeholder,
        })
        .unwrap()
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// A tree as it is on disk: kind, mode and content of each path.
fn read_tree(root: &Path) -> BTreeMap<PathBuf, (char, u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.mode() & 0o7777;
            let seen = if metadata.is_dir() {
                folders.push(path.clone());
                ('d', mode, Vec::new())
            } else if metadata.is_symlink() {
                let target = fs::read_link(&path).unwrap();
                ('l', 0, target.as_os_str().as_bytes().to_vec())
            } else {
                ('f', mode, fs::read(&path).unwrap())
            };
            found.insert(path, seen);
        }
    }
    found
}

/// One thing someone does to a tree. Names are taken from a small set, so that they collide.
#[derive(Debug, Clone)]
enum Deed {
    Write(Vec<u8>, Vec<u8>, u32),
    Link(Vec<u8>, Vec<u8>),
    Folder(Vec<u8>, u32),
    Remove(Vec<u8>),
    Mode(Vec<u8>, u32),
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    const NAMES: &[&[u8]] = &[b"a", b"b", b"c\n", b"d\xff\xfe", b" e", b"-f", "ü".as_bytes()];
    proptest::collection::vec(proptest::sample::select(NAMES), 1..4)
        .prop_map(|parts| parts.join(&b"/"[..]))
}

fn deed() -> impl Strategy<Value = Deed> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
    let mode = || proptest::sample::select(&[0o600_u32, 0o644, 0o755, 0o700, 0o640][..]);
    let folder_mode = || proptest::sample::select(&[0o700_u32, 0o755, 0o750][..]);
    prop_oneof![
        (path(), bytes(), mode()).prop_map(|(path, bytes, mode)| Deed::Write(path, bytes, mode)),
        (path(), "[a-z/.]{1,9}").prop_map(|(path, to)| Deed::Link(path, to.into_bytes())),
        (path(), folder_mode()).prop_map(|(path, mode)| Deed::Folder(path, mode)),
        path().prop_map(Deed::Remove),
        (path(), mode()).prop_map(|(path, mode)| Deed::Mode(path, mode)),
    ]
}

/// Does it, as far as it can be done: a file in the way of a directory goes first.
fn perform(root: &Path, deed: &Deed) {
    let at = |path: &[u8]| root.join(OsStr::from_bytes(path));
    let clear = |path: &Path| {
        for above in path.ancestors().skip(1).take_while(|above| *above != root) {
            if above.is_symlink() || above.is_file() {
                fs::remove_file(above).unwrap();
            }
        }
        fs::create_dir_all(path.parent().unwrap()).unwrap();
    };
    let remove = |path: &Path| {
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
        } else if path.is_symlink() || path.exists() {
            fs::remove_file(path).unwrap();
        }
    };
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    match deed {
        Deed::Write(path, bytes, mode) => {
            clear(&at(path));
            remove(&at(path));
            fs::write(at(path), bytes).unwrap();
            set_mode(&at(path), *mode);
        }
        Deed::Link(path, to) => {
            clear(&at(path));
            remove(&at(path));
            std::os::unix::fs::symlink(OsStr::from_bytes(to), at(path)).unwrap();
        }
        Deed::Folder(path, mode) => {
            clear(&at(path));
            if !at(path).is_dir() || at(path).is_symlink() {
                remove(&at(path));
                fs::create_dir(at(path)).unwrap();
            }
            set_mode(&at(path), *mode);
        }
        Deed::Remove(path) => remove(&at(path)),
        Deed::Mode(path, mode) => {
            if at(path).is_file() && !at(path).is_symlink() {
                set_mode(&at(path), *mode);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn undo_of_anything_gives_the_tree_back_and_redo_takes_it_again(
        first in proptest::collection::vec(deed(), 0..12),
        second in proptest::collection::vec(deed(), 0..12),
    ) {
        let place = Place::new();
        let work = place.work();
        first.iter().for_each(|deed| perform(&work, deed));
        let before = read_tree(&work);
        let mut store = place.open();
        let from = store.take().unwrap().snapshot.unwrap();
        second.iter().for_each(|deed| perform(&work, deed));
        let after = read_tree(&work);
        let to = store.take().unwrap().snapshot.unwrap();
        prop_assert_eq!(from == to, before == after);
        let undo = [Step { from: from.clone(), to: Some(to.clone()), until_ns: None }];
        let plan = store.plan(&undo, Force::No).unwrap();
        prop_assert_eq!(&plan.conflicts, &Vec::<PathBuf>::new());
        let back = store.perform(&plan).unwrap().after;
        prop_assert_eq!(&read_tree(&work), &before);
        let (was, is) = (store.load(&from).unwrap(), store.load(&back).unwrap());
        prop_assert_eq!(store.compare(&was, &is).unwrap(), vec![]);
        // Another process, which has but the store, takes it forward again.
        drop(store);
        let mut store = place.open();
        let redo = [Step { from: to, to: Some(back), until_ns: None }];
        let plan = store.plan(&redo, Force::No).unwrap();
        store.perform(&plan).unwrap();
        prop_assert_eq!(read_tree(&work), after);
    }
}

#[test]
fn a_file_changed_within_the_same_tick_is_seen() {
    let place = Place::new();
    place.write("a", "one");
    let mut store = place.open();
    let first = store.take().unwrap().snapshot.unwrap();
    let times = fs::metadata(place.work().join("a")).unwrap();
    // The same size and the same time as before: only the bytes tell.
    place.write("a", "two");
    let file = fs::File::options().write(true).open(place.work().join("a")).unwrap();
    file.set_modified(times.modified().unwrap()).unwrap();
    let second = store.take().unwrap().snapshot.unwrap();
    assert_ne!(first, second);
}

#[test]
fn what_is_unchanged_is_not_read_again_by_another_process() {
    let place = Place::new();
    place.write("a", "one");
    place.write("below/b", "two");
    // Long ago, as files of a project are; the inode's own time is what counts, and only waiting
    // makes that old.
    let mut store = place.open();
    let tries = (0..1_000_000).take_while(|_| !is_trusted(&mut store)).count();
    assert!(tries < 1_000_000, "metadata never settles");
    store.save_cache();
    drop(store);
    let mut store = place.open();
    store.take().unwrap();
    let jobs = store.count_jobs();
    assert_eq!(jobs, 0, "files read");
    place.write("below/b", "2");
    store.take().unwrap();
    assert_eq!(store.count_jobs(), 1, "files read");
}

/// Returns whether the next look would trust all metadata.
fn is_trusted(store: &mut SnapshotStore) -> bool {
    store.take().unwrap();
    store.count_jobs() == 0
}

#[test]
fn git_and_what_is_no_file_are_noted_and_never_opened() {
    let place = Place::new();
    place.write("a", "a");
    place.write(".git/HEAD", "ref");
    place.write("sub/.git", "gitdir: ../.git");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.work().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    fs::remove_file(place.work().join("pipe")).unwrap();
    fs::remove_dir_all(place.work().join(".git")).unwrap();
    place.write("a", "b");
    let to = store.take().unwrap().snapshot.unwrap();
    let plan = store.plan(&[Step { from, to: Some(to), until_ns: None }], Force::No).unwrap();
    let mut left: Vec<_> = plan.left.iter().map(|(path, _)| path.file_name().unwrap()).collect();
    left.sort();
    assert_eq!(left, [".git", "pipe"]);
    store.perform(&plan).unwrap();
    assert_eq!(fs::read(place.work().join("a")).unwrap(), b"a");
}

#[test]
fn a_large_file_is_kept_in_parts() {
    let place = Place::new();
    let limits = SnapshotLimits { file_bytes_max: 1 << 30, ..LIMITS };
    let bytes: Vec<u8> = (0..9_000_000_u32).map(|n| (n / 7).to_le_bytes()[0]).collect();
    place.write("large", &bytes);
    let mut store = place.open_with(limits);
    let from = store.take().unwrap().snapshot.unwrap();
    place.write("large", "small");
    let to = store.take().unwrap().snapshot.unwrap();
    let plan = store.plan(&[Step { from, to: Some(to), until_ns: None }], Force::No).unwrap();
    store.perform(&plan).unwrap();
    assert!(fs::read(place.work().join("large")).unwrap() == bytes);
}

#[test]
fn pruning_keeps_the_newest_and_what_is_pinned() {
    let place = Place::new();
    let limits = SnapshotLimits { keep_bytes_max: 40_000, ..LIMITS };
    let mut store = place.open_with(limits);
    let noise = |seed: u32| -> Vec<u8> {
        use sha2::Digest as _;
        (0..300_u32)
            .flat_map(|n| {
                sha2::Sha256::digest((u64::from(n) << 32 | u64::from(seed)).to_le_bytes())
            })
            .collect()
    };
    let mut taken = Vec::new();
    for seed in 0..10 {
        place.write("a", noise(seed));
        taken.push(store.take().unwrap().snapshot.unwrap());
    }
    store.prune_if_due(&taken[..1]).unwrap();
    let whole = |store: &SnapshotStore, id| {
        let snapshot = store.load(id).ok()?;
        store.compare(&snapshot, &store.load(&taken[9]).ok()?).ok()
    };
    assert!(whole(&store, &taken[9]).is_some(), "the newest");
    assert!(whole(&store, &taken[0]).is_some(), "the pinned");
    let left = taken.iter().filter(|id| store.load(id).is_ok()).count();
    assert!((2..=5).contains(&left), "{left} of 10 left");
    // What is left restores, in this process and in the next.
    let step = Step { from: taken[0].clone(), to: Some(taken[9].clone()), until_ns: None };
    let plan = store.plan(std::slice::from_ref(&step), Force::No).unwrap();
    store.perform(&plan).unwrap();
    assert!(fs::read(place.work().join("a")).unwrap() == noise(0));
    drop(store);
    let mut store = place.open_with(limits);
    let undo = Step { from: step.to.unwrap(), to: Some(step.from), until_ns: None };
    let plan = store.plan(&[undo], Force::No).unwrap();
    store.perform(&plan).unwrap();
    assert!(fs::read(place.work().join("a")).unwrap() == noise(9));
}

#[test]
fn nothing_is_pruned_while_another_process_uses_the_store() {
    let place = Place::new();
    let limits = SnapshotLimits { keep_bytes_max: 1, ..LIMITS };
    let mut store = place.open_with(limits);
    let mut taken = Vec::new();
    for text in ["one", "two", "three"] {
        place.write("a", text);
        taken.push(store.take().unwrap().snapshot.unwrap());
    }
    let other = place.open_with(limits);
    store.prune_if_due(&[]).unwrap();
    assert!(taken.iter().all(|id| store.load(id).is_ok()));
    drop(other);
    // A program that another test is just starting may hold the lock until it begins.
    for _ in 0..1_000 {
        store.prune_if_due(&[]).unwrap();
        if store.load(&taken[0]).is_err() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(store.load(&taken[0]).is_err() && store.load(&taken[2]).is_ok());
}

#[test]
fn a_tree_of_too_many_files_is_off_with_a_reason() {
    use crate::store::snapshot::walk::Walk;
    let place = Place::new();
    for n in 0..10 {
        place.write(&format!("d{n}/f"), "x");
    }
    let mut walk = Walk::new(Path::new("/nowhere"), 15, is_placeholder);
    let off = walk.run(&place.work(), None).unwrap_err();
    assert!(off.reason().contains("more than"), "{}", off.reason());
    assert!(Walk::new(Path::new("/nowhere"), 20, is_placeholder).run(&place.work(), None).is_ok());
}

#[test]
fn a_directory_that_gives_way_takes_nobody_elses_files_along() {
    let place = Place::new();
    place.write("a", "a file");
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    fs::remove_file(place.work().join("a")).unwrap();
    place.write("a/made", "by the turn");
    let to = store.take().unwrap().snapshot.unwrap();
    place.write("a/mine", "by the user");
    let step = [Step { from, to: Some(to), until_ns: None }];
    let plan = store.plan(&step, Force::No).unwrap();
    assert_eq!(plan.conflicts, [place.work().join("a/mine")]);
    let plan = store.plan(&step, Force::Yes).unwrap();
    store.perform(&plan).unwrap();
    assert_eq!(fs::read(place.work().join("a")).unwrap(), b"a file");
    let redo = [Step { from: plan.now, to: None, until_ns: None }];
    let plan = store.plan(&redo, Force::No).unwrap();
    store.perform(&plan).unwrap();
    assert_eq!(fs::read(place.work().join("a/mine")).unwrap(), b"by the user");
}

#[test]
fn a_store_that_lost_its_tail_reads_what_it_must_anew() {
    let place = Place::new();
    place.write("a", "one");
    let mut store = place.open();
    store.take().unwrap();
    store.save_cache();
    let pack = store.packs.paths().remove(0);
    drop(store);
    // The packs lost all, the cache lost nothing.
    fs::File::options().write(true).open(&pack).unwrap().set_len(0).unwrap();
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    place.write("a", "two");
    let to = store.take().unwrap().snapshot.unwrap();
    let plan = store.plan(&[Step { from, to: Some(to), until_ns: None }], Force::No).unwrap();
    store.perform(&plan).unwrap();
    assert_eq!(fs::read(place.work().join("a")).unwrap(), b"one");
}

#[test]
fn metadata_is_trusted_only_when_it_is_older_than_the_clocks_tick() {
    use crate::store::snapshot::tree::Stat;
    use crate::store::snapshot::walk::is_settled;
    let stat = |ctime_ns| Stat { dev: 1, ino: 1, size: 1, mode: 0o100_644, mtime_ns: 0, ctime_ns };
    let second = 1_000_000_000_i64;
    // A clock of nanoseconds: the kernel's tick must have passed.
    assert!(!is_settled(&stat(5 * second + 7), 5 * second + 7));
    assert!(!is_settled(&stat(5 * second + 7), 5 * second + 20_000_000));
    assert!(is_settled(&stat(5 * second + 7), 6 * second));
    // A clock of whole seconds says so by its zeros.
    assert!(!is_settled(&stat(5 * second), 6 * second));
    assert!(is_settled(&stat(5 * second), 8 * second));
    // A time to come is never trusted.
    assert!(!is_settled(&stat(9 * second), 8 * second));
}

#[test]
fn a_change_by_someone_else_is_a_conflict_and_only_force_goes_over_it() {
    let place = Place::new();
    place.write("a", "before");
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    place.write("a", "turn");
    let to = store.take().unwrap().snapshot.unwrap();
    place.write("a", "user");
    let step = [Step { from: from.clone(), to: Some(to.clone()), until_ns: None }];
    let plan = store.plan(&step, Force::No).unwrap();
    assert_eq!(plan.conflicts, [place.work().join("a")]);
    assert_eq!(plan.changes(), []);
    // Between two steps it is one as well, even where the last state is the expected one.
    let middle = store.take().unwrap().snapshot.unwrap();
    place.write("a", "turn again");
    let last = store.take().unwrap().snapshot.unwrap();
    let steps = [
        Step { from: middle, to: Some(last), until_ns: None },
        Step { from, to: Some(to), until_ns: None },
    ];
    let plan = store.plan(&steps, Force::No).unwrap();
    assert_eq!(plan.conflicts, [place.work().join("a")]);
    let plan = store.plan(&steps, Force::Yes).unwrap();
    store.perform(&plan).unwrap();
    assert_eq!(fs::read(place.work().join("a")).unwrap(), b"before");
}

#[test]
fn what_stands_for_a_mount_is_left_out_while_it_is_empty() {
    let place = Place::new();
    place.write("a", "a");
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    let mode = |name: &str, mode| {
        let path = place.work().join(name);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    for name in [".git", ".agents"] {
        fs::create_dir(place.work().join(name)).unwrap();
        mode(name, 0o1500);
    }
    place.write(".codex", "");
    mode(".codex", 0o1400);
    assert_eq!(store.take().unwrap().snapshot.unwrap(), from);
    mode(".agents", 0o1700);
    place.write(".agents/mine", "x");
    mode(".agents", 0o1500);
    assert_ne!(store.take().unwrap().snapshot.unwrap(), from);
    mode(".agents", 0o1700);
}

#[test]
fn what_goes_by_a_name_of_ours_is_the_users() {
    let place = Place::new();
    let mut store = place.open();
    let from = store.take().unwrap().snapshot.unwrap();
    let ours = format!(".gimlet-{}-12", "0a".repeat(16));
    place.write(&ours, "x");
    place.write(&format!("{ours}a"), "x");
    assert_eq!(store.take().unwrap().snapshot.unwrap(), from);
    for name in [".gimlet-notes", ".gimlet-12-3", &format!("{ours}b"), ".gimlet-"] {
        place.write(name, "mine");
        let now = store.take().unwrap().snapshot.unwrap();
        assert_ne!(now, from, "{name}");
        fs::remove_file(place.work().join(name)).unwrap();
        store.take().unwrap();
    }
}

#[test]
fn a_file_that_lends_another_s_rights_does_not_lend_ours_afterwards() {
    let place = Place::new();
    place.write("given", "");
    // In a user namespace that knows no other user, root cannot, either.
    let nobody = Some(65_534);
    if let Err(error) = std::os::unix::fs::chown(place.work().join("given"), nobody, nobody) {
        eprintln!("SKIPPED: a file cannot be given away here: {error}");
        return;
    }
    let modes = |owner: u32| {
        place.write("tool", "x");
        let path = place.work().join("tool");
        std::os::unix::fs::chown(&path, Some(owner), Some(owner)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).unwrap();
        let mut store = place.open();
        let from = store.take().unwrap().snapshot.unwrap();
        fs::remove_file(&path).unwrap();
        let to = store.take().unwrap().snapshot.unwrap();
        let step = [Step { from, to: Some(to), until_ns: None }];
        let plan = store.plan(&step, Force::No).unwrap();
        store.perform(&plan).unwrap();
        fs::metadata(&path).unwrap().mode() & 0o7777
    };
    assert_eq!((modes(0), modes(65_534)), (0o6755, 0o755));
}

#[test]
fn what_nobody_waits_for_any_more_is_not_read() {
    use crate::store::snapshot::SnapshotError;
    use std::sync::atomic::Ordering;
    let place = Place::new();
    for n in 0..100 {
        place.write(&format!("f{n}"), format!("content {n}"));
    }
    let mut store = place.open();
    store.stop.store(true, Ordering::Relaxed);
    assert!(matches!(store.take(), Err(SnapshotError::Stopped)));
    assert_eq!(store.packs.bytes(), 0, "nothing was kept");
    store.stop.store(false, Ordering::Relaxed);
    assert!(store.take().unwrap().snapshot.is_some());
}

#[test]
fn a_look_takes_no_more_than_the_store_may_hold() {
    let place = Place::new();
    let limits = SnapshotLimits { keep_bytes_max: 10_000, ..LIMITS };
    for n in 0..6_u8 {
        place.write(&format!("f{n}"), vec![n; 1_000 * usize::from(n)]);
    }
    let mut store = place.open_with(limits);
    let from = store.take().unwrap().snapshot.unwrap();
    for n in 0..6 {
        fs::remove_file(place.work().join(format!("f{n}"))).unwrap();
    }
    let to = store.take().unwrap().snapshot.unwrap();
    let step = [Step { from, to: Some(to), until_ns: None }];
    let plan = store.plan(&step, Force::No).unwrap();
    assert_eq!(plan.left.len(), 1, "{:?}", plan.left);
    assert!(plan.left[0].0.ends_with("f5") && plan.left[0].1.contains("may hold"));
    store.perform(&plan).unwrap();
    assert!(fs::read(place.work().join("f4")).unwrap() == vec![4; 4_000]);
}

#[test]
fn a_store_of_which_nothing_can_go_is_not_written_anew() {
    let place = Place::new();
    let limits = SnapshotLimits { keep_bytes_max: 10, ..LIMITS };
    place.write("a", "");
    let mut store = place.open_with(limits);
    let only = store.take().unwrap().snapshot.unwrap();
    let packs = store.packs.paths();
    store.prune_if_due(&[only]).unwrap();
    assert_eq!(store.packs.paths(), packs);
}

#[test]
fn what_is_too_old_goes_though_there_is_room() {
    use crate::store::snapshot::object::ObjectKind;
    use crate::store::snapshot::record::Snapshot;
    let place = Place::new();
    let mut store = place.open();
    let old = Snapshot { taken: 1, roots: Vec::new() };
    let old = store.packs.add(ObjectKind::Snapshot, &old.encode()).unwrap();
    store.packs.add(ObjectKind::Chunk, &[7; 1_000]).unwrap();
    place.write("a", "one");
    let new = store.take().unwrap().snapshot.unwrap();
    // A program that another test is just starting may hold the lock until it begins.
    for _ in 0..1_000 {
        store.prune_if_due(&[]).unwrap();
        if !store.packs.holds(old) {
            break;
        }
        drop(store);
        std::thread::sleep(std::time::Duration::from_millis(5));
        store = place.open();
    }
    assert!(!store.packs.holds(old) && store.load(&new).is_ok());
}

/// Once the times of all directories are older than the clock's tick, their names are not read
/// again; whatever comes, goes or is renamed is seen all the same.
#[test]
fn a_directory_that_did_not_change_has_the_names_it_had() {
    let place = Place::new();
    for n in 0..3 {
        for file in 0..80 {
            place.write(&format!("d{n}/sub/{file}"), format!("{n} {file}"));
        }
        place.write(&format!("d{n}/one"), "1");
    }
    place.write(".gitignore", "ignored\n");
    let at = |name: &str| place.work().join(name);
    let deeds: [&dyn Fn(); 8] = [
        &|| place.write("d0/sub/new", "new"),
        &|| fs::remove_file(at("d1/sub/7")).unwrap(),
        &|| fs::rename(at("d2/sub/8"), at("d2/sub/eight")).unwrap(),
        &|| fs::rename(at("d2/sub"), at("d0/moved")).unwrap(),
        &|| place.write("d0/moved/deep/er", "x"),
        &|| place.write("d1/sub/9", "in place"),
        &|| fs::set_permissions(at("d1/sub"), fs::Permissions::from_mode(0o700)).unwrap(),
        &|| place.write("d1/sub/.gitignore", "1*\n"),
    ];
    let mut store = place.open();
    for (number, deed) in deeds.into_iter().enumerate() {
        settle(&place, &mut store);
        deed();
        let seen = store.take().unwrap().snapshot.unwrap();
        let seen = store.load(&seen).unwrap().roots[0].tree;
        // One that knows nothing reads everything.
        let state = place.folder.path().canonicalize().unwrap().join("fresh");
        let spec =
            SnapshotSpec { state, roots: vec![place.work()], limits: LIMITS, is_placeholder };
        let mut fresh = SnapshotStore::open(spec).unwrap();
        let all = fresh.take().unwrap().snapshot.unwrap();
        assert_eq!(seen, fresh.load(&all).unwrap().roots[0].tree, "after deed {number}");
    }
}

/// Records until the metadata of every directory is one that can be trusted.
fn settle(place: &Place, store: &mut SnapshotStore) {
    fn is_settled(dir: &crate::store::snapshot::tree::Dir) -> bool {
        use crate::store::snapshot::tree::Node;
        dir.entries.iter().all(|entry| match &entry.node {
            Node::Dir { dir: Some(dir), .. } => entry.stat.is_some() && is_settled(dir),
            _ => true,
        })
    }
    for _ in 0..1_000 {
        store.take().unwrap();
        if is_settled(store.seen(&place.work()).unwrap()) {
            return;
        }
        // The clock's tick must pass; how long that takes is the system's.
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the directories do not settle");
}
