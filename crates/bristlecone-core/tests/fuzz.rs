//! Every decoder of the crate on hostile bytes: sound ones that were changed, cut and stretched, and noise. None
//! panics, loops or allocates by a length that it read; and what decodes is what encoding it gives.

use bristlecone_core::{
    ByteReader, Change, ChangeTarget, Commit, Direction, EntryKind, Format, FormatError, Kind, Location, Mode,
    NoSource, ObjRef, Object, Oid, Path, Record, Signature, Sink, Source, Tag, Target, Zone, native::Native,
    record_bytes, write_record,
};

#[cfg(feature = "tezos")]
mod fuzz {
    mod tezos;
}

const OTHER: Oid = Oid::from_array([9; 32]);

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

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
            let at = self.below(bytes.len());
            if let Some(byte) = bytes.get_mut(at) {
                *byte = [0, 1, 0x7f, 0x80, 0xff, *byte ^ 1, self.next() as u8][self.below(7)];
            }
        }
        bytes
    }
}

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

/// One object, whatever is asked for.
struct Only<'b>(Kind, &'b [u8]);

impl Source for Only<'_> {
    type Error = FormatError;

    fn read<'a>(&'a self, _: Kind, _: &ObjRef) -> Result<Object<'a>, FormatError> {
        Ok(Object::from_body(self.0, self.1.into()))
    }
}

fn samples() -> Vec<(Kind, Vec<u8>)> {
    let native = Native::new();
    let mut objects = Objects::default();
    let mut random = Random(1);
    let large: Vec<u8> = (0..700_000).map(|_| random.next() as u8).collect();
    let large = native.put_contents(&mut objects, &large).unwrap();
    let empty = native.empty_dir(&mut objects).unwrap();
    for count in [1, 3, 60] {
        let steps: Vec<String> = (100..100 + count).map(|n| n.to_string()).collect();
        let changes: Vec<Change<'_>> = steps
            .iter()
            .enumerate()
            .map(|(n, step)| {
                let to = match n % 5 {
                    0 => (EntryKind::Value, ChangeTarget::Inline(b"value")),
                    1 => (EntryKind::Executable, ChangeTarget::Object { at: large, bytes: 700_000 }),
                    2 => (EntryKind::Dir, ChangeTarget::Object { at: large, bytes: 0 }),
                    3 => (EntryKind::Dir, ChangeTarget::Object { at: empty, bytes: 0 }),
                    _ => (EntryKind::Foreign, ChangeTarget::Foreign(Oid::new(&[7; 20]).unwrap())),
                };
                let digits: &[u8] = [b"100664", b"040000", to.0.git_mode().as_bytes()][n % 3];
                Change { step: step.as_bytes(), mode: Mode::spelled(to.0, digits).unwrap(), to: Some(to) }
            })
            .collect();
        native.update(&Only(Kind::Node, &[]), &mut objects, None, &changes).unwrap();
    }
    let who = Signature { ident: b"Ada <a@b>".to_vec(), seconds: -5, zone: Zone::from_minutes(-90) };
    let mut commit = Commit::new(large.into(), vec![large.into(), large.into()], who.clone(), "message");
    native.put_commit(&mut objects, &commit, 1).unwrap();
    commit.committer.seconds = 9;
    commit.headers = vec![(b"encoding".to_vec(), b"latin".to_vec())];
    native.put_commit(&mut objects, &commit, 1).unwrap();
    for (kind, tagger) in [(Kind::Commit, Some(who)), (Kind::Node, None)] {
        let (name, message) = (b"v1".to_vec(), b"message".to_vec());
        let tag = Tag { target: large, kind, name, tagger, headers: commit.headers.clone(), message };
        native.put_tag(&mut objects, &tag).unwrap();
    }
    objects.0.into_iter().filter(|(kind, ..)| *kind != Kind::Contents).map(|(kind, _, body)| (kind, body)).collect()
}

#[test]
fn objects() {
    let native = Native::new();
    let mut random = Random(2);
    let at = ObjRef::from(Oid::from_array([9; 32]));
    for (kind, sound) in samples() {
        native.children(kind, &sound, &mut |_, _| ()).unwrap();
        for _ in 0..30_000 {
            let hostile = random.mutate(&sound);
            let checked = native.children(kind, &hostile, &mut |_, _| ());
            let hashed = native.object_id(&NoSource, &Object::from_body(kind, hostile[..].into()));
            let only = Only(kind, &hostile);
            let _ = native.find(&only, &at, b"101");
            let _ = native.descend(&only, &at, b"102/x/y");
            let _ = native.count(&only, &at);
            let _ = native.diff(&only, None, Some(&at), None, None).map(|walk| walk.take(200).count());
            let _ = native.read_contents(&only, &at, 5..1000).map(|bytes| assert!(bytes.len() <= 995));
            if kind == Kind::Node && checked.is_ok() && hostile[0] == 0 {
                native_leaf(&hostile);
            }
            if kind == Kind::Tag {
                let decoded = native.decode_tag(&Object::from_body(kind, hostile[..].into()));
                assert_eq!(decoded.is_ok(), checked.is_ok());
                if let Ok(tag) = decoded {
                    let mut again = Objects::default();
                    let oid = native.put_tag(&mut again, &tag).unwrap().oid;
                    assert_eq!((Ok(oid), &again.0[0].2), (hashed, &hostile), "one tag has one encoding");
                }
                continue;
            }
            if kind == Kind::Commit {
                let decoded = native.decode_commit(&Object::from_body(kind, hostile[..].into()));
                assert_eq!(decoded.is_ok(), checked.is_ok());
                if let Ok(commit) = decoded {
                    let mut again = Objects::default();
                    let oid = native.put_commit(&mut again, &commit, 1).unwrap().oid;
                    assert_eq!((Ok(oid), &again.0[0].2), (hashed, &hostile), "one commit has one encoding");
                }
            }
        }
    }
}

/// What is sound by itself is what encoding its entries gives, modes and all.
fn native_leaf(body: &[u8]) {
    let native = Native::new().split(false);
    let (only, at) = (Only(Kind::Node, body), ObjRef::from(OTHER));
    let walk = native.entries(&only, &at, None, None, Direction::Forward).unwrap();
    let entries: Vec<_> = walk.map(Result::unwrap).collect();
    let changes: Vec<Change<'_>> = entries
        .iter()
        .map(|entry| {
            let target = match &entry.target {
                Target::Inline(value) => ChangeTarget::Inline(value),
                Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
                Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
            };
            let found = native.find(&only, &at, &entry.step).unwrap();
            assert_eq!(found, Some((entry.kind, entry.target.clone())));
            Change { step: &entry.step, mode: entry.mode, to: Some((entry.kind, target)) }
        })
        .collect();
    let mut again = Objects::default();
    match native.update(&NoSource, &mut again, None, &changes).unwrap() {
        Some(root) => {
            let oid = native.object_id(&NoSource, &Object::from_body(Kind::Node, body.into()));
            assert_eq!((Ok(root.oid), &again.0[0].2[..]), (oid, body), "one directory has one encoding");
        }
        None => assert!(entries.is_empty()),
    }
}

#[test]
fn records() {
    let mut random = Random(3);
    let mut sound = Vec::new();
    let oid = Oid::new(&[5; 20]).unwrap();
    write_record(&mut sound, Kind::Node, &oid, b"some body", &[Location(8), Location::NONE], &[7]);
    for _ in 0..300_000 {
        let hostile = random.mutate(&sound);
        if let Ok(record) = Record::parse(&hostile) {
            assert!(record.bytes() <= hostile.len() as u64);
            let object = Object::from_record(&record, hostile[..record.bytes() as usize].into(), Location(64));
            let _ = (object.child(0), object.child(1), object.child(9), object.metadata_word(0), object.body());
        }
        if let Ok((_, whole)) = record_bytes(&hostile) {
            assert_eq!(whole, &sound[..whole.len()], "a checksum passed over other bytes");
        }
    }
}

#[test]
fn text_and_integers() {
    let mut random = Random(4);
    for _ in 0..300_000 {
        let bytes = random.mutate(b"inline=48 split=on group=2/a%20b/%ff//\xc3\xa9");
        let mut reader = ByteReader::new(&bytes);
        while reader.varint().is_ok() {}
        let _ = ByteReader::new(&bytes).prefixed();
        if let Ok(path) = Path::from_bytes(&bytes[..]) {
            assert_eq!(path.to_string().parse::<Path>(), Ok(path));
        }
        let text = String::from_utf8_lossy(&bytes);
        let _ = (text.parse::<Path>(), text.parse::<Oid>());
        if let Ok(native) = Native::from_options(&text) {
            assert_eq!(Native::from_options(&native.options()), Ok(native));
        }
    }
}
