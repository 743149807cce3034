//! Edits of a tree: paths with shared prefixes, wide directories, values around every threshold of size.

use super::Rng;

/// Sizes of values at which a store changes its ways: inline or not, prewritten or not, in pieces or not.
pub const VALUE_SIZES: &[usize] = &[0, 1, 47, 48, 49, 100, 1000, 4095, 4096, 4097, 300 << 10];

/// One edit of a tree, or one lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Bind a path to a value.
    Add(Vec<u8>, Vec<u8>),
    /// Unbind a path, with all below it.
    Remove(Vec<u8>),
    /// Replace a value by one that depends on it: its bytes in reverse and one more.
    Update(Vec<u8>),
    /// Ask for a value.
    Find(Vec<u8>),
    /// Ask for the entries of a directory.
    List(Vec<u8>),
    /// Take the directory at the first path and put it at the second.
    Copy(Vec<u8>, Vec<u8>),
}

/// How the paths of a [`Universe`] look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Few names, so that values and directories replace each other.
    Small,
    /// Deep paths with shared prefixes.
    Deep,
    /// Directories of thousands of entries.
    Wide,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Small, Self::Deep, Self::Wide];
}

/// A source of edits over paths of one shape.
#[derive(Clone, Debug)]
pub struct Universe {
    shape: Shape,
    /// One value in this many has a size from [`VALUE_SIZES`]; others are short.
    large_every: u64,
}

impl Universe {
    /// Returns a universe in which one value in `large_every` may be large.
    #[must_use]
    pub const fn new(shape: Shape, large_every: u64) -> Self {
        Self { shape, large_every }
    }

    /// Returns a path of one step or more.
    #[must_use]
    pub fn path(&self, rng: &mut Rng) -> Vec<u8> {
        let mut path = Vec::new();
        let depth = match self.shape {
            Shape::Small => 1 + rng.index(4),
            Shape::Deep => 1 + rng.index(12),
            Shape::Wide => 1 + rng.index(2),
        };
        for level in 0..depth {
            if level > 0 {
                path.push(b'/');
            }
            match self.shape {
                // Some names go on with a byte that comes before the slash.
                Shape::Small if rng.chance(1, 8) => path.extend(*rng.pick(&[&b"a-"[..], b"b.", b"c\x01"])),
                Shape::Small => path.push(*rng.pick(b"abcd\x01\xff")),
                // Two names a level keep most prefixes shared.
                Shape::Deep => path.extend(*rng.pick(&[&b"left"[..], b"right", b"le", b"a-longer-name-than-most"])),
                Shape::Wide if level == 0 && depth == 2 => path.extend(*rng.pick(&[&b"wide"[..], b"wider"])),
                Shape::Wide => path.extend(format!("{:05}", rng.below(4000)).bytes()),
            }
        }
        path
    }

    /// Returns a path or that of a directory above one, the root included.
    #[must_use]
    pub fn dir(&self, rng: &mut Rng) -> Vec<u8> {
        let mut path = self.path(rng);
        for _ in 0..1 + rng.index(3) {
            let cut = path.iter().rposition(|&b| b == b'/').unwrap_or(0);
            path.truncate(cut);
        }
        path
    }

    /// Returns an edit or a question.
    #[must_use]
    pub fn edit(&self, rng: &mut Rng) -> Edit {
        match rng.below(100) {
            0..45 => {
                let path = self.path(rng);
                Edit::Add(path, value(rng, self.large_every))
            }
            45..58 => Edit::Remove(self.path(rng)),
            58..60 => Edit::Remove(self.dir(rng)),
            60..65 => Edit::Update(self.path(rng)),
            65..92 => Edit::Find(self.path(rng)),
            92..98 if self.shape == Shape::Wide => Edit::Find(self.path(rng)),
            92..98 => Edit::List(self.dir(rng)),
            _ => {
                let from = self.dir(rng);
                Edit::Copy(from, self.path(rng))
            }
        }
    }

    /// Returns `count` edits.
    #[must_use]
    pub fn edits(&self, seed: u64, count: usize) -> Vec<Edit> {
        let mut rng = Rng::new(seed);
        (0..count).map(|_| self.edit(&mut rng)).collect()
    }
}

/// Returns a value: short, but one in `large_every` of a size from [`VALUE_SIZES`].
#[must_use]
pub fn value(rng: &mut Rng, large_every: u64) -> Vec<u8> {
    let bytes = if rng.chance(1, large_every) { *rng.pick(VALUE_SIZES) } else { rng.index(60) };
    rng.bytes(bytes)
}
