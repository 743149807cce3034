//! Three-way merges against a model: the same merge of plain maps, path by path.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use bristlecone::{Counted, EntryKind, Error, Format, MemoryBackend, Native, Oid, Repo, Tree, merge};
use bristlecone_testkit::generate::Rng;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What is at a path: kind and contents.
type Value = (EntryKind, Vec<u8>);
type Map = BTreeMap<String, Value>;

const PATHS: [&str; 16] = [
    "a", "a-", "a/b", "a/b/c", "a/b/d", "a/b./e", "a/e", "b", "b/c", "c", "c/d/e/f", "c/d/g", "c/h", "d", "e/f", "e/g",
];

/// Edits a map as a tree would be: a value takes the place of what is above and below it.
fn edit(map: &mut Map, random: &mut Rng, edits: usize) {
    for _ in 0..edits {
        let path = PATHS[random.index(PATHS.len())];
        let below = format!("{path}/");
        if random.index(3) == 0 {
            map.retain(|other, _| other != path && !other.starts_with(&below));
            continue;
        }
        map.retain(|other, _| !other.starts_with(&below) && !path.starts_with(&format!("{other}/")));
        let kind = [EntryKind::Value, EntryKind::Value, EntryKind::Executable, EntryKind::Link][random.index(4)];
        // Some are long enough to be objects of their own.
        let contents = vec![b"xyz"[random.index(3)]; [1, 1, 100][random.index(3)]];
        map.insert(path.to_owned(), (kind, contents));
    }
}

fn tree_of<F: Format>(repo: &Repo<F>, map: &Map) -> Tree<F> {
    let mut tree = repo.tree();
    for (path, (kind, contents)) in map {
        tree.set_kind(path.as_str(), *kind, contents).unwrap();
    }
    tree
}

fn map_of<F: Format>(tree: &Tree<F>) -> Map {
    let mut map = Map::new();
    for entry in tree.walk_all("").unwrap() {
        let (path, entry) = entry.unwrap();
        if let Some(contents) = entry.contents().unwrap() {
            map.insert(path.to_string(), (entry.kind(), contents.to_vec()));
        }
    }
    map
}

/// Merges one value; `Err` is a conflict.
fn merge_values(base: Option<&Value>, ours: Option<&Value>, theirs: Option<&Value>) -> Result<Option<Value>, ()> {
    fn three<T: PartialEq + Clone>(base: T, ours: T, theirs: T) -> Result<T, ()> {
        if ours == base || ours == theirs {
            Ok(theirs)
        } else if theirs == base {
            Ok(ours)
        } else {
            Err(())
        }
    }
    if let Ok(whole) = three(base, ours, theirs) {
        return Ok(whole.cloned());
    }
    let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else { return Err(()) };
    if [base, ours, theirs].iter().any(|value| value.0 == EntryKind::Link) {
        return Err(());
    }
    Ok(Some((three(base.0, ours.0, theirs.0)?, three(&base.1, &ours.1, &theirs.1)?.clone())))
}

/// Merges maps path by path; then puts back what ours has where a value and a directory want one name.
fn model(base: &Map, ours: &Map, theirs: &Map) -> (Map, BTreeSet<String>) {
    let paths: BTreeSet<&String> = base.keys().chain(ours.keys()).chain(theirs.keys()).collect();
    let (mut merged, mut conflicts) = (Map::new(), BTreeSet::new());
    for path in paths {
        let value = merge_values(base.get(path), ours.get(path), theirs.get(path)).unwrap_or_else(|()| {
            conflicts.insert(path.clone());
            ours.get(path).cloned()
        });
        if let Some(value) = value {
            merged.insert(path.clone(), value);
        }
    }
    // From the top down: what is put back above takes what is below with it. It does not matter which side has the value,
    // nor which side has something below it.
    while let Some(path) = merged.keys().find(|path| {
        let below = format!("{path}/");
        let is_below = |other: &String| other.starts_with(&below);
        merged.keys().any(is_below) || conflicts.iter().any(is_below)
    }) {
        let path = path.clone();
        let within = |other: &String| *other == path || other.starts_with(&format!("{path}/"));
        merged.retain(|other, _| !within(other));
        merged
            .extend(ours.iter().filter(|(other, _)| within(other)).map(|(path, value)| (path.clone(), value.clone())));
        conflicts.retain(|other| !within(other));
        conflicts.insert(path);
    }
    (merged, conflicts)
}

fn agrees_with_the_model<F: Format>(repo: &Repo<F>) {
    let mut both = (0, 0);
    for seed in 0..1500 {
        let random = &mut Rng::new(seed);
        let mut base = Map::new();
        edit(&mut base, random, 10);
        let (mut ours, mut theirs) = (base.clone(), base.clone());
        let edits = (random.index(6), random.index(6));
        edit(&mut ours, random, edits.0);
        edit(&mut theirs, random, edits.1);
        let wanted = model(&base, &ours, &theirs);
        let trees = (tree_of(repo, &base), tree_of(repo, &ours), tree_of(repo, &theirs));
        let merged = merge::trees(Some(&trees.0), &trees.1, &trees.2).unwrap();
        let conflicts: BTreeSet<String> = merged.conflicts.iter().map(|one| one.path.to_string()).collect();
        assert_eq!((map_of(&merged.tree), &conflicts), (wanted.0, &wanted.1), "seed {seed}");
        assert!(
            merged.conflicts.is_sorted_by(|one, other| one.path < other.path),
            "seed {seed}: each path once, in order"
        );
        // The other way round the same paths are in conflict, for the same reasons.
        let swapped = merge::trees(Some(&trees.0), &trees.2, &trees.1).unwrap();
        let sides = |one: &merge::Conflict| (one.path.clone(), one.base.clone(), one.ours.clone(), one.theirs.clone());
        let turned = |one: &merge::Conflict| (one.path.clone(), one.base.clone(), one.theirs.clone(), one.ours.clone());
        assert!(merged.conflicts.iter().map(sides).eq(swapped.conflicts.iter().map(turned)), "seed {seed}: swapped");
        for one in &merged.conflicts {
            assert_ne!(one.ours, one.theirs, "seed {seed}");
            assert!(one.ours != one.base || one.theirs != one.base, "seed {seed}");
        }
        *(if conflicts.is_empty() { &mut both.0 } else { &mut both.1 }) += 1;
        // The root is a function of what is in the tree, however it came there.
        if !merged.tree.is_empty().unwrap() {
            assert_eq!(merged.tree.root().unwrap(), tree_of(repo, &map_of(&merged.tree)).root().unwrap());
        }
    }
    assert!(both.0 > 200 && both.1 > 200, "clean and not: {both:?}");
}

#[test]
fn merges_agree_with_a_model() {
    agrees_with_the_model(&Repo::memory());
    #[cfg(feature = "git")]
    agrees_with_the_model(&Repo::with_backend(bristlecone::Git::sha1(), Arc::new(MemoryBackend::new())));
}

#[test]
fn a_side_that_changed_nothing_changes_nothing() -> Outcome {
    let repo = Repo::memory();
    let mut base = repo.tree();
    base.set("a/b", "1")?;
    base.set_foreign("sub", Oid::new(&[7; 20])?)?;
    let mut changed = base.clone();
    changed.set("a/c", "2")?;
    changed.remove("sub")?;
    for (ours, theirs) in [(&base, &changed), (&changed, &base), (&changed, &changed)] {
        let merged = merge::trees(Some(&base), ours, theirs)?;
        assert!(merged.conflicts.is_empty() && merged.tree.same(&changed)?);
    }
    let merged = merge::trees(None, &base, &changed)?;
    assert!(merged.conflicts.is_empty(), "nothing that both have is different");
    assert!(merged.tree.contains("a/c")? && merged.tree.entry("sub")?.is_some());
    let other = Repo::memory().tree();
    assert!(matches!(merge::trees(Some(&base), &base, &other), Err(Error::Usage { .. })));
    Ok(())
}

#[test]
fn conflicts_name_what_each_side_has() -> Outcome {
    let repo = Repo::memory();
    let mut base = repo.tree();
    for path in ["both", "gone", "dir/a", "dir/b"] {
        base.set(path, "1")?;
    }
    let (mut ours, mut theirs) = (base.clone(), base.clone());
    ours.set("both", "2")?;
    theirs.set("both", "3")?;
    ours.remove("gone")?;
    theirs.set("gone", "2")?;
    // The directory goes, but for what was changed in it.
    ours.set("dir/a", "2")?;
    theirs.remove("dir")?;
    theirs.set("new", "1")?;
    let merged = merge::trees(Some(&base), &ours, &theirs)?;
    let paths: Vec<String> = merged.conflicts.iter().map(|one| one.path.to_string()).collect();
    assert_eq!(paths, ["both", "dir/a", "gone"]);
    let gone = &merged.conflicts[2];
    assert!(gone.base.is_some() && gone.ours.is_none() && gone.theirs.is_some());
    assert_eq!(merged.tree.get("both")?.as_deref(), Some(&b"2"[..]));
    assert_eq!(merged.tree.get("dir/a")?.as_deref(), Some(&b"2"[..]));
    assert!(!merged.tree.contains("dir/b")? && !merged.tree.contains("gone")? && merged.tree.contains("new")?);
    Ok(())
}

#[test]
fn keys_that_are_no_steps_are_merged_with_the_tree_unless_they_conflict() -> Outcome {
    let with = |tree: &Tree, edits: &[(&str, &str)]| -> Result<Tree, Error> {
        let mut tree = tree.clone();
        let mut prices = tree.map("prices")?;
        for (key, price) in edits {
            prices.insert(key.as_bytes(), *price)?;
        }
        tree.set_tree("prices", prices.tree())?;
        Ok(tree)
    };
    let base = with(&Repo::memory().tree(), &[("plum/red", "1"), ("", "1"), ("fig", "1")])?;
    let ours = with(&base, &[("plum/red", "2"), ("both/", "2")])?;
    let theirs = with(&base, &[("", "2"), ("new/", "2"), ("both/", "2")])?;
    let all = with(&ours, &[("", "2"), ("new/", "2")])?;
    for (ours, theirs) in [(&ours, &theirs), (&theirs, &ours)] {
        let merged = merge::trees(Some(&base), ours, theirs)?;
        assert!(merged.conflicts.is_empty());
        assert_eq!(merged.tree.root()?, all.root()?);
    }
    let other = with(&base, &[("plum/red", "3")])?;
    let conflict = merge::trees(Some(&base), &ours, &other);
    assert!(matches!(&conflict, Err(Error::Path(_))), "{conflict:?}");
    Ok(())
}

#[test]
fn a_value_over_a_stored_directory_is_refused_by_a_merge_whatever_came_of_edits_below_it() -> Outcome {
    let mut base = Repo::memory().tree();
    base.set("dir/x", "1")?;
    base.write()?;
    let mut ours = base.clone();
    ours.set("dir", "2")?;
    ours.set("dir/y", "3")?;
    ours.remove("dir/y")?;
    for (ours, theirs) in [(&ours, &base), (&base, &ours)] {
        let refused = merge::trees(Some(&base), ours, theirs);
        assert!(matches!(&refused, Err(Error::IsDirectory { path }) if path.to_string() == "dir"), "{refused:?}");
    }
    Ok(())
}

#[test]
fn what_one_side_left_alone_is_not_read() -> Outcome {
    let backend = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = backend.counts();
    let repo = Repo::with_backend(Native::new(), Arc::new(backend));
    let mut base = repo.tree();
    for n in 0..20_000 {
        base.set(format!("{}/{}/{n}", n % 10, n % 100), format!("a value that is not short {n}").repeat(3))?;
    }
    base.write()?;
    let (mut ours, mut theirs) = (base.clone(), base.clone());
    for n in 0..1000 {
        ours.set(format!("0/10/{n}"), "ours")?;
        theirs.set(format!("1/11/{n}"), "theirs")?;
    }
    ours.write()?;
    theirs.write()?;
    theirs.set("2/12/2", "one more")?;
    let before = counts.reads.load(Relaxed);
    let merged = merge::trees(Some(&base), &ours, &theirs)?;
    assert!(merged.conflicts.is_empty());
    let reads = counts.reads.load(Relaxed) - before;
    assert!(reads < 100, "{reads} reads");
    assert!(merged.tree.contains("0/10/7")? && merged.tree.contains("1/11/7")?);
    Ok(())
}
