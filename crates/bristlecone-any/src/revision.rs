//! Revisions as people write them: `main~2`, `v1.0^{tree}`, `HEAD@{1}`, `trial:fruit/apple`, `:/apples`.
//!
//! A revision is a name (`name`), followed by steps that lead from one object to the next, each read from the left. It
//! means what it means in Git (gitrevisions(7)); `docs/cli.md` lists the forms.
//!
//! ```
//! use bristlecone::Info;
//! use bristlecone_any::{AnyRepo, revision};
//!
//! let repo = AnyRepo::open("memory:")?;
//! let main = repo.branch("main")?;
//! let mut tree = main.tree()?;
//! for colour in ["green", "red"] {
//!     tree.set("fruit/apple", colour)?;
//!     main.commit(&mut tree, &Info::message(colour))?;
//! }
//! let before = revision::tree(&repo, "HEAD~1".as_ref())?;
//! assert_eq!(before.get("fruit/apple")?.as_deref(), Some(&b"green"[..]));
//! assert_eq!(revision::commit(&repo, ":/gre".as_ref())?, revision::commit(&repo, "main^".as_ref())?);
//! # Ok::<(), bristlecone_any::Error>(())
//! ```

use std::{collections::HashSet, ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::{CommitId, EntryKind, Error as StoreError, Kind, ObjRef, Path, core::FormatError, escape};

use crate::{AnyRepo, Tree, error::Result, path};

mod find;
mod name;
mod select;

pub use crate::error::RevisionError;
pub use find::{Pattern, every_head};
pub use name::itself;
pub use select::{Selection, pair, select};

/// Returns the commit that `text` names.
///
/// # Errors
/// [`bristlecone::Error::NoRef`] for what is not there; a [`RevisionError`] for what is no commit or makes no sense; those of
/// the backend.
pub fn commit(repo: &AnyRepo, text: &OsStr) -> Result<CommitId> {
    match object(repo, text)? {
        (Kind::Commit, at) => Ok(repo.commit_id(at)),
        (Kind::Tag, at) => Ok(repo.peel(at)?),
        (kind, at) => Err(RevisionError::WrongKind { oid: at.oid, found: kind, tree: false }.into()),
    }
}

/// Returns the tree that `text` names: that of a commit, a directory, or one in a commit (`REV:path`).
///
/// # Errors
/// As [`commit`]; [`crate::Error::NothingAt`] and [`crate::Error::NotADirectory`].
pub fn tree(repo: &AnyRepo, text: &OsStr) -> Result<Tree> {
    if let Some((tree, path)) = place(repo, text)? {
        if path.is_root() {
            return Ok(tree);
        }
        path::check_dir(&tree, &path)?;
        let found = tree.entry(&path)?;
        return match found.and_then(|entry| entry.tree()) {
            Some(below) => Ok(below),
            None => Err(path::nothing_at(&tree, &path)?),
        };
    }
    match object(repo, text)? {
        (Kind::Commit, at) => Ok(repo.checkout(repo.commit_id(at))?),
        (Kind::Tag, at) => Ok(repo.checkout(repo.peel(at)?)?),
        (Kind::Node, at) => Ok(repo.tree_at(repo.tree_id(at))),
        (kind, at) => Err(RevisionError::WrongKind { oid: at.oid, found: kind, tree: true }.into()),
    }
}

/// Takes `REV:path` apart: the tree of the revision, and the path in it. `None` for what is no such text.
///
/// # Errors
/// As [`tree`].
pub fn place(repo: &AnyRepo, text: &OsStr) -> Result<Option<(Tree, Path)>> {
    let bytes = text.as_bytes();
    let Some(colon) = colon(bytes).filter(|_| !bytes.starts_with(b":/")) else { return Ok(None) };
    if colon == 0 {
        let text = escape(bytes);
        let reason = format!("only Git knows what is staged; write HEAD{text} for what is committed");
        return Err(RevisionError::Syntax { text, reason }.into());
    }
    let (rev, path) = (&bytes[..colon], &bytes[colon + 1..]);
    let tree = tree(repo, OsStr::from_bytes(rev))?;
    let path = path::parse(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)))?;
    Ok(Some((tree, path)))
}

/// Returns where the first colon is that is not between braces.
fn colon(text: &[u8]) -> Option<usize> {
    let mut depth = 0_i64;
    text.iter().position(|byte| {
        depth += i64::from(*byte == b'{') - i64::from(*byte == b'}');
        *byte == b':' && depth <= 0
    })
}

/// Returns the object that `text` names. A tag that is named as it is leads to its commit.
///
/// # Errors
/// As [`commit`], and [`crate::Error::NothingAt`].
pub fn object(repo: &AnyRepo, text: &OsStr) -> Result<(Kind, ObjRef)> {
    if let Some((tree, path)) = place(repo, text)? {
        return object_at(repo, &tree, &path, text);
    }
    let shown = escape(text.as_bytes());
    let Some(text) = text.to_str() else { return Err(name::unknown(&shown)) };
    if let Some(words) = text.strip_prefix(":/") {
        return Ok((Kind::Commit, find::by_message(repo, words)?.into()));
    }
    let parts = Parts::parse(text).map_err(|reason| {
        let way = "a name is followed by ~N, ^N, ^{KIND} and @{N} alone, as in main~2, main^2, v1^{tree} or main@{1}";
        RevisionError::Syntax { text: shown, reason: format!("{reason}; {way}") }
    })?;
    let mut found = match parts.steps.first() {
        Some((Step::Logged(back), _)) => find::logged(repo, parts.base, *back)?,
        Some((Step::Peel(_), _)) => match name::itself(repo, OsStr::new(parts.base))? {
            Some(found) => found,
            None => name::object(repo, OsStr::new(parts.base))?,
        },
        _ => name::object(repo, OsStr::new(parts.base))?,
    };
    for (step, end) in &parts.steps {
        found = step.apply(repo, found, &text[..*end])?;
    }
    Ok(found)
}

/// Returns the object at a path of a tree.
fn object_at(repo: &AnyRepo, tree: &Tree, path: &Path, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let (found, shown) = (tree.entry(path)?, escape(text.as_bytes()));
    let at = match &found {
        None if path.is_root() => Some(tree.root()?.into()),
        None => return Err(path::nothing_at(tree, path)?),
        Some(entry) if entry.kind() == EntryKind::Foreign => {
            return Err(RevisionError::Foreign { text: shown }.into());
        }
        Some(entry) => entry.object(),
    };
    let Some(at) = at else {
        return Err(RevisionError::Inline { text: shown }.into());
    };
    match repo.backend().read(&at)? {
        Some(object) => Ok((object.kind(), ObjRef::new(at.oid, object.location()))),
        None => {
            let kind =
                if found.is_none_or(|entry| entry.kind() == EntryKind::Dir) { Kind::Node } else { Kind::Contents };
            Err(StoreError::Missing { kind, oid: at.oid }.into())
        }
    }
}

/// A revision taken apart: a name, and the steps after it, each with where it ends in the text.
struct Parts<'t> {
    base: &'t str,
    steps: Vec<(Step, usize)>,
}

/// One step from an object to another.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// `~N`, `^N`: written as they are.
    Line(String),
    /// `^{KIND}`: what tags, and for a tree the commit, lead to.
    Peel(Wanted),
    /// `@{N}`, behind a name: what a ref held N moves ago.
    Logged(usize),
}

/// What `^{KIND}` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Untagged,
    Any,
    Kind(Kind),
}

impl<'t> Parts<'t> {
    fn parse(text: &'t str) -> Result<Self, &'static str> {
        let base = [text.find(['~', '^']), text.find("@{")].into_iter().flatten().min().unwrap_or(text.len());
        let (mut at, mut steps) = (base, Vec::new());
        while at < text.len() {
            let (step, bytes) = Step::parse(&text[at..])?;
            if matches!(step, Step::Logged(_)) && at > base {
                return Err("@{N} follows the name of a ref alone");
            }
            at += bytes;
            steps.push((step, at));
        }
        Ok(Self { base: &text[..base], steps })
    }
}

impl Step {
    /// Reads the step at the start of a text; returns it with its length.
    fn parse(text: &str) -> Result<(Self, usize), &'static str> {
        if text.starts_with("^{") || text.starts_with("@{") {
            let end = text.find('}').ok_or("a brace is not closed")?;
            let inner = &text[2..end];
            let step = if text.starts_with('@') { Self::logged(inner)? } else { Self::peel(inner)? };
            return Ok((step, end + 1));
        }
        if !text.starts_with(['~', '^']) {
            return Err("after the name of a commit only steps may follow");
        }
        let digits = text[1..].find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len() - 1);
        Ok((Self::Line(text[..=digits].to_owned()), 1 + digits))
    }

    fn peel(kind: &str) -> Result<Self, &'static str> {
        Ok(Self::Peel(match kind {
            "" => Wanted::Untagged,
            "object" => Wanted::Any,
            "commit" => Wanted::Kind(Kind::Commit),
            "tree" => Wanted::Kind(Kind::Node),
            "blob" => Wanted::Kind(Kind::Contents),
            "tag" => Wanted::Kind(Kind::Tag),
            _ => return Err("the kinds are commit, tree, blob, tag and object"),
        }))
    }

    fn logged(number: &str) -> Result<Self, &'static str> {
        number.parse().map(Self::Logged).map_err(|_| "between the braces of @{N} stands how many moves ago")
    }

    /// Goes on from an object; `text` is the revision up to here.
    fn apply(&self, repo: &AnyRepo, (kind, at): (Kind, ObjRef), text: &str) -> Result<(Kind, ObjRef)> {
        match self {
            Self::Logged(_) => Ok((kind, at)),
            Self::Peel(wanted) => wanted.peel(repo, (kind, at), text),
            Self::Line(line) => {
                let (kind, at) = Wanted::Kind(Kind::Commit).peel(repo, (kind, at), text)?;
                match repo.revparse(&format!("{}{line}", at.oid)) {
                    Ok(at) => Ok((kind, at.into())),
                    Err(StoreError::NoRef { .. }) => Err(name::unknown(&escape(text.as_bytes()))),
                    Err(StoreError::Usage { reason }) => {
                        Err(RevisionError::Syntax { text: text.to_owned(), reason: reason.to_owned() }.into())
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

impl Wanted {
    fn peel(self, repo: &AnyRepo, (mut kind, mut at): (Kind, ObjRef), text: &str) -> Result<(Kind, ObjRef)> {
        if self == Self::Any || self == Self::Kind(kind) {
            return Ok((kind, at));
        }
        let mut passed = HashSet::new();
        while kind == Kind::Tag {
            // Forged tags may lead to each other in a circle.
            if !passed.insert(at.oid) {
                let source = FormatError::Inconsistent { kind, reason: "it leads back to itself" };
                return Err(StoreError::BadObject { oid: at.oid, source }.into());
            }
            let tag = repo.read_tag(at.into())?;
            (kind, at) = (tag.kind, tag.target);
        }
        match (self, kind) {
            (Self::Untagged, _) => Ok((kind, at)),
            (Self::Kind(Kind::Node), Kind::Commit) => {
                Ok((Kind::Node, repo.read_commit(repo.commit_id(at))?.tree.into()))
            }
            (Self::Kind(Kind::Contents), Kind::Pieces) => Ok((kind, at)),
            (Self::Kind(wanted), _) if wanted == kind => Ok((kind, at)),
            (Self::Kind(wanted), _) => {
                Err(RevisionError::Peel { text: escape(text.as_bytes()), found: kind, wanted }.into())
            }
            (Self::Any, _) => Ok((kind, at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_a_name_and_steps() {
        let parts = Parts::parse("main@{2}~3^2^{tree}").unwrap_or_else(|reason| panic!("{reason}"));
        let steps: Vec<&Step> = parts.steps.iter().map(|(step, _)| step).collect();
        let wanted = [
            Step::Logged(2),
            Step::Line("~3".to_owned()),
            Step::Line("^2".to_owned()),
            Step::Peel(Wanted::Kind(Kind::Node)),
        ];
        assert_eq!((parts.base, steps), ("main", wanted.iter().collect()));
        for text in ["main~x", "main^{", "main^{trees}", "main~1@{1}", "main@{x}", "main~1x", "main@{-1}"] {
            assert!(Parts::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_colon_between_braces_is_none() {
        assert_eq!(colon(b"main:a:b"), Some(4));
        assert_eq!(colon(b"main^{/a:b}:c"), Some(11));
        assert_eq!(colon(b"main"), None);
    }
}
