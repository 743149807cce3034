//! Git's trees of the directories of a `native` store.
//!
//! A tree is made from that of the version of the same path that was made before: the format tells what differs between
//! the two directories, and what differs is spliced into the bytes.

use std::collections::{HashMap, HashSet};

use bristlecone::{
    EntryKind, Format, Kind, ObjRef, Oid, Result,
    core::{Direction, Entry, Target, git},
};

use super::native_walk::{KeptDir, NativeWalk};
use crate::history::pipeline::{
    channel::NO_NUMBER,
    contract::{DEPTH_MAX, Stopped, Walker as _},
    tree_diff::git_order,
};

impl NativeWalk<'_> {
    /// Makes Git's tree of a directory and returns its number; `kept` is the version of the same path that was made
    /// last, and becomes this one.
    pub(super) fn dir(&mut self, at: &ObjRef, kept: &mut Option<Box<KeptDir>>) -> Result<u32, Stopped> {
        if let Some(number) = self.known(&at.oid, None)? {
            return Ok(number);
        }
        if self.path.iter().filter(|&&byte| byte == b'/').count() > DEPTH_MAX {
            return Err(self.refused(format!("directories are nested more than {DEPTH_MAX} deep")));
        }
        let old = kept.take().map(|old| *old);
        let (before, old_number) =
            (old.as_ref().map_or(0, KeptDir::bytes), old.as_ref().map_or(NO_NUMBER, |old| old.number));
        let mut below = HashMap::new();
        let raw = match old {
            None => self.whole(at, &mut below)?,
            Some(old) => {
                below = old.below;
                self.spliced(&old.root, &old.raw, at, &mut below)?
            }
        };
        let number = self.send(Kind::Node, raw.clone(), old_number)?;
        self.note(&at.oid, number)?;
        let now = KeptDir { number, root: *at, raw, below };
        self.kept_bytes = (self.kept_bytes + now.bytes()).saturating_sub(before);
        *kept = Some(Box::new(now));
        Ok(number)
    }

    /// Returns Git's bytes of a directory.
    fn whole(&mut self, at: &ObjRef, below: &mut HashMap<Box<[u8]>, Box<KeptDir>>) -> Result<Vec<u8>, Stopped> {
        let entries: Vec<Owned> = {
            let entries = self.native.entries(&self.source, at, None, None, Direction::Forward)?;
            entries.map(|entry| entry.map(Owned::from)).collect::<Result<_>>()?
        };
        let mut lines = Vec::with_capacity(entries.len());
        for entry in &entries {
            lines.push(self.line(entry, NO_NUMBER, below)?);
        }
        lines.sort_by(|one, other| git_order((one.name, one.dir), (other.name, other.dir)));
        let mut raw = Vec::new();
        lines.iter().for_each(|line| line.write(&mut raw));
        Ok(raw)
    }

    /// Returns Git's bytes of a directory, by its differences from one of which they are known.
    fn spliced(
        &mut self,
        old: &ObjRef,
        old_raw: &[u8],
        at: &ObjRef,
        below: &mut HashMap<Box<[u8]>, Box<KeptDir>>,
    ) -> Result<Vec<u8>, Stopped> {
        let mut differences: Vec<(Option<Owned>, Option<Owned>)> = Vec::new();
        for difference in self.native.diff(&self.source, Some(old), Some(at), None, None)? {
            let (before, after) = difference?;
            differences.push((before.map(Owned::from), after.map(Owned::from)));
        }
        let (mut gone, mut lines) = (HashSet::new(), Vec::with_capacity(differences.len()));
        for (before, after) in &differences {
            if let Some(before) = before {
                gone.insert((&before.step[..], before.kind == EntryKind::Dir));
                if after.as_ref().is_none_or(|after| after.kind != EntryKind::Dir) {
                    below.remove(&before.step[..]);
                }
            }
        }
        let mut numbers = HashMap::new();
        let algorithm = self.git.algorithm();
        for entry in git::raw_entries(algorithm, old_raw).map_while(Result::ok) {
            if gone.contains(&(entry.name, entry.kind() == EntryKind::Dir)) {
                numbers.insert(entry.name, self.gits.get(&entry.oid())?.unwrap_or(NO_NUMBER));
            }
        }
        for after in differences.iter().filter_map(|(_, after)| after.as_ref()) {
            let base = numbers.get(&after.step[..]).copied().unwrap_or(NO_NUMBER);
            lines.push(self.line(after, base, below)?);
        }
        lines.sort_by(|one, other| git_order((one.name, one.dir), (other.name, other.dir)));
        let mut raw = Vec::with_capacity(old_raw.len() + 64);
        let mut lines = lines.into_iter().peekable();
        for entry in git::raw_entries(algorithm, old_raw).map_while(Result::ok) {
            let dir = entry.kind() == EntryKind::Dir;
            if gone.contains(&(entry.name, dir)) {
                continue;
            }
            while let Some(line) = lines.next_if(|line| git_order((line.name, line.dir), (entry.name, dir)).is_lt()) {
                line.write(&mut raw);
            }
            write_entry(entry.mode, entry.name, entry.oid, &mut raw);
        }
        lines.for_each(|line| line.write(&mut raw));
        Ok(raw)
    }

    /// Sends what an entry leads to, and returns how Git writes the entry.
    fn line<'e>(
        &mut self,
        entry: &'e Owned,
        base: u32,
        below: &mut HashMap<Box<[u8]>, Box<KeptDir>>,
    ) -> Result<Line<'e>, Stopped> {
        let depth = self.path.len();
        self.path.extend_from_slice(&entry.step);
        if let Some(reason) = git::refused_name(&entry.step, entry.kind) {
            return Err(self.refused(format!("Git refuses {reason}")));
        }
        let dir = entry.kind == EntryKind::Dir;
        let oid = match &entry.target {
            Target::Foreign(oid) if oid.as_bytes().len() != self.git.algorithm().oid_bytes() => {
                return Err(self.refused("it is an id of a repository with another hash"));
            }
            Target::Foreign(oid) => *oid,
            Target::Inline(value) => {
                let number = self.send(Kind::Contents, value.to_vec(), base)?;
                self.gits.oid(number)?
            }
            Target::Object { at, .. } if dir => {
                self.path.push(b'/');
                let mut kept = below.remove(&entry.step[..]);
                let number = self.dir(at, &mut kept)?;
                if let Some(kept) = kept {
                    below.insert(entry.step.clone(), kept);
                }
                self.gits.oid(number)?
            }
            Target::Object { at, .. } => {
                let number = self.value(at, base)?;
                self.gits.oid(number)?
            }
        };
        self.path.truncate(depth);
        let mode = if entry.mode.is_usual() { entry.kind.git_mode().as_bytes() } else { entry.mode.as_bytes() };
        Ok(Line { mode, name: &entry.step, dir, oid })
    }
}

/// An entry of one of Git's trees.
struct Line<'e> {
    mode: &'e [u8],
    name: &'e [u8],
    dir: bool,
    oid: Oid,
}

impl Line<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        write_entry(self.mode, self.name, self.oid.as_bytes(), out);
    }
}

/// An entry that borrows nothing.
struct Owned {
    step: Box<[u8]>,
    kind: EntryKind,
    mode: bristlecone::core::Mode,
    target: Target<'static>,
}

impl From<Entry<'_>> for Owned {
    fn from(entry: Entry<'_>) -> Self {
        Self { step: entry.step[..].into(), kind: entry.kind, mode: entry.mode, target: entry.target.into_static() }
    }
}

fn write_entry(mode: &[u8], name: &[u8], oid: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(mode);
    out.push(b' ');
    out.extend_from_slice(name);
    out.push(0);
    out.extend_from_slice(oid);
}
