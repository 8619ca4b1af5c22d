//! The client's end of one MCP server: start, list, call, end.
//!
//! A server runs in its own process group with the environment it is given, and the whole
//! group dies with the client. What it sends is bounded; lines that are no messages are passed
//! over; the end of its stderr is kept for the error that names it. Knows no session and asks
//! nobody: whether a server may be started was decided by the caller.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ContentBlock,
    Implementation, PaginatedRequestParams, ResourceContents, Tool,
};
use rmcp::service::{RunningService, ServiceError, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Map, Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::config::McpServer;
use crate::protocol::{ContentItem, RemoteHints};

/// Tools of one server; each is sent to the model with every request.
const TOOLS_MAX: usize = 256;
/// Pages of one tool list, so that a server cannot hand out empty ones for ever.
const PAGES_MAX: usize = 64;
/// Bytes of one tool's schema.
const SCHEMA_BYTES_MAX: usize = 64 * 1024;
/// Bytes of one message, images included.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of stderr kept for an error message.
const STDERR_BYTES_MAX: usize = 2048;
/// How long a server may take to end after its stdin was closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_millis(500);
/// How long the last words of a dead server are waited for: a child of it may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(250);

/// A server that runs.
#[derive(Debug)]
pub(crate) struct McpClient {
    name: String,
    tools: Vec<RemoteTool>,
    tool_timeout: Duration,
    service: RunningService<RoleClient, ClientConfig>,
    process: ServerProcess,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RemoteTool {
    /// Its own name there.
    pub(crate) name: String,
    /// What the server says it does; untrusted.
    pub(crate) description: String,
    /// The JSON schema of its arguments.
    pub(crate) schema: Value,
    /// What the server claims of it; untrusted.
    pub(crate) hints: RemoteHints,
}

/// What a call brought.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct McpResult {
    /// Text and images.
    pub(crate) content: Vec<ContentItem>,
    /// The result for programs.
    pub(crate) structured: Option<Value>,
    /// Whether the tool says that it failed.
    pub(crate) is_error: bool,
}

/// Why a server could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum McpError {
    /// It could not be started, or ended before it answered.
    #[error("MCP server {server} did not start: {cause}")]
    Start {
        /// Its configured name.
        server: String,
        /// Why, with the end of its stderr.
        cause: String,
    },
    /// It did not answer in time.
    #[error("MCP server {server} did not answer within {after_ms} ms{stderr}")]
    Timeout {
        /// Its configured name.
        server: String,
        /// How long it was given.
        after_ms: u64,
        /// The end of its stderr, ready to be appended.
        stderr: String,
    },
    /// It ended while it was needed.
    #[error("MCP server {server} is gone: {cause}")]
    Gone {
        /// Its configured name.
        server: String,
        /// Why, with the end of its stderr.
        cause: String,
    },
    /// It refused the call.
    #[error("MCP server {server}: {message}")]
    Refused {
        /// Its configured name.
        server: String,
        /// Its words.
        message: String,
    },
}

/// The server's process and all it started.
#[derive(Debug)]
struct ServerProcess {
    child: Child,
    group: Option<Pid>,
    stderr: watch::Receiver<Vec<u8>>,
    stderr_reader: JoinHandle<()>,
}

/// Starts a server and lists its tools.
///
/// `env` is its whole environment but for what its own configuration sets or hands through.
pub(crate) async fn connect(
    name: &str,
    server: &McpServer,
    cwd: &Path,
    env: Vec<(String, String)>,
) -> Result<McpClient, McpError> {
    let (mut process, transport) = spawn_server(server, cwd, env)
        .map_err(|cause| McpError::Start { server: name.to_owned(), cause })?;
    let limit = Duration::from_millis(server.startup_timeout_ms);
    let handshake = async {
        let service = serve_client(client_config(), transport).await.map_err(|e| e.to_string())?;
        let tools = list_tools(&service).await.map_err(|error| error.to_string())?;
        Ok::<_, String>((service, tools))
    };
    match timeout(limit, handshake).await {
        Ok(Ok((service, tools))) => Ok(McpClient {
            name: name.to_owned(),
            tools: offered_tools(tools, server),
            tool_timeout: Duration::from_millis(server.tool_timeout_ms),
            service,
            process,
        }),
        Ok(Err(error)) => {
            let cause = process.last_words(&error).await;
            Err(McpError::Start { server: name.to_owned(), cause })
        }
        Err(_) => Err(McpError::Timeout {
            server: name.to_owned(),
            after_ms: server.startup_timeout_ms,
            stderr: process.stderr_note(),
        }),
    }
}

impl McpClient {
    /// Returns the server's configured name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tools on offer, by name.
    pub(crate) fn tools(&self) -> &[RemoteTool] {
        &self.tools
    }

    /// Calls a tool; dropping the future tells the server to stop.
    pub(crate) async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<McpResult, McpError> {
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        let call = self.service.peer().call_tool_once(params);
        match timeout(self.tool_timeout, call).await {
            Ok(Ok(CallToolResponse::Complete(result))) => Ok(McpResult {
                content: result.content.into_iter().map(content_item).collect(),
                structured: result.structured_content,
                is_error: result.is_error.unwrap_or(false),
            }),
            Ok(Ok(_)) => Err(self.refused("its answer needs a later version of this program")),
            Ok(Err(error)) => Err(self.call_error(&error)),
            Err(_) => Err(McpError::Timeout {
                server: self.name.clone(),
                after_ms: u64::try_from(self.tool_timeout.as_millis()).unwrap_or(u64::MAX),
                stderr: String::new(),
            }),
        }
    }

    /// Ends the server: stdin closed, then SIGTERM, then SIGKILL, for its whole group.
    pub(crate) async fn close(mut self) {
        // Closing waits for the service task, which a full pipe could hold.
        let _ = timeout(GRACE, self.service.close()).await;
        if timeout(GRACE, self.process.child.wait()).await.is_err() {
            self.process.kill_group(Signal::TERM);
            let _ = timeout(GRACE, self.process.child.wait()).await;
        }
    }

    fn refused(&self, message: &str) -> McpError {
        McpError::Refused { server: self.name.clone(), message: message.to_owned() }
    }

    fn call_error(&self, error: &ServiceError) -> McpError {
        match error {
            ServiceError::McpError(error) => self.refused(&error.message),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => McpError::Gone {
                server: self.name.clone(),
                cause: format!("it closed the connection{}", self.process.stderr_note()),
            },
            other => self.refused(&other.to_string()),
        }
    }
}

type ServerTransport =
    AsyncRwTransport<RoleClient, tokio::process::ChildStdout, tokio::process::ChildStdin>;

fn spawn_server(
    server: &McpServer,
    cwd: &Path,
    env: Vec<(String, String)>,
) -> Result<(ServerProcess, ServerTransport), String> {
    let Some((program, arguments)) = server.command.split_first() else {
        return Err("its command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(server.cwd.as_deref().unwrap_or(cwd));
    command.env_clear().envs(env);
    for name in &server.env_vars {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(&server.env).process_group(0).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("its streams could not be opened".to_owned());
    };
    let (tx, rx) = watch::channel(Vec::new());
    let stderr_reader = tokio::spawn(keep_tail(stderr, tx));
    let process = ServerProcess { child, group, stderr: rx, stderr_reader };
    let transport = AsyncRwTransport::new(stdout, stdin).with_max_line_length(MESSAGE_BYTES_MAX);
    Ok((process, transport))
}

/// Reads a stream to its end, so that its writer never blocks, and keeps the last of it.
async fn keep_tail(mut stderr: ChildStderr, tail: watch::Sender<Vec<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(length) = stderr.read(&mut chunk).await {
        if length == 0 {
            return;
        }
        tail.send_modify(|tail| {
            tail.extend_from_slice(chunk.get(..length).unwrap_or_default());
            let excess = tail.len().saturating_sub(STDERR_BYTES_MAX);
            tail.drain(..excess);
        });
    }
}

fn client_config() -> ClientConfig {
    let implementation = Implementation::new("gimlet", env!("CARGO_PKG_VERSION"));
    ClientConfig::new(ClientCapabilities::default(), implementation)
}

async fn list_tools(
    service: &RunningService<RoleClient, ClientConfig>,
) -> Result<Vec<Tool>, ServiceError> {
    let mut tools = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let params = PaginatedRequestParams::default().with_cursor(cursor);
        let page = service.peer().list_tools(Some(params)).await?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() || tools.len() >= TOOLS_MAX {
            break;
        }
    }
    Ok(tools)
}

/// Returns the tools the user wants of those the server has, sorted, so that a server that
/// lists them differently each time does not change what the model sees.
fn offered_tools(tools: Vec<Tool>, server: &McpServer) -> Vec<RemoteTool> {
    let is_wanted = |tool: &Tool| {
        let is_named = |names: &Vec<String>| names.iter().any(|name| *name == tool.name);
        server.enabled_tools.as_ref().is_none_or(is_named) && !is_named(&server.disabled_tools)
    };
    let wanted = tools.into_iter().filter(is_wanted).take(TOOLS_MAX);
    let mut tools: Vec<RemoteTool> = wanted.map(remote_tool).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

fn remote_tool(tool: Tool) -> RemoteTool {
    let mut schema = Map::clone(&tool.input_schema);
    let bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
    if bytes > SCHEMA_BYTES_MAX {
        schema = Map::new();
    }
    // Servers of models insist on these two, MCP servers leave them out for tools without arguments.
    schema.insert("type".to_owned(), json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    schema.shift_remove("$schema");
    let claims = tool.annotations.unwrap_or_default();
    RemoteTool {
        name: tool.name.into_owned(),
        description: tool.description.unwrap_or_default().into_owned(),
        schema: Value::Object(schema),
        hints: RemoteHints {
            read_only: claims.read_only_hint.unwrap_or(false),
            // As the protocol has it: who does not say that it destroys nothing may.
            destructive: claims.destructive_hint.unwrap_or(!claims.read_only_hint.unwrap_or(false)),
            idempotent: claims.idempotent_hint.unwrap_or(false),
            open_world: claims.open_world_hint.unwrap_or(true),
        },
    }
}

fn content_item(block: ContentBlock) -> ContentItem {
    match block {
        ContentBlock::Text(text) => ContentItem::InputText(text.text),
        ContentBlock::Image(image) if is_image_type(&image.mime_type) => {
            let url = format!("data:{};base64,{}", image.mime_type, image.data);
            ContentItem::InputImage(url, Map::new())
        }
        ContentBlock::Image(image) => left_out("image", Some(&image.mime_type), image.data.len()),
        ContentBlock::Audio(audio) => left_out("audio", Some(&audio.mime_type), audio.data.len()),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => {
                ContentItem::InputText(format!("[resource {uri}]\n{text}"))
            }
            ResourceContents::BlobResourceContents { mime_type, blob, .. } => {
                left_out("resource", mime_type.as_deref(), blob.len())
            }
            _ => left_out("resource", None, 0),
        },
        ContentBlock::ResourceLink(link) => {
            ContentItem::InputText(format!("[resource {}: {}]", link.uri, link.name))
        }
        _ => ContentItem::InputText("[content of an unknown kind left out]".to_owned()),
    }
}

fn is_image_type(mime_type: &str) -> bool {
    ["image/png", "image/jpeg", "image/gif", "image/webp"].contains(&mime_type)
}

fn left_out(what: &str, mime_type: Option<&str>, base64_bytes: usize) -> ContentItem {
    let kind = mime_type.unwrap_or("unknown type");
    ContentItem::InputText(format!("[{what} left out: {kind}, {} bytes]", base64_bytes / 4 * 3))
}

impl ServerProcess {
    /// Returns why a server that stopped talking did so: its exit, and the end of its stderr.
    async fn last_words(&mut self, error: &str) -> String {
        let exit = timeout(LAST_WORDS, self.child.wait()).await;
        let _ = timeout(LAST_WORDS, &mut self.stderr_reader).await;
        let cause = match exit {
            Ok(Ok(status)) => exit_text(status),
            Ok(Err(_)) | Err(_) => error.to_owned(),
        };
        format!("{cause}{}", self.stderr_note())
    }

    /// Returns the end of its stderr as one line to append, or nothing.
    fn stderr_note(&self) -> String {
        let tail = self.stderr.borrow();
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        if lines.is_empty() {
            return String::new();
        }
        let line = lines.join(" | ");
        let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!("; stderr: {line}")
    }

    fn kill_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may be gone already, which is what we want. The number was waited for moments
            // ago at most, so it does not name another group yet.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.kill_group(Signal::KILL);
        self.stderr_reader.abort();
    }
}

fn exit_text(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it ended".to_owned(),
    }
}
