//! What the messages of commits say about subtrees: the lines that `git subtree` writes and reads.

use bristlecone_core::{Oid, Path};

/// What a message says of a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trailers {
    /// The prefix.
    dir: Vec<u8>,
    /// The commit of the program that the other history was joined to; commits that only squash have none.
    pub(super) mainline: Option<Oid>,
    /// The commit of the other history.
    pub(super) split: Option<Oid>,
}

const DIR: &[u8] = b"git-subtree-dir: ";
const MAINLINE: &[u8] = b"git-subtree-mainline: ";
const SPLIT: &[u8] = b"git-subtree-split: ";

impl Trailers {
    /// Reads the trailers of a message; `None` if it is not of a join at `prefix`.
    pub(super) fn read(message: &[u8], prefix: &Path) -> Option<Self> {
        let mut found = Self::default();
        for line in message.split(|&byte| byte == b'\n') {
            let line = line.trim_ascii_end();
            if let Some(dir) = line.strip_prefix(DIR) {
                found.dir = dir.to_vec();
            } else if let Some(oid) = line.strip_prefix(MAINLINE) {
                found.mainline = parse(oid);
            } else if let Some(oid) = line.strip_prefix(SPLIT) {
                found.split = parse(oid);
            }
        }
        while found.dir.last() == Some(&b'/') {
            found.dir.pop();
        }
        (found.dir == prefix.as_bytes() && !found.dir.is_empty()).then_some(found)
    }
}

fn parse(digits: &[u8]) -> Option<Oid> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The message of the merge that adds a subtree. `said` is what the caller says in place of the first line.
pub(super) fn add(prefix: &Path, mainline: Oid, split: Oid, said: Option<&[u8]>) -> Vec<u8> {
    let dir = prefix.as_bytes();
    let first = match said {
        Some(said) => said.trim_ascii_end().to_vec(),
        None => [b"Add '", dir, b"/' from commit '", split.to_string().as_bytes(), b"'"].concat(),
    };
    let ids = format!("\ngit-subtree-mainline: {mainline}\ngit-subtree-split: {split}\n");
    [&first, &b"\n\n"[..], DIR, dir, ids.as_bytes()].concat()
}

/// The message of the merge that adds a squashed commit.
pub(super) fn add_squashed(prefix: &Path, squash: Oid) -> Vec<u8> {
    [format!("Merge commit '{squash}' as '").as_bytes(), prefix.as_bytes(), b"'\n"].concat()
}

/// The message of a merge that pulls.
pub(super) fn pull(theirs: Oid) -> Vec<u8> {
    format!("Merge commit '{theirs}'\n").into_bytes()
}

/// The message of a commit that stands for all commits from `before` up to `theirs`. `subjects` are the lines that say
/// which those are.
pub(super) fn squash(prefix: &Path, before: Option<Oid>, theirs: Oid, subjects: &[u8]) -> Vec<u8> {
    let dir = prefix.as_bytes();
    let which = match before {
        Some(before) => format!("/' changes from {}..{}\n\n", short(before), short(theirs)),
        None => format!("/' content from commit {}\n\n", short(theirs)),
    };
    let gap: &[u8] = if subjects.is_empty() { b"" } else { b"\n" };
    let id = format!("\ngit-subtree-split: {theirs}\n");
    [b"Squashed '", dir, which.as_bytes(), subjects, gap, DIR, dir, id.as_bytes()].concat()
}

/// One line on a commit that was squashed: its id and the first paragraph of its message.
pub(super) fn subject(sign: &str, oid: Oid, message: &[u8]) -> Vec<u8> {
    let mut line = format!("{sign}{}", short(oid)).into_bytes();
    let lines = message.split(|&byte| byte == b'\n').map(|line| line.trim_ascii_end());
    for part in lines.skip_while(|line| line.is_empty()).take_while(|line| !line.is_empty()) {
        line.push(b' ');
        line.extend_from_slice(part);
    }
    line.push(b'\n');
    line
}

/// The first digits of an id, as Git shows them.
fn short(oid: Oid) -> String {
    let mut text = oid.to_string();
    text.truncate(7);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let (prefix, other): (Path, Path) = ("a/lib".parse().unwrap(), "lib".parse().unwrap());
        let (one, two) = (Oid::new(&[1; 20]).unwrap(), Oid::new(&[0xab; 20]).unwrap());
        let added = Trailers::read(&add(&prefix, one, two, None), &prefix).unwrap();
        assert_eq!((added.mainline, added.split), (Some(one), Some(two)));
        assert_eq!(Trailers::read(&add(&prefix, one, two, Some(b"mine")), &prefix), Some(added));
        assert_eq!(Trailers::read(&add(&prefix, one, two, None), &other), None);
        let lines = subject("", one, b"first\nline\n\nbody");
        assert_eq!(lines, b"0101010 first line\n");
        let text = squash(&prefix, Some(one), two, &lines);
        assert!(text.starts_with(b"Squashed 'a/lib/' changes from 0101010..abababa\n\n0101010 first line\n\ngit-"));
        let squashed = Trailers::read(&text, &prefix).unwrap();
        assert_eq!((squashed.mainline, squashed.split), (None, Some(two)));
        assert_eq!(Trailers::read(b"git-subtree-split: 12\n", &prefix), None);
    }
}
