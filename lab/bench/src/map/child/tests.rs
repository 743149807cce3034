//! Maps that are not what was written to them are found out.

use super::*;

/// What makes a map wrong.
type Fault = fn(&mut Fake);

/// A map that can be told to be wrong.
#[derive(Default)]
struct Fake {
    entries: BTreeMap<Key, Vec<u8>>,
    versions: u64,
    root: Option<&'static str>,
    /// A byte of the last value that is read otherwise than it was written.
    flipped: Option<usize>,
}

impl Fake {
    /// Gives two entries each other's values.
    fn exchange(&mut self) {
        let [one, other] = [key(3), key(7)].map(|key| self.entries[&key].clone());
        self.entries.extend([(key(3), other), (key(7), one)]);
    }
}

impl MapEngine for Fake {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        self.set(entries)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        keys.iter().filter_map(|key| self.entries.get(key)).for_each(|value| sum.value(value));
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let mut entries = self.entries.clone();
        if let (Some(at), Some(mut last)) = (self.flipped, entries.last_entry()) {
            last.get_mut()[at] ^= 1;
        }
        entries.iter().for_each(|(key, value)| sum.entry(key, value));
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        self.entries.extend(entries.iter().cloned());
        self.versions += 1;
        Ok(())
    }

    fn root(&mut self) -> Result<Option<String>> {
        Ok(Some(self.root.unwrap_or("right").to_owned()))
    }

    fn expected_root(&mut self, _: &[(Key, Vec<u8>)]) -> Result<Option<String>> {
        Ok(Some("right".to_owned()))
    }

    fn versions(&mut self) -> Result<Option<u64>> {
        Ok(Some(self.versions))
    }
}

fn child(dir: &Path, engine: EngineName) -> Child {
    Child::new(Task { engine, synced: false, dir: dir.to_owned() }).unwrap()
}

fn round(operation: Operation) -> Command {
    Command::Do(Round { operation, entries: 300, transactions: 2, seed: 7 })
}

#[test]
fn what_is_wrong_with_a_map_is_told_before_it_is_renewed_and_when_it_is_compared() {
    let dir = tempfile::tempdir().unwrap();
    let faults: [(&str, Fault); 6] = [
        ("", |_| {}),
        ("the root is wrong", |map| map.root = Some("wrong")),
        ("4 versions are kept of 3", |map| map.versions += 1),
        ("were read", |map| map.flipped = Some(0)),
        ("were read", |map| map.flipped = Some(7)),
        ("were read", Fake::exchange),
    ];
    for (index, (reason, fault)) in faults.into_iter().enumerate() {
        let ends = [
            Command::Compare,
            Command::Finish,
            Command::Load { entries: 300 },
            round(Operation::Load),
            round(Operation::Batches { ascending: true }),
        ];
        for (end, command) in ends.into_iter().enumerate() {
            let mut child = child(&dir.path().join(format!("{index}-{end}")), EngineName::Lmdb);
            assert_eq!(child.answer(&Command::Load { entries: 300 }).wrong, None);
            assert_eq!(child.answer(&round(Operation::Set(5))).wrong, None);
            let mut fake = Fake { entries: child.model.clone(), versions: child.versions, ..Fake::default() };
            fault(&mut fake);
            child.engine = Some(Box::new(fake));
            let wrong = child.answer(&command).wrong.unwrap_or_default();
            assert!(if reason.is_empty() { wrong.is_empty() } else { wrong.contains(reason) }, "{command:?}: {wrong}");
        }
    }
}

#[test]
fn engines_are_right_however_often_they_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    for engine in crate::map::all_engines() {
        let mut child = child(&dir.path().join(format!("{engine:?}")), engine);
        let commands = [
            Command::Load { entries: 300 },
            Command::Compare,
            round(Operation::Set(5)),
            Command::Compare,
            round(Operation::Batches { ascending: false }),
            round(Operation::Load),
            round(Operation::Iterate),
            Command::Finish,
        ];
        for command in commands {
            assert_eq!(child.answer(&command).wrong, None, "{engine:?}: {command:?}");
        }
    }
}

#[test]
fn the_order_of_values_counts() {
    let sum = |values: [&[u8]; 2]| {
        let mut sum = Sum::default();
        values.iter().for_each(|value| sum.value(value));
        sum
    };
    for (one, other) in [(&[1_u8; 8], &[2_u8; 8]), (&[0; 8], &[0xff; 8])] {
        assert_ne!(sum([one, other]), sum([other, one]));
        assert_eq!(sum([one, other]), sum([one, other]));
    }
}

#[test]
fn every_byte_of_a_value_counts() {
    let sum = |value: &[u8]| {
        let mut sum = Sum::default();
        sum.entry(&key(3), value);
        sum
    };
    for bytes in [1, 8, 13, 150] {
        let value: Vec<u8> = (0..bytes).collect();
        for at in 0..value.len() {
            let mut other = value.clone();
            other[at] ^= 0x40;
            assert_ne!(sum(&other), sum(&value), "byte {at} of {bytes}");
        }
    }
}
