//! Revisions as people write them: `main~2`, `v1.0^{tree}`, `HEAD@{1}`, `trial:fruit/apple`, `:/apples`.
//!
//! A revision is a name (`name`), followed by steps that lead from one object to the next, each read from the left. It
//! means what it means in Git (gitrevisions(7)); `docs/cli.md` lists the forms.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::{EntryKind, Error, Kind, ObjRef, Path};

use crate::{
    entry,
    failure::{Failure, Result},
    open::Opened,
    text,
};
use bristlecone_any::Tree;

mod find;
mod moment;
mod name;
mod select;

pub(crate) use find::{Pattern, every_head};
pub(crate) use moment::moment;
pub(crate) use name::itself;
pub(crate) use select::{Selection, pair, select};

/// So many tags of tags are followed.
const TAGS_MAX: usize = 16;

/// Returns the commit that `text` names.
pub(crate) fn commit(opened: &Opened, text: &OsStr) -> Result<ObjRef> {
    match object(opened, text)? {
        (Kind::Commit, at) => Ok(at),
        (Kind::Tag, at) => Ok(opened.repo.peel(at)?),
        (kind, at) => {
            let way = "name a commit here, or look at the object with `cone show`";
            Err(Failure::usage(format!("{} is a {}, no commit; {way}", at.oid, entry::object_kind(kind))))
        }
    }
}

/// Returns the tree that `text` names: that of a commit, a directory, or one in a commit (`REV:path`).
pub(crate) fn tree(opened: &Opened, text: &OsStr) -> Result<Tree> {
    if let Some((tree, path)) = place(opened, text)? {
        if path.is_root() {
            return Ok(tree);
        }
        entry::check_dir(&tree, &path)?;
        let found = tree.get(&path)?;
        return match found.and_then(|entry| entry.tree()) {
            Some(below) => Ok(below),
            None => Err(entry::nothing_at(&tree, &path)?),
        };
    }
    match object(opened, text)? {
        (Kind::Commit, at) => Ok(opened.repo.checkout(at)?),
        (Kind::Tag, at) => Ok(opened.repo.checkout(opened.repo.peel(at)?)?),
        (Kind::Node, at) => Ok(opened.repo.tree_at(at)),
        (kind, at) => {
            let way = "name a commit or a directory here, or look at the object with `cone show`";
            Err(Failure::usage(format!(
                "{} is a {}, no commit and no directory; {way}",
                at.oid,
                entry::object_kind(kind)
            )))
        }
    }
}

/// Takes `REV:path` apart: the tree of the revision, and the path in it. `None` for what is no such text.
pub(crate) fn place(opened: &Opened, text: &OsStr) -> Result<Option<(Tree, Path)>> {
    let bytes = text.as_bytes();
    let Some(colon) = colon(bytes).filter(|_| !bytes.starts_with(b":/")) else { return Ok(None) };
    if colon == 0 {
        let shown = text::show(text);
        return Err(Failure::usage(format!(
            "\"{shown}\" names no revision: only Git knows what is staged; write HEAD{shown} for what is committed"
        )));
    }
    let (rev, path) = (&bytes[..colon], &bytes[colon + 1..]);
    let tree = tree(opened, OsStr::from_bytes(rev))?;
    let path = text::path(OsStr::from_bytes(path.strip_suffix(b"/").unwrap_or(path)))?;
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
pub(crate) fn object(opened: &Opened, text: &OsStr) -> Result<(Kind, ObjRef)> {
    if let Some((tree, path)) = place(opened, text)? {
        return object_at(opened, &tree, &path, text);
    }
    let shown = text::show(text);
    let Some(text) = text.to_str() else { return Err(name::unknown(&shown)) };
    if let Some(words) = text.strip_prefix(":/") {
        return Ok((Kind::Commit, find::by_message(opened, words)?));
    }
    let parts = Parts::parse(text).map_err(|reason| {
        Failure::usage(format!(
            "\"{shown}\" names no revision: {reason}; a name is followed by ~N, ^N, ^{{KIND}} and @{{N}} alone, as in \
             main~2, main^2, v1^{{tree}} or main@{{1}}"
        ))
    })?;
    let mut found = match parts.steps.first() {
        Some((Step::Logged(back), _)) => find::logged(opened, parts.base, *back)?,
        Some((Step::Peel(_), _)) => match name::itself(opened, OsStr::new(parts.base))? {
            Some(found) => found,
            None => name::object(opened, OsStr::new(parts.base))?,
        },
        _ => name::object(opened, OsStr::new(parts.base))?,
    };
    for (step, end) in &parts.steps {
        found = step.apply(opened, found, &text[..*end])?;
    }
    Ok(found)
}

/// Returns the object at a path of a tree.
fn object_at(opened: &Opened, tree: &Tree, path: &Path, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let (found, shown) = (tree.get(path)?, text::show(text));
    let at = match &found {
        None if path.is_root() => Some(tree.root()?.into()),
        None => return Err(entry::nothing_at(tree, path)?),
        Some(entry) if entry.kind() == EntryKind::Foreign => {
            return Err(Failure::negative(format!("{shown} is an id of another store; see it with `cone list -l`")));
        }
        Some(entry) => entry.object(),
    };
    let Some(at) = at else {
        let way = "read it with `cone show` or `cone get`";
        return Err(Failure::usage(format!("{shown} is kept in its directory and has no id of its own; {way}")));
    };
    match opened.backend().read(&at)? {
        Some(object) => Ok((object.kind(), ObjRef::new(at.oid, object.location()))),
        None => {
            let kind =
                if found.is_none_or(|entry| entry.kind() == EntryKind::Dir) { Kind::Node } else { Kind::Contents };
            Err(Error::Missing { kind, oid: at.oid }.into())
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
    fn apply(&self, opened: &Opened, (kind, at): (Kind, ObjRef), text: &str) -> Result<(Kind, ObjRef)> {
        match self {
            Self::Logged(_) => Ok((kind, at)),
            Self::Peel(wanted) => wanted.peel(opened, (kind, at), text),
            Self::Line(line) => {
                let (kind, at) = Wanted::Kind(Kind::Commit).peel(opened, (kind, at), text)?;
                match opened.repo.revparse(&format!("{}{line}", at.oid)) {
                    Ok(at) => Ok((kind, at)),
                    Err(Error::NoRef { .. }) => Err(name::unknown(&bristlecone::escape(text.as_bytes()))),
                    Err(Error::Usage { reason }) => {
                        Err(Failure::usage(format!("\"{text}\" names no revision: {reason}")))
                    }
                    Err(error) => Err(error.into()),
                }
            }
        }
    }
}

impl Wanted {
    fn peel(self, opened: &Opened, (mut kind, mut at): (Kind, ObjRef), text: &str) -> Result<(Kind, ObjRef)> {
        if self == Self::Any || self == Self::Kind(kind) {
            return Ok((kind, at));
        }
        for _ in 0..TAGS_MAX {
            if kind != Kind::Tag {
                break;
            }
            let tag = opened.repo.tag(at)?;
            (kind, at) = (tag.kind, tag.target);
        }
        match (self, kind) {
            (Self::Untagged, _) => Ok((kind, at)),
            (Self::Kind(Kind::Node), Kind::Commit) => Ok((Kind::Node, opened.repo.commit(at)?.tree)),
            (Self::Kind(Kind::Contents), Kind::Pieces) => Ok((kind, at)),
            (Self::Kind(wanted), _) if wanted == kind => Ok((kind, at)),
            (Self::Kind(wanted), _) => {
                let (shown, way) = (bristlecone::escape(text.as_bytes()), "`cone show` shows what it is");
                Err(Failure::negative(format!(
                    "{shown} leads to a {}, and to no {wanted}; {way}",
                    entry::object_kind(kind)
                )))
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
