//! Objects of repositories that real `git` made are read as it reads them.

use std::collections::BTreeMap;

use bristlecone::Oid;
use bristlecone::core::git::type_name;
use bristlecone_git::layout::Layout;
use bristlecone_git::odb::Odb;
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

#[test]
fn every_shape_is_read_loose_and_packed() {
    if !git::is_there("every_shape_is_read_loose_and_packed") {
        return;
    }
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
