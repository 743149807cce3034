//! What replays of one chain have alike, whatever keeps the set.
//!
//! **The idea.** A set that is opened again shows that its store keeps it, not that it is the right one. That is shown by what came
//! to it another way: checkpoints that others computed, another run, another profile or another store.

use super::ChainRun;
use crate::report::{ChainFigures, Row};

/// Compares whole runs of one replay with the first. Where a clock ends replays (`is_timed`) they may have other numbers of
/// blocks, and those are not compared. Returns what differs, and whether any were compared.
pub(super) fn runs(all: &[ChainRun], is_timed: bool) -> (Option<String>, bool) {
    let Some((first, others)) = all.split_first() else { return (None, false) };
    let (mut wrong, mut compared) = (None, false);
    for (index, other) in others.iter().enumerate() {
        if is_timed && first.run.ops != other.run.ops {
            continue;
        }
        compared = true;
        let differs = differs((first.run.ops, &first.figures), (other.run.ops, &other.figures));
        wrong = wrong.or_else(|| differs.map(|what| format!("runs 1 and {}: {what}", index + 2)));
    }
    (wrong, compared)
}

/// Compares the row of a replay with those of other replays of the same part of the chain, and notes in all of them what
/// was found.
pub(crate) fn row(row: &mut Row, others: &mut [Row], is_timed: bool) {
    for other in others {
        let (Some(one), Some(two)) = (&row.chain, &other.chain) else { continue };
        if one.stopped || two.stopped || (is_timed && row.total_ops != other.total_ops) {
            continue;
        }
        if let Some(what) = differs((row.total_ops, one), (other.total_ops, two)) {
            row.wrong.get_or_insert_with(|| format!("{what} in {}", other.name));
            other.wrong.get_or_insert_with(|| format!("another result in {}: {what} here", row.name));
        }
        for row in [&mut *row, other] {
            row.checked = row.wrong.is_none();
        }
    }
}

/// Returns in what two replays of the same blocks differ.
fn differs(one: (u64, &ChainFigures), other: (u64, &ChainFigures)) -> Option<String> {
    let results = |(blocks, figures): (u64, &ChainFigures)| {
        let of = |count: u64| count.to_string();
        [
            ("blocks", of(blocks)),
            ("bytes of blocks", of(figures.block_bytes)),
            ("transactions", of(figures.transactions)),
            ("failed transactions", of(figures.failed)),
            ("outputs spent", of(figures.spent)),
            ("outputs created", of(figures.created)),
            ("missing inputs", of(figures.missing)),
            ("entries", of(figures.entries)),
            ("last block", figures.tip.clone().unwrap_or_default()),
            ("digest", figures.digest.clone().unwrap_or_default()),
        ]
    };
    let mut pairs = results(one).into_iter().zip(results(other));
    pairs.find(|(one, other)| one.1 != other.1).map(|((what, one), (_, other))| format!("{what}: {one}, and {other}"))
}
