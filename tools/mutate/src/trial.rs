//! Building a tree and running the tests that are likeliest to catch a mutation of the engine.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};

/// Binaries of tests of the package `bristlecone`, and which of their tests are run, the quickest to catch first.
const STAGES: [(&str, &[&str]); 9] = [
    ("bristlecone", &["disk::", "engine::", "storage::", "backend::", "repo::open"]),
    ("it", &["engine::", "golden::"]),
    ("it", &["exclusion::", "losses::", "indexes::", "foreign::", "files::"]),
    ("it", &["conformance::"]),
    ("interleavings", &[]),
    ("it", &["faults::"]),
    ("it", &["processes::", "copy::"]),
    ("it", &["crash::"]),
    ("it", &["flips::"]),
];

/// Runs a program that may take so much memory, in KiB, write so much in one file, in blocks of 512 or 1,024 bytes, and
/// compute for so many seconds.
const LIMITS: &str = "ulimit -v 16000000; ulimit -f 4000000; ulimit -c 0; ulimit -t $0; exec \"$@\"";
/// How often as long as without a mutation a stage may compute, and how many seconds more, before it counts as one that
/// does not end.
const PATIENCE: (f64, f64) = (4.0, 10.0);
/// How long all threads may sleep before they count as waiting for each other.
const ASLEEP_MAX: Duration = Duration::from_secs(30);
/// How many tests run at a time.
const THREADS: f64 = 2.0;

/// What became of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A test failed, or did not end.
    Caught(String),
    Survived,
    DidNotCompile,
}

/// A tree that is built and tested.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) tree: PathBuf,
    dir: PathBuf,
    // The stages that are run, and how many seconds each computes without a mutation.
    stages: Vec<(usize, f64)>,
}

impl Bench {
    /// Returns a bench for the tree in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        Ok(Self { tree: dir.join("tree"), dir, stages: Vec::new() })
    }

    /// Runs the stages without a mutation, as many as fit into `seconds` of both cores, and returns what they are.
    ///
    /// # Errors
    /// If the tree does not compile or a test fails without any mutation.
    pub(crate) fn calibrate(&mut self, seconds: f64) -> io::Result<Vec<String>> {
        let Some(binaries) = self.build()? else {
            return Err(io::Error::other(format!("the tree does not compile: see {}", self.log("build").display())));
        };
        let (mut spent, mut said) = (0.0, Vec::new());
        for (index, (binary, filters)) in STAGES.iter().enumerate() {
            // A stage is ended once it has computed for longer than is left; the first may take what it needs.
            let rest = if index == 0 { 600.0 } else { THREADS * seconds - spent };
            let before = computed()?;
            let failed = if rest < 1.0 { None } else { self.stage(&binaries, index, rest)? };
            let took = computed()? - before;
            let fits = rest >= 1.0 && took < rest - 1.0;
            if let (Some(why), true) = (failed, fits) {
                return Err(io::Error::other(format!(
                    "without any mutation: {why}: see {}",
                    self.log("tests").display()
                )));
            }
            let verb = if fits { "run" } else { "left out, as it does not fit" };
            said.push(format!("{binary} {}: {took:.1} s of a core, {verb}", filters.join(" ")));
            if fits {
                spent += took;
                self.stages.push((index, took));
            }
        }
        Ok(said)
    }

    /// Builds and tests the tree as it is.
    pub(crate) fn run(&self) -> io::Result<Outcome> {
        let Some(binaries) = self.build()? else { return Ok(Outcome::DidNotCompile) };
        for (index, usual) in &self.stages {
            if let Some(why) = self.stage(&binaries, *index, usual * PATIENCE.0 + PATIENCE.1)? {
                return Ok(Outcome::Caught(why));
            }
        }
        Ok(Outcome::Survived)
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Builds the binaries of the tests; `None` if that fails.
    ///
    /// Without debug information and not optimised, to be quick; what is not mutated is optimised as ever.
    fn build(&self) -> io::Result<Option<BTreeMap<String, PathBuf>>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--no-run", "--quiet", "--message-format=json", "-p", "bristlecone", "--lib"]);
        cargo.args(["--test", "it", "--test", "interleavings"]);
        cargo.args(["--config", "profile.test.package.bristlecone-core.opt-level=3"]);
        cargo.env("CARGO_TARGET_DIR", self.dir.join("target")).current_dir(&self.tree);
        for (name, value) in [("OPT_LEVEL", "0"), ("DEBUG", "false"), ("INCREMENTAL", "true")] {
            cargo.env(format!("CARGO_PROFILE_TEST_{name}"), value);
        }
        cargo.env_remove("RUSTFLAGS");
        let (out, log) = (self.log("build.json"), self.log("build"));
        cargo.stdout(File::create(&out)?).stderr(File::create(&log)?);
        if !cargo.stdin(Stdio::null()).status()?.success() {
            return Ok(None);
        }
        let mut found = BTreeMap::new();
        for line in fs::read_to_string(&out)?.lines() {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            if let (Some(name), Some(file)) = (message["target"]["name"].as_str(), message["executable"].as_str()) {
                found.insert(name.to_owned(), PathBuf::from(file));
            }
        }
        Ok(Some(found))
    }

    /// Runs a stage, which may compute for `seconds`, and returns what failed.
    fn stage(&self, binaries: &BTreeMap<String, PathBuf>, index: usize, seconds: f64) -> io::Result<Option<String>> {
        let (name, filters) = STAGES[index];
        let binary = binaries.get(name).ok_or_else(|| io::Error::other(format!("no tests by the name of {name}")))?;
        let temporary = self.dir.join("tmp");
        fs::create_dir_all(&temporary)?;
        let log = self.log("tests");
        let out = File::create(&log)?;
        let mut tests = Command::new("sh");
        tests.args(["-c", LIMITS]).arg(format!("{}", seconds.ceil())).arg(binary).args(filters);
        tests.args(["--test-threads", &THREADS.to_string()]);
        tests.current_dir(self.tree.join("crates/bristlecone")).env("TMPDIR", &temporary).env("RUST_BACKTRACE", "0");
        tests.stderr(out.try_clone()?).stdout(out);
        let ended = watched(tests)?;
        fs::remove_dir_all(&temporary)?;
        let said = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let failed = said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        let failed: Vec<&str> = failed.collect();
        let more = failed.len().saturating_sub(1);
        Ok(match ended {
            Some(status) if status.success() => None,
            _ if more > 0 => Some(format!("{} and {more} more", failed[0])),
            _ if !failed.is_empty() => Some(failed[0].to_owned()),
            Some(status) => Some(format!("{name} {}: {status}", filters.join(" "))),
            None => Some(format!("{name} {}: all threads slept for {} s", filters.join(" "), ASLEEP_MAX.as_secs())),
        })
    }
}

/// Runs a command in a process group of its own, and ends it where nothing in it has run for long; `None` then. However
/// busy the machine is: a thread that waits for a core is not asleep.
fn watched(mut command: Command) -> io::Result<Option<ExitStatus>> {
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let (mut pause, mut awake) = (Duration::from_millis(5), Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if runs(group) {
            awake = Instant::now();
        } else if awake.elapsed() > ASLEEP_MAX {
            break None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(250));
    };
    // Also what a test has started and left behind.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    Ok(status)
}

/// Whether a thread of a process group runs, wants to, waits for a disk or was stopped; also where that cannot be known.
fn runs(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return true };
    let stat = |path: &Path| {
        let text = fs::read_to_string(path.join("stat")).ok()?;
        // State, parent, group, after the name in parentheses.
        let (_, fields) = text.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        Some((fields.next()?.to_owned(), fields.nth(1)?.parse::<i32>().ok()?))
    };
    let ours = processes
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| stat(path).is_some_and(|(_, of)| of == group.as_raw_nonzero().get()));
    ours.flat_map(|path| fs::read_dir(path.join("task")).into_iter().flatten().flatten())
        .any(|task| stat(&task.path()).is_some_and(|(state, _)| matches!(&state[..], "R" | "D" | "T" | "t")))
}

/// Returns how many seconds the processes that have ended have computed.
fn computed() -> io::Result<f64> {
    let text = fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = text.rsplit_once(") ").map_or("", |(_, fields)| fields).split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    // User and system time of children, after the state: fields 16 and 17 of the line, counted from 1.
    Ok((ticks(13) + ticks(14)) / rustix::param::clock_ticks_per_second() as f64)
}
