//! The hunks of a patch: named, shown, and taken or left one by one.
//!
//! `<file>.0` is what happens to a file as a whole: it comes, goes or moves. `<file>.1` and on
//! are its changes in order. Files count from 1. Pure; a selection is again a patch, so it is
//! judged and applied as any other. Called by `tools/apply_patch.rs`.

use crate::patch::parse::{BEGIN, END};
use crate::patch::render::render_file;
use crate::patch::{FileAction, FilePatch, Patch};
use crate::protocol::{Hunk, HunkId};

/// Returns every hunk in the order of the text, each with its file's header.
pub(crate) fn hunks(patch: &Patch) -> Vec<Hunk> {
    let parts = patch.files.iter().zip(1..).flat_map(|(file, number)| split(file, number));
    parts.map(|(id, file)| Hunk { id, path: file.path.clone(), text: render_file(&file) }).collect()
}

/// Returns the patch with only these hunks; `None` when nothing is left of it.
pub(crate) fn select(patch: &Patch, keep: &[HunkId]) -> Option<Patch> {
    let kept = patch.files.iter().zip(1..).filter_map(|(file, number)| {
        let mut parts = split(file, number).into_iter().filter(|(id, _)| keep.contains(id));
        let (_, first) = parts.next()?;
        Some(parts.fold(first, |whole, (_, part)| join(whole, part)))
    });
    let files: Vec<FilePatch> = kept.collect();
    (!files.is_empty()).then_some(Patch { files })
}

/// Writes a patch as text again.
pub(crate) fn render(patch: &Patch) -> String {
    let files: String = patch.files.iter().map(render_file).collect();
    format!("{BEGIN}\n{files}{END}\n")
}

/// Returns a file's hunks, each as a file of its own.
fn split(file: &FilePatch, number: usize) -> Vec<(HunkId, FilePatch)> {
    let id = |place: usize| HunkId(format!("{number}.{place}"));
    let FileAction::Update { move_to, chunks } = &file.action else {
        return vec![(id(0), file.clone())];
    };
    let part = |move_to, chunks| FilePatch {
        path: file.path.clone(),
        action: FileAction::Update { move_to, chunks },
    };
    let moves = move_to.iter().map(|target| (id(0), part(Some(target.clone()), Vec::new())));
    let changes =
        chunks.iter().zip(1..).map(|(chunk, place)| (id(place), part(None, vec![chunk.clone()])));
    moves.chain(changes).collect()
}

/// Puts two hunks of one file together, in order.
fn join(mut whole: FilePatch, part: FilePatch) -> FilePatch {
    if let (
        FileAction::Update { move_to, chunks },
        FileAction::Update { move_to: target, chunks: more },
    ) = (&mut whole.action, part.action)
    {
        *move_to = move_to.take().or(target);
        chunks.extend(more);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::parse;

    const TEXT: &str = "*** Begin Patch\n*** Add File: new\n+one\n*** Update File: a\n*** Move to: b\n@@ fn x\n-old\n+new\n@@\n keep\n+more\n*** End of File\n*** Delete File: gone\n*** End Patch\n";

    fn ids(names: &[&str]) -> Vec<HunkId> {
        names.iter().map(|name| HunkId::from(*name)).collect()
    }

    #[test]
    fn every_hunk_has_a_name_and_its_file() {
        let shown: Vec<String> = hunks(&parse(TEXT).unwrap())
            .into_iter()
            .map(|hunk| format!("{} {} {:?}", hunk.id, hunk.path.display(), hunk.text))
            .collect();
        assert_eq!(
            shown,
            [
                r#"1.0 new "*** Add File: new\n+one\n""#,
                r#"2.0 a "*** Update File: a\n*** Move to: b\n""#,
                r#"2.1 a "*** Update File: a\n@@ fn x\n-old\n+new\n""#,
                r#"2.2 a "*** Update File: a\n@@\n keep\n+more\n*** End of File\n""#,
                r#"3.0 gone "*** Delete File: gone\n""#,
            ]
        );
    }

    #[test]
    fn all_hunks_are_the_patch_and_none_is_nothing() {
        let patch = parse(TEXT).unwrap();
        let all: Vec<HunkId> = hunks(&patch).into_iter().map(|hunk| hunk.id).collect();
        let kept = select(&patch, &all).unwrap();
        assert_eq!(render(&kept), render(&patch));
        assert_eq!(parse(&render(&patch)).map(|again| render(&again)), Ok(render(&patch)));
        assert_eq!(select(&patch, &[]), None);
        assert_eq!(select(&patch, &ids(&["9.9"])), None);
    }

    #[test]
    fn a_change_without_its_files_move_stays_where_it_is() {
        let patch = parse(TEXT).unwrap();
        let kept = render(&select(&patch, &ids(&["2.2"])).unwrap());
        let expected = "*** Begin Patch\n*** Update File: a\n@@\n keep\n+more\n*** End of File\n*** End Patch\n";
        assert_eq!(kept, expected);
        let moved = render(&select(&patch, &ids(&["2.0", "3.0"])).unwrap());
        let expected = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: gone\n*** End Patch\n";
        assert_eq!(moved, expected);
    }
}
