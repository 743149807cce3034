//! Lookups by id in a store of many segments: of objects that are there, of absent ones, and by the first digits of an id.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Batch, Durability, Location, Native, ObjRef, Oid, OidPrefix,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_any::AnyFormat;

use super::{Measured, ObjectsArgs};
use crate::{
    check::put,
    error::Result,
    measure::{Laps, Run},
    rss::Sampler,
    workload::{Random, RisingValues},
};

const SEGMENT_BYTES: u64 = 1 << 20;
/// Bytes of an object's value.
const VALUE_BYTES: usize = 100;
/// Objects that are appended together.
const TOGETHER: usize = 1000;
/// Every so many objects one is noted, to be looked up.
const NOTED_EACH: usize = 61;
/// Lookups of a round by whole ids, and by their first digits.
const LOOKUPS: usize = 100_000;
const ABBREVIATED: usize = 300;
/// So many digits tell ids apart.
const DIGITS: usize = 14;
/// How long absent ids are looked up before the clock runs, for each segment: meanwhile a thread makes the filters of segments that
/// have none.
const WARM_UP: Duration = Duration::from_millis(2);

pub(super) fn run(args: &ObjectsArgs, dir: &Path) -> Result<Vec<Measured>> {
    say_part!("{} segments: make", args.segments);
    let noted = fill(dir, args.segments)?;
    let name = |what: &str| Measured::new(format!("ids-{what}-{}-segments", args.segments), "disk", VALUE_BYTES as u64);
    let mut rows = ["first-absent", "absent", "present", "abbreviated"].map(name);
    for round in 0..args.rounds {
        say_part!(", round {}", round + 1);
        let mut random = Random::new(round as u64 + 1);
        let backend = open(dir)?;
        let absent: Vec<Oid> = (0..LOOKUPS).map(|_| made_up(&mut random, noted[0])).collect();
        let present: Vec<Oid> = (0..LOOKUPS).map(|_| noted[random.below(noted.len() as u64) as usize]).collect();
        rows[0].runs.push(look_up(&backend, &absent[..1], false)?);
        let warm_up = Instant::now();
        while warm_up.elapsed() < WARM_UP * args.segments as u32 {
            look_up(&backend, &absent[..1000], false)?;
        }
        rows[1].runs.push(look_up(&backend, &absent, false)?);
        rows[2].runs.push(look_up(&backend, &present, true)?);
        rows[3].runs.push(abbreviated(&backend, &present[..ABBREVIATED])?);
        let stats = backend.stats();
        for run in rows.iter_mut().filter_map(|row| row.runs.last_mut()) {
            (run.store_bytes, run.file_bytes) = (stats.store_bytes, stats.file_bytes);
        }
    }
    say!("");
    Ok(rows.into())
}

fn options() -> DiskOptions {
    let mut options = DiskOptions::default();
    options.segment_bytes = SEGMENT_BYTES;
    options
}

fn open(dir: &Path) -> Result<DiskBackend> {
    Ok(DiskBackend::open(Arc::new(RealStorage::new(dir)), None, options(), false)?)
}

/// Fills a store with so many segments, and returns some of the ids.
fn fill(dir: &Path, segments: u64) -> Result<Vec<Oid>> {
    let (format, storage) = (Native::new(), Arc::new(RealStorage::new(dir)));
    let backend = DiskBackend::create(storage, AnyFormat::from(format).tag(), options())?;
    let (mut values, mut noted, mut number) = (RisingValues::new(VALUE_BYTES), Vec::new(), 0);
    while backend.stats().store_bytes < segments * SEGMENT_BYTES {
        let mut batch = Batch::new();
        for _ in 0..TOGETHER {
            let at = put(&format, &mut batch, values.get(number))?;
            if number.is_multiple_of(NOTED_EACH) {
                noted.push(at.oid);
            }
            number += 1;
        }
        backend.append(batch, &[], Durability::None)?;
    }
    backend.close()?;
    Ok(noted)
}

/// Returns an id that no object has, as long as another one.
fn made_up(random: &mut Random, like: Oid) -> Oid {
    let mut bytes = like.as_bytes().to_vec();
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
    Oid::new(&bytes).unwrap_or(like)
}

fn look_up(backend: &DiskBackend, oids: &[Oid], there: bool) -> Result<Run> {
    let (sampler, snapshot) = (Sampler::start(), backend.snapshot(&[]));
    let mut found = 0;
    let mut laps = Laps::start(oids.len());
    for oid in oids {
        found += usize::from(snapshot.read(&ObjRef::new(*oid, Location::NONE))?.is_some());
        laps.lap();
    }
    let mut run = laps.into_part("");
    note_memory(&mut run, sampler);
    run.wrong =
        (found != if there { oids.len() } else { 0 }).then(|| format!("{found} of {} ids are there", oids.len()));
    // What is found is the object.
    for oid in oids.iter().take(TOGETHER).filter(|_| there) {
        let read = backend.read(&ObjRef::new(*oid, Location::NONE))?;
        if read.is_none_or(|object| object.body().len() < VALUE_BYTES) {
            run.wrong = Some(format!("object {oid} is not what was stored"));
        }
    }
    Ok(run)
}

fn abbreviated(backend: &DiskBackend, oids: &[Oid]) -> Result<Run> {
    let sampler = Sampler::start();
    let prefixes: Vec<OidPrefix> = oids.iter().filter_map(|oid| oid.to_string()[..DIGITS].parse().ok()).collect();
    let mut all = Vec::with_capacity(prefixes.len());
    let mut laps = Laps::start(prefixes.len());
    for prefix in &prefixes {
        let mut found = Vec::new();
        backend.each_with_prefix(prefix, &mut |oid, _| {
            found.push(oid);
            Ok(())
        })?;
        laps.lap();
        all.push(found);
    }
    let mut run = laps.into_part("");
    note_memory(&mut run, sampler);
    let right = all.len() == oids.len()
        && all.iter().zip(oids).all(|(found, oid)| !found.is_empty() && found.iter().all(|id| id == oid));
    run.wrong = (!right).then(|| "an abbreviated id leads to other objects".into());
    Ok(run)
}

fn note_memory(run: &mut Run, sampler: Sampler) {
    let peak = sampler.finish_sampled();
    (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_are_not_as_expected_make_a_row_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let noted = fill(dir.path(), 2).unwrap();
        let backend = open(dir.path()).unwrap();
        let mut random = Random::new(7);
        let absent: Vec<Oid> = (0..20).map(|_| made_up(&mut random, noted[0])).collect();
        let wrong = |run: Result<Run>| run.unwrap().wrong.is_some();
        assert!(!wrong(look_up(&backend, &noted, true)) && !wrong(look_up(&backend, &absent, false)));
        assert!(wrong(look_up(&backend, &noted, false)) && wrong(look_up(&backend, &absent, true)));
        assert!(!wrong(abbreviated(&backend, &noted[..20])) && wrong(abbreviated(&backend, &absent)));
    }
}
