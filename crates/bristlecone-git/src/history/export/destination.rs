//! A repository that a history is written to: its packs, its refs, and what it has already.

use std::{
    collections::{BTreeMap, BinaryHeap, HashSet},
    fs, io,
    path::Path,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, ObjRef, Oid, RefMove, RefTarget, core::git::Algorithm,
    storage::OpenMode, to_hex,
};

use crate::{
    backend::{GitBackend, GitOptions, Keep, Keeps, OURS, Reachability, sync_left},
    history::{
        error::{Missing, Origin, TransferError},
        export::existing,
        objects::{CommitHead, tag_target},
        pipeline::contract::Existing,
        report::{FOLLOWING, MovedRef, RefState},
        repository::Repository,
        table::Scratch,
    },
    repository::{
        files::{Files, passing_name},
        layout::Layout,
        pack::BuiltPack,
        refs::{FoldedNames, check_name, clash, held_error},
        shallow::{SHALLOW_FILE, ShallowFile},
    },
    worktree::HeldRefs,
};

/// A repository that is written to.
#[derive(Debug)]
pub(crate) struct Destination {
    pub(crate) repository: Repository,
    /// It was made for this.
    pub(crate) made: bool,
    pub(crate) packs: u64,
    pub(crate) pack_bytes: u64,
    keeps: Keeps,
    // What protects the packs from a Git that repacks: no ref leads to them until the end.
    kept: Vec<Keep>,
}

impl Drop for Destination {
    fn drop(&mut self) {
        // What stays of a failed export is garbage for `git gc`.
        let _ = self.end_protection();
    }
}

impl Destination {
    /// Opens the repository at `path`, or makes one where there is nothing. `algorithm`: that of the ids, where that
    /// is given by the store.
    pub(crate) fn open(path: &Path, bare: bool, algorithm: Option<Algorithm>) -> Result<Self, TransferError> {
        let (layout, made) = match Layout::open(path) {
            Ok(layout) => (layout, false),
            Err(Error::NoStore { .. }) => {
                if path.is_file() {
                    let what = format!("a repository at {}", path.display());
                    return Err(TransferError::refused(what, "it is a file; name a folder"));
                }
                if fs::read_dir(path).is_ok_and(|mut names| names.next().is_some()) {
                    return Err(TransferError::Occupied { path: path.display().to_string() });
                }
                let bare = bare || path.extension().is_some_and(|ending| ending == "git");
                (Layout::init(path, bare, algorithm.unwrap_or_default())?, true)
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(expected) = algorithm.filter(|&algorithm| algorithm != layout.algorithm) {
            return Err(TransferError::Algorithm {
                from: path.display().to_string(),
                found: layout.algorithm.name(),
                expected: expected.name(),
            });
        }
        if let Some(reason) = layout.read_only_reason() {
            return Err(TransferError::refused(format!("an export into {}", path.display()), reason));
        }
        let repository = Repository::of(layout, path)?;
        let keeps = Keeps::new(Files::new(repository.layout.storage()));
        Ok(Self { repository, made, packs: 0, pack_bytes: 0, keeps, kept: Vec::new() })
    }

    fn files(&self) -> Files {
        Files::new(self.repository.layout.storage())
    }

    /// Writes a pack and its index, durably; the index last, so that a pack is seen when it is whole. Until the refs have
    /// moved it is protected, so its name is one that no other process gives to the same objects.
    pub(crate) fn write_pack(&mut self, pack: BuiltPack) -> Result<(), TransferError> {
        let files = self.files();
        let own = self.repository.algorithm().digest(&[pack.name.as_bytes(), passing_name("").as_bytes()]);
        let own = format!("pack-{}", to_hex(own.as_bytes()));
        let mut keep = self.keeps.protect(&own)?;
        self.keeps.close_beyond(self.kept.len(), &mut keep);
        self.kept.push(keep);
        for (ending, bytes) in [("pack", &pack.pack), ("idx", &pack.index)] {
            let name = format!("objects/pack/{own}.{ending}");
            let begun = passing_name(&format!("objects/pack/tmp_{ending}_"));
            let file = files.write_sealed(&begun, bytes)?;
            files.sync_open(&begun, &*file)?;
            files.rename(&begun, &name)?;
        }
        files.sync_dir("objects/pack")?;
        self.packs += 1;
        self.pack_bytes += (pack.pack.len() + pack.index.len()) as u64;
        Ok(())
    }

    /// Ends the protection of the packs: refs lead to what is in them.
    fn end_protection(&mut self) -> Result<(), TransferError> {
        for keep in std::mem::take(&mut self.kept) {
            self.keeps.remove(keep)?;
        }
        self.keeps.close();
        if self.made {
            // A new repository has nothing of ours.
            self.files().remove_dir(OURS)?;
        }
        Ok(())
    }

    /// Checks that all is still there that refs and `HEAD` led to when the repository was opened: it was not written
    /// again.
    ///
    /// What they lead to now is there. Of a value that was removed or left behind, a Git may have dropped any part.
    fn check_existing(&self) -> Result<(), TransferError> {
        let (then, algorithm) = (&self.repository, self.repository.algorithm());
        let now = Repository::of(then.layout.clone(), Path::new(&then.shown))?;
        let changed = then.refs.iter().filter(|(name, target)| now.refs.get(*name) != Some(target));
        let left: Vec<&RefTarget> =
            changed.map(|(_, target)| target).chain(then.head.iter().filter(|_| then.head != now.head)).collect();
        if left.is_empty() {
            return Ok(());
        }
        let present = existing::of(&now, false, true, &Scratch::new(None))?;
        let mut whole = Reachability::new(&self.files(), &now.odb, algorithm)?;
        for target in left {
            let RefTarget::Object(at) = target else { continue };
            trust_present(&now, &present, &at.oid, &mut whole)?;
            if !whole.is_whole(Some(target))? {
                let there = now.odb.contains(&at.oid)?;
                let damage = there.then(|| "something that it leads to is gone".to_owned());
                let missing = Missing { kind: Kind::Commit, oid: at.oid, damage, from: Origin::History };
                return Err(TransferError::Missing(Box::new(missing)));
            }
        }
        Ok(())
    }

    /// Lists commits whose parents the repository does not have, as Git does.
    pub(crate) fn write_shallow(&self, shallow: &[Oid]) -> Result<(), TransferError> {
        if shallow.is_empty() {
            return Ok(());
        }
        let files = self.files();
        self.replace_with(SHALLOW_FILE, || {
            // A fetch may have changed it since the repository was opened.
            let found = ShallowFile::read(&files, self.repository.algorithm())?;
            let mut all: Vec<String> = found.commits.iter().chain(shallow).map(Oid::to_string).collect();
            all.sort_unstable();
            all.dedup();
            Ok((all.join("\n") + "\n").into_bytes())
        })
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), TransferError> {
        self.replace_with(name, || Ok(bytes.to_vec()))
    }

    /// Replaces a file by what `bytes` returns once its lock is held.
    fn replace_with(
        &self,
        name: &str,
        bytes: impl FnOnce() -> Result<Vec<u8>, TransferError>,
    ) -> Result<(), TransferError> {
        let files = self.files();
        let lock = format!("{name}.lock");
        let file = match files.open_raw(&lock, OpenMode::CreateNew) {
            // A fetch with a depth holds it until it ends.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let held = held_error(&files, &lock, Duration::ZERO)?;
                return Err(held.unwrap_or_else(|| Error::io(files.describe(&lock), error)).into());
            }
            opened => files.named(&lock, opened)?,
        };
        let written = bytes().and_then(|bytes| {
            files.write_at(&lock, &*file, &bytes, 0)?;
            files.sync_open(&lock, &*file)?;
            Ok(files.rename(&lock, name)?)
        });
        if written.is_err() {
            // A Git that finds the lock changes nothing. The first error is what matters.
            let _ = files.remove(&lock);
        }
        written?;
        files.sync_dir("")?;
        Ok(())
    }

    /// Moves the refs: forward, unless `force`.
    pub(crate) fn update(
        &mut self,
        wanted: &BTreeMap<String, RefTarget>,
        head: Option<RefTarget>,
        force: bool,
    ) -> Result<Vec<MovedRef>, TransferError> {
        if self.made {
            let moved = self.write_refs(wanted, head)?;
            self.end_protection()?;
            return Ok(moved);
        }
        self.repository.odb.refresh()?;
        self.check_existing()?;
        let (checked_out, refs) = (HeldRefs::of(&self.repository.layout)?, &self.repository.refs);
        let mut moved = Vec::with_capacity(wanted.len());
        let mut moves = Vec::new();
        let ignores_case = self.repository.layout.ignores_case();
        let folded = ignores_case.then(|| FoldedNames::of(refs.keys().chain(wanted.keys())));
        for (name, to) in wanted {
            let now = refs.get(name);
            let state = match now {
                Some(now) if now == to => RefState::Same,
                _ if !checked_out.holds(name, &mut |name| Ok(refs.get(name).cloned()))?.is_empty() => {
                    RefState::CheckedOut
                }
                None => RefState::New,
                Some(now) if force || name.starts_with(FOLLOWING) || self.forward(now, to)? => RefState::Moved,
                Some(_) => RefState::Kept,
            };
            // Before any ref moves.
            let in_other_case = || folded.as_ref().and_then(|folded| folded.clash(name));
            if let (RefState::New, Some(other)) = (state, clash(refs, name).or_else(in_other_case)) {
                return Err(Error::RefClash { name: name.clone(), other: other.to_owned() }.into());
            }
            if self.repository.unnamed.contains(name.as_bytes()) {
                let reason = "it is there and names another ref, whose name is not UTF-8; remove it in Git";
                return Err(TransferError::refused(format!("the ref {name}"), reason));
            }
            if matches!(state, RefState::New | RefState::Moved) {
                check_name(name)?;
                if let RefTarget::Symbolic(to) = to {
                    check_name(to)?;
                }
                let expected = now.map_or(Expected::Absent, |now| Expected::Is(now.clone()));
                moves.push(RefMove { name: name.clone(), expected, to: Some(to.clone()) });
            }
            moved.push(MovedRef { name: name.clone(), state });
        }
        if !moves.is_empty() {
            // What was there was not written again.
            sync_left(&self.files())?;
            let options = GitOptions::default().repack(false).background(false);
            let backend = GitBackend::open_path(&self.repository.layout, options)?;
            for one in moves {
                backend.append(Batch::new(), &[one], Durability::None)?;
            }
            backend.flush()?;
            backend.close()?;
        }
        self.end_protection()?;
        Ok(moved)
    }

    /// Writes the refs of a repository that was made just now, all at once.
    fn write_refs(
        &self,
        wanted: &BTreeMap<String, RefTarget>,
        head: Option<RefTarget>,
    ) -> Result<Vec<MovedRef>, TransferError> {
        let mut packed = String::from("# pack-refs with: sorted \n");
        let files = self.files();
        for (name, to) in wanted {
            match to {
                RefTarget::Object(at) => packed.push_str(&format!("{} {name}\n", at.oid)),
                RefTarget::Symbolic(to) => {
                    let dir = name.rsplit_once('/').map_or("", |(dir, _)| dir);
                    files.create_dir(dir)?;
                    let file = files.write(name, format!("ref: {to}\n").as_bytes())?;
                    files.sync_open(name, &*file)?;
                    files.sync_dir(dir)?;
                }
            }
        }
        self.replace("packed-refs", packed.as_bytes())?;
        match head {
            Some(RefTarget::Symbolic(name)) => self.replace("HEAD", format!("ref: {name}\n").as_bytes())?,
            Some(RefTarget::Object(at)) => self.replace("HEAD", format!("{}\n", at.oid).as_bytes())?,
            None => {}
        }
        Ok(wanted.keys().map(|name| MovedRef { name: name.clone(), state: RefState::New }).collect())
    }

    /// Whether a ref's new value is a commit that descends from its present one. The search goes through the newest commits
    /// first. One that does not descend is known as such once all of its history was searched: dates prove nothing.
    fn forward(&self, from: &RefTarget, to: &RefTarget) -> Result<bool, TransferError> {
        let (RefTarget::Object(from), RefTarget::Object(to)) = (from, to) else { return Ok(false) };
        let width = self.repository.algorithm().oid_bytes();
        let mut raw = Vec::new();
        let mut read = |oid: &Oid| -> Result<Option<CommitHead>, TransferError> {
            match self.repository.odb.read(oid, &mut raw)? {
                Some(Kind::Commit) => Ok(CommitHead::parse(width, &raw)),
                _ => Ok(None),
            }
        };
        let (Some(_), Some(head)) = (read(&from.oid)?, read(&to.oid)?) else { return Ok(false) };
        let mut seen = HashSet::from([to.oid]);
        let mut queue = BinaryHeap::from([(head.seconds, to.oid)]);
        let mut waiting = std::collections::HashMap::from([(to.oid, head.parents)]);
        while let Some((_, oid)) = queue.pop() {
            if oid == from.oid {
                return Ok(true);
            }
            for parent in waiting.remove(&oid).unwrap_or_default() {
                if seen.insert(parent)
                    && let Some(head) = read(&parent)?
                {
                    queue.push((head.seconds, parent));
                    waiting.insert(parent, head.parents);
                }
            }
        }
        Ok(false)
    }
}

/// Takes for whole what refs of the repository lead to, as far as an object leads to it.
fn trust_present(
    now: &Repository,
    present: &dyn Existing,
    from: &Oid,
    whole: &mut Reachability<'_>,
) -> Result<(), TransferError> {
    let (mut stack, mut seen, mut raw) = (vec![*from], HashSet::from([*from]), Vec::new());
    while let Some(oid) = stack.pop() {
        if present.commit(u32::MAX, &oid)? {
            whole.trust(Some(&by_oid(ObjRef::from(oid))));
            continue;
        }
        let below = match now.odb.read(&oid, &mut raw) {
            Ok(Some(Kind::Commit)) => CommitHead::parse(now.algorithm().oid_bytes(), &raw).map(|head| head.parents),
            Ok(Some(Kind::Tag)) => tag_target(now.algorithm(), &raw).map(|(target, _)| vec![target]),
            _ => None,
        };
        stack.extend(below.unwrap_or_default().into_iter().filter(|oid| seen.insert(*oid)));
    }
    Ok(())
}

/// Returns the refs as a repository has them: by Git's ids.
pub(crate) fn by_oid(at: ObjRef) -> RefTarget {
    RefTarget::Object(ObjRef::from(at.oid))
}

#[cfg(test)]
mod tests;
