//! Instruction files and environment, from trees on disk; a request from its parts.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use expect_test::{expect, expect_file};

use crate::config::ProjectDocs;
use crate::prompt::{
    InstructionFiles, PromptContext, build, build_instructions, build_opening, load_project_docs,
    read_environment,
};
use crate::protocol::{
    ApprovalPolicy, EncodedItem, GitAccess, ModelSettings, Network, ResponseItem, SandboxMode,
    SandboxPolicy,
};

fn settings() -> ProjectDocs {
    ProjectDocs {
        bytes_max: 32 * 1024,
        fallback_names: vec!["CONTRIBUTING.md".to_owned()],
        // A fixture cannot hold a `.git` of its own.
        root_markers: vec![".git".to_owned(), "ROOT".to_owned()],
    }
}

fn sandbox(root: &Path) -> SandboxPolicy {
    SandboxPolicy {
        mode: SandboxMode::WorkspaceWrite,
        roots: vec![root.to_owned()],
        network: Network::Off,
        deny_read: Vec::new(),
        deny_write: Vec::new(),
        git: GitAccess::Ask,
        tmp: true,
    }
}

/// The instruction files as the model and the user are told of them.
fn shown(files: &InstructionFiles, root: &Path) -> String {
    let environment = read_environment(root, "/bin/bash", &sandbox(root), None);
    let opening = build_opening(files, None, &environment);
    let docs = match opening.as_slice() {
        [ResponseItem::Message(docs), _] => docs.text(),
        _ => "(none)\n".to_owned(),
    };
    let warnings: String = files.warnings.iter().map(|line| format!("! {line}\n")).collect();
    format!("{docs}{warnings}").replace(&*root.to_string_lossy(), "$ROOT")
}

/// Each case: a tree with the file `cwd` naming where the session runs, and a user directory.
#[test]
fn fixtures() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/project_docs");
    let mut cases = 0;
    for case in fs::read_dir(&root).unwrap() {
        let case = case.unwrap().path();
        let cwd = case.join(fs::read_to_string(case.join("cwd")).unwrap().trim());
        let files = load_project_docs(&cwd, &case.join("user"), &settings());
        expect_file![case.join("expected.txt")].assert_eq(&shown(&files, &case));
        cases += 1;
    }
    assert!(cases >= 6, "the fixtures are gone: {cases}");
}

/// A repository with nothing in it, and its real path.
fn repository() -> (tempfile::TempDir, PathBuf) {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap().join("repo");
    fs::create_dir_all(root.join(".git")).unwrap();
    (home, root)
}

// Made here and not a fixture: not every way of handing on this tree keeps links.
#[test]
fn a_link_within_the_repository_is_followed() {
    let (home, root) = repository();
    fs::write(root.join("HACKING.md"), "from docs\n").unwrap();
    symlink("HACKING.md", root.join("AGENTS.md")).unwrap();
    let files = load_project_docs(&root, &home.path().join("none"), &settings());
    expect![[r#"
        # Instructions from AGENTS.md

        ## $ROOT/AGENTS.md

        from docs
    "#]]
    .assert_eq(&shown(&files, &root));
}

#[test]
fn a_link_out_of_the_repository_is_refused() {
    let (home, root) = repository();
    fs::write(home.path().join("secret"), "token").unwrap();
    symlink(home.path().join("secret"), root.join("AGENTS.md")).unwrap();
    let files = load_project_docs(&root, &home.path().join("none"), &settings());
    assert_eq!(files.docs, []);
    expect![[r#"
        (none)
        ! $ROOT/AGENTS.md was not read: it is a link to a file outside the repository
    "#]]
    .assert_eq(&shown(&files, &root));
}

#[test]
fn a_link_into_dot_git_is_refused() {
    let (home, root) = repository();
    fs::write(root.join(".git/config"), "url = https://token@host").unwrap();
    symlink(".git/config", root.join("AGENTS.md")).unwrap();
    let files = load_project_docs(&root, home.path(), &settings());
    assert_eq!((files.docs.len(), files.warnings.len()), (0, 1));
}

#[test]
fn a_fifo_and_a_directory_neither_block_nor_count() {
    let (home, root) = repository();
    let sub = root.join("sub");
    fs::create_dir_all(sub.join("AGENTS.md")).unwrap();
    let fifo = root.join("AGENTS.md");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let files = load_project_docs(&sub, home.path(), &settings());
    assert_eq!((files.docs.len(), files.warnings.len()), (0, 2));
}

#[test]
fn the_limit_holds_over_all_files_of_the_project() {
    let (home, root) = repository();
    let sub = root.join("sub");
    fs::create_dir_all(&sub).unwrap();
    fs::write(root.join("AGENTS.md"), "é".repeat(30)).unwrap();
    fs::write(sub.join("AGENTS.md"), "é".repeat(30)).unwrap();
    let limits = ProjectDocs { bytes_max: 75, ..settings() };
    let files = load_project_docs(&sub, home.path(), &limits);
    let [whole, cut] = files.docs.as_slice() else { panic!("{files:?}") };
    assert_eq!(whole.text, "é".repeat(30));
    assert_eq!(cut.text, format!("{}\n[45 more bytes are not shown]", "é".repeat(7)));
    assert_eq!(files.warnings.len(), 1);
}

#[test]
fn invisible_characters_are_marked() {
    let (home, root) = repository();
    fs::write(root.join("AGENTS.md"), "\u{feff}be nice\u{e0041}\r\nok\r\n").unwrap();
    let files = load_project_docs(&root, home.path(), &settings());
    assert!(!files.docs[0].text.contains(['\u{feff}', '\u{e0041}', '\r']), "{files:?}");
    assert!(files.docs[0].text.starts_with("be nice"));
    assert_eq!(files.warnings.len(), 1);
}

#[test]
fn zero_bytes_switches_project_files_off() {
    let (home, root) = repository();
    fs::write(root.join("AGENTS.md"), "x").unwrap();
    let limits = ProjectDocs { bytes_max: 0, ..settings() };
    let files = load_project_docs(&root, home.path(), &limits);
    assert_eq!(files, InstructionFiles::default());
}

#[test]
fn the_environment_is_a_few_lines() {
    let (_home, root) = repository();
    fs::write(root.join(".git/HEAD"), "ref: refs/heads/fix/comment\n").unwrap();
    let sub = root.join("a\nb");
    fs::create_dir_all(&sub).unwrap();
    let mut environment =
        read_environment(&sub, "/usr/bin/zsh", &sandbox(&root), Some(ApprovalPolicy::OnRequest));
    environment.date = "2026-11-21".to_owned();
    let text = environment.render().replace(&*root.to_string_lossy(), "$ROOT");
    let os = format!("{} {}", std::env::consts::OS, std::env::consts::ARCH);
    expect![[r#"
        <environment_context>
        cwd: $ROOT/a␊b
        shell: zsh
        os: $OS
        date: 2026-11-21
        git branch: fix/comment
        sandbox: workspace-write: $ROOT and the temporary directory, .git is protected, network off
        approval: on-request: you may ask to leave the sandbox
        </environment_context>"#]]
    .assert_eq(&text.replace(&os, "$OS"));
}

#[test]
fn a_head_that_is_no_head_is_not_shown() {
    let (_home, root) = repository();
    let branch = |head: &str| {
        fs::write(root.join(".git/HEAD"), head).unwrap();
        read_environment(&root, "sh", &sandbox(&root), None).branch
    };
    assert_eq!(branch("AWS_KEY=abc\n"), None);
    assert_eq!(branch(&"0f".repeat(20)), Some("0f0f0f0f0f0f".to_owned()));
    assert_eq!(branch("ref: refs/heads/main\n"), Some("main".to_owned()));
}

#[test]
fn a_worktree_names_its_own_branch() {
    let (home, root) = repository();
    fs::create_dir_all(root.join(".git/worktrees/w")).unwrap();
    fs::write(root.join(".git/worktrees/w/HEAD"), "ref: refs/heads/side\n").unwrap();
    let tree = home.path().join("w");
    fs::create_dir_all(&tree).unwrap();
    fs::write(tree.join(".git"), format!("gitdir: {}/.git/worktrees/w\n", root.display())).unwrap();
    let branch = || read_environment(&tree, "sh", &sandbox(&tree), None).branch;
    assert_eq!(branch(), None, "the repository does not know this tree");
    let back = format!("{}/.git\n", tree.display());
    fs::write(root.join(".git/worktrees/w/gitdir"), back).unwrap();
    assert_eq!(branch().as_deref(), Some("side"));
}

#[test]
fn a_submodule_names_its_own_branch_and_a_foreign_directory_none() {
    let (home, root) = repository();
    for directory in [root.join(".git/modules/sub"), home.path().join("foreign")] {
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("HEAD"), "ref: refs/heads/side\n").unwrap();
    }
    fs::create_dir_all(root.join("sub")).unwrap();
    let branch = |target: &str| {
        fs::write(root.join("sub/.git"), format!("gitdir: {target}\n")).unwrap();
        read_environment(&root.join("sub"), "sh", &sandbox(&root), None).branch
    };
    assert_eq!(branch("../.git/modules/sub").as_deref(), Some("side"));
    assert_eq!(branch("../../foreign"), None);
}

#[test]
fn base_instructions_are_short_and_replaceable() {
    let base = build_instructions(None);
    assert!((3_000..6_144).contains(&base.len()), "{}", base.len());
    assert_eq!(&*build_instructions(Some("mine\n")), "mine");
}

#[test]
fn a_request_shares_what_it_can() {
    let context = PromptContext {
        instructions: build_instructions(None),
        tools: Arc::from([]),
        settings: ModelSettings {
            model: "m".into(),
            effort: None,
            summary: None,
            verbosity: None,
            tier: None,
            cache_key: "k".to_owned(),
        },
        parallel_tool_calls: true,
        output_schema: None,
    };
    let items = vec![Arc::new(EncodedItem::new(ResponseItem::user_text("hi")))];
    let prompt = build(&context, items.clone());
    assert!(Arc::ptr_eq(&prompt.instructions, &context.instructions));
    assert!(Arc::ptr_eq(&prompt.input[0], &items[0]));
    assert!(!prompt.parallel_tool_calls, "there is no tool to call");
}
