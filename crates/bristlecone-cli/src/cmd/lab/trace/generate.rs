//! `cone trace generate`: a trace made up in the proportions of real ones.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use bristlecone_tezos::{GenerateError, GenerateOptions, Generator, RowKind, replay::RowCounts};
use clap::Args;
use serde_json::Value;

use crate::{
    cmd::Context,
    ending,
    failure::{Failure, Result},
    newfile::NewFile,
    output::{fields, put_text, say},
    progress::Progress,
    text::{self, show},
};

/// Make a trace up, in the proportions of those that Tezos nodes recorded
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone trace generate --commits 10310 --out made.repr            4 million rows, 290 MB
  cone trace generate --commits 100000 --seed 7 --out long.repr  46 million rows; its beginning is that of every
                                                                 trace of seed 7

The commits are made in a store of their own, whose folder goes at the end, so all answers and hashes are right. It
takes some GB at most, however long the trace is. The file appears under its name when it is whole.")]
pub(super) struct GenerateArgs {
    /// How many commits; the second is the largest, with 330,000 rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    commits: u64,
    /// What everything follows from
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
    /// Where to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Where to put the folder of the store, for as long as it takes [default: beside the file]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: GenerateArgs, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    // A signal is heard between two commits, and takes away the file and the store that were begun.
    let _held = ending::hold();
    let (new, file) = NewFile::create(&args.out, args.force)?;
    let beside = args.out.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let dir = args.dir.clone().unwrap_or_else(|| beside.to_owned());
    let options = GenerateOptions::default().seed(args.seed).dir(dir);
    let mut generator = Generator::new(&options, file).map_err(failure)?;
    let mut progress = Progress::new("commits", Some(args.commits));
    for commit in 0..args.commits {
        generator.commit().map_err(failure)?;
        progress.tick_with(|seconds| line(commit + 1, args.commits, generator.counts().total(), seconds));
        if let Some(signal) = ending::asked() {
            return Err(Failure::stopped_by(signal, "nothing was written"));
        }
    }
    drop(progress);
    let (counts, bytes) = (*generator.counts(), generator.bytes());
    new.finish(&generator.finish().map_err(failure)?)?;
    report(&args, context, &counts, bytes, began.elapsed().as_secs_f64())
}

/// Returns the line that says how far it is.
fn line(commits: u64, of: u64, rows: u64, seconds: f64) -> String {
    // Later commits have more rows; the guess is a little low.
    let left = (of - commits) as f64 * seconds / commits as f64;
    format!("commits {commits} of {of}, {rows} rows, {:.0} rows/s, {left:.0} s left", rows as f64 / seconds)
}

fn report(args: &GenerateArgs, context: &mut Context, counts: &RowCounts, bytes: u64, seconds: f64) -> Result<()> {
    let (rows, rate) = (counts.total(), counts.total() as f64 / seconds);
    say!("{} in {seconds:.1} s: {rate:.0} rows/s", text::count(rows, "row", "rows"));
    context.out.made(format!(
        "wrote {}, {} and {} to {}",
        text::count(args.commits, "commit", "commits"),
        text::count(rows, "row", "rows"),
        text::bytes(bytes),
        show(&args.out),
    ))?;
    for kind in RowKind::ALL {
        let each = counts.of(kind) as f64 / args.commits as f64;
        context.out.line(format_args!("{kind:<8}  {:>12}  {each:>10.3} a commit", counts.of(kind)))?;
    }
    let kinds = RowKind::ALL.map(|kind| Value::Object(fields! { "kind": kind.name(), "rows": counts.of(kind) }));
    let mut all = fields! {};
    put_text(&mut all, "out", args.out.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "seed": args.seed,
        "commits": args.commits,
        "rows": rows,
        "bytes": bytes,
        "seconds": seconds,
        "kinds": kinds.to_vec(),
    });
    context.out.document(all)
}

fn failure(error: GenerateError) -> Failure {
    match error {
        GenerateError::Trace(error) => error.into(),
        GenerateError::Store(error) => Failure::from(error).about("the store that the trace is made over failed"),
        GenerateError::Scratch { dir, source } => Failure::file("make or remove", show(&dir), &source),
        error => Failure::failed(bristlecone::report(&error)),
    }
}
