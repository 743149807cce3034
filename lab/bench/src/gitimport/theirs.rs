//! What git does: export and import through a pipe, and a clone that reads and writes every object.

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Instant,
};

use super::source::Repository;
use crate::{
    BenchError,
    error::Result,
    measure::Run,
    peers::program::{git, said_by_git},
    rss::Sampler,
};

const FAST_IMPORT: &str = "git fast-export | git fast-import";

/// Exports everything into a fresh repository.
pub(super) fn fast_import(source: &Repository, dest: &Path) -> Result<Run> {
    fs::create_dir_all(dest).map_err(BenchError::io(dest))?;
    let object_format = format!("--object-format={}", source.algorithm.name());
    said_by_git(dest, &["init", "--bare", "--quiet", &object_format, "."])
        .map_err(|reason| failed(FAST_IMPORT, reason))?;
    let started = Instant::now();
    let mut export = git(&source.path);
    export.args(["fast-export", "--all", "--signed-tags=verbatim", "--reencode=no"]).stdout(Stdio::piped());
    let mut export = spawn(FAST_IMPORT, &mut export)?;
    let stream = export.stdout.take().ok_or_else(|| failed(FAST_IMPORT, "there is no pipe"))?;
    let mut import = git(dest);
    import.args(["fast-import", "--quiet", "--force"]).stdin(stream).stdout(Stdio::null());
    let import = spawn(FAST_IMPORT, &mut import)?;
    let sampler = Sampler::others(vec![export.id(), import.id()]);
    // Both are waited for at a time, so that neither is held up by something that it says.
    let ended = thread::scope(|scope| {
        let export = scope.spawn(|| wait(FAST_IMPORT, export));
        let import = wait(FAST_IMPORT, import);
        export.join().expect("waiting does not panic").and(import)
    });
    let run = finished(started, sampler);
    ended.map(|()| run)
}

/// Clones by way of a pack that is sent and indexed, not by links to files.
pub(super) fn clone(source: &Repository, dest: &Path) -> Result<Run> {
    const CLONE: &str = "git clone";
    let started = Instant::now();
    let mut clone = git(&source.path);
    clone.args(["clone", "--quiet", "--no-local", "--bare", "--mirror"]).arg(&source.path).arg(dest);
    let clone = spawn(CLONE, clone.stdout(Stdio::null()))?;
    let sampler = Sampler::others(vec![clone.id()]);
    let ended = wait(CLONE, clone);
    let run = finished(started, sampler);
    ended.map(|()| run)
}

fn finished(started: Instant, sampler: Sampler) -> Run {
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish_sampled();
    Run { seconds, rss_anon_kb: peak.anon_kb, rss_file_kb: peak.file_kb, maxrss_kb: peak.max_kb, ..Run::default() }
}

fn spawn(peer: &'static str, command: &mut Command) -> Result<Child> {
    command.stderr(Stdio::piped()).spawn().map_err(|error| failed(peer, error.to_string()))
}

fn wait(peer: &'static str, child: Child) -> Result<()> {
    let output = child.wait_with_output().map_err(|error| failed(peer, error.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(peer, format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
}

fn failed(peer: &'static str, reason: impl Into<String>) -> BenchError {
    BenchError::Peer { peer, reason: reason.into() }
}
