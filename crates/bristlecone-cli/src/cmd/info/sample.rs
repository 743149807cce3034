//! `cone info --stats`: a few reads, counted and timed.

use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{CommitId, Counted, Counts, Format, Latencies, ObjRef};

use crate::{
    failure::Result,
    open::Opened,
    output::{Fields, fields},
};

/// The most objects that are read.
const OBJECTS_MAX: usize = 1000;

/// Counts what goes through the store from now on.
pub(super) fn count(opened: &mut Opened) -> Arc<Counts> {
    let counted = Counted::new(opened.repo.backend().clone());
    let counts = counted.counts();
    opened.repo = opened.repo.wrapped(|_| Arc::new(counted));
    counts
}

/// Reads the objects nearest to a commit, itself first: what it names, then what those name. What is absent, since it was
/// never fetched, leads nowhere.
pub(super) fn read(opened: &Opened, commit: Option<CommitId>) -> Result<()> {
    let snapshot = opened.repo.backend().snapshot(&[]);
    let mut open: VecDeque<ObjRef> = commit.into_iter().map(ObjRef::from).collect();
    let mut seen: HashSet<_> = open.iter().map(|at| at.oid).collect();
    let mut left = OBJECTS_MAX;
    while let Some(at) = open.pop_front()
        && left > 0
    {
        left -= 1;
        let Some(object) = snapshot.read(&at)? else { continue };
        let mut index = 0;
        let decoded = opened.repo.format().children(object.kind(), object.body(), &mut |_, child| {
            // No more than will be read.
            if open.len() < left && seen.insert(child) {
                open.push_back(ObjRef::new(child, object.child(index)));
            }
            index += 1;
        });
        decoded.map_err(|source| bristlecone::Error::BadObject { oid: at.oid, source })?;
    }
    Ok(())
}

/// Returns what was counted as JSON fields.
pub(super) fn fields_of(counts: &Counts) -> Fields {
    let of = |counter: &AtomicU64| counter.load(Relaxed);
    fields! {
        "reads": of(&counts.reads),
        "absent": of(&counts.absent),
        "read_bytes": of(&counts.read_bytes),
        "located": of(&counts.located),
        "appends": of(&counts.appends),
        "objects": of(&counts.objects),
        "appended_bytes": of(&counts.appended_bytes),
        "read_ns": times(&counts.read_times),
        "append_ns": times(&counts.append_times),
        "sync_ns": times(&counts.sync_times),
    }
}

/// Returns a histogram's fields, in nanoseconds; `null` for what was not timed.
fn times(times: &Latencies) -> Fields {
    let part = |part| times.quantile(part).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    fields! {
        "timed": times.count(),
        "p50": part(0.5),
        "p99": part(0.99),
        "p999": part(0.999),
        "max": part(1.0),
    }
}
