//! Colours that commits hand down to their parents, over positions.

use super::{PART_COMMITS, Reader, Stop};

/// A walk over positions, from the highest down: when it comes to a commit it has been at all descendants that it was begun
/// at.
#[derive(Debug)]
pub(in super::super) struct Sweep {
    // The colours of what waits, for each part that anything waits in.
    pages: Vec<Option<Box<[u8; PART_COMMITS]>>>,
    // What was added from outside.
    tips: Vec<u32>,
    // Whether a commit of these colours keeps the walk going.
    wanted: [bool; 256],
    waiting: usize,
}

impl Sweep {
    /// Returns a walk over `len` positions that goes on as long as a commit waits whose colours are wanted.
    pub(in super::super) fn new(len: u32, wanted: impl Fn(u8) -> bool) -> Self {
        let mut table = [false; 256];
        (1..=255).for_each(|colours| table[usize::from(colours)] = wanted(colours));
        let pages = (0..(len as usize).div_ceil(PART_COMMITS)).map(|_| None).collect();
        Self { pages, tips: Vec::new(), wanted: table, waiting: 0 }
    }

    /// Returns how many commits wait that keep the walk going.
    pub(in super::super) const fn waiting(&self) -> usize {
        self.waiting
    }

    /// Gives a commit colours.
    pub(in super::super) fn add(&mut self, position: u32, colours: u8) {
        if self.hand_down(position, colours) {
            self.tips.push(position);
        }
    }

    /// Returns the commits that were given colours, with them.
    pub(in super::super) fn tips(&self) -> Vec<(u32, u8)> {
        self.tips.iter().map(|&tip| (tip, self.colours(tip))).collect()
    }

    fn colours(&self, position: u32) -> u8 {
        let page = self.pages.get(position as usize / PART_COMMITS).and_then(Option::as_ref);
        page.map_or(0, |page| page[position as usize % PART_COMMITS])
    }

    /// Adds colours to what waits; returns whether the commit did not wait before.
    fn hand_down(&mut self, position: u32, colours: u8) -> bool {
        let Some(page) = self.pages.get_mut(position as usize / PART_COMMITS) else { return false };
        let page = page.get_or_insert_with(|| Box::new([0; PART_COMMITS]));
        let slot = &mut page[position as usize % PART_COMMITS];
        let before = std::mem::replace(slot, *slot | colours);
        self.waiting += usize::from(self.wanted[usize::from(before | colours)]);
        self.waiting -= usize::from(self.wanted[usize::from(before)]);
        before == 0
    }

    /// Calls `each` with commits and their final colours as long as it may matter; parents get the colours that `each`
    /// leaves. Goes no further than to `target`, where there is one; returns whether it was met.
    pub(in super::super) fn run(
        &mut self,
        reader: &mut Reader<'_>,
        target: Option<u32>,
        mut each: impl FnMut(u32, &mut u8),
    ) -> Result<bool, Stop> {
        if target.is_some_and(|target| self.colours(target) != 0) {
            return Ok(true);
        }
        let floor = target.unwrap_or(0);
        for index in (floor as usize / PART_COMMITS..self.pages.len()).rev() {
            if self.waiting == 0 {
                return Ok(false);
            }
            let Some(mut page) = self.pages[index].take() else { continue };
            let part = reader.graph.part(reader.backend, index)?;
            let mut offset = PART_COMMITS;
            while offset > 0 {
                if offset.is_multiple_of(64) && page[offset - 64..offset] == [0; 64] {
                    offset -= 64;
                    continue;
                }
                offset -= 1;
                let mut colours = page[offset];
                if colours == 0 {
                    continue;
                }
                self.waiting -= usize::from(self.wanted[usize::from(colours)]);
                let position = part.base() + offset as u32;
                each(position, &mut colours);
                let link = part.link(position).ok_or(Stop::Lost(index))?;
                let mut met = false;
                part.each_parent(link, |parent| {
                    met |= Some(parent) == target;
                    match parent.checked_sub(part.base()) {
                        _ if parent < floor => {}
                        None => _ = self.hand_down(parent, colours),
                        Some(at) => {
                            let before = page[at as usize];
                            page[at as usize] |= colours;
                            self.waiting += usize::from(self.wanted[usize::from(before | colours)]);
                            self.waiting -= usize::from(self.wanted[usize::from(before)]);
                        }
                    }
                });
                if met {
                    return Ok(true);
                }
                if self.waiting == 0 {
                    return Ok(false);
                }
            }
        }
        Ok(false)
    }
}
