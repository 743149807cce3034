//! What counts of several replays.

use super::*;
use crate::{measure::Run, report::ChainFigures};

/// A replay of so many blocks.
fn replayed(blocks: u64, stopped: bool) -> ChainRun {
    let figures = ChainFigures { stopped, digest: Some("d1".into()), ..ChainFigures::default() };
    ChainRun { run: Run { ops: blocks, seconds: 1.0, ..Run::default() }, figures }
}

#[test]
fn an_interrupted_run_ends_the_others_and_does_not_count_among_whole_ones() {
    // Of how many runs of how many jobs how many are kept, where the last of so many is interrupted.
    for (jobs, runs, last, kept) in
        [(1, 3, 3, vec![2]), (1, 3, 1, vec![1]), (1, 1, 1, vec![1]), (2, 1, 1, vec![1, 0]), (2, 1, 9, vec![1, 1])]
    {
        let mut done = 0;
        let all = runs_of(jobs, runs, &mut |_| {
            done += 1;
            Ok(replayed(if done == last { 7 } else { 400 }, done == last))
        })
        .unwrap();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), kept, "{jobs} jobs, {runs} runs, {last}");
        assert_eq!(done, last.min(jobs * runs));
        let halves = all.iter().flatten().filter(|run| run.figures.stopped).count();
        assert_eq!(halves, usize::from(last == 1), "{jobs} jobs, {runs} runs, {last}");
    }
}
