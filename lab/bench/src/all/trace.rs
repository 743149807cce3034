//! Step 3, and the part of step 2 that is tried on it: replays of a trace.

use bristlecone::Durability;
use clap::Args;

use std::path::{Path, PathBuf};

use crate::{
    BenchError,
    error::Result,
    optims,
    options::Common,
    replay::{self, BackendName, DurabilityName, ReplayJob},
    session::Session,
};

/// Which trace is replayed, and how.
#[derive(Args, Clone, Debug)]
pub struct TraceArgs {
    /// The trace of steps 2 and 3; without one they leave it out
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Only the first so many commits of the trace; 0: all
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace")]
    pub trace_commits: u64,
    /// Write the empty value in every Add; commit hashes are then not checked
    #[arg(long, requires = "trace")]
    pub trace_empty_blobs: bool,
    /// Replay the trace only as it was recorded, not also with flattened paths (conversion v0+v1)
    #[arg(long, requires = "trace")]
    pub no_flatten: bool,
}

/// Where a trace is replayed.
const TARGETS: [(BackendName, DurabilityName); 3] = [
    (BackendName::Memory, DurabilityName::None),
    (BackendName::Disk, DurabilityName::None),
    (BackendName::Disk, DurabilityName::Synced),
];

/// The rewriting of paths that Irmini calls flattening: shards of directories left out, chopped hashes joined.
const FLATTENED: &str = "v0+v1";

/// Returns the replay of the trace that was named, in memory.
pub(super) fn job(args: &TraceArgs, common: &Common, dir: &Path) -> Option<ReplayJob> {
    let mut job = ReplayJob::new(args.trace.clone()?, dir);
    job.commits = (args.trace_commits > 0).then_some(args.trace_commits);
    job.empty_blobs = args.trace_empty_blobs;
    job.name.clone_from(&common.name);
    Some(job)
}

/// Replays the trace on every backend: as it was recorded, and flattened.
pub(super) fn replays(session: &mut Session, job: &ReplayJob, runs: usize, flattened: bool) -> Result<()> {
    let ways: &[Option<&str>] = if flattened { &[None, Some(FLATTENED)] } else { &[None] };
    for paths in ways {
        for (backend, durability) in TARGETS {
            let mut job = ReplayJob { backend, durability, ..job.clone() };
            if let Some(paths) = paths {
                (*paths).clone_into(&mut job.path_conversion);
            }
            replay(session, &job, runs, None)?;
        }
    }
    Ok(())
}

/// Replays the trace with each optimisation by itself.
pub(super) fn optimisations(session: &mut Session, job: &ReplayJob, runs: usize) -> Result<()> {
    for backend in [BackendName::Memory, BackendName::Disk] {
        for (label, switches) in optims::steps() {
            replay(session, &ReplayJob { backend, switches, ..job.clone() }, runs, Some(label))?;
        }
    }
    Ok(())
}

/// Measures a replay up to `runs` times; `label` names its switches in the table of optimisations. One that fails is named
/// and left out.
///
/// # Errors
/// [`BenchError::Stopped`] if the user interrupted it: nothing else should be begun.
fn replay(session: &mut Session, job: &ReplayJob, runs: usize, label: Option<&str>) -> Result<()> {
    let name = label.map_or_else(|| job.row_name(), |label| format!("{} {label}", job.backend.name()));
    say!("{}, {name}", job.trace.display());
    let in_process = session.in_process();
    let synced = job.durability() != Durability::None;
    let (row, unrest) = session.beside_probes(synced, || replay::measure(job, runs, in_process))?;
    match row {
        Ok(row) if row.replay.as_ref().is_some_and(|replay| replay.stopped) => return Err(BenchError::Stopped),
        Err(BenchError::Stopped) => return Err(BenchError::Stopped),
        Ok(mut row) => {
            if let Some(label) = label {
                // The words of its switches are one step of the table.
                let plain = row.name.strip_suffix(&row.variant).unwrap_or(&row.name).trim_end().to_owned();
                (row.name, row.variant) = (format!("{plain} {label}"), label.to_owned());
            }
            row.unrest = unrest;
            replay::set_floor(&mut row, job, &session.rows);
            session.add(row);
        }
        Err(error) => session.fail(error),
    }
    Ok(())
}
