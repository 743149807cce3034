//! The worked examples of the formats' pages are what the encoders write.

use std::{collections::HashMap, path::Path};

use bristlecone_core::{
    Change, ChangeTarget, Commit, EntryKind, Format, FormatError, Kind, Location, Mode, NoSource, ObjRef, Object, Oid,
    Signature, Sink, Source, Tag, Zone,
    git::Git,
    native::Native,
    tezos::{Tezos, commit_text, parse_commit_text},
    to_hex,
};

#[derive(Default)]
struct Objects(Vec<(Kind, Oid, Vec<u8>)>);

impl Sink for Objects {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.0.push((kind, oid, body.to_vec()));
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

impl Source for Objects {
    type Error = FormatError;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        let found = self.0.iter().find(|(of, oid, _)| *of == kind && *oid == at.oid);
        let (_, _, body) = found.ok_or(FormatError::Inconsistent { kind, reason: "it is missing" })?;
        Ok(Object::from_body(kind, body[..].into()))
    }
}

type Example = (&'static str, Kind, Oid, Vec<u8>);

fn inline<'c>(step: &'c [u8], value: &'c [u8]) -> Change<'c> {
    Change { step, mode: Mode::USUAL, to: Some((EntryKind::Value, ChangeTarget::Inline(value))) }
}

const fn object<'c>(step: &'c [u8], kind: EntryKind, at: ObjRef, bytes: u64) -> Change<'c> {
    Change { step, mode: Mode::USUAL, to: Some((kind, ChangeTarget::Object { at, bytes })) }
}

/// What the page of the native format shows, made by the encoders.
fn native_examples() -> Vec<Example> {
    let native = Native::new();
    let mut objects = Objects::default();
    let contents = native.put_contents(&mut objects, &[b'x'; 50]).unwrap();
    let empty = native.empty_dir(&mut objects).unwrap();
    let dir = native.update(&NoSource, &mut objects, None, &[inline(b"apple", b"red")]).unwrap().unwrap();
    let changes = [
        object(b"fruit", EntryKind::Dir, dir, 0),
        Change { step: b"link", mode: Mode::USUAL, to: Some((EntryKind::Link, ChangeTarget::Inline(b"fruit/apple"))) },
        object(b"run", EntryKind::Executable, contents, 50),
    ];
    let tree = native.update(&NoSource, &mut objects, None, &changes).unwrap().unwrap();
    let who =
        Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::from_minutes(60) };
    let commit = native.put_commit(&mut objects, &Commit::new(tree.into(), vec![], who.clone(), "first"), 1).unwrap();
    let tag = Tag {
        target: commit,
        kind: Kind::Commit,
        name: b"v1".to_vec(),
        tagger: Some(who),
        headers: vec![],
        message: b"one".to_vec(),
    };
    native.put_tag(&mut objects, &tag).unwrap();
    let spelled =
        |change: Change<'static>, kind, digits: &[u8]| Change { mode: Mode::spelled(kind, digits).unwrap(), ..change };
    let changes = [
        object(b"empty", EntryKind::Dir, empty, 0),
        spelled(object(b"fruit", EntryKind::Dir, dir, 0), EntryKind::Dir, b"040000"),
        spelled(inline(b"old", b"red"), EntryKind::Value, b"100664"),
    ];
    native.update(&NoSource, &mut objects, None, &changes).unwrap().unwrap();
    let names = ["contents", "empty", "fruit", "root", "commit", "tag", "git"];
    assert_eq!(objects.0.len(), names.len());
    names.into_iter().zip(objects.0).map(|(name, (kind, oid, body))| (name, kind, oid, body)).collect()
}

/// Hashing that puts few entries in pieces, not flat and flat.
const TEZOS_IN_PIECES: [Tezos; 2] = [Tezos::new().hashing(2, 3), Tezos::new().hashing(4, 8)];

/// The same of the page of Tezos contexts: the examples, and all objects.
fn tezos_examples() -> (Vec<Example>, Objects) {
    let (tezos, [small, flat]) = (Tezos::new(), TEZOS_IN_PIECES);
    let mut objects = Objects::default();
    let zeros = &b"0000000000"[..];
    let mut examples = Vec::new();
    let mut make = |name, make: &mut dyn FnMut(&mut Objects) -> ObjRef| {
        let at = make(&mut objects);
        let (kind, oid, body) = objects.0.iter().find(|(_, oid, _)| *oid == at.oid).unwrap().clone();
        examples.push((name, kind, oid, body));
        at
    };
    let directory = |tezos: Tezos, changes: &[Change<'_>], objects: &mut Objects| {
        tezos.update(&NoSource, objects, None, changes).unwrap().unwrap()
    };
    let commit = |tree, parents, author, objects: &mut Objects| {
        tezos.put_commit(objects, &Commit::new(tree, parents, Signature::new(author, 0), ""), 1).unwrap()
    };
    make("zeros", &mut |objects| tezos.put_contents(objects, zeros).unwrap());
    let dir = make("dir", &mut |objects| directory(tezos, &[inline(b"00", zeros), inline(b"01", zeros)], objects));
    let long = tezos.put_contents(&mut Objects::default(), &[b'x'; 50]).unwrap();
    let changes =
        [object(b"dir", EntryKind::Dir, dir, 0), object(b"long", EntryKind::Value, long, 50), inline(b"zeros", zeros)];
    make("root", &mut |objects| directory(tezos, &changes, objects));
    let single = [inline(b"singleton-step", b"singleton-val")];
    let single = make("single", &mut |objects| directory(tezos, &single, objects));
    let parent = make("parent", &mut |objects| commit(single.into(), vec![], "", objects));
    make("commit", &mut |objects| commit(dir.into(), vec![parent.into()], "Tezos", objects));
    let eight = [&b"00"[..], b"01", b"02", b"03", b"04", b"05", b"06", b"07"].map(|name| inline(name, zeros));
    let first_leaf = |tezos: Tezos, at: ObjRef, objects: &Objects| {
        let mut at = at;
        loop {
            let piece = objects.read(Kind::Node, &at).unwrap();
            if piece.body()[0] == 1 {
                return at;
            }
            let mut first = None;
            tezos.children(Kind::Node, piece.body(), &mut |_, oid| _ = first.get_or_insert(oid)).unwrap();
            at = first.unwrap().into();
        }
    };
    let wide = make("wide", &mut |objects| directory(small, &eight[..6], objects));
    make("piece", &mut |objects| first_leaf(small, wide, objects));
    let root = make("flat", &mut |objects| directory(flat, &eight, objects));
    make("part", &mut |objects| first_leaf(flat, root, objects));
    (examples, objects)
}

/// The same of the page of Git: all but the last with SHA-1.
fn git_examples() -> Vec<Example> {
    let who =
        Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::from_minutes(60) };
    let mut objects = Objects::default();
    let git = Git::sha1();
    let apple = git.put_contents(&mut objects, b"red").unwrap();
    git.empty_dir(&mut objects).unwrap();
    let value = |step| object(step, EntryKind::Value, apple, 3);
    let mut directory = |changes: &[Change<'_>]| git.update(&NoSource, &mut objects, None, changes).unwrap().unwrap();
    let fruit = directory(&[value(b"apple")]);
    let module = ChangeTarget::Foreign(Oid::new(&[0x55; 20]).unwrap());
    directory(&[
        object(b"a", EntryKind::Dir, fruit, 0),
        object(b"a b", EntryKind::Dir, fruit, 0),
        object(b"a-b", EntryKind::Executable, apple, 3),
        value(b"a.b"),
        value(b"a0"),
        object(b"link", EntryKind::Link, apple, 3),
        Change { step: b"module", mode: Mode::USUAL, to: Some((EntryKind::Foreign, module)) },
    ]);
    let mut names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    names.sort();
    let twenty: Vec<Change<'_>> = names.iter().map(|name| value(name.as_bytes())).collect();
    directory(&twenty);
    let commit = git.put_commit(&mut objects, &Commit::new(fruit.into(), vec![], who.clone(), "first\n"), 1).unwrap();
    let (target, kind, name, tagger) = (commit, Kind::Commit, b"v1".to_vec(), Some(who));
    let tag = Tag { target, kind, name, tagger, headers: vec![], message: b"notes\n".to_vec() };
    git.put_tag(&mut objects, &tag).unwrap();
    let other = Git::sha256();
    let apple = other.put_contents(&mut Objects::default(), b"red").unwrap();
    other.update(&NoSource, &mut objects, None, &[object(b"apple", EntryKind::Value, apple, 3)]).unwrap();
    let names = ["apple", "empty", "fruit", "root", "twenty", "commit", "tag", "fruit256"];
    names.into_iter().zip(objects.0).map(|(name, (kind, oid, body))| (name, kind, oid, body)).collect()
}

/// Returns what a page shows, by name and part.
fn shown(page: &str) -> HashMap<(String, String), String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats").join(page);
    let page = std::fs::read_to_string(file).unwrap();
    // Lines such as `fruit.body  00010500...`.
    let lines = page.lines().filter_map(|line| {
        let (name, hex) = line.split_once(char::is_whitespace)?;
        let (name, part) = name.split_once('.')?;
        Some(((name.to_owned(), part.to_owned()), hex.trim().to_owned()))
    });
    lines.collect()
}

fn check<F: Format>(format: &F, objects: &Objects, page: &str, examples: &[Example]) {
    let shown = shown(page);
    let part = |name: &str, part: &str| shown.get(&(name.to_owned(), part.to_owned())).cloned();
    for (name, _, oid, body) in examples {
        println!("{name}.body  {}\n{name}.id    {oid}", to_hex(body));
    }
    for (name, kind, oid, body) in examples {
        assert_eq!(part(name, "body"), Some(to_hex(body)), "{name}");
        assert_eq!(part(name, "id"), Some(oid.to_string()), "{name}");
        assert_eq!(format.object_id(objects, &Object::from_body(*kind, body[..].into())), Ok(*oid));
        format.children(*kind, body, &mut |_, _| ()).unwrap();
    }
}

#[test]
fn the_examples_of_the_native_format_are_what_is_written() {
    check(&Native::new(), &Objects::default(), "native.md", &native_examples());
}

#[test]
fn the_examples_of_the_format_of_git_are_what_is_written() {
    let examples = git_examples();
    let (sha1, sha256) = examples.split_at(examples.len() - 1);
    check(&Git::sha1(), &Objects::default(), "git.md", sha1);
    check(&Git::sha256(), &Objects::default(), "git.md", sha256);
}

#[test]
fn the_examples_of_the_tezos_format_are_what_is_written() {
    let (examples, objects) = tezos_examples();
    let (standard, in_pieces) = examples.split_at(examples.len() - 4);
    check(&Tezos::new(), &objects, "tezos.md", standard);
    for (tezos, examples) in TEZOS_IN_PIECES.iter().zip(in_pieces.chunks(2)) {
        check(tezos, &objects, "tezos.md", examples);
    }
    let shown = shown("tezos.md");
    let mut preimages = 0;
    for ((name, part), hex) in &shown {
        let Some((_, _, oid, _)) = examples.iter().find(|(example, ..)| example == name) else { continue };
        match &part[..] {
            "preimage" => {
                let bytes: Vec<u8> =
                    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
                let digest = blake2b_simd::Params::new().hash_length(32).hash(&bytes);
                assert_eq!(digest.as_bytes(), oid.as_bytes(), "{name}");
                preimages += 1;
            }
            "text" => assert_eq!((commit_text(oid), parse_commit_text(hex.as_bytes())), (hex.clone(), Some(*oid))),
            _ => {}
        }
    }
    assert_eq!(preimages, 6);
}
