//! `FakeDriver`: plays a script through the same trait as a real server.
//!
//! Tests, the demo and replays speak to it. A script is JSON lines; the format is one page in
//! `tests/fixtures/fake/README.md`. It opens no connection, and the body it claims to send is
//! the one the Responses driver would send.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::unfold;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::model::responses::encode::encode;
use crate::model::responses::sent_event;
use crate::model::{BoxStream, Driver, DriverError, ResponseEvent};
use crate::protocol::{
    CallId, CustomToolCall, EncodedItem, ErrorKind, FunctionCall, LocalShellAction, LocalShellCall,
    OutputBody, Prompt, ResponseItem, TokenUsage, ToolName,
};

/// What to do about a script that cannot be played.
const SCRIPT_HINT: &str = "a script is JSON lines; tests/README.md of the sources lists them";

/// Plays a script, one response per request.
#[derive(Debug)]
pub(crate) struct FakeDriver {
    script: Arc<Mutex<Script>>,
}

#[derive(Debug)]
struct Script {
    responses: VecDeque<Vec<Step>>,
    requests: usize,
}

/// One line of a script.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Step {
    Expect(Expectation),
    Delta(String),
    ReasoningDelta(String),
    ArgumentsDelta(String),
    Item(ResponseItem),
    Say(String),
    Call(Call),
    Custom(Custom),
    Shell(Vec<String>),
    DelayMs(u64),
    Warning(String),
    Restart(Restart),
    Fail(Fail),
    End(End),
}

/// What a request must hold.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Expectation {
    model: Option<String>,
    items: Option<usize>,
    instructions_contain: Option<String>,
    input_contains: Option<String>,
    last_output_contains: Option<String>,
    tools_include: Vec<ToolName>,
    tools_exclude: Vec<ToolName>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: ToolName,
    #[serde(default)]
    arguments: Value,
    #[serde(default)]
    call_id: CallId,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Custom {
    name: ToolName,
    input: String,
    #[serde(default)]
    call_id: CallId,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Restart {
    #[serde(default = "one")]
    attempt: u32,
    #[serde(default = "one")]
    attempts_max: u32,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    reason: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    kind: ErrorKind,
    message: String,
    #[serde(default)]
    hint: Option<String>,
    #[serde(default)]
    retryable: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(default)]
    usage: Value,
}

fn one() -> u32 {
    1
}

impl FakeDriver {
    /// Reads a script from a file.
    pub(crate) fn load(path: &Path) -> Result<Self, DriverError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| script_error(format!("cannot read {}: {error}", path.display())))
            .map_err(|error| DriverError { hint: Some(SCRIPT_HINT.to_owned()), ..error })?;
        Self::from_text(&text).map_err(|error| DriverError {
            message: format!("{}: {}", path.display(), error.message),
            hint: Some(SCRIPT_HINT.to_owned()),
            ..error
        })
    }

    /// Reads a script from its text.
    pub(crate) fn from_text(text: &str) -> Result<Self, DriverError> {
        let responses = parse_script(text).map_err(script_error)?;
        let script = Script { responses, requests: 0 };
        Ok(Self { script: Arc::new(Mutex::new(script)) })
    }

    fn next_response(&self) -> (usize, Option<Vec<Step>>) {
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        script.requests += 1;
        (script.requests, script.responses.pop_front())
    }
}

impl Driver for FakeDriver {
    fn stream(&self, prompt: Prompt) -> BoxStream<Result<ResponseEvent, DriverError>> {
        let (request, response) = self.next_response();
        let mut play = Play { request, calls: 0, steps: VecDeque::new(), ready: VecDeque::new() };
        play.ready.push_back(Ok(sent_event(&encode(&prompt))));
        match response {
            Some(steps) => play.begin(steps, &prompt),
            None => play.ready.push_back(Err(DriverError {
                hint: Some("add a response to the script, or end the turn earlier".to_owned()),
                ..script_error(format!("the script has no response for request {request}"))
            })),
        }
        Box::pin(unfold(Box::new(play), |mut play| async move {
            play.next().await.map(|event| (event, play))
        }))
    }
}

/// One response while it is played.
struct Play {
    request: usize,
    calls: usize,
    steps: VecDeque<Step>,
    ready: VecDeque<Result<ResponseEvent, DriverError>>,
}

impl Play {
    fn begin(&mut self, steps: Vec<Step>, prompt: &Prompt) {
        for step in &steps {
            if let Step::Expect(expectation) = step
                && let Err(difference) = check(expectation, prompt)
            {
                let request = self.request;
                let message =
                    format!("request {request} is not what the script expects: {difference}");
                self.ready.push_back(Err(script_error(message)));
                return;
            }
        }
        let response_id = format!("resp_{}", self.request);
        self.ready.push_back(Ok(ResponseEvent::Created { response_id }));
        self.steps = steps.into();
    }

    async fn next(&mut self) -> Option<Result<ResponseEvent, DriverError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match self.steps.pop_front()? {
                Step::DelayMs(delay_ms) => {
                    tokio::time::sleep(Duration::from_millis(delay_ms)).await;
                }
                step => self.play(step),
            }
        }
    }

    fn play(&mut self, step: Step) {
        let event = match step {
            // Checked at the start, and slept through in `next`.
            Step::Expect(_) | Step::DelayMs(_) => return,
            Step::Delta(text) => ResponseEvent::TextDelta(text),
            Step::ReasoningDelta(text) => ResponseEvent::ReasoningDelta(text),
            Step::ArgumentsDelta(text) => ResponseEvent::ArgumentsDelta(text),
            Step::Item(item) => ResponseEvent::ItemDone(item),
            Step::Say(text) => {
                self.ready.push_back(Ok(ResponseEvent::TextDelta(text.clone())));
                ResponseEvent::ItemDone(ResponseItem::assistant_text(None, text))
            }
            Step::Call(call) => ResponseEvent::ItemDone(self.function_call(call)),
            Step::Custom(call) => ResponseEvent::ItemDone(self.custom_call(call)),
            Step::Shell(command) => ResponseEvent::ItemDone(self.shell_call(command)),
            Step::Warning(message) => ResponseEvent::Warning(message),
            Step::Restart(Restart { attempt, attempts_max, delay_ms, reason }) => {
                ResponseEvent::Restarted { attempt, attempts_max, delay_ms, reason }
            }
            Step::Fail(Fail { kind, message, hint, retryable }) => {
                self.ready.push_back(Err(DriverError { kind, message, hint, retryable }));
                return;
            }
            Step::End(end) => ResponseEvent::Completed { usage: TokenUsage::from(end.usage) },
        };
        self.ready.push_back(Ok(event));
    }

    fn function_call(&mut self, call: Call) -> ResponseItem {
        let arguments = match call.arguments {
            // Text is sent as it is, so that a script can hold arguments that do not parse.
            Value::String(text) => text,
            Value::Null => "{}".to_owned(),
            value => value.to_string(),
        };
        let call_id = self.call_id(call.call_id);
        let extra = Map::new();
        ResponseItem::FunctionCall(FunctionCall {
            id: None,
            call_id,
            name: call.name,
            arguments,
            extra,
        })
    }

    fn custom_call(&mut self, call: Custom) -> ResponseItem {
        let call_id = self.call_id(call.call_id);
        let Custom { name, input, .. } = call;
        ResponseItem::CustomToolCall(CustomToolCall {
            id: None,
            call_id,
            name,
            input,
            extra: Map::new(),
        })
    }

    fn shell_call(&mut self, command: Vec<String>) -> ResponseItem {
        let mut extra = Map::new();
        extra.insert("type".to_owned(), Value::from("exec"));
        let action = LocalShellAction { command, working_directory: None, timeout_ms: None, extra };
        let call_id = self.call_id(CallId::default());
        ResponseItem::LocalShellCall(LocalShellCall {
            id: None,
            call_id,
            action,
            extra: Map::new(),
        })
    }

    /// Returns the script's id, else one that tells request and call.
    fn call_id(&mut self, given: CallId) -> CallId {
        self.calls += 1;
        if given.as_str().is_empty() {
            CallId(format!("call_{}_{}", self.request, self.calls))
        } else {
            given
        }
    }
}

fn parse_script(text: &str) -> Result<VecDeque<Vec<Step>>, String> {
    let mut responses = VecDeque::new();
    let mut steps = Vec::new();
    for (place, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let step: Step = serde_json::from_str(line)
            .map_err(|error| format!("line {} of the script: {error}", place + 1))?;
        let ends = matches!(step, Step::End(_) | Step::Fail(_));
        steps.push(step);
        if ends {
            responses.push_back(std::mem::take(&mut steps));
        }
    }
    if steps.is_empty() {
        return Ok(responses);
    }
    Err("the script's last response has no `end` or `fail`".to_owned())
}

/// Compares a request with what the script expects, and says the first difference.
fn check(expected: &Expectation, prompt: &Prompt) -> Result<(), String> {
    let model = prompt.settings.model.as_str();
    if let Some(wanted) = expected.model.as_deref().filter(|wanted| *wanted != model) {
        return Err(format!("wanted model `{wanted}`, got `{model}`"));
    }
    let items = prompt.input.len();
    if let Some(wanted) = expected.items.filter(|wanted| *wanted != items) {
        return Err(format!("wanted {wanted} items, got {items}"));
    }
    if let Some(wanted) = &expected.instructions_contain
        && !prompt.instructions.contains(wanted.as_str())
    {
        return Err(format!("the instructions do not contain `{wanted}`"));
    }
    if let Some(wanted) = &expected.input_contains
        && !prompt.input.iter().any(|item| contains(item, wanted))
    {
        return Err(format!("no item contains `{wanted}`; the last is {}", last_item(prompt)));
    }
    if let Some(wanted) = &expected.last_output_contains {
        let output = prompt.input.iter().rev().find_map(|item| output_text(&item.item));
        match output {
            Some(output) if output.contains(wanted.as_str()) => {}
            Some(output) => {
                return Err(format!("wanted an output with `{wanted}`, got `{output}`"));
            }
            None => return Err(format!("wanted an output with `{wanted}`, got none")),
        }
    }
    check_tools(expected, prompt)
}

fn check_tools(expected: &Expectation, prompt: &Prompt) -> Result<(), String> {
    let offered: Vec<ToolName> = prompt.tools.iter().map(crate::protocol::ToolSpec::name).collect();
    let listed = || offered.iter().map(ToolName::as_str).collect::<Vec<_>>().join(", ");
    if let Some(missing) = expected.tools_include.iter().find(|name| !offered.contains(name)) {
        return Err(format!("wanted the tool `{missing}`, got {}", listed()));
    }
    if let Some(present) = expected.tools_exclude.iter().find(|name| offered.contains(name)) {
        return Err(format!("wanted no tool `{present}`, got {}", listed()));
    }
    Ok(())
}

fn contains(item: &EncodedItem, wanted: &str) -> bool {
    let text = match &item.item {
        ResponseItem::Message(message) => Some(message.text()),
        other => output_text(other),
    };
    text.is_some_and(|text| text.contains(wanted)) || item.json.contains(wanted)
}

fn output_text(item: &ResponseItem) -> Option<String> {
    match item {
        ResponseItem::FunctionCallOutput(output) | ResponseItem::CustomToolCallOutput(output) => {
            Some(OutputBody::text(&output.output))
        }
        ResponseItem::Message(_)
        | ResponseItem::Reasoning(_)
        | ResponseItem::FunctionCall(_)
        | ResponseItem::CustomToolCall(_)
        | ResponseItem::LocalShellCall(_)
        | ResponseItem::WebSearchCall(_)
        | ResponseItem::Other(_) => None,
    }
}

fn last_item(prompt: &Prompt) -> &str {
    prompt.input.last().map_or("none", |item| &item.json)
}

fn script_error(message: String) -> DriverError {
    DriverError { kind: ErrorKind::Internal, message, hint: None, retryable: false }
}
