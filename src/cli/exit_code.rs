//! `ExitCode`: every code the program ends with.
//!
//! The only place that turns an outcome into a number. Scripts depend on these; they are in
//! `gimlet exec --help` and in the README. Called by `cli` alone.

use crate::protocol::{ErrorKind, StopCause, TurnOutcome};

/// What the program ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitCode {
    /// The work is done.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The call or the configuration is at fault.
    Usage = 2,
    /// A refusal stopped it.
    Denied = 3,
    /// A limit ended it.
    LimitReached = 4,
    /// There is no key, or the server refuses it.
    NoCredentials = 5,
    /// `execpolicy check`: the command would be asked for.
    WouldAsk = 10,
    /// `execpolicy check`: the command would be denied.
    WouldDeny = 11,
    /// SIGHUP.
    HungUp = 129,
    /// SIGINT, or the user.
    Interrupted = 130,
    /// SIGTERM.
    Terminated = 143,
}

impl ExitCode {
    /// Returns the code for how a turn ended.
    pub(crate) fn from_outcome(outcome: &TurnOutcome) -> Self {
        match outcome {
            TurnOutcome::Completed => Self::Done,
            TurnOutcome::Failed { error, .. } => Self::from_error(*error),
            TurnOutcome::Interrupted { cause } => Self::from_stop(*cause),
            TurnOutcome::Denied { .. } => Self::Denied,
            TurnOutcome::LimitReached { .. } => Self::LimitReached,
        }
    }

    /// Returns the code for an error that ended the work.
    pub(crate) fn from_error(error: ErrorKind) -> Self {
        match error {
            ErrorKind::Credentials => Self::NoCredentials,
            ErrorKind::Unreachable
            | ErrorKind::Refused
            | ErrorKind::Server
            | ErrorKind::RateLimit
            | ErrorKind::Stream
            | ErrorKind::ContextFull
            | ErrorKind::Schema
            | ErrorKind::Tool
            | ErrorKind::Session
            | ErrorKind::Internal
            | ErrorKind::Other => Self::Failed,
        }
    }

    /// Returns the code for what stopped the work from outside.
    pub(crate) fn from_stop(cause: StopCause) -> Self {
        match cause {
            StopCause::User | StopCause::Interrupt => Self::Interrupted,
            StopCause::Terminate => Self::Terminated,
            StopCause::Hangup => Self::HungUp,
            StopCause::Crash => Self::Failed,
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::LimitKind;

    #[test]
    fn outcomes_have_the_documented_codes() {
        let failed = |error| TurnOutcome::Failed { error, message: String::new() };
        let stopped = |cause| TurnOutcome::Interrupted { cause };
        let table = [
            (TurnOutcome::Completed, 0),
            (failed(ErrorKind::Server), 1),
            (failed(ErrorKind::ContextFull), 1),
            (failed(ErrorKind::Credentials), 5),
            (TurnOutcome::Denied { reason: String::new() }, 3),
            (TurnOutcome::LimitReached { limit: LimitKind::Steps }, 4),
            (stopped(StopCause::User), 130),
            (stopped(StopCause::Interrupt), 130),
            (stopped(StopCause::Terminate), 143),
            (stopped(StopCause::Hangup), 129),
            (stopped(StopCause::Crash), 1),
        ];
        for (outcome, code) in table {
            assert_eq!(ExitCode::from_outcome(&outcome) as u8, code, "{outcome:?}");
        }
        assert_eq!(ExitCode::Usage as u8, 2);
    }
}
