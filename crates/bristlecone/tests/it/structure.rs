//! What must hold between the pieces of a directory or a large value: whatever the store makes has it, and every set of
//! pieces that lacks it is named and not copied, though each of them is sound by itself.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use bristlecone::{
    Batch, CommitId, Durability, Error, Format, Info, Kind, MemoryBackend, Native, ObjRef, Object, Oid, Repo, Sink,
    core::{Checked, FormatError, NoSource, Source, native::step_hash},
};
use bristlecone_testkit::pieces::{self, Above, MadePiece, PieceItem, Pieces};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Pieces that were made, in a map.
#[derive(Default)]
struct Objects(HashMap<Oid, Vec<u8>>);

impl Source for Objects {
    type Error = FormatError;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        let body = self.0.get(&at.oid).ok_or(FormatError::Inconsistent { kind, reason: "it is missing" })?;
        Ok(Object::from_body(kind, body[..].into()))
    }
}

/// A directory as it should be, and ones that differ from it.
struct Judge {
    native: Native,
    sound: Pieces,
    objects: Objects,
    checked: Checked,
    // Pieces that were found sound, seen from above at least.
    known: BTreeSet<Oid>,
}

impl Judge {
    /// Takes a directory of these steps.
    fn new(steps: &[Vec<u8>]) -> Result<Self, Error> {
        let (repo, native) = (Repo::memory(), Native::new());
        let mut tree = repo.tree();
        for step in steps {
            tree.set(bristlecone::Path::root().join(step)?, b"v")?;
        }
        let root = tree.write()?.oid();
        let sound = Pieces::read(&**repo.backend(), root)?;
        let (objects, checked, known) = Default::default();
        let mut judge = Self { native, sound, objects, checked, known };
        let made = judge.sound.make(&native, &mut |_, _, _| ());
        assert_eq!(made.last().map(|made| made.oid), Some(root), "the kit reads and writes what the format does");
        assert_eq!(judge.refused(&made), None, "what the store made is sound");
        Ok(judge)
    }

    /// Returns the first object that is refused, and why; the root last, as a whole.
    fn refused(&mut self, made: &[MadePiece]) -> Option<(Oid, FormatError)> {
        for made in made.iter().filter(|made| !self.known.contains(&made.oid)) {
            self.native.children(Kind::Node, &made.body, &mut |_, _| ()).expect("each piece is sound by itself");
            self.objects.0.insert(made.oid, made.body.clone());
        }
        let objects = &self.objects;
        let last = made.len() - 1;
        made.iter().enumerate().find_map(|(index, made)| {
            if index < last && self.known.contains(&made.oid) {
                return None;
            }
            let object = Object::from_body(Kind::Node, made.body[..].into());
            let done = self.native.check_structure(objects, &object, index == last, &mut self.checked);
            // Without what was learnt before, the answer is the same.
            let alone = self.native.check_structure(objects, &object, index == last, &mut Checked::new());
            assert_eq!(done, alone, "what is known changes no answer");
            if done.is_ok() {
                self.known.insert(made.oid);
            }
            done.err().map(|error| (made.oid, error))
        })
    }

    /// Demands that pieces are refused.
    fn demand(&mut self, what: &str, pieces: &Pieces, above: &mut dyn FnMut(u8, usize, &mut Above)) -> FormatError {
        let made = pieces.make(&self.native, above);
        match self.refused(&made) {
            Some((_, error)) => error,
            None => panic!("{what} was taken"),
        }
    }
}

fn numbers(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(|n| n.to_string().into_bytes()).collect()
}

/// Steps whose hashes rise or fall with their order: pieces of one entry.
fn ground(count: usize, rising: bool) -> Vec<Vec<u8>> {
    let band = |index: usize| (if rising { index } else { count - 1 - index }) as u64;
    let found = |index: usize| {
        let mut names = (0..).map(move |n: u32| format!("{index:05}-{n}").into_bytes());
        names.find(|name| step_hash(name) / (u64::MAX / (count as u64 / 8 + 1)) == band(index) / 8).expect("a name")
    };
    (0..count).map(found).collect()
}

/// Long steps: few entries on each level, and many levels.
fn long(count: usize) -> Vec<Vec<u8>> {
    let step = |n: usize| [format!("{n:04}").into_bytes(), vec![b'x'; [5, 700, 2000, 4000][n % 4]]].concat();
    (0..count).map(step).collect()
}

fn directories() -> Vec<Vec<Vec<u8>>> {
    vec![numbers(70), numbers(2500), ground(400, true), ground(400, false), long(150)]
}

#[test]
fn one_entry_more_or_less_in_a_piece_is_refused() -> Outcome {
    for steps in directories() {
        let mut judge = Judge::new(&steps)?;
        let (sound, entries) = (judge.sound.clone(), steps.len());
        for level in 0..sound.starts.len() {
            let cuts: Vec<usize> = sound.starts[level].iter().copied().filter(|&at| at > 0).collect();
            for &at in cuts.iter().step_by(1 + cuts.len() / 30) {
                let mut joined = sound.clone();
                joined.join(level, at);
                judge.demand("a missing cut", &joined, &mut |_, _, _| ());
                joined.lower();
                judge.demand("a missing cut", &joined, &mut |_, _, _| ());
            }
            let below = |at: &usize| level == 0 || sound.starts[level - 1].contains(at);
            let places: Vec<usize> = (1..entries).filter(below).collect();
            for pair in places.windows(2).step_by(1 + places.len() / 80) {
                let (one, other) = (sound.starts[level].contains(&pair[0]), sound.starts[level].contains(&pair[1]));
                if one != other {
                    let mut shifted = sound.clone();
                    let (from, to) = if one { (pair[0], pair[1]) } else { (pair[1], pair[0]) };
                    shifted.shift(level, from, to);
                    judge.demand("a cut that was moved", &shifted, &mut |_, _, _| ());
                }
                if !one {
                    let mut parted = sound.clone();
                    parted.part(level, pair[0]);
                    judge.demand("a cut too many", &parted, &mut |_, _, _| ());
                }
            }
        }
    }
    Ok(())
}

#[test]
fn every_number_step_and_level_above_the_leaves_is_compared() -> Outcome {
    let mut random = Random(7);
    for steps in directories() {
        let mut judge = Judge::new(&steps)?;
        let sound = judge.sound.clone();
        for level in 0..sound.starts.len() as u8 - 1 {
            let starts: Vec<usize> = sound.starts[usize::from(level)].iter().copied().collect();
            for &start in starts.iter().step_by(1 + starts.len() / 12) {
                type Tweak = fn(&mut Above, u64);
                let tweaks: [(&str, Tweak); 6] = [
                    ("a count that is too high", |above, by| above.count += by),
                    ("a count that is too low", |above, by| above.count -= by.min(above.count)),
                    ("a weight that is too high", |above, by| above.weight += by),
                    ("a weight that is too low", |above, by| above.weight -= by.min(above.weight)),
                    ("a step that hides the first entry", |above, _| above.step.push(0)),
                    ("a step before the first entry", |above, _| _ = above.step.pop()),
                ];
                for (what, tweak) in tweaks {
                    let by = 1 + random.below(3) as u64;
                    let change = &mut |at: u8, from: usize, above: &mut Above| {
                        if (at, from) == (level, start) {
                            tweak(above, by);
                        }
                    };
                    // A step that is changed may fall out of order: then the piece is not sound by itself.
                    let made = sound.make(&judge.native, change);
                    let decodes =
                        |made: &MadePiece| judge.native.children(Kind::Node, &made.body, &mut |_, _| ()).is_ok();
                    if made.iter().all(decodes) {
                        judge.demand(what, &sound, change);
                    }
                }
            }
        }
        // The root once more, alone on a level of its own; and every level twice.
        for level in 0..sound.starts.len() {
            let mut doubled = sound.clone();
            doubled.starts.insert(level, sound.starts[level].clone());
            judge.demand("a level too many", &doubled, &mut |_, _, _| ());
        }
        // A level left out: what is below stands for what is above it.
        if sound.starts.len() > 2 {
            let mut below = HashMap::new();
            let skip = &mut |level: u8, start: usize, above: &mut Above| {
                if level == 0 {
                    below.insert(start, above.oid);
                } else if level == 1 {
                    above.oid = below[&start];
                }
            };
            judge.demand("a level too few", &sound, skip);
        }
    }
    Ok(())
}

#[test]
fn pieces_that_overlap_or_are_empty_are_refused() -> Outcome {
    let mut judge = Judge::new(&numbers(2500))?;
    let sound = judge.sound.clone();
    // Wherever two pieces meet on any level: the last entry before is one that belongs behind.
    for (level, starts) in sound.starts.iter().enumerate() {
        for &start in starts.iter().filter(|&&at| at > 0).step_by(1 + starts.len() / 30) {
            let mut reaching = sound.clone();
            let (before, behind) = (start - 1, start + 1);
            let far = [&reaching.items[start].step[..], b"!"].concat();
            if sound.starts[0].contains(&before) || far >= reaching.items[behind].step {
                continue;
            }
            reaching.items[before] = PieceItem::inline(&far, b"v");
            let error = judge.demand("a leaf that reaches beyond its neighbour", &reaching, &mut |_, _, _| ());
            assert!(matches!(error, FormatError::Misfit { .. } | FormatError::Structure { .. }), "{level}: {error}");
        }
    }
    let empty = pieces::id(&judge.native, Kind::Node, &[0, 6, 0, 0]);
    judge.objects.0.insert(empty, vec![0, 6, 0, 0]);
    let change = &mut |level: u8, start: usize, above: &mut Above| {
        if level == 0 && start > 0 {
            above.oid = empty;
        }
    };
    judge.demand("empty pieces", &sound, change);
    Ok(())
}

/// A few random changes of where pieces begin: taken if and only if nothing is changed by them.
#[test]
fn of_all_ways_to_cut_a_directory_one_is_taken() -> Outcome {
    let mut random = Random(99);
    let mut sound_ones = 0;
    for round in 0..24 {
        let count = 1 + random.below([80, 400, 1500][round % 3]);
        let steps = match round % 4 {
            0 => numbers(count),
            1 => long(count.min(200)),
            2 => ground(16 + count.min(500), true),
            _ => ground(16 + count.min(500), false),
        };
        let mut judge = Judge::new(&steps)?;
        let sound = judge.sound.clone();
        for _ in 0..40 {
            let mut changed = sound.clone();
            for _ in 0..1 + random.below(4) {
                let (level, at) = (random.below(changed.starts.len()), random.below(steps.len()));
                let begins = changed.starts[level].contains(&at);
                match random.below(2) {
                    0 if at > 0 && begins && level + 1 < changed.starts.len() => changed.join(level, at),
                    1 if at > 0 && (level == 0 || changed.starts[level - 1].contains(&at)) => changed.part(level, at),
                    _ => {}
                }
            }
            changed.lower();
            let made = changed.make(&judge.native, &mut |_, _, _| ());
            let same = changed.starts == sound.starts;
            sound_ones += usize::from(same);
            assert_eq!(judge.refused(&made).is_none(), same, "round {round}");
        }
    }
    assert!(sound_ones > 30, "{sound_ones} of them were as they should be");
    Ok(())
}

/// A directory below another, and values: what a leaf says of them.
#[test]
fn what_a_leaf_says_of_values_and_directories_is_compared() -> Outcome {
    let native = Native::new();
    let repo = Repo::memory();
    let backend = repo.backend().clone();
    let mut tree = repo.tree();
    for n in 0..3000 {
        tree.set(format!("{n}"), "v")?;
    }
    let wide = Pieces::read(&*backend, tree.write()?.oid())?.make(&native, &mut |_, _, _| ());
    let value = |bytes: usize| -> Result<Oid, Error> {
        let mut batch = Batch::new();
        let at = native.put_contents(&mut batch, &vec![7; bytes])?;
        backend.append(batch, &[], Durability::None)?;
        Ok(at.oid)
    };
    let (short, fits, large) = (value(10)?, value(49)?, value(300 << 10)?);
    let check = |item: &PieceItem| {
        let root = Pieces { items: vec![item.clone()], starts: vec![BTreeSet::from([0])] };
        let made = root.make(&native, &mut |_, _, _| ());
        let object = Object::from_body(Kind::Node, made[0].body[..].into());
        repo.check_structure(&object, true, &mut Checked::new())
    };
    let step = b"step";
    for (item, sound) in [
        (PieceItem::inline(step, &[1; 48]), true),
        (PieceItem::inline(step, &[1; 49]), false),
        (PieceItem::object(step, Some(49), fits), true),
        (PieceItem::object(step, Some(50), fits), false),
        (PieceItem::object(step, Some(10), short), false),
        (PieceItem::object(step, Some(300 << 10), large), true),
        (PieceItem::object(step, Some((300 << 10) + 1), large), false),
        (PieceItem::object(step, Some(100), large), false),
        (PieceItem::object(step, None, wide[wide.len() - 1].oid), true),
    ] {
        assert_eq!(check(&item).is_ok(), sound, "{item:?}");
    }
    // A leaf of another directory is a directory; what is above the leaves is a piece, and no more.
    for piece in &wide {
        let whole = piece.level == 0 || piece.oid == wide[wide.len() - 1].oid;
        let found = check(&PieceItem::object(step, None, piece.oid));
        assert!(whole == found.is_ok() || piece.level > 0, "{found:?}");
        if piece.level > 0 && !whole {
            // Seen from its own entries alone it would be cut otherwise, or it is what those entries make.
            let alone = Pieces::read(&*backend, piece.oid)?;
            let mut tree = Repo::memory().tree();
            alone.items.iter().try_for_each(|item| tree.set(bristlecone::Path::root().join(&item.step)?, "v"))?;
            assert_eq!(found.is_ok(), tree.write()?.oid() == piece.oid);
        }
    }
    Ok(())
}

/// Makes a list of pieces as it should be, and returns the value's pieces.
fn cut_value(repo: &Repo, value: &[u8]) -> Result<(ObjRef, Vec<(u64, Oid)>), Error> {
    let mut batch = Batch::new();
    let at = repo.format().put_contents(&mut batch, value)?;
    repo.backend().append(batch, &[], Durability::None)?;
    let mut all = Vec::new();
    leaves(repo, at.oid, &mut all)?;
    Ok((at, all))
}

fn leaves(repo: &Repo, oid: Oid, all: &mut Vec<(u64, Oid)>) -> Result<(), Error> {
    let object = repo.backend().read(&oid.into())?.expect("a list");
    let mut below = Vec::new();
    repo.format().children(object.kind(), object.body(), &mut |kind, oid| below.push((kind, oid)))?;
    for (kind, oid) in below {
        if kind == Kind::Pieces {
            leaves(repo, oid, all)?;
        } else {
            all.push((repo.backend().read(&oid.into())?.expect("a piece").body().len() as u64, oid));
        }
    }
    Ok(())
}

#[test]
fn large_values_are_cut_and_listed_in_one_way() -> Outcome {
    let (repo, native) = (Repo::memory(), Native::new());
    let mut random = Random(5);
    let value: Vec<u8> = (0..12 << 20).map(|_| random.below(256) as u8).collect();
    let (at, cut) = cut_value(&repo, &value)?;
    let backend = repo.backend().clone();
    // Lists of lists, made by hand: the last child of each but the last list has an id that ends low.
    let lists = |cut: &[(u64, Oid)], ends: &dyn Fn(usize, &Oid) -> bool| -> Result<Vec<Oid>, Error> {
        let (mut level, mut row, mut made) = (0, cut.to_vec(), Vec::new());
        loop {
            let mut above = Vec::new();
            let mut start = 0;
            for (index, (_, oid)) in row.iter().enumerate() {
                if index + 1 < row.len() && !ends(index + 1 - start, oid) {
                    continue;
                }
                let list = &row[start..=index];
                start = index + 1;
                let oid = pieces::append(&*backend, &native, Kind::Pieces, &pieces::list(level, list))?;
                above.push((list.iter().map(|(bytes, _)| bytes).sum(), oid));
                made.push(oid);
            }
            if above.len() == 1 {
                return Ok(made);
            }
            (row, level) = (above, level + 1);
        }
    };
    let last_byte = |oid: &Oid| oid.as_bytes()[31];
    let usual = |count: usize, oid: &Oid| count == 512 || count > 1 && last_byte(oid) < 4;
    let check = |made: &[Oid]| -> Result<(), Error> {
        made.iter().enumerate().try_for_each(|(index, oid)| {
            let object = backend.read(&(*oid).into())?.expect("a list");
            repo.check_structure(&object, index + 1 == made.len(), &mut Checked::new())
        })
    };
    let sound = lists(&cut, &usual)?;
    assert!(sound.len() > 2 && sound.last() == Some(&at.oid), "{} lists", sound.len());
    check(&sound)?;
    assert!(check(&lists(&cut, &|count, _| count == 512)?).is_err(), "one list where more belong");
    assert!(check(&lists(&cut, &|count, oid| usual(count, oid) || count == 40)?).is_err(), "lists too many");
    let put = |bytes: &[u8]| pieces::append(&*backend, &native, Kind::Contents, bytes);
    let bounds: Vec<usize> = cut
        .iter()
        .scan(0, |end, (bytes, _)| {
            *end += *bytes as usize;
            Some(*end)
        })
        .collect();
    for index in (0..cut.len() - 1).step_by(17) {
        let start = if index == 0 { 0 } else { bounds[index - 1] };
        let (middle, end) = (bounds[index], bounds[index + 1]);
        for by in [-1_isize, 1, -5000, 5000] {
            let moved = middle.wrapping_add_signed(by);
            if moved > start && moved < end && end - moved <= 256 << 10 && moved - start <= 256 << 10 {
                let mut wrong = cut.clone();
                wrong[index] = ((moved - start) as u64, put(&value[start..moved])?);
                wrong[index + 1] = ((end - moved) as u64, put(&value[moved..end])?);
                assert!(check(&lists(&wrong, &usual)?).is_err(), "a cut moved by {by}");
            }
        }
        if end - start <= 256 << 10 {
            let mut wrong = cut.clone();
            wrong.splice(index..index + 2, [((end - start) as u64, put(&value[start..end])?)]);
            assert!(check(&lists(&wrong, &usual)?).is_err(), "two pieces in one");
        }
        let mut wrong = cut.clone();
        wrong[index].0 += 1;
        assert!(check(&lists(&wrong, &usual)?).is_err(), "a length that is too high");
    }
    let (_, small) = cut_value(&repo, &value[..300 << 10])?;
    let few: Vec<(u64, Oid)> = small.iter().copied().take(2).collect();
    let total = |list: &[(u64, Oid)]| list.iter().map(|(bytes, _)| bytes).sum::<u64>();
    if total(&few) <= 256 << 10 {
        assert!(check(&lists(&few, &usual)?).is_err(), "a short value in pieces");
    }
    let above = pieces::list(1, &[(value.len() as u64, sound[0])]);
    assert!(check(&[pieces::append(&*backend, &native, Kind::Pieces, &above)?]).is_err(), "a list of one list");
    let whole = Object::from_body(Kind::Contents, value[..(256 << 10) + 1].into());
    assert!(native.check_structure(&NoSource, &whole, false, &mut Checked::new()).is_err());
    Ok(())
}

/// Appends the pieces of a directory, and returns its root.
fn root_of(repo: &Repo, made: &[MadePiece]) -> Result<Oid, Error> {
    let mut batch = Batch::new();
    for piece in made {
        pieces::put(&mut batch, &repo.format().clone(), Kind::Node, &piece.body);
    }
    repo.backend().append(batch, &[], Durability::None)?;
    Ok(made.last().expect("a root").oid)
}

/// Makes a commit of a directory whose pieces are given.
fn commit_of(repo: &Repo, made: &[MadePiece]) -> Result<CommitId, Error> {
    let root = root_of(repo, made)?;
    let mut tree = repo.tree();
    tree.set("usual", "v")?;
    let usual = repo.commit_tree(&mut tree, &[], &Info::unsigned("m"))?;
    let mut commit = repo.read_commit(usual)?;
    commit.tree = root.into();
    repo.write_commit(&commit, 1, Durability::None)
}

#[test]
fn copies_refuse_what_is_cut_otherwise_and_name_it() -> Outcome {
    let judge = Judge::new(&numbers(3000))?;
    let sound = judge.sound;
    let cut = *sound.starts[0].iter().nth(20).ok_or("a cut")?;
    let mut wrong = vec![("sound", sound.clone())];
    for (what, change) in [("joined", 0), ("parted", 1), ("shifted", 2), ("doubled", 3)] {
        let mut pieces = sound.clone();
        match change {
            0 => pieces.join(0, cut),
            1 => pieces.part(0, cut + 1),
            2 => pieces.shift(0, cut, cut + 1),
            _ => pieces.starts.push(BTreeSet::from([0])),
        }
        wrong.push((what, pieces));
    }
    for (what, pieces) in wrong {
        let (from, to) = (Repo::memory(), Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new())));
        let made = pieces.make(&Native::new(), &mut |_, _, _| ());
        let head = commit_of(&from, &made)?;
        match to.copy_objects(&from, &[head]) {
            Ok(_) => assert_eq!(what, "sound"),
            Err(Error::BadObject { oid, .. }) if what != "sound" => {
                assert!(made.iter().any(|made| made.oid == oid) || oid == head.oid(), "{what}: {oid}");
                assert!(to.backend().read(&head.oid().into())?.is_none(), "no commit of it");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    // What an earlier copy brought is believed, and what is new beside it is not.
    let (from, to) = (Repo::memory(), Repo::memory());
    let head = commit_of(&from, &sound.make(&Native::new(), &mut |_, _, _| ()))?;
    to.copy_objects(&from, &[head])?;
    let mut pieces = sound.clone();
    pieces.shift(0, cut, cut + 1);
    let head = commit_of(&from, &pieces.make(&Native::new(), &mut |_, _, _| ()))?;
    assert!(matches!(to.copy_objects(&from, &[head]), Err(Error::BadObject { .. })));
    Ok(())
}

/// A copy takes pieces of directories; where one is bound, it must be a whole one.
#[test]
fn a_tree_of_another_store_is_bound_if_it_is_a_whole_directory() -> Outcome {
    let sound = Judge::new(&numbers(3000))?.sound;
    let mut doubled = sound.clone();
    doubled.starts.push(BTreeSet::from([0]));
    for (pieces, is_whole) in [(sound, true), (doubled, false)] {
        let (from, to) = (Repo::memory(), Repo::memory());
        let root = root_of(&from, &pieces.make(&Native::new(), &mut |_, _, _| ()))?;
        let (mut tree, other) = (to.tree(), from.tree_at(root.into()));
        // Whether all of it is there already makes no difference.
        for _ in 0..2 {
            for path in ["bound", ""] {
                match tree.set_tree(path, &other) {
                    Ok(()) => assert!(is_whole && tree.get_tree(path)?.ok_or("a directory")?.same(&other)?),
                    Err(Error::BadObject { oid, .. }) => assert!(!is_whole && oid == root && tree.is_empty()?),
                    Err(error) => return Err(error.into()),
                }
            }
            to.copy_objects(&from, &[root])?;
        }
    }
    Ok(())
}

/// No id covers the flags, the table and the fingerprints of a node: they are compared with its items.
#[test]
fn bytes_that_no_id_covers_are_checked_where_they_arrive() -> Outcome {
    let from = Repo::memory();
    let judge = Judge::new(&numbers(50))?;
    let sound = judge.sound.make(&judge.native, &mut |_, _, _| ()).remove(0);
    // Flags, the fingerprint of an entry, and where the first item ends.
    for (at, flip) in [(1, 2), (1, 8), (4, 1), (53, 0x80), (54, 1)] {
        let mut wrong = sound.clone();
        wrong.body[at] ^= flip;
        let mut batch = Batch::new();
        batch.put(Kind::Node, wrong.oid, &wrong.body, &[], &[]);
        let (from, to) = (Repo::with_backend(*from.format(), Arc::new(MemoryBackend::new())), Repo::memory());
        from.backend().append(batch, &[], Durability::None)?;
        match to.copy_objects(&from, &[wrong.oid]) {
            Err(Error::BadObject { oid, .. }) => assert_eq!(oid, wrong.oid),
            other => panic!("byte {at}: {other:?}"),
        }
        assert!(to.backend().read(&wrong.oid.into())?.is_none());
    }
    Ok(())
}

/// Whatever edits lead to is sound, with each version's new objects checked as a copy does.
#[test]
fn lengths_that_lie_are_summed_up_without_overflow() -> Outcome {
    let repo = Repo::memory();
    let items = [b"a", b"b"].map(|step| PieceItem::object(step, Some(u64::MAX - 1), Oid::from_array([7; 32])));
    let pieces = Pieces { items: items.to_vec(), starts: vec![BTreeSet::from([0])] };
    let made = pieces.make(repo.format(), &mut |_, _, _| ());
    let root = pieces::append(&**repo.backend(), repo.format(), Kind::Node, &made[0].body)?;
    let stats = repo.tree_at(root.into()).stats()?;
    assert_eq!((stats.values, stats.value_bytes), (2, u64::MAX));
    Ok(())
}

#[test]
fn whatever_edits_lead_to_is_sound() -> Outcome {
    for seed in 1..=6_u64 {
        let mut random = Random(seed * 0x9e37_79b9);
        let native = [Native::new(), Native::new().inline(0), Native::new().split(false)][seed as usize % 3];
        let from = Repo::with_backend(native, Arc::new(MemoryBackend::new()));
        let to = Repo::with_backend(native, Arc::new(MemoryBackend::new()));
        let mut tree = from.tree();
        let mut parents: Vec<CommitId> = Vec::new();
        let space = [40, 600, 8000][seed as usize % 3];
        for round in 0..40 {
            for _ in 0..[1, 4, 60, 900][random.below(4)] {
                let name = random.below(space);
                let path = match name % 5 {
                    0 => format!("{name}/{}", random.below(3)),
                    1 => format!("deep/{}/{name}", name % 7),
                    2 => format!("long/{name}{}", "y".repeat(name % 1000)),
                    _ => format!("wide/{name}"),
                };
                let removes = random.below(60) < round;
                // What cannot be added, since a directory is there or a value above it, is removed.
                if removes || tree.set(path.as_str(), vec![name as u8; random.below(110)]).is_err() {
                    tree.remove(path.as_str())?;
                }
            }
            if round % 20 == 7 {
                let bytes: Vec<u8> = (0..400 << 10).map(|_| random.below(256) as u8).collect();
                tree.set("large", bytes)?;
            }
            parents = vec![from.commit_tree(&mut tree, &parents, &Info::unsigned("m"))?];
            to.copy_objects(&from, &parents)?;
        }
        let mut checked = Checked::new();
        to.backend().each_object(
            &mut |_, object| to.check_structure(object, object.kind() == Kind::Commit, &mut checked),
            &mut |damage| panic!("{damage:?}"),
        )?;
    }
    Ok(())
}
