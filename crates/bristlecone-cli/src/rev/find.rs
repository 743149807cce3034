//! Commits that are looked for: by their messages, in reflogs, behind every ref.

use bristlecone::{Error, Kind, LogOptions, ObjRef};
use regex::bytes::Regex;

use super::name;
use crate::{
    failure::{Failure, Result},
    open::Opened,
};
use bristlecone_any::Head;

/// A regular expression that is looked for in lines.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

impl Pattern {
    pub(crate) fn new(text: &str) -> Result<Self> {
        Regex::new(text).map(Self).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let way = "put a backslash before a letter that is meant as it is";
            Failure::usage(format!("\"{text}\" is no regular expression: {reason}; {way}"))
        })
    }

    /// Whether a line of the text matches.
    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        text.split(|&byte| byte == b'\n').any(|line| self.0.is_match(line))
    }
}

/// Returns the newest commit behind any ref whose message has a line that matches.
pub(super) fn by_message(opened: &Opened, words: &str) -> Result<ObjRef> {
    let pattern = Pattern::new(words)?;
    for entry in opened.repo.log(&every_head(opened)?, LogOptions::default()) {
        let entry = entry?;
        if pattern.is_in(&entry.commit.message) {
            return Ok(entry.at);
        }
    }
    Err(Failure::negative(format!("no commit has \"{words}\" in its message; look with `cone log --all`")))
}

/// Returns the commits that refs lead to, in order of the refs' names, and last what is checked out.
pub(crate) fn every_head(opened: &Opened) -> Result<Vec<ObjRef>> {
    let mut heads = Vec::new();
    for name in opened.backend().list_refs("refs/")?.into_keys() {
        let Some(at) = opened.repo.resolve(&name)? else { continue };
        match opened.repo.peel(at) {
            Ok(at) => heads.push(at),
            // A tag of a tree or a value has no history.
            Err(Error::WrongKind { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    heads.extend(match opened.repo.checked_out()? {
        Head::Detached(at) => Some(at),
        Head::Branch(name) => opened.repo.branch(&name)?.head()?,
    });
    Ok(heads)
}

/// Returns what a ref held `back` moves ago, as its reflog says. Without a name it is the branch that is checked out.
pub(super) fn logged(opened: &Opened, base: &str, back: usize) -> Result<(Kind, ObjRef)> {
    let Some((backend, _)) = opened.repo.git() else {
        let way = "name a commit by its id, or relative to another, as in main~1";
        return Err(Failure::usage(format!("@{{N}} reads a reflog, and only Git repositories keep one; {way}")));
    };
    let name = match (base, opened.repo.checked_out()?) {
        ("", Head::Branch(branch)) => format!("refs/heads/{branch}"),
        ("" | "HEAD" | "@", _) => "HEAD".to_owned(),
        _ => name::ref_name(opened, base)?.ok_or_else(|| name::unknown(base))?,
    };
    let held = backend.refs().logged(&name)?;
    let Some(oid) = held.len().checked_sub(back + 1).and_then(|place| held.get(place)) else {
        let (many, way) = (held.len(), "`git reflog` shows them");
        return Err(Failure::negative(format!("the reflog of {name} goes back {many} moves, not {back}; {way}")));
    };
    match opened.backend().read(&(*oid).into())? {
        Some(object) => Ok((object.kind(), ObjRef::new(*oid, object.location()))),
        None => Err(name::unknown(&oid.to_string())),
    }
}
