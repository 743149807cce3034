//! One order of paths, everywhere: step by step, what is below a directory right behind it.

use std::sync::Arc;

use bristlecone::{Error, Format, MemoryBackend, Native, Path, Repo, Tree, merge};
use bristlecone_testkit::generate::{Rng, Shape, Universe};

/// In order; by the bytes of whole paths each `/` would come behind what is below it in bytes.
const IN_ORDER: [&str; 12] =
    ["a", "a/\u{1}", "a/b", "a/b/c", "a/b-", "a/b-/c", "a\u{1}", "a!/x", "a-", "a-/b", "a.b", "a0"];

fn path(text: &str) -> Path {
    Path::from_bytes(text).unwrap()
}

#[test]
fn paths_are_ordered_step_by_step() {
    let steps = |path: &Path| path.steps().map(<[u8]>::to_vec).collect::<Vec<_>>();
    for (i, one) in IN_ORDER.iter().enumerate() {
        for (j, other) in IN_ORDER.iter().enumerate() {
            assert_eq!(path(one).cmp(&path(other)), i.cmp(&j), "{one} {other}");
        }
        assert!(Path::root() < path(one));
    }
    let mut rng = Rng::new(5);
    for shape in Shape::ALL {
        let universe = Universe::new(shape, 1);
        for _ in 0..20_000 {
            let (one, other) = (universe.dir(&mut rng), universe.path(&mut rng));
            let (one, other) = (Path::from_bytes(one).unwrap(), Path::from_bytes(other).unwrap());
            assert_eq!(one.cmp(&other), steps(&one).cmp(&steps(&other)), "{one} {other}");
        }
    }
}

/// A tree with a value at each of the paths that is not a directory.
fn filled<F: Format>(repo: &Repo<F>, value: &str) -> Tree<F> {
    let mut tree = repo.tree();
    for text in IN_ORDER.iter().rev().filter(|text| is_value(text)) {
        tree.set(path(text), value).unwrap();
    }
    tree
}

fn is_value(text: &str) -> bool {
    let below = format!("{text}/");
    !IN_ORDER.iter().any(|other| other.starts_with(&below))
}

fn everything_is_in_order<F: Format>(format: F) -> Result<(), Error> {
    let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
    let wanted: Vec<Path> = IN_ORDER.iter().filter(|text| is_value(text)).map(|text| path(text)).collect();
    let (mut one, other) = (filled(&repo, "1"), filled(&repo, "2"));
    for written in [false, true] {
        if written {
            one.write()?;
        }
        let walked: Vec<Path> = one.walk_all("")?.map(|entry| Ok(entry?.0)).collect::<Result<_, Error>>()?;
        assert!(walked.is_sorted(), "{walked:?}");
        assert_eq!(walked.iter().filter(|path| wanted.contains(path)).count(), wanted.len());
    }
    for (before, after) in [(&one, &other), (&repo.tree(), &one)] {
        let found: Vec<Path> = before.diff(after, "")?.map(|found| Ok(found?.path)).collect::<Result<_, Error>>()?;
        assert_eq!(found, wanted);
    }
    let conflicts = merge::trees(None, &one, &other)?.conflicts;
    assert_eq!(conflicts.iter().map(|one| &one.path).collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn walks_differences_and_conflicts_come_in_the_order_of_paths() -> Result<(), Error> {
    #[cfg(feature = "git")]
    everything_is_in_order(bristlecone::Git::sha1())?;
    #[cfg(feature = "tezos")]
    everything_is_in_order(bristlecone::Tezos::new())?;
    everything_is_in_order(Native::new())
}
