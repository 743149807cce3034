//! Names of revisions: `HEAD`, a branch, a ref, the first digits of an id, each with `~N` and `^N` behind.

use std::ffi::OsStr;

use bristlecone::{Kind, ObjRef};

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

/// Returns the object that `text` names.
pub(crate) fn object(opened: &Opened, text: &OsStr) -> Result<(Kind, ObjRef)> {
    let shown = crate::text::show(text);
    let Some(text) = text.to_str() else { return Err(unknown(&shown)) };
    let (base, steps) = text.split_at(text.find(['~', '^']).unwrap_or(text.len()));
    let (kind, mut at) = base_object(opened, base)?.ok_or_else(|| unknown(&shown))?;
    if steps.is_empty() {
        return Ok((kind, at));
    }
    for (first_parents, count) in parse_steps(steps).ok_or_else(|| {
        Failure::usage(format!("\"{shown}\" names no revision; behind the name come ~N and ^N, as in main~2 or main^2"))
    })? {
        at = if first_parents {
            let mut at = at;
            for _ in 0..count {
                at = parent(opened, &at, 1, &shown)?;
            }
            at
        } else if count == 0 {
            at
        } else {
            parent(opened, &at, count, &shown)?
        };
    }
    Ok((Kind::Commit, at))
}

/// Parses `~N` (true) and `^N` (false), where N may be left out.
fn parse_steps(mut text: &str) -> Option<Vec<(bool, u64)>> {
    let mut steps = Vec::new();
    while let Some(sign) = text.chars().next() {
        text = &text[1..];
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let count = if end == 0 { 1 } else { text[..end].parse().ok()? };
        text = &text[end..];
        match sign {
            '~' => steps.push((true, count)),
            '^' => steps.push((false, count)),
            _ => return None,
        }
    }
    Some(steps)
}

fn parent(opened: &Opened, at: &ObjRef, number: u64, shown: &str) -> Result<ObjRef> {
    let parents = opened.repo.commit(*at)?.parents;
    let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
    parents.get(index).copied().ok_or_else(|| {
        let have = crate::text::count(parents.len() as u64, "parent", "parents");
        Failure::negative(format!("there is no \"{shown}\": commit {} has {have}", at.oid))
    })
}

fn base_object(opened: &Opened, base: &str) -> Result<Option<(Kind, ObjRef)>> {
    let name = if base == "@" || base.is_empty() { "HEAD" } else { base };
    for candidate in [name.to_owned(), format!("refs/heads/{name}"), format!("refs/{name}")] {
        if candidate != "HEAD" && !candidate.starts_with("refs/") || bristlecone::check_ref_name(&candidate).is_err() {
            continue;
        }
        if let Some(at) = opened.repo.resolve(&candidate)? {
            return Ok(opened.repo.find_object(&at.oid.to_string())?.or(Some((Kind::Commit, at))));
        }
    }
    if name.len() < 4 || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    Ok(opened.repo.find_object(name)?)
}

fn unknown(shown: &str) -> Failure {
    Failure::negative(format!(
        "there is no \"{shown}\"; name a branch (`cone branches`), HEAD, or at least four digits of an id (`cone log`)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_behind_a_name() {
        assert_eq!(parse_steps("~3^2^~"), Some(vec![(true, 3), (false, 2), (false, 1), (true, 1)]));
        assert_eq!(parse_steps("~x"), None);
        assert_eq!(parse_steps("~99999999999999999999"), None);
    }
}
