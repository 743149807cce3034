//! What is known of a set after a chunk.

use std::{collections::HashMap, fs, path::Path};

use super::ReplayError;
use crate::{Point, utxo::UtxoDigest};

/// What is known of a set after a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number of outputs.
    pub entries: u64,
    /// Their lovelace.
    pub lovelace: u128,
    /// The slot of the chunk's last block.
    pub last_slot: u64,
    /// Its hash, in hexadecimal.
    pub last_hash: String,
    /// The digest of the set, in hexadecimal.
    pub digest: String,
}

/// Checkpoints by their chunks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkpoints {
    by_chunk: HashMap<u32, Checkpoint>,
}

impl Checkpoints {
    /// Reads a file of comma-separated values whose head names the columns `chunk`, `utxo`, `lovelace`, `last_slot`, `last_hash`
    /// and `digest`, in any order and among others.
    ///
    /// # Errors
    /// [`ReplayError::Checkpoints`].
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let wrong = |reason: String| ReplayError::Checkpoints { file: path.display().to_string(), reason };
        let text = fs::read_to_string(path).map_err(|error| wrong(format!("the file cannot be read: {error}")))?;
        let mut lines = text.lines();
        let heads: Vec<&str> = lines.next().unwrap_or("").split(',').collect();
        let column = |name: &str| {
            let found = heads.iter().position(|head| *head == name);
            found.ok_or_else(|| wrong(format!("there is no column {name} in the first line")))
        };
        let columns = ["chunk", "utxo", "lovelace", "last_slot", "last_hash", "digest"];
        let columns: Vec<usize> = columns.into_iter().map(column).collect::<Result<_, _>>()?;
        let mut by_chunk = HashMap::new();
        for (index, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
            let cells: Vec<&str> = line.split(',').collect();
            let cell = |column: usize| cells.get(columns[column]).copied().unwrap_or("");
            let number = |column: usize| {
                cell(column)
                    .parse::<u128>()
                    .map_err(|_| wrong(format!("line {}: \"{}\" is no number", index + 2, cell(column))))
            };
            let small = |column| number(column).map(|value| u64::try_from(value).unwrap_or(u64::MAX));
            let known = Checkpoint {
                entries: small(1)?,
                lovelace: number(2)?,
                last_slot: small(3)?,
                last_hash: cell(4).to_owned(),
                digest: cell(5).to_owned(),
            };
            by_chunk.insert(u32::try_from(number(0)?).unwrap_or(u32::MAX), known);
        }
        Ok(Self { by_chunk })
    }

    /// Returns what is known after a chunk.
    #[must_use]
    pub fn of(&self, chunk: u32) -> Option<&Checkpoint> {
        self.by_chunk.get(&chunk)
    }
}

impl Checkpoint {
    /// Whether a block is the last one of the chunk.
    pub(super) fn is_at(&self, last: Option<Point>) -> bool {
        last.is_some_and(|last| last.slot == self.last_slot && last.hash.to_string() == self.last_hash)
    }

    /// Compares a set with this.
    pub(super) fn compare(&self, chunk: u32, last: Option<Point>, found: &UtxoDigest) -> Result<(), ReplayError> {
        let differs = |what, found: String, known: String| {
            if found == known { Ok(()) } else { Err(ReplayError::Wrong { chunk, what, found, known }) }
        };
        let (slot, hash) = last.map_or((0, String::new()), |last| (last.slot, last.hash.to_string()));
        differs("last slot", slot.to_string(), self.last_slot.to_string())?;
        differs("last block", hash, self.last_hash.clone())?;
        differs("number of entries", found.entries.to_string(), self.entries.to_string())?;
        differs("lovelace", found.lovelace.to_string(), self.lovelace.to_string())?;
        differs("digest", found.hex(), self.digest.clone())
    }
}
