//! A commit as it is in the history of a subtree: what `git subtree split` keeps of it.
//!
//! Author, committer, dates and message are kept; headers are not, since a signature is of other bytes. Text is turned
//! to UTF-8, as Git does when it shows a commit and makes another of what it has shown: bytes that are no UTF-8 are
//! taken for Latin 1. A commit that says it is in some other encoding is kept as it is, and keeps saying so.

use bristlecone_core::{Commit, ObjRef, Signature, Zone};

/// What `commit` becomes with the root and the parents that it has in the history of the subtree.
pub(super) fn rewritten(commit: &Commit, tree: ObjRef, parents: Vec<ObjRef>) -> Commit {
    let said = commit.headers.iter().find(|(name, _)| name == b"encoding");
    let encoding = said.map_or(Encoding::Utf8, |(_, name)| Encoding::named(name));
    let text = |bytes: &[u8]| match encoding {
        Encoding::Utf8 => to_utf8(bytes),
        Encoding::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into_bytes(),
        Encoding::Other => bytes.to_vec(),
    };
    let who =
        |who: &Signature| Signature { ident: trimmed(&text(&who.ident)), seconds: who.seconds, zone: zone(&who.zone) };
    let headers = said.filter(|_| encoding == Encoding::Other).cloned().into_iter().collect();
    Commit {
        tree,
        parents,
        author: who(&commit.author),
        committer: who(&commit.committer),
        headers,
        message: text(&commit.message),
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

/// Returns the bytes as UTF-8: what is none already is taken byte by byte for Latin 1.
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

/// Returns a name and address without what Git strips from both ends of each.
fn trimmed(ident: &[u8]) -> Vec<u8> {
    let Some(open) = ident.iter().position(|&byte| byte == b'<') else { return ident.to_vec() };
    let (name, mail) = (&ident[..open], &ident[open + 1..]);
    let mail = &mail[..mail.iter().position(|&byte| byte == b'>').unwrap_or(mail.len())];
    [strip(name), b" <", strip(mail), b">"].concat()
}

fn strip(text: &[u8]) -> &[u8] {
    let crud = |byte: &u8| *byte <= b' ' || b".,:;<>\"\\'".contains(byte);
    let Some(start) = text.iter().position(|byte| !crud(byte)) else { return b"" };
    let end = text.iter().rposition(|byte| !crud(byte)).map_or(text.len(), |last| last + 1);
    &text[start..end]
}

/// Returns a zone as Git writes it: a sign and at least four digits, `+0000` for `-0000`.
fn zone(zone: &Zone) -> Zone {
    let text = std::str::from_utf8(zone.as_bytes()).ok();
    match text.and_then(|text| text.parse::<i16>().ok()) {
        Some(number) => {
            Zone::from_bytes(format!("{}{:04}", if number < 0 { '-' } else { '+' }, number.unsigned_abs()).as_bytes())
        }
        None => zone.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_utf8() {
        assert_eq!(to_utf8(b"caf\xe9 \xc3\xa9 \xed\xa0\x80"), "caf\u{e9} \u{e9} \u{ed}\u{a0}\u{80}".as_bytes());
        assert_eq!(to_utf8("\u{ffff}".as_bytes()), "\u{ef}\u{bf}\u{bf}".as_bytes());
        assert_eq!(trimmed(b" .A  B; < c@d.> "), b"A  B <c@d>");
        assert_eq!(trimmed(b"nobody"), b"nobody");
        for (from, to) in [("-0000", "+0000"), ("-530", "-0530"), ("+0130", "+0130"), ("odd", "odd")] {
            assert_eq!(zone(&Zone::from_bytes(from.as_bytes())).as_bytes(), to.as_bytes());
        }
    }
}
