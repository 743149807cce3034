//! Which commit of a copy stands for which of the original: derived files, which may vanish at any time.
//!
//! A commit that is left out is noted as one for which none stands, so that it is counted once.
//!
//! A conversion makes the same commit of the same one each time, so a loss costs the time to convert again, and nothing else.
//! What a copy that was stopped has noted in refs counts, too. Entries are written after what they name is durable.
//! They are read in order of files; a small last file is written again with what is new.
//!
//! What a commit of a history that was cut is converted to depends on where that was. So an entry of such a history counts if the
//! copy follows what the parents that are there were converted to ([`CommitMap::prove`]).

use std::collections::{BTreeSet, HashMap, HashSet};

use bristlecone::{AbsentCommits, CommitId, Format, Oid};

use super::{checkpoint, history::NewCommit};
use crate::{error::Result, format::AnyFormat, repo::AnyRepo};

/// Bytes from which on a file is not written again.
const FILE_BYTES_WANTED: usize = 4 << 20;
/// An entry: for each of two ids its length, and 32 bytes with zeroes behind it.
const ENTRY_BYTES: usize = 2 * ID_BYTES;
const ID_BYTES: usize = 1 + Oid::BYTES_MAX;
/// The second id of an entry for a commit that was left out.
const NOTHING: [u8; ID_BYTES] = [0; ID_BYTES];
/// The version of the conversion: another one makes other commits.
const VERSION: u32 = 1;

/// How much of its history an original has: the same commit is converted to others where less of it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HistoryPart {
    /// All of it.
    Whole,
    /// Retention has cut some.
    Cut,
    /// What a shallow clone has, which a later fetch may add to.
    Shallow,
}

/// What the children of a commit follow that was left out, by that of the original.
type Instead = HashMap<Oid, Vec<Oid>>;

/// The commits that were converted, by those of the original.
pub(super) struct CommitMap<'c> {
    to: &'c AnyRepo,
    commits: HashMap<Oid, Oid>,
    // Those that were left out, since the format holds no commit without entries.
    left_out: HashSet<Oid>,
    // Commits of the map that count once they are proven.
    unproven: HashSet<Oid>,
    // How the files are called, and how they begin; `None` if nothing is kept.
    files: Option<(String, String)>,
    // The file that is written next, and what is in it.
    file: u32,
    entries: Vec<u8>,
    changed: bool,
}

impl<'c> CommitMap<'c> {
    /// Reads what was kept of conversions from a format. Those of a history that was cut are kept apart, and go on from what
    /// was converted while it was whole; those of a shallow one are not kept.
    pub(super) fn read(from: &AnyFormat, to: &'c AnyRepo, part: HistoryPart) -> Result<Self> {
        let options = from.options().replace(' ', "_");
        let name = format!("copy-map-{}-{options}", from.name());
        let head = format!("copy-map {VERSION} {} {} | {}\n", from.name(), from.options(), to.format().options());
        let (commits, left_out, unproven, entries) = (HashMap::new(), HashSet::new(), HashSet::new(), Vec::new());
        let mut map = Self { to, commits, left_out, unproven, files: None, file: 0, entries, changed: false };
        if part == HistoryPart::Shallow {
            return Ok(map);
        }
        map.load(name.clone(), head.clone(), true)?;
        if part == HistoryPart::Cut {
            map.load(format!("{name}-cut"), head, false)?;
            return Ok(map);
        }
        checkpoint::noted(to)?.into_iter().for_each(|(original, copy)| map.insert(original, copy));
        Ok(map)
    }

    /// Reads files of a name, to which what is new is written from now on.
    fn load(&mut self, name: String, head: String, proven: bool) -> Result<()> {
        (self.file, self.entries) = (0, Vec::new());
        while let Some(bytes) = self.to.backend().read_derived(&numbered(&name, self.file))? {
            let Some(entries) = bytes.strip_prefix(head.as_bytes()) else { break };
            for entry in entries.chunks_exact(ENTRY_BYTES) {
                let Some(from) = id(&entry[..ID_BYTES]) else { continue };
                if entry[ID_BYTES..] == NOTHING {
                    self.left_out.insert(from);
                } else if let Some(to) = id(&entry[ID_BYTES..]) {
                    self.commits.insert(from, to);
                    if !proven {
                        self.unproven.insert(from);
                    }
                }
            }
            if entries.len() < FILE_BYTES_WANTED {
                self.entries = entries.to_vec();
                break;
            }
            self.file += 1;
        }
        self.files = Some((name, head));
        Ok(())
    }

    /// Returns the commit of the copy that stands for one of the original.
    pub(super) fn get(&self, original: &Oid) -> Option<CommitId> {
        self.commits.get(original).map(|&oid| CommitId::new(oid))
    }

    /// Whether a commit was converted, and is still there with all that is below it.
    pub(super) fn is_there(&self, original: &Oid) -> Result<bool> {
        match self.commits.get(original) {
            Some(oid) => Ok(self.to.backend().read(&(*oid).into())?.is_some()),
            None => Ok(false),
        }
    }

    /// As [`CommitMap::is_there`], of what need not be proven.
    pub(super) fn is_proven_there(&self, original: &Oid) -> Result<bool> {
        Ok(!self.unproven.contains(original) && self.is_there(original)?)
    }

    /// Forgets what was converted of a history that lacked what the original has, and all that follows it. `found`: the commits of
    /// the original that are not there proven, parents first. `dropped`: the root of commits that are left out.
    pub(super) fn prove(&mut self, from: &AnyRepo, found: &[NewCommit], dropped: Option<Oid>) -> Result<()> {
        let absent = from.backend().absent()?;
        // What the children of a commit that is left out follow.
        let mut instead = Instead::new();
        for one in found {
            let oid = one.id.oid();
            let stand = all(one.parents.iter().map(|parent| self.copy(parent, &instead)));
            if self.is_there(&oid)? {
                let follows = Some(self.parents(&oid)?);
                if follows == stand || one.cut && follows == self.before_cut(from, one, &absent, &instead)? {
                    continue;
                }
            }
            let known = self.commits.remove(&oid).is_some();
            if let (Some(stand), Some(root), false) = (stand, dropped, known)
                && from.read_commit(one.id)?.tree.oid() == root
            {
                instead.insert(oid, stand.into_iter().collect());
            }
        }
        self.unproven.clear();
        Ok(())
    }

    /// Returns what the copy of a commit follows that was converted while all that was converted of its parents was there: the
    /// original has been cut since, and the copy has more of its history.
    fn before_cut(
        &self,
        from: &AnyRepo,
        one: &NewCommit,
        absent: &AbsentCommits,
        instead: &Instead,
    ) -> Result<Option<BTreeSet<Oid>>> {
        let mut found = Vec::new();
        for parent in from.read_commit(one.id)?.parents.iter().map(CommitId::oid) {
            let row = absent.get(&parent).filter(|_| !self.commits.contains_key(&parent));
            found.push(match row {
                Some(row) if from.backend().read(&parent.into())?.is_none() => {
                    row.next.map_or(Some(Vec::new()), |next| self.copy(&next, instead))
                }
                _ => self.copy(&parent, instead),
            });
        }
        Ok(all(found.into_iter()))
    }

    /// Returns what stands for a commit of the original, if that is known.
    fn copy(&self, original: &Oid, instead: &Instead) -> Option<Vec<Oid>> {
        match self.commits.get(original) {
            Some(copy) => Some(vec![*copy]),
            None => instead.get(original).cloned(),
        }
    }

    /// Returns what the commit of the copy follows that stands for one of the original.
    fn parents(&self, original: &Oid) -> Result<BTreeSet<Oid>> {
        let Some(copy) = self.get(original) else { return Ok(BTreeSet::new()) };
        Ok(self.to.read_commit(copy)?.parents.iter().map(CommitId::oid).collect())
    }

    pub(super) fn insert(&mut self, original: Oid, copy: Oid) {
        if self.commits.insert(original, copy) == Some(copy) {
            return;
        }
        for oid in [original, copy] {
            self.entries.push(oid.as_bytes().len() as u8);
            self.entries.extend_from_slice(oid.padded());
        }
        self.changed = true;
    }

    /// Notes that a commit was left out, since the format holds none without entries.
    pub(super) fn leave_out(&mut self, original: Oid) {
        if self.left_out.insert(original) {
            self.entries.push(original.as_bytes().len() as u8);
            self.entries.extend_from_slice(original.padded());
            self.entries.extend_from_slice(&NOTHING);
            self.changed = true;
        }
    }

    /// Returns those of the commits that are not there, parents first, that an earlier copy left out: all that they follow is there,
    /// or was left out, too.
    pub(super) fn left_out_before(&self, new: &[NewCommit]) -> HashSet<Oid> {
        let (mut before, mut others) = (HashSet::new(), HashSet::new());
        for one in new {
            let follows_known = one.parents.iter().all(|parent| !others.contains(parent));
            let known = self.left_out.contains(&one.id.oid()) && follows_known;
            let kind = if known { &mut before } else { &mut others };
            kind.insert(one.id.oid());
        }
        before
    }

    /// Writes what is new, all of which is durable by now.
    pub(super) fn save(&mut self) -> Result<()> {
        let Some((name, head)) = &self.files else { return Ok(()) };
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let backend = self.to.backend();
        backend.write_derived(&numbered(name, self.file), &[head.as_bytes(), &self.entries].concat())?;
        if self.entries.len() >= FILE_BYTES_WANTED {
            (self.file, self.entries) = (self.file + 1, Vec::new());
            // A file that an earlier conversion left under this name would be read as the next one.
            backend.write_derived(&numbered(name, self.file), head.as_bytes())?;
        }
        Ok(())
    }

    /// Returns the original of each commit of the copy.
    pub(super) fn originals(&self) -> HashMap<Oid, Oid> {
        self.commits.iter().map(|(original, copy)| (*copy, *original)).collect()
    }
}

/// Returns what stands for each of some commits, if that is known of all.
fn all(copies: impl Iterator<Item = Option<Vec<Oid>>>) -> Option<BTreeSet<Oid>> {
    let copies: Option<Vec<Vec<Oid>>> = copies.collect();
    Some(copies?.into_iter().flatten().collect())
}

fn numbered(name: &str, file: u32) -> String {
    format!("{name}-{file:05}")
}

fn id(bytes: &[u8]) -> Option<Oid> {
    let (len, digits) = bytes.split_first()?;
    Oid::new(digits.get(..usize::from(*len))?).ok()
}
