//! `gimlet execpolicy check`: what the policy says of a command, which is never run.
//!
//! Reads the rules once and answers for one command, or for each line of stdin. The judgement is
//! `policy/check.rs`; here are only words in and lines out. Called by `cli/mod.rs`.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::args::{ExecpolicyArgs, ExecpolicyCheckArgs, ExecpolicyCommand, SettingsArgs};
use crate::cli::commands::config::report_notes;
use crate::cli::exit_code::ExitCode;
use crate::cli::settings::{load_directories, load_settings};
use crate::config::ConfigError;
use crate::config::trust::load_text;
use crate::policy::{CheckDecision, Checked, Origin, RuleFile, Rules, check};
use crate::protocol::CommandLine;
use crate::text::ansi::visible_line;

/// Bytes of a line of stdin that are kept; a command so long is asked for in any case.
const LINE_BYTES_MAX: usize = 1 << 20;

/// Runs `gimlet execpolicy`.
pub(crate) fn run(args: &ExecpolicyArgs, settings: &SettingsArgs) -> anyhow::Result<ExitCode> {
    let ExecpolicyCommand::Check(args) = &args.command;
    let setting = Setting {
        rules: load_rules(args, settings)?,
        cwd: std::env::current_dir()
            .unwrap_or_default()
            .join(settings.cd.clone().unwrap_or_default()),
        home: load_directories()?.home,
    };
    if args.stdin {
        return match check_lines(args, &setting, &mut io::stdin().lock(), io::stdout().lock()) {
            // Who reads no more wants no more answers.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::Done),
            result => Ok(result.map(|()| ExitCode::Done)?),
        };
    }
    let command = command_of(&args.words);
    let checked = setting.check(&command);
    crate::cli::out::write_out(&render(&command.shown(), &checked, args.json)?)?;
    Ok(match checked.decision {
        CheckDecision::Allow => ExitCode::Done,
        CheckDecision::Ask => ExitCode::WouldAsk,
        CheckDecision::Deny => ExitCode::WouldDeny,
    })
}

/// What a command is judged by.
struct Setting {
    rules: Rules,
    cwd: PathBuf,
    home: PathBuf,
}

impl Setting {
    fn check(&self, command: &CommandLine) -> Checked {
        check(command, &self.rules, &self.cwd, &self.home)
    }
}

fn load_rules(args: &ExecpolicyCheckArgs, settings: &SettingsArgs) -> Result<Rules, ConfigError> {
    if args.rules.is_empty() {
        let config = load_settings(settings, true)?.resolved.config;
        // A closed stderr keeps nobody from an answer.
        let _ = report_notes(&config.notes);
        return Ok(Rules::clone(&config.rules));
    }
    let mut rules = Rules::default();
    for path in &args.rules {
        let shown = path.display().to_string();
        let text = load_text(path)?.ok_or_else(|| missing(path))?;
        rules.read(&RuleFile { label: &shown, path: &shown, text: &text, origin: Origin::User })?;
    }
    Ok(rules)
}

fn missing(path: &Path) -> ConfigError {
    let message = "there is no such file".to_owned();
    ConfigError::File { action: "read", path: path.to_path_buf(), message }
}

/// One word is a line for a shell, as a person types it; more are a program and its arguments.
fn command_of(words: &[String]) -> CommandLine {
    match words {
        [line] => shell_line(line.clone()),
        _ => CommandLine::Argv { argv: words.to_vec() },
    }
}

fn shell_line(script: String) -> CommandLine {
    CommandLine::Shell { program: "/bin/sh".to_owned(), login: false, script }
}

/// Answers for each line of a stream. A line that is not UTF-8 is judged with marks in the place
/// of what is not text, which no known command holds.
fn check_lines(
    args: &ExecpolicyCheckArgs,
    setting: &Setting,
    input: &mut impl BufRead,
    output: impl Write,
) -> io::Result<()> {
    let mut output = BufWriter::new(output);
    let mut line = Vec::new();
    while read_line(input, &mut line)? {
        let command = shell_line(String::from_utf8_lossy(&line).into_owned());
        let checked = setting.check(&command);
        let answer = render(&command.shown(), &checked, args.json).map_err(io::Error::other)?;
        output.write_all(answer.as_bytes())?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

/// Reads up to a newline; what is beyond the bound is read and left out.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = memchr::memchr(b'\n', buffer);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(part.len());
        line.extend_from_slice(part.get(..room).unwrap_or_default());
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[derive(Serialize)]
struct Answer<'a> {
    command: &'a str,
    decision: CheckDecision,
    reason: &'a str,
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unsandboxed: bool,
}

fn render(command: &str, checked: &Checked, json: bool) -> Result<String, serde_json::Error> {
    let Checked { decision, reason, rule, leaves_sandbox } = checked;
    if json {
        return serde_json::to_string(&Answer {
            command,
            decision: *decision,
            reason,
            rule: rule.as_deref(),
            unsandboxed: *leaves_sandbox,
        });
    }
    let word = match decision {
        CheckDecision::Allow if *leaves_sandbox => "allow, outside the sandbox",
        CheckDecision::Allow => "allow",
        CheckDecision::Ask => "ask",
        CheckDecision::Deny => "deny",
    };
    Ok(format!("{word}: {}", visible_line(reason)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(input: &[u8], rules: &str) -> String {
        let mut read = Rules::default();
        let file = RuleFile { label: "r", path: "r", text: rules, origin: Origin::User };
        read.read(&file).unwrap();
        let args = ExecpolicyCheckArgs { json: true, stdin: true, rules: vec![], words: vec![] };
        let mut output = Vec::new();
        let setting = Setting { rules: read, cwd: "/w".into(), home: "/home/u".into() };
        check_lines(&args, &setting, &mut &*input, &mut output).unwrap();
        String::from_utf8(output).unwrap()
    }

    #[test]
    fn every_line_has_one_answer_whatever_it_holds() {
        let answers = lines(b"ls -la\n\nls\xff\nls\r\nrm x", "");
        let expected = concat!(
            r#"{"command":"ls -la","decision":"allow","reason":"it is known to only read","rule":null}"#,
            "\n",
            r#"{"command":"","decision":"ask","reason":"it is empty (at byte 1)","rule":null}"#,
            "\n",
            "{\"command\":\"ls\u{fffd}\",\"decision\":\"ask\",\"reason\":\"a character outside quotes is not ASCII (at byte 3)\",\"rule\":null}\n",
            r#"{"command":"ls\r","decision":"ask","reason":"a control character or sign in it is not understood (at byte 3)","rule":null}"#,
            "\n",
            r#"{"command":"rm x","decision":"ask","reason":"`rm` is not known to only read","rule":null}"#,
            "\n",
        );
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_line_without_end_is_bounded() {
        let answers = lines(&vec![b'x'; 3 * LINE_BYTES_MAX], "");
        assert!(answers.len() < LINE_BYTES_MAX + 200 && answers.contains("too long"));
    }

    #[test]
    fn a_rule_is_named() {
        let rules =
            "[[rule]]\naction = \"deny\"\nprogram = \"git\"\nargs = [\"push\"]\nreason = \"no\"\n";
        let answers = lines(b"ls; git -C x push", rules);
        assert!(
            answers.contains(
                r#""decision":"deny","reason":"the rule at r:1 denies it: no","rule":"r:1"}"#
            ),
            "{answers}"
        );
    }
}
