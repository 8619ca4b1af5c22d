//! What is known of git's commands: the options with which they only look. A pure table.
//!
//! Repositories can make git run programs (fsmonitor, filters, textconv); the read-only sandbox
//! in which known commands run confines those. Left out are options that run more
//! (`--ext-diff`, `--textconv`, `--show-signature`, `grep -O`) or write (`--output`). Called by
//! `git.rs`; the columns are those of `options.rs`.

use crate::policy::command::options::Operands::{Any, AtMost};
use crate::policy::command::options::{Operands, Program};

/// One command of git.
pub(super) struct GitCommand {
    /// Options and operands.
    pub(super) program: Program<'static>,
    /// Long options of which it takes those of other commands as well.
    pub(super) shared: &'static [&'static str],
    /// What it needs to be a list, and with that takes operands.
    pub(super) lists_with: Option<&'static [&'static str]>,
}

const fn g(
    name: &'static str,
    flags: &'static str,
    values: &'static str,
    long: &'static str,
    shared: &'static [&'static str],
) -> GitCommand {
    let program = Program { name, flags, values, long, operands: Operands::Any };
    GitCommand { program, shared, lists_with: None }
}

const fn few(
    name: &'static str,
    flags: &'static str,
    long: &'static str,
    count: usize,
) -> GitCommand {
    let program = Program { name, flags, values: "", long, operands: AtMost(count) };
    GitCommand { program, shared: &[], lists_with: None }
}

const fn list(
    name: &'static str,
    flags: &'static str,
    long: &'static str,
    lists_with: &'static [&'static str],
) -> GitCommand {
    let program = Program { name, flags, values: "", long, operands: Any };
    GitCommand { program, shared: &[], lists_with: Some(lists_with) }
}

const DIFF: &str = "abbrev? anchored= binary break-rewrites? cached cc check color? color-moved? \
    color-words? combined-all-paths compact-summary cumulative diff-algorithm= diff-filter= \
    diff-merges= dirstat? dst-prefix= exit-code find-copies? find-copies-harder find-renames? \
    full-index function-context histogram ignore-all-space ignore-blank-lines \
    ignore-cr-at-eol ignore-matching-lines= ignore-space-at-eol ignore-space-change \
    ignore-submodules? indent-heuristic inter-hunk-context= irreversible-delete ita-invisible-in-index \
    line-prefix= merge-base minimal name-only name-status no-abbrev no-color no-color-moved no-ext-diff \
    no-index no-patch no-prefix no-renames no-textconv numstat output-indicator-new= \
    output-indicator-old= patch patch-with-raw patch-with-stat patience pickaxe-all pickaxe-regex \
    quiet raw relative? rename-empty shortstat src-prefix= staged stat? submodule? summary text \
    unified= word-diff? word-diff-regex= ws-error-highlight= function-names stat-width= stat-count=";
const LOG: &str = "abbrev-commit after= all all-match ancestry-path? author= author-date-order \
    basic-regexp before= bisect boundary branches? cherry cherry-mark cherry-pick children \
    clear-decorations committer= count date= date-order decorate? decorate-refs= \
    decorate-refs-exclude= dense encoding= exclude= exclude-first-parent-only extended-regexp \
    first-parent fixed-strings follow format= full-diff full-history glob= graph grep= \
    grep-reflog= ignore-missing invert-grep left-only left-right log-size max-count= max-parents= \
    merge merges min-parents= no-decorate no-expand-tabs no-max-parents no-merges \
    no-min-parents no-notes no-walk? not notes? objects oneline parents perl-regexp pretty? \
    reflog regexp-ignore-case relative-date remotes? remove-empty reverse right-only \
    show-linear-break? show-notes? show-pulls since= simplify-by-decoration simplify-merges skip= \
    source sparse stdin tags? timestamp topo-order until= use-mailmap walk-reflogs";
const DIFF_FLAGS: &str = "abBcCDMRWXpquwzstm#%";
const LOG_FLAGS: &str = "abBcCDEFMPRWXgipqrstuvwzmk#%";
const DIFF_VALUES: &str = "GISUl";
const LOG_VALUES: &str = "GILSUln";
const REFS: &str = "all abbrev? color? column? contains? count= exclude= format= ignore-case list \
    merged? no-abbrev no-color no-column no-contains? no-merged? omit-empty points-at? \
    remotes show-current sort= verbose";
const LISTING: &[&str] = &["list", "contains", "no-contains", "merged", "no-merged", "points-at"];

const TAG_LISTING: &[&str] =
    &["l", "list", "contains", "no-contains", "merged", "no-merged", "points-at"];

/// The commands, by name; one of two words stands before that of its first word.
pub(super) const COMMANDS: &[GitCommand] = &[
    g(
        "status",
        "sbvzu",
        "",
        "ahead-behind branch column? find-renames? ignore-submodules? ignored? long \
        no-ahead-behind no-column no-renames porcelain? renames short show-stash \
        untracked-files? verbose",
        &[],
    ),
    g("log", LOG_FLAGS, LOG_VALUES, "", &[LOG, DIFF]),
    g("show", LOG_FLAGS, LOG_VALUES, "", &[LOG, DIFF]),
    g("whatchanged", LOG_FLAGS, LOG_VALUES, "", &[LOG, DIFF]),
    g("diff", DIFF_FLAGS, DIFF_VALUES, "", &[DIFF]),
    g("diff-tree", LOG_FLAGS, LOG_VALUES, "always no-commit-id root", &[LOG, DIFF]),
    g("diff-index", DIFF_FLAGS, DIFF_VALUES, "", &[DIFF]),
    g("diff-files", DIFF_FLAGS, DIFF_VALUES, "", &[DIFF]),
    g(
        "range-diff",
        DIFF_FLAGS,
        DIFF_VALUES,
        "creation-factor= left-only no-dual-color right-only",
        &[DIFF],
    ),
    g("stash list", LOG_FLAGS, LOG_VALUES, "", &[LOG, DIFF]),
    g("stash show", DIFF_FLAGS, DIFF_VALUES, "include-untracked only-untracked", &[DIFF]),
    g("reflog show", LOG_FLAGS, LOG_VALUES, "", &[LOG, DIFF]),
    few("reflog", "#", "all date= format= oneline", 0),
    g("rev-list", LOG_FLAGS, "n", "disk-usage? header objects-edge quiet use-bitmap-index", &[LOG]),
    g("shortlog", "cens#", "w", "committer email group= numbered summary", &[LOG]),
    g(
        "blame",
        "bcefklnpstwCM#",
        "LS",
        "abbrev= color-by-age color-lines date= first-parent \
        ignore-rev= ignore-revs-file= incremental line-porcelain minimal no-abbrev \
        porcelain reverse root score-debug show-email show-name show-number show-stats since=",
        &[LOG],
    ),
    g("annotate", "bcefklnpstwCM#", "LS", "date= since=", &[]),
    // `-O` and `--open-files-in-pager` run a program.
    g(
        "grep",
        "EFGHPIRWacfhilLnopqrsvwz#",
        "ABCem",
        "after-context= all-match and basic-regexp \
        before-context= break cached color? column context= count exclude-standard \
        extended-regexp files-with-matches files-without-match fixed-strings full-name \
        function-context heading ignore-case index invert-match line-number max-count= max-depth= \
        name-only no-color no-exclude-standard no-index no-recursive not null only-matching or \
        perl-regexp quiet recurse-submodules recursive show-function text threads= \
        untracked word-regexp",
        &[],
    ),
    list("branch", "arvi", REFS, LISTING),
    list("tag", "ln#i", REFS, TAG_LISTING),
    g(
        "for-each-ref",
        "",
        "",
        "count= format= ignore-case include-root-refs points-at? stdin",
        &[REFS],
    ),
    g(
        "show-ref",
        "dhqs",
        "",
        "abbrev? branches dereference head heads hash? quiet tags verify",
        &[],
    ),
    g(
        "show-branch",
        "ar",
        "",
        "all current date-order independent list merge-base more= no-color \
        no-name remotes sha1-name sparse topo-order topics",
        &[],
    ),
    g("remote get-url", "", "", "all push", &[]),
    // With a name it asks the server, unless told not to.
    few("remote show", "", "", 0),
    few("remote", "v", "verbose", 0),
    g(
        "rev-parse",
        "q",
        "",
        "abbrev-ref? absolute-git-dir all branches? default= disambiguate= flags \
        git-common-dir git-dir git-path= glob= is-bare-repository is-inside-git-dir \
        is-inside-work-tree is-shallow-repository local-env-vars no-flags no-revs not \
        path-format= quiet remotes? revs-only shared-index-path short? show-cdup \
        show-object-format? show-prefix show-superproject-working-tree show-toplevel since= sq \
        symbolic symbolic-full-name tags? until= verify",
        &[],
    ),
    g(
        "ls-files",
        "cdfikmorstuvz",
        "xX",
        "abbrev? cached debug deduplicate deleted directory \
        empty-directory eol error-unmatch exclude= exclude-from= exclude-per-directory= \
        exclude-standard format= full-name ignored killed modified no-empty-directory others \
        recurse-submodules resolve-undo sparse stage unmerged with-tree=",
        &[],
    ),
    g(
        "ls-tree",
        "dlrtz",
        "",
        "abbrev? format= full-name full-tree long name-only name-status object-only",
        &[],
    ),
    // `--textconv` and `--filters` run programs.
    g(
        "cat-file",
        "epst",
        "",
        "allow-unknown-type batch? batch-all-objects batch-check? buffer follow-symlinks unordered",
        &[],
    ),
    g("merge-base", "a", "", "all fork-point independent is-ancestor octopus", &[]),
    g("name-rev", "", "", "all always exclude= name-only no-undefined refs= tags undefined", &[]),
    g(
        "describe",
        "",
        "",
        "abbrev= all always broken? candidates= contains debug dirty? exact-match \
        exclude= first-parent long match= tags",
        &[],
    ),
    g("cherry", "v", "", "abbrev? verbose", &[]),
    g("count-objects", "vH", "", "human-readable verbose", &[]),
    g("check-ignore", "qvnz", "", "no-index non-matching quiet stdin verbose", &[]),
    g("check-attr", "az", "", "all cached source= stdin", &[]),
    g("worktree list", "vz", "", "porcelain verbose", &[]),
    few("submodule status", "", "cached recursive", 0),
    few("submodule", "", "", 0),
    // Two names would set one.
    few("symbolic-ref", "q", "no-recurse quiet short", 1),
    few("notes list", "", "", 1),
    few("notes show", "", "", 1),
    few("bisect log", "", "", 0),
    few("version", "", "build-options", 0),
];
