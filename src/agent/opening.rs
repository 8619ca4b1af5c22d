//! How a session opens: a new file, or an earlier one read back and mended.
//!
//! Folds the log into a conversation and gives every call that a dead process left open the
//! output it had, or the word "interrupted". Runs nothing. Called by `Engine::start` and, for
//! the items that open the first turn, by `session.rs`.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::sync::Arc;

use crate::agent::Engine;
use crate::agent::History;
use crate::agent::SessionSpec;
use crate::agent::StartError;
use crate::agent::approvals::Approvals;
use crate::agent::approvals::PastApprovals;
use crate::agent::bus::Bus;
use crate::agent::masking::Masking;
use crate::agent::notes::RestoredNote;
use crate::agent::restore::open_snapshots;
use crate::agent::session::Desk;
use crate::agent::session::FrontEnd;
use crate::agent::session::Session;
use crate::agent::settings::Settings;
use crate::agent::settings::Surroundings;
use crate::agent::turn::INTERRUPTED;
use crate::agent::turn::RequestMemory;
use crate::config::Config;
use crate::conversation::Conversation;
use crate::conversation::build_output;
use crate::prompt;
use crate::prompt::InstructionFiles;
use crate::protocol::CallId;
use crate::protocol::CallOutcome;
use crate::protocol::Event;
use crate::protocol::EventMsg;
use crate::protocol::Network;
use crate::protocol::OutputBody;
use crate::protocol::ProcessId;
use crate::protocol::ResponseItem;
use crate::protocol::SandboxLevel;
use crate::protocol::SandboxMode;
use crate::protocol::SessionId;
use crate::protocol::StopCause;
use crate::protocol::TokenUsage;
use crate::protocol::ToolName;
use crate::protocol::ToolOutput;
use crate::protocol::TurnId;
use crate::protocol::TurnOutcome;
use crate::protocol::WarningKind;
use crate::store::session_file::Loaded;
use crate::store::session_file::SessionFile;
use crate::tools::SeenFiles;
use crate::tools::ToolError;

/// What an earlier process left in its file.
#[derive(Default)]
struct Past {
    conversation: Conversation,
    instructions: Option<String>,
    memory: RequestMemory,
    usage: TokenUsage,
    turn: TurnId,
    /// What was undone or redone since the last turn.
    restored: Vec<RestoredNote>,
    approvals: PastApprovals,
    /// The last id of a command that outlived its call.
    last_process: ProcessId,
    /// What has to be written to make the log whole.
    mending: Vec<Said>,
}

/// What is to be said, and of which call.
pub(super) type Said = (Option<CallId>, EventMsg);

impl Session {
    /// Opens a session and its file. Everything that is said of it comes later, from `run`.
    pub(super) fn open(
        engine: &Engine,
        spec: SessionSpec,
        front_end: FrontEnd,
    ) -> Result<Self, StartError> {
        let SessionSpec { config, history, interactive, env, secrets, shell } = spec;
        // Without a driver nothing works, so this is said before a file is made.
        engine.drivers.driver(&config.model)?;
        let (id, file, past) = open_file(&config, history)?;
        let settings = Settings::new(Arc::clone(&config));
        let report = engine.runner.level_under(&settings.sandbox_policy(), &env);
        let around = Surroundings {
            env: env.into(),
            shell,
            level: report.level,
            level_reason: report.reason,
            exposed: report.exposed,
            interactive,
            seen: SeenFiles::new(),
        };
        // What a session began with holds to its end, or the prompt cache is lost.
        let instructions = match past.instructions.as_deref() {
            Some(text) => Arc::from(text),
            None => prompt::build_instructions(read_own_instructions(&config).as_deref()),
        };
        let approvals = Approvals::new(
            id,
            config.directories.state.clone(),
            config.project_root.clone(),
            past.approvals,
        );
        let files = past.conversation.items().is_empty().then(|| load_files(&config));
        let mut session = Self {
            id,
            around,
            drivers: Arc::clone(&engine.drivers),
            tools: engine.tools.clone(),
            runner: Arc::clone(&engine.runner),
            bus: Bus::new(id, file, front_end, engine.observers.clone()),
            settings,
            instructions,
            conversation: past.conversation,
            memory: past.memory,
            usage: past.usage,
            opening: Vec::new(),
            files,
            registry: None,
            servers: Vec::new(),
            desk: Desk::new(approvals),
            snapshots: open_snapshots(&config),
            restored: past.restored,
            config,
        };
        session.bus.set_turn(past.turn);
        if session.config.mask_secrets {
            session.bus.set_masking(Masking::new(token_seed(&session.config), &secrets));
        }
        session.desk.processes.start_after(past.last_process);
        session.desk.processes.snapshots.clone_from(&session.snapshots);
        let resumed = matches!(history, History::Resume(_));
        let events = session.opening_events(resumed, past.instructions.as_deref());
        session.opening = events.into_iter().map(|msg| (None, msg)).chain(past.mending).collect();
        Ok(session)
    }

    fn opening_events(&self, resumed: bool, past_instructions: Option<&str>) -> Vec<EventMsg> {
        let is_same = past_instructions == Some(&*self.instructions);
        let mut events = vec![
            EventMsg::SessionStarted {
                gimlet_version: env!("CARGO_PKG_VERSION").to_owned(),
                cwd: self.config.cwd.clone(),
                model: self.config.model.clone(),
                provider: self.config.provider.name.clone(),
                resumed,
                parent_session: None,
                instructions: (!is_same).then(|| self.instructions.to_string()),
                instruction_files: self
                    .files
                    .as_ref()
                    .map(InstructionFiles::paths)
                    .unwrap_or_default(),
            },
            EventMsg::SandboxLevel {
                level: self.around.level,
                reason: self.around.level_reason.clone(),
            },
        ];
        for message in self.files.iter().flat_map(|files| &files.warnings) {
            events.push(EventMsg::Warning {
                kind: WarningKind::Instructions,
                message: message.clone(),
                hint: None,
            });
        }
        for note in &self.config.notes {
            events.push(EventMsg::Warning {
                kind: WarningKind::Config,
                message: note.message.clone(),
                hint: note.hint.clone(),
            });
        }
        if let Some(message) = &self.around.exposed {
            events.push(EventMsg::Warning {
                kind: WarningKind::Sandbox,
                message: message.clone(),
                hint: Some(
                    "keep them out of what commands may write, or use -s read-only".to_owned(),
                ),
            });
        }
        let settings = &self.config.sandbox;
        let confined = settings.mode != SandboxMode::DangerFullAccess;
        let hosts = matches!(settings.network, Network::Hosts(_));
        if hosts && confined && self.around.level < SandboxLevel::Full {
            let message = "allowed_hosts needs the full sandbox, which this machine does not have; \
                commands reach no network";
            events.push(EventMsg::Warning {
                kind: WarningKind::Sandbox,
                message: message.to_owned(),
                hint: Some("network_access = true would open all of it".to_owned()),
            });
        }
        if confined && self.around.level < SandboxLevel::Reduced {
            events.push(EventMsg::Warning {
                kind: WarningKind::Sandbox,
                message: "commands cannot be confined on this machine, so none will run".to_owned(),
                hint: Some("sandbox mode danger-full-access runs them unconfined".to_owned()),
            });
        }
        events
    }

    /// Returns the items that stand before a user's message: at the start the instruction
    /// files and the environment, later the environment when it has changed.
    pub(super) fn opening_items(&mut self) -> Vec<ResponseItem> {
        let approval = self.around.interactive.then_some(self.settings.approval);
        let environment = prompt::read_environment(
            &self.config.cwd,
            &self.around.shell,
            &self.settings.policy_at(self.around.level),
            approval,
        );
        if self.conversation.items().is_empty() {
            let files = self.files.take().unwrap_or_default();
            let developer = self.config.developer_instructions.as_deref();
            return prompt::build_opening(&files, developer, &environment);
        }
        let now = ResponseItem::user_text(environment.render());
        let is_environment = |item: &ResponseItem| match item {
            ResponseItem::Message(message) => message.text().starts_with("<environment_context>"),
            _ => false,
        };
        let items = self.conversation.items().iter().rev();
        let last = items.map(|entry| &entry.item).find(|item| is_environment(item));
        if last == Some(&now) { Vec::new() } else { vec![now] }
    }
}

/// Returns what the tokens of masked secrets are drawn from. A script must be able to name
/// them; nothing else may.
fn token_seed(config: &Config) -> u64 {
    match config.provider.script {
        Some(_) => 0,
        None => uuid::Uuid::now_v7().as_u64_pair().1,
    }
}

fn open_file(
    config: &Config,
    history: History,
) -> Result<(SessionId, Option<SessionFile>, Past), StartError> {
    let state = &config.directories.state;
    match history {
        History::New => {
            let id = SessionId(uuid::Uuid::now_v7());
            let file = match config.ephemeral {
                true => None,
                false => Some(SessionFile::create(state, id)?),
            };
            Ok((id, file, Past::default()))
        }
        History::Resume(id) => {
            let (file, loaded) = SessionFile::open(state, id)?;
            let past = read_past(loaded);
            Ok((id, (!config.ephemeral).then_some(file), past))
        }
    }
}

fn load_files(config: &Config) -> InstructionFiles {
    prompt::load_project_docs(&config.cwd, &config.directories.config, &config.project_docs)
}

fn read_own_instructions(config: &Config) -> Option<String> {
    // `config/load.rs` has checked that the file can be read; one that vanished since counts
    // as not set.
    std::fs::read_to_string(config.instructions_file.as_deref()?).ok()
}

fn read_past(mut loaded: Loaded) -> Past {
    let mut past = Past {
        conversation: Conversation::fold(loaded.events.iter().map(|event| &event.msg)),
        ..Past::default()
    };
    let mut turn_is_open = false;
    let mut ended: HashMap<CallId, OutputBody> = HashMap::new();
    let mut running: BTreeSet<ProcessId> = BTreeSet::new();
    for Event { turn, call_id, msg, .. } in std::mem::take(&mut loaded.events) {
        past.turn = past.turn.max(turn);
        past.approvals.fold(&msg);
        if let EventMsg::SessionStarted { instructions: Some(text), .. } = msg {
            past.instructions = Some(text);
        } else if let EventMsg::RequestStarted { tools: Some(tools), .. } = msg {
            past.memory = RequestMemory::with_tools(Some(tools.into()));
        } else if let EventMsg::TokenCount { session, .. } = msg {
            past.usage = session;
        } else if let EventMsg::TurnStarted { .. } = msg {
            turn_is_open = true;
            past.restored.clear();
        } else if let EventMsg::TurnEnded { .. } = msg {
            turn_is_open = false;
        } else if let EventMsg::Restored { turn, direction, changes, after: Some(_), .. } = msg {
            past.restored.push(RestoredNote { turn, direction, changes });
        } else if let EventMsg::ToolCallEnd { output, .. } = msg {
            ended.extend(call_id.map(|id| (id, output.body())));
        } else if let EventMsg::ProcessStarted { process, .. } = msg {
            past.last_process = past.last_process.max(process);
            running.insert(process);
        } else if let EventMsg::ProcessEnded { process, .. } = msg {
            running.remove(&process);
        }
    }
    if loaded.bad_lines > 0 || loaded.broken_links > 0 {
        past.approvals.distrust();
    }
    past.mending = describe_damage(&loaded).into_iter().map(|msg| (None, msg)).collect();
    // What a process leaves running ends with it, whatever ended the process.
    let over = |process| (None, EventMsg::ProcessEnded { process, exit_code: None });
    past.mending.extend(running.into_iter().map(over));
    mend(&mut past, turn_is_open, ended);
    past
}

/// Says what was found wrong with a file: to the user, and in the file itself, where the chain
/// of hashes is anchored anew.
fn describe_damage(loaded: &Loaded) -> Vec<EventMsg> {
    let warning = |message: String, hint: Option<&str>| EventMsg::Warning {
        kind: WarningKind::Session,
        message,
        hint: hint.map(str::to_owned),
    };
    let mut found = Vec::new();
    if loaded.bad_lines > 0 {
        let message = match loaded.bad_lines {
            1 => "1 line of the session file cannot be read; it is passed over".to_owned(),
            n => format!("{n} lines of the session file cannot be read; they are passed over"),
        };
        found.push(warning(message, None));
    }
    if loaded.broken_links > 0 {
        let message = "the session file was changed by something other than Gimlet".to_owned();
        let hint = "what the model is sent now may differ from what was said";
        found.push(warning(message.clone(), Some(hint)));
        found.push(EventMsg::Repaired { cause: message, bytes: 0 });
    }
    if loaded.torn_bytes > 0 {
        let cause = "the last line was not whole and was set aside".to_owned();
        found.push(EventMsg::Repaired { cause, bytes: loaded.torn_bytes });
    }
    found
}

/// Writes down what a dead process could not: outputs of open calls, the end of its turn.
fn mend(past: &mut Past, turn_is_open: bool, mut ended: HashMap<CallId, OutputBody>) {
    let open: Vec<_> = past.conversation.open_calls().into_iter().cloned().collect();
    for call in open {
        let id = call.call_id().cloned();
        let body = id.as_ref().and_then(|id| ended.remove(id));
        if body.is_none() {
            past.mending.extend(lost_end(&call).map(|end| (id.clone(), end)));
        }
        let body = body.unwrap_or_else(|| OutputBody::Text(INTERRUPTED.to_owned()));
        if let Some(item) = build_output(&call, body) {
            past.mending.push((id, EventMsg::ItemCompleted { item: item.clone() }));
            past.conversation.push(item);
        }
    }
    if turn_is_open {
        let ended = EventMsg::TurnEnded {
            outcome: TurnOutcome::Interrupted { cause: StopCause::Crash },
            usage: TokenUsage::default(),
            steps: 0,
            duration_ms: 0,
            last_message: None,
        };
        past.mending.push((None, ended));
    }
}

/// Returns the end of a call whose own end was lost with its process.
fn lost_end(call: &ResponseItem) -> Option<EventMsg> {
    let tool = match call {
        ResponseItem::FunctionCall(call) => call.name.clone(),
        ResponseItem::CustomToolCall(call) => call.name.clone(),
        ResponseItem::LocalShellCall(_) => ToolName::from("local_shell"),
        ResponseItem::Message(_)
        | ResponseItem::Reasoning(_)
        | ResponseItem::WebSearchCall(_)
        | ResponseItem::FunctionCallOutput(_)
        | ResponseItem::CustomToolCallOutput(_)
        | ResponseItem::Other(_) => return None,
    };
    Some(EventMsg::ToolCallEnd {
        tool,
        outcome: CallOutcome::Interrupted,
        output: ToolOutput::failure(INTERRUPTED.to_owned()),
        duration_ms: 0,
        code: Some(ToolError::Interrupted.code().to_owned()),
    })
}
