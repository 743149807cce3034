//! The machine's unrest: whether it was as fast as usual while a row was measured.
//!
//! A probe is a fixed piece of work: on every core at once some megabytes are hashed, and for rows whose commits are durable
//! some syncs are done. It runs before the first run of a row and after each. What it takes is compared with all probes of
//! the session so far. Where it moved much more than these spread, in either direction, the row says so: another program, a
//! neighbour on the same hardware, or the disk was at work, and its figure may be half of what it is on a quiet machine.

use std::{hint::black_box, path::Path, time::Instant};

use crate::{
    error::Result,
    limits::sync_now,
    measure::{cores, together},
};

/// What a core hashes in a probe: some milliseconds, as short as a probe can be that another program would disturb.
const HASHED_BYTES: usize = 64 << 10;
const HASHES: usize = 128;
/// Probes before anything is measured.
const FIRST_PROBES: usize = 9;
const FIRST_SYNCS: usize = 3;

/// The probes of a session.
#[derive(Debug)]
pub(crate) struct Unrest {
    processor: Usual,
    syncs: Usual,
}

impl Unrest {
    /// Takes the first probes; syncs are probed in `dir`.
    ///
    /// # Errors
    /// [`BenchError::Io`](crate::BenchError::Io).
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        let mut unrest = Self { processor: Usual::new(0.25), syncs: Usual::new(1.0) };
        for _ in 0..FIRST_PROBES {
            unrest.processor.judge(processor()?);
        }
        for _ in 0..FIRST_SYNCS {
            unrest.syncs.judge(sync_now(dir)?);
        }
        Ok(unrest)
    }

    /// Probes the processor, and in `synced` the disk; returns how far from the usual it is, if that is unusual.
    ///
    /// # Errors
    /// [`BenchError::Io`](crate::BenchError::Io).
    pub(crate) fn probe(&mut self, synced: Option<&Path>) -> Result<Option<f64>> {
        let processor = self.processor.judge(processor()?);
        let syncs = match synced {
            Some(dir) => self.syncs.judge(sync_now(dir)?),
            None => None,
        };
        Ok(worse(processor, syncs))
    }
}

/// Returns the greater of two ratios.
pub(crate) fn worse(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

/// Returns the seconds that the fixed work takes on every core at once.
fn processor() -> Result<f64> {
    let input = vec![7_u8; HASHED_BYTES];
    let hash = |_| {
        (0..HASHES).for_each(|_| _ = black_box(blake3::hash(black_box(&input))));
        Ok(())
    };
    let started = Instant::now();
    together(cores(), hash)?;
    Ok(started.elapsed().as_secs_f64())
}

/// What a probe has taken so far.
#[derive(Debug)]
struct Usual {
    /// In order of size.
    seen: Vec<f64>,
    /// A deviation from the median by less than this share of it is not unusual, however alike the probes are.
    least: f64,
}

/// A probe is unusual that is so many times as far from the median as half of all probes are.
const SPREADS: f64 = 6.0;

impl Usual {
    const fn new(least: f64) -> Self {
        Self { seen: Vec::new(), least }
    }

    /// Takes in a probe; returns how many times as long as usual it took, or as short, if that is unusual.
    fn judge(&mut self, seconds: f64) -> Option<f64> {
        let unusual = middle(&self.seen).and_then(|usual| {
            let mut deviations: Vec<f64> = self.seen.iter().map(|seen| (seen - usual).abs() / usual).collect();
            deviations.sort_by(f64::total_cmp);
            let limit = 1.0 + self.least.max(SPREADS * middle(&deviations).unwrap_or(0.0));
            let ratio = (seconds / usual).max(usual / seconds);
            (ratio > limit).then_some(ratio)
        });
        let place = self.seen.partition_point(|seen| *seen < seconds);
        self.seen.insert(place, seconds);
        unusual
    }
}

fn middle(sorted: &[f64]) -> Option<f64> {
    sorted.get(sorted.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_far_from_the_usual_is_unusual() {
        let mut usual = Usual::new(0.25);
        for seconds in [1.0, 1.01, 0.99, 1.02, 1.0, 0.98, 1.2] {
            assert_eq!(usual.judge(seconds), None, "{seconds}");
        }
        assert_eq!(usual.judge(3.0), Some(3.0));
        let faster = usual.judge(0.5).expect("a machine that is faster than before was not quiet before");
        assert!((1.9..2.1).contains(&faster), "{faster}");
        assert_eq!(usual.judge(1.0), None);
    }

    #[test]
    fn where_probes_spread_widely_more_is_usual() {
        let mut usual = Usual::new(0.25);
        for seconds in [1.0, 1.2, 0.9, 1.3, 1.1, 0.8, 1.4] {
            usual.judge(seconds);
        }
        assert_eq!(usual.judge(1.9), None);
        assert!(usual.judge(9.0).is_some());
    }

    #[test]
    fn probes_are_taken() {
        let dir = tempfile::tempdir().unwrap();
        let mut unrest = Unrest::start(dir.path()).unwrap();
        unrest.probe(Some(dir.path())).unwrap();
        assert_eq!((unrest.processor.seen.len(), unrest.syncs.seen.len()), (FIRST_PROBES + 1, FIRST_SYNCS + 1));
        assert!(unrest.processor.seen[0] > 0.0 && unrest.syncs.seen[0] > 0.0);
        assert_eq!(worse(Some(1.5), Some(2.0)), Some(2.0));
        assert_eq!((worse(None, Some(2.0)), worse(None, None)), (Some(2.0), None));
    }
}
