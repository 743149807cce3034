//! `reads` and `reads-random`: lookups in a tree that nothing in memory knows yet.

use bristlecone::{Bytes, Format, Path, Tree};

use super::base::{base_values, commit_base};
use crate::{
    BenchError,
    check::Expected,
    engine::Engine,
    error::Result,
    job::{Job, Way},
    measure::{Run, together},
    workload::{MAIN, Workload, add_up, lookups, weight},
};

/// The long form does so many times the lookups.
const LONG: usize = 100;

pub(super) fn run<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    way: Way,
    threads: usize,
    long: bool,
) -> Result<(Run, Expected)> {
    commit_base(engine, job, workload, &[MAIN.into()])?;
    engine.reopen()?;
    let count = job.sizes.nreads * if long { LONG } else { 1 };
    let each = count.div_ceil(threads);
    let lookups: Vec<Vec<u32>> =
        (0..threads).map(|thread| lookups(&job.sizes, each, way != Way::InOrder, thread as u64 + 1)).collect();
    let repo = engine.repo();
    let branch = repo.branch(MAIN)?;
    let (seconds, sums) = together(threads, |thread| {
        let tree = branch.tree()?;
        look_up(&tree, workload, way, &lookups[thread])
    })?;
    let right = sums.iter().zip(&lookups).all(|(sum, lookups)| *sum == workload.sum_of(lookups));
    let stats = engine.stats();
    let run = Run {
        ops: (each * threads) as u64,
        seconds,
        threads: threads as u64,
        store_bytes: stats.store_bytes,
        file_bytes: stats.file_bytes,
        wrong: (!right).then(|| "lookups found other values than were set".into()),
        ..Run::default()
    };
    let expected = Expected::Branches { names: vec![MAIN.into()], values: base_values(workload), commits: 1 };
    Ok((run, expected))
}

/// Looks entries up and returns the sum of what was found, as [`Workload::sum_of`] has it.
#[inline]
pub(super) fn look_up<F: Format>(tree: &Tree<F>, workload: &Workload, way: Way, lookups: &[u32]) -> Result<u64> {
    match way {
        Way::InOrder | Way::Walk => each(lookups, &workload.paths, |path| Ok(tree.get(path)?)),
        Way::Reader => {
            let mut reader = tree.reader();
            each(lookups, &workload.paths, |path| Ok(reader.get(path)?))
        }
        Way::Subtree => {
            let Some(below) = tree.get_tree(&workload.dir)? else { return Err(absent(&workload.dir)) };
            each(lookups, &workload.names, |name| Ok(below.get(name)?))
        }
    }
}

#[inline]
fn each<'t>(lookups: &[u32], paths: &[Path], mut find: impl FnMut(&Path) -> Result<Option<Bytes<'t>>>) -> Result<u64> {
    let mut sum = 0;
    for &n in lookups {
        let path = &paths[n as usize];
        match find(path)? {
            Some(value) => sum = add_up(sum, weight(&value)),
            None => return Err(absent(path)),
        }
    }
    Ok(sum)
}

#[cold]
fn absent(path: &Path) -> BenchError {
    BenchError::Wrong { scenario: "reads".into(), reason: format!("nothing was found at {path}") }
}

#[cfg(test)]
mod tests {
    use bristlecone::Repo;

    use super::*;

    #[test]
    fn the_value_of_another_entry_is_noticed_whatever_the_way() {
        let workload = Workload::sized(2, 10, 20);
        let mut tree = Repo::memory().tree();
        for (n, path) in workload.paths.iter().enumerate() {
            tree.set(path, &workload.value(n + 1)[..]).unwrap();
        }
        tree.write().unwrap();
        // Two entries that hold each other's values.
        let mut exchanged = tree.clone();
        exchanged.set(&workload.paths[3], &workload.value(8)[..]).unwrap();
        exchanged.set(&workload.paths[7], &workload.value(4)[..]).unwrap();
        exchanged.write().unwrap();
        let lookups: Vec<u32> = (0..20).map(|n| n % 10).collect();
        for way in [Way::InOrder, Way::Walk, Way::Reader, Way::Subtree] {
            assert_eq!(look_up(&tree, &workload, way, &lookups).unwrap(), workload.sum_of(&lookups), "{way:?}");
            assert_ne!(look_up(&exchanged, &workload, way, &lookups).unwrap(), workload.sum_of(&lookups), "{way:?}");
        }
    }
}
