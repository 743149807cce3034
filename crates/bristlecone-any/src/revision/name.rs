//! Names of objects without steps behind them, and what is said where there is none.

use std::{borrow::Cow, collections::BTreeSet, ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::{Error as StoreError, Format, Kind, ObjRef, Oid, OidPrefix};

use super::RevisionError;
use crate::{
    AnyRepo, Head,
    error::{Error, Result},
};

/// Returns the object that `text` names: a commit as [`bristlecone::Repo::revparse`] finds it, or by the text that the
/// store's format has for its id; else any object by the first digits of its id.
pub(super) fn object(repo: &AnyRepo, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let shown = bristlecone::escape(text.as_bytes());
    let Some(text) = text.to_str() else { return Err(unknown(&shown)) };
    let text = &*settled(repo, text)?;
    let found = match repo.revparse(text) {
        Err(StoreError::NoRef { name }) => match in_digits(repo, text, &name) {
            Some(digits) => match repo.revparse(&digits) {
                Err(StoreError::NoRef { .. }) => return Err(unknown(&shown)),
                found => found,
            },
            None => Err(StoreError::NoRef { name }),
        },
        found => found,
    };
    match found {
        Ok(at) => Ok((Kind::Commit, at.into())),
        Err(StoreError::NoRef { name }) if name == text => match by_id(repo, text)? {
            Some(found) => Ok(found),
            None => Err(unknown(&shown)),
        },
        Err(StoreError::NoRef { name }) => Err(unknown(&bristlecone::escape(name.as_bytes()))),
        // A ref to something else than a commit, or the id of it.
        Err(StoreError::WrongKind { .. }) => match ref_target(repo, text)? {
            Some(found) => Ok(found),
            None => by_id(repo, text)?.ok_or_else(|| unknown(&shown)),
        },
        // The digits of a commit that was cut may be those of another object.
        Err(error @ StoreError::Absent { .. }) => by_id(repo, text)?.ok_or_else(|| error.into()),
        Err(StoreError::Usage { reason }) => {
            Err(RevisionError::Syntax { text: shown, reason: reason.to_owned() }.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Returns the object that a ref names or whose id this is, whatever it is: an annotated tag, which [`super::object`]
/// would follow, or a tree. `None` if neither is so.
///
/// # Errors
/// Those of the backend; [`RevisionError::Ambiguous`].
pub fn itself(repo: &AnyRepo, text: &OsStr) -> Result<Option<(Kind, ObjRef)>> {
    let Some(text) = text.to_str() else { return Ok(None) };
    if let Some(found) = ref_target(repo, text)? {
        return Ok(Some(found));
    }
    let Ok(oid) = settled(repo, text)?.parse::<Oid>() else { return Ok(None) };
    let object = repo.backend().read(&oid.into())?;
    Ok(object.map(|object| (object.kind(), ObjRef::new(oid, object.location()))))
}

fn ref_target(repo: &AnyRepo, text: &str) -> Result<Option<(Kind, ObjRef)>> {
    let Some(name) = ref_name(repo, text)? else { return Ok(None) };
    let Some(at) = repo.resolve(&name)? else { return Ok(None) };
    let Some(object) = repo.backend().read(&at)? else { return Ok(None) };
    Ok(Some((object.kind(), ObjRef::new(at.oid, object.location()))))
}

/// Returns the whole name of the ref that a name means: a tag comes before a branch.
pub(super) fn ref_name(repo: &AnyRepo, text: &str) -> Result<Option<String>> {
    for prefix in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
        let name = format!("{prefix}{text}");
        if bristlecone::check_ref_name(&name).is_ok() && repo.resolve(&name)?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns `text` with a branch or a whole id in place of what only this crate knows: HEAD, where none is set, and in
/// a Git repository the first digits of an id, which its indexes find without reading objects.
fn settled<'t>(repo: &AnyRepo, text: &'t str) -> Result<Cow<'t, str>> {
    let (base, rest) = text.split_at(text.find(['~', '^']).unwrap_or(text.len()));
    if matches!(base, "HEAD" | "@") && repo.head()?.is_none() {
        return Ok(Cow::Owned(match repo.checked_out()? {
            Head::Branch(name) => format!("refs/heads/{name}{rest}"),
            Head::Detached(at) => format!("{}{rest}", at.oid()),
        }));
    }
    let Some((backend, layout)) = repo.git() else { return Ok(Cow::Borrowed(text)) };
    let is_short = (4..2 * layout.algorithm.oid_bytes()).contains(&base.len());
    let prefix = match base.parse::<OidPrefix>() {
        Ok(prefix) if is_short && ref_target(repo, base)?.is_none() => prefix,
        _ => return Ok(Cow::Borrowed(text)),
    };
    let (mut commits, mut others) = (BTreeSet::new(), BTreeSet::new());
    backend.odb().each_with_prefix(&prefix, &mut |oid| {
        let commit = matches!(backend.odb().header(&oid)?, Some((Kind::Commit | Kind::Tag, _)));
        if commit { &mut commits } else { &mut others }.insert(oid);
        Ok(())
    })?;
    // Where a commit is meant as a rule, one commit among other objects is meant.
    let found = if commits.is_empty() { others } else { commits };
    match (found.first(), found.len()) {
        (Some(oid), 1) => Ok(Cow::Owned(format!("{oid}{rest}"))),
        (Some(_), many) => Err(RevisionError::Ambiguous { digits: prefix.to_string(), count: many }.into()),
        (None, _) => Ok(Cow::Borrowed(text)),
    }
}

/// Returns `text` with an id in hexadecimal in place of the commit's own text that it begins with, which named no ref.
fn in_digits(repo: &AnyRepo, text: &str, name: &str) -> Option<String> {
    let oid = repo.format().parse_commit_text(name)?;
    Some(format!("{oid}{}", text.strip_prefix(name)?))
}

fn by_id(repo: &AnyRepo, text: &str) -> Result<Option<(Kind, ObjRef)>> {
    if text.len() < 4 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    if let (Some(_), Ok(oid)) = (repo.git(), text.parse::<Oid>()) {
        let object = repo.backend().read(&oid.into())?;
        return Ok(object.map(|object| (object.kind(), ObjRef::new(oid, object.location()))));
    }
    if repo.git().is_some() {
        // What is shorter was looked for before.
        return Ok(None);
    }
    Ok(repo.find_object(text)?)
}

pub(super) fn unknown(shown: &str) -> Error {
    StoreError::NoRef { name: shown.to_owned() }.into()
}
