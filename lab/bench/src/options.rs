//! Options that several commands take.

use std::path::{Path, PathBuf};

use bristlecone::core::PATH_STEPS_MAX;
use clap::Args;

use crate::job::{Job, Sizes, Switches, Target, Work};

/// How much is done, and where: common to the parts that measure the tree suite.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Commits of a scenario
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    pub ncommits: usize,
    /// Entries of the wide directory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    pub tree_add: usize,
    /// Directories above an entry
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = depth)]
    pub depth: usize,
    /// Lookups of `reads`, and rounds of `concurrent`
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub nreads: usize,
    /// What rows are called, before the backend
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    pub name: String,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Runs of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub runs: usize,
    /// One run of each row, in unrest too, and not the longest rows: about a minute for the tree suite
    #[arg(long)]
    pub quick: bool,
    /// Publish rows of a program that was built from changed sources, too: for your own pages
    #[arg(long)]
    pub allow_dirty: bool,
    /// Do every run in this process: for profilers. Memory is then that of all runs together
    #[arg(long)]
    pub in_process: bool,
}

impl Common {
    /// Returns what every job of a run has in common.
    pub(crate) fn job(&self, dir: &Path) -> Job {
        let Self { ncommits, tree_add, depth, nreads, .. } = *self;
        Job {
            work: Work::Commits,
            target: Target::Memory,
            value_bytes: 20,
            sizes: Sizes { ncommits, tree_add, depth, nreads, ..Sizes::default() },
            switches: Switches::default(),
            dir: dir.to_owned(),
            name: self.name.clone(),
            label: None,
            judged: false,
        }
    }
}

/// Reads a count of at least one.
pub(crate) fn positive(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Reads how many directories stand above an entry, with which a path must not have more steps than paths may have.
fn depth(text: &str) -> std::result::Result<usize, String> {
    match text.parse::<usize>() {
        Ok(depth) if depth < PATH_STEPS_MAX => Ok(depth),
        Ok(_) => Err(format!("at most {}", PATH_STEPS_MAX - 1)),
        Err(error) => Err(format!("{error}")),
    }
}
