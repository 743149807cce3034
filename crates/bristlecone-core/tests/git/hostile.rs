//! Hostile bytes: sound objects that were changed, cut and stretched, and noise. Nothing panics, loops or allocates by
//! a length that it read; and what is accepted can be read and changed, and has no other encoding.

use bristlecone_core::{
    Change, ChangeTarget, Direction, EntryKind, Format, FormatError, Kind, Location, NoSource, ObjRef, Object, Oid,
    Record, Sink, Source, Target,
    git::{self, Git},
    write_record,
};

use super::objects::{Held, Map, Objects, Put, Random, gone};

impl Random {
    /// Changes, cuts or stretches sound bytes, or makes noise.
    fn mutate(&mut self, sound: &[u8]) -> Vec<u8> {
        let mut bytes = sound.to_vec();
        match self.below(8) {
            0 => return (0..self.below(200)).map(|_| self.next() as u8).collect(),
            1 => bytes.truncate(self.below(bytes.len() + 1)),
            2 => bytes.extend((0..=self.below(20)).map(|n| n as u8)),
            _ => {}
        }
        for _ in 0..self.below(4) {
            // The first bytes are the table's head, which is worth more of them.
            let at = if self.below(3) == 0 { self.below(8) } else { self.below(bytes.len()) };
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff, b'\n', b' ', *byte ^ 1, self.next() as u8][self.below(9)];
            }
        }
        bytes
    }
}

/// One record, whatever is asked for.
struct Only {
    record: Vec<u8>,
    lends: bool,
}

impl Only {
    fn new(kind: Kind, body: &[u8], children: usize) -> Self {
        let mut record = Vec::new();
        write_record(&mut record, kind, &Oid::from_array([1; 32]), body, &vec![Location(5); children], &[]);
        record.truncate(Record::parse(&record).unwrap().bytes() as usize);
        Self { record, lends: false }
    }
}

impl Source for Only {
    type Error = FormatError;

    fn peek(&self, _: &[u8], _: Location) -> Option<&[u8]> {
        self.lends.then_some(&self.record)
    }

    fn read<'a>(&'a self, _: Kind, _: &ObjRef) -> Result<Object<'a>, FormatError> {
        Ok(Object::from_record(&Record::parse(&self.record).unwrap(), self.record[..].into(), Location(0)))
    }
}

struct Nothing;

impl Sink for Nothing {
    fn put(&mut self, _: Kind, _: Oid, _: &[u8], _: &[Location], _: &[u64]) -> Location {
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

const AT: Oid = Oid::from_array([3; 32]);

/// Asks for everything; answers do not matter.
fn ask(git: &Git, only: &mut Only, oid: Oid, random: &mut Random) {
    let names = [&b"n1"[..], b"n10", b"dir", b"", b"a"];
    let at = ObjRef::from(AT);
    let held = [EntryKind::Value, EntryKind::Dir].map(|kind| Held::new(kind, oid.into()));
    for lends in [false, true] {
        only.lends = lends;
        for name in names {
            let _ = git.find(only, &at, name);
        }
        // The record leads to itself.
        let _ = git.descend(only, &at, b"dir/dir/dir/n1");
    }
    let _ = git.count(only, &at);
    for (from, direction) in [(None, Direction::Forward), (Some(&b"n2"[..]), Direction::Reverse)] {
        let _ = git.entries(only, &at, from, None, direction).map(|walk| walk.filter(Result::is_ok).count());
    }
    let _ = git.diff(only, Some(&at), None, None, Some(b"n3")).map(|walk| walk.filter(Result::is_ok).count());
    let mut changes: Vec<Change<'_>> = names
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| if random.below(2) == 0 { gone(name) } else { held[random.below(2)].change(name) })
        .collect();
    changes.sort_by_key(|change| change.step);
    let _ = git.update(only, &mut Nothing, Some(&at), &changes);
    let _ = git.update(only, &mut Nothing, Some(&at), &changes[..1]);
}

/// A tree whose bytes are accepted can be read and changed, and has no other encoding.
fn accepted(git: &Git, body: &[u8]) {
    let only = Only::new(Kind::Node, body, 0);
    let at = ObjRef::from(AT);
    let walk = git.entries(&only, &at, None, None, Direction::Forward).unwrap();
    let entries: Vec<_> = walk.map(Result::unwrap).collect();
    assert!(entries.is_sorted_by(|one, other| one.step[..] < other.step[..]));
    assert_eq!(git.count(&only, &at), Ok(entries.len() as u64));
    let mut made = Vec::new();
    git::tree_body(git.algorithm(), git::raw(Kind::Node, body).unwrap(), &mut made).unwrap();
    assert_eq!(made, body);
    let mut changes = Vec::new();
    for entry in &entries {
        assert_eq!(git.find(&only, &at, &entry.step), Ok(Some((entry.kind, entry.target.clone()))));
        let target = match &entry.target {
            Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
            Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
            Target::Inline(_) => panic!("nothing is inline"),
        };
        changes.push(Change { step: &entry.step, mode: entry.mode, to: Some((entry.kind, target)) });
    }
    // What Git would refuse today cannot be set again.
    if let Ok(again) = git.update(&NoSource, &mut Nothing, None, &changes) {
        let oid = git.object_id(&NoSource, &Object::from_body(Kind::Node, body.into())).unwrap();
        assert_eq!(again.map(|at| at.oid), (!entries.is_empty()).then_some(oid));
    }
    let none: Vec<Change<'_>> = entries.iter().map(|entry| gone(&entry.step)).collect();
    if !none.is_empty() {
        assert_eq!(git.update(&only, &mut Nothing, Some(&at), &none), Ok(None));
    }
}

#[test]
fn trees() {
    for (git, seed) in [(Git::sha1(), 20), (Git::sha256(), 21)] {
        let (mut random, mut objects) = (Random(seed), Objects::default());
        let oid = Oid::new(&vec![9; git.algorithm().oid_bytes()]).unwrap();
        let kinds = [EntryKind::Value, EntryKind::Dir, EntryKind::Foreign, EntryKind::Executable];
        for count in [0, 1, 3, 15, 16, 60, 300] {
            let mut map: Map =
                (0..count).map(|n| (format!("n{n}").into_bytes(), Held::new(kinds[n % 4], oid.into()))).collect();
            if count > 3 {
                map.insert(b"dir".to_vec(), Held::new(EntryKind::Dir, oid.into()));
                map.insert(b"dir-".to_vec(), Held::new(EntryKind::Value, oid.into()));
            }
            let sound = match objects.build(&git, &map) {
                Some(root) => objects.body(&root.oid),
                None => vec![0; 4],
            };
            accepted(&git, &sound);
            for _ in 0..if count > 60 { 2_000 } else { 8_000 } {
                let hostile = random.mutate(&sound);
                let children = [0, 1, count, count + 2][random.below(4)];
                let mut only = Only::new(Kind::Node, &hostile, children);
                let checked = git.children(Kind::Node, &hostile, &mut |_, _| ());
                let hashed = git.object_id(&NoSource, &Object::from_body(Kind::Node, hostile[..].into()));
                assert_eq!(checked.is_ok(), hashed.is_ok());
                if checked.is_ok() {
                    accepted(&git, &hostile);
                }
                ask(&git, &mut only, oid, &mut random);
                // The same as Git's bytes.
                let raw = git::raw(Kind::Node, &hostile).unwrap_or(&hostile);
                let walked = git::raw_entries(git.algorithm(), raw).filter(Result::is_ok).count();
                let mut body = Vec::new();
                if git::tree_body(git.algorithm(), raw, &mut body).is_ok() {
                    assert_eq!(git.children(Kind::Node, &body, &mut |_, _| ()), Ok(()));
                    assert_eq!(body[..4], (walked as u32).to_le_bytes());
                    accepted(&git, &body);
                }
            }
        }
    }
}

#[test]
fn counts_that_lie() {
    let git = Git::sha1();
    for count in [1, 15, 16, 1000, 65_535, u32::MAX >> 1, u32::MAX, 1 << 31] {
        for rest in [0, 1, 100, 10_000] {
            let body = [&u32::to_le_bytes(count)[..], &vec![0; rest]].concat();
            assert!(git.children(Kind::Node, &body, &mut |_, _| ()).is_err());
            ask(&git, &mut Only::new(Kind::Node, &body, 3), Oid::new(&[9; 20]).unwrap(), &mut Random(1));
        }
    }
}

#[test]
fn commits_and_tags() {
    let git = Git::sha1();
    let (mut random, id) = (Random(22), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    let commit = format!(
        "tree {id}\nparent {id}\nauthor A <a@b> 12 +0100\ncommitter C <> 7 -0000\nencoding x\ngpgsig a\n \n b\n\nwhy\n"
    );
    let tag = format!("object {id}\ntype commit\ntag v1\ntagger A <a@b> 12 +0100\nx y\n z\n\nwhy\n");
    for _ in 0..100_000 {
        let hostile = random.mutate(commit.as_bytes());
        let object = Object::from_body(Kind::Commit, hostile[..].into());
        let decoded = git.decode_commit(&object);
        assert_eq!(decoded.is_ok(), git.children(Kind::Commit, &hostile, &mut |_, _| ()).is_ok());
        let Ok(commit) = decoded else { continue };
        assert_eq!(git.commit_tree(&object), Ok(commit.tree.into()));
        let mut again = Vec::new();
        git::encode_commit(&commit, &mut again);
        assert_eq!(again == hostile, git::is_canonical_commit(git.algorithm(), &hostile));
        // What is taken comes back.
        let mut put = Put::default();
        if let Ok(at) = git.put_commit(&mut put, &commit, 1) {
            assert_eq!(at.oid, git.algorithm().object_id(Kind::Commit, &again));
            assert_eq!(git::decode_commit(git.algorithm(), &again), Ok(commit));
        }
    }
    for _ in 0..100_000 {
        let hostile = random.mutate(tag.as_bytes());
        let decoded = git.decode_tag(&Object::from_body(Kind::Tag, hostile[..].into()));
        assert_eq!(decoded.is_ok(), git.children(Kind::Tag, &hostile, &mut |_, _| ()).is_ok());
        let Ok(tag) = decoded else { continue };
        let mut again = Vec::new();
        git::encode_tag(&tag, &mut again);
        assert_eq!(again == hostile, git::is_canonical_tag(git.algorithm(), &hostile));
        if git.put_tag(&mut Put::default(), &tag).is_ok() {
            assert_eq!(git::decode_tag(git.algorithm(), &again), Ok(tag));
        }
    }
}
