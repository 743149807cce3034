//! The journal: what happened since everything was durable.
//!
//! A repository alone cannot be brought back to a consistent state after a power cut: a ref that was not synced may be
//! empty, or name a commit whose pack is torn. So before the first move that is not durable, the journal says what is
//! durable, and is synced: the packs that are whole, and the values of refs to fall back on. Lines that are not synced
//! follow, one for each pack and each move, in order. Each has a checksum that continues that of the line before, so
//! that a power cut leaves a prefix of them.
//!
//! There are two files. A generation is written to the one that does not hold the present one and synced; a generation
//! counts once its beginning is whole, and the higher one is the journal. So a file only ever changes at its end.
//! `docs/formats/git-backend.md` lists the bytes. Only the holder of the store's lock touches the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, StorageFile},
};

use crate::repository::{
    error,
    files::{Files, read_to_end},
};

mod generation;

pub(super) use generation::{Generation, JournalLine, Value};
use generation::{base_line, put_line};

/// The folder of everything of ours in a repository.
pub(crate) const OURS: &str = "bristlecone";
const NAMES: [&str; 2] = ["bristlecone/journal-0", "bristlecone/journal-1"];
/// Bytes of a file that show whether another process began a new generation.
const HEAD_BYTES: usize = 96;

/// The journal of a repository, as this process knows it.
#[derive(Debug)]
pub(super) struct Journal {
    files: Files,
    boot: Option<String>,
    // Opened when there is first something to do with them.
    slots: [Option<Arc<dyn StorageFile>>; 2],
    // How both files begin.
    heads: [Vec<u8>; 2],
    now: Generation,
}

impl Journal {
    pub(super) fn new(files: Files, boot: Option<String>) -> Self {
        let now = Generation { clean: true, ..Generation::default() };
        Self { files, boot, slots: [None, None], heads: [Vec::new(), Vec::new()], now }
    }

    /// Returns the present generation, as of the last [`Journal::refresh`] or change.
    pub(super) fn now(&self) -> &Generation {
        &self.now
    }

    /// Whether there is something that may not be durable.
    pub(super) fn is_dirty(&self) -> bool {
        !self.now.clean
    }

    /// Whether a ref that the journal names does not hold what it held last, as far as the journal says.
    pub(super) fn differs(&self, name: &str, value: &Value) -> bool {
        self.now.value(name).is_some_and(|known| known != value)
    }

    /// Returns when a process wrote to the present generation last, in nanoseconds since 1970; 0 where that is unknown.
    pub(super) fn modified_ns(&self) -> Result<u64> {
        Ok(self.files.stat(NAMES[slot_of(self.now.number)])?.map_or(0, |stat| stat.modified_ns))
    }

    /// Whether no process wrote to the present generation for this long.
    pub(super) fn is_older(&self, than: Duration) -> Result<bool> {
        self.files.is_older(NAMES[slot_of(self.now.number)], than)
    }

    /// Takes in what other processes did.
    pub(super) fn refresh(&mut self) -> Result<()> {
        let heads = [self.head(0)?, self.head(1)?];
        if heads != self.heads {
            return self.load(heads);
        }
        let slot = slot_of(self.now.number);
        let Some(file) = &self.slots[slot] else { return Ok(()) };
        let len = self.files.named(NAMES[slot], file.len())?;
        if len < self.now.end {
            return self.load(heads);
        }
        if len > self.now.end {
            let more = read_to_end(&**file, self.now.end, usize::MAX);
            let more = self.files.named(NAMES[slot], more)?;
            self.now.parse_lines(&more);
        }
        Ok(())
    }

    /// Reads how a file begins; nothing if the file is absent.
    fn head(&mut self, slot: usize) -> Result<Vec<u8>> {
        if self.slots[slot].is_none() {
            self.slots[slot] = match self.files.open_raw(NAMES[slot], OpenMode::Write) {
                Err(error) if crate::repository::files::is_absent(&error) => return Ok(Vec::new()),
                opened => Some(self.files.named(NAMES[slot], opened)?),
            };
        }
        let Some(file) = &self.slots[slot] else { return Ok(Vec::new()) };
        self.files.named(NAMES[slot], read_to_end(&**file, 0, HEAD_BYTES))
    }

    /// Reads both files and takes the higher generation that is whole.
    fn load(&mut self, heads: [Vec<u8>; 2]) -> Result<()> {
        let mut now = Generation { clean: true, ..Generation::default() };
        for (slot, name) in NAMES.iter().enumerate() {
            let Some(file) = &self.slots[slot] else { continue };
            let bytes = self.files.named(name, read_to_end(&**file, 0, usize::MAX))?;
            if let Some(found) = Generation::parse(&bytes)
                && found.number > now.number
                && slot_of(found.number) == slot
            {
                now = found;
            }
        }
        (self.heads, self.now) = (heads, now);
        Ok(())
    }

    /// Begins a generation in which not everything is durable, and makes its beginning so.
    ///
    /// `known`: the packs that are durable. `bases`: what refs hold durably. `lines` happened and may not be durable.
    pub(super) fn begin(
        &mut self,
        known: BTreeSet<String>,
        bases: BTreeMap<String, Value>,
        loose: bool,
        lines: Vec<JournalLine>,
    ) -> Result<()> {
        let mut next = Generation { known, bases, loose, ..Generation::default() };
        lines.into_iter().for_each(|line| next.push(line));
        self.write(next)
    }

    /// Begins a generation in which everything is durable.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.write(Generation { clean: true, ..Generation::default() })
    }

    fn write(&mut self, mut next: Generation) -> Result<()> {
        let Some(number) = self.now.number.checked_add(1) else {
            let name = NAMES[slot_of(self.now.number)];
            return Err(error::corrupt(self.files.describe(name), 0, None, "its number is the last that there is"));
        };
        next.number = number;
        next.boot = self.boot.clone();
        let text = next.encode();
        let slot = slot_of(next.number);
        let name = NAMES[slot];
        let fresh = self.slots[slot].is_none();
        if fresh {
            self.files.create_dir(OURS)?;
            self.slots[slot] = Some(self.files.open(name, OpenMode::Create)?);
        }
        let Some(file) = self.slots[slot].clone() else { return Ok(()) };
        self.files.set_len(name, &*file, 0)?;
        self.files.write_at(name, &*file, text.as_bytes(), 0)?;
        self.files.sync_open(name, &*file)?;
        if fresh {
            self.files.sync_dir(OURS)?;
            self.files.sync_dir("")?;
        }
        self.heads[slot] = text.as_bytes()[..text.len().min(HEAD_BYTES)].to_vec();
        self.now = next;
        Ok(())
    }

    /// Adds what happened. Not durable.
    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = JournalLine>) -> Result<()> {
        let mut text = String::new();
        let (mut chain, mut added) = (self.now.chain, Vec::new());
        for line in lines {
            line.encode(&mut text, &mut chain);
            added.push(line);
        }
        self.append(text, chain)?;
        added.into_iter().for_each(|line| self.now.push(line));
        Ok(())
    }

    /// Notes what a ref holds durably, and makes that durable with all that was added before.
    pub(super) fn add_base(&mut self, name: &str, value: Value) -> Result<()> {
        let (mut text, mut chain) = (String::new(), self.now.chain);
        put_line(&mut text, &mut chain, &base_line(name, &value));
        self.append(text, chain)?;
        self.now.bases.insert(name.to_owned(), value);
        self.sync()
    }

    /// Notes that loose objects may be torn, and makes that durable.
    pub(super) fn add_loose(&mut self) -> Result<()> {
        let (mut text, mut chain) = (String::new(), self.now.chain);
        put_line(&mut text, &mut chain, "loose");
        self.append(text, chain)?;
        self.now.loose = true;
        self.sync()
    }

    fn append(&mut self, text: String, chain: u64) -> Result<()> {
        let slot = slot_of(self.now.number);
        let Some(file) = self.slots[slot].as_ref().filter(|_| !self.now.clean) else {
            return Err(Error::Usage { reason: "a line was added to a journal that was not begun" });
        };
        // A line that a process left half written when it died would end the journal there.
        if self.files.named(NAMES[slot], file.len())? > self.now.end {
            self.files.set_len(NAMES[slot], &**file, self.now.end)?;
        }
        self.files.write_at(NAMES[slot], &**file, text.as_bytes(), self.now.end)?;
        self.now.end += text.len() as u64;
        self.now.chain = chain;
        // Short generations show their lines among the first bytes.
        let head = &mut self.heads[slot];
        head.extend_from_slice(&text.as_bytes()[..text.len().min(HEAD_BYTES - head.len().min(HEAD_BYTES))]);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let slot = slot_of(self.now.number);
        match &self.slots[slot] {
            Some(file) => self.files.sync_open(NAMES[slot], &**file),
            None => Ok(()),
        }
    }
}

const fn slot_of(number: u64) -> usize {
    (number % 2) as usize
}

#[cfg(test)]
mod tests {
    use bristlecone_testkit::sim::SimStorage;

    use super::*;

    #[test]
    fn a_journal_after_which_none_can_come_is_damaged() {
        let files = Files::new(Arc::new(SimStorage::new()));
        files.create_dir(OURS).unwrap();
        let text = Generation { number: u64::MAX, ..Generation::default() }.encode();
        files.write(NAMES[1], text.as_bytes()).unwrap();
        let mut journal = Journal::new(files, None);
        journal.refresh().unwrap();
        assert!(journal.is_dirty());
        assert!(matches!(journal.finish(), Err(Error::Corrupt { .. })));
    }

    #[test]
    fn another_handle_sees_what_was_added_and_a_new_generation() {
        let files = Files::new(Arc::new(SimStorage::new()));
        let (mut one, mut other) = (Journal::new(files.clone(), None), Journal::new(files, None));
        one.refresh().unwrap();
        assert!(!one.is_dirty());
        let line = |n: usize| JournalLine::Pack(format!("pack-{n}"));
        for round in 0..5 {
            one.refresh().unwrap();
            one.begin(BTreeSet::new(), BTreeMap::new(), false, Vec::new()).unwrap();
            for n in 0..6 {
                let (writer, reader) = if n % 2 == 0 { (&mut one, &mut other) } else { (&mut other, &mut one) };
                writer.refresh().unwrap();
                writer.add([line(round * 10 + n)]).unwrap();
                reader.refresh().unwrap();
                assert_eq!(reader.now().lines, (0..=n).map(|n| line(round * 10 + n)).collect::<Vec<_>>());
            }
            other.add_base("refs/heads/main", None).unwrap();
            one.refresh().unwrap();
            assert_eq!(one.now().bases.len(), 1);
            other.finish().unwrap();
            one.refresh().unwrap();
            assert!(!one.is_dirty() && one.now().lines.is_empty());
        }
    }

    #[test]
    fn what_a_ref_held_last_is_known_to_every_handle() {
        let files = Files::new(Arc::new(SimStorage::new()));
        let (mut one, mut other) = (Journal::new(files.clone(), None), Journal::new(files, None));
        let value = |name: &str| Some(bristlecone::RefTarget::Symbolic(name.to_owned()));
        let moved = |to: &str| JournalLine::Move { name: "HEAD".to_owned(), from: None, to: value(to) };
        let bases = BTreeMap::from([("HEAD".to_owned(), value("a"))]);
        one.begin(BTreeSet::new(), bases.clone(), false, Vec::new()).unwrap();
        other.refresh().unwrap();
        for journal in [&one, &other] {
            assert!(!journal.differs("HEAD", &value("a")) && journal.differs("HEAD", &None));
            assert!(!journal.differs("refs/heads/a", &None), "the journal does not know this one");
        }
        for to in ["b", "c"] {
            one.add([moved(to)]).unwrap();
            other.refresh().unwrap();
            assert!([&one, &other].iter().all(|journal| !journal.differs("HEAD", &value(to))));
        }
        assert!(other.differs("HEAD", &value("a")));
        other.begin(BTreeSet::new(), bases, false, vec![moved("d")]).unwrap();
        one.refresh().unwrap();
        assert!([&one, &other].iter().all(|journal| !journal.differs("HEAD", &value("d"))));
        one.finish().unwrap();
        assert!(!one.differs("HEAD", &None));
    }
}
