//! The set as a versioned map.

use std::time::Instant;

use bristlecone::{
    Branch, CommitId, Durability, Error as StoreError, Info, Map, Native, Repo, Result as StoreResult, Tree,
};

use super::{Changes, EachOutput, UtxoDigest, UtxoError, UtxoStore, UtxoTip, digest_by, syncer::Syncer};
use crate::{OutputRef, Point, TxId};

/// Values up to this length are inline: most outputs.
const INLINE_BYTES_MAX: usize = 128;

/// Returns the path of an output in the tree of a commit: `TRANSACTION#PLACE`, as Cardano's tools name it.
#[must_use]
pub fn output_path(output: &OutputRef) -> String {
    output.to_string()
}

/// The set as the root directory of a branch: each commit is a state of the set, and stays.
///
/// An entry's name is `TRANSACTION#PLACE`, its value the output's CBOR as it stands in the block. The first line of a
/// commit's message is its point (`block 1 slot 20 hash 30…`, or `genesis`); commits have no author and no time, so that one
/// chain gives the same ids everywhere.
#[derive(Debug)]
pub struct TreeUtxo {
    repo: Repo<Native>,
    branch: Branch<Native>,
    map: Map,
    head: Option<CommitId>,
    tip: UtxoTip,
    durability: Durability,
    syncer: Option<Syncer>,
}

impl TreeUtxo {
    /// Returns the format that sets are kept in: values of up to 128 bytes are inline.
    #[must_use]
    pub const fn format() -> Native {
        Native::new().inline(INLINE_BYTES_MAX)
    }

    /// Opens the set on a branch, or begins one.
    ///
    /// # Errors
    /// [`UtxoError::OtherStore`] for a branch whose head was not made by this; those of the store.
    pub fn open(repo: &Repo<Native>, branch: &str, durability: Durability) -> Result<Self, UtxoError> {
        let branch = repo.branch(branch)?;
        let head = branch.head()?;
        let tip = match head {
            None => UtxoTip::Empty,
            Some(head) => tip_of(repo, head)?.ok_or_else(|| UtxoError::OtherStore {
                reason: format!("the head of the branch {} is no state of a set of unspent outputs", branch.name()),
            })?,
        };
        let map = branch.map()?;
        Ok(Self { repo: repo.clone(), branch, map, head, tip, durability, syncer: None })
    }

    /// Makes synced commits durable on a thread of its own while the caller applies the next blocks: [`UtxoStore::commit`] returns
    /// once at most four commits wait for that, its own among them ([`UtxoStore::unsettled`]). Those share a sync where several
    /// wait. Of a set with another durability nothing changes.
    ///
    /// # Errors
    /// Those of the system if there can be no thread.
    pub fn sync_behind(mut self) -> Result<Self, UtxoError> {
        if self.durability == Durability::Synced {
            self.syncer = Some(Syncer::new(self.repo.backend().clone())?);
        }
        Ok(self)
    }

    /// Returns the head.
    ///
    /// # Errors
    /// Those of the store.
    pub fn head(&self) -> Result<Option<CommitId>, UtxoError> {
        Ok(self.branch.head()?)
    }

    /// Returns the last commit whose block is in a slot or before it, with its point.
    ///
    /// Reads a commit for each one after it.
    ///
    /// # Errors
    /// [`UtxoError::NotKept`] where the first commit is later; those of the store.
    pub fn at(&self, slot: u64) -> Result<(CommitId, UtxoTip), UtxoError> {
        self.find(|tip| tip.point().is_none_or(|point| point.slot <= slot))
            .and_then(|found| found.ok_or(UtxoError::NotKept { slot }))
    }

    /// Returns the commit at which the set stood `blocks` blocks before its tip, with its point: that of the block there, or
    /// else the last one before it. Where every block that changes something has a commit, nothing changed in between.
    ///
    /// # Errors
    /// [`UtxoError::NotSoFar`] where the first commit is later; those of the store.
    pub fn before(&self, blocks: u64) -> Result<(CommitId, UtxoTip), UtxoError> {
        let wanted = self.tip.height().checked_sub(blocks).ok_or(UtxoError::NotSoFar { blocks })?;
        let found = self.find(|tip| tip.height() <= wanted)?;
        found.ok_or(UtxoError::NotSoFar { blocks })
    }

    fn find(&self, wanted: impl Fn(UtxoTip) -> bool) -> Result<Option<(CommitId, UtxoTip)>, UtxoError> {
        let mut next = self.branch.head()?;
        while let Some(id) = next {
            let commit = self.repo.read_commit(id)?;
            let Some(tip) = parse(&commit.message) else { return Ok(None) };
            if wanted(tip) {
                return Ok(Some((id, tip)));
            }
            next = commit.parents.first().copied();
        }
        Ok(None)
    }

    /// Moves the branch to one of its commits, as [`at`](Self::at) and [`before`](Self::before) find them. Nothing is lost:
    /// what comes after it stays in the store.
    ///
    /// # Errors
    /// [`UtxoError::OtherStore`] for a commit that is no state of a set; [`bristlecone::Error::RefMoved`] if another process
    /// moved the branch; those of the store.
    pub fn roll_back(&mut self, to: CommitId) -> Result<(), UtxoError> {
        let tip = tip_of(&self.repo, to)?
            .ok_or_else(|| UtxoError::OtherStore { reason: format!("{to} is no state of a set of unspent outputs") })?;
        self.branch.compare_and_set(self.head, Some(to), self.durability)?;
        self.map = self.branch.map()?;
        self.head = Some(to);
        self.tip = tip;
        Ok(())
    }

    /// Returns the set at a commit, to be read.
    ///
    /// # Errors
    /// Those of the store.
    pub fn checkout(&self, id: CommitId) -> Result<Map, UtxoError> {
        Ok(self.repo.checkout_map(id)?)
    }

    /// Returns an excerpt of the set at a commit: a tree with the same root that holds just enough to show whether an output
    /// is in it.
    ///
    /// # Errors
    /// Those of the store.
    pub fn excerpt(&self, id: CommitId, output: &OutputRef) -> Result<Tree<Native>, UtxoError> {
        Ok(self.repo.checkout(id)?.prune([output_path(output).as_str()])?)
    }

    /// Returns the digest of the set at a commit, which reads all of it.
    ///
    /// # Errors
    /// Those of the store; [`UtxoError::Output`].
    pub fn digest_of(map: &Map) -> Result<UtxoDigest, UtxoError> {
        digest_by(|each| each_of(map, each))
    }
}

fn each_of(map: &Map, each: &mut EachOutput<'_>) -> Result<(), UtxoError> {
    let mut cursor = map.cursor()?;
    while let Some(item) = cursor.next()? {
        let output = parse_key(item.key()).ok_or_else(|| {
            let reason = format!("the entry {} names no output", String::from_utf8_lossy(item.key()));
            UtxoError::OtherStore { reason }
        })?;
        each(output, item.value()?)?;
    }
    Ok(())
}

impl UtxoStore for TreeUtxo {
    fn contains(&self, output: &OutputRef) -> Result<bool, UtxoError> {
        Ok(self.map.contains(Key::of(output).as_ref())?)
    }

    fn get(&self, output: &OutputRef) -> Result<Option<Vec<u8>>, UtxoError> {
        Ok(self.map.get(Key::of(output).as_ref())?.map(|value| value.to_vec()))
    }

    fn commit(&mut self, changes: &mut Changes, tip: UtxoTip) -> Result<(), UtxoError> {
        self.syncer.as_ref().map_or(Ok(()), Syncer::check)?;
        let durability = if self.syncer.is_some() { Durability::None } else { self.durability };
        let info = Info::unsigned(tip.to_string()).durability(durability);
        let before = self.map.clone();
        let committed = self.apply(changes).and_then(|()| self.map.commit(&self.branch, &info));
        match committed {
            Ok(id) => self.head = Some(id),
            Err(error) => {
                self.map = before;
                return Err(error.into());
            }
        }
        changes.clear();
        self.tip = tip;
        if let Some(syncer) = &mut self.syncer {
            syncer.begin()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), UtxoError> {
        Ok(self.syncer.as_mut().map_or(Ok(()), Syncer::settle)?)
    }

    fn unsettled(&self) -> usize {
        self.syncer.as_ref().map_or(0, Syncer::waiting)
    }

    fn settled_at(&mut self) -> Instant {
        self.syncer.as_mut().and_then(Syncer::durable_at).unwrap_or_else(Instant::now)
    }

    fn tip(&self) -> UtxoTip {
        self.tip
    }

    /// Reads every commit up to the first.
    fn began(&self) -> Result<Option<UtxoTip>, UtxoError> {
        let mut next = self.head;
        while let Some(id) = next {
            let commit = match self.repo.read_commit(id) {
                // Retention has cut what comes before.
                Err(StoreError::Absent { .. }) => return Ok(None),
                commit => commit?,
            };
            next = commit.parents.first().copied();
            if next.is_none() {
                return Ok(parse(&commit.message));
            }
        }
        Ok(None)
    }

    fn entries(&self) -> Result<u64, UtxoError> {
        Ok(self.map.len()?)
    }

    fn each(&self, each: &mut EachOutput<'_>) -> Result<(), UtxoError> {
        each_of(&self.map, each)
    }
}

impl TreeUtxo {
    fn apply(&mut self, changes: &Changes) -> StoreResult<()> {
        self.map.apply(changes.iter().map(|(output, value)| (Key::of(output), value)))
    }
}

/// The name of an entry.
struct Key {
    text: [u8; 75],
    length: usize,
}

impl Key {
    fn of(output: &OutputRef) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'#'; 75];
        for (pair, byte) in text.chunks_exact_mut(2).zip(output.tx.0) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        let mut length = 65 + output.index.checked_ilog10().map_or(1, |log| log as usize + 1);
        let mut rest = output.index;
        for digit in text[65..length].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        length = length.min(text.len());
        Self { text, length }
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.text[..self.length]
    }
}

/// Returns the output that an entry is named by.
pub(super) fn parse_key(key: &[u8]) -> Option<OutputRef> {
    let (tx, index) = std::str::from_utf8(key).ok()?.split_once('#')?;
    let output = OutputRef { tx: tx.parse::<TxId>().ok()?, index: index.parse().ok()? };
    // One output has one name.
    (Key::of(&output).as_ref() == key).then_some(output)
}

fn parse(message: &[u8]) -> Option<UtxoTip> {
    std::str::from_utf8(message).ok().and_then(UtxoTip::parse)
}

fn tip_of(repo: &Repo<Native>, id: CommitId) -> Result<Option<UtxoTip>, UtxoError> {
    Ok(parse(&repo.read_commit(id)?.message))
}

impl From<Point> for UtxoTip {
    fn from(point: Point) -> Self {
        Self::Block(point)
    }
}
