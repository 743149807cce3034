//! Objects of repositories that real `git` made are read as it reads them.

use std::collections::BTreeMap;

use bristlecone::core::git::{Algorithm, type_name};
use bristlecone::{Kind, Oid};
use bristlecone_git::layout::Layout;
use bristlecone_git::odb::{Odb, OdbOptions};
use bristlecone_needs::needs;
use bristlecone_testkit::git::{self, Git, Shapes};

/// Compares every object of a repository with what `git cat-file` says, and that no other is listed.
fn read_all(git: &Git) -> usize {
    let layout = Layout::open(git.dir()).unwrap();
    let odb = Odb::open_path(&layout).unwrap();
    let expected = git.objects();
    let mut listed = BTreeMap::new();
    odb.each_oid(&mut |oid| {
        *listed.entry(oid.to_string()).or_insert(0) += 1;
        Ok(())
    })
    .unwrap();
    assert!(listed.values().all(|count| *count == 1));
    assert!(listed.keys().eq(expected.iter().map(|object| &object.0)));
    let mut raw = Vec::new();
    for (id, kind, bytes) in &expected {
        let oid: Oid = id.parse().unwrap();
        let (found, size) = odb.header(&oid).unwrap().expect("a listed object is there");
        assert_eq!((type_name(found), size), (Some(&**kind), bytes.len() as u64), "{id}");
        let found = odb.read(&oid, &mut raw).unwrap().expect("a listed object is there");
        assert_eq!(type_name(found), Some(&**kind), "{id}");
        assert!(raw == *bytes, "{id}");
        odb.check(&oid, found, &raw).unwrap();
        assert!(odb.contains(&oid).unwrap());
        raw.push(0);
        assert!(odb.check(&oid, found, &raw).is_err());
    }
    let absent = Oid::new(&[0x5b; 32][..layout.algorithm.oid_bytes()]).unwrap();
    assert!(odb.read(&absent, &mut raw).unwrap().is_none());
    assert!(odb.header(&absent).unwrap().is_none());
    assert!(!odb.contains(&absent).unwrap());
    expected.len()
}

#[needs(git)]
#[test]
fn every_shape_is_read_loose_and_packed() {
    for sha256 in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let git = git::shapes(dir.path().join("repo"), &Shapes { sha256, ..Shapes::default() });
        git.fsck();
        let count = read_all(&git);
        assert!(count > 1000);
        git::long_chain(&git);
        assert_eq!(read_all(&git), count);
        git.run(&["gc", "-q"]);
        assert_eq!(read_all(&git), count);
    }
}

#[needs(git)]
#[test]
fn a_storage_without_maps_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let git = git::shapes(dir.path().join("repo"), &Shapes { refs: 0, ..Shapes::default() });
    git::long_chain(&git);
    for base_cache_bytes in [0, 100_000] {
        let options = OdbOptions::default().base_cache_bytes(base_cache_bytes);
        let odb = Odb::open(crate::sim::copy(git.dir()), Algorithm::Sha1, options).unwrap();
        let mut raw = Vec::new();
        for (id, kind, bytes) in &git.objects() {
            let oid: Oid = id.parse().unwrap();
            let (found, size) = odb.header(&oid).unwrap().unwrap();
            assert_eq!((type_name(found), size), (Some(&**kind), bytes.len() as u64), "{id}");
            assert_eq!(odb.read(&oid, &mut raw).unwrap(), Some(found));
            assert!(raw == *bytes, "{id}");
        }
    }
}

#[needs(git)]
#[test]
fn alternates_are_followed_and_circles_cut() {
    let dir = tempfile::tempdir().unwrap();
    let first = git::shapes(dir.path().join("with space"), &Shapes { refs: 0, ..Shapes::default() });
    first.run(&["gc", "-q"]);
    let here = Git::new(dir.path());
    here.run(&["clone", "-q", "--shared", "with space", "second"]);
    here.run(&["clone", "-q", "--reference", "second", "--shared", "second", "third"]);
    let (second, third) = (Git::new(dir.path().join("second")), Git::new(dir.path().join("third")));
    second.write("own", "of the second");
    second.commit_all("own");
    third.write("third", "of the third");
    third.commit_all("third");
    assert!(read_all(&second) > 1000);
    assert!(read_all(&third) > 1000);
    // The first borrows from the third, by a relative path, in quotes.
    let alternates = "# a comment\n\"../../third/.git/obj\\145cts\"\n/nowhere/at/all\n";
    first.write("objects/info/alternates", alternates);
    let odb = Odb::open_path(&Layout::open(first.dir()).unwrap()).unwrap();
    for (id, ..) in third.objects() {
        assert!(odb.read(&id.parse().unwrap(), &mut Vec::new()).unwrap().is_some());
    }
}

#[needs(git)]
#[test]
fn alternates_are_followed_as_deep_as_git_follows_them() {
    let dir = tempfile::tempdir().unwrap();
    let repository = |n: usize| Git::init(dir.path().join(format!("{n}.git")), &["--bare"]);
    let id = repository(0).hash_object("blob", b"the value");
    for n in 1..=8 {
        let git = repository(n);
        git.write(
            "objects/info/alternates",
            format!("{}\n", dir.path().join(format!("{}.git/objects", n - 1)).display()),
        );
        let odb = Odb::open_path(&Layout::open(git.dir()).unwrap()).unwrap();
        let (there, _) = git.attempt(&["cat-file", "-e", &id]);
        assert_eq!((odb.contains(&id.parse().unwrap()).unwrap(), n <= 6), (there, there), "{n}");
    }
}

#[needs(git)]
#[test]
fn what_others_add_and_take_away_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path(), &[]);
    let odb = Odb::open_path(&Layout::open(git.dir()).unwrap()).unwrap();
    let mut raw = Vec::new();
    let mut all: Vec<Oid> = Vec::new();
    for round in 0..6 {
        for i in 0..4 {
            git.write(format!("file{i}"), format!("{round} {i} {}", "some text ".repeat(50)));
            all.push(git.commit_all("a commit").parse().unwrap());
            assert_eq!(odb.read(all.last().unwrap(), &mut raw).unwrap(), Some(Kind::Commit));
        }
        match round {
            0 => git.run(&["repack", "-q", "-d"]),
            1 => git.run(&["gc", "-q", "--prune=now"]),
            2 => git.run(&["repack", "-q", "-d", "--write-midx"]),
            3 => git.run(&["multi-pack-index", "write"]),
            4 => git.run(&["repack", "-q", "-d", "--geometric=2", "--write-midx"]),
            _ => git.run(&["repack", "-q", "-adf"]),
        };
        for oid in &all {
            assert_eq!(odb.read(oid, &mut raw).unwrap(), Some(Kind::Commit), "round {round}");
        }
        // Every pack keeps its index beside one for several.
        let names = std::fs::read_dir(dir.path().join(".git/objects/pack")).unwrap();
        let names: Vec<_> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        let with = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
        assert_eq!(with(".idx"), with(".pack"));
        assert_eq!(names.iter().any(|name| name == "multi-pack-index"), (2..5).contains(&round), "{names:?}");
        read_all(&git);
        odb.refresh().unwrap();
        assert_eq!(odb.pack_names().len(), with(".pack"));
    }
}

#[needs(git)]
#[test]
fn packs_of_deltas_against_ids_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let git = git::shapes(dir.path().join("repo"), &Shapes { refs: 0, ..Shapes::default() });
    git::long_chain(&git);
    let objects = git.run(&["rev-list", "--all", "--objects", "--no-object-names"]);
    // Without --delta-base-offset, Git writes all deltas against ids.
    let pack = git.feed(&["pack-objects", "--stdout", "--no-reuse-delta", "-q"], &objects);
    let other = Git::init(dir.path().join("other"), &["--bare"]);
    other.feed(&["index-pack", "--stdin"], &pack);
    assert!(read_all(&other) > 500);
    // A thin pack is made whole by --fix-thin: the bases are appended.
    let head = git.text(&["rev-parse", "refs/heads/main"]);
    let range = format!("{head}\n^{head}~20\n");
    let thin = git.feed(&["pack-objects", "--stdout", "--thin", "--revs", "-q", "--no-reuse-delta"], range.as_bytes());
    let third = Git::init(dir.path().join("third"), &["--bare"]);
    third.write("objects/info/alternates", format!("{}/objects\n", git.dir().display()));
    third.feed(&["index-pack", "--stdin", "--fix-thin"], &thin);
    assert!(read_all(&third) > 500);
}

/// `git commit-tree` takes the id of the tree without entries, and writes no object for it.
#[needs(git)]
#[test]
fn the_tree_without_entries_is_read_though_nobody_wrote_it() {
    for format in ["sha1", "sha256"] {
        let dir = tempfile::tempdir().unwrap();
        let git = Git::init(dir.path(), &[&format!("--object-format={format}")]);
        let empty = String::from_utf8(git.feed(&["hash-object", "-t", "tree", "--stdin"], b"")).unwrap();
        assert_eq!(git.text(&["cat-file", "-t", empty.trim_end()]), "tree");
        let odb = Odb::open_path(&Layout::open(git.dir()).unwrap()).unwrap();
        let (oid, mut raw): (Oid, _) = (empty.trim_end().parse().unwrap(), vec![1]);
        assert_eq!(odb.read(&oid, &mut raw).unwrap(), Some(Kind::Node));
        assert!(raw.is_empty());
        assert_eq!(odb.header(&oid).unwrap(), Some((Kind::Node, 0)));
        assert!(odb.contains(&oid).unwrap());
        let mut listed = 0;
        odb.each_oid(&mut |_| {
            listed += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(listed, 0, "nobody wrote it");
    }
}
