//! The replay of a chain within step 7.

use std::path::{Path, PathBuf};

use clap::Args;

use crate::{
    BenchError, blocks,
    cardano::{self, ChainJob, IndexName, Profile, TailName, UtxoName},
    error::Result,
    options::Common,
    replay::{BackendName, DurabilityName},
    report::Row,
    session::Session,
};

/// How many blocks indexes have.
const COUNTS: [u64; 4] = [10_000, 100_000, 1_000_000, 4_000_000];
/// A chart has some hundred points of a replay that takes seconds.
const SAMPLE_EVERY: f64 = 0.05;

/// Which chain is replayed.
#[derive(Args, Clone, Debug)]
pub struct ChainSources {
    /// A Cardano chain of step 7: a node's folder, or archives, in order; given more than once for several; without one the step leaves
    /// the replay out
    #[arg(long, value_name = "DIR|ARCHIVE")]
    pub chain: Vec<PathBuf>,
    /// Its genesis file; given more than once for several
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub chain_genesis: Vec<PathBuf>,
    /// Counts and digests to compare with after each chunk
    #[arg(long, value_name = "FILE", requires = "chain")]
    pub chain_checkpoints: Option<PathBuf>,
}

impl ChainSources {
    /// Returns every file and folder that is named.
    pub(super) fn named(&self) -> impl Iterator<Item = &PathBuf> {
        self.chain.iter().chain(&self.chain_genesis).chain(&self.chain_checkpoints)
    }
}

/// Returns the replay of the chain that was named: a tree on disk, the larger profile.
pub(super) fn job(args: &ChainSources, common: &Common, dir: &Path) -> Option<ChainJob> {
    (!args.chain.is_empty()).then(|| ChainJob {
        sources: args.chain.clone(),
        genesis: args.chain_genesis.clone(),
        checkpoints: args.chain_checkpoints.clone(),
        profile: Profile::HighMemory,
        index: Profile::HighMemory.index(),
        utxo: UtxoName::Tree,
        backend: BackendName::Disk,
        durability: DurabilityName::None,
        commit_every: 1,
        commit_unchanged: false,
        from: None,
        blocks: None,
        seconds: None,
        sample_every: SAMPLE_EVERY,
        tail: TailName::default(),
        allow_missing: args.chain_genesis.is_empty(),
        branch: "main".into(),
        dir: dir.to_owned(),
        keep: None,
        name: common.name.clone(),
    })
}

/// Measures indexes of made-up blocks.
pub(super) fn indexes(session: &mut Session, quick: bool) {
    let (dir, machine) = (session.dir().to_owned(), session.machine.clone());
    let (counts, rounds) = if quick { (&COUNTS[..1], 3) } else { (&COUNTS[..], 11) };
    for &blocks in counts {
        let peers = cfg!(feature = "rust-peers");
        let measured = blocks::measure(blocks, rounds, peers, &dir, &machine, &mut || session.probe(false));
        match measured {
            Ok(rows) => rows.into_iter().for_each(|row| session.keep(row)),
            Err(error) => session.fail(error),
        }
    }
}

/// Replays the chain with both profiles, synced, with a commit for every block, and into a plain LSM tree.
///
/// # Errors
/// [`BenchError::Stopped`] if the user interrupted it: nothing else should be begun.
pub(super) fn replays(session: &mut Session, job: &ChainJob, runs: usize) -> Result<()> {
    let low = ChainJob { profile: Profile::LowMemory, index: IndexName::Mmap, ..job.clone() };
    let synced = ChainJob { durability: DurabilityName::Synced, ..job.clone() };
    let each = ChainJob { commit_unchanged: true, ..job.clone() };
    let lsm = ChainJob { utxo: UtxoName::Lsm, ..job.clone() };
    let mut rows = Vec::new();
    for job in [job.clone(), low, each, synced, lsm] {
        replay(session, &job, runs, &mut rows)?;
    }
    Ok(())
}

/// Replays the chain once more, and compares the outcome with `rows`, those of the replays before.
fn replay(session: &mut Session, job: &ChainJob, runs: usize, rows: &mut Vec<Row>) -> Result<()> {
    say!("the chain, {}", job.row_name());
    let in_process = session.in_process();
    let synced = job.durability() != bristlecone::Durability::None;
    let (row, unrest) = session.beside_probes(synced, || cardano::measure(job, runs, in_process))?;
    match row {
        Ok(row) if row.chain.as_ref().is_some_and(|chain| chain.stopped) => return Err(BenchError::Stopped),
        Err(BenchError::Stopped) => return Err(BenchError::Stopped),
        Ok(mut row) => {
            row.unrest = unrest;
            let before = rows.clone();
            cardano::agree::row(&mut row, rows, job.seconds.is_some());
            rows.push(row.clone());
            session.add(row);
            // The first of them had nothing to be compared with until now.
            let changed = rows.iter().zip(&before).filter(|(now, before)| now != before);
            changed.for_each(|(now, _)| session.replace(now));
        }
        Err(error) => session.fail(error),
    }
    Ok(())
}
