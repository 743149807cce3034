//! What a ref's file holds, and which names refs have.

use std::collections::BTreeMap;

use bristlecone::{Error, ObjRef, Oid, RefTarget, Result, check_ref_name, core::git::Algorithm};

/// The most bytes of a ref's file that are looked at: `ref: `, a name, and a line's end.
pub(crate) const VALUE_BYTES_MAX: usize = 2048;
/// The longest part of a name between slashes in bytes: file systems allow 255, and the lock's ending needs five.
const PART_BYTES_MAX: usize = 250;

/// What is wrong with the file of a ref that names another one whose name is no text. To Git it is like any other.
pub(crate) const NO_TEXT: &str = "the name of another ref in it is no text";

/// Reads the bytes of a ref's file.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn parse(algorithm: Algorithm, bytes: &[u8]) -> Result<RefTarget, &'static str> {
    if let Some(rest) = bytes.strip_prefix(b"ref:") {
        let name = str::from_utf8(rest.trim_ascii()).map_err(|_| NO_TEXT)?;
        check_ref_name(name).map_err(|_| "it names another ref by what is no name")?;
        return Ok(RefTarget::Symbolic(name.to_owned()));
    }
    let digits = algorithm.oid_bytes() * 2;
    let (hex, rest) = bytes.split_at_checked(digits).ok_or("it is too short for an id")?;
    if !rest.first().is_none_or(u8::is_ascii_whitespace) {
        return Err("it is too long for an id");
    }
    let oid = parse_hex(hex).ok_or("it holds neither an id nor the name of another ref")?;
    Ok(RefTarget::Object(ObjRef::from(oid)))
}

/// Returns the id that is written so.
pub(crate) fn parse_hex(hex: &[u8]) -> Option<Oid> {
    str::from_utf8(hex).ok()?.parse().ok()
}

/// Returns the bytes of a file that holds `target`.
pub(crate) fn encode(target: &RefTarget) -> Vec<u8> {
    match target {
        RefTarget::Object(at) => format!("{}\n", at.oid).into_bytes(),
        RefTarget::Symbolic(name) => format!("ref: {name}\n").into_bytes(),
    }
}

/// Checks that a name is one that refs have: `refs/…`, or capitals and underlines for those beside.
///
/// # Errors
/// [`Error::RefName`].
pub(crate) fn check_name(name: &str) -> Result<()> {
    check_ref_name(name)?;
    let parts = name.split('/').all(|part| part.len() <= PART_BYTES_MAX);
    if parts && (name.starts_with("refs/") || is_special(name)) {
        return Ok(());
    }
    Err(Error::RefName { name: name.to_owned() })
}

/// Whether the name is that of a ref beside `refs/`, such as `HEAD`.
pub(crate) fn is_special(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

/// Returns a ref that has this name as a folder, or is one of this name's: Git has either one or the other.
pub(crate) fn clash<'r, V>(refs: &'r BTreeMap<String, V>, name: &str) -> Option<&'r str> {
    let inside = format!("{name}/");
    if let Some((other, _)) = refs.range(inside.clone()..).next()
        && other.starts_with(&inside)
    {
        return Some(other.as_str());
    }
    let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
    above.find_map(|dir| refs.get_key_value(dir)).map(|(other, _)| other.as_str())
}

/// Folders below `refs/` of which each working tree has its own.
pub const OF_WORKTREE: [&str; 3] = ["refs/bisect/", "refs/rewritten/", "refs/worktree/"];

/// Whether each working tree has its own ref of this name.
pub(crate) fn is_of_worktree(name: &str) -> bool {
    is_special(name) || OF_WORKTREE.iter().any(|dir| name.starts_with(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_git_reads_them() {
        let hex = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let oid: Oid = hex.parse().unwrap();
        let read = |text: &str| parse(Algorithm::Sha1, text.as_bytes());
        for text in [hex.to_owned(), format!("{hex}\n"), format!("{hex}\nmore"), format!("{hex}\t")] {
            assert_eq!(read(&text), Ok(RefTarget::Object(oid.into())), "{text:?}");
        }
        for text in ["ref: refs/heads/main\n", "ref:refs/heads/main", "ref:\t refs/heads/main \n\n"] {
            assert_eq!(read(text), Ok(RefTarget::Symbolic("refs/heads/main".to_owned())), "{text:?}");
        }
        for text in ["", "\0\0\0", &hex[1..], &format!("{hex}0"), "ref: ", "ref: a b", &"z".repeat(40)] {
            assert!(read(text).is_err(), "{text:?}");
        }
        assert!(parse(Algorithm::Sha256, hex.as_bytes()).is_err());
    }

    #[test]
    fn names_are_those_of_git() {
        let long = format!("refs/heads/{}", "l".repeat(250));
        for name in ["HEAD", "ORIG_HEAD", "refs/heads/main", "refs/x", "refs/tags/é", "refs/tags/\u{85}", &long] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let longer = format!("{long}l");
        for name in ["", "main", "heads/main", "refs/heads/a.lock", "refs/heads/.a", "refs/", "Head", &longer] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
