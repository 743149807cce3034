//! Names of objects without steps behind them, and what is said where there is none.

use std::{borrow::Cow, collections::BTreeSet, ffi::OsStr};

use bristlecone::{Error, Format, Kind, ObjRef, Oid};

use crate::{
    failure::{Failure, Result},
    open::Opened,
};
use bristlecone_any::Head;

/// Returns the object that `text` names: a commit as [`bristlecone::Repo::revparse`] finds it, or by the text that the
/// store's format has for its id; else any object by the first digits of its id.
pub(super) fn object(opened: &Opened, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let shown = crate::text::show(text);
    let Some(text) = text.to_str() else { return Err(unknown(&shown)) };
    let text = &*settled(opened, text)?;
    let found = match opened.repo.revparse(text) {
        Err(Error::NoRef { name }) => match in_digits(opened, text, &name) {
            Some(digits) => match opened.repo.revparse(&digits) {
                Err(Error::NoRef { .. }) => return Err(unknown(&shown)),
                found => found,
            },
            None => Err(Error::NoRef { name }),
        },
        found => found,
    };
    match found {
        Ok(at) => Ok((Kind::Commit, at)),
        Err(Error::NoRef { name }) if name == text => match by_id(opened, text)? {
            Some(found) => Ok(found),
            None => Err(unknown(&shown)),
        },
        Err(Error::NoRef { name }) => Err(unknown(&bristlecone::escape(name.as_bytes()))),
        // A ref to something else than a commit, or the id of it.
        Err(Error::WrongKind { .. }) => match ref_target(opened, text)? {
            Some(found) => Ok(found),
            None => by_id(opened, text)?.ok_or_else(|| unknown(&shown)),
        },
        Err(Error::Usage { reason }) => Err(Failure::usage(format!("\"{shown}\" names no revision: {reason}"))),
        Err(error) => Err(error.into()),
    }
}

/// Returns the object that a ref names or whose id this is, whatever it is: an annotated tag, which [`object`] would
/// follow, or a tree. `None` if neither is so.
pub(crate) fn itself(opened: &Opened, text: &OsStr) -> Result<Option<(Kind, ObjRef)>> {
    let Some(text) = text.to_str() else { return Ok(None) };
    if let Some(found) = ref_target(opened, text)? {
        return Ok(Some(found));
    }
    let Ok(oid) = settled(opened, text)?.parse::<Oid>() else { return Ok(None) };
    let object = opened.backend().read(&oid.into())?;
    Ok(object.map(|object| (object.kind(), ObjRef::new(oid, object.location()))))
}

fn ref_target(opened: &Opened, text: &str) -> Result<Option<(Kind, ObjRef)>> {
    let Some(name) = ref_name(opened, text)? else { return Ok(None) };
    let Some(at) = opened.repo.resolve(&name)? else { return Ok(None) };
    let Some(object) = opened.backend().read(&at)? else { return Ok(None) };
    Ok(Some((object.kind(), ObjRef::new(at.oid, object.location()))))
}

/// Returns the whole name of the ref that a name means: a tag comes before a branch.
pub(super) fn ref_name(opened: &Opened, text: &str) -> Result<Option<String>> {
    for prefix in ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"] {
        let name = format!("{prefix}{text}");
        if bristlecone::check_ref_name(&name).is_ok() && opened.repo.resolve(&name)?.is_some() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// Returns `text` with a branch or a whole id in place of what only this command knows: HEAD, where that is Git's, and in
/// a Git repository the first digits of an id, which its indexes find without reading objects.
fn settled<'t>(opened: &Opened, text: &'t str) -> Result<Cow<'t, str>> {
    let Some((backend, _)) = opened.repo.git() else { return Ok(Cow::Borrowed(text)) };
    let (base, rest) = text.split_at(text.find(['~', '^']).unwrap_or(text.len()));
    if matches!(base, "HEAD" | "@") && opened.repo.head()?.is_none() {
        return Ok(Cow::Owned(match opened.repo.checked_out()? {
            Head::Branch(name) => format!("refs/heads/{name}{rest}"),
            Head::Detached(at) => format!("{}{rest}", at.oid),
        }));
    }
    let digits = base.len() >= 4 && base.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !digits || base.len() >= 40 || ref_target(opened, base)?.is_some() {
        return Ok(Cow::Borrowed(text));
    }
    let base = base.to_ascii_lowercase();
    let (mut commits, mut others) = (BTreeSet::new(), BTreeSet::new());
    backend.odb().each_oid(&mut |oid| {
        if oid.to_string().starts_with(&base) {
            let commit = matches!(backend.odb().header(&oid)?, Some((Kind::Commit | Kind::Tag, _)));
            if commit { &mut commits } else { &mut others }.insert(oid);
        }
        Ok(())
    })?;
    // Where a commit is meant as a rule, one commit among other objects is meant.
    let found = if commits.is_empty() { others } else { commits };
    match (found.first(), found.len()) {
        (Some(oid), 1) => Ok(Cow::Owned(format!("{oid}{rest}"))),
        (Some(_), many) => {
            let way = "give more digits";
            Err(Failure::usage(format!("the ids of {many} objects begin with {base}; {way}")))
        }
        (None, _) => Ok(Cow::Borrowed(text)),
    }
}

/// Returns `text` with an id in hexadecimal in place of the commit's own text that it begins with, which named no ref.
fn in_digits(opened: &Opened, text: &str, name: &str) -> Option<String> {
    let oid = opened.repo.format().parse_commit_text(name)?;
    Some(format!("{oid}{}", text.strip_prefix(name)?))
}

fn by_id(opened: &Opened, text: &str) -> Result<Option<(Kind, ObjRef)>> {
    if text.len() < 4 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    if let (Some(_), Ok(oid)) = (opened.repo.git(), text.parse::<Oid>()) {
        let object = opened.backend().read(&oid.into())?;
        return Ok(object.map(|object| (object.kind(), ObjRef::new(oid, object.location()))));
    }
    if opened.repo.git().is_some() {
        // What is shorter was looked for before.
        return Ok(None);
    }
    Ok(opened.repo.find_object(text)?)
}

pub(super) fn unknown(shown: &str) -> Failure {
    Failure::negative(format!(
        "there is no \"{shown}\"; name a branch (`cone branches`), HEAD, or at least four digits of an id (`cone log`)"
    ))
}
