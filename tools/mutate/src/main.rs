//! Changes the engine in one place at a time and looks whether a test fails.
//!
//! `just mutate SEED [COUNT]` draws a sample of the places where an operator, a number, a condition, a call or a
//! returned value of `disk/`, `engine/`, `storage/` and `backend/` can be another, makes each change in a copy of the tree, and
//! runs the tests that are likeliest to notice. What survives is equivalent, or wants a test. `docs/testing.md` has a
//! section on it.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use clap::Parser;

mod scan;
mod sites;
mod tree;
mod trial;

use sites::Mutation;
use trial::{Bench, Outcome};

/// Change the engine in one place at a time, and see whether a test fails
#[derive(Debug, Parser)]
struct Args {
    /// Which sample; the same sources and the same seed give the same one
    seed: u64,
    /// How many mutations that compile
    #[arg(default_value_t = 60)]
    count: usize,
    /// How long the tests of one mutation run without it, in seconds of two cores
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Where the tree is copied to and built [default: target/mutate]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Only mutations of files with this in their name
    #[arg(long)]
    only: Option<String>,
    /// Only list the sample, without a look whether it compiles
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let dir = args.dir.clone().unwrap_or_else(|| root.join("target/mutate"));
    if args.list {
        for one in sample(&root, args)?.iter().take(args.count) {
            println!("{}:{} {}", one.file, one.line, one.what);
        }
        return Ok(());
    }
    let mut bench = Bench::new(&dir)?;
    tree::copy(&root, &bench.tree)?;
    let sample = sample(&bench.tree, args)?;
    eprintln!("building and testing {} without a mutation", bench.tree.display());
    for line in bench.calibrate(args.seconds as f64)? {
        eprintln!("  {line}");
    }
    let table = dir.join(format!("seed-{}.md", args.seed));
    let mut rows: Vec<(Mutation, Outcome)> = Vec::new();
    for one in sample {
        if rows.iter().filter(|(_, outcome)| *outcome != Outcome::DidNotCompile).count() >= args.count {
            break;
        }
        let began = Instant::now();
        let outcome = attempt(&bench, &one)?;
        eprintln!("{}:{} {}: {outcome:?} ({} s)", one.file, one.line, one.what, began.elapsed().as_secs());
        rows.push((one, outcome));
        // What there is can be read while it goes on.
        fs::write(&table, report(args.seed, &rows))?;
    }
    print!("{}", report(args.seed, &rows));
    Ok(())
}

/// Returns all mutations of a tree in the order of the seed.
fn sample(tree: &Path, args: &Args) -> io::Result<Vec<Mutation>> {
    let mut all = Vec::new();
    for file in tree::files(tree)? {
        if args.only.as_ref().is_none_or(|part| file.contains(part)) {
            all.extend(sites::mutations(&file, fs::read_to_string(tree.join(&file))?));
        }
    }
    eprintln!("{} mutations can be drawn", all.len());
    let mut state = args.seed;
    for end in (1..all.len()).rev() {
        all.swap(end, (next(&mut state) % (end as u64 + 1)) as usize);
    }
    Ok(all)
}

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Makes one change, builds and tests, and takes the change back.
fn attempt(bench: &Bench, one: &Mutation) -> io::Result<Outcome> {
    let file = bench.tree.join(&one.file);
    let text = fs::read_to_string(&file)?;
    fs::write(&file, [&text[..one.at.start], &one.new, &text[one.at.end..]].concat())?;
    let outcome = bench.run();
    fs::write(&file, text)?;
    outcome
}

/// Returns the table of what was tried.
fn report(seed: u64, rows: &[(Mutation, Outcome)]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| rows.iter().filter(|(_, outcome)| wanted(outcome)).count();
    let survived = count(|outcome| *outcome == Outcome::Survived);
    let caught = count(|outcome| matches!(outcome, Outcome::Caught(_)));
    let mut text = format!(
        "Seed {seed}: {} mutations, {caught} caught, {survived} survived; {} more did not compile.\n\n\
         | place | mutation | outcome |\n| --- | --- | --- |\n",
        caught + survived,
        rows.len() - caught - survived,
    );
    for (one, outcome) in rows {
        let outcome = match outcome {
            Outcome::Caught(by) => format!("caught: {by}"),
            Outcome::Survived => "**survived**".to_owned(),
            Outcome::DidNotCompile => continue,
        };
        let file = one.file.strip_prefix("crates/bristlecone/src/").unwrap_or(&one.file);
        let what = one.what.replace('|', "\\|");
        // Writing to a string does not fail.
        let _ = writeln!(text, "| {file}:{} | {what} | {outcome} |", one.line);
    }
    text
}
