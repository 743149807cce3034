//! Lines of commits and tags: headers, and names with dates. Section 4 of the format's page.

use alloc::vec::Vec;

use crate::{DecodeError, Oid, Signature, Zone};

/// A header and its value, unfolded.
pub(super) type Header = (Vec<u8>, Vec<u8>);

/// Reads the lines of a commit or tag, and what follows them.
pub(super) struct HeaderLines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> HeaderLines<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) const fn error(&self, reason: &'static str) -> DecodeError {
        DecodeError { offset: self.at, reason }
    }

    /// Returns the rest of the next line, if it begins with these bytes.
    #[inline]
    pub(super) fn after(&mut self, start: &[u8]) -> Option<&'a [u8]> {
        let line = self.bytes[self.at..].strip_prefix(start)?;
        let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
        self.at = (self.at + start.len() + end + 1).min(self.bytes.len());
        Some(&line[..end])
    }

    /// Returns the id in the next line, which begins with these bytes; `None` if it does not.
    pub(super) fn oid(&mut self, start: &[u8], oid_bytes: usize) -> Result<Option<Oid>, DecodeError> {
        let error = self.error("an id is not in hexadecimal digits, or of another length");
        let Some(text) = self.after(start) else { return Ok(None) };
        let text = core::str::from_utf8(text).map_err(|_| error)?;
        if text.len() != 2 * oid_bytes {
            return Err(error);
        }
        Ok(Some(text.parse().map_err(|_| error)?))
    }

    /// Returns the headers up to the empty line, and what follows that.
    pub(super) fn rest(mut self) -> (Vec<Header>, &'a [u8]) {
        let mut headers: Vec<Header> = Vec::new();
        while self.at < self.bytes.len() {
            let line = self.after(b"").unwrap_or_default();
            if line.is_empty() {
                break;
            }
            match (line.strip_prefix(b" "), headers.last_mut()) {
                (Some(folded), Some((_, value))) => {
                    value.push(b'\n');
                    value.extend_from_slice(folded);
                }
                _ => {
                    let space = memchr::memchr(b' ', line).unwrap_or(line.len());
                    let value = line.get(space + 1..).unwrap_or_default();
                    headers.push((line[..space].to_vec(), value.to_vec()));
                }
            }
        }
        (headers, &self.bytes[self.at..])
    }
}

/// Appends a header, folding lines of its value.
pub(super) fn write_header(out: &mut Vec<u8>, (key, value): &Header) {
    out.extend_from_slice(key);
    for line in value.split(|&byte| byte == b'\n') {
        out.push(b' ');
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

/// Appends a line with an id.
pub(super) fn write_oid(out: &mut Vec<u8>, key: &[u8], oid: &Oid) {
    out.extend_from_slice(key);
    for byte in oid.as_bytes() {
        out.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    out.push(b'\n');
}

/// Written behind a name that comes without an address: Git wants one, if an empty one.
const NO_ADDRESS: &[u8] = b" <>";

/// Returns a name and a date: `Name <address> seconds zone`. A name with an empty address is taken without it. A line that
/// does not end in seconds and a zone, or has no address, is all taken for the name, with a zone of no bytes.
pub(super) fn decode(line: &[u8]) -> Signature {
    let parts = || {
        let (rest, zone) = split_last_word(line)?;
        let (ident, seconds) = split_last_word(rest)?;
        if !matches!(zone, [b'+' | b'-', ..]) || !has_brackets(ident) || !is_shortest(seconds) {
            return None;
        }
        let seconds: i64 = core::str::from_utf8(seconds).ok()?.parse().ok()?;
        let name = ident.strip_suffix(NO_ADDRESS).filter(|name| !has_brackets(name));
        Some(Signature { ident: name.unwrap_or(ident).to_vec(), seconds, zone: Zone::from_bytes(zone) })
    };
    parts().unwrap_or_else(|| Signature { ident: line.to_vec(), seconds: 0, zone: Zone::from_bytes(b"") })
}

/// Whether digits, with a minus before them or not, have nothing that a shorter spelling of the number lacks.
fn is_shortest(number: &[u8]) -> bool {
    match number {
        b"0" => true,
        [b'-', digits @ ..] | digits => digits.first().is_some_and(|first| (b'1'..=b'9').contains(first)),
    }
}

fn split_last_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = memchr::memrchr(b' ', line)?;
    Some((&line[..space], &line[space + 1..]))
}

fn has_brackets(ident: &[u8]) -> bool {
    memchr::memchr2(b'<', b'>', ident).is_some()
}

/// Appends a line with a name and a date.
pub(super) fn write(out: &mut Vec<u8>, key: &[u8], who: &Signature) {
    out.extend_from_slice(key);
    out.extend_from_slice(&who.ident);
    if !who.zone.as_bytes().is_empty() || who.seconds != 0 {
        if !has_brackets(&who.ident) {
            out.extend_from_slice(NO_ADDRESS);
        }
        out.push(b' ');
        out.extend_from_slice(alloc::format!("{}", who.seconds).as_bytes());
        out.push(b' ');
        out.extend_from_slice(who.zone.as_bytes());
    }
    out.push(b'\n');
}

/// Says what of a signature `git fsck --strict` would refuse, or Git would lose.
pub(super) fn refused(who: &Signature) -> Option<&'static str> {
    if let Some(what) = refused_ident(&who.ident) {
        return Some(what);
    }
    if who.seconds < 0 {
        return Some("a date before 1970");
    }
    match who.zone.as_bytes() {
        [b'+' | b'-', digits @ ..] if digits.len() == 4 && digits.iter().all(u8::is_ascii_digit) => None,
        _ => Some("a time zone other than +hhmm or -hhmm"),
    }
}

fn refused_ident(ident: &[u8]) -> Option<&'static str> {
    if memchr::memchr2(b'\n', 0, ident).is_some() {
        return Some("a name with a line break or a zero byte in it");
    }
    if !has_brackets(ident) {
        return None;
    }
    let parts = ident.strip_suffix(b">").and_then(|inner| inner.split_at_checked(memchr::memchr(b'<', inner)?));
    match parts {
        Some((name @ [.., b' '], address)) if !has_brackets(name) && !has_brackets(&address[1..]) => None,
        _ => Some("a name with < or > in it that is not of the form \"Name <address>\""),
    }
}

/// Says what of further headers would not come back. `own`: those that the object has anyway.
pub(super) fn refused_headers(headers: &[Header], own: &[&[u8]]) -> Option<&'static str> {
    for (key, value) in headers {
        if key.is_empty() || key.iter().any(|byte| matches!(byte, b' ' | b'\n' | 0)) {
            return Some("a header whose name is empty or holds a space, a line break or a zero byte");
        }
        if own.contains(&&key[..]) {
            return Some("a further header of a name that Git uses itself");
        }
        if value.contains(&0) {
            return Some("a header with a zero byte in it");
        }
    }
    None
}

/// Returns a signature whose name and address are as Git wants them: `Name <address>`, or a name alone, without `<`,
/// `>`, line breaks and zero bytes in either.
pub(super) fn normalised(mut who: Signature) -> Signature {
    if refused_ident(&who.ident).is_none() {
        return who;
    }
    let opening = memchr::memchr(b'<', &who.ident).unwrap_or(who.ident.len());
    let (name, rest) = who.ident.split_at(opening);
    let rest = rest.get(1..).unwrap_or_default();
    let address = &rest[..memchr::memchr(b'>', rest).unwrap_or(rest.len())];
    let clean = |text: &[u8]| -> Vec<u8> {
        text.trim_ascii().iter().copied().filter(|byte| !matches!(byte, b'<' | b'>' | b'\n' | 0)).collect()
    };
    let (name, address) = (clean(name), clean(address));
    who.ident = if address.is_empty() { name } else { [&name[..], b" <", &address, b">"].concat() };
    who
}
