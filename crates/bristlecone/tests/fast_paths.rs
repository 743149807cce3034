//! The fast ways against the slow ones: lookups in borrowed records and edits of one-entry directories answer,
//! and end on the roots, of the general way, which a store without maps takes.

use bristlecone::{EntryKind, Info, Native, Oid, Path, Repo, Result, Tree, disk::DiskOptions};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// A path in chains of directories, narrow and wide ones, with steps of all lengths.
    fn path(&mut self) -> Path {
        let mut path = Path::root();
        for _ in 0..1 + self.below(4) {
            let step = match self.below(8) {
                0 => "chain".to_owned(),
                1 => "only/one/way".to_owned(),
                2 => "x".repeat(1 + self.below(300) as usize),
                3 => format!("longer-than-eight-{}", self.below(20)),
                4 => format!("{}", self.below(3)),
                _ => format!("{}", self.below(2000)),
            };
            step.split('/').for_each(|step| path.push(step.as_bytes()).unwrap());
        }
        path
    }

    fn edit(&mut self, trees: &mut [&mut Tree]) -> Result<()> {
        let (path, choice) = (self.path(), self.below(10));
        let value = vec![choice as u8; [0, 5, 48, 49, 5000][self.below(5) as usize]];
        for tree in trees {
            if matches!(choice, 2 | 3) {
                tree.remove(&path)?;
            }
            match choice {
                0..2 => tree.remove(&path)?,
                2 => tree.set_foreign(&path, Oid::from_array([9; 32]))?,
                3 => tree.set_kind(&path, EntryKind::Link, &value)?,
                _ => tree.replace(&path, &value)?,
            }
        }
        Ok(())
    }
}

#[test]
fn borrowed_lookups_and_short_edits_are_those_of_the_general_way() -> Result<()> {
    for (seed, native) in [(1, Native::new()), (2, Native::new().split(false)), (3, Native::new().inline(0))] {
        let (mapped, plain) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let options = |maps| DiskOptions::default().maps(maps);
        let fast = Repo::create(mapped.path(), native, options(true))?;
        let slow_repo = Repo::create(plain.path(), native, options(false))?;
        let slow = &slow_repo;
        let mut random = Random(seed * 77);
        for round in 0..60u64 {
            let (fast, slow) = (fast.branch("main")?, slow.branch("main")?);
            let (mut one, mut other) = (fast.tree()?, slow.tree()?);
            // Many edits at first, then few, which take the short ways.
            let edits = if round < 5 { 2000 } else { 1 + random.below(3) };
            for _ in 0..edits {
                random.edit(&mut [&mut one, &mut other])?;
            }
            let info = Info::unsigned("round");
            if round.is_multiple_of(10) {
                slow_repo.clear_caches();
            }
            assert_eq!(fast.commit(&mut one, &info)?, slow.commit(&mut other, &info)?, "round {round}");
            let mut reader = one.reader();
            for _ in 0..300 {
                let path = random.path();
                let found = other.get(&path)?;
                assert_eq!(one.get(&path)?, found, "{path}");
                assert_eq!(reader.get(&path)?, found, "{path}");
                let kind = |tree: &Tree| Ok::<_, bristlecone::Error>(tree.entry(&path)?.map(|entry| entry.kind()));
                assert_eq!(kind(&one)?, kind(&other)?, "{path}");
                assert_eq!(one.contains_tree(&path)?, other.contains_tree(&path)?, "{path}");
            }
        }
        assert_eq!(fast.branch("main")?.tree()?.to_plain()?, slow.branch("main")?.tree()?.to_plain()?);
    }
    Ok(())
}
