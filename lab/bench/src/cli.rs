//! The command `bench` and its parts: the options, and what is done with them.

use clap::{Args, Subcommand};

use crate::{all, blocks, error::Result, gc, gitimport, history, io, map, objects, refs, utxo};
pub use crate::{
    all::{AllArgs, ChainSources, TraceArgs},
    options::Common,
};

mod plain;

pub use plain::BenchArgs;

/// The command `bench`: the tree suite, or one of its parts by name.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    /// What is measured, if not the tree suite.
    #[command(subcommand)]
    pub part: Option<Part>,
    /// The options of the tree suite.
    #[command(flatten)]
    pub suite: BenchArgs,
}

/// What `bench` does beside the tree suite.
#[derive(Subcommand, Clone, Debug)]
pub enum Part {
    /// Everything in one command: suite, optimisations, trace, task counts, peers, charts, pages
    All(Box<AllArgs>),
    /// Measure raw reads: short random reads of a file, by system calls and from a map, beside fio
    #[command(after_help = "\
Examples:
  cone bench io                                the usual job: 50 to 300 bytes, 20 MiB of a file of 3.7 GiB, 100 loops
  cone bench io --file data.bin --span 1G      of your own file
  cone bench io --cold --loops 5               from the disk, not from the page cache
  cone bench io --export job.fio               also write the job for fio
  cone bench io --sequential --size 64k        from the start to the end
  cone bench io --job job.fio                  a job file of fio")]
    Io(Box<io::IoArgs>),
    /// Measure the import of a whole Git history, beside git fast-export and fast-import, and git clone
    #[command(after_help = "\
Examples:
  cone bench git-import .                      the repository here
  cone bench git-import repo.git --runs 5 --dir /mnt/disk --json rows.json

Exit code 1 if what was imported is not what was there.")]
    GitImport(Box<gitimport::GitImportArgs>),
    /// Measure ordered maps, ours beside plain LMDB: Okra's table
    #[command(after_help = "\
Examples:
  cone bench map                                          1,000, 50,000 and 1,000,000 entries, durable and not
  cone bench map --entries 1000000 --durability synced    the largest alone
  cone bench map --only set-1,set-1000 --engines native   two rows of one engine beside LMDB

redb, fjall, SQLite and RocksDB are there in a program that was built with the feature peers.
Exit code 1 if a map does not hold what was written to it.")]
    Map(Box<map::MapArgs>),
    /// Measure the indexes of a chain's blocks, in memory and mapped
    #[command(after_help = "\
Examples:
  cone bench blocks                       10 k, 100 k, 1 M and 4 M blocks
  cone bench blocks --blocks 1000000

Exit code 1 if an index gives an answer that is not that of the chain.")]
    Blocks(Box<blocks::BlocksArgs>),
    /// Measure a made-up set of unspent outputs: batches of 256 lookups, additions and removals
    #[command(after_help = "\
Examples:
  cone bench utxo                                            1 and 10 million entries, 2,000 batches each
  cone bench utxo --entries 1000000 --durability synced
  cone bench utxo --entries 1000000,10000000 --batches 500   how rate, memory and size grow
  cone bench utxo --peers                                    beside fjall, in a program built with the feature peers

Exit code 1 if a set does not hold what it should.")]
    Utxo(Box<utxo::UtxoArgs>),
    /// Measure collections beside commits of one entry each, in a store that keeps its last commits
    #[command(after_help = "\
Examples:
  cone bench gc                                             1,000 and 1 million entries, 20 pairs of slices of 10 s, none and synced
  cone bench gc --entries 1000 --pairs 3 --slice 2 --alone 10 --whole 100000   a short one
  cone bench gc --only others --chart gc.svg                others alone: plain LMDB, git gc, redb with the feature rust-peers
  cone bench gc --entries 1000000 --durability none --retain 1000

Exit code 1 if a store does not hold what it should.")]
    Gc(Box<gc::GcArgs>),
    /// Measure a store with very many refs: opening, moves, lookups, listings
    #[command(after_help = "\
Examples:
  cone bench refs                                           1,000 and 1 million refs, none and synced
  cone bench refs --refs 10000 --moves 1000 --durability synced

Exit code 1 if a ref does not lead to what it should.")]
    Refs(Box<refs::RefsArgs>),
    /// Measure questions about a long history: ancestors, merge bases, counts, last changes
    #[command(after_help = "\
Examples:
  cone bench history                                        a million commits, and the graph of them kept up
  cone bench history --commits 100000 --unindexed           what the first question of a store costs

Exit code 1 if an answer is wrong.")]
    History(Box<history::HistoryArgs>),
    /// Measure objects by themselves: ids in very many segments, checks and large commits by all cores, a large value
    #[command(after_help = "\
Examples:
  cone bench objects                                        1,000 segments, a million entries, a value of 100 MB
  cone bench objects --only check,commit --rounds 10        two of the parts
  cone bench objects --segments 50 --entries 20000 --value-bytes 1000000     a short one

Exit code 1 if an answer or a root is wrong.")]
    Objects(Box<objects::ObjectsArgs>),
}

/// Runs what the options ask for. Tables, or with `json` the rows, go to standard output, progress to
/// standard error.
///
/// # Errors
/// [`BenchError::Usage`](crate::BenchError::Usage) for options that make no sense;
/// [`BenchError::Wrong`](crate::BenchError::Wrong) after everything was reported, if a check found something
/// wrong; others of the stores and the system.
pub fn run(bench: &Bench, json: bool) -> Result<()> {
    match &bench.part {
        None => plain::run(&bench.suite, json),
        Some(Part::All(args)) => all::run(args, json),
        Some(Part::Io(args)) => io::run(args, json),
        Some(Part::GitImport(args)) => gitimport::run(args, json),
        Some(Part::Map(args)) => map::run(args, json),
        Some(Part::Blocks(args)) => blocks::run(args, json),
        Some(Part::Utxo(args)) => utxo::run(args, json),
        Some(Part::Gc(args)) => gc::run(args, json),
        Some(Part::Refs(args)) => refs::run(args, json),
        Some(Part::History(args)) => history::run(args, json),
        Some(Part::Objects(args)) => objects::run(args, json),
    }
}
