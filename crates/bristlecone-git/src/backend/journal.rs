//! The journal: what happened since everything was durable.
//!
//! A repository alone cannot be brought back to a sound state after a power cut: a ref that was not synced may be empty,
//! or name a commit whose pack is torn. So before the first move that is not durable, the journal is made to say what
//! is: the packs that are sound and the values of refs to fall back on, synced. What follows are lines that nobody
//! syncs, one for each pack and each move, in order; each has a checksum that goes on from the line before, so that what
//! a power cut left of them is a prefix.
//!
//! There are two files. A generation is written to the one that does not hold the present one and synced; a generation
//! counts once its beginning is whole, and the higher one is the journal. So none is ever changed in place but by adding
//! to its end. `docs/formats/git-backend.md` lists the bytes. Only the holder of the store's lock touches the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::Arc,
    time::Duration,
};

use bristlecone::{
    Error, Oid, RefTarget, Result,
    core::git::Algorithm,
    storage::{OpenMode, StorageFile},
};

use crate::repository::files::{Files, read_to_end};

/// The folder of everything of ours in a repository.
pub(super) const OURS: &str = "bristlecone";
const NAMES: [&str; 2] = ["bristlecone/journal-0", "bristlecone/journal-1"];
/// What the first line of a generation begins with: the name and the version.
const MAGIC: &str = "bristlecone-journal 1";
/// So many bytes of a file are looked at to see whether another process began a new generation.
const HEAD_BYTES: usize = 96;
/// Names or ids in one line.
const WORDS_MAX: usize = 64;

/// What a ref holds, or that there is none.
pub(super) type Value = Option<RefTarget>;

/// One thing that happened and is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A pack was written.
    Pack(String),
    /// Loose objects were written.
    Loose(Vec<Oid>),
    /// A ref moved.
    Move {
        /// The ref.
        name: String,
        /// What it held.
        from: Value,
        /// What it holds since.
        to: Value,
    },
}

/// A generation of the journal.
#[derive(Clone, Debug, Default)]
pub(super) struct Generation {
    pub(super) number: u64,
    /// Whether everything was durable when it began; nothing follows then.
    pub(super) clean: bool,
    /// The start of the machine in which it was begun.
    pub(super) boot: Option<String>,
    /// Packs that were durable when it began.
    pub(super) known: BTreeSet<String>,
    /// Whether loose objects were written that may be torn.
    pub(super) loose: bool,
    /// What refs held, durably, before they first moved since.
    pub(super) bases: BTreeMap<String, Value>,
    /// What happened since, in order.
    pub(super) lines: Vec<Line>,
    // The checksum of the last line, and where it ends in the file.
    chain: u64,
    end: u64,
}

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

    /// Whether nobody wrote to the present generation for this long.
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

    /// Reads how a file begins; nothing if there is none.
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
        lines: Vec<Line>,
    ) -> Result<()> {
        self.write(Generation { known, bases, loose, lines, ..Generation::default() })
    }

    /// Begins a generation in which everything is durable.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.write(Generation { clean: true, ..Generation::default() })
    }

    fn write(&mut self, mut next: Generation) -> Result<()> {
        next.number = self.now.number + 1;
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
    pub(super) fn add(&mut self, lines: impl IntoIterator<Item = Line>) -> Result<()> {
        let mut text = String::new();
        let (mut chain, mut added) = (self.now.chain, Vec::new());
        for line in lines {
            line.encode(&mut text, &mut chain);
            added.push(line);
        }
        self.append(text, chain)?;
        self.now.lines.extend(added);
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
        // What somebody who died left half written would end the journal there.
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

/// Adds a line with its checksum.
fn put_line(text: &mut String, chain: &mut u64, line: &str) {
    *chain = next_check(*chain, line.as_bytes());
    let _ = writeln!(text, "{chain:016x} {line}");
}

/// Returns the checksum of a line that follows one with this checksum.
fn next_check(chain: u64, line: &[u8]) -> u64 {
    Algorithm::Sha1.digest(&[&chain.to_be_bytes(), line]).prefix()
}

fn base_line(name: &str, value: &Value) -> String {
    format!("base {} {name}", value_text(value))
}

fn value_text(value: &Value) -> String {
    match value {
        None => "-".to_owned(),
        Some(RefTarget::Object(at)) => at.oid.to_string(),
        Some(RefTarget::Symbolic(name)) => format!("@{name}"),
    }
}

fn parse_value(text: &str) -> Option<Value> {
    Some(match text.strip_prefix('@') {
        Some(name) => Some(RefTarget::Symbolic(name.to_owned())),
        None if text == "-" => None,
        None => Some(RefTarget::Object(text.parse::<Oid>().ok()?.into())),
    })
}

impl Line {
    fn encode(&self, text: &mut String, chain: &mut u64) {
        match self {
            Self::Pack(name) => put_line(text, chain, &format!("pack {name}")),
            Self::Move { name, from, to } => {
                put_line(text, chain, &format!("move {} {} {name}", value_text(from), value_text(to)));
            }
            Self::Loose(oids) => {
                for part in oids.chunks(WORDS_MAX) {
                    let mut line = "loose".to_owned();
                    part.iter().for_each(|oid| _ = write!(line, " {oid}"));
                    put_line(text, chain, &line);
                }
            }
        }
    }
}

impl Generation {
    /// Returns the bytes, and notes where they end.
    fn encode(&mut self) -> String {
        let (mut text, mut chain) = (String::new(), 0);
        let state = if self.clean { "clean" } else { "dirty" };
        let boot = self.boot.as_deref().unwrap_or("-");
        put_line(&mut text, &mut chain, &format!("{MAGIC} {} {state} {boot}", self.number));
        if !self.clean {
            let known: Vec<&String> = self.known.iter().collect();
            for part in known.chunks(WORDS_MAX) {
                let mut line = "known".to_owned();
                part.iter().for_each(|name| _ = write!(line, " {name}"));
                put_line(&mut text, &mut chain, &line);
            }
            if self.loose {
                put_line(&mut text, &mut chain, "loose");
            }
            for (name, value) in &self.bases {
                put_line(&mut text, &mut chain, &base_line(name, value));
            }
            put_line(&mut text, &mut chain, "ready");
            self.lines.iter().for_each(|line| line.encode(&mut text, &mut chain));
        }
        (self.chain, self.end) = (chain, text.len() as u64);
        text
    }

    /// Reads a file; `None` unless the beginning of a generation is whole.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut found = Self::default();
        let first = found.next_line(bytes)?;
        let mut words = str::from_utf8(first).ok()?.strip_prefix(MAGIC)?.split(' ').skip(1);
        found.number = words.next()?.parse().ok()?;
        found.clean = match words.next()? {
            "clean" => true,
            "dirty" => false,
            _ => return None,
        };
        found.boot = words.next().filter(|&boot| boot != "-").map(str::to_owned);
        if found.clean {
            return Some(found);
        }
        loop {
            match found.next_line(&bytes[found.end as usize..])? {
                b"ready" => break,
                line => found.take_line(line)?,
            }
        }
        found.parse_lines(&bytes[found.end as usize..]);
        Some(found)
    }

    /// Takes in lines for as long as they are whole.
    fn parse_lines(&mut self, mut bytes: &[u8]) {
        loop {
            let before = (self.chain, self.end);
            let Some(line) = self.next_line(bytes) else { return };
            if self.take_line(line).is_none() {
                (self.chain, self.end) = before;
                return;
            }
            bytes = &bytes[(self.end - before.1) as usize..];
        }
    }

    /// Returns the line at the start of `bytes` if its checksum is right, and goes on behind it.
    fn next_line<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (check, line) = bytes[..end].split_at_checked(16)?;
        let check = u64::from_str_radix(str::from_utf8(check).ok()?, 16).ok()?;
        let line = line.strip_prefix(b" ")?;
        if check != next_check(self.chain, line) {
            return None;
        }
        (self.chain, self.end) = (check, self.end + end as u64 + 1);
        Some(line)
    }

    fn take_line(&mut self, line: &[u8]) -> Option<()> {
        let line = str::from_utf8(line).ok()?;
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = || rest.split(' ').filter(|word| !word.is_empty());
        match kind {
            "known" => self.known.extend(words().map(str::to_owned)),
            "loose" => {
                self.loose = true;
                let oids: Vec<Oid> = words().map(|word| word.parse().ok()).collect::<Option<_>>()?;
                if !oids.is_empty() {
                    self.lines.push(Line::Loose(oids));
                }
            }
            "base" => {
                let (value, name) = rest.split_once(' ')?;
                self.bases.insert(name.to_owned(), parse_value(value)?);
            }
            "pack" => self.lines.push(Line::Pack(rest.to_owned())),
            "move" => {
                let mut words = rest.splitn(3, ' ');
                let (from, to) = (parse_value(words.next()?)?, parse_value(words.next()?)?);
                self.lines.push(Line::Move { name: words.next()?.to_owned(), from, to });
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_testkit::sim::SimStorage;

    use super::*;

    fn oid(byte: u8) -> Oid {
        Oid::new(&[byte; 20]).unwrap()
    }

    fn sample() -> Generation {
        let to = Some(RefTarget::Object(oid(7).into()));
        Generation {
            number: 9,
            known: (0..150).map(|n| format!("pack-{n}")).collect(),
            bases: [("refs/heads/main".to_owned(), to.clone()), ("HEAD".to_owned(), None)].into(),
            loose: true,
            lines: vec![
                Line::Pack("pack-new".to_owned()),
                Line::Move { name: "refs/heads/main".to_owned(), from: None, to },
                Line::Loose(vec![oid(1), oid(2)]),
                Line::Move {
                    name: "HEAD".to_owned(),
                    from: None,
                    to: Some(RefTarget::Symbolic("refs/heads/side".to_owned())),
                },
            ],
            ..Generation::default()
        }
    }

    #[test]
    fn what_is_cut_is_a_prefix_or_nothing() {
        let mut whole = sample();
        let text = whole.encode();
        let found = Generation::parse(text.as_bytes()).unwrap();
        assert_eq!((found.number, found.clean, &found.known, &found.bases), (9, false, &whole.known, &whole.bases));
        assert_eq!(found.lines, whole.lines);
        let ready = text.find(" ready\n").unwrap() + 7;
        for cut in 0..text.len() {
            match Generation::parse(&text.as_bytes()[..cut]) {
                None => assert!(cut < ready),
                Some(found) => assert!(cut >= ready && whole.lines.starts_with(&found.lines)),
            }
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Some(found) = Generation::parse(&bytes) {
                assert!(at >= ready && whole.lines.starts_with(&found.lines) && found.lines != whole.lines);
            }
        }
    }

    #[test]
    fn another_handle_sees_what_was_added_and_a_new_generation() {
        let files = Files::new(Arc::new(SimStorage::new()));
        let (mut one, mut other) = (Journal::new(files.clone(), None), Journal::new(files, None));
        one.refresh().unwrap();
        assert!(!one.is_dirty());
        let line = |n: usize| Line::Pack(format!("pack-{n}"));
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
}
