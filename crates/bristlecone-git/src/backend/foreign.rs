//! What a Git moved a ref to, which no process may have synced: by default Git syncs neither loose objects nor refs. A
//! commit of ours that is acknowledged as durable needs what it stands on, so that is synced once, before.
//!
//! A commit that a Git made is a loose object, and ours are in packs. What Git packs it syncs. So one look at a name tells
//! whose a commit is, where this process does not know; and what this process moved a ref to itself costs nothing.
//!
//! The same holds for directories and values that a commit takes from elsewhere than its parents. A batch says what it leaves
//! out, and that is all that its objects name and it does not bring.

use std::collections::HashSet;

use bristlecone::{Batch, Kind, Oid, RefTarget, Result, storage::retry};

use super::{
    append_group::Request,
    objects::{self, SYNCED_AT_ONCE},
    open_repository::{OpenRepository, Writer},
    pack_files::PACKS,
};
use crate::repository::{
    files::{Files, Unsynced},
    odb::loose,
};

/// Values that are remembered, at most.
const SETTLED_MAX: usize = 4096;

/// Values of refs that need no sync for the sake of what a Git left: this process moved a ref there, or has looked.
#[derive(Debug, Default)]
pub(super) struct SettledValues(HashSet<Oid>);

impl SettledValues {
    pub(super) fn add(&mut self, oid: Oid) {
        if self.0.len() >= SETTLED_MAX {
            self.0.clear();
        }
        self.0.insert(oid);
    }

    /// Adds what this process moved a ref to. Of a commit in these batches also the tree, from which the next commit goes on.
    pub(super) fn add_moved<'b>(&mut self, oid: Oid, mut batches: impl Iterator<Item = &'b Batch>) {
        self.add(oid);
        let commit = batches.find_map(|batch| objects::commit_of(batch, oid));
        commit.and_then(tree_of).into_iter().for_each(|tree| self.add(tree));
    }
}

impl OpenRepository {
    /// Makes durable what a Git left that appends stand on: the parents of their commits, what their tags name, what
    /// their refs move to, and what their batches leave out.
    pub(super) fn settle_bases(&self, writer: &mut Writer, requests: &[Request<'_>]) -> Result<()> {
        let (mut written, mut bases, mut named) = (HashSet::new(), Vec::new(), Vec::new());
        for request in requests.iter().filter(|request| request.is_open()) {
            for entry in request.batch.records().filter(|entry| matches!(entry.record.kind, Kind::Commit | Kind::Tag)) {
                written.extend(Oid::new(entry.record.oid));
                let list = if entry.record.kind == Kind::Tag { &mut named } else { &mut bases };
                list.extend(leads_to(entry.record.kind, objects::raw_of(&entry.record, entry.bytes)?));
            }
            let target = request.target().as_ref().and_then(object);
            named.extend(target.filter(|target| request.batch.offsets().all(|(oid, _)| oid != *target)));
        }
        let mut synced = false;
        for base in bases.into_iter().filter(|base| !written.contains(base)) {
            synced = self.settle_foreign(writer, base, synced)?;
        }
        for oid in named.into_iter().filter(|oid| !written.contains(oid)) {
            synced = self.settle_named(writer, oid, synced)?;
        }
        if !synced {
            self.settle_left_out(writer, requests)?;
        }
        // Refs come to lead to these later.
        for request in requests.iter().filter(|request| request.is_open() && request.wanted.is_none()) {
            let commits = request.batch.records().filter(|entry| entry.record.kind == Kind::Commit);
            commits.filter_map(|entry| Oid::new(entry.record.oid).ok()).for_each(|oid| writer.settled.add(oid));
        }
        Ok(())
    }

    /// Makes durable what a Git left of the directories and values that batches name and do not bring.
    fn settle_left_out(&self, writer: &mut Writer, requests: &[Request<'_>]) -> Result<()> {
        let open = requests.iter().filter(|request| request.is_open());
        for oid in open.flat_map(|request| request.batch.left_out().0) {
            // What was written lately is in a pack of ours.
            if !self.recent.contains(oid) && self.settle_foreign(writer, *oid, false)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Makes durable what a Git left in an object that a ref or a tag names: itself, what it names if it is a tag, and
    /// the parents of that. Another process may have written it, and a Git what it stands on. Returns whether everything is synced.
    fn settle_named(&self, writer: &mut Writer, mut oid: Oid, mut synced: bool) -> Result<bool> {
        let mut raw = Vec::new();
        // The bytes of a tag need not be what its id says: forged ones may name each other in a circle longer than what is remembered.
        let mut steps = 0..SETTLED_MAX;
        while !writer.settled.0.contains(&oid) && steps.next().is_some() {
            synced = self.settle_foreign(writer, oid, synced)?;
            if synced {
                break;
            }
            let Ok(Some(kind)) = self.odb.read(&oid, &mut raw) else { break };
            let below = leads_to(kind, &raw);
            match (kind, below.first()) {
                (Kind::Tag, Some(&target)) => oid = target,
                _ => {
                    let mut parents = below.into_iter();
                    return parents.try_fold(false, |synced, parent| self.settle_foreign(writer, parent, synced));
                }
            }
        }
        Ok(synced)
    }

    /// Makes durable what a Git moved refs to since the journal named them: it is what their files will durably hold, and the journal
    /// that leads back forgets them.
    pub(super) fn settle_moved(&self, writer: &mut Writer) -> Result<()> {
        let names: Vec<String> = writer.journal.now().bases.keys().cloned().collect();
        for name in names {
            let value = self.get_ref(&name).unwrap_or_default();
            if writer.journal.differs(&name, &value) {
                self.settle_value(writer, &value)?;
            }
        }
        Ok(())
    }

    /// Makes durable what a Git left in a ref.
    pub(super) fn settle_value(&self, writer: &mut Writer, value: &Option<RefTarget>) -> Result<()> {
        value.as_ref().and_then(object).map_or(Ok(()), |oid| self.settle_foreign(writer, oid, false).map(drop))
    }

    /// Makes an object durable that a Git may have left. `synced`: everything was synced since this append began, so that what
    /// it stands on is durable. Returns whether that is so now.
    fn settle_foreign(&self, writer: &mut Writer, oid: Oid, mut synced: bool) -> Result<bool> {
        if writer.settled.0.contains(&oid) {
            return Ok(synced);
        }
        let name = format!("objects/{}", loose::name(&oid));
        if !synced && self.files.stat(&name)?.is_some() {
            self.poison.note(sync_foreign(&self.files, &name))?;
            synced = true;
        }
        writer.settled.add(oid);
        Ok(synced)
    }
}

/// Makes durable what a Git left in loose objects, where there are any: what was written beside a store, as by an export, may name
/// them.
pub(crate) fn sync_left(files: &Files) -> Result<()> {
    for dir in files.list("objects")?.into_iter().filter(|name| name.len() == 2) {
        if let Some(name) = files.list(&format!("objects/{dir}"))?.first() {
            return sync_foreign(files, &format!("objects/{dir}/{name}"));
        }
    }
    Ok(())
}

/// Makes everything durable that is in the file system of this object, which need not be that of the refs, or else all objects: there
/// may be thousands of loose ones.
fn sync_foreign(files: &Files, object: &str) -> Result<()> {
    if let Some(file) = files.open_if_there(object)?
        && files.named(object, retry(|| file.sync_file_system()))?
    {
        return Ok(());
    }
    for dir in files.list("objects")?.into_iter().filter(|name| name.len() == 2) {
        let dir = format!("objects/{dir}");
        sync_files(files, &dir, &|_| true)?;
    }
    files.sync_dir("objects")?;
    sync_files(files, PACKS, &|name| name.ends_with(".pack") || name.ends_with(".idx"))
}

/// Makes the files of a folder durable, with their names.
fn sync_files(files: &Files, dir: &str, chosen: &dyn Fn(&str) -> bool) -> Result<()> {
    let names: Vec<String> = files.list(dir)?.into_iter().filter(|name| chosen(name)).collect();
    for some in names.chunks(SYNCED_AT_ONCE) {
        let mut open: Vec<Unsynced> = Vec::with_capacity(some.len());
        for name in some {
            let name = format!("{dir}/{name}");
            open.extend(files.open_if_there(&name)?.map(|file| (name, file)));
        }
        files.sync_all(&open)?;
    }
    files.sync_dir(dir).map(drop)
}

fn object(target: &RefTarget) -> Option<Oid> {
    if let RefTarget::Object(at) = target { Some(at.oid) } else { None }
}

/// Returns the parents of a commit, or what a tag names.
fn leads_to(kind: Kind, raw: &[u8]) -> Vec<Oid> {
    let word: &[u8] = match kind {
        Kind::Commit => b"parent ",
        Kind::Tag => b"object ",
        _ => return Vec::new(),
    };
    let headers = raw.split(|&byte| byte == b'\n').take_while(|line| !line.is_empty());
    let ids = headers.filter_map(|line| line.strip_prefix(word));
    ids.filter_map(|hex| str::from_utf8(hex).ok()?.parse().ok()).collect()
}

/// Returns the tree of a commit.
fn tree_of(commit: &[u8]) -> Option<Oid> {
    let line = commit.split(|&byte| byte == b'\n').next()?;
    str::from_utf8(line.strip_prefix(b"tree ")?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use bristlecone_testkit::sim::{Hooked, Policy, SimStorage};

    use super::*;

    /// The folder of objects may be a link to another disk.
    #[test]
    fn the_file_system_that_is_synced_is_that_of_the_objects() {
        let synced = Arc::new(Mutex::new(Vec::new()));
        let told = synced.clone();
        let hooked = Hooked::new(Arc::new(SimStorage::new()), move |coming| {
            if coming.method == "sync_file_system" {
                told.lock().unwrap().push(coming.name.to_owned());
            }
        });
        let files = Files::new(Arc::new(hooked));
        ["objects/aa", "objects/ab", PACKS].into_iter().for_each(|dir| files.create_dir(dir).unwrap());
        files.write("HEAD", b"ref: refs/heads/main\n").unwrap();
        sync_left(&files).unwrap();
        assert!(synced.lock().unwrap().is_empty(), "there is no loose object");
        files.write("objects/ab/cd", b"a loose object").unwrap();
        sync_left(&files).unwrap();
        assert_eq!(*synced.lock().unwrap(), ["objects/ab/cd"]);
    }

    #[test]
    fn loose_objects_last_once_what_a_git_left_is_synced() {
        let (sim, name) = (SimStorage::new(), "objects/aa/bb");
        let files = Files::new(Arc::new(sim.clone()));
        ["objects/aa", PACKS].into_iter().for_each(|dir| files.create_dir(dir).unwrap());
        files.sync_dir("").unwrap();
        files.write(name, b"a loose object").unwrap();
        let after_cut = || sim.reboot(1, Policy::Lost).contents(name);
        assert_ne!(after_cut().as_deref(), Some(&b"a loose object"[..]));
        sync_left(&files).unwrap();
        assert_eq!(after_cut().as_deref(), Some(&b"a loose object"[..]));
    }
}
