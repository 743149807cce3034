//! Replays of real and made-up traces, and of traces that were tampered with.

use bristlecone::{Format, Native, Repo};
use bristlecone_trace::{
    Reader, RowKind,
    replay::{End, Replay, ReplayError, ReplayOptions, Report},
};

use crate::shared::{self, EARLY, FLAT, REAL};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The traces that are shipped beside the repository, with the recorded hash of the last commit.
const TRACES: [(&str, u64, u64, &str); 3] = [
    (REAL, 1, 6, "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj"),
    (EARLY, 101, 40_617, "CoW9m6VF3jknTgvBcGrRFBZFUxWnpNo3MH1uC1zwZGwoNdixKfXZ"),
    (FLAT, 25, 38_613, "CoVy1FNN2WeyQuvZJVehN8CyvDXJyLbaptawCTSSrQtqh1zv17sn"),
];

fn replay<F: Format>(repo: &Repo<F>, trace: &[u8], options: ReplayOptions) -> Result<Report, ReplayError> {
    let mut replay = Replay::new(repo, options)?;
    replay.run(&mut Reader::new(trace, "trace")?, &mut ())?;
    Ok(replay.report())
}

#[test]
fn shipped_traces_replay_with_every_answer() -> Outcome {
    for (name, commits, rows, last) in TRACES {
        let Some(trace) = shared::bytes(name) else { continue };
        let repo = Repo::with_backend(Native::new(), Repo::memory().backend().clone());
        let report = replay(&repo, &trace, ReplayOptions::default())?;
        assert_eq!((report.commits, report.rows.total(), report.end), (commits, rows, End::Trace), "{name}");
        let asked = [RowKind::Find, RowKind::Mem, RowKind::MemTree].map(|kind| report.rows.of(kind));
        assert_eq!(report.answers_checked, asked.iter().sum::<u64>());
        let (head, recorded) = report.head.unwrap();
        assert_eq!(recorded.to_string(), last);
        assert_eq!(repo.branch("main")?.head()?, Some(head));
    }
    Ok(())
}
