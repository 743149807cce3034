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
const STAGES: [(&str, &[&str]); 8] = [
    ("bristlecone", &["disk::", "storage::", "backend::", "repo::open"]),
    ("it", &["engine::", "golden::"]),
    ("it", &["conformance::"]),
    ("interleavings", &[]),
    ("it", &["faults::"]),
    ("it", &["processes::", "copy::"]),
    ("it", &["crash::"]),
    ("it", &["flips::"]),
];

/// What a test may take in memory, in KiB, and write in one file, in blocks of 512 or 1,024 bytes.
const LIMITS: &str = "ulimit -v 16000000; ulimit -f 4000000; ulimit -c 0; exec \"$0\" \"$@\"";
/// How much longer than without a mutation a stage may take before it counts as one that hangs.
const PATIENCE: (u32, Duration) = (4, Duration::from_secs(15));
/// What a build may take.
const BUILD_MAX: Duration = Duration::from_secs(1800);

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
    // The stages that are run, and what each takes without a mutation.
    stages: Vec<(usize, Duration)>,
}

impl Bench {
    /// Returns a bench for the tree in `dir`.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        Ok(Self { tree: dir.join("tree"), dir, stages: Vec::new() })
    }

    /// Runs the stages without a mutation, as many as fit into `budget`, and returns what they are.
    ///
    /// # Errors
    /// If the tree does not compile or a test fails without any mutation.
    pub(crate) fn calibrate(&mut self, budget: Duration) -> io::Result<Vec<String>> {
        let Some(binaries) = self.build()? else {
            return Err(io::Error::other(format!("the tree does not compile: see {}", self.log("build").display())));
        };
        let (mut spent, mut said) = (Duration::ZERO, Vec::new());
        for (index, (binary, filters)) in STAGES.iter().enumerate() {
            let began = Instant::now();
            if let Some(why) = self.stage(&binaries, index, Duration::from_secs(600))? {
                return Err(io::Error::other(format!("without any mutation: {why}")));
            }
            let took = began.elapsed();
            let fits = spent + took <= budget || index == 0;
            let verb = if fits { "run" } else { "left out, as it does not fit" };
            said.push(format!("{binary} {}: {:.1} s, {verb}", filters.join(" "), took.as_secs_f64()));
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
            if let Some(why) = self.stage(&binaries, *index, *usual * PATIENCE.0 + PATIENCE.1)? {
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
    /// Without debug information and hardly optimised, to be quick; what is not mutated is optimised as ever.
    fn build(&self) -> io::Result<Option<BTreeMap<String, PathBuf>>> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--no-run", "--quiet", "--message-format=json", "-p", "bristlecone", "--lib"]);
        cargo.args(["--test", "it", "--test", "interleavings"]);
        cargo.args(["--config", "profile.test.package.bristlecone-core.opt-level=3"]);
        cargo.env("CARGO_TARGET_DIR", self.dir.join("target")).current_dir(&self.tree);
        for (name, value) in [("OPT_LEVEL", "1"), ("DEBUG", "false"), ("INCREMENTAL", "true")] {
            cargo.env(format!("CARGO_PROFILE_TEST_{name}"), value);
        }
        cargo.env_remove("RUSTFLAGS");
        let (out, log) = (self.log("build.json"), self.log("build"));
        cargo.stdout(File::create(&out)?).stderr(File::create(&log)?);
        match limited(cargo, BUILD_MAX)? {
            Some(status) if status.success() => {}
            _ => return Ok(None),
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

    /// Runs a stage and returns what failed.
    fn stage(&self, binaries: &BTreeMap<String, PathBuf>, index: usize, max: Duration) -> io::Result<Option<String>> {
        let (name, filters) = STAGES[index];
        let binary = binaries.get(name).ok_or_else(|| io::Error::other(format!("no tests by the name of {name}")))?;
        let temporary = self.dir.join("tmp");
        fs::create_dir_all(&temporary)?;
        let log = self.log("tests");
        let out = File::create(&log)?;
        let mut tests = Command::new("sh");
        tests.args(["-c", LIMITS]).arg(binary).args(filters).args(["--test-threads", "2"]);
        tests.current_dir(self.tree.join("crates/bristlecone")).env("TMPDIR", &temporary).env("RUST_BACKTRACE", "0");
        tests.stderr(out.try_clone()?).stdout(out);
        let ended = limited(tests, max)?;
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
            None => Some(format!("{name} {}: did not end in {} s", filters.join(" "), max.as_secs())),
        })
    }
}

/// Runs a command, and ends it and what it started after `max`; `None` then.
fn limited(mut command: Command, max: Duration) -> io::Result<Option<ExitStatus>> {
    let began = Instant::now();
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let mut pause = Duration::from_millis(5);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if began.elapsed() > max {
            break None;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(200));
    };
    // Also what a test has started and left behind.
    let _ = kill_process_group(group, Signal::KILL);
    child.wait()?;
    Ok(status)
}
