//! `view_image`: puts an image file before the model.
//!
//! The kind is told by the file's first bytes, never by its name. Knows no session and no screen.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::protocol::{
    Availability, Capability, ContentItem, Effect, ToolCall, ToolOutput, ToolSafety, ToolSpec,
};
use crate::tools::files::{resolve_path, shown_path};
use crate::tools::schema::{function_spec, parse_arguments};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Servers refuse larger images, and base64 adds a third.
const IMAGE_BYTES_MAX: u64 = 10 * 1024 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    #[serde(alias = "file_path")]
    path: String,
}

/// The `view_image` tool.
#[derive(Debug)]
pub(crate) struct ViewImage {
    /// Whether the model can look at images.
    pub(crate) model_sees_images: bool,
}

impl ToolHandler for ViewImage {
    fn spec(&self) -> ToolSpec {
        function_spec::<Args>("view_image", "Shows you a PNG, JPEG, GIF or WebP file.")
    }

    fn safety(&self) -> ToolSafety {
        let mut safety = ToolSafety::reads_files();
        safety.requires.push(Capability::Images);
        safety
    }

    fn available(&self) -> Availability {
        if self.model_sees_images {
            return Availability::Yes;
        }
        Availability::No { reason: "this model cannot look at images".to_owned() }
    }

    fn effect(&self, call: &ToolCall, cwd: &Path) -> Result<Effect, ToolError> {
        Ok(Effect::Read { paths: vec![parse(call, cwd)?] })
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let path = parse(call, &cx.turn.cwd)?;
            let bytes = cx.files.read(&path, IMAGE_BYTES_MAX).await?;
            let Some(kind) = image_kind(&bytes) else {
                let shown = shown_path(&path, &cx.turn.cwd);
                let message = format!("{shown} is not a PNG, JPEG, GIF or WebP image");
                return Err(ToolError::Failed(message));
            };
            let mut extra = Map::new();
            extra.insert("detail".to_owned(), Value::from("auto"));
            let url = format!("data:{kind};base64,{}", STANDARD.encode(&bytes));
            let content = vec![ContentItem::InputImage(url, extra)];
            Ok(ToolOutput { content, success: true, exit_code: None, structured: None })
        })
    }
}

fn parse(call: &ToolCall, cwd: &Path) -> Result<PathBuf, ToolError> {
    let args: Args = parse_arguments(call)?;
    resolve_path(cwd, &args.path)
}

/// Returns the MIME type that the first bytes tell.
fn image_kind(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{call, run};

    const TOOL: ViewImage = ViewImage { model_sees_images: true };

    #[test]
    fn kinds_are_told_by_the_first_bytes() {
        let cases: [(&[u8], Option<&str>); 7] = [
            (b"\x89PNG\r\n\x1a\nrest", Some("image/png")),
            (b"\xff\xd8\xff\xe0", Some("image/jpeg")),
            (b"GIF89a", Some("image/gif")),
            (b"RIFF\0\0\0\0WEBP", Some("image/webp")),
            (b"RIFF\0\0\0\0WAVE", None),
            (b"<svg/>", None),
            (b"", None),
        ];
        for (bytes, kind) in cases {
            assert_eq!(image_kind(bytes), kind);
        }
    }

    #[tokio::test]
    async fn an_image_becomes_a_data_url() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), b"GIF89a").unwrap();
        let output = run(&TOOL, &call("view_image", r#"{"path":"a.txt"}"#), dir.path()).await;
        let content = output.unwrap().content;
        assert_eq!(
            serde_json::to_value(&content).unwrap(),
            serde_json::json!([{"type":"input_image","image_url":"data:image/gif;base64,R0lGODlh","detail":"auto"}])
        );
    }

    #[tokio::test]
    async fn what_is_no_image_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.png"), b"text").unwrap();
        let output = run(&TOOL, &call("view_image", r#"{"path":"a.png"}"#), dir.path()).await;
        let error = output.unwrap_err().to_string();
        assert_eq!(error, "a.png is not a PNG, JPEG, GIF or WebP image");
    }

    #[test]
    fn a_model_that_cannot_see_is_not_offered_it() {
        let blind = ViewImage { model_sees_images: false };
        assert!(matches!(blind.available(), Availability::No { .. }));
        assert_eq!(TOOL.available(), Availability::Yes);
    }
}
