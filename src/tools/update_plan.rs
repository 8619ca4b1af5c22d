//! `update_plan`: the model writes down its steps, so that people can follow.
//!
//! The plan lives in the event log and on the screen; nothing here keeps it.

use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::protocol::{
    Effect, EventMsg, PlanStatus, PlanStep, ToolCall, ToolOutput, ToolSafety, ToolSpec,
};
use crate::tools::schema::{function_spec, parse_arguments};
use crate::tools::{BoxFuture, ToolContext, ToolError, ToolHandler};

/// Steps beyond this are no plan a person reads.
const STEPS_MAX: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Why the plan changed.
    #[serde(default)]
    explanation: Option<String>,
    /// All steps, in order.
    plan: Vec<PlanStep>,
}

/// The `update_plan` tool.
#[derive(Debug)]
pub(crate) struct UpdatePlan;

impl ToolHandler for UpdatePlan {
    fn spec(&self) -> ToolSpec {
        function_spec::<Args>(
            "update_plan",
            "Replaces the task plan shown to the user. Keep one step in_progress; skip it for simple tasks.",
        )
    }

    fn safety(&self) -> ToolSafety {
        ToolSafety::harmless()
    }

    fn effect(&self, call: &ToolCall, _cwd: &Path) -> Result<Effect, ToolError> {
        parse(call).map(|_| Effect::None)
    }

    fn run<'a>(
        &'a self,
        call: &'a ToolCall,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let args = parse(call)?;
            let answer = plan_answer(&args.plan);
            let msg = EventMsg::PlanUpdated { explanation: args.explanation, steps: args.plan };
            cx.link.event(Some(cx.call_id.clone()), None, msg).await;
            Ok(ToolOutput::text(answer))
        })
    }
}

fn parse(call: &ToolCall) -> Result<Args, ToolError> {
    let args: Args = parse_arguments(call)?;
    if args.plan.len() > STEPS_MAX {
        let message = format!("a plan has at most {STEPS_MAX} steps");
        return Err(ToolError::InvalidArguments(message));
    }
    Ok(args)
}

fn plan_answer(steps: &[PlanStep]) -> &'static str {
    let running = steps.iter().filter(|step| step.status == PlanStatus::InProgress).count();
    if running > 1 { "Plan updated. Keep at most one step in_progress." } else { "Plan updated" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{call, context};

    #[tokio::test]
    async fn the_plan_becomes_an_event() {
        let call = call(
            "update_plan",
            r#"{"explanation":"why","plan":[{"step":"a","status":"in_progress"},{"step":"b","status":"in_progress"}]}"#,
        );
        assert_eq!(UpdatePlan.effect(&call, Path::new("/")).unwrap(), Effect::None);
        let (cx, mut requests) = context(Path::new("/"), &Effect::None);
        let output = UpdatePlan.run(&call, &cx).await.unwrap();
        assert_eq!(output.joined_text(), "Plan updated. Keep at most one step in_progress.");
        let Some(crate::tools::SessionRequest::Event { msg, call_id, .. }) = requests.recv().await
        else {
            panic!("no event")
        };
        assert_eq!(call_id, Some(cx.call_id.clone()));
        let EventMsg::PlanUpdated { explanation, steps } = msg else { panic!("no plan: {msg:?}") };
        assert_eq!(explanation.as_deref(), Some("why"));
        assert_eq!(steps.len(), 2);
    }

    #[test]
    fn a_step_without_status_is_refused() {
        let call = call("update_plan", r#"{"plan":[{"step":"a"}]}"#);
        let error = UpdatePlan.effect(&call, Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("missing field `status`"), "{error}");
    }
}
