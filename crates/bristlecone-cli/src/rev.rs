//! Names of revisions and objects, and what is said where there is none.

use std::ffi::OsStr;

use bristlecone::{Error, Format, Kind, ObjRef};

use crate::{
    failure::{Failure, Result},
    open::Opened,
};

/// Returns the commit that `text` names.
pub(crate) fn commit(opened: &Opened, text: &OsStr) -> Result<ObjRef> {
    match object(opened, text)? {
        (Kind::Commit, at) => Ok(at),
        (kind, at) => {
            let way = "name a commit here, or look at the object with `cone show`";
            Err(Failure::usage(format!("{} is a {kind} object, no commit; {way}", at.oid)))
        }
    }
}

/// Returns the object that `text` names: a commit as [`bristlecone::Repo::revparse`] finds it, or by the text that the
/// store's format has for its id; else any object by the first digits of its id.
pub(crate) fn object(opened: &Opened, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let shown = crate::text::show(text);
    let Some(text) = text.to_str() else { return Err(unknown(&shown)) };
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
        Err(Error::WrongKind { .. }) => by_id(opened, text)?.ok_or_else(|| unknown(&shown)),
        Err(Error::Usage { reason }) => Err(Failure::usage(format!(
            "\"{shown}\" names no revision: {reason}; a name is followed by ~N and ^N alone, as in main~2 or main^2"
        ))),
        Err(error) => Err(error.into()),
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
    Ok(opened.repo.find_object(text)?)
}

fn unknown(shown: &str) -> Failure {
    Failure::negative(format!(
        "there is no \"{shown}\"; name a branch (`cone branches`), HEAD, or at least four digits of an id (`cone log`)"
    ))
}
