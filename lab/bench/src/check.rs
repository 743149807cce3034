//! The check at the end of every run: the store is opened again, and what it holds is compared, entry by
//! entry and by its root, with what the scenario should have left.

use bristlecone::{Backend, Batch, CommitId, Format, Kind, ObjRef, Object, Oid, Repo, core::Source as ObjectSource};

use crate::{
    BenchError,
    engine::Engine,
    error::Result,
    measure::Run,
    workload::{Workload, value},
};

/// Entry by entry so many branches are read at most.
const BRANCHES_READ_MAX: usize = 100;

/// What a scenario should have left in the store.
pub(crate) enum Expected {
    /// Branches with equal contents.
    Branches {
        /// Their names.
        names: Vec<String>,
        /// The number of each entry's value.
        values: Vec<usize>,
        /// How many commits lead to each head.
        commits: usize,
    },
    /// Objects: the values of these numbers.
    Objects(std::ops::Range<usize>),
}

/// Opens the store again and compares. What is found wrong goes into the run; an error is one of the store.
pub(crate) fn check<F: Format>(
    engine: &mut Engine<F>,
    workload: &Workload,
    expected: &Expected,
    run: &mut Run,
) -> Result<()> {
    engine.reopen()?;
    let found = match expected {
        Expected::Branches { names, values, commits } => branches(engine, workload, names, values, *commits, run),
        Expected::Objects(numbers) => objects(engine, workload.value_bytes, numbers.clone()),
    };
    match found {
        Ok(()) => Ok(()),
        Err(BenchError::Wrong { reason, .. }) => {
            run.wrong = Some(reason);
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn branches<F: Format>(
    engine: &Engine<F>,
    workload: &Workload,
    names: &[String],
    values: &[usize],
    commits: usize,
    run: &mut Run,
) -> Result<()> {
    let values: Vec<Vec<u8>> = values.iter().map(|&number| workload.value(number)).collect();
    let root = root_at_once(engine.format(), workload, &values)?;
    let repo = engine.repo();
    // Of very many branches some are read entry by entry; equal roots stand for the others.
    let every = names.len().div_ceil(BRANCHES_READ_MAX);
    for (index, name) in names.iter().enumerate() {
        let branch = repo.branch(name)?;
        let Some(head) = branch.head()? else { return Err(wrong(format!("there is no branch {name}"))) };
        let tree = branch.tree()?;
        let read = index.is_multiple_of(every);
        for (path, value) in workload.paths.iter().zip(&values).filter(|_| read) {
            let found = tree.get(path)?;
            if found.as_deref() != Some(&value[..]) {
                return Err(wrong(format!("{path} in {name} does not hold its value")));
            }
        }
        let count = tree.count(&workload.dir)?;
        if count != values.len() as u64 {
            return Err(wrong(format!("{name} has {count} entries in place of {}", values.len())));
        }
        if tree.root()? != root.into() {
            return Err(wrong(format!("the root of {name} is not that of its contents made at once in memory")));
        }
        history(&repo, head, commits)?;
        run.head = Some(head.oid().to_string());
    }
    run.root = Some(root.to_string());
    Ok(())
}

/// Returns the root of these contents, set at once in a store of its own in memory.
pub(crate) fn root_at_once<F: Format>(format: &F, workload: &Workload, values: &[Vec<u8>]) -> Result<Oid> {
    let repo = Repo::with_backend(format.clone(), std::sync::Arc::new(bristlecone::MemoryBackend::new()));
    let mut tree = repo.tree();
    for (path, value) in workload.paths.iter().zip(values) {
        tree.set(path, value)?;
    }
    Ok(tree.root()?.into())
}

/// Checks that `commits` commits, one above the other, lead to `head`.
fn history<F: Format>(repo: &Repo<F>, head: CommitId, commits: usize) -> Result<()> {
    let mut count = 0;
    let mut next = Some(head);
    while let Some(at) = next {
        count += 1;
        next = repo.read_commit(at)?.parents.first().copied();
    }
    if count == commits {
        Ok(())
    } else {
        Err(wrong(format!("{count} commits lead to the head in place of {commits}")))
    }
}

/// Checks that the store has the values of these numbers, found by their ids alone.
fn objects<F: Format>(engine: &Engine<F>, bytes: usize, numbers: std::ops::Range<usize>) -> Result<()> {
    let (format, source) = (engine.format(), Objects(&**engine.backend()));
    for number in numbers {
        let value = value(number, bytes);
        let mut batch = Batch::new();
        let oid = put(format, &mut batch, &value)?.oid;
        if format.read_contents(&source, &ObjRef::from(oid), 0..u64::MAX)? != value {
            return Err(wrong(format!("object {oid} does not hold value {number}")));
        }
    }
    Ok(())
}

/// Hashes a value and puts it into a batch.
#[inline]
pub(crate) fn put<F: Format>(format: &F, batch: &mut Batch, value: &[u8]) -> Result<ObjRef> {
    Ok(format.put_contents(batch, value).map_err(bristlecone::Error::from)?)
}

fn wrong(reason: String) -> BenchError {
    BenchError::Wrong { scenario: String::new(), reason }
}

/// The objects of a backend, as formats read them.
struct Objects<'b>(&'b dyn Backend);

impl ObjectSource for Objects<'_> {
    type Error = bristlecone::Error;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> bristlecone::Result<Object<'a>> {
        self.0.read(at)?.ok_or(bristlecone::Error::Missing { kind, oid: at.oid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::native,
        job::{Job, Sizes, Switches, Target, Work},
        workload::info,
    };

    fn job(target: Target, dir: &std::path::Path) -> Job {
        let sizes = Sizes { tree_add: 50, depth: 2, ..Sizes::default() };
        let (work, switches, dir) = (Work::Commits, Switches::default(), dir.to_owned());
        Job { work, target, value_bytes: 20, sizes, switches, dir, name: "test".into(), label: None, judged: true }
    }

    /// Commits value 7 in every entry, changed by `edit`, and returns what a check for value 7 finds wrong.
    fn found(edit: impl Fn(&mut bristlecone::Tree, &Workload), commits: usize) -> Vec<Option<String>> {
        let dir = tempfile::tempdir().unwrap();
        let check = |target| {
            let job = job(target, dir.path());
            let workload = Workload::new(&job);
            let mut engine = Engine::create(&job, native(&job.switches)).unwrap();
            let mut tree = engine.repo().tree();
            for path in &workload.paths {
                tree.set(path, &workload.value(7)[..]).unwrap();
            }
            edit(&mut tree, &workload);
            engine.repo().branch("main").unwrap().commit(&mut tree, &info(&job, 0)).unwrap();
            drop(tree);
            let expected = Expected::Branches { names: vec!["main".into()], values: vec![7; 50], commits };
            let mut run = Run::default();
            super::check(&mut engine, &workload, &expected, &mut run).unwrap();
            run.wrong
        };
        Target::NATIVE.map(check).to_vec()
    }

    fn all_say(found: &[Option<String>], words: &str) {
        for wrong in found {
            assert!(wrong.as_deref().is_some_and(|wrong| wrong.contains(words)), "{wrong:?} in place of {words}");
        }
    }

    #[test]
    fn right_contents_pass() {
        assert_eq!(found(|_, _| {}, 1), [None, None, None]);
    }

    #[test]
    fn a_wrong_missing_or_further_entry_is_found() {
        let wrong = found(|tree, workload| tree.set(&workload.paths[30], &workload.value(8)[..]).unwrap(), 1);
        all_say(&wrong, "0/1/31 in main does not hold its value");
        all_say(&found(|tree, workload| tree.remove(&workload.paths[49]).unwrap(), 1), "0/1/50");
        all_say(&found(|tree, _| tree.set("0/1/51", b"more").unwrap(), 1), "51 entries");
    }

    #[test]
    fn contents_elsewhere_show_in_the_root_and_commits_are_counted() {
        all_say(&found(|tree, _| tree.set("elsewhere", b"more").unwrap(), 1), "the root of main");
        all_say(&found(|_, _| {}, 2), "1 commits lead to the head");
    }

    #[test]
    fn objects_are_found_by_their_ids() {
        let dir = tempfile::tempdir().unwrap();
        for target in Target::NATIVE {
            let job = job(target, dir.path());
            let mut engine = Engine::create(&job, native(&job.switches)).unwrap();
            let mut batch = Batch::new();
            for number in 0..3 {
                put(engine.format(), &mut batch, &value(number, 20)).unwrap();
            }
            engine.backend().append(batch, &[], target.durability()).unwrap();
            engine.reopen().unwrap();
            assert!(objects(&engine, 20, 0..3).is_ok());
            assert!(objects(&engine, 20, 0..4).is_err());
        }
    }
}
