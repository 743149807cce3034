//! A part of the commit graph as it is stored: up to 4,096 commits by their positions.
//!
//! `docs/formats/history.md` section 5 lists the bytes.

use bristlecone_core::Oid;
use twox_hash::XxHash3_64;

use super::super::run::{stored_check, word32};

/// Commits in a part, unless it is the last: 2^12.
pub(super) const PART_COMMITS: usize = 1 << 12;
/// In place of a position: there is no such parent.
pub(super) const NONE: u32 = u32::MAX;
/// In the field of the second parent: there are more, and the other bits say where they begin among the extra ones.
const MORE: u32 = 1 << 31;
/// In a list of extra parents: the last of a commit's.
const LAST: u32 = 1 << 31;
/// No position is as large as this: the bit above has other uses.
pub(super) const POSITIONS_MAX: u32 = MORE - 1;

const MAGIC: &[u8; 8] = b"BCONEGP1";
/// 32 = 8 magic + 8 check + 4 commits + 4 bytes of an id + 4 extra parents + 4 zero.
const HEADER_BYTES: usize = 32;
/// 20 = generation number, depth, first parent, second parent and jump of 4 bytes each.
const LINK_BYTES: usize = 20;

const _: () = assert!(HEADER_BYTES == 8 + 8 + 4 + 4 + 4 + 4 && LINK_BYTES == 5 * 4);

/// How a commit is linked with those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its generation number.
    pub(super) generation: u32,
    /// How many commits follow it along first parents.
    pub(super) depth: u32,
    /// The position of its first parent, or [`NONE`].
    pub(super) first: u32,
    // That of its second, or none, or where more of them are.
    second: u32,
    /// The position of a commit further down its line of first parents; its own where it has no parent.
    pub(super) jump: u32,
}

/// Commits whose positions follow each other, each after its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    // The position of the first commit.
    base: u32,
    links: Vec<Link>,
    extra: Vec<u32>,
    ids: Vec<u8>,
    id_bytes: usize,
}

impl Part {
    /// Returns an empty part whose first commit will have a position.
    pub(super) const fn new(base: u32, id_bytes: usize) -> Self {
        Self { base, links: Vec::new(), extra: Vec::new(), ids: Vec::new(), id_bytes }
    }

    /// Returns how many commits it has.
    pub(super) const fn len(&self) -> usize {
        self.links.len()
    }

    /// Returns the length of its ids.
    pub(super) const fn id_bytes(&self) -> usize {
        self.id_bytes
    }

    /// Returns the position of its first commit.
    pub(super) const fn base(&self) -> u32 {
        self.base
    }

    /// Adds a commit, whose parents have the positions `parents`.
    pub(super) fn push(&mut self, oid: &Oid, generation: u32, parents: &[u32], depth: u32, jump: u32) {
        let first = parents.first().copied().unwrap_or(NONE);
        let second = match parents.get(1..).unwrap_or_default() {
            [] => NONE,
            [second] => *second,
            more => {
                let at = self.extra.len() as u32;
                self.extra.extend(more);
                *self.extra.last_mut().expect("there are two") |= LAST;
                MORE | at
            }
        };
        self.links.push(Link { generation, depth, first, second, jump });
        self.ids.extend_from_slice(oid.as_bytes());
    }

    /// Returns the link of a commit of the part.
    #[inline]
    pub(super) fn link(&self, position: u32) -> Option<&Link> {
        self.links.get(position.checked_sub(self.base)? as usize)
    }

    /// Calls `each` with the position of every parent of a commit.
    #[inline]
    pub(super) fn each_parent(&self, link: &Link, mut each: impl FnMut(u32)) {
        if link.first != NONE {
            each(link.first);
        }
        if link.second == NONE {
        } else if link.second & MORE == 0 {
            each(link.second);
        } else {
            for &word in self.extra.get((link.second & !MORE) as usize..).unwrap_or_default() {
                each(word & !LAST);
                if word & LAST != 0 {
                    break;
                }
            }
        }
    }

    /// Returns the id of a commit of the part.
    pub(super) fn oid(&self, position: u32) -> Option<Oid> {
        let at = position.checked_sub(self.base)? as usize * self.id_bytes;
        Oid::new(self.ids.get(at..at + self.id_bytes)?).ok()
    }

    /// Returns the position of the commit of this id and generation number.
    pub(super) fn find(&self, oid: &Oid, generation: u32) -> Option<u32> {
        let is_it = |index: &usize| self.ids[index * self.id_bytes..][..self.id_bytes] == *oid.as_bytes();
        let same = self.links.iter().enumerate().filter(|(_, link)| link.generation == generation);
        if oid.as_bytes().len() != self.id_bytes {
            return None;
        }
        same.map(|(index, _)| index).find(is_it).map(|index| self.base + index as u32)
    }

    /// Returns the lowest and the highest generation number.
    pub(super) fn generations(&self) -> (u32, u32) {
        let numbers = || self.links.iter().map(|link| link.generation);
        (numbers().min().unwrap_or(u32::MAX), numbers().max().unwrap_or(0))
    }

    /// Calls `each` with the position of each commit and the first four bytes of its id.
    pub(super) fn each_prefix(&self, mut each: impl FnMut(u32, u32)) {
        for (index, id) in self.ids.chunks_exact(self.id_bytes).enumerate() {
            each(self.base + index as u32, prefix(id));
        }
    }

    /// Returns the bytes of its file, with their check at 8.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &[0; 8]].concat();
        for word in [self.links.len(), self.id_bytes, self.extra.len(), 0] {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        for link in &self.links {
            for word in [link.generation, link.depth, link.first, link.second, link.jump] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        for word in &self.extra {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.ids);
        let check = XxHash3_64::oneshot(&bytes[16..]).to_le_bytes();
        bytes[8..16].copy_from_slice(&check);
        bytes
    }

    /// Decodes the part that begins at a position; `None` where the bytes are damaged or not those that have this check.
    pub(super) fn decode(bytes: &[u8], base: u32, check: u64) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC[..] || stored_check(bytes) != check {
            return None;
        }
        let [count, id_bytes, extra] = [16, 20, 24].map(|at| word32(bytes, at) as usize);
        let sound = (1..=PART_COMMITS).contains(&count) && (1..=Oid::BYTES_MAX).contains(&id_bytes);
        let extra_at = HEADER_BYTES + LINK_BYTES * count;
        let ids_at = extra_at.checked_add(extra.checked_mul(4)?)?;
        if !sound || bytes.len() != ids_at.checked_add(count * id_bytes)? || XxHash3_64::oneshot(&bytes[16..]) != check
        {
            return None;
        }
        let links = bytes[HEADER_BYTES..extra_at].chunks_exact(LINK_BYTES).map(|link| Link {
            generation: word32(link, 0),
            depth: word32(link, 4),
            first: word32(link, 8),
            second: word32(link, 12),
            jump: word32(link, 16),
        });
        let extra = bytes[extra_at..ids_at].chunks_exact(4).map(|word| word32(word, 0));
        let part =
            Self { base, links: links.collect(), extra: extra.collect(), ids: bytes[ids_at..].to_vec(), id_bytes };
        part.is_sound().then_some(part)
    }

    /// Whether every position leads further down: then no walk is endless.
    fn is_sound(&self) -> bool {
        (self.base..).zip(&self.links).all(|(at, link)| {
            let mut down = if link.first == NONE { link.jump == at } else { link.jump < at };
            self.each_parent(link, |parent| down &= parent < at);
            down
        })
    }
}

/// Returns the first four bytes of an id as a number.
pub(super) fn prefix(id: &[u8]) -> u32 {
    id.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(number: u32) -> Oid {
        let mut bytes = [7; 32];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        Oid::from_array(bytes)
    }

    fn sample(base: u32, count: u32) -> Part {
        let mut part = Part::new(base, 32);
        for at in base..base + count {
            let parents: Vec<u32> = (1..=at % 5).filter_map(|back| at.checked_sub(back * back)).collect();
            let jump = parents.first().map_or(at, |first| first / 2);
            part.push(&oid(at), at / 3 + 1, &parents, at, jump);
        }
        part
    }

    #[test]
    fn a_part_round_trips_and_tells_parents_and_positions() {
        for (base, count) in [(0, 1), (0, 100), (4096, 4096)] {
            let part = sample(base, count);
            let bytes = part.encode();
            let back = Part::decode(&bytes, base, stored_check(&bytes)).unwrap();
            assert_eq!(back, part);
            for at in base..base + count {
                let mut parents = Vec::new();
                back.each_parent(back.link(at).unwrap(), |parent| parents.push(parent));
                let wanted: Vec<u32> = (1..=at % 5).filter_map(|step| at.checked_sub(step * step)).collect();
                assert_eq!(parents, wanted);
                assert_eq!((back.oid(at), back.find(&oid(at), at / 3 + 1)), (Some(oid(at)), Some(at)));
                assert_eq!(back.find(&oid(at), at / 3 + 2), None);
            }
            assert!(back.link(base + count).is_none() && back.oid(base + count).is_none());
            assert_eq!(back.generations(), (base / 3 + 1, (base + count - 1) / 3 + 1));
        }
    }

    #[test]
    fn damage_and_links_that_lead_upwards_are_noticed() {
        let bytes = sample(0, 40).encode();
        let check = stored_check(&bytes);
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 4;
            assert!(Part::decode(&broken, 0, check).is_none(), "byte {at}");
            // With a check that is right, nothing is trusted that could lead a walk in a circle.
            let check = XxHash3_64::oneshot(&broken[16..]);
            broken[8..16].copy_from_slice(&check.to_le_bytes());
            if let Some(part) = Part::decode(&broken, 0, check) {
                for at in 0..part.len() as u32 {
                    let link = part.link(at).unwrap();
                    part.each_parent(link, |parent| assert!(parent < at));
                    assert!(link.jump <= at);
                }
            }
        }
        for length in 0..bytes.len() {
            assert!(Part::decode(&bytes[..length], 0, check).is_none());
        }
    }
}
