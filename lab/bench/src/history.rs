//! `cone bench history`: questions about a long history: who descends from whom, where histories part, what changed a path last.
//!
//! **The idea.** A main line, into which every eighth commit merges a side branch of two, and one side branch that
//! never was merged. What the answers should be follows from the numbers of commits. `docs/bench.md`, section 18, says
//! what the figures mean.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use bristlecone::{CommitId, Durability, Info, LogOptions, Native, Repo, Signature, Tree, disk::DiskOptions};
use clap::Args;

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    options::positive,
    report::{self, Row, json},
    rss::Sampler,
    scratch::Scratch,
};

/// The part in which commits are made; the others ask.
const MAKE: &str = "make";
/// The folder of what a store keeps to answer sooner, and may lose at any time.
const DERIVED: &str = "derived";
/// Every so many commits of the main line one merges a side branch of two.
const MERGED_EACH: usize = 8;
/// How many commits such a side branch has.
const SIDE: usize = 2;
/// So many paths change by turns.
const PATHS: usize = 1000;
/// How many stores are opened for a first question.
const OPENINGS: usize = 20;
/// How many questions there are that take a walk, beside the many that take none.
const WALKS: usize = 20;

/// Measures questions about a long history.
#[derive(Args, Clone, Debug)]
pub struct HistoryArgs {
    /// How many commits there are, at least 2
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = two_or_more)]
    pub commits: usize,
    /// How many questions that take no walk
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub questions: usize,
    /// Keep nothing up while commits are made, so that first questions find nothing
    #[arg(long)]
    pub unindexed: bool,
    /// Where the store is made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Reads how many commits there are: questions are about two of them.
fn two_or_more(text: &str) -> std::result::Result<usize, String> {
    match positive(text)? {
        1 => Err("at least 2".into()),
        count => Ok(count),
    }
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] if an answer is wrong; others of stores and the system.
pub(crate) fn run(args: &HistoryArgs, json: bool) -> Result<()> {
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let rows = Long::new(&scratch.dir.join("history"), args)?.measure(args, &machine)?;
    if let Some(file) = &args.json {
        json::merge(file, &rows)?;
    }
    report::show(&rows, json)
}

/// A store with a long history.
struct Long {
    dir: PathBuf,
    repo: Repo,
    main: Vec<CommitId>,
    /// The side branch that the next commit of the main line merges, as far as it is made.
    side: Vec<CommitId>,
    /// A side branch that never was merged, of two commits on the tenth part of the main line.
    loose: Option<CommitId>,
    /// Nothing is kept up while commits are made.
    unindexed: bool,
    random: u64,
    runs: Vec<(&'static str, Run)>,
}

impl Long {
    fn new(dir: &Path, args: &HistoryArgs) -> Result<Self> {
        let repo = Repo::create(dir, Native::new(), DiskOptions::default())?;
        repo.set_indexing(!args.unindexed);
        let (main, side, loose, unindexed) = (Vec::new(), Vec::new(), None, args.unindexed);
        Ok(Self { dir: dir.to_owned(), repo, main, side, loose, unindexed, random: 1, runs: Vec::new() })
    }

    fn measure(mut self, args: &HistoryArgs, machine: &Machine) -> Result<Vec<Row>> {
        say_part!("{} commits: make", args.commits);
        self.make(args.commits)?;
        self.repo.wait_for_indexing();
        say_part!(", first questions");
        self.first_questions()?;
        say_part!(", lines");
        self.lines(args.questions)?;
        say_part!(", walks");
        self.walks()?;
        say_part!(", logs");
        self.logs(args.questions)?;
        say!(", last changes");
        self.last_changes()?;
        let stats = self.repo.backend().stats();
        let rows = self.runs.iter().map(|(part, run)| {
            let mut run = run.clone();
            (run.store_bytes, run.file_bytes, run.threads) = (stats.store_bytes, stats.file_bytes, 1);
            let mut row = Row::of_runs(&run, std::slice::from_ref(&run), machine);
            row.backend = "disk".into();
            row.durability = if *part == MAKE { Durability::None.name().into() } else { String::new() };
            row.variant = if self.unindexed { "unindexed".into() } else { String::new() };
            row.name = format!("disk {} {}", Durability::None.name(), row.variant).trim_end().to_owned();
            row.scenario = format!("history-{part}-{}", args.commits);
            row.checked = true;
            row
        });
        Ok(rows.collect())
    }

    /// Opens the store once more; where nothing is kept up, as if nothing had been asked of it yet.
    fn opened_anew(&self) -> Result<Repo> {
        let derived = self.dir.join(DERIVED);
        if self.unindexed && derived.exists() {
            // An earlier question has stored what it learnt.
            fs::remove_dir_all(&derived).map_err(BenchError::io(&derived))?;
        }
        Ok(Repo::open(&self.dir, DiskOptions::default())?)
    }

    /// Times the operations of a part, each on its own.
    fn time(&mut self, part: &'static str, ops: usize, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (mut nanoseconds, sampler) = (Vec::with_capacity(ops), Sampler::start());
        let before = self.repo.backend().stats();
        let began = Instant::now();
        for _ in 0..ops {
            let started = Instant::now();
            each(self)?;
            nanoseconds.push(started.elapsed().as_nanos() as u64);
        }
        let mut run = Run { ops: ops as u64, seconds: began.elapsed().as_secs_f64(), ..Run::default() };
        if part == MAKE {
            run.set_latencies(nanoseconds);
        } else {
            run.set_latencies_of_others(nanoseconds);
        }
        let (peak, after) = (sampler.finish_sampled(), self.repo.backend().stats());
        (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
        run.bytes_written = after.bytes_written.saturating_sub(before.bytes_written);
        self.runs.push((part, run));
        Ok(())
    }

    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 20) as usize % end
    }

    /// Makes all commits, in a store that is closed and opened again.
    fn make(&mut self, commits: usize) -> Result<()> {
        let mut tree = self.repo.tree();
        self.time(MAKE, commits, |long| long.next(&mut tree))?;
        let on = self.main[self.main.len() / 10];
        let mut tree = self.repo.checkout(on)?;
        let first = self.commit(&mut tree, "loose", &[on])?;
        self.loose = Some(self.commit(&mut tree, "loose", &[first])?);
        Ok(())
    }

    /// Returns how many commits the main line leads to.
    fn made(&self) -> usize {
        self.main.len() + SIDE * merges(self.main.len())
    }

    /// Makes one commit: the next of the main line, or of the side branch that it merges.
    fn next(&mut self, tree: &mut Tree) -> Result<()> {
        let n = self.main.len();
        if n > 0 && n.is_multiple_of(MERGED_EACH) && self.side.len() < SIDE {
            let on = self.side.last().copied().unwrap_or(self.main[n - 3]);
            let mut side = self.repo.checkout(on)?;
            let at = self.commit(&mut side, "side", &[on])?;
            self.side.push(at);
            return Ok(());
        }
        let parents: Vec<CommitId> = self.main.last().into_iter().chain(self.side.last()).copied().collect();
        let at = self.commit(tree, "main", &parents)?;
        self.main.push(at);
        self.side.clear();
        Ok(())
    }

    fn commit(&self, tree: &mut Tree, line: &str, parents: &[CommitId]) -> Result<CommitId> {
        let n = self.main.len();
        tree.set(format!("{line}/{:02}/{:02}", n % PATHS / 100, n % 100), n.to_string())?;
        let who = Signature::new(*b"bench <bench@example.org>", n as i64);
        Ok(self.repo.commit_tree(tree, parents, &Info::message("a commit").by(who).durability(Durability::None))?)
    }

    fn last(&self) -> CommitId {
        self.main[self.main.len() - 1]
    }

    /// Asks first questions of both kinds.
    fn first_questions(&mut self) -> Result<()> {
        for (part, line) in [("first-line", true), ("first-walk", false)] {
            // Closing the stores is no part of the questions.
            drop(self.first_of(part, line)?);
        }
        self.repo = Repo::open(&self.dir, DiskOptions::default())?;
        Ok(())
    }

    /// Asks one question each of stores that were just opened, and returns them, still open.
    fn first_of(&mut self, part: &'static str, line: bool) -> Result<Vec<Repo>> {
        let openings = if self.unindexed { 1 } else { OPENINGS };
        let mut opened = (0..openings).map(|_| self.opened_anew()).collect::<Result<Vec<_>>>()?;
        let mut asked = Vec::with_capacity(openings);
        self.time(part, openings, |long| {
            let Some(repo) = opened.pop() else { return Ok(()) };
            let number = long.below(long.main.len());
            let (at, wanted) = if line { (long.main[number], true) } else { (long.loose(), false) };
            let answer = repo.is_ancestor(at, long.last())?;
            asked.push(repo);
            right(part, answer == wanted)
        })?;
        Ok(asked)
    }

    fn loose(&self) -> CommitId {
        self.loose.unwrap_or_else(|| self.last())
    }

    /// Asks what the line of first parents answers.
    fn lines(&mut self, questions: usize) -> Result<()> {
        self.time("ancestor-line", questions, |long| {
            let (one, other) = (long.below(long.main.len()), long.below(long.main.len()));
            right("ancestor-line", long.repo.is_ancestor(long.main[one.min(other)], long.main[one.max(other)])?)
        })?;
        self.time("base-line", questions, |long| {
            let (one, other) = (long.below(long.main.len()), long.below(long.main.len()));
            let bases = long.repo.merge_bases(long.main[one], long.main[other])?;
            right("base-line", bases == [long.main[one.min(other)]])
        })
    }

    /// Asks what takes a walk over most of history.
    fn walks(&mut self) -> Result<()> {
        self.time("ancestor-walk", WALKS, |long| {
            right("ancestor-walk", !long.repo.is_ancestor(long.loose(), long.last())?)
        })?;
        self.time("base-walk", WALKS, |long| {
            let bases = long.repo.merge_bases(long.loose(), long.last())?;
            right("base-walk", bases == [long.main[long.main.len() / 10]])
        })?;
        self.time("count", WALKS, |long| {
            let count = long.repo.count_between(long.main[0], long.last())?;
            right("count", count == long.made() as u64 - 1)
        })
    }

    /// Lists what one commit leads to and another one does not, where the answer is short and what is left out is long.
    fn logs(&mut self, questions: usize) -> Result<()> {
        self.time("log-walk", WALKS, |long| {
            // A side branch that leaves the main line at a tenth of its length.
            right("log-walk", long.log(&[long.loose()], &[long.last()])?.len() == 2)
        })?;
        self.time("log-line", questions.min(1000), |long| {
            let at = long.below(long.main.len());
            right("log-line", long.log(&[long.main[at]], &[long.last()])?.is_empty())
        })?;
        self.time("log-many", WALKS, |long| {
            let many: Vec<CommitId> = long.main.iter().rev().step_by(long.main.len() / 100 + 1).copied().collect();
            right("log-many", long.log(&[long.loose()], &many)?.len() == 2)
        })?;
        self.time("log-short", questions.min(1000), |long| {
            let at = long.below(long.main.len() - 1);
            let listed = long.log(&[long.main[at + 1]], &[long.main[at]])?;
            right("log-short", listed.first() == Some(&long.main[at + 1]) && listed.len() <= 3)
        })
    }

    fn log(&self, heads: &[CommitId], exclude: &[CommitId]) -> Result<Vec<CommitId>> {
        let options = LogOptions::default().exclude(exclude.to_vec());
        self.repo.log(heads, options).map(|entry| Ok(entry?.id)).collect()
    }

    fn last_changes(&mut self) -> Result<()> {
        let mut questions = WALKS;
        if self.unindexed {
            (self.repo, questions) = (self.opened_anew()?, 1);
        }
        self.time("last-change-none", questions, |long| {
            right("last-change-none", long.repo.last_change(long.last(), "main/nothing")?.is_none())
        })?;
        // What the answers should be is looked for before the clock runs.
        let wanted: Vec<(String, Option<CommitId>)> = (0..WALKS).map(|_| self.some_path()).collect();
        let mut wanted = wanted.into_iter();
        self.time("last-change", WALKS, |long| {
            let Some((path, last)) = wanted.next() else { return Ok(()) };
            right("last-change", long.repo.last_change(long.last(), path)?.map(|entry| entry.id) == last)
        })
    }

    /// Returns a path of the main line, and the commit that changed it last.
    fn some_path(&mut self) -> (String, Option<CommitId>) {
        let n = self.below(PATHS.min(self.main.len()));
        let last = (0..self.main.len()).rev().find(|at| at % PATHS == n).map(|at| self.main[at]);
        (format!("main/{:02}/{:02}", n / 100, n % 100), last)
    }
}

/// Returns how many of the first commits of the main line merge a side branch.
fn merges(main: usize) -> usize {
    main.saturating_sub(1) / MERGED_EACH
}

fn right(scenario: &str, right: bool) -> Result<()> {
    let reason = || "an answer is not what the numbers of commits say".to_owned();
    right.then_some(()).ok_or_else(|| BenchError::Wrong { scenario: scenario.to_owned(), reason: reason() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_history_has_two_commits() {
        assert!(two_or_more("1").is_err() && two_or_more("0").is_err() && two_or_more("2") == Ok(2));
        let dir = tempfile::tempdir().unwrap();
        let args = HistoryArgs { commits: 2, questions: 5, unindexed: false, dir: None, json: None };
        let long = Long::new(dir.path(), &args).unwrap();
        let rows = long.measure(&args, &Machine::here(dir.path())).unwrap();
        assert!(rows.iter().all(|row| row.checked), "{rows:?}");
    }

    #[test]
    fn stores_are_open_until_their_first_questions_are_timed() {
        let dir = tempfile::tempdir().unwrap();
        let args = HistoryArgs { commits: 20, questions: 1, unindexed: false, dir: None, json: None };
        let mut long = Long::new(dir.path(), &args).unwrap();
        long.make(args.commits).unwrap();
        let asked = long.first_of("first-line", true).unwrap();
        assert_eq!((asked.len(), long.runs.last().unwrap().1.ops), (OPENINGS, OPENINGS as u64));
        assert!(asked.iter().all(|repo| repo.is_ancestor(long.main[0], long.last()).unwrap()));
    }

    #[test]
    fn an_operation_makes_one_commit() {
        let dir = tempfile::tempdir().unwrap();
        // Behind 8 and 16 commits of the main line a side branch is made, and merged.
        for (commits, main, side) in [(8, 8, 0), (9, 8, 1), (10, 8, 2), (11, 9, 0), (18, 16, 0), (19, 16, 1)] {
            let args = HistoryArgs { commits, questions: 1, unindexed: true, dir: None, json: None };
            let mut long = Long::new(&dir.path().join(commits.to_string()), &args).unwrap();
            long.make(commits).unwrap();
            assert_eq!((long.main.len(), long.side.len()), (main, side), "{commits}");
            assert_eq!(long.made() + side, commits);
            let listed = long.log(&[long.last()], &[]).unwrap();
            assert_eq!(listed.len(), long.made());
        }
    }

    #[test]
    fn first_questions_of_an_unindexed_store_find_no_index() {
        let dir = tempfile::tempdir().unwrap();
        for unindexed in [true, false] {
            let args = HistoryArgs { commits: 200, questions: 5, unindexed, dir: None, json: None };
            let mut long = Long::new(&dir.path().join(unindexed.to_string()), &args).unwrap();
            long.make(args.commits).unwrap();
            let asks: [fn(&mut Long) -> Result<()>; 2] = [Long::first_questions, Long::last_changes];
            for ask in asks {
                long.repo.index_history(long.last()).unwrap();
                ask(&mut long).unwrap();
                // So few commits are walked: whatever is known now was there before.
                let known = long.repo.indexed_commits().unwrap();
                assert_eq!((known.graph > 0, known.changes > 0), (!unindexed, !unindexed), "{known:?}");
            }
        }
    }
}
