//! Version 1 of the native format is frozen: what this code writes is what is recorded in `golden/native-1.txt`,
//! object by object, and what is recorded there is read.
//!
//! The file has a line for each case and one for each of its objects, in the order in which they are written:
//!
//! ```text
//! case NAME: OPTIONS
//! KIND ID BODY
//! ```
//!
//! A body is hexadecimal, or `LENGTH:DIGEST` (plain BLAKE3) if it is long. Where a case has many objects, a line
//! `COUNT more DIGEST` stands for those in the middle. Cases may be added, in a file of their own; no line may change.

use std::{fmt::Write, path::Path};

use bristlecone_core::{
    Change, ChangeTarget, Commit, EntryKind, Format, FormatError, Kind, Location, Mode, NoSource, ObjRef, Object, Oid,
    Signature, Sink, Source, Tag, Zone, native::Native, to_hex,
};

/// Longer bodies are recorded by their digest.
const SHOWN_BYTES_MAX: usize = 700;
/// Of a longer list of objects this many are recorded at its beginning, and as many at its end.
const SHOWN_OBJECTS: usize = 5;

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
        let found = self.0.iter().find(|(_, oid, _)| *oid == at.oid);
        let (kind, _, body) = found.ok_or(FormatError::Inconsistent { kind, reason: "it is missing" })?;
        Ok(Object::from_body(*kind, body[..].into()))
    }
}

fn bound<'c>(step: &'c [u8], kind: EntryKind, target: ChangeTarget<'c>) -> Change<'c> {
    Change { step, mode: Mode::USUAL, to: Some((kind, target)) }
}

fn inline<'c>(step: &'c [u8], value: &'c [u8]) -> Change<'c> {
    bound(step, EntryKind::Value, ChangeTarget::Inline(value))
}

fn spelled<'c>(change: Change<'c>, digits: &[u8]) -> Change<'c> {
    let (kind, _) = change.to.unwrap();
    Change { mode: Mode::spelled(kind, digits).unwrap(), ..change }
}

const fn object(at: ObjRef, bytes: u64) -> ChangeTarget<'static> {
    ChangeTarget::Object { at, bytes }
}

const fn id(byte: u8) -> ObjRef {
    ObjRef::new(Oid::from_array([byte; 32]), Location::NONE)
}

/// Bytes that do not repeat: SplitMix64 from seed 0.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0u64;
    let words = (0..bytes.div_ceil(8)).flat_map(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)).to_le_bytes()
    });
    words.take(bytes).collect()
}

fn put_dir(native: &Native, objects: &mut Objects, changes: &[Change<'_>]) -> ObjRef {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.step);
    native.update(&NoSource, objects, None, &changes).unwrap().unwrap()
}

/// A directory of `count` numbers.
fn put_numbers(native: &Native, objects: &mut Objects, count: usize, value: &[u8]) -> ObjRef {
    let steps: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let changes: Vec<Change<'_>> = steps.iter().map(|step| inline(step.as_bytes(), value)).collect();
    put_dir(native, objects, &changes)
}

fn contents(native: &Native, objects: &mut Objects) {
    for value in [&b""[..], b"x", &noise(49), &noise(256 << 10)] {
        native.put_contents(objects, value).unwrap();
    }
}

/// A value in pieces, and one whose list of pieces is in pieces.
fn pieces(native: &Native, objects: &mut Objects) {
    native.put_contents(objects, &noise((256 << 10) + 1)).unwrap();
    native.put_contents(objects, &noise(10 << 20)).unwrap();
}

/// Entries of every kind and sort, usual and not.
fn entries(native: &Native, objects: &mut Objects) {
    use EntryKind::{Dir, Executable, Foreign, Link, Value};
    let empty = native.empty_dir(objects).unwrap();
    let (sha1, sha256) = (Oid::new(&[0x51; 20]).unwrap(), Oid::from_array([0x52; 32]));
    let long = [b'l'; 4096];
    let all = [
        inline(b"", b"no step"),
        inline(b"\0\xff/", b""),
        inline(&long[..127], b"one byte of length"),
        inline(&long[..128], b"two"),
        bound(b"executable", Executable, ChangeTarget::Inline(b"#!")),
        bound(b"executable object", Executable, object(id(1), 49)),
        bound(b"link", Link, ChangeTarget::Inline(b"value")),
        bound(b"link object", Link, object(id(2), 300)),
        bound(b"large", Value, object(id(3), (256 << 10) + 1)),
        bound(b"dir", Dir, object(id(4), 0)),
        bound(b"dir empty", Dir, object(empty, 0)),
        bound(b"module", Foreign, ChangeTarget::Foreign(sha1)),
        bound(b"module 256", Foreign, ChangeTarget::Foreign(sha256)),
    ];
    put_dir(native, objects, &all);
    let digits: [&[u8]; 4] = [b"100664", b"0", b"00000040000", b"0100644"];
    let odd: Vec<Change<'_>> =
        all.iter().zip(digits.iter().cycle()).map(|(one, digits)| spelled(*one, digits)).collect();
    put_dir(native, objects, &odd);
    // One entry, as the directories of a chain have it; and steps that are pieces by themselves.
    for one in odd.iter().chain(&all) {
        put_dir(native, objects, std::slice::from_ref(one));
    }
    put_dir(native, objects, &[inline(&long, b"1"), inline(&long[1..], b"2"), inline(b"a", b"3")]);
}

/// Directories of all sizes around the groups of the hash tree, and in pieces of one, two and three levels.
fn directories(native: &Native, objects: &mut Objects) {
    for count in [1, 2, 3, 4, 5, 16, 17, 33, 64, 65] {
        put_numbers(native, objects, count, b"value");
    }
}

fn wide(native: &Native, objects: &mut Objects) {
    put_numbers(native, objects, 1000, b"value");
    put_numbers(native, objects, 30_000, b"value");
}

/// More than 65,535 bytes of items, and more than 65,535 items.
fn unsplit(native: &Native, objects: &mut Objects) {
    put_numbers(native, objects, 3000, &[b'v'; 30]);
    put_numbers(native, objects, 70_000, b"");
}

fn commits(native: &Native, objects: &mut Objects) {
    let who =
        Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::from_minutes(60) };
    let first = Commit::new(id(1).into(), vec![], who.clone(), "first\n");
    native.put_commit(objects, &first, 1).unwrap();
    let odd = Signature { ident: b"\xc0 <".to_vec(), seconds: -1, zone: Zone::from_bytes(b"-51800") };
    let headers = vec![
        (b"encoding".to_vec(), b"ISO-8859-1".to_vec()),
        (b"gpgsig".to_vec(), b"-----BEGIN\n\n-----END".to_vec()),
        (b"git-raw".to_vec(), b"tree 0\n".to_vec()),
    ];
    let merge = Commit {
        parents: vec![id(2).into(), id(3).into(), id(2).into()],
        committer: odd,
        headers,
        message: vec![],
        ..first
    };
    native.put_commit(objects, &merge, 9).unwrap();
}

fn tags(native: &Native, objects: &mut Objects) {
    let who = Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::default() };
    for kind in [Kind::Contents, Kind::Node, Kind::Commit, Kind::Pieces, Kind::Tag] {
        let tagger = (kind != Kind::Node).then(|| who.clone());
        let headers = if kind == Kind::Tag { vec![(b"git-raw".to_vec(), b"object 0\n".to_vec())] } else { vec![] };
        let (name, message) = (kind.name().as_bytes().to_vec(), b"why\n".to_vec());
        native.put_tag(objects, &Tag { target: id(5), kind, name, tagger, headers, message }).unwrap();
    }
}

/// What edits of a directory in pieces write.
fn edits(native: &Native, objects: &mut Objects) {
    let base = put_numbers(native, objects, 300, b"value");
    let odd = spelled(inline(b"150", b"new"), b"100664");
    let changes = [inline(b"1005", b"new"), odd, Change { step: b"30", mode: Mode::USUAL, to: None }];
    let read = Objects(objects.0.clone());
    native.update(&read, objects, Some(&base), &changes).unwrap();
    native.update(&read, objects, Some(&base), &[inline(b"7", b"values")]).unwrap();
}

type Case = (&'static str, Native, fn(&Native, &mut Objects));

const CASES: [Case; 16] = [
    ("contents", Native::new(), contents),
    ("pieces", Native::new(), pieces),
    ("entries", Native::new(), entries),
    ("directories", Native::new(), directories),
    ("wide", Native::new(), wide),
    ("commits", Native::new(), commits),
    ("tags", Native::new(), tags),
    ("edits", Native::new(), edits),
    ("entries in groups of four", Native::new().group(4), entries),
    ("entries hashed flat", Native::new().group(0), entries),
    ("directories one by one", Native::new().group(1), directories),
    ("directories in groups of three", Native::new().group(3), directories),
    ("directories hashed flat", Native::new().group(0), directories),
    ("not split", Native::new().split(false), unsplit),
    ("edits that are not split", Native::new().split(false), edits),
    ("edits in groups of four", Native::new().group(4), edits),
];

fn line(out: &mut String, (kind, oid, body): &(Kind, Oid, Vec<u8>)) {
    if body.len() <= SHOWN_BYTES_MAX {
        writeln!(out, "{kind} {oid} {}", if body.is_empty() { "-".to_owned() } else { to_hex(body) }).unwrap();
    } else {
        writeln!(out, "{kind} {oid} {}:{}", body.len(), blake3::hash(body).to_hex()).unwrap();
    }
}

fn render() -> String {
    let mut out = String::new();
    for (name, native, make) in CASES {
        let mut objects = Objects::default();
        make(&native, &mut objects);
        writeln!(out, "case {name}: {}", native.options()).unwrap();
        let count = objects.0.len();
        // Cases of other options show that they differ; one case shows each object.
        let shown = if native == Native::new() && count < 60 { count } else { SHOWN_OBJECTS };
        let middle = shown.min(count)..count.saturating_sub(shown).max(shown.min(count));
        objects.0[..middle.start].iter().for_each(|object| line(&mut out, object));
        if !middle.is_empty() {
            let mut all = String::new();
            objects.0[middle.clone()].iter().for_each(|object| line(&mut all, object));
            writeln!(out, "{} more {}", middle.len(), blake3::hash(all.as_bytes()).to_hex()).unwrap();
        }
        objects.0[middle.end..].iter().for_each(|object| line(&mut out, object));
    }
    out
}

const GOLDEN: &str = include_str!("golden/native-1.txt");

#[test]
fn version_1_writes_what_it_wrote() {
    let found = render();
    if found != GOLDEN {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("native-1.txt");
        std::fs::write(&file, &found).unwrap();
        let differs = found.lines().zip(GOLDEN.lines()).position(|(found, golden)| found != golden);
        panic!(
            "version 1 of the native format is frozen, and line {} of tests/golden/native-1.txt is another now (see {}); \
             docs/formats/native.md section 9 says what a change of bytes takes",
            differs.map_or(found.lines().count().min(GOLDEN.lines().count()), |line| line) + 1,
            file.display()
        );
    }
}

#[test]
fn version_1_reads_what_it_wrote() {
    let mut native = Native::new();
    let mut read = 0;
    for line in GOLDEN.lines() {
        if let Some(case) = line.strip_prefix("case ") {
            native = Native::from_options(case.split_once(": ").unwrap().1).unwrap();
            continue;
        }
        let [kind, oid, body] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        if body.contains(':') || oid == "more" {
            continue;
        }
        let kinds = [Kind::Contents, Kind::Node, Kind::Commit, Kind::Pieces, Kind::Tag];
        let kind = kinds.into_iter().find(|one| one.name() == kind).unwrap();
        let hex = body.trim_matches('-');
        let body: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        let oid: Oid = oid.parse().unwrap();
        let object = Object::from_body(kind, body[..].into());
        assert_eq!(native.object_id(&NoSource, &object), Ok(oid), "{line}");
        native.children(kind, &body, &mut |_, _| ()).unwrap();
        let mut again = Objects::default();
        match kind {
            Kind::Commit => native.put_commit(&mut again, &native.decode_commit(&object).unwrap(), 1).unwrap().oid,
            Kind::Tag => native.put_tag(&mut again, &native.decode_tag(&object).unwrap()).unwrap().oid,
            Kind::Contents => native.put_contents(&mut again, &body).unwrap().oid,
            _ => oid,
        };
        assert!(again.0.iter().all(|found| *found == (kind, oid, body.clone())), "{line}");
        read += 1;
    }
    assert!(read > 100, "{read} objects were read");
}
