//! Which commits and paths the words of a command mean: `A..B ^C -- fruit`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use bristlecone::{ObjRef, Path};

use crate::{
    failure::{Code, Failure, Result},
    open::Opened,
    text,
};

/// What a log is asked for.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// Where it begins, and what it leaves out, each in the order in which it was named.
    pub(crate) heads: Vec<ObjRef>,
    pub(crate) exclude: Vec<ObjRef>,
    /// So many of the heads were named before anything that is left out.
    pub(crate) heads_before: usize,
    /// The paths, from the top of the tree.
    pub(crate) paths: Vec<Path>,
    /// Whether any revision was named.
    pub(crate) named: bool,
}

impl Selection {
    fn head(&mut self, at: ObjRef) {
        self.named = true;
        self.heads.push(at);
        self.heads_before += usize::from(self.exclude.is_empty());
    }

    fn exclude(&mut self, at: ObjRef) {
        self.named = true;
        self.exclude.push(at);
    }

    /// Adds a revision, or several.
    fn add(&mut self, opened: &Opened, word: &OsStr) -> Result<()> {
        if let Some(range) = Range::parse(opened, word)? {
            range.exclude.into_iter().for_each(|at| self.exclude(at));
            range.heads.into_iter().for_each(|at| self.head(at));
        } else if let Some(rest) = word.as_bytes().strip_prefix(b"^") {
            self.exclude(super::commit(opened, OsStr::from_bytes(rest))?);
        } else {
            self.head(super::commit(opened, word)?);
        }
        Ok(())
    }
}

/// Two revisions with dots between them, as what it leads to and what it leaves out.
struct Range {
    heads: Vec<ObjRef>,
    exclude: Vec<ObjRef>,
    // Of A..B and A...B what stands before the dots, or for the latter the best common ancestor.
    before: Option<ObjRef>,
}

impl Range {
    /// Reads `A..B` or `A...B`; an empty side is HEAD. `None` for a word without dots between.
    fn parse(opened: &Opened, word: &OsStr) -> Result<Option<Self>> {
        let bytes = word.as_bytes();
        let Some(dots) = bytes.windows(2).position(|two| two == b"..") else { return Ok(None) };
        // A path, or a path in a revision.
        if bytes == b".." || bytes.starts_with(b"../") || bytes[..dots].contains(&b':') {
            return Ok(None);
        }
        let symmetric = bytes[dots + 2..].starts_with(b".");
        let (one, other) = (&bytes[..dots], &bytes[dots + 2 + usize::from(symmetric)..]);
        let side = |side: &[u8]| {
            let side = if side.is_empty() { b"HEAD" } else { side };
            super::commit(opened, OsStr::from_bytes(side))
        };
        let (one, other) = (side(one)?, side(other)?);
        Ok(Some(if symmetric {
            let bases = opened.repo.merge_bases(one, other)?;
            Self { heads: vec![one, other], before: bases.first().copied(), exclude: bases }
        } else {
            Self { heads: vec![other], before: Some(one), exclude: vec![one] }
        }))
    }
}

/// Returns before and after of `A..B`, and of `A...B`, where before is the best common ancestor. `None` for another word.
pub(crate) fn pair(opened: &Opened, word: &OsStr) -> Result<Option<(ObjRef, ObjRef)>> {
    let Some(range) = Range::parse(opened, word)? else { return Ok(None) };
    let Some(after) = range.heads.last() else { return Ok(None) };
    match range.before {
        Some(before) => Ok(Some((before, *after))),
        None => {
            let way = "compare the two as they are, with a blank in place of the dots";
            Err(Failure::negative(format!("the two sides of {} have no common ancestor; {way}", text::show(word))))
        }
    }
}

/// Returns what words mean, each a revision or a path; `rest` are those behind `--`, which are paths, where that stands.
///
/// Without `--`, a word must be one of the two and not the other. There are paths in what is checked out, or in `-b`, and
/// in the commits that the words name.
pub(crate) fn select(opened: &Opened, words: &[OsString], rest: Option<&[OsString]>) -> Result<Selection> {
    let mut found = Selection::default();
    let Some(rest) = rest else {
        let mut others = Vec::new();
        for word in words {
            match found.add(opened, word) {
                Ok(()) => others.push((word, None)),
                Err(failure) if [Code::Negative, Code::Usage].map(|code| code as u8).contains(&failure.exit_code()) => {
                    others.push((word, Some(failure)));
                }
                Err(failure) => return Err(failure),
            }
        }
        let places = places(opened, &found)?;
        for (word, failure) in others {
            match (is_there(&places, word)?, failure) {
                (None, None) => {}
                (Some(path), Some(_)) => found.paths.push(path),
                (Some(_), None) => return Err(ambiguous(word)),
                (None, Some(failure)) => return Err(neither(word, failure)),
            }
        }
        return Ok(found);
    };
    for word in words {
        found.add(opened, word)?;
    }
    found.paths = rest.iter().map(|path| path_of(path)).collect::<Result<_>>()?;
    Ok(found)
}

/// Returns the trees in which paths are looked for.
fn places(opened: &Opened, found: &Selection) -> Result<Vec<bristlecone_any::Tree>> {
    let mut trees = Vec::new();
    for at in found.heads.iter().copied().chain(opened.commit_to_read(None)?) {
        trees.push(opened.repo.checkout(at)?);
    }
    Ok(trees)
}

/// Returns the path that a word is, if there is something there.
fn is_there(trees: &[bristlecone_any::Tree], word: &OsStr) -> Result<Option<Path>> {
    let Ok(path) = path_of(word) else { return Ok(None) };
    for tree in trees {
        if path.is_root() || tree.get(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the path that a word is; a directory may be written with a slash at its end.
fn path_of(word: &OsStr) -> Result<Path> {
    let bytes = word.as_bytes();
    text::path(OsStr::from_bytes(bytes.strip_suffix(b"/").unwrap_or(bytes)))
}

fn ambiguous(word: &OsStr) -> Failure {
    let word = text::show(word);
    Failure::usage(format!(
        "\"{word}\" is a revision and a path; write `{word} --` if the revision is meant, `-- {word}` if the path is"
    ))
}

fn neither(word: &OsStr, failure: Failure) -> Failure {
    let word = text::show(word);
    if failure.exit_code() == Code::Usage as u8 {
        return failure;
    }
    Failure::negative(format!(
        "\"{word}\" is no revision and no path; write `-- {word}` for a path that is not there any more; `cone branches` \
         and `cone tag` list names of revisions"
    ))
}
