//! The refs of a store as text that people can read: a line a ref, and a checksum. `docs/formats/fs.md` has the grammar.

use std::{collections::BTreeMap, fmt::Write as _};

use twox_hash::XxHash3_64;

use crate::backend::{Position, RefTarget};

const FIRST: &str = "bristlecone refs 1 of ";
const LAST: &str = "check ";
const SYMBOLIC: &str = "-> ";
/// No store counts so far; what is added to smaller numbers does not overflow.
const NUMBER_END: u64 = 1 << 63;

/// All refs, and what else changes with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RefTable {
    /// Which of two tables is newer: every write has a higher number.
    pub(super) serial: u64,
    /// The position of the last move.
    pub(super) position: Position,
    /// How many sweeps have begun that dropped something.
    pub(super) sweeps: u64,
    /// Whether the last of them has not ended.
    pub(super) sweeping: bool,
    pub(super) by_name: BTreeMap<String, RefTarget>,
}

impl RefTable {
    /// Returns the text. `boot` says since which start of the machine it may be believed though it is not durable.
    pub(super) fn encode(&self, boot: &str) -> String {
        let mut text = format!("{FIRST}{boot}\n");
        let sweeping = if self.sweeping { "sweeping" } else { "swept" };
        let _ = writeln!(text, "serial {} position {} {sweeping} {}", self.serial, self.position.0, self.sweeps);
        for (name, target) in &self.by_name {
            put_name(&mut text, name);
            match target {
                RefTarget::Object(at) => _ = write!(text, " {}", at.oid),
                RefTarget::Symbolic(to) => {
                    text.push(' ');
                    text.push_str(SYMBOLIC);
                    put_name(&mut text, to);
                }
            }
            text.push('\n');
        }
        let check = XxHash3_64::oneshot(text.as_bytes());
        let _ = writeln!(text, "{LAST}{check:016x} of {boot}");
        text
    }

    /// Decodes a text and returns what it is of. An error says where and why these bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, String), (u64, &'static str)> {
        let text = str::from_utf8(bytes).map_err(|error| (error.valid_up_to() as u64, "this is no text"))?;
        let whole = text.strip_suffix('\n').ok_or((bytes.len() as u64, "the file is cut short"))?;
        let (lines, last) = whole.rsplit_once('\n').ok_or((0, "the file is cut short"))?;
        let contents = &text[..lines.len() + 1];
        let boot = lines.lines().next().and_then(|first| first.strip_prefix(FIRST));
        let boot = boot.ok_or((0, "this is no list of refs"))?;
        if last != format!("{LAST}{:016x} of {boot}", XxHash3_64::oneshot(contents.as_bytes())) {
            return Err((contents.len() as u64, "the checksum is wrong"));
        }
        let mut at = 0;
        let mut table = Self::default();
        for (index, line) in lines.split('\n').enumerate() {
            match index {
                0 => {}
                1 => table.put_numbers(line).ok_or((at, "these are not the numbers of a list of refs"))?,
                _ => table.put_ref(line).ok_or((at, "this is no ref"))?,
            }
            at += line.len() as u64 + 1;
        }
        Ok((table, boot.to_owned()))
    }

    /// Whether damaged bytes were a table of this start of the machine: one of the two places that say so is whole.
    pub(super) fn is_of(bytes: &[u8], boot: &str) -> bool {
        let mark = format!(" of {boot}\n");
        bytes.windows(mark.len()).any(|window| window == mark.as_bytes())
    }

    fn put_numbers(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        let ["serial", serial, "position", position, state, sweeps] = words[..] else { return None };
        self.sweeping = match state {
            "sweeping" => true,
            "swept" => false,
            _ => return None,
        };
        let number = |word: &str| word.parse::<u64>().ok().filter(|number| *number < NUMBER_END);
        (self.serial, self.sweeps) = (number(serial)?, number(sweeps)?);
        self.position = Position(number(position)?);
        Some(())
    }

    fn put_ref(&mut self, line: &str) -> Option<()> {
        let (name, target) = line.split_once(' ')?;
        let target = match target.strip_prefix(SYMBOLIC) {
            Some(to) => RefTarget::Symbolic(name_of(to)?),
            None => RefTarget::Object(target.parse::<bristlecone_core::Oid>().ok()?.into()),
        };
        self.by_name.insert(name_of(name)?, target).is_none().then_some(())
    }
}

/// Writes a name with what would break a line, or hide in it, as `%XX`.
fn put_name(text: &mut String, name: &str) {
    for letter in name.chars() {
        if letter == '%' || letter.is_whitespace() || letter.is_control() {
            let mut bytes = [0; 4];
            letter.encode_utf8(&mut bytes).bytes().for_each(|byte| _ = write!(text, "%{byte:02X}"));
        } else {
            text.push(letter);
        }
    }
}

fn name_of(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use bristlecone_core::Oid;

    use super::*;

    fn table() -> RefTable {
        let object = |length: usize| RefTarget::Object(Oid::new(&vec![0xab; length]).unwrap().into());
        let mut by_name = BTreeMap::from([
            ("main".to_owned(), object(32)),
            ("HEAD".to_owned(), RefTarget::Symbolic("main".to_owned())),
            ("odd \n%\u{85}\u{2028} näme".to_owned(), RefTarget::Symbolic("-> a b".to_owned())),
        ]);
        by_name.insert("short".to_owned(), object(1));
        RefTable { serial: 9, position: Position(7), sweeps: 3, sweeping: true, by_name }
    }

    #[test]
    fn a_table_round_trips_and_every_flip_and_cut_is_found() {
        for table in [table(), RefTable::default()] {
            let text = table.encode("start-1");
            assert_eq!(RefTable::decode(text.as_bytes()), Ok((table, "start-1".to_owned())));
            for bit in 0..text.len() * 8 {
                let mut flipped = text.clone().into_bytes();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(RefTable::decode(&flipped).is_err(), "bit {bit}");
                assert!(RefTable::is_of(&flipped, "start-1"), "bit {bit}");
                assert!(!RefTable::is_of(&flipped, "start-2"));
            }
            for cut in 0..text.len() {
                assert!(RefTable::decode(&text.as_bytes()[..cut]).is_err(), "cut at {cut}");
            }
        }
        let (last, beyond) = (NUMBER_END - 1, NUMBER_END);
        for (serial, position, sweeps) in [(beyond, 1, 1), (1, beyond, 1), (1, 1, beyond), (last, last, last)] {
            let table = RefTable { serial, position: Position(position), sweeps, ..table() };
            let decoded = RefTable::decode(table.encode("b").as_bytes());
            assert_eq!(decoded.is_ok(), serial == last, "{serial} {position} {sweeps}: {decoded:?}");
        }
        assert!(table().encode("b").contains("\nmain abab") && table().encode("b").contains("\nHEAD -> main\n"));
    }
}
