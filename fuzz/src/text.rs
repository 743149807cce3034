//! Text as people write it: paths, revisions, places, names, options.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, sync::OnceLock};

use bristlecone::{Format, Git, Info, Native, Path, Signature, Tezos, check_ref_name};
use bristlecone_any::{
    AnyFormat, AnyRepo, OpenOptions, Place,
    identity::{Identity, Moment},
    path, revision,
};
use bristlecone_core::{ByteReader, Oid, tezos};

use crate::input::Input;

/// The longest input, in bytes.
const BYTES_MAX: usize = 4 << 10;

/// Paths, ids, options, names of refs, places, people and moments, all of the same text.
pub fn texts(data: &[u8]) {
    let bytes = Input::new(data, BYTES_MAX).rest();
    let mut reader = ByteReader::new(bytes);
    while reader.varint().is_ok() {}
    let _ = ByteReader::new(bytes).prefixed();
    for path in [Path::from_bytes(bytes).ok(), path::parse(OsStr::from_bytes(bytes)).ok()].into_iter().flatten() {
        assert_eq!(path.to_string().parse::<Path>().as_ref(), Ok(&path), "a path that is written is read");
    }
    if let Some(oid) = tezos::parse_commit_text(bytes) {
        assert_eq!(tezos::commit_text(&oid).as_bytes(), bytes, "an id has one text");
    }
    if let Ok(who) = Identity::named(bytes) {
        let _ = who.info(&AnyFormat::default(), &Moment { seconds: 0, zone: Default::default() }, b"message");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(oid) = text.parse::<Oid>() {
        assert_eq!(oid.to_string().parse::<Oid>().as_ref(), Ok(&oid));
    }
    options::<Native>(text);
    options::<Tezos>(text);
    options::<Git>(text);
    let _ = (check_ref_name(text).is_ok(), Place::parse(text).is_ok(), Moment::parse(text).is_some());
}

/// Options that are read come back as they are written.
fn options<F: Format + PartialEq>(text: &str) {
    if let Ok(format) = F::from_options(text) {
        assert_eq!(F::from_options(&format.options()), Ok(format), "options that are written are read");
    }
}

/// A revision, a pair of them, or a word that is a path or a revision, in a store of each format. The first byte chooses the format.
pub fn revisions(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let repos = repos();
    let repo = &repos[usize::from(input.byte()) % repos.len()];
    let text = OsStr::from_bytes(input.rest());
    let commit = revision::commit(repo, text).ok();
    if let Some(commit) = commit {
        assert!(repo.read_commit(commit).is_ok(), "a revision leads to a commit that is there");
        assert!(revision::tree(repo, text).is_ok(), "a commit has a tree");
    }
    let _ = (revision::tree(repo, text).is_ok(), revision::object(repo, text).is_ok());
    let _ = (revision::place(repo, text).is_ok(), revision::pair(repo, text).is_ok());
    let words: Vec<_> =
        text.as_bytes().split(|&byte| byte == b' ').take(5).map(|word| OsStr::from_bytes(word).to_owned()).collect();
    let _ = (
        revision::select(repo, &[], &words, None, commit).is_ok(),
        revision::select(repo, &words, &[], Some(&words), commit).is_ok(),
    );
}

/// Stores of all formats with a little history, in memory.
fn repos() -> &'static [AnyRepo] {
    static REPOS: OnceLock<Vec<AnyRepo>> = OnceLock::new();
    REPOS.get_or_init(|| {
        let formats = AnyFormat::ALL.iter().filter_map(|(name, _)| AnyFormat::standard(name));
        formats.map(repo).collect()
    })
}

fn repo(format: AnyFormat) -> AnyRepo {
    let repo = OpenOptions::new().format(format).open("memory:").expect("a store in memory");
    for (number, branch) in ["main", "main", "side", "main"].into_iter().enumerate() {
        let branch = repo.branch(branch).expect("a branch");
        let mut tree = branch.tree().expect("the tree of a branch");
        tree.set(format!("fruit/{number}/apple"), b"red").expect("a path");
        let who = Signature::new("A <a@example.com>", number as i64);
        branch.commit(&mut tree, &Info::message(format!("apples {number}\n")).by(who)).expect("a commit");
    }
    repo
}
