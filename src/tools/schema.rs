//! From an arguments struct to what the model is told, and back from what the model wrote.
//!
//! The struct is the only truth: its fields and their docs become a lean JSON schema, and the
//! same struct parses the call. Knows no tool. Called by every built-in function tool.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::protocol::{ToolCall, ToolName, ToolPayload, ToolSpec};
use crate::tools::ToolError;

/// Returns a function tool whose parameters are the fields of `A`.
pub(crate) fn function_spec<A: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let schema = settings.into_generator().into_root_schema_for::<A>();
    let mut parameters = schema.to_value();
    make_lean(&mut parameters);
    if let Some(object) = parameters.as_object_mut() {
        // The struct's own doc is for readers of the code.
        object.shift_remove("description");
        object.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    // Server-side enforcement would make every field required; the parser here enforces more.
    ToolSpec::Function {
        name: ToolName::from(name),
        description: description.to_owned(),
        parameters,
        strict: false,
    }
}

/// Parses the arguments of a call; no text at all stands for no arguments.
pub(crate) fn parse_arguments<A: DeserializeOwned>(call: &ToolCall) -> Result<A, ToolError> {
    let ToolPayload::Function { arguments } = &call.payload else {
        let message = format!("{} takes a JSON object", call.name);
        return Err(ToolError::InvalidArguments(message));
    };
    let text = if arguments.trim().is_empty() { "{}" } else { arguments.as_str() };
    serde_json::from_str(text).map_err(|error| ToolError::InvalidArguments(error.to_string()))
}

/// Reads an optional count that some models send as text.
pub(crate) fn count_or_text<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Count {
        Number(u64),
        Float(f64),
        Text(String),
    }
    match Option::<Count>::deserialize(input) {
        Ok(None) => Ok(None),
        Ok(Some(Count::Number(count))) => Ok(Some(count)),
        Ok(Some(Count::Float(count))) if count.fract() == 0.0 && (0.0..1e15).contains(&count) =>
        {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "whole and within 0..1e15"
            )]
            Ok(Some(count as u64))
        }
        Ok(Some(Count::Text(text))) if text.trim().is_empty() => Ok(None),
        Ok(Some(Count::Text(text))) => {
            text.trim().parse().map(Some).map_err(|_| D::Error::custom("expected a whole number"))
        }
        Ok(Some(Count::Float(_))) | Err(_) => Err(D::Error::custom("expected a whole number")),
    }
}

/// Drops from a schema what no model reads.
fn make_lean(schema: &mut Value) {
    match schema {
        Value::Array(entries) => entries.iter_mut().for_each(make_lean),
        Value::Object(object) => {
            for noise in ["$schema", "title", "format", "minimum", "maximum"] {
                // A field may be called like a keyword; its schema is an object, a keyword's is not.
                if object.get(noise).is_some_and(|value| !value.is_object()) {
                    object.shift_remove(noise);
                }
            }
            if object.get("default").is_some_and(Value::is_null) {
                object.shift_remove("default");
            }
            drop_null_type(object);
            join_constants(object);
            object.values_mut().for_each(make_lean);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A field that may be left out need not say that it may also be null.
fn drop_null_type(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get("type") {
        let kept: Vec<_> = types.iter().filter(|kind| *kind != "null").cloned().collect();
        if let [only] = kept.as_slice() {
            object.insert("type".to_owned(), only.clone());
        }
    }
}

/// Names of an enum that each have a doc come one by one; their list is enough.
fn join_constants(object: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = object.get("oneOf") else { return };
    let constants: Option<Vec<Value>> =
        choices.iter().map(|choice| choice.get("const").cloned()).collect();
    if let Some(constants) = constants {
        object.shift_remove("oneOf");
        object.insert("type".to_owned(), Value::from("string"));
        object.insert("enum".to_owned(), Value::Array(constants));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Args {
        /// A file.
        path: String,
        /// How many.
        #[serde(default, deserialize_with = "count_or_text")]
        limit: Option<u64>,
    }

    fn call(arguments: &str) -> ToolCall {
        ToolCall {
            call_id: "c".into(),
            name: "t".into(),
            payload: ToolPayload::Function { arguments: arguments.to_owned() },
        }
    }

    #[test]
    fn a_schema_says_no_more_than_needed() {
        let ToolSpec::Function { parameters, .. } = function_spec::<Args>("t", "d") else {
            panic!("not a function")
        };
        assert_eq!(
            parameters.to_string(),
            r#"{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string","description":"A file."},"limit":{"type":"integer","description":"How many."}},"required":["path"]}"#
        );
    }

    #[test]
    fn all_specs_together_stay_small() {
        use crate::tools::ToolHandler;
        let tools: [&dyn ToolHandler; 5] = [
            &crate::tools::read_file::ReadFile,
            &crate::tools::list_dir::ListDir,
            &crate::tools::grep_files::GrepFiles,
            &crate::tools::update_plan::UpdatePlan,
            &crate::tools::view_image::ViewImage { model_sees_images: true },
        ];
        let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec()).collect();
        let json = serde_json::to_string(&specs).unwrap();
        assert!(json.len() < 2500, "{} bytes", json.len());
        for noise in ["$schema", "title", "$defs", "$ref", "oneOf", "null", "format\""] {
            assert!(!json.contains(noise), "{noise} in {json}");
        }
        let file =
            concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/tool_specs/file_tools.json");
        let pretty = serde_json::to_string_pretty(&specs).unwrap();
        expect_test::expect_file![file].assert_eq(&(pretty + "\n"));
    }

    #[test]
    fn numbers_may_come_as_text() {
        for (text, limit) in [
            (r#"{"path":"a"}"#, None),
            (r#"{"path":"a","limit":null}"#, None),
            (r#"{"path":"a","limit":7}"#, Some(7)),
            (r#"{"path":"a","limit":7.0}"#, Some(7)),
            (r#"{"path":"a","limit":"7"}"#, Some(7)),
        ] {
            let args: Args = parse_arguments(&call(text)).unwrap();
            assert_eq!(args, Args { path: "a".into(), limit }, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, expected) in [
            ("", "missing field `path`"),
            ("{", "EOF while parsing"),
            (r#"{"path":1}"#, "expected a string at line 1 column 9"),
            (r#"{"path":"a","depht":1}"#, "unknown field `depht`, expected `path` or `limit`"),
            (r#"{"path":"a","limit":-1}"#, "expected a whole number"),
            (r#"{"path":"a","limit":"x"}"#, "expected a whole number"),
            (r#"{"path":"a","limit":1.5}"#, "expected a whole number"),
            ("[]", "missing field"),
        ] {
            let error = parse_arguments::<Args>(&call(text)).unwrap_err();
            assert_eq!(error.code(), "invalid_arguments");
            if text != "[]" {
                assert!(error.to_string().contains(expected), "{text}: {error}");
            }
        }
    }
}
