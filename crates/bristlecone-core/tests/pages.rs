//! The worked examples of `docs/formats/native.md` are what the encoders write.

use std::{collections::HashMap, path::Path};

use bristlecone_core::{
    Change, ChangeTarget, Commit, EntryKind, Format, FormatError, Kind, Location, NoSource, ObjRef, Object, Oid,
    Signature, Sink, Source, Zone, native::Native, to_hex,
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

struct Nothing;

impl Source for Nothing {
    type Error = FormatError;

    fn read<'a>(&'a self, kind: Kind, _: &ObjRef) -> Result<Object<'a>, FormatError> {
        Err(FormatError::Inconsistent { kind, reason: "there is nothing" })
    }
}

/// What the page shows, made by the encoders.
fn examples() -> Vec<(&'static str, Kind, Oid, Vec<u8>)> {
    let native = Native::new();
    let mut objects = Objects::default();
    let contents = native.put_contents(&mut objects, &[b'x'; 50]).unwrap();
    native.empty_dir(&mut objects).unwrap();
    let inline = |step, value| Change { step, to: Some((EntryKind::Value, ChangeTarget::Inline(value))) };
    let dir = native.update(&Nothing, &mut objects, None, &[inline(b"apple", b"red")]).unwrap().unwrap();
    let object = |at, bytes| ChangeTarget::Object { at, bytes };
    let changes = [
        Change { step: b"fruit", to: Some((EntryKind::Dir, object(dir, 0))) },
        Change { step: b"link", to: Some((EntryKind::Link, ChangeTarget::Inline(b"fruit/apple"))) },
        Change { step: b"run", to: Some((EntryKind::Executable, object(contents, 50))) },
    ];
    let tree = native.update(&Nothing, &mut objects, None, &changes).unwrap().unwrap();
    let who =
        Signature { ident: b"Ada <ada@example.org>".to_vec(), seconds: 1_700_000_000, zone: Zone::from_minutes(60) };
    native.put_commit(&mut objects, &Commit::new(tree, vec![], who, "first"), 1).unwrap();
    let names = ["contents", "empty", "fruit", "root", "commit"];
    names.into_iter().zip(objects.0).map(|(name, (kind, oid, body))| (name, kind, oid, body)).collect()
}

#[test]
fn the_examples_of_the_native_format_are_what_is_written() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/native.md")).unwrap();
    let mut shown: HashMap<(&str, &str), String> = HashMap::new();
    for line in page.lines() {
        // Lines such as `fruit.body  00010500...`; a body may go on in lines that start with spaces.
        if let Some((name, hex)) = line.split_once(char::is_whitespace)
            && let Some((name, part)) = name.split_once('.')
        {
            shown.insert((name, part), hex.trim().to_owned());
        }
    }
    for (name, kind, oid, body) in examples() {
        println!("{name}.body  {}\n{name}.id    {oid}", to_hex(&body));
        assert_eq!(shown.get(&(name, "body")), Some(&to_hex(&body)), "{name}");
        assert_eq!(shown.get(&(name, "id")), Some(&oid.to_string()), "{name}");
        assert_eq!(Native::new().object_id(&NoSource, &Object::from_body(kind, body[..].into())), Ok(oid));
        Native::new().children(kind, &body, &mut |_, _| ()).unwrap();
    }
}
