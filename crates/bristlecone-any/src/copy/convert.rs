//! Between formats: commits one after the other, parents first.

use std::collections::{BTreeSet, HashMap, HashSet};

use bristlecone::{Batch, CommitId, Error as StoreError, Format, Kind, ObjRef, Oid, PeeledTags, Tag};
use bristlecone_git::history::Status;

use self::{
    rules::Rules,
    source::Source,
    tree::{TreeDifferences, TreeEdits, Unwritten},
};
use super::{
    CopyError, CopyJob, CopyReport,
    checkpoint::Checkpoint,
    history::{self, NewCommit, Tips, peeled},
    loss::{LossKind, Losses},
    map::{CommitMap, HistoryPart},
    refs::Foreseen,
};
use crate::{error::Result, format::Tree, repo::AnyRepo};

mod rules;
mod source;
mod tree;

pub(super) fn copy(job: &CopyJob<'_>, progress: &mut dyn FnMut(Status)) -> Result<CopyReport> {
    let CopyJob { from, to, wanted, options } = *job;
    // Keeps what is written from a sweep until refs lead to it.
    let held = to.tree();
    let tips = Tips::of(from, wanted)?;
    let shallow = from.shallow()?;
    let part = match (shallow.is_empty(), from.backend().absent()?.is_empty()) {
        (false, _) => HistoryPart::Shallow,
        (true, false) => HistoryPart::Cut,
        (true, true) => HistoryPart::Whole,
    };
    let map = converted(job, &tips, &shallow, part, progress)?;
    let new = history::missing(from, &tips.commits, &shallow, &mut |oid| map.is_there(oid), progress)?;
    // Their children must know what they follow. They and what they lose were counted when they were left out.
    let again = map.left_out_before(&new);
    let commits = (new.len() - again.len()) as u64;
    let mut report = CopyReport { converted: true, commits, ..CopyReport::default() };
    if options.strict || options.dry_run {
        let (losses, left_out) = survey(job, &new, &again, progress)?;
        report.losses = losses.list();
        if options.strict && !report.losses.is_empty() {
            return Err(CopyError::Losses { format: to.format().name(), losses: report.losses }.into());
        }
        if options.dry_run {
            let originals = Some(map.originals());
            report.refs = Foreseen { from, to, wanted, force: options.force, originals, left_out }.refs()?;
            return Ok(report);
        }
    }
    let mut converter = Converter::new(from, to, map);
    let mut checkpoint = Checkpoint::new(to, options.checkpoint_bytes);
    let mut status = Status { commits_found: report.commits, commits_total: report.commits, ..Status::default() };
    for one in &new {
        let before = converter.bytes;
        let again = again.contains(&one.id.oid());
        let told = again.then(|| std::mem::take(&mut converter.losses));
        if let Some(copy) = converter.convert(one)? {
            checkpoint.add(one.id.oid(), copy.oid(), &one.parents);
        }
        if let Some(told) = told {
            converter.losses = told;
        }
        status = Status {
            commits: status.commits + u64::from(!again),
            objects: converter.values,
            bytes: converter.bytes,
            ..status
        };
        if checkpoint.is_due(converter.bytes - before) && part != HistoryPart::Shallow {
            // What refs note counts for a history that is whole.
            if part == HistoryPart::Whole {
                checkpoint.save()?;
            } else {
                checkpoint.flush()?;
            }
            converter.map.save()?;
        }
        progress(status);
    }
    let targets = wanted.targets(to, |name, at| converter.target(name, at))?;
    to.flush()?;
    (report.refs, report.head) = targets.reach(to, options.force)?;
    // The copy is whole. Without the map the next one takes longer, and removes the checkpoints that stayed.
    let _ = converter.map.save();
    let _ = checkpoint.end();
    (report.objects, report.bytes) = (converter.values, converter.bytes);
    report.losses = converter.losses.list();
    drop(held);
    Ok(report)
}

/// Returns which commits were converted, as far as that counts for what the original has of its history.
fn converted<'c>(
    job: &CopyJob<'c>,
    tips: &Tips,
    shallow: &HashSet<Oid>,
    part: HistoryPart,
    progress: &mut dyn FnMut(Status),
) -> Result<CommitMap<'c>> {
    let CopyJob { from, to, .. } = *job;
    let mut map = CommitMap::read(from.format(), to, part)?;
    if part == HistoryPart::Cut {
        let is_there = &mut |oid: &Oid| map.is_proven_there(oid);
        let found = history::missing(from, &tips.commits, shallow, is_there, progress)?;
        let dropped = if empty_dir(to.format()).is_none() { empty_dir(from.format()) } else { None };
        map.prove(from, &found, dropped)?;
    }
    Ok(map)
}

/// Returns what would be lost, and the refs that would be left out, and writes nothing. `again`: those of the commits that an
/// earlier copy left out.
fn survey(
    job: &CopyJob<'_>,
    new: &[NewCommit],
    again: &HashSet<Oid>,
    progress: &mut dyn FnMut(Status),
) -> Result<(Losses, BTreeSet<String>)> {
    let (from, rules) = (job.from, Rules::between(job.from.format(), job.to.format()));
    let (source, mut losses) = (Source::of(from), Losses::default());
    let total = (new.len() - again.len()) as u64;
    for (index, one) in new.iter().filter(|one| !again.contains(&one.id.oid())).enumerate() {
        let commit = from.read_commit(one.id)?;
        rules.info(&commit, one, &mut losses);
        let before = one.parents.first().map(|&parent| from.read_commit(CommitId::new(parent))).transpose()?;
        let differences = TreeDifferences::new(&source, &rules, one.id);
        let before = before.map(|before| before.tree.into());
        differences.walk(before, commit.tree.into(), &mut Unwritten, &mut losses)?;
        if source.is_empty_dir(&commit.tree.oid()) && !rules.holds_empty {
            losses.add(LossKind::EmptyCommit, Some(one.id), String::new);
        }
        let status =
            Status { commits_found: total, commits_total: total, commits: index as u64 + 1, ..Status::default() };
        progress(status);
    }
    let (nothing, mut left_out) = (come_to_nothing(from, &rules, &source, new)?, BTreeSet::new());
    let mut known = PeeledTags::default();
    for (name, at) in &job.wanted.tips {
        let (kind, commit) = peeled(from, *at, &mut known)?;
        if commit.is_none() {
            losses.add(LossKind::Ref, None, || name.clone());
        }
        if commit.is_none_or(|commit| nothing.contains(&commit.oid())) {
            left_out.insert(name.clone());
        } else if kind == Kind::Tag {
            // As they would be converted: the one that names the commit first.
            let (tags, _) = tags_above(from, *at)?;
            for tag in tags.into_iter().rev() {
                if rules.tag(name, tag, &mut losses).is_none() {
                    break;
                }
            }
        }
    }
    Ok((losses, left_out))
}

/// Returns those of the commits that are left out, as is all that they follow.
fn come_to_nothing(from: &AnyRepo, rules: &Rules, source: &Source, new: &[NewCommit]) -> Result<HashSet<Oid>> {
    let mut nothing = HashSet::new();
    for one in new.iter().filter(|_| !rules.holds_empty) {
        if one.parents.iter().all(|parent| nothing.contains(parent))
            && source.is_empty_dir(&from.read_commit(one.id)?.tree.oid())
        {
            nothing.insert(one.id.oid());
        }
    }
    Ok(nothing)
}

/// Returns the tags from one down to a commit, and that.
fn tags_above(from: &AnyRepo, mut at: ObjRef) -> Result<(Vec<Tag>, CommitId)> {
    let mut tags = Vec::new();
    loop {
        let tag = from.read_tag(at.into())?;
        let (target, kind) = (tag.target, tag.kind);
        tags.push(tag);
        if kind != Kind::Tag {
            return Ok((tags, from.commit_id(target)));
        }
        at = target;
    }
}

/// Converts commits and tags.
struct Converter<'c> {
    from: &'c AnyRepo,
    to: &'c AnyRepo,
    source: Source,
    rules: Rules,
    map: CommitMap<'c>,
    // Commits without entries that the format cannot hold, and what their children follow instead.
    dropped: HashMap<Oid, Vec<CommitId>>,
    // The commit that was converted last, with its root in the original and its tree in the copy.
    last: Option<(Oid, ObjRef, Tree)>,
    losses: Losses,
    // Values that were written, and their bytes.
    values: u64,
    bytes: u64,
}

impl<'c> Converter<'c> {
    fn new(from: &'c AnyRepo, to: &'c AnyRepo, map: CommitMap<'c>) -> Self {
        Self {
            from,
            to,
            source: Source::of(from),
            rules: Rules::between(from.format(), to.format()),
            map,
            dropped: HashMap::new(),
            last: None,
            losses: Losses::default(),
            values: 0,
            bytes: 0,
        }
    }

    /// Converts a commit whose parents were converted. Returns the one that stands for it, if there is one.
    fn convert(&mut self, one: &NewCommit) -> Result<Option<CommitId>> {
        let commit = self.from.read_commit(one.id)?;
        let info = self.rules.info(&commit, one, &mut self.losses);
        let parents = self.parents(&one.parents);
        let (before, tree) = self.base(one.parents.first())?;
        let mut edits = TreeEdits::new(&self.source, self.to, tree);
        let differences = TreeDifferences::new(&self.source, &self.rules, one.id);
        let root = ObjRef::from(commit.tree);
        let walked = differences.walk(before, root, &mut edits, &mut self.losses);
        self.values += edits.values;
        self.bytes += edits.bytes;
        let mut tree = edits.tree;
        let refused = |error| self.refused(one.id, error);
        walked.map_err(&refused)?;
        if !self.rules.holds_empty && tree.is_empty()? {
            self.losses.add(LossKind::EmptyCommit, Some(one.id), String::new);
            self.map.leave_out(one.id.oid());
            self.dropped.insert(one.id.oid(), parents);
            return Ok(None);
        }
        let id = self.to.commit_tree(&mut tree, &parents, &info).map_err(|error| refused(error.into()))?;
        self.map.insert(one.id.oid(), id.oid());
        self.last = Some((one.id.oid(), root, tree));
        Ok(Some(id))
    }

    /// Names the commit in an error that its format gives.
    fn refused(&self, id: CommitId, error: crate::Error) -> crate::Error {
        match error {
            crate::Error::Store(source @ (StoreError::Format(_) | StoreError::TooLarge { .. })) => {
                let (format, source) = (self.to.format().name(), Box::new(source));
                CopyError::Commit { id, format, source }.into()
            }
            error => error,
        }
    }

    /// Returns what a commit of the copy follows, by what the original follows.
    fn parents(&self, originals: &[Oid]) -> Vec<CommitId> {
        let (mut parents, mut seen) = (Vec::new(), HashSet::new());
        for original in originals {
            let converted = self.map.get(original);
            let followed = converted.as_slice().iter().chain(self.dropped.get(original).into_iter().flatten());
            parents.extend(followed.filter(|id| seen.insert(id.oid())).copied());
        }
        parents
    }

    /// Returns the root of a commit in the original, and its tree in the copy, from which a child goes on.
    fn base(&mut self, parent: Option<&Oid>) -> Result<(Option<ObjRef>, Tree)> {
        let nothing = (None, self.to.tree());
        let Some(parent) = parent else { return Ok(nothing) };
        if let Some((_, root, tree)) = self.last.take_if(|(last, ..)| last == parent) {
            return Ok((Some(root), tree));
        }
        let Some(converted) = self.map.get(parent) else { return Ok(nothing) };
        let root = self.from.read_commit(CommitId::new(*parent))?.tree;
        Ok((Some(root.into()), self.to.checkout(converted)?))
    }

    /// Returns what a ref of the copy names; `None` if it cannot be kept.
    fn target(&mut self, name: &str, at: ObjRef) -> Result<Option<ObjRef>> {
        match peeled(self.from, at, &mut PeeledTags::default())? {
            (Kind::Commit, Some(id)) => Ok(self.commit(id).map(ObjRef::from)),
            (Kind::Tag, Some(_)) => self.tag(name, at),
            _ => {
                self.losses.add(LossKind::Ref, None, || name.to_owned());
                Ok(None)
            }
        }
    }

    /// Returns the commit of the copy, or the first that stands for it.
    fn commit(&self, id: CommitId) -> Option<CommitId> {
        let dropped = || self.dropped.get(&id.oid()).and_then(|parents| parents.first().copied());
        self.map.get(&id.oid()).or_else(dropped)
    }

    /// Converts a tag that leads to a commit, with those on the way there.
    fn tag(&mut self, name: &str, at: ObjRef) -> Result<Option<ObjRef>> {
        let (tags, commit) = tags_above(self.from, at)?;
        let Some(mut made) = self.commit(commit).map(ObjRef::from) else { return Ok(None) };
        let mut kind = Kind::Commit;
        for tag in tags.into_iter().rev() {
            let Some(tag) = self.rules.tag(name, tag, &mut self.losses) else { return Ok(Some(made)) };
            let tag = Tag { target: made, kind, ..tag };
            let written = self.to.write_tag(&tag, bristlecone::Durability::None)?;
            (made, kind) = (written.into(), Kind::Tag);
        }
        Ok(Some(made))
    }
}

/// Returns the id of the directory without entries, where a format has one.
fn empty_dir(format: &impl Format) -> Option<Oid> {
    format.empty_dir(&mut Batch::new()).ok().map(|at| at.oid)
}
