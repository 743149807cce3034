//! Ids that real Git gave: `git hash-object`, `mktree`, `commit-tree` and `mktag` of Git 2.39.

use bristlecone_core::{
    Change, ChangeTarget, Commit, EntryKind, Format, Kind, Mode, ObjRef, Oid, Signature, Tag, Zone,
    git::{self, Git},
};

use super::objects::{Held, Objects};

const NAMES: [&str; 10] =
    ["empty blob", "apple", "empty tree", "fruit", "root", "hundred", "commit", "second", "tag", "tag of a tag"];
const SHA1: [&str; 10] = [
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "46f29e8eb3c70a7a5a7975f78bae7738088bc9e7",
    "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    "6e1cc6a5580eb943519cb3594e2ccd580ef2cbb0",
    "b1601a25226b704410c1c8a39bbb5f8ba52cf825",
    "9bc3dcc8cfb8967a56e1fa86dd6349eee92fbc6a",
    "1b75687b55934bd69a0b90f895e137758f4133b6",
    "945d277f4562a101634f9d876652fedf26b5d4f7",
    "ab7039738f2be2b3cb70a251b1478e908f343ab1",
    "e9c23465257b6eb09a105c77fb2b9e213a65d94e",
];
const SHA256: [&str; 10] = [
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
    "479713dff1a0633e1c6fda86c5fa906f602dd5665cebd221c2c297558905f5a5",
    "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    "cd0f783bc9343e1368fec844a6e3a5976ee67ee69ea50de0ac87433e10cec990",
    "81b312b20743987ea00349bbf0ad72c07462366a4d191347ee3ed23d8818a6f5",
    "0a56428a5255a7e384c0820e42c8d8e29e9c955fe441a351f4fb398bd3d1fc73",
    "46a1479ade87fded8737e90feb49f2c4e1adead33c2c169e4a1e2e1cd7f2de29",
    "4aba1dbd535a0e236d6096bd1ea8ded7d892af1f9e16e60c39850cb044f5128e",
    "72b403850337981f26df347eda1f776852910ae2570c7d4d0883a0035ea7ba97",
    "77bcb1c1f70200911941aebea1eb512f211ee519ca85c91555ff12328088cf92",
];

fn dir(git: &Git, objects: &mut Objects, entries: &[(EntryKind, &[u8], ObjRef)]) -> ObjRef {
    let mut changes: Vec<Change<'_>> =
        entries.iter().map(|(kind, step, at)| Held::new(*kind, *at).change(step)).collect();
    changes.sort_by_key(|change| change.step);
    objects.update(git, None, &changes).unwrap().unwrap()
}

fn signature(ident: &[u8], seconds: i64, zone: &[u8]) -> Signature {
    Signature { ident: ident.to_vec(), seconds, zone: Zone::from_bytes(zone) }
}

fn objects_of(git: &Git) -> (Objects, Vec<(Kind, ObjRef)>) {
    let mut objects = Objects::default();
    let blob = |objects: &mut Objects, value: &[u8]| objects.with(git, |_, put| git.put_contents(put, value)).unwrap();
    let (empty, apple) = (blob(&mut objects, b""), blob(&mut objects, b"red"));
    let empty_tree = objects.with(git, |_, put| git.empty_dir(put)).unwrap();
    let fruit = dir(git, &mut objects, &[(EntryKind::Value, b"apple", apple)]);
    let module = ObjRef::from(Oid::new(&vec![0x55; git.algorithm().oid_bytes()]).unwrap());
    let root = dir(
        git,
        &mut objects,
        &[
            (EntryKind::Value, b"a.b", apple),
            (EntryKind::Dir, b"a", fruit),
            (EntryKind::Value, b"a0", apple),
            (EntryKind::Executable, b"a-b", apple),
            (EntryKind::Link, b"link", apple),
            (EntryKind::Foreign, b"module", module),
            (EntryKind::Value, b"new\nline", empty),
            (EntryKind::Value, b"\xff\xfe", apple),
            (EntryKind::Dir, b"a b", fruit),
        ],
    );
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let names: Vec<(EntryKind, &[u8], ObjRef)> =
        names.iter().map(|name| (EntryKind::Value, name.as_bytes(), apple)).collect();
    let hundred = dir(git, &mut objects, &names);
    let ada = signature(b"Ada <ada@example.org>", 1_700_000_000, b"+0100");
    let mut commit = Commit::new(root.into(), vec![], ada.clone(), "first\n");
    commit.committer = signature(b"Bob <bob@example.org>", 1_700_000_001, b"-0330");
    let first = objects.with(git, |_, put| git.put_commit(put, &commit, 1)).unwrap();
    let second = Commit {
        tree: fruit.into(),
        parents: vec![first.into(), first.into()],
        author: signature(b"Ada <ada@example.org>", 0, b"+0000"),
        committer: signature(b"Ada <ada@example.org>", 0, b"-0000"),
        headers: vec![
            (b"encoding".to_vec(), b"ISO-8859-1".to_vec()),
            (b"gpgsig".to_vec(), b"-----BEGIN-----\n\nline\n-----END-----".to_vec()),
        ],
        message: b"m\xe9ssage\n\nmore".to_vec(),
    };
    let second = objects.with(git, |_, put| git.put_commit(put, &second, 2)).unwrap();
    let tag = |target, kind, name: &str, message: &str| Tag {
        target,
        kind,
        name: name.into(),
        tagger: Some(ada.clone()),
        headers: vec![],
        message: message.into(),
    };
    let v1 = objects.with(git, |_, put| git.put_tag(put, &tag(first, Kind::Commit, "v1", "notes\n"))).unwrap();
    let v2 = objects.with(git, |_, put| git.put_tag(put, &tag(v1, Kind::Tag, "v2", ""))).unwrap();
    let all = vec![
        (Kind::Contents, empty),
        (Kind::Contents, apple),
        (Kind::Node, empty_tree),
        (Kind::Node, fruit),
        (Kind::Node, root),
        (Kind::Node, hundred),
        (Kind::Commit, first),
        (Kind::Commit, second),
        (Kind::Tag, v1),
        (Kind::Tag, v2),
    ];
    (objects, all)
}

#[test]
fn ids_are_those_of_git() {
    for (git, expected) in [(Git::sha1(), SHA1), (Git::sha256(), SHA256)] {
        let (mut objects, all) = objects_of(&git);
        for ((kind, at), (name, expected)) in all.iter().zip(NAMES.into_iter().zip(expected)) {
            assert_eq!(at.oid.to_string(), expected, "{name}");
            // And again from Git's bytes.
            let raw = git::raw(*kind, &objects.body(&at.oid)).unwrap().to_vec();
            assert_eq!(git.algorithm().object_id(*kind, &raw), at.oid);
            let put = objects.with(&git, |_, put| git.put_raw(put, *kind, &raw)).unwrap();
            assert_eq!((put, put.at), (*at, at.at), "it is known");
            let mut other = Objects::default();
            let put = other.with(&git, |_, put| git.put_raw(put, *kind, &raw)).unwrap();
            assert_eq!((put, other.body(&at.oid)), (*at, objects.body(&at.oid)));
        }
    }
}

#[test]
fn commits_and_tags_know_where_their_objects_are() {
    use bristlecone_core::Source;
    let git = Git::sha1();
    let (objects, all) = objects_of(&git);
    let (fruit, first, second, tag) = (all[3].1, all[6].1, all[7].1, all[8].1);
    let object = objects.read(Kind::Commit, &second).unwrap();
    let commit = git.decode_commit(&object).unwrap();
    assert_eq!(
        (ObjRef::from(commit.tree).at, ObjRef::from(commit.parents[1]).at, object.metadata_word(0)),
        (fruit.at, first.at, Some(2))
    );
    assert_eq!(git.commit_tree(&object).map(|tree| (tree, tree.at)), Ok((fruit, fruit.at)));
    let tag = git.decode_tag(&objects.read(Kind::Tag, &tag).unwrap()).unwrap();
    assert_eq!((tag.target, tag.target.at, tag.kind), (first, first.at, Kind::Commit));
    // A generation that was not counted is not kept.
    let mut other = Objects::default();
    let commit = Commit { tree: fruit.oid.into(), parents: vec![], ..commit };
    let at = other.with(&git, |_, put| git.put_commit(put, &commit, 0)).unwrap();
    let object = other.read(Kind::Commit, &at).unwrap();
    assert_eq!((object.metadata_word(0), object.children()), (None, 0));
}

#[test]
fn options_name_the_hash() {
    for git in [Git::sha1(), Git::sha256()] {
        assert_eq!(Git::from_options(&git.options()), Ok(git));
    }
    assert_eq!(Git::default().options(), "hash=sha1");
    for options in ["hash=md5", "inline=48", "hash"] {
        assert!(Git::from_options(options).is_err(), "{options}");
    }
}

#[test]
fn ids_of_the_other_hash_are_refused() {
    let (sha1, sha256) = (Git::sha1(), Git::sha256());
    let (mut objects, all) = objects_of(&sha256);
    let at = ChangeTarget::Object { at: all[1].1, bytes: 3 };
    let change = Change { step: b"a", mode: Mode::USUAL, to: Some((EntryKind::Value, at)) };
    assert!(sha1.update(&bristlecone_core::NoSource, &mut super::objects::Put::default(), None, &[change]).is_err());
    let commit = Commit::new(all[4].1.into(), vec![], signature(b"A <a>", 0, b"+0000"), "");
    assert!(objects.with(&sha1, |_, put| sha1.put_commit(put, &commit, 1)).is_err());
    assert!(objects.with(&sha256, |_, put| sha256.put_commit(put, &commit, 1)).is_ok());
    let raw = git::raw(Kind::Commit, &objects.body(&all[6].1.oid)).unwrap().to_vec();
    assert!(objects.with(&sha1, |_, put| sha1.put_raw(put, Kind::Commit, &raw)).is_err());
}
