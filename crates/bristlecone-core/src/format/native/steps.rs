//! Which item of an inner node leads to a step.

use super::fast::{short_run, start, start_behind};
use crate::format::search::{compare, mask, prefix};

/// Returns the last of the items of an inner node whose step is at most `step`. A function of its own: inlined, it has too few
/// registers.
#[inline(never)]
pub(super) fn last_at_most(table: &[[u8; 2]], items: &[u8], step: &[u8], wanted: u64) -> Option<Option<usize>> {
    let steps = Steps { items, step, wanted, shared: 0 };
    if table.len() > 3 && steps.head(0)?.0 == wanted {
        return last_behind(table, items, step, wanted);
    }
    steps.last_at_most(table)
}

/// Does the same where steps begin alike. A function of its own, so that the other one keeps its registers.
#[inline(never)]
fn last_behind(table: &[[u8; 2]], items: &[u8], step: &[u8], wanted: u64) -> Option<Option<usize>> {
    Steps::behind_shared(items, start(table, table.len() - 1)?, step, wanted)?.last_at_most(table)
}

/// The steps of the items of an inner node, and one to compare them with.
#[derive(Clone, Copy)]
struct Steps<'a> {
    items: &'a [u8],
    /// How many bytes all have in common, a multiple of eight: `user-of-1` and `user-of-2` differ behind them.
    shared: usize,
    /// What is looked for, behind those bytes.
    step: &'a [u8],
    /// The first eight bytes of it.
    wanted: u64,
}

impl<'a> Steps<'a> {
    /// Compares with `step`, whose first eight bytes are `wanted`, behind what all steps have in common with it. Steps ascend, so
    /// that is what the first one and the last one have, which starts at `last`.
    #[inline(always)]
    fn behind_shared(items: &'a [u8], last: usize, step: &'a [u8], wanted: u64) -> Option<Self> {
        let mut steps = Self { items, shared: 0, step, wanted };
        loop {
            let (first, last) = (steps.head(0)?, steps.head(last)?);
            let shared = steps.shared + 8;
            let are_short = usize::from(first.1.min(last.1)) < shared || steps.step.len() < 8;
            if are_short || first.1 | last.1 >= 0x80 || first.0 != steps.wanted || last.0 != steps.wanted {
                return Some(steps);
            }
            let step = steps.step.get(8..)?;
            steps = Self { items, shared, step, wanted: prefix(step) };
        }
    }

    #[inline(always)]
    fn last_at_most(&self, table: &[[u8; 2]]) -> Option<Option<usize>> {
        // No jump depends on the data: such jumps cost more than the comparisons. Of three comparisons at a time none waits for
        // another.
        let (wanted, mut base, mut size) = (self.wanted, 0, table.len());
        let at = |index: usize| start_behind(table, index - 1);
        while size > 3 {
            let quarter = size / 4;
            let places = [at(base + quarter)?, at(base + 2 * quarter)?, at(base + 3 * quarter)?];
            let [one, two, three] = [self.head(places[0])?, self.head(places[1])?, self.head(places[2])?];
            let mut passed = usize::from(one.0 < wanted) + usize::from(two.0 < wanted) + usize::from(three.0 < wanted);
            if one.0 == wanted || two.0 == wanted || three.0 == wanted || one.1 | two.1 | three.1 >= 0x80 {
                passed = 0;
                for place in places {
                    passed += usize::from(self.at_most(place)?);
                }
            }
            base += quarter * passed;
            size -= 3 * quarter;
        }
        while size > 1 {
            let half = size / 2;
            base += half * usize::from(self.at_most(at(base + half)?)?);
            size -= half;
        }
        Some((!table.is_empty() && (base > 0 || self.at_most(0)?)).then_some(base))
    }

    /// Returns eight bytes of the step of the item that starts at `start`, behind those in common, as an integer, and the byte
    /// that is its length if it is short.
    #[inline(always)]
    fn head(&self, start: usize) -> Option<(u64, u8)> {
        // Behind the step an inner item has an id, so eight bytes can be taken whatever the step's length.
        let [length, rest @ ..] = self.items.get(start..start + self.shared + 9)? else { return None };
        let first = u64::from_be_bytes(*rest.last_chunk()?);
        Some((first & mask(length.saturating_sub(self.shared as u8)), *length))
    }

    /// Whether the step of the item that starts at `start` is at most the one that is looked for.
    #[inline]
    fn at_most(&self, start: usize) -> Option<bool> {
        let (found, length) = self.head(start)?;
        if found == self.wanted {
            let (name, _) = short_run(self.items.get(start..)?)?;
            return Some(compare(name.get(self.shared..)?, found, self.step, self.wanted).is_le());
        }
        if length < 0x80 { Some(found < self.wanted) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec, vec::Vec};

    use super::*;

    #[test]
    fn the_last_item_at_most_a_step_is_found_in_nodes_of_any_size() {
        // Short steps, and such as agree in eight bytes and more.
        let steps = |n: u32| match n % 4 {
            0 => format!("{n}").into_bytes(),
            1 => format!("entry-00{n}").into_bytes(),
            2 => vec![0; n as usize / 4],
            _ => format!("entry-00{n}-{}", "x".repeat(n as usize * 2)).into_bytes(),
        };
        // All begin alike, with as many bytes or fewer than are compared at once; and some that are looked for do not.
        for lead in ["", "account", "account-", "\0\0\0\0\0\0\0\0", "accounts-of-some", "accounts-of-someone-"] {
            let mut all: Vec<Vec<u8>> = (0..120).map(|n| [lead.as_bytes(), &steps(n)].concat()).collect();
            all.retain(|step| step.len() < 0x80);
            all.sort();
            all.dedup();
            finds_all(
                &all,
                &["", "a", "account", "account-", "accounts-of", "accounts-of-t", "z", "\0\0\0\0\0\0\0\0\0\0"],
            );
        }
    }

    /// Makes nodes of half of the steps, which ascend, and looks for each step and for others.
    fn finds_all(steps: &[Vec<u8>], others: &[&str]) {
        for count in 0..=steps.len() / 2 {
            let (mut table, mut items) = (Vec::new(), Vec::new());
            let own: Vec<&Vec<u8>> = steps.iter().skip(1).step_by(2).take(count).collect();
            for step in &own {
                items.push(step.len() as u8);
                items.extend_from_slice(step);
                items.extend_from_slice(&[7; 34]);
                table.push((items.len() as u16).to_le_bytes());
            }
            for step in steps.iter().map(Vec::as_slice).chain(others.iter().map(|step| step.as_bytes())) {
                let wanted = own.iter().rposition(|own| own.as_slice() <= step);
                assert_eq!(last_at_most(&table, &items, step, prefix(step)), Some(wanted), "{count}: {step:?}");
            }
        }
    }
}
