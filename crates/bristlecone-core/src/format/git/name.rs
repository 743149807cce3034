//! Names that Git refuses in a tree.

/// Says why `git fsck --strict` refuses an entry of this name, if it does.
#[inline]
pub(super) fn refused(name: &[u8]) -> Option<&'static str> {
    // Names of letters, digits and what else is common are told by one look at each byte.
    let plain = |byte: &u8| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_');
    if name.iter().all(plain) && !name.is_empty() { None } else { odd(name) }
}

fn odd(name: &[u8]) -> Option<&'static str> {
    if name.is_empty() {
        return Some("an empty name");
    }
    if name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return Some("a name with a slash or a zero byte in it");
    }
    if matches!(name, b"." | b"..") {
        return Some("an entry named \".\" or \"..\"");
    }
    if is_dot_git_on_hfs(name) || name.split(|&byte| byte == b'\\').any(is_dot_git_on_ntfs) {
        return Some("an entry that some file system takes for \".git\"");
    }
    None
}

/// Whether NTFS would take the name for `.git`: in any case, by its short name `git~1`, with dots and spaces or a
/// stream's name behind it. Backslashes part names there.
fn is_dot_git_on_ntfs(name: &[u8]) -> bool {
    [&b".git"[..], b"git~1"].iter().any(|wanted| {
        let Some((start, rest)) = name.split_at_checked(wanted.len()) else { return false };
        let rest = rest.split(|&byte| byte == b':').next().unwrap_or_default();
        start.eq_ignore_ascii_case(wanted) && rest.iter().all(|byte| matches!(byte, b'.' | b' '))
    })
}

/// Whether HFS+ would take the name for `.git`: it ignores some characters. As Git does, a name is read up to the
/// first byte that is not UTF-8.
fn is_dot_git_on_hfs(name: &[u8]) -> bool {
    let Some(valid) = name.utf8_chunks().next() else { return false };
    let ignored = |c: &char| matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    let mut left = valid.valid().chars().filter(|c| !ignored(c)).map(|c| c.to_ascii_lowercase());
    ".git".chars().all(|wanted| left.next() == Some(wanted)) && left.next().is_none()
}
