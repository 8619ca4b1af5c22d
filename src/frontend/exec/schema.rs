//! `OutputSchema`: the JSON schema a final answer must follow.
//!
//! Read and checked before a session starts; afterwards a pure judgement of one text. Who
//! asks the model again, and how often, is `exec/mod.rs`. Called by `cli` (loading).

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::text::truncate::bound;

/// A schema of this size would not fit into a request either.
const SCHEMA_BYTES_MAX: u64 = 1024 * 1024;

/// Faults named to the model at once; it mends more than one at a time.
const FAULTS_MAX: usize = 8;

/// One fault may quote the value it is about.
const FAULT_BYTES_MAX: usize = 500;

/// A schema that answers are held against.
#[derive(Debug)]
pub(crate) struct OutputSchema {
    value: Value,
    validator: jsonschema::Validator,
}

/// Why a file is no schema.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SchemaError {
    /// It cannot be read.
    #[error("cannot read the output schema {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is no JSON, or no schema.
    #[error("{} is not a JSON schema: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl SchemaError {
    /// Returns what to do about it.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "give a readable file of at most 1 MiB",
            Self::Invalid { .. } => "see json-schema.org for what a schema may hold",
        }
    }
}

/// Reads a schema from a file.
pub(crate) fn load_schema(path: &Path) -> Result<OutputSchema, SchemaError> {
    let unreadable = |reason: String| SchemaError::Unreadable { path: path.to_owned(), reason };
    let metadata = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?;
    if !metadata.is_file() || metadata.len() > SCHEMA_BYTES_MAX {
        return Err(unreadable("not a file of at most 1 MiB".to_owned()));
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    OutputSchema::parse(&text)
        .map_err(|reason| SchemaError::Invalid { path: path.to_owned(), reason })
}

impl OutputSchema {
    /// Returns the schema itself, for the request.
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// Returns what is wrong with an answer, one line for each fault.
    pub(crate) fn check(&self, answer: &str) -> Result<(), String> {
        let instance: Value = serde_json::from_str(answer)
            .map_err(|error| format!("the answer is not JSON alone: {error}"))?;
        let fault = |error: jsonschema::ValidationError<'_>| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "the answer" } else { &place };
            bound(&format!("{place}: {error}"), FAULT_BYTES_MAX)
        };
        let faults: Vec<String> =
            self.validator.iter_errors(&instance).take(FAULTS_MAX).map(fault).collect();
        if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if !value.is_object() {
            return Err("it is not a JSON object".to_owned());
        }
        let validator = jsonschema::validator_for(&value).map_err(|error| error.to_string())?;
        Ok(Self { value, validator })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_held_against_the_schema() {
        let schema = OutputSchema::parse(
            r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#,
        )
        .unwrap();
        assert_eq!(schema.check(r#"{"n":1}"#), Ok(()));
        assert!(schema.check(r#"{"n":"x"}"#).unwrap_err().starts_with("/n: "));
        assert!(schema.check("{}").unwrap_err().starts_with("the answer: "));
        assert!(schema.check("```json\n{}\n```").unwrap_err().contains("not JSON alone"));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in ["{", "[]", r#"{"type":"banana"}"#, r#"{"$ref":"https://example.org/s"}"#] {
            assert!(OutputSchema::parse(text).is_err(), "{text}");
        }
    }
}
