//! The two threads of a transfer: one reads and compares, the other verifies, encodes and writes.
//!
//! **In and out.** The reading thread (`reader`) finds the commits (`graph`), has a `Walker` walk their trees
//! (`tree_walk` for Git's, `export/native_walk` for native ones) and puts messages into a queue (`channel`). The
//! writing thread (`writer`) takes them out, sorts out what is missing, and gives the rest to a `HistoryWriter`.
//! `contract` has these traits.
//!
//! **Callers.** `import` and `export` alone, through [`run`].

use std::{collections::HashMap, sync::atomic::Ordering::Relaxed, thread, time::Duration};

use bristlecone::{Oid, core::git::Algorithm};

use self::{
    channel::{Sender, queue},
    contract::{Existing, HistoryWriter, Meters, Stopped, Walker},
    graph::Ends,
    reader::ReadThread,
    writer::{Outcome, WriteThread},
};
use super::{error::TransferError, ids::Ids, objects::Objects, report::Status, table::Scratch};

pub(super) mod channel;
pub(super) mod contract;
pub(super) mod graph;
mod origin;
mod reader;
pub(super) mod tree_diff;
pub(super) mod tree_walk;
pub(super) mod writer;

/// Stack of the reading thread: it follows directories into each other.
const STACK_BYTES: usize = 32 << 20;
/// How often the caller's progress is called.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// What is to be transferred.
pub(crate) struct TransferJob<'a, O, F> {
    pub(crate) objects: &'a O,
    pub(crate) algorithm: Algorithm,
    /// Names and ids of the refs to transfer.
    pub(crate) tips: &'a [(String, Oid)],
    pub(crate) ends: &'a Ends,
    pub(crate) existing: &'a dyn Existing,
    /// Commits that have numbers already.
    pub(crate) commits: Ids,
    /// Makes what walks trees, on the thread that it is to work on.
    pub(crate) walker: F,
    pub(crate) scratch: &'a Scratch,
    pub(crate) skip: bool,
    /// Whether ids are checked against bytes.
    pub(crate) verify: bool,
}

/// Runs both threads to their end.
pub(crate) fn run<'m, O, W, F, T>(
    job: TransferJob<'m, O, F>,
    meters: &'m Meters,
    target: &mut T,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError>
where
    O: Objects,
    W: Walker,
    F: FnOnce(Sender, &'m Meters) -> W + Send,
    T: HistoryWriter,
{
    let (sender, receiver) = queue();
    let algorithm = job.algorithm;
    let (skip, verify) = (job.skip, job.verify);
    let mut writer = WriteThread::new(target, job.objects, algorithm, skip, verify);
    let (named, written) = thread::scope(|scope| {
        let reader = thread::Builder::new().name("read".to_owned()).stack_size(STACK_BYTES);
        let reader = reader.spawn_scoped(scope, move || {
            let (commits, scratch) = (job.commits, job.scratch);
            let reader = ReadThread {
                objects: job.objects,
                algorithm,
                existing: job.existing,
                tips: job.tips,
                ends: job.ends,
                skip,
                verify,
                meters,
                walk: (job.walker)(sender, meters),
                chains: HashMap::new(),
            };
            reader.run(commits, scratch)
        });
        let writing = scope.spawn(|| writer.run(receiver));
        while !writing.is_finished() {
            thread::park_timeout(if meters.objects.load(Relaxed) == 0 { TELL_EVERY / 20 } else { TELL_EVERY / 4 });
            progress(meters.status());
        }
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let named = match reader {
            Ok(reader) => reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(source) => {
                let file = "the reading thread".to_owned();
                Err(Stopped::Failed(bristlecone::Error::io(file, source).into()))
            }
        };
        (named, written)
    });
    progress(meters.status());
    let named = match (named, written) {
        (Err(Stopped::Failed(error)), _) | (_, Err(error)) => return Err(error),
        (Err(Stopped::Closed), Ok(())) => unreachable!("the writing thread ends first only if it fails"),
        (Ok(named), Ok(())) => named,
    };
    writer.finish(named)
}
