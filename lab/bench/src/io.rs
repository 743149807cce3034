//! `cone bench io`: raw reads, the floor under every read of a store.
//!
//! **The idea.** The job of those who measure disks with fio (short random reads of one file, by one thread) is done by
//! positional reads and from a memory map, with fio's rules for what is read (`reads`), in fio's figures (`figures`) and,
//! where fio is installed, by fio itself beside ours. A recording of what a store read is a job for fio alone.
//!
//! `docs/bench.md`, "Raw reads", says what the figures mean.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Map, Value, json};

mod figures;
mod fio;
mod job;
mod reads;
mod run;

use self::{
    figures::{Figures, ratios},
    job::{Engine, ReadJob, parse_size, parse_sizes},
};
use crate::{
    BenchError,
    error::Result,
    limits::clock_cost,
    machine::Machine,
    report::{self, Row, json},
    scratch::{self, Scratch},
    workload::write_noise,
};

/// Reads short pieces of a file, by system calls and from a memory map.
#[derive(Args, Clone, Debug)]
pub struct IoArgs {
    /// The file to read; without it one is made, of bytes that do not compress, and removed again
    #[arg(long, value_name = "FILE", conflicts_with = "job")]
    pub file: Option<PathBuf>,
    /// The size of the file that is made
    #[arg(long, value_name = "SIZE", default_value = "3.7G", value_parser = parse_size, conflicts_with = "file")]
    pub file_bytes: u64,
    /// Keep the file that is made
    #[arg(long)]
    pub keep: bool,
    /// How much of the file is read, from its start
    #[arg(long, value_name = "SIZE", default_value = "20M", value_parser = parse_size, conflicts_with = "job")]
    pub span: u64,
    /// The sizes of reads: multiples of the smallest
    #[arg(long, value_name = "MIN-MAX", default_value = "50-300", conflicts_with = "job")]
    pub size: String,
    /// Sizes are any number of bytes between the two
    #[arg(long, conflicts_with = "job")]
    pub unaligned: bool,
    /// Places may repeat; otherwise every byte of the span is read once in a loop
    #[arg(long, conflicts_with = "job")]
    pub norandommap: bool,
    /// Read from the start to the end, not at random places
    #[arg(long, conflicts_with = "job")]
    pub sequential: bool,
    /// How often the whole span is read [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: Option<u32>,
    /// Read for S seconds, however many loops that makes
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "loops")]
    pub seconds: Option<u32>,
    /// Threads, each of which does the whole job [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// How to read: pread (fio's psync) and mmap [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Engine::parse)]
    engine: Vec<Engine>,
    /// Where the random places start from
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "job")]
    pub seed: u64,
    /// Drop the file from the page cache before every loop
    #[arg(long)]
    pub cold: bool,
    /// Do this job: one of fio's job files, or a recording of reads, which fio does alone
    #[arg(long, value_name = "FILE")]
    pub job: Option<PathBuf>,
    /// Also write the job as a job file for fio
    #[arg(long, value_name = "FILE")]
    pub export: Option<PathBuf>,
    /// Do not run fio beside
    #[arg(long)]
    pub no_fio: bool,
    /// Where the file is made; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Merge the rows into this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Measures raw reads. Text, or with `json` a document, goes to standard output, progress to standard error.
///
/// # Errors
/// [`BenchError::Usage`] for options and jobs that make no sense; [`BenchError::Wrong`] after everything was reported, if
/// the engines did not read the same bytes; [`BenchError::Io`].
pub fn run(args: &IoArgs, json: bool) -> Result<()> {
    // A broken file should not cost the minutes of a run.
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let above = scratch::place(args.dir.as_deref())?;
    let scratch = Scratch::for_reads(&above)?;
    let mut job = match &args.job {
        Some(file) => job_of_file(file)?,
        None => random_job(args, &above, &scratch)?,
    };
    // fio's map engine does not run recordings.
    job.engines = match job.recorded {
        true => vec![Engine::Psync],
        false if !args.engine.is_empty() => args.engine.clone(),
        false if job.engines.is_empty() => Engine::ALL.to_vec(),
        false => job.engines,
    };
    job.cold |= args.cold;
    job.loops = args.loops.map_or(job.loops, u64::from);
    job.threads = args.threads.map_or(job.threads, usize::from);
    job.seconds = args.seconds.map_or(job.seconds, |seconds| Some(seconds.into()));
    if let Some(file) = &args.export {
        fs::write(file, job.to_fio(&job.engines)).map_err(BenchError::io(file))?;
    }
    let machine = Machine::here(job.file.parent().unwrap_or(&above));
    let (figures, remarks) = measure(args, &job, &scratch, &machine)?;
    let checked = check(&figures);
    if let (Err(_), Some(file)) = (&checked, &args.json) {
        note_wrong(file, &figures, &job.kind(), &machine)?;
    }
    let text = if json { document(&job, &figures, &remarks, &machine) } else { text(&figures, &remarks) };
    let printed = report::print(&text);
    checked.and(printed)
}

fn job_of_file(file: &Path) -> Result<ReadJob> {
    let mut start = Vec::new();
    File::open(file).and_then(|file| file.take(12).read_to_end(&mut start)).map_err(BenchError::io(file))?;
    // The first words of fio's iolog.
    let mut job = if start == b"fio version " {
        ReadJob { file: file.to_owned(), recorded: true, ..ReadJob::once() }
    } else {
        ReadJob::from_fio(file)?
    };
    // fio, and the map, find it from any folder.
    job.file = std::path::absolute(&job.file).map_err(BenchError::io(&job.file))?;
    if !job.recorded {
        check_file(&job)?;
    }
    Ok(job)
}

fn random_job(args: &IoArgs, above: &Path, scratch: &Scratch) -> Result<ReadJob> {
    let IoArgs { span, unaligned, norandommap, sequential, seed, .. } = *args;
    let sizes = parse_sizes(&args.size).map_err(BenchError::usage)?;
    let mut job = ReadJob { span, sizes, unaligned, norandommap, sequential, seed, loops: 100, ..ReadJob::once() };
    let file = match &args.file {
        Some(file) => file.clone(),
        None => {
            // Said before a file of gigabytes is made.
            check_span(&job, args.file_bytes)?;
            make_file(args, above, scratch, write_noise)?
        }
    };
    job.file = std::path::absolute(&file).map_err(BenchError::io(&file))?;
    check_file(&job)?;
    Ok(job)
}

/// Makes the file by `write`, and returns it. One that is kept goes to its place when it is whole: of a run that fails or is
/// interrupted nothing stays.
fn make_file(
    args: &IoArgs,
    above: &Path,
    scratch: &Scratch,
    write: impl FnOnce(&Path, u64) -> io::Result<()>,
) -> Result<PathBuf> {
    let kept = above.join(format!("bristlecone-io-{}.bin", std::process::id()));
    if args.keep && kept.exists() {
        return Err(BenchError::usage(format!("{0} is there: read it with --file {0}, or remove it", kept.display())));
    }
    let made = scratch.dir.join("data.bin");
    let file = if args.keep { &kept } else { &made };
    say!("making {} of {} MiB …", file.display(), args.file_bytes >> 20);
    write(&made, args.file_bytes).map_err(BenchError::io(&made))?;
    if !args.keep {
        return Ok(made);
    }
    fs::rename(&made, &kept).map_err(BenchError::io(&kept))?;
    Ok(kept)
}

fn check_file(job: &ReadJob) -> Result<()> {
    let metadata = fs::metadata(&job.file).map_err(BenchError::io(&job.file))?;
    if !metadata.is_file() {
        return Err(BenchError::usage(format!("{} is no plain file", job.file.display())));
    }
    check_span(job, metadata.len().saturating_sub(job.offset))
}

fn check_span(job: &ReadJob, bytes: u64) -> Result<()> {
    let (span, max, file) = (job.span, job.sizes.1, job.file.display());
    if span < max {
        return Err(BenchError::usage(format!("the span of {span} bytes is shorter than a read of {max}")));
    }
    if span > bytes {
        return Err(BenchError::usage(format!("the file {file} has {bytes} bytes, less than the span of {span}")));
    }
    Ok(())
}

/// Returns what was measured, and why something was not.
fn measure(args: &IoArgs, job: &ReadJob, scratch: &Scratch, machine: &Machine) -> Result<(Vec<Figures>, Vec<String>)> {
    let version = if args.no_fio { None } else { fio::version() };
    let (mut figures, mut remarks) = (Vec::new(), Vec::new());
    if version.is_none() && !args.no_fio {
        remarks.push("fio is not installed, so nothing stands beside: apt-get install fio".into());
    }
    if job.recorded {
        remarks.push("a recording is done by fio alone, by psync".into());
    }
    let mut take = |one: Figures| {
        let merged = args.json.as_deref().map(|file| json::merge(file, &one.rows(&job.kind(), machine)));
        figures.push(one);
        merged.unwrap_or(Ok(()))
    };
    for &engine in &job.engines {
        if !job.recorded {
            say!("reading by {} …", engine.name());
            let (timed, untimed) = run::measure(job, engine)?;
            take(Figures::ours(engine.name(), job.threads, &timed, untimed.as_ref()))?;
        }
        let Some(version) = &version else { continue };
        say!("reading by {} of {version} …", engine.name());
        match fio::measure(job, engine, version, &scratch.dir) {
            Ok(one) => take(one)?,
            // What we read ourselves is still worth its lines.
            Err(error) => remarks.push(error.to_string()),
        }
    }
    Ok((figures, remarks))
}

fn text(figures: &[Figures], remarks: &[String]) -> String {
    let clock_ns = clock_cost();
    let mut text: String = figures.iter().map(|one| one.text(clock_ns) + "\n").collect();
    if check(figures).is_err() {
        text += &format!("WRONG: {DIFFERENT}\n");
    }
    for one in right_ratios(figures) {
        text += &format!("IOPS, ours / fio: {one}\n");
    }
    remarks.iter().for_each(|remark| text += &format!("{remark}\n"));
    text
}

fn document(job: &ReadJob, figures: &[Figures], remarks: &[String], machine: &Machine) -> String {
    let options: Map<String, Value> =
        job.options().into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
    let Machine { cpu, cores, kernel, filesystem, date, revision } = machine;
    let mut document = json!({
        "job": options, "clock_ns": clock_cost(),
        "figures": figures, "ratios": right_ratios(figures), "remarks": remarks,
        "cpu": cpu, "cores": cores, "kernel": kernel, "filesystem": filesystem, "date": date, "revision": revision,
    });
    if check(figures).is_err() {
        document["wrong"] = DIFFERENT.into();
    }
    format!("{document:#}\n")
}

/// Returns the ratios; none where our engines did not read the same.
fn right_ratios(figures: &[Figures]) -> Vec<Value> {
    if check(figures).is_ok() { ratios(figures) } else { Vec::new() }
}

/// Checks that engines which did the same number of reads read the same bytes.
fn check(figures: &[Figures]) -> Result<()> {
    let ours: Vec<&Figures> = figures.iter().filter(|one| one.checksum.is_some()).collect();
    let differ =
        |two: &[&Figures]| two[0].read.total_ios == two[1].read.total_ios && two[0].checksum != two[1].checksum;
    if ours.windows(2).any(differ) {
        return Err(BenchError::Wrong { scenario: "io".into(), reason: DIFFERENT.into() });
    }
    Ok(())
}

/// Notes in a file of results that our engines did not read the same: nobody knows which of them is wrong.
fn note_wrong(file: &Path, figures: &[Figures], kind: &str, machine: &Machine) -> Result<()> {
    let ours = figures.iter().filter(|one| one.checksum.is_some()).flat_map(|one| one.rows(kind, machine));
    let wrong: Vec<Row> = ours.map(|row| Row { wrong: Some(DIFFERENT.into()), ..row }).collect();
    json::merge(file, &wrong)
}

const DIFFERENT: &str = "the engines read different bytes";

#[cfg(test)]
mod tests;
