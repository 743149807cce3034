//! What clocks and counters say of commits that are made behind the rows.

use std::time::Instant;

use bristlecone::{Native, Tree};

use super::{
    behind::{Late, Made},
    *,
};
use crate::{KeyBuf, Scoped, Writer};

const HASH: &[u8; 52] = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
/// What a commit takes.
const TOOK: Duration = Duration::from_millis(50);

/// Has each commit made so long after it was handed over, by somebody behind of whom nothing is heard at first.
struct Slow {
    repo: Repo,
    due: Vec<Instant>,
    heard: bool,
}

impl Commits<Native> for Slow {
    fn checkout(&mut self, _: Scoped<CommitHash>) -> Result<Tree, Fault> {
        Ok(self.repo.tree())
    }

    fn commit(&mut self, _: &mut Tree, _: Plan, _: impl FnOnce() -> Place) -> Result<(), Fault> {
        self.due.push(Instant::now() + TOOK);
        Ok(())
    }

    fn made(&mut self, tell: &mut dyn FnMut(Made)) -> Result<(), Late> {
        if self.heard {
            self.due.drain(..).for_each(|at| tell(Made { took: TOOK, at }));
        }
        Ok(())
    }
}

/// Two blocks, of which the first has very many Adds.
fn trace() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for adds in [GIANT_ADDS, 1] {
        for n in 0..adds {
            let key = KeyBuf::from_steps(["a", &n.to_string()]);
            let (input, output) = (Scoped::keep(0), Scoped::keep(0));
            writer.row(&Row::Add { key: key.as_key(), value: b"1", input, output }).unwrap();
        }
        let (hash, parents, input) = (Scoped::keep(&HASH[..]), crate::Hashes::default(), Scoped::keep(0));
        writer.row(&Row::Commit { hash, date: 0, message: b"", parents, input }).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn blocks_end_with_commits_that_are_made_behind() {
    let (repo, trace) = (Repo::memory(), trace());
    let mut replay = Replay::new(&repo, ReplayOptions::default()).unwrap();
    let mut behind = Slow { repo, due: Vec::new(), heard: false };
    let mut reader = Reader::new(&trace[..], "slow").unwrap();
    let ended = replay.rows(&mut reader, &mut (), &mut behind);
    let report = replay.report();
    assert_eq!(report.giants, [], "its commit is on its way");
    assert_eq!((report.commits, report.rows.of(crate::RowKind::Commit)), (0, 2));
    behind.heard = true;
    replay.after(ended, &mut behind, "slow").unwrap();
    let report = replay.report();
    assert_eq!((report.commits, report.giants.len()), (2, 1));
    let giant = report.giants[0];
    assert_eq!((giant.commit, giant.adds, giant.rows), (1, GIANT_ADDS, GIANT_ADDS + 1));
    assert!(giant.seconds >= TOOK.as_secs_f64(), "{giant:?}");
    assert!(report.block_time.p50_us >= TOOK.as_secs_f64() * 1e6, "{:?}", report.block_time);
}

/// Has a commit turn out to be another one, which is not heard of at first.
struct Wrong {
    repo: Repo,
    heard: bool,
}

impl Commits<Native> for Wrong {
    fn checkout(&mut self, _: Scoped<CommitHash>) -> Result<Tree, Fault> {
        Ok(self.repo.tree())
    }

    fn commit(&mut self, _: &mut Tree, _: Plan, _: impl FnOnce() -> Place) -> Result<(), Fault> {
        Ok(())
    }

    fn made(&mut self, _: &mut dyn FnMut(Made)) -> Result<(), Late> {
        if !self.heard {
            return Ok(());
        }
        let hash = CommitHash::parse(HASH).unwrap();
        let fault = Fault::Hash { expected: hash, found: hash };
        Err(Late { place: Box::default(), fault: Box::new(fault) })
    }
}

#[test]
fn a_wrong_answer_behind_a_wrong_commit_does_not_count() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let (key, input) = (KeyBuf::from_steps(["a"]), Scoped::keep(0));
    let (hash, parents) = (Scoped::keep(&HASH[..]), crate::Hashes::default());
    writer.row(&Row::Commit { hash, date: 0, message: b"", parents, input }).unwrap();
    writer.row(&Row::Mem { key: key.as_key(), found: true, input }).unwrap();
    let trace = writer.finish().unwrap();
    let repo = Repo::memory();
    let mut replay = Replay::new(&repo, ReplayOptions::default()).unwrap();
    let mut behind = Wrong { repo, heard: false };
    let mut reader = Reader::new(&trace[..], "wrong").unwrap();
    let ended = replay.rows(&mut reader, &mut (), &mut behind);
    let wrong = |replay: &Replay<Native>| (replay.report().answers_wrong, replay.report().hashes_wrong);
    assert_eq!((ended.is_err(), wrong(&replay)), (true, (1, 0)));
    behind.heard = true;
    assert!(replay.after(ended, &mut behind, "wrong").unwrap_err().is_wrong());
    assert_eq!(wrong(&replay), (0, 1));
}
