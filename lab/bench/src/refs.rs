//! `cone bench refs`: a store with very many refs: how long it takes to open, to move one, to look one up, to list a few.
//!
//! **The idea.** Branches of a local-first application are cheap and stay, so a store comes to have a million. What
//! each ref should lead to is known, and compared at the end. `docs/bench.md`, section 17, says what the figures mean.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use bristlecone::{
    Backend, Batch, Durability, Expected, Info, Location, Native, ObjRef, Oid, RefMove, RefTarget, Repo,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_any::AnyFormat;
use clap::Args;

use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    options::positive,
    replay::DurabilityName,
    report::{self, Row, json},
    rss::Sampler,
    scratch::Scratch,
};

/// So many refs are made in one step.
const MADE_TOGETHER: u64 = 1000;
/// So many refs have a prefix in common.
const ALIKE: u64 = 100;
/// How often the store is opened, and how often refs with a common prefix are listed.
const OPENINGS: usize = 20;
const LISTINGS: usize = 2000;
/// How many commits there are that refs lead to.
const TARGETS: u64 = 16;
/// Where each move is synced there are fewer of them by this.
const SYNCED_FEWER: usize = 100;

/// Measures a store with many refs.
#[derive(Args, Clone, Debug)]
pub struct RefsArgs {
    /// How many refs the store has, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(100..=100_000_000), default_values_t = [1000, 1_000_000])]
    pub refs: Vec<u64>,
    /// How many moves of one ref each; a hundredth of them where each is synced
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = positive)]
    pub moves: usize,
    /// When a move is acknowledged, separated by commas
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_values_t = [DurabilityName::None, DurabilityName::Synced])]
    pub durability: Vec<DurabilityName>,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Does what the options ask for. The table, or with `json` the rows, go to standard output.
///
/// # Errors
/// [`BenchError::Wrong`] after everything was reported, if a ref did not lead to what it should; others of stores and the system.
pub(crate) fn run(args: &RefsArgs, json: bool) -> Result<()> {
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let scratch = Scratch::new(args.dir.as_deref())?;
    let machine = Machine::here(&scratch.dir);
    let mut rows = Vec::new();
    for &refs in &args.refs {
        for &durability in &args.durability {
            let durability = durability.durability();
            let dir = scratch.dir.join(format!("refs-{refs}-{}", durability.name()));
            let new = Many::new(&dir, refs, durability)?.measure(args, &machine)?;
            fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
            if let Some(file) = &args.json {
                json::merge(file, &new)?;
            }
            rows.extend(new);
        }
    }
    report::show_checked(&rows, json)
}

/// A store of many refs.
struct Many {
    dir: PathBuf,
    backend: Arc<DiskBackend>,
    durability: Durability,
    targets: Vec<ObjRef>,
    /// To which of the targets each ref leads.
    held: Vec<u8>,
    random: u64,
    runs: Vec<(&'static str, Run)>,
    /// What the longest operation of the last part took, in milliseconds.
    longest: f64,
}

/// Whether operations of a part write; the others look.
fn writes(part: &str) -> bool {
    matches!(part, "make" | "move")
}

fn prefix(group: u64) -> String {
    format!("refs/heads/user-{group:06}/")
}

fn name(number: u64) -> String {
    format!("{}topic-{:02}", prefix(number / ALIKE), number % ALIKE)
}

fn open(dir: &Path) -> Result<DiskBackend> {
    Ok(DiskBackend::open(Arc::new(RealStorage::new(dir)), None, DiskOptions::default(), false)?)
}

impl Many {
    fn new(dir: &Path, refs: u64, durability: Durability) -> Result<Self> {
        fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
        let storage = Arc::new(RealStorage::new(dir));
        let tag = AnyFormat::from(Native::new()).tag();
        let backend = Arc::new(DiskBackend::create(storage, tag, DiskOptions::default())?);
        let repo = Repo::with_backend(Native::new(), backend.clone());
        let mut targets = Vec::new();
        for number in 0..TARGETS {
            let main = repo.branch("main")?;
            let mut tree = main.tree()?;
            tree.set("number", number.to_string())?;
            let head = main.commit(&mut tree, &Info::unsigned("a target"))?;
            targets.push(ObjRef::new(head.into(), Location::NONE));
        }
        drop(repo);
        let held = (0..refs).map(|number| (number % TARGETS) as u8).collect();
        Ok(Self {
            dir: dir.to_owned(),
            backend,
            durability,
            targets,
            held,
            random: refs,
            runs: Vec::new(),
            longest: 0.0,
        })
    }

    fn refs(&self) -> u64 {
        self.held.len() as u64
    }

    fn target(&self, number: u64) -> RefTarget {
        RefTarget::Object(self.targets[self.held[number as usize] as usize])
    }

    fn measure(mut self, args: &RefsArgs, machine: &Machine) -> Result<Vec<Row>> {
        say_part!("{} refs, {}: make", self.refs(), self.durability.name());
        self.make()?;
        say_part!(", open");
        let opened = self.open_often()?;
        say_part!(", move");
        let moves = if self.durability == Durability::Synced { args.moves.div_ceil(SYNCED_FEWER) } else { args.moves };
        let written = self.move_some(moves)?;
        let longest = self.longest;
        say_part!(", look up");
        self.look_up(args.moves)?;
        say_part!(", list");
        self.list()?;
        say!(", check");
        let wrong = self.check()?;
        say!(
            "  opened in {opened:.1} ms (median of {OPENINGS}); {written:.0} bytes written a move, the longest took {longest:.1} ms; {:.1} MB of files",
            self.backend.stats().file_bytes as f64 / 1e6,
        );
        let stats = self.backend.stats();
        let rows = std::mem::take(&mut self.runs).into_iter().map(|(part, mut run)| {
            (run.store_bytes, run.file_bytes) = (stats.store_bytes, stats.file_bytes);
            run.wrong.clone_from(&wrong);
            run.threads = 1;
            let mut row = Row::of_runs(&run, std::slice::from_ref(&run), machine);
            row.backend = "disk".into();
            row.durability = if writes(part) { self.durability.name().into() } else { String::new() };
            row.name = format!("disk {}", self.durability.name());
            row.scenario = format!("refs-{part}-{}", self.refs());
            row.checked = row.wrong.is_none();
            row
        });
        Ok(rows.collect())
    }

    /// Times the operations of a part, each on its own.
    fn time(&mut self, part: &'static str, ops: usize, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        let (mut nanoseconds, sampler) = (Vec::with_capacity(ops), Sampler::start());
        let before = self.backend.stats();
        let began = Instant::now();
        for _ in 0..ops {
            let started = Instant::now();
            each(self)?;
            nanoseconds.push(started.elapsed().as_nanos() as u64);
        }
        let mut run = Run { ops: ops as u64, seconds: began.elapsed().as_secs_f64(), ..Run::default() };
        self.longest = nanoseconds.iter().max().map_or(0.0, |&longest| longest as f64 / 1e6);
        if writes(part) {
            run.set_latencies(nanoseconds);
        } else {
            run.set_latencies_of_others(nanoseconds);
        }
        let (peak, after) = (sampler.finish_sampled(), self.backend.stats());
        (run.rss_anon_kb, run.rss_file_kb, run.maxrss_kb) = (peak.anon_kb, peak.file_kb, peak.max_kb);
        run.bytes_written = after.bytes_written.saturating_sub(before.bytes_written);
        run.syncs = after.syncs.saturating_sub(before.syncs);
        self.runs.push((part, run));
        Ok(())
    }

    fn random_ref(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 20) % self.refs()
    }

    /// Makes all refs, and closes the store.
    fn make(&mut self) -> Result<()> {
        let steps = self.refs().div_ceil(MADE_TOGETHER);
        let mut step = 0;
        self.time("make", steps as usize, |many| {
            let numbers = step * MADE_TOGETHER..((step + 1) * MADE_TOGETHER).min(many.refs());
            let to = |number| RefMove { name: name(number), expected: Expected::Absent, to: Some(many.target(number)) };
            let moves: Vec<RefMove> = numbers.map(to).collect();
            many.backend.append(Batch::new(), &moves, many.durability)?;
            step += 1;
            Ok(())
        })?;
        let refs = self.refs();
        if let Some((_, run)) = self.runs.last_mut() {
            run.ops = refs;
        }
        self.backend.close()?;
        Ok(())
    }

    /// Opens the store again and again, reads a ref, and closes it. Returns the median time of openings in milliseconds.
    fn open_often(&mut self) -> Result<f64> {
        let mut took = Vec::new();
        self.time("open", OPENINGS, |many| {
            let number = many.random_ref();
            let started = Instant::now();
            let opened = open(&many.dir)?;
            let found = opened.get_ref(&name(number))?;
            took.push(started.elapsed().as_secs_f64() * 1e3);
            if oid(found.as_ref()) != oid(Some(&many.target(number))) {
                return Err(wrong(format!("{} leads to {found:?} after an opening", name(number))));
            }
            Ok(())
        })?;
        self.backend = Arc::new(open(&self.dir)?);
        took.sort_unstable_by(f64::total_cmp);
        Ok(took[took.len() / 2])
    }

    /// Moves one ref at a time, expecting what it holds. Returns how many bytes were written a move.
    fn move_some(&mut self, moves: usize) -> Result<f64> {
        self.time("move", moves, |many| {
            let number = many.random_ref();
            let expected = Expected::Is(many.target(number));
            many.held[number as usize] = ((u64::from(many.held[number as usize]) + 1) % TARGETS) as u8;
            let wanted = RefMove { name: name(number), expected, to: Some(many.target(number)) };
            many.backend.append(Batch::new(), &[wanted], many.durability)?;
            Ok(())
        })?;
        Ok(self.runs.last().map_or(0.0, |(_, run)| run.bytes_written as f64 / moves as f64))
    }

    fn look_up(&mut self, lookups: usize) -> Result<()> {
        self.time("get", lookups, |many| {
            let number = many.random_ref();
            let found = many.backend.get_ref(&name(number))?;
            match oid(found.as_ref()) == oid(Some(&many.target(number))) {
                true => Ok(()),
                false => Err(wrong(format!("{} leads to {found:?}", name(number)))),
            }
        })
    }

    fn list(&mut self) -> Result<()> {
        self.time("list-100", LISTINGS, |many| {
            let group = many.random_ref() / ALIKE;
            let found = many.backend.list_refs(&prefix(group))?.len() as u64;
            let expected = ALIKE.min(many.refs() - group * ALIKE);
            match found == expected {
                true => Ok(()),
                false => Err(wrong(format!("{found} refs below {}, and there should be {expected}", prefix(group)))),
            }
        })
    }

    /// Compares all refs with what they should hold, here and in the store opened anew; returns what is wrong.
    fn check(&self) -> Result<Option<String>> {
        let again = open(&self.dir)?;
        for backend in [&*self.backend, &again] {
            let listed = backend.list_refs("refs/heads/user-")?;
            if listed.len() as u64 != self.refs() {
                return Ok(Some(format!("{} refs, and there should be {}", listed.len(), self.refs())));
            }
            let wanted = (0..self.refs()).map(|number| (name(number), oid(Some(&self.target(number)))));
            let found = listed.iter().map(|(name, target)| (name.clone(), oid(Some(target))));
            if let Some((found, _)) = found.zip(wanted).find(|(found, wanted)| found != wanted) {
                return Ok(Some(format!("{} leads to something else", found.0)));
            }
        }
        Ok(None)
    }
}

fn oid(target: Option<&RefTarget>) -> Option<Oid> {
    match target {
        Some(RefTarget::Object(at)) => Some(at.oid),
        _ => None,
    }
}

fn wrong(reason: String) -> BenchError {
    BenchError::Wrong { scenario: "refs".to_owned(), reason }
}
