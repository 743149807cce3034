//! Stores that an attacker made: an export stays within its folder and refuses names that are
//! no files'.

use std::{fs, os::unix::fs::symlink, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, EntryKind, Error, Expected, Format, Info, Kind, Native, ObjRef, Object, RefMove,
    RefTarget,
    core::{Change, ChangeTarget, Mode, Source},
};

use crate::harness::Place;

#[test]
fn names_that_mean_folders_are_refused() {
    for (name, shown) in [(".", "\".\""), ("..", "\"..\""), ("d/..", "\"..\" in d"), ("a%00b", "NUL")] {
        let place = Place::with_store();
        place.ok(["set", "fine", "1"]);
        place.ok(["set", name, "1"]);
        place.fails(3, &["cannot be a file's", shown, "nothing was written"], ["export", "out"]);
        assert!(!place.path("out").exists());
    }
    let place = Place::with_store();
    place.ok(["set", &"n".repeat(256), "1"]);
    place.fails(3, &["longer than 255 bytes"], ["export", "out"]);
    let place = Place::with_store();
    place.ok(["set", "../../../tmp/x", "1"]);
    place.fails(3, &["\"..\" at the top means a folder"], ["export", "out"]);
}

/// The objects of a backend.
struct Objects<'a>(&'a dyn Backend);

impl Source for Objects<'_> {
    type Error = Error;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, Error> {
        self.0.read(at)?.ok_or(Error::Missing { kind, oid: at.oid })
    }
}

#[test]
fn steps_that_no_path_has_are_refused() {
    for step in [&b"a/b"[..], b"../x", b"", b"/etc/x"] {
        let place = Place::with_store();
        place.ok(["set", "fine", "1"]);
        {
            let repo = place.repo();
            let backend: &Arc<dyn Backend> = repo.backend();
            let mut batch = Batch::new();
            let change = Change { step, mode: Mode::USUAL, to: Some((EntryKind::Value, ChangeTarget::Inline(b"x"))) };
            let root = Native::new().update(&Objects(&**backend), &mut batch, None, &[change]).unwrap().unwrap();
            let base = backend.append(batch, &[], Durability::None).unwrap();
            let mut tree = repo.tree_at(ObjRef::new(root.oid, root.at.resolve(base)).into());
            let head = repo.commit_tree(&mut tree, &[], &Info::unsigned("harm")).unwrap();
            let to = Some(RefTarget::Object(head.into()));
            let wanted = RefMove { name: "refs/heads/harm".to_owned(), expected: Expected::Any, to };
            repo.move_refs(&[wanted], Durability::Synced).unwrap();
        }
        place.fails(3, &["cannot be a file's", "nothing was written"], ["export", "out", "--at", "harm"]);
        assert!(!place.path("out").exists());
        for verb in ["tree", "list", "diff"] {
            let run = place.run([verb, "-b", "harm"]);
            assert!(!run.err.contains("panicked"), "{run:?}");
        }
    }
}

#[test]
fn links_on_the_way_are_not_followed() {
    let place = Place::with_store();
    place.ok(["set", "d/e/file", "harm"]);
    place.ok(["set", "top", "harm"]);
    place.file("outside/e/file", "safe");
    place.file("target", "safe");
    fs::create_dir(place.path("out")).unwrap();
    symlink(place.path("outside"), place.path("out/d")).unwrap();
    place.fails(3, &["out/d is a link", "remove it"], ["export", "out", "--force"]);
    assert_eq!(fs::read(place.path("outside/e/file")).unwrap(), b"safe");
    fs::remove_file(place.path("out/d")).unwrap();
    let _ = fs::remove_file(place.path("out/top"));
    symlink(place.path("target"), place.path("out/top")).unwrap();
    place.ok(["export", "out", "--force"]);
    assert_eq!(fs::read(place.path("target")).unwrap(), b"safe", "a link in a file's place goes, its target stays");
    assert_eq!(fs::read(place.path("out/top")).unwrap(), b"harm");
    fs::remove_file(place.path("out/d/e/file")).unwrap();
    fs::remove_dir(place.path("out/d/e")).unwrap();
    symlink("../../outside", place.path("out/d/e")).unwrap();
    place.fails(3, &["out/d/e is a link"], ["export", "out", "--force"]);
    assert_eq!(fs::read(place.path("outside/e/file")).unwrap(), b"safe");
}

#[test]
fn the_store_is_not_exported_into() {
    let place = Place::with_store();
    place.ok(["set", ".bristlecone/segments/00000001.seg", "harm"]);
    place.fails(2, &["is the store itself"], ["export", ".", "--force"]);
    place.fails(2, &["the folder of a store"], ["export", ".bristlecone", "--force"]);
    assert_eq!(place.ok(["get", ".bristlecone/segments/00000001.seg"]), "harm");
}

#[test]
fn foreign_ids_are_left_out_by_name() {
    let place = Place::with_store();
    {
        let repo = place.repo();
        let main = repo.branch("main").unwrap();
        let mut tree = main.tree().unwrap();
        tree.set_foreign("sub/module", "00112233445566778899aabbccddeeff00112233".parse().unwrap()).unwrap();
        tree.set("file", b"1").unwrap();
        main.commit(&mut tree, &Info::unsigned("with a submodule")).unwrap();
    }
    let exported = place.json(["export", "out"]);
    assert_eq!(exported["left_out"], serde_json::json!([{"path": "sub/module", "what": "id of another store"}]));
    place.fails(2, &["a submodule"], ["get", "sub/module"]);
}
