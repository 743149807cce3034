//! The laboratory's commands: `bench`, `replay`, `trace` and `utxo`. A build without the feature `lab` has none of them.

use bristlecone_bench::BenchError;
use bristlecone_tezos::{TraceError, replay::ReplayError};

use crate::failure::{Failure, with_way, without_number};

pub(super) mod bench;
pub(super) mod replay;
pub(super) mod trace;
pub(super) mod utxo;

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Usage { reason } => Self::usage(reason),
            BenchError::Store(error) => Self::from(error),
            BenchError::Stopped => Self::interrupted(),
            BenchError::Chain(error) if error.is_wrong() => Self::negative(error.to_string()),
            BenchError::Replay(error) if error.is_wrong() => Self::negative(error.to_string()),
            BenchError::Replay(ReplayError::Trace(error)) => error.into(),
            wrong @ BenchError::Wrong { .. } => Self::negative(wrong.to_string()),
            error => Self::failed(without_number(&bristlecone::report(&error))),
        }
    }
}

impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        match &error {
            TraceError::Io { file, source } => Self::file("access", file, source),
            _ => Self::failed(with_way(
                error.to_string(),
                "name a trace, whole, as a node recorded it or `cone trace generate` makes it",
            )),
        }
    }
}
