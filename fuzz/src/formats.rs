//! Objects of the three formats.

use bristlecone_core::{
    Checked, Commit, Format, Kind, Location, NoSource, ObjRef, Object, Oid, Record, Sink, Source,
    git::{self, Algorithm, Git},
    native::Native,
    record_bytes,
    tezos::Tezos,
};

use crate::{
    directory::directory,
    input::Input,
    objects::{Decoded, decode},
};

/// The longest input of a target of this file, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// Directories of the native format. The first byte chooses its options.
pub fn native_directory(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let options = input.byte();
    let native =
        Native::new().split(options & 1 == 0).group(options >> 1 & 3).inline(if options & 8 == 0 { 48 } else { 0 });
    directory(&native, 32, input);
}

/// Directories of the Tezos format. The first byte chooses its options.
pub fn tezos_directory(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let options = input.byte();
    let tezos = match options >> 1 & 3 {
        0 => Tezos::new(),
        1 => Tezos::new().hashing(2, 2),
        2 => Tezos::new().hashing(4, 12),
        _ => Tezos::new().hashing(64, 100),
    };
    directory(&tezos.split(options & 1 == 0), 32, input);
}

/// Trees of Git, as they are stored. The first byte chooses the hash.
pub fn git_directory(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let git = Git::new(algorithm(input));
    directory(&git, git.algorithm().oid_bytes(), input);
}

fn algorithm(input: &mut Input<'_>) -> Algorithm {
    if input.byte() & 1 == 0 { Algorithm::Sha1 } else { Algorithm::Sha256 }
}

/// Trees of Git as Git has them: what can be walked can be stored, and comes back. The first byte chooses the hash.
pub fn git_tree(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let (algorithm, mut body) = (algorithm(input), Vec::new());
    let raw = input.rest();
    let walked: Result<Vec<_>, _> = git::raw_entries(algorithm, raw).collect();
    if git::tree_body(algorithm, raw, &mut body).is_err() {
        assert!(body.is_empty(), "nothing is appended of a tree that is refused");
        return;
    }
    let walked = walked.expect("a tree that is accepted can be walked");
    assert_eq!(git::raw(Kind::Node, &body).expect("a body that was made"), raw);
    let git = Git::new(algorithm);
    let mut children = 0;
    git.children(Kind::Node, &body, &mut |_, _| children += 1).expect("a body that was made");
    assert!(children <= walked.len());
    let own = git.object_id(&NoSource, &Object::from_body(Kind::Node, body[..].into()));
    assert_eq!(own, Ok(algorithm.object_id(Kind::Node, raw)));
    let words = [&[algorithm as u8, 1, 1, 1][..], b"a", &(body.len() as u16).to_le_bytes(), &body].concat();
    if body.len() <= usize::from(u16::MAX) {
        git_directory(&words);
    }
}

/// The last object that a format gives away.
#[derive(Default)]
struct Last(Vec<u8>);

impl Sink for Last {
    fn put(&mut self, _: Kind, _: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.0 = body.to_vec();
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

/// A commit or tag of a format in which each has one encoding.
fn one_encoding<F: Format>(format: &F, kind: Kind, body: &[u8]) {
    let object = Object::from_body(kind, body.into());
    let own = format.object_id(&NoSource, &object);
    let accepted = format.children(kind, body, &mut |_, _| ()).is_ok();
    let mut last = Last::default();
    let put: Result<ObjRef, _> = if kind == Kind::Commit {
        let commit = format.decode_commit(&object);
        assert_eq!(commit.is_ok(), accepted, "what is decoded is accepted");
        let Ok(commit) = commit else { return };
        assert_eq!(format.commit_tree(&object), Ok(commit.tree.into()));
        format.put_commit(&mut last, &commit, 1)
    } else {
        let tag = format.decode_tag(&object);
        assert_eq!(tag.is_ok(), accepted, "what is decoded is accepted");
        let Ok(tag) = tag else { return };
        format.put_tag(&mut last, &tag)
    };
    assert_eq!((put.map(|at| at.oid), &last.0[..]), (own, body), "one {kind} has one encoding");
}

/// Commits of the native format.
pub fn native_commit(data: &[u8]) {
    one_encoding(&Native::new(), Kind::Commit, Input::new(data, BYTES_MAX).rest());
}

/// Annotated tags of the native format.
pub fn native_tag(data: &[u8]) {
    one_encoding(&Native::new(), Kind::Tag, Input::new(data, BYTES_MAX).rest());
}

/// Commits of the Tezos format.
pub fn tezos_commit(data: &[u8]) {
    one_encoding(&Tezos::new(), Kind::Commit, Input::new(data, BYTES_MAX).rest());
}

/// Commits of Git. The first byte chooses the hash.
pub fn git_commit(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let git = Git::new(algorithm(input));
    let body = input.rest();
    let object = Object::from_body(Kind::Commit, body.into());
    let decoded = git.decode_commit(&object);
    assert_eq!(decoded.is_ok(), git.children(Kind::Commit, body, &mut |_, _| ()).is_ok());
    let Ok(commit) = decoded else { return };
    assert_eq!(git.commit_tree(&object), Ok(commit.tree.into()));
    let mut again = Vec::new();
    git::encode_commit(&commit, &mut again);
    assert_eq!(again == body, git::is_canonical_commit(git.algorithm(), body));
    for put in [Git::put_commit::<Last>, Git::put_copied_commit::<Last>] as [fn(&Git, &mut Last, &Commit, u64) -> _; 2]
    {
        let mut last = Last::default();
        if let Ok(at) = put(&git, &mut last, &commit, 1) {
            assert_eq!(at.oid, git.algorithm().object_id(Kind::Commit, &last.0));
            assert_eq!(git::decode_commit(git.algorithm(), &last.0).as_ref(), Ok(&commit), "what is taken comes back");
        }
    }
}

/// Annotated tags of Git. The first byte chooses the hash.
pub fn git_tag(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let git = Git::new(algorithm(input));
    let body = input.rest();
    let decoded = git.decode_tag(&Object::from_body(Kind::Tag, body.into()));
    assert_eq!(decoded.is_ok(), git.children(Kind::Tag, body, &mut |_, _| ()).is_ok());
    let Ok(tag) = decoded else { return };
    let mut again = Vec::new();
    git::encode_tag(&tag, &mut again);
    assert_eq!(again == body, git::is_canonical_tag(git.algorithm(), body));
    let mut last = Last::default();
    if git.put_tag(&mut last, &tag).is_ok() {
        assert_eq!(git::decode_tag(git.algorithm(), &last.0), Ok(tag), "what is taken comes back");
    }
}

/// Large values of the native format. The input: two words for the range that is read; then objects, each a byte, odd for a list of
/// pieces, and a run. The last is the value.
pub fn native_value(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let (from, bytes) = (input.word() as u64, input.word() as u64);
    let native = Native::new();
    let kind = |input: &mut Input<'_>| if input.byte() & 1 == 0 { Kind::Contents } else { Kind::Pieces };
    let Decoded { mut store, ids, .. } = decode(&native, 32, input, kind);
    let Some(at) = ids.last().copied().map(ObjRef::from) else { return };
    store.begin(false);
    let part = native.read_contents(&store, &at, from..from + bytes).map(|part| part.to_vec());
    assert!(part.as_ref().is_ok_and(|part| part.len() as u64 <= bytes) || part.is_err(), "more than the range");
    store.begin(true);
    let Ok(whole) = native.read_contents(&store, &at, 0..1 << 20) else { return };
    let wanted = whole.get(from as usize..).map(|rest| &rest[..rest.len().min(bytes as usize)]).unwrap_or_default();
    assert_eq!(part.as_deref(), Ok(wanted), "a range of a value is a part of it");
    for kind in [Kind::Contents, Kind::Pieces] {
        store.begin(false);
        let object = store.read(kind, &at);
        let _ = object.and_then(|object| native.check_structure(&store, &object, true, &mut Checked::new()));
    }
}

/// Records, as engines frame objects.
pub fn record(data: &[u8]) {
    let bytes = Input::new(data, BYTES_MAX).rest();
    if let Ok(record) = Record::parse(bytes) {
        assert!(record.bytes() <= bytes.len() as u64, "a record lies within its bytes");
        let own = &bytes[..record.bytes() as usize];
        let object = Object::from_record(&record, own.into(), Location(64));
        let _ = (object.child(0), object.child(record.children as usize), object.metadata_word(0), object.body().len());
        let _ = record.verify(own);
    }
    let _ = record_bytes(bytes).map(|(record, whole)| assert_eq!(record.bytes(), whole.len() as u64));
}
