//! Names that Git refuses in a tree.

use crate::EntryKind;

/// Says why `git fsck --strict` refuses an entry of this name and kind, if it does.
#[must_use]
#[inline]
pub fn refused_name(name: &[u8], kind: EntryKind) -> Option<&'static str> {
    // Names of letters, digits and other common bytes are recognised by one look at each byte.
    let plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_');
    if name.iter().all(plain) && !name.is_empty() { None } else { odd(name, kind) }
}

fn odd(name: &[u8], kind: EntryKind) -> Option<&'static str> {
    if name.is_empty() {
        return Some("an empty name");
    }
    if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Some("a name with a slash or a zero byte in it");
    }
    if matches!(name, b"." | b"..") {
        return Some("an entry named \".\" or \"..\"");
    }
    if is_on_hfs(name, ".git") || is_on_ntfs(name, ".git") || is_on_ntfs(name, "git~1") {
        return Some("an entry that some file system takes for \".git\"");
    }
    match kind {
        EntryKind::Value | EntryKind::Executable => None,
        EntryKind::Link => is_modules(name).then_some("a link that some file system takes for \".gitmodules\""),
        EntryKind::Dir | EntryKind::Foreign if is_modules(name) => {
            Some("an entry that is no file and that some file system takes for \".gitmodules\"")
        }
        EntryKind::Dir | EntryKind::Foreign if is_attributes(name) => {
            Some("an entry that is no file and that some file system takes for \".gitattributes\"")
        }
        EntryKind::Dir | EntryKind::Foreign => None,
    }
}

fn is_modules(name: &[u8]) -> bool {
    is_on_hfs(name, ".gitmodules") || is_on_ntfs(name, ".gitmodules") || is_short(name, b"gitmod", b"gi7eba")
}

fn is_attributes(name: &[u8]) -> bool {
    is_on_hfs(name, ".gitattributes") || is_on_ntfs(name, ".gitattributes") || is_short(name, b"gitatt", b"gi7d29")
}

/// Whether the name, or a part of it between backslashes, is one that NTFS gives to a long name for programs that know
/// short ones alone: the first six characters of that, a tilde and a digit up to 4; where those are taken, some of the six
/// of `hashed`, a tilde and a number, eight in all.
fn is_short(name: &[u8], first: &[u8; 6], hashed: &[u8; 6]) -> bool {
    name.split(|&byte| byte == b'\\').any(|part| {
        let Some((short, rest)) = part.split_first_chunk::<8>() else { return false };
        let usual = short[..6].eq_ignore_ascii_case(first) && short[6] == b'~' && matches!(short[7], b'1'..=b'4');
        let tilde = short.iter().position(|&byte| byte == b'~').filter(|&at| at <= 6);
        let fallback = tilde.is_some_and(|at| {
            let number = &short[at + 1..];
            short[..at].eq_ignore_ascii_case(&hashed[..at])
                && number[0] != b'0'
                && number.iter().all(u8::is_ascii_digit)
        });
        (usual || fallback) && is_padding(rest)
    })
}

/// Whether NTFS ignores what stands behind a name: dots, spaces, and the name of a stream.
fn is_padding(rest: &[u8]) -> bool {
    rest.split(|&byte| byte == b':').next().unwrap_or_default().iter().all(|byte| matches!(byte, b'.' | b' '))
}

/// Whether NTFS would take the name, or a part of it between backslashes, for the wanted one: in any case, and with
/// dots and spaces or a stream's name behind it.
fn is_on_ntfs(name: &[u8], wanted: &str) -> bool {
    name.split(|&byte| byte == b'\\').any(|part| {
        let Some((start, rest)) = part.split_at_checked(wanted.len()) else { return false };
        start.eq_ignore_ascii_case(wanted.as_bytes()) && is_padding(rest)
    })
}

/// Whether HFS+ would take the name for the wanted one: in any case, and ignoring some characters. As Git does, a
/// name is read up to the first byte that is not UTF-8 or the first noncharacter.
fn is_on_hfs(name: &[u8], wanted: &str) -> bool {
    let Some(valid) = name.utf8_chunks().next() else { return false };
    let ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let chars = valid.valid().chars().take_while(|c| !matches!(c, '\u{fffe}' | '\u{ffff}'));
    chars.filter(|c| !ignored(c)).map(|c| c.to_ascii_lowercase()).eq(wanted.chars())
}
