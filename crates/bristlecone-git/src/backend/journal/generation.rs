//! One generation of the journal, as lines of text.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use bristlecone::{Oid, RefTarget, core::git::Algorithm};

use crate::repository::refs::check_name;

/// What the first line of a generation begins with: the name and the version.
const MAGIC: &str = "bristlecone-journal 1";

/// Names or ids in one line.
const WORDS_MAX: usize = 64;

/// What a ref holds; `None` if there is no such ref.
pub(crate) type Value = Option<RefTarget>;

/// One thing that happened and is not durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalLine {
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
pub(crate) struct Generation {
    pub(crate) number: u64,
    /// Whether everything was durable when it began; nothing follows then.
    pub(crate) clean: bool,
    /// The start of the machine in which it was begun.
    pub(crate) boot: Option<String>,
    /// Packs that were durable when it began.
    pub(crate) known: BTreeSet<String>,
    /// Whether loose objects were written that may be torn.
    pub(crate) loose: bool,
    /// What refs held, durably, before they first moved since.
    pub(crate) bases: BTreeMap<String, Value>,
    /// What happened since, in order.
    pub(crate) lines: Vec<JournalLine>,
    // What refs hold that moved since.
    pub(super) moved: HashMap<String, Value>,
    // The checksum of the last line, and where it ends in the file.
    pub(super) chain: u64,
    pub(super) end: u64,
}

impl JournalLine {
    pub(super) fn encode(&self, text: &mut String, chain: &mut u64) {
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
    /// Adds something that happened.
    pub(super) fn push(&mut self, line: JournalLine) {
        if let JournalLine::Move { name, to, .. } = &line {
            match self.moved.get_mut(name) {
                Some(value) => value.clone_from(to),
                None => _ = self.moved.insert(name.clone(), to.clone()),
            }
        }
        self.lines.push(line);
    }

    /// Returns what a ref holds as far as is known here.
    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.moved.get(name).or_else(|| self.bases.get(name))
    }

    /// Returns the bytes, and notes where they end.
    pub(super) fn encode(&mut self) -> String {
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
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
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
    pub(super) fn parse_lines(&mut self, mut bytes: &[u8]) {
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
                    self.push(JournalLine::Loose(oids));
                }
            }
            "base" => {
                let (value, name) = rest.split_once(' ')?;
                self.bases.insert(ref_name(name)?, parse_value(value)?);
            }
            "pack" if !rest.is_empty() && !rest.contains('/') => self.push(JournalLine::Pack(rest.to_owned())),
            "move" => {
                let mut words = rest.splitn(3, ' ');
                let (from, to) = (parse_value(words.next()?)?, parse_value(words.next()?)?);
                self.push(JournalLine::Move { name: ref_name(words.next()?)?, from, to });
            }
            _ => return None,
        }
        Some(())
    }
}

/// Adds a line with its checksum.
pub(super) fn put_line(text: &mut String, chain: &mut u64, line: &str) {
    *chain = next_check(*chain, line.as_bytes());
    let _ = writeln!(text, "{chain:016x} {line}");
}

/// Returns the checksum of a line that follows one with this checksum.
fn next_check(chain: u64, line: &[u8]) -> u64 {
    Algorithm::Sha1.digest(&[&chain.to_be_bytes(), line]).prefix()
}

pub(super) fn base_line(name: &str, value: &Value) -> String {
    format!("base {} {name}", value_text(value))
}

/// Returns the name of a ref, if it is one: the names of files are made of it, and the journal may be somebody else's.
fn ref_name(text: &str) -> Option<String> {
    check_name(text).ok().map(|()| text.to_owned())
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

#[cfg(test)]
mod tests {
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
                JournalLine::Pack("pack-new".to_owned()),
                JournalLine::Move { name: "refs/heads/main".to_owned(), from: None, to },
                JournalLine::Loose(vec![oid(1), oid(2)]),
                JournalLine::Move {
                    name: "HEAD".to_owned(),
                    from: None,
                    to: Some(RefTarget::Symbolic("refs/heads/side".to_owned())),
                },
            ],
            ..Generation::default()
        }
    }

    #[test]
    fn names_that_lead_out_of_the_repository_end_the_journal() {
        let moved = |name: &str| JournalLine::Move { name: name.to_owned(), from: None, to: None };
        for name in ["../x", "refs/../../x", "/x", "refs/heads/x.lock", "config", ""] {
            let mut whole = Generation { lines: vec![moved("HEAD"), moved(name), moved("HEAD")], ..sample() };
            let found = Generation::parse(whole.encode().as_bytes()).unwrap();
            assert_eq!(found.lines, [moved("HEAD")], "{name}");
            let mut whole = Generation { bases: [(name.to_owned(), None)].into(), ..sample() };
            assert!(Generation::parse(whole.encode().as_bytes()).is_none(), "{name}");
        }
        for name in ["../../x", "a/b", ""] {
            let mut whole = Generation { lines: vec![JournalLine::Pack(name.to_owned())], ..sample() };
            let found = Generation::parse(whole.encode().as_bytes()).unwrap();
            assert!(found.lines.is_empty(), "{name}");
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
}
