//! What replays of one trace have alike, whatever keeps the store.
//!
//! **The idea.** Commit hashes that are those of the trace show that a replay did its work. Where they are others, by another format
//! or other keys or values, what came to the same another way shows it: another run, or a row on another backend.

use super::ReplayRun;
use crate::report::{ReplayFigures, Row};

/// Compares the runs of one replay with the first. Returns what differs, and whether any were compared.
pub(super) fn runs(all: &[ReplayRun]) -> (Option<String>, bool) {
    compared(all.iter().map(|run| (run.run.head.as_deref(), &run.figures)))
}

/// Does the same for rows of one replay, a run each.
pub(crate) fn rows(all: &[Row]) -> (Option<String>, bool) {
    compared(all.iter().filter_map(outcome))
}

/// Compares a row with another one of the same replay on another backend, and notes in both what was found. Returns whether that
/// changed the other one.
pub(crate) fn row(row: &mut Row, other: &mut Row) -> bool {
    let (Some(here), Some(there)) = (outcome(row), outcome(other)) else { return false };
    let is_part = |figures: &ReplayFigures| figures.stopped || figures.caveat.is_some();
    if is_part(here.1) || is_part(there.1) {
        return false;
    }
    let before = (other.checked, other.wrong.clone());
    if let Some(what) = differs(here, there) {
        row.wrong.get_or_insert_with(|| format!("{what} in {}", other.name));
        other.wrong.get_or_insert_with(|| format!("another result in {}: {what} here", row.name));
    }
    row.checked = row.wrong.is_none();
    other.checked = other.wrong.is_none();
    before != (other.checked, other.wrong.clone())
}

/// The last commit, and what was done and read.
type Outcome<'r> = (Option<&'r str>, &'r ReplayFigures);

fn outcome(row: &Row) -> Option<Outcome<'_>> {
    Some((row.head.as_deref(), row.replay.as_deref()?))
}

fn compared<'r>(all: impl Iterator<Item = Outcome<'r>>) -> (Option<String>, bool) {
    let mut all = all.peekable();
    let Some(first) = all.next() else { return (None, false) };
    let compared = all.peek().is_some();
    let wrong = all.enumerate().find_map(|(index, other)| {
        let what = differs(first, other)?;
        Some(format!("runs 1 and {}: {what}", index + 2))
    });
    (wrong, compared)
}

/// Returns in what two replays differ.
fn differs(one: Outcome<'_>, other: Outcome<'_>) -> Option<String> {
    let results = |(head, figures): Outcome<'_>| {
        let counts = [
            ("answers", figures.answers_checked),
            ("bytes of values read", figures.value_bytes),
            ("sum of values read", figures.value_sum),
        ];
        let rows = figures.rows.named().into_iter().chain(counts).map(|(what, count)| (what, count.to_string()));
        rows.chain([("last commit", head.unwrap_or_default().to_owned())]).collect::<Vec<_>>()
    };
    let mut pairs = results(one).into_iter().zip(results(other));
    pairs.find(|(one, other)| one.1 != other.1).map(|((what, one), (_, other))| format!("{what}: {one}, and {other}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Run;

    /// A way in which a replay ends otherwise.
    type Change = fn(&mut ReplayRun);

    fn made(change: Change) -> ReplayRun {
        let figures = ReplayFigures { value_sum: 7, answers_checked: 3, ..ReplayFigures::default() };
        let run = Run { ops: 9, seconds: 1.0, head: Some("h".into()), ..Run::default() };
        let mut run = ReplayRun { run, figures };
        change(&mut run);
        run
    }

    fn row_of(name: &str, run: ReplayRun) -> Row {
        let ReplayRun { run, figures } = run;
        Row { name: name.into(), head: run.head, replay: Some(Box::new(figures)), ..Row::default() }
    }

    #[test]
    fn runs_and_rows_that_disagree_are_wrong_and_one_alone_is_not_compared() {
        let same = || made(|_| {});
        assert_eq!(runs(&[same()]), (None, false));
        assert_eq!(runs(&[same(), same()]), (None, true));
        let others: [(&str, &str, Change); 4] = [
            ("last commit: h, and i", "last commit: i, and h", |run| run.run.head = Some("i".into())),
            ("sum of values read: 7, and 8", "sum of values read: 8, and 7", |run| run.figures.value_sum = 8),
            ("Add: 0, and 1", "Add: 1, and 0", |run| run.figures.rows.add = 1),
            ("answers: 3, and 4", "answers: 4, and 3", |run| run.figures.answers_checked = 4),
        ];
        for (what, turned, change) in others {
            assert_eq!(runs(&[same(), same(), made(change)]), (Some(format!("runs 1 and 3: {what}")), true));
            let mut one = row_of("one", same());
            let mut two = row_of("two", same());
            assert!(row(&mut two, &mut one) && two.checked && one.checked, "{one:?}");
            assert_eq!(rows(&[one.clone(), two.clone()]), (None, true));
            let mut three = row_of("three", made(change));
            assert!(row(&mut three, &mut one) && !three.checked && !one.checked, "{what}");
            assert_eq!(three.wrong.unwrap(), format!("{turned} in one"));
            assert_eq!(one.wrong.unwrap(), format!("another result in three: {turned} here"));
        }
        // Half a replay, or one in pieces, is no other way to the same.
        let parts: [Change; 2] = [|run| run.figures.stopped = true, |run| run.figures.caveat = Some("pieces".into())];
        for part in parts {
            let (mut one, mut part) = (row_of("one", same()), row_of("part", made(part)));
            assert!(!row(&mut part, &mut one) && !part.checked && !one.checked);
        }
    }
}
