//! Commits and tags: what comes back byte for byte, what old histories hold, and what is refused.

use bristlecone_core::{
    Commit, Format, FormatError, Kind, Oid, Signature, Tag, Zone,
    git::{
        Algorithm::Sha1, Git, decode_commit, decode_tag, encode_commit, encode_tag, is_canonical_commit,
        is_canonical_tag,
    },
};

use super::objects::Objects;

const TREE: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";
const PARENT: &str = "parent 1b75687b55934bd69a0b90f895e137758f4133b6\n";
const ADA: &str = "author Ada <ada@example.org> 1700000000 +0100\n";
const BOB: &str = "committer Bob <bob@example.org> 1700000001 -0330\n";

fn commit(parts: &[&str]) -> Vec<u8> {
    parts.concat().into_bytes()
}

#[test]
fn commits_come_back_byte_for_byte() {
    let signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ\n -----END PGP SIGNATURE-----\n \n";
    let mergetag = "mergetag object 1b75687b55934bd69a0b90f895e137758f4133b6\n type commit\n tag v1\n \n notes\n";
    let canonical = [
        commit(&[TREE, ADA, BOB, "\nmessage\n"]),
        commit(&[TREE, ADA, BOB, "\n"]),
        commit(&[TREE, ADA, BOB, "\n\n\n leading\0and no end"]),
        commit(&[TREE, PARENT, PARENT, PARENT, ADA, BOB, "encoding latin\n", signature, mergetag, "x \ny z\n", "\nm"]),
        commit(&[TREE, ADA, BOB, " folded of nothing\n", "\nm"]),
        // What Git would not write today.
        commit(&[TREE, "author Ada 5 +0000\n", "committer  <> 0 -0000\n", "\nm"]),
        commit(&[TREE, "author Ada <a@b>\n", "committer \n", "\nm"]),
        commit(&[TREE, "author Ada <a@b> 12 \n", "committer Ada <a@b> 007 +0000\n", "\nm"]),
        commit(&[TREE, "author A <a> <b>> -12 +051800\n", "committer B <b> 99999999999999999999 +0000\n", "\nm"]),
        commit(&[TREE, "author A <b> 12 0100\n", "committer A <b> 12 +\n", "author again 1 +0000\n", "\nm"]),
        commit(&[TREE, ADA, BOB, PARENT, "\nm"]),
    ];
    for raw in canonical {
        assert!(is_canonical_commit(Sha1, &raw), "{}", bristlecone_core::escape(&raw));
        let mut again = Vec::new();
        encode_commit(&decode_commit(Sha1, &raw).unwrap(), &mut again);
        assert_eq!(again, raw);
    }
    // These are read, but would not come back.
    let others = [
        commit(&[TREE]),
        commit(&[TREE, "\nm"]),
        commit(&[TREE, BOB, ADA, "\nm"]),
        commit(&[TREE, ADA, "\nm"]),
        commit(&[TREE, ADA, BOB]),
        commit(&[TREE, ADA, BOB, "header\n", "\nm"]),
        commit(&[TREE, ADA, BOB.trim_end()]),
        commit(&[&TREE.to_uppercase().replace("TREE", "tree"), ADA, BOB, "\nm"]),
    ];
    for raw in others {
        assert!(decode_commit(Sha1, &raw).is_ok() && !is_canonical_commit(Sha1, &raw));
        let mut objects = Objects::default();
        let at = objects.with(&Git::sha1(), |_, put| Git::sha1().put_raw(put, Kind::Commit, &raw)).unwrap();
        assert_eq!(at.oid, Sha1.object_id(Kind::Commit, &raw), "kept as it is");
    }
    for raw in [&b""[..], b"tree 12\n", b"author x\n", &[TREE.as_bytes(), b"parent zz\n"].concat()] {
        assert!(decode_commit(Sha1, raw).is_err());
    }
}

#[test]
fn commits_are_taken_apart() {
    let raw = commit(&[TREE, PARENT, ADA, BOB, "encoding latin\n", "gpgsig one\n  two\n \n", "\nwhy\n"]);
    let found = decode_commit(Sha1, &raw).unwrap();
    assert_eq!((found.parents.len(), &found.message[..]), (1, &b"why\n"[..]));
    assert_eq!((&found.author.ident[..], found.author.seconds), (&b"Ada <ada@example.org>"[..], 1_700_000_000));
    assert_eq!(found.committer.zone.minutes(), -210);
    let headers = [(&b"encoding"[..], &b"latin"[..]), (b"gpgsig", b"one\n two\n")];
    assert!(found.headers.iter().map(|(key, value)| (&key[..], &value[..])).eq(headers));
    // Of a line that is not understood, all is kept as the name.
    let raw = commit(&[TREE, "author Ada <a@b> yesterday\n", "\n"]);
    let found = decode_commit(Sha1, &raw).unwrap();
    assert_eq!((&found.author.ident[..], found.author.seconds), (&b"Ada <a@b> yesterday"[..], 0));
    assert!(found.author.zone.as_bytes().is_empty() && found.committer.ident.is_empty());
}

#[test]
fn tags_come_back_byte_for_byte() {
    let object = "object 1b75687b55934bd69a0b90f895e137758f4133b6\n";
    let tagger = "tagger Ada <ada@example.org> 1700000000 +0100\n";
    let signed = "\nnotes\n-----BEGIN PGP SIGNATURE-----\n\niQ\n-----END PGP SIGNATURE-----\n";
    for raw in [
        commit(&[object, "type commit\n", "tag v1\n", tagger, signed]),
        commit(&[object, "type tree\n", "tag v1\n", "\n"]),
        commit(&[object, "type blob\n", "tag \n", "tagger nobody\n", "gpgsig-sha256 a\n b\n", "\nm"]),
        commit(&[object, "type tag\n", "tag a b\n", tagger, "x y\n", "\n\n"]),
    ] {
        assert!(is_canonical_tag(Sha1, &raw), "{}", bristlecone_core::escape(&raw));
        let tag = decode_tag(Sha1, &raw).unwrap();
        let mut again = Vec::new();
        encode_tag(&tag, &mut again);
        assert_eq!(again, raw);
        let mut children = Vec::new();
        Git::sha1().children(Kind::Tag, &raw, &mut |kind, oid| children.push((kind, oid))).unwrap();
        assert_eq!(children, [(tag.kind, tag.target.oid)]);
    }
    let no_message = commit(&[object, "type commit\n", "tag v1\n", tagger]);
    assert!(decode_tag(Sha1, &no_message).is_ok() && !is_canonical_tag(Sha1, &no_message));
    for raw in
        [&b""[..], object.as_bytes(), &commit(&[object, "type pieces\n", "tag v1\n"]), &commit(&[object, "type tag\n"])]
    {
        assert!(decode_tag(Sha1, raw).is_err());
    }
}

/// What is refused of commits, and so never lost.
#[test]
fn commits_that_git_would_refuse_are_refused() {
    let git = Git::sha1();
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse::<Oid>().unwrap();
    let sound = Commit::new(tree.into(), vec![], Signature::new("Ada <a@b>", 0), "m");
    let put = |commit: &Commit| Objects::default().with(&git, |_, put| git.put_commit(put, commit, 1));
    let tag = |tagger: &Signature| Tag {
        target: tree.into(),
        kind: Kind::Node,
        name: b"v".to_vec(),
        tagger: Some(tagger.clone()),
        headers: vec![],
        message: vec![],
    };
    let put_tag = |tag: &Tag| Objects::default().with(&git, |_, put| git.put_tag(put, tag));
    assert!(put(&sound).is_ok() && put_tag(&tag(&sound.author)).is_ok());
    let unsupported = |put| matches!(put, Err(FormatError::Unsupported { format: "git", .. }));

    let idents =
        ["Ada<a@b>", "<a@b>", "Ada <a@b", "Ada <a<b>", "A > <b>", "A <b> ", "A\n <b>", "A\0 <b>", "A\n", "A >"];
    for ident in idents {
        let who = Signature::new(ident, 0);
        assert!(unsupported(put(&Commit { author: who.clone(), ..sound.clone() })), "{ident:?}");
        assert!(unsupported(put(&Commit { committer: who.clone(), ..sound.clone() })), "{ident:?}");
        assert!(unsupported(put_tag(&tag(&who))), "{ident:?}");
        let (author, committer) = git.signatures(who.clone(), who);
        assert!(put(&Commit { author, committer, ..sound.clone() }).is_ok(), "{ident:?} in Git's form");
    }
    for (seconds, zone) in
        [(-1, "+0000"), (i64::MIN, "+0000"), (0, ""), (0, "0000"), (0, "+000"), (0, "+00000"), (0, "Z")]
    {
        let who = Signature { seconds, zone: Zone::from_bytes(zone.as_bytes()), ..sound.author.clone() };
        assert!(unsupported(put(&Commit { author: who, ..sound.clone() })), "{seconds} {zone}");
    }
    let header = |key: &[u8], value: &[u8]| vec![(key.to_vec(), value.to_vec())];
    for (key, value) in [(&b""[..], &b""[..]), (b"a b", b""), (b"a\nb", b""), (b"a\0", b""), (b"a", b"\0")] {
        assert!(unsupported(put(&Commit { headers: header(key, value), ..sound.clone() })));
        assert!(unsupported(put_tag(&Tag { headers: header(key, value), ..tag(&sound.author) })));
    }
    for key in [&b"tree"[..], b"parent", b"author", b"committer"] {
        assert!(unsupported(put(&Commit { headers: header(key, b""), ..sound.clone() })));
    }
    assert!(unsupported(put(&Commit { message: b"a\0b".to_vec(), ..sound.clone() })));
    for name in [&b""[..], b"a\nb", b"a\0"] {
        assert!(unsupported(put_tag(&Tag { name: name.to_vec(), ..tag(&sound.author) })));
    }
    assert!(unsupported(put_tag(&Tag { kind: Kind::Pieces, ..tag(&sound.author) })));
}

#[test]
fn what_is_taken_comes_back() {
    let git = Git::sha1();
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse::<Oid>().unwrap();
    let mut commit = Commit::new(tree.into(), vec![tree.into()], Signature::new("nobody", i64::MAX), "\n m\n\n");
    commit.committer.zone = Zone::from_bytes(b"-9999");
    for value in [&b""[..], b"\n", b" ", b"a\n\n b\n", b"\xff"] {
        commit.headers.push((b"x".to_vec(), value.to_vec()));
    }
    let mut objects = Objects::default();
    let at = objects.with(&git, |_, put| git.put_commit(put, &commit, 3)).unwrap();
    let raw = objects.body(&at.oid);
    assert_eq!(decode_commit(Sha1, &raw), Ok(commit));
    assert!(is_canonical_commit(Sha1, &raw));
}

/// Git wants an address. A missing one is written as an empty one, which is read as no address.
#[test]
fn names_may_come_without_an_address() {
    let git = Git::sha1();
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904".parse::<Oid>().unwrap();
    for (ident, line, kept) in [
        ("", "author  <> 7 +0000\n", ""),
        ("nobody", "author nobody <> 7 +0000\n", "nobody"),
        ("nobody <>", "author nobody <> 7 +0000\n", "nobody"),
        (" <a@b>", "author  <a@b> 7 +0000\n", " <a@b>"),
    ] {
        let commit = Commit::new(tree.into(), vec![], Signature::new(ident, 7), "");
        let mut objects = Objects::default();
        let at = objects.with(&git, |_, put| git.put_commit(put, &commit, 1)).unwrap();
        let raw = objects.body(&at.oid);
        assert!(raw[TREE.len()..].starts_with(line.as_bytes()), "{line}");
        assert_eq!(decode_commit(Sha1, &raw).unwrap().author.ident, kept.as_bytes());
        assert!(is_canonical_commit(Sha1, &raw));
    }
}

#[test]
fn names_get_gits_form() {
    let git = Git::sha1();
    for (given, kept) in [
        ("nobody", "nobody"),
        ("Ada <a@b>", "Ada <a@b>"),
        ("  Ada\n\0 <<a@b>> x", "Ada <a@b>"),
        ("Ada<a@b>", "Ada <a@b>"),
        ("<a@b>", " <a@b>"),
        ("", ""),
        ("Ada <a@b", "Ada <a@b>"),
        ("A > B <c>", "A  B <c>"),
        ("A > B", "A  B"),
        ("A\nB", "AB"),
    ] {
        let (author, _) = git.signatures(Signature::new(given, 5), Signature::default());
        assert_eq!((&author.ident[..], author.seconds), (kept.as_bytes(), 5));
    }
}
