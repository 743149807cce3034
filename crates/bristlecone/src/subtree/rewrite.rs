//! A commit as it is in the history of a subtree: what `git subtree split` keeps of it.
//!
//! Author, committer, dates and message are kept; headers are not, since a signature is of other bytes. Text is turned
//! to UTF-8, as Git does when it shows a commit and makes another of what it has shown: bytes that are no UTF-8 are
//! taken for Latin 1. A commit that says it is in some other encoding is kept as it is, and keeps saying so. A message
//! ends at its first zero byte.

use bristlecone_core::{Commit, CommitId, Signature, TreeId};

use super::signature;

/// What `commit` becomes with the root and the parents that it has in the history of the subtree.
pub(super) fn rewritten(commit: &Commit, tree: TreeId, parents: Vec<CommitId>) -> Commit {
    let said = commit.headers.iter().find(|(name, _)| name == b"encoding");
    let encoding = said.map_or(Encoding::Utf8, |(_, name)| Encoding::named(name));
    let text = |bytes: &[u8]| match encoding {
        Encoding::Utf8 => to_utf8(bytes),
        Encoding::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes(),
        Encoding::Other => bytes.to_vec(),
    };
    // Git takes the last of several authors.
    let who = |who: &Signature, name: &[u8]| {
        let last = commit.headers.iter().rev().find(|(key, _)| key == name);
        let line = text(&last.map_or_else(|| signature::line(who), |(_, line)| line.clone()));
        signature::rewritten(&line).unwrap_or_else(|| Signature { ident: text(&who.ident), ..who.clone() })
    };
    let headers = said.filter(|_| encoding == Encoding::Other).cloned().into_iter().collect();
    let message = commit.message.split(|&byte| byte == 0).next().unwrap_or_default();
    Commit {
        tree,
        parents,
        author: who(&commit.author, b"author"),
        committer: who(&commit.committer, b"committer"),
        headers,
        message: text(message),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Latin1,
    Other,
}

impl Encoding {
    fn named(name: &[u8]) -> Self {
        let name = name.trim_ascii().to_ascii_lowercase();
        match &name[..] {
            b"utf-8" | b"utf8" | b"us-ascii" | b"ascii" => Self::Utf8,
            b"iso-8859-1" | b"iso8859-1" | b"iso_8859-1" | b"latin1" | b"latin-1" => Self::Latin1,
            _ => Self::Other,
        }
    }
}

/// Returns the bytes as UTF-8: what is not UTF-8 already is taken byte by byte for Latin 1.
fn to_utf8(bytes: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_noncharacter(c) {
                text.extend(c.encode_utf8(&mut [0; 4]).bytes().map(char::from));
            } else {
                text.push(c);
            }
        }
        text.extend(chunk.invalid().iter().map(|&byte| char::from(byte)));
    }
    text.into_bytes()
}

/// Whether Git takes the encoding of this for no UTF-8: Unicode says that it is no character.
fn is_noncharacter(c: char) -> bool {
    let code = u32::from(c);
    code & 0xfffe == 0xfffe || (0xfdd0..=0xfdef).contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_utf8() {
        assert_eq!(to_utf8(b"caf\xe9 \xc3\xa9 \xed\xa0\x80"), "caf\u{e9} \u{e9} \u{ed}\u{a0}\u{80}".as_bytes());
        assert_eq!(to_utf8("\u{ffff}".as_bytes()), "\u{ef}\u{bf}\u{bf}".as_bytes());
    }
}
