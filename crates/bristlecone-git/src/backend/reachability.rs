//! Whether everything is there that a commit leads to.

use std::collections::HashSet;

use bristlecone::{
    EntryKind, Error, Kind, Oid, RefTarget, Result,
    core::git::{self, Algorithm},
};

use super::pack_files::PACKS;
use crate::repository::{files::Files, odb::Odb, shallow::ShallowFile, zlib::TOO_LARGE};

/// A search through everything that commits lead to, which goes no further than what is trusted.
#[derive(Debug)]
pub(crate) struct Reachability<'a> {
    odb: &'a Odb,
    algorithm: Algorithm,
    // Known to be whole, with everything below.
    whole: HashSet<Oid>,
    // Commits whose parents are left out on purpose.
    shallow: HashSet<Oid>,
    // Whether values and directories may be absent, since another repository promised them.
    partial: bool,
}

impl<'a> Reachability<'a> {
    pub(crate) fn new(files: &Files, odb: &'a Odb, algorithm: Algorithm) -> Result<Self> {
        let shallow = ShallowFile::read(files, algorithm)?.commits;
        let partial = files.list(PACKS)?.iter().any(|name| name.ends_with(".promisor"));
        Ok(Self { odb, algorithm, whole: HashSet::new(), shallow, partial })
    }

    /// Takes it for granted that everything is there which this leads to.
    pub(crate) fn trust(&mut self, target: Option<&RefTarget>) {
        if let Some(RefTarget::Object(at)) = target {
            self.whole.insert(at.oid);
        }
    }

    /// Whether an object is there, or may be absent since another repository promised it.
    pub(super) fn is_there(&self, oid: &Oid) -> Result<bool> {
        Ok(self.partial || self.odb.contains(oid)?)
    }

    /// Whether everything is there, and right, that this leads to.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn is_whole(&mut self, target: Option<&RefTarget>) -> Result<bool> {
        let Some(RefTarget::Object(at)) = target else { return Ok(true) };
        let mut seen = HashSet::from([at.oid]);
        let mut stack = vec![(at.oid, None)];
        let mut raw = Vec::new();
        while let Some((oid, expected)) = stack.pop() {
            if self.whole.contains(&oid) {
                continue;
            }
            let kind = match self.read(&oid, &mut raw)? {
                Some(kind) => kind,
                None if self.partial && matches!(expected, Some(Kind::Contents | Kind::Node)) => continue,
                None => return Ok(false),
            };
            if expected.is_some_and(|expected| expected != kind) {
                return Ok(false);
            }
            let Some(children) = self.children(&oid, kind, &raw) else { return Ok(false) };
            stack.extend(children.into_iter().filter(|(child, _)| seen.insert(*child)));
        }
        self.whole.extend(seen);
        Ok(true)
    }

    /// Reads an object whose bytes hash to its id. What is too large to be read is taken for a value that is whole.
    fn read(&self, oid: &Oid, raw: &mut Vec<u8>) -> Result<Option<Kind>> {
        let read = self.odb.read(oid, raw).and_then(|kind| match kind {
            Some(kind) => self.odb.check(oid, kind, raw).map(|()| Some(kind)),
            None => Ok(None),
        });
        match read {
            Err(Error::Corrupt { reason, .. }) if reason == TOO_LARGE => Ok(Some(Kind::Contents)),
            Err(Error::Corrupt { .. }) => Ok(None),
            read => read,
        }
    }

    /// Returns what an object names; `None` if it makes no sense.
    fn children(&self, oid: &Oid, kind: Kind, raw: &[u8]) -> Option<Vec<(Oid, Option<Kind>)>> {
        Some(match kind {
            Kind::Commit => {
                let commit = git::decode_commit(self.algorithm, raw).ok()?;
                let parents = if self.shallow.contains(oid) { Vec::new() } else { commit.parents };
                let parents = parents.into_iter().map(|parent| (parent.oid(), Some(Kind::Commit)));
                parents.chain([(commit.tree.oid(), Some(Kind::Node))]).collect()
            }
            Kind::Tag => {
                let tag = git::decode_tag(self.algorithm, raw).ok()?;
                vec![(tag.target.oid, Some(tag.kind))]
            }
            Kind::Node => {
                let mut children = Vec::new();
                for entry in git::raw_entries(self.algorithm, raw) {
                    let entry = entry.ok()?;
                    match entry.kind() {
                        EntryKind::Dir => children.push((entry.oid(), Some(Kind::Node))),
                        // The commit of another repository.
                        EntryKind::Foreign => {}
                        _ => children.push((entry.oid(), Some(Kind::Contents))),
                    }
                }
                children
            }
            _ => Vec::new(),
        })
    }
}
