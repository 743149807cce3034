//! Reading one large value, beside a copy of as many bytes.

use std::{hint::black_box, ops::Deref, path::Path as FilePath, time::Instant};

use bristlecone::{Info, Native};
use bristlecone_any::{AnyRepo, Place};

use super::{Measured, ObjectsArgs};
use crate::{
    error::Result,
    job::count_name,
    measure::Run,
    rss::Sampler,
    workload::{MAIN, Random},
};

const PATH: &str = "large/value";

/// Reads a value in a store that was just opened (`first`, checksums and page faults included) and once more, in turns with a copy
/// from memory to memory.
pub(super) fn run(args: &ObjectsArgs, dir: &FilePath) -> Result<Vec<Measured>> {
    let bytes = args.value_bytes;
    say_part!("a value of {bytes} bytes: make");
    let value = noise(bytes as usize);
    let place = Place::Disk(dir.to_owned());
    let repo = AnyRepo::create(place.clone(), Native::new().into())?;
    let mut tree = repo.branch(MAIN)?.tree()?;
    tree.set(PATH, &value[..])?;
    repo.branch(MAIN)?.commit(&mut tree, &Info::unsigned("a large value"))?;
    drop(tree);
    repo.close()?;
    let name = |what: &str, backend| Measured::new(format!("value-{}-{what}", count_name(bytes)), backend, bytes);
    let mut rows = [name("first", "disk"), name("read", "disk"), name("copy", "memory")];
    for round in 0..args.rounds {
        say_part!(", round {}", round + 1);
        let repo = AnyRepo::open_read_only(place.clone())?;
        let tree = repo.branch(MAIN)?.tree()?;
        for row in &mut rows[..2] {
            row.runs.push(timed(&value, || Ok(tree.get(PATH)?))?);
        }
        rows[2].runs.push(timed(&value, || Ok(Some(black_box(&value).clone())))?);
    }
    say!("\n  reading takes {} times as long as a copy", rows[2].times(&rows[1]));
    Ok(rows.into())
}

/// Returns bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut random = Random::new(bytes as u64);
    let mut value = Vec::with_capacity(bytes + 8);
    while value.len() < bytes {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(bytes);
    value
}

/// Times a call that returns the value. That its bytes are the value's is looked at when the clock has stopped.
fn timed<T: Deref<Target = [u8]>>(value: &[u8], read: impl FnOnce() -> Result<Option<T>>) -> Result<Run> {
    let sampler = Sampler::start();
    let started = Instant::now();
    let found = read()?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish_sampled();
    let wrong = found.as_deref() != Some(value);
    Ok(Run {
        ops: 1,
        seconds,
        threads: 1,
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        wrong: wrong.then(|| "what was read is not the value".into()),
        ..Run::default()
    })
}
