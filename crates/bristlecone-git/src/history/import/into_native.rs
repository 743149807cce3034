//! Into a store of the format `native`: objects of another shape, from which Git's bytes can be made again.
//!
//! A directory is made from the version of the same path that was made before it, by the entries that differ; its
//! root does not depend on that. Commits and tags whose bytes would not come back from their parts keep them whole, in
//! a header of ours.

use std::{collections::HashMap, sync::Arc};

use bristlecone::{
    EntryKind, Format, Kind, Location, Native, ObjRef, Oid,
    core::{
        Change, ChangeTarget, FormatError, Mode, STEP_BYTES_MAX, Source,
        git::{self, Algorithm, Git},
    },
};

use crate::history::{
    canonical::{RAW_HEADER, commit_bytes, tag_bytes},
    error::TransferError,
    known::{Bound, KnownBounds, MapWriter},
    pipeline::{
        channel::{Named, TreeBase},
        contract::{HistoryWriter, IncomingCommit, IncomingTree, Validity},
    },
    staging::{StagedLocation, Staging},
    table::{Scratch, Table},
};

/// A store of the format `native` that takes objects of Git.
pub(crate) struct IntoNative {
    native: Native,
    algorithm: Algorithm,
    staging: Staging,
    known: Arc<KnownBounds>,
    // Of those that are new here, by number less that of the first.
    objects: Table,
    commits: Table,
    // Values that tags or refs name, though directories hold them inline.
    wholes: HashMap<u32, (Oid, StagedLocation)>,
    map: MapWriter,
    empty: ObjRef,
    record: Vec<u8>,
    body: Vec<u8>,
}

impl IntoNative {
    pub(crate) fn new(
        native: Native,
        algorithm: Algorithm,
        staging: Staging,
        known: Arc<KnownBounds>,
        map: MapWriter,
        scratch: &Scratch,
    ) -> Result<Self, TransferError> {
        let width = Bound::width(&native);
        let empty = native.empty_dir(&mut staging.sink()).map_err(bristlecone::Error::from)?;
        Ok(Self {
            empty: ObjRef::from(empty.oid),
            native,
            algorithm,
            staging,
            known,
            objects: Table::new(width, scratch),
            commits: Table::new(width, scratch),
            wholes: HashMap::new(),
            map,
            record: vec![0; width],
            body: Vec::new(),
        })
    }

    /// Returns what an object is here.
    fn bound(&self, commit: bool, number: u32) -> Result<Bound, TransferError> {
        let (known, new) =
            if commit { (&self.known.commits, &self.commits) } else { (&self.known.others, &self.objects) };
        let mut record = vec![0; self.record.len()];
        match u64::from(number).checked_sub(known.len()) {
            None => known.read(number, &mut record)?,
            Some(index) => new.read(index as u32, &mut record)?,
        }
        let mut bound = Bound::decode(&record);
        if let Bound::Object { place, .. } = &mut bound {
            *place = self.staging.location(StagedLocation(*place)).0;
        }
        Ok(bound)
    }

    fn object(&self, commit: bool, number: u32) -> Result<(ObjRef, u64), TransferError> {
        match self.bound(commit, number)? {
            Bound::Object { oid, place, bytes } => Ok((ObjRef::new(oid, Location(place)), bytes)),
            _ => Err(TransferError::refused(
                "an object of the repository",
                "it is named as a directory or commit, and is none",
            )),
        }
    }

    fn set(&mut self, commit: bool, number: u32, bound: &Bound) -> Result<(), TransferError> {
        bound.encode(&mut self.record);
        let (known, new) =
            if commit { (&self.known.commits, &mut self.commits) } else { (&self.known.others, &mut self.objects) };
        Ok(new.set((u64::from(number) - known.len()) as u32, &self.record)?)
    }

    fn set_object(&mut self, commit: bool, number: u32, at: ObjRef, bytes: u64) -> Result<(), TransferError> {
        let place = self.staging.staged(at.at).0;
        self.set(commit, number, &Bound::Object { oid: at.oid, place, bytes })
    }

    /// Notes an object for the derived files, and writes them if it is time to.
    fn note(&mut self, commit: bool, oid: &Oid, number: u32, bytes: usize) -> Result<(), TransferError> {
        self.map.note(commit, oid, number, bytes);
        if self.map.is_due() { self.checkpoint() } else { Ok(()) }
    }

    /// Makes everything durable and writes the derived files.
    fn checkpoint(&mut self) -> Result<(), TransferError> {
        self.staging.flush()?;
        let mut record = vec![0; self.record.len()];
        for (commit, oid, number) in self.map.take() {
            self.bound(commit, number)?.encode(&mut record);
            self.map.add(commit, &oid, &record);
        }
        Ok(self.map.write(&*self.staging.backend)?)
    }

    /// Makes a directory of all its entries.
    fn build(&mut self, tree: &IncomingTree<'_>) -> Result<ObjRef, TransferError> {
        self.apply(tree, None, 0..tree.children.len())
    }

    /// Makes a directory of the one that it was compared with.
    fn rebuild(&mut self, tree: &IncomingTree<'_>, base: &TreeBase) -> Result<ObjRef, TransferError> {
        self.apply(tree, Some(base), base.changed.start as usize..base.changed.end as usize)
    }

    fn apply(
        &mut self,
        tree: &IncomingTree<'_>,
        base: Option<&TreeBase>,
        changed: std::ops::Range<usize>,
    ) -> Result<ObjRef, TransferError> {
        let children = &tree.children[changed.clone()];
        let entries = git::raw_entries(self.algorithm, tree.raw).skip(changed.start).take(children.len());
        let mut bounds = Vec::with_capacity(children.len());
        let mut parts = Vec::with_capacity(children.len());
        for (entry, &number) in entries.zip(children) {
            let entry = entry.map_err(|wrong| self.refused(tree, &wrong))?;
            if entry.name.len() > STEP_BYTES_MAX {
                let reason = format!(
                    "a name has {} bytes, and the format native has {STEP_BYTES_MAX} at most",
                    entry.name.len()
                );
                return Err(self.refused(tree, &reason));
            }
            let kind = entry.kind();
            bounds.push(if kind == EntryKind::Foreign { Bound::Nothing } else { self.bound(false, number)? });
            parts.push(entry);
        }
        let mut changes = Vec::with_capacity(parts.len() + 4);
        for (entry, bound) in parts.iter().zip(&bounds) {
            let kind = entry.kind();
            let target = match bound {
                Bound::Object { oid, place, bytes } => {
                    ChangeTarget::Object { at: ObjRef::new(*oid, Location(*place)), bytes: *bytes }
                }
                Bound::Inline(value) => ChangeTarget::Inline(value),
                Bound::Nothing => ChangeTarget::Foreign(entry.oid()),
            };
            changes.push(Change { step: entry.name, mode: entry.spelling(), to: Some((kind, target)) });
        }
        let root = match base {
            None => None,
            Some(base) => {
                let gone = git::raw_entries(self.algorithm, &base.replaced).map_while(Result::ok);
                changes.extend(gone.map(|entry| Change { step: entry.name, mode: Mode::USUAL, to: None }));
                Some(self.object(false, base.number)?.0)
            }
        };
        // What is set comes before what is removed, and stays of the two.
        changes.sort_by(|one, other| one.step.cmp(other.step).then(other.to.is_some().cmp(&one.to.is_some())));
        changes.dedup_by(|later, earlier| later.step == earlier.step);
        let made = self.native.update(&self.staging, &mut self.staging.sink(), root.as_ref(), &changes);
        match made {
            Ok(made) => Ok(made.unwrap_or(self.empty)),
            Err(bristlecone::Error::Format(wrong @ FormatError::Unsupported { .. })) => Err(self.refused(tree, &wrong)),
            Err(error) => Err(error.into()),
        }
    }

    fn refused(&self, tree: &IncomingTree<'_>, reason: &dyn std::fmt::Display) -> TransferError {
        let from = tree.from.map(|commit| format!(" of commit {commit}")).unwrap_or_default();
        TransferError::refused(format!("the tree {}{from}", tree.oid), reason)
    }

    fn value(&mut self, value: &[u8]) -> Result<ObjRef, TransferError> {
        let at = self.native.put_contents(&mut self.staging.sink(), value);
        Ok(at.map_err(bristlecone::Error::from)?)
    }

    /// Makes an object of a value that directories hold inline.
    fn put_whole(&mut self, number: u32, value: &[u8]) -> Result<(), TransferError> {
        let at = self.value(value)?;
        let place = self.staging.staged(at.at);
        self.wholes.insert(number, (at.oid, place));
        Ok(())
    }

    fn target_of(&self, named: Named) -> Result<ObjRef, TransferError> {
        match named {
            Named::Commit(number) => Ok(self.object(true, number)?.0),
            Named::Tree(number) | Named::Tag(number) => Ok(self.object(false, number)?.0),
            Named::Blob(number) => match self.wholes.get(&number) {
                Some(&(oid, place)) => Ok(ObjRef::new(oid, self.staging.location(place))),
                None => Ok(self.object(false, number)?.0),
            },
        }
    }
}

impl HistoryWriter for IntoNative {
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, _: u32, whole: bool) -> Result<(), TransferError> {
        self.staging.append_if_full(raw.len())?;
        let bytes = raw.len();
        if bytes <= self.native.inline_bytes_max() {
            if whole {
                self.put_whole(number, &raw)?;
            }
            self.set(false, number, &Bound::Inline(raw))?;
        } else {
            let at = self.value(&raw)?;
            self.set_object(false, number, at, bytes as u64)?;
        }
        self.note(false, oid, number, bytes)
    }

    fn tree(&mut self, tree: IncomingTree<'_>) -> Result<Validity, TransferError> {
        self.body.clear();
        if let Err(wrong) = git::tree_body(self.algorithm, tree.raw, &mut self.body) {
            return Ok(Err(wrong.to_string()));
        }
        self.staging.append_if_full(tree.raw.len())?;
        let base = tree.base.filter(|base| base.changed.len() * 2 < tree.children.len());
        let at = match base {
            Some(base) => self.rebuild(&tree, base)?,
            None => self.build(&tree)?,
        };
        self.set_object(false, tree.number, at, 0)?;
        self.note(false, tree.oid, tree.number, tree.raw.len())?;
        Ok(Ok(()))
    }

    fn existing(&mut self, _: u32, _: Location) -> Result<(), TransferError> {
        unreachable!("objects of another format are never found by Git's ids")
    }

    fn commit(&mut self, commit: IncomingCommit<'_>) -> Result<Validity, TransferError> {
        let mut decoded = match git::decode_commit(self.algorithm, commit.raw) {
            Ok(decoded) => decoded,
            Err(wrong) => return Ok(Err(wrong.to_string())),
        };
        let again = commit_bytes(Git::new(self.algorithm), decoded.clone());
        let own = decoded.headers.iter().any(|(key, _)| key == RAW_HEADER);
        if own || commit.shallow || again.map_or(true, |(_, bytes)| bytes != commit.raw) {
            decoded.headers.push((RAW_HEADER.to_vec(), commit.raw.to_vec()));
        }
        // Before locations are taken, which an append would change.
        self.staging.append_if_full(commit.raw.len())?;
        decoded.tree = self.object(false, commit.tree)?.0.into();
        decoded.parents.clear();
        let mut above = 0;
        for &parent in commit.parents {
            let (at, generation) = self.object(true, parent)?;
            decoded.parents.push(at.into());
            above = above.max(generation);
        }
        let put = self.native.put_commit(&mut self.staging.sink(), &decoded, above + 1);
        let at = put.map_err(|error| TransferError::refused(format!("the commit {}", commit.oid), error))?;
        self.set_object(true, commit.number, at, above + 1)?;
        self.note(true, commit.oid, commit.number, commit.raw.len())?;
        Ok(Ok(()))
    }

    fn commit_existing(&mut self, _: u32, _: &Oid) -> Result<(), TransferError> {
        Ok(())
    }

    fn tag(&mut self, number: u32, oid: &Oid, raw: &[u8], target: Named) -> Result<Validity, TransferError> {
        let mut tag = match git::decode_tag(self.algorithm, raw) {
            Ok(tag) => tag,
            Err(wrong) => return Ok(Err(wrong.to_string())),
        };
        let again = tag_bytes(Git::new(self.algorithm), tag.clone());
        let own = tag.headers.iter().any(|(key, _)| key == RAW_HEADER);
        if own || again.map_or(true, |(_, bytes)| bytes != raw) {
            tag.headers.push((RAW_HEADER.to_vec(), raw.to_vec()));
        }
        self.staging.append_if_full(raw.len())?;
        tag.target = self.target_of(target)?;
        if tag.kind == Kind::Contents {
            // A long value is in pieces here.
            tag.kind = self.staging.read(Kind::Contents, &tag.target)?.kind();
        }
        let put = self.native.put_tag(&mut self.staging.sink(), &tag);
        let at = put.map_err(|error| TransferError::refused(format!("the tag {oid}"), error))?;
        self.set_object(false, number, at, 0)?;
        self.note(false, oid, number, raw.len())?;
        Ok(Ok(()))
    }

    fn whole(&mut self, number: u32) -> Result<(), TransferError> {
        if let Bound::Inline(value) = self.bound(false, number)? {
            self.put_whole(number, &value)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransferError> {
        self.checkpoint()
    }

    fn named(&mut self, named: Named, _: &Oid) -> Result<ObjRef, TransferError> {
        self.target_of(named)
    }
}
