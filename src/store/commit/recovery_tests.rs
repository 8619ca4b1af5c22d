//! What recovering makes of what a killed process left, and of records that are not whole.

use super::*;

#[test]
fn what_the_user_changed_after_a_kill_is_not_overwritten() {
    let place = Place::new();
    leave_unfinished(&place, midway());
    assert_eq!(fs::read_to_string(place.at("replaced")).unwrap(), "new");
    fs::write(place.at("replaced"), "the user's").unwrap();
    let said = place.recover();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("took back an edit that was interrupted: "), "{said:?}");
    assert_eq!(fs::read_to_string(place.at("replaced")).unwrap(), "the user's");
    assert_eq!(fs::read_to_string(place.at("tool")).unwrap(), "old tool");
    // The only copy of the old content stays, and is named.
    let kept = said[0].split("what it held before is in ").nth(1).unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "old");
    assert!(place.recover().is_empty());
}

/// A temporary name that cannot be removed leaves the record, which stays one that can be read.
#[test]
fn what_cannot_be_removed_is_tried_again_and_again() {
    let place = Place::in_memory();
    furnish(&place);
    // The renames are done and noted; from then on nothing can be done.
    let is_noted = |at: &usize| {
        let place = Place::in_memory();
        furnish(&place);
        let gone = disk(Fault::From(*at, Errno::IO), System::Exchanging);
        place.commit_with(&gone, &everything(&place)).is_ok()
    };
    let at = (1..).find(is_noted).unwrap() + 1;
    let gone = disk(Fault::From(at, Errno::IO), System::Exchanging);
    place.commit_with(&gone, &everything(&place)).unwrap();
    let record = fs::read_dir(&place.journal).unwrap().next().unwrap().unwrap().path();
    // A directory where a temporary file was.
    let is_temp = |path: &PathBuf| path.to_string_lossy().contains(TEMP_PREFIX);
    let mut names = fs::read_dir(&place.root).unwrap().map(|entry| entry.unwrap().path());
    let temp = names.find(is_temp).unwrap();
    fs::remove_file(&temp).unwrap();
    fs::create_dir(&temp).unwrap();
    let whole = fs::read(&record).unwrap();
    for cut in [7, 0] {
        // The line that says that it is done, whole or cut.
        fs::write(&record, &whole[..whole.len() - cut]).unwrap();
        for _ in 0..4 {
            let said = place.recover();
            assert!(said[0].contains("could not all be removed"), "{said:?}");
            assert_eq!(place.records(), 1);
        }
    }
    fs::remove_dir(&temp).unwrap();
    assert_eq!(place.recover().len(), 1);
    assert_eq!(place.records(), 0);
    assert_eq!(place.tree(), before_and_after().1);
}

/// A disk may lose the line that says that renames began. Then nobody can tell a new file from
/// one that the user wrote since: the old one comes back, and the other stays beside it.
#[test]
fn what_stands_where_an_old_file_belongs_is_kept() {
    let place = Place::new();
    let record = leave_unfinished(&place, midway());
    let bytes = fs::read(&record).unwrap();
    let first_line = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(&record, &bytes[..first_line]).unwrap();
    fs::write(place.at("replaced"), "the user's").unwrap();
    let said = place.recover();
    assert_eq!(fs::read_to_string(place.at("replaced")).unwrap(), "old");
    let sentence = format!("{}: what stood there is in ", place.at("replaced").display());
    let kept = said[0].split(&sentence).nth(1).unwrap().split(';').next().unwrap();
    assert_eq!(fs::read_to_string(kept).unwrap(), "the user's");
    assert!(place.recover().is_empty());
}

#[test]
fn a_torn_record_does_no_harm() {
    let place = Place::in_memory();
    let whole = fs::read(leave_unfinished(&place, midway())).unwrap();
    let (before, after) = before_and_after();
    let at = midway();
    for length in (0..whole.len()).step_by(97).chain([whole.len() - 1]) {
        let place = Place::in_memory();
        let record = leave_unfinished(&place, at);
        let bytes = fs::read(&record).unwrap();
        fs::write(&record, &bytes[..length.min(bytes.len())]).unwrap();
        let midway = place.tree();
        let said = place.recover();
        let tree = place.tree();
        if said.is_empty() {
            // Not one line of it can be read: nothing is known, and nothing is done.
            assert_eq!(tree, midway);
            continue;
        }
        for (name, old) in &before {
            let now = tree.get(name);
            let is_there = now == Some(old) || now == after.get(name);
            let is_there = is_there || said.iter().any(|said| said.contains(TEMP_PREFIX));
            assert!(is_there, "{length}: {}: {now:?}: {said:?}", name.display());
        }
        assert!(place.recover().is_empty());
    }
}

#[test]
fn a_record_that_is_not_ours_to_read_is_set_aside() {
    let place = Place::new();
    let record = leave_unfinished(&place, midway());
    let bytes = fs::read(&record).unwrap();
    let tree = place.tree();
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 9] ^= 1;
    let garbage = b"not a record at all\n\0\xff".to_vec();
    for foreign in [flipped, garbage] {
        fs::write(&record, &foreign).unwrap();
        let said = place.recover();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("cannot be read; nothing was done about it"), "{said:?}");
        assert_eq!((place.tree(), place.records()), (tree.clone(), 1));
        assert!(place.recover().is_empty());
        fs::remove_file(record.with_extension("aside")).unwrap();
    }
    // A live one is its own process's, and one of elsewhere is for whoever starts there.
    fs::write(&record, &bytes).unwrap();
    let live = File::open(&record).unwrap();
    live.lock().unwrap();
    assert!(place.recover().is_empty());
    drop(live);
    let elsewhere = [place.root.parent().unwrap().join("elsewhere")];
    assert!(recover(&place.journal, &elsewhere).is_empty());
    assert_eq!(place.tree(), tree);
    assert_eq!(place.recover().len(), 1);
    assert_eq!(place.records(), 0);
}

proptest::proptest! {
    #[test]
    fn any_bytes_can_be_a_record(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        super::journal::parse_record(&bytes);
        let mut line = b"0 plan {}".to_vec();
        line.extend(&bytes);
        super::journal::parse_record(&line);
    }
}
