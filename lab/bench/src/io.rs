//! `cone bench io`: raw reads, the floor under every read of a store.
//!
//! **The idea.** The job of those who measure disks with fio (short random reads of one file, by one thread) is done
//! by positional reads and from a memory map, with fio's rules for what is read (`pattern`), in fio's figures
//! (`report`) and, where fio is installed, by fio itself beside ours. What a store really reads can be
//! recorded ([`Recorder`](crate::replay::Recorder)) and run in place of random places; fio runs such recordings too.
//!
//! `docs/bench.md`, "Raw reads", says what the figures mean.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use clap::Args;
use serde_json::{Value, json};

mod file;
mod fio;
mod iolog;
mod job;
mod latency;
mod pattern;
mod report;
mod run;
mod size;

pub(crate) use self::iolog::{Recording, VERSION_2};
use self::{
    file::MadeFile,
    job::{Engine, Job, Pattern, Source},
    report::{Figures, ratios, ratios_text},
    run::Files,
    size::{Sizes, parse_size, parse_sizes},
};
use crate::{
    BenchError,
    error::Result,
    machine::{Machine, filesystem, is_memory},
    report::{Row, json},
};

/// Reads short pieces at random places of a file, by system calls and from a memory map.
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
    /// How often the whole span is read [default: 100; of a recording 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub loops: Option<u32>,
    /// Read for so long, however many loops that makes
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "loops")]
    pub seconds: Option<u32>,
    /// Threads, each of which does the whole job [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// How to read: pread (fio's psync) and mmap [default: both]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub engine: Vec<String>,
    /// Where the random places start from
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "job")]
    pub seed: u64,
    /// Drop the file from the page cache before every loop
    #[arg(long)]
    pub cold: bool,
    /// Do this job: one of fio's job files, or a recording of reads
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
/// [`BenchError::Usage`] for options, jobs and recordings that make no sense; [`BenchError::Wrong`] after everything
/// was reported, if the engines did not read the same bytes; [`BenchError::Io`].
pub fn run(args: &IoArgs, json: bool) -> Result<()> {
    // A broken file should not cost the minutes of a run.
    if let Some(file) = &args.json {
        json::read(file)?;
    }
    let dir = args.dir.clone().unwrap_or_else(crate::scratch::default_dir);
    fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
    let (job, made) = prepare(args, &dir)?;
    let files = files(&job)?;
    if let Some(file) = &args.export {
        fs::write(file, job.to_fio(&job.engines)).map_err(BenchError::io(file))?;
    }
    let place = files.paths.first().and_then(|file| file.parent()).unwrap_or(&dir);
    if job.cold && filesystem(place).is_some_and(|kind| is_memory(&kind)) {
        say!("warning: {} is memory: nothing read there is ever cold", place.display());
    }
    let outcome = measure(args, &job, &files, &dir)?;
    if let Some(made) = made.filter(|made| made.keep) {
        say!("kept {}: --file reads it again", made.path.display());
    }
    let machine = Machine::here(place);
    if let Some(file) = &args.json {
        let rows: Vec<Row> = outcome.figures.iter().flat_map(|one| one.rows(job.kind(), &machine)).collect();
        json::merge(file, &rows)?;
    }
    let text = if json { format!("{:#}\n", outcome.document(&job, &machine)) } else { outcome.text() };
    // Whoever closes the pipe early has seen enough.
    let _ = std::io::stdout().write_all(text.as_bytes());
    outcome.check()
}

/// Returns the job that the options ask for, with the file that was made for it.
fn prepare(args: &IoArgs, dir: &Path) -> Result<(Job, Option<MadeFile>)> {
    let mut engines = Vec::new();
    for name in &args.engine {
        let engine = Engine::parse(name).map_err(BenchError::usage)?;
        if !engines.contains(&engine) {
            engines.push(engine);
        }
    }
    let (mut job, made) = match &args.job {
        Some(file) => (job_of_file(file)?, None),
        None => random_job(args, dir)?,
    };
    if !engines.is_empty() {
        job.engines = engines;
    } else if job.engines.is_empty() {
        job.engines = Engine::ALL.to_vec();
    }
    job.cold |= args.cold;
    job.loops = args.loops.map_or(job.loops, u64::from);
    job.threads = args.threads.map_or(job.threads, usize::from);
    if let Some(seconds) = args.seconds {
        (job.seconds, job.time_based) = (Some(seconds.into()), true);
    }
    Ok((job, made))
}

fn job_of_file(file: &Path) -> Result<Job> {
    if !iolog::is_recording(file)? {
        let mut job = Job::from_fio(file)?;
        match &mut job.source {
            Source::Random(Pattern { file, .. }) | Source::Recorded(file) => *file = absolute(file)?,
        }
        return Ok(job);
    }
    Ok(Job {
        source: Source::Recorded(absolute(file)?),
        engines: Vec::new(),
        loops: 1,
        seconds: None,
        time_based: false,
        threads: 1,
        seed: 1,
        cold: false,
    })
}

fn random_job(args: &IoArgs, dir: &Path) -> Result<(Job, Option<MadeFile>)> {
    let sizes = parse_sizes(&args.size).map_err(BenchError::usage)?;
    let made = if args.file.is_none() { Some(make_file(args, sizes, dir)?) } else { None };
    let file = args.file.as_ref().or(made.as_ref().map(|made| &made.path)).expect("there is a file, or one was made");
    let pattern = Pattern {
        file: absolute(file)?,
        offset: 0,
        span: args.span,
        sizes,
        unaligned: args.unaligned,
        map: !args.norandommap,
    };
    let job = Job {
        source: Source::Random(pattern),
        engines: Vec::new(),
        loops: 100,
        seconds: None,
        time_based: false,
        threads: 1,
        seed: args.seed,
        cold: false,
    };
    Ok((job, made))
}

/// Names a file so that fio, and who maps it, find it from any folder.
fn absolute(file: &Path) -> Result<PathBuf> {
    std::path::absolute(file).map_err(BenchError::io(file))
}

fn make_file(args: &IoArgs, sizes: Sizes, dir: &Path) -> Result<MadeFile> {
    // Said before a file of gigabytes is made.
    check_span(args.span, sizes, args.file_bytes, "the file that is made")?;
    let path = dir.join(format!("bristlecone-io-{}.bin", std::process::id()));
    let mut shown = 0;
    let progress = |share: f64| {
        let tenth = (share * 10.0) as u32;
        if tenth > shown {
            shown = tenth;
            say_part!("{}0 % ", tenth);
        }
    };
    say_part!("making {} of {}B … ", path.display(), size::short(args.file_bytes, 4, true));
    let made = MadeFile::create(path, args.file_bytes, args.keep, progress);
    say!("");
    made
}

fn check_span(span: u64, sizes: Sizes, file_bytes: u64, file: &str) -> Result<()> {
    if span < sizes.max {
        return Err(BenchError::usage(format!("the span of {span} bytes is shorter than a read of {}", sizes.max)));
    }
    if span > file_bytes {
        return Err(BenchError::usage(format!(
            "{file} has {file_bytes} bytes, less than the span of {span}: use --span"
        )));
    }
    Ok(())
}

/// Looks at what a job reads, and checks that it can be read.
fn files(job: &Job) -> Result<Files> {
    match &job.source {
        Source::Random(pattern) => {
            let name = pattern.file.display().to_string();
            let metadata = fs::metadata(&pattern.file).map_err(BenchError::io(&pattern.file))?;
            if !metadata.is_file() {
                return Err(BenchError::usage(format!("{name} is no plain file")));
            }
            check_span(pattern.span, pattern.sizes, metadata.len().saturating_sub(pattern.offset), &name)?;
            Ok(Files { paths: vec![pattern.file.clone()], bytes_max: pattern.sizes.max })
        }
        Source::Recorded(file) => {
            let summary = Recording::open(file)?.summary()?;
            say!(
                "{}: {} reads of {} to {} bytes, {}B in all, of {} files",
                file.display(),
                summary.reads,
                summary.bytes_min,
                summary.bytes_max,
                size::short(summary.bytes, 4, true),
                summary.files.len()
            );
            Ok(Files { paths: summary.files, bytes_max: summary.bytes_max })
        }
    }
}

/// What was measured.
struct Outcome {
    figures: Vec<Figures>,
    /// Why fio does not stand beside, where it does not.
    remarks: Vec<String>,
    clock_ns: f64,
}

fn measure(args: &IoArgs, job: &Job, files: &Files, dir: &Path) -> Result<Outcome> {
    let version = if args.no_fio { None } else { fio::version() };
    let mut outcome = Outcome { figures: Vec::new(), remarks: Vec::new(), clock_ns: run::clock_cost() };
    if version.is_none() && !args.no_fio {
        outcome.remarks.push("fio is not installed, so nothing stands beside: apt-get install fio".into());
    }
    for &engine in &job.engines {
        say!("reading by {} …", engine.name());
        let measured = run::measure(job, files, engine)?;
        outcome.figures.push(Figures::ours(engine, job.threads, &measured));
        let Some(version) = &version else { continue };
        if let Some(why) = not_for_fio(job, engine) {
            outcome.remarks.push(why.into());
            continue;
        }
        say!("reading by {} of {version} …", engine.name());
        match fio::measure(job, engine, version, dir) {
            Ok(figures) => outcome.figures.push(figures),
            // What we read ourselves is still worth its lines.
            Err(error) => outcome.remarks.push(error.to_string()),
        }
    }
    Ok(outcome)
}

/// Returns why fio cannot do a job by an engine, if it cannot.
fn not_for_fio(job: &Job, engine: Engine) -> Option<&'static str> {
    match (&job.source, engine) {
        (Source::Random(_), _) => None,
        (Source::Recorded(_), Engine::Mmap) => Some("fio runs recordings by psync alone, one loop, one thread"),
        (Source::Recorded(_), Engine::Psync) if job.threads > 1 => Some("fio runs recordings by one thread"),
        (Source::Recorded(_), Engine::Psync) => None,
    }
}

impl Outcome {
    fn text(&self) -> String {
        let blocks: Vec<String> = self.figures.iter().map(|one| one.text(self.clock_ns)).collect();
        let mut text = blocks.join("\n");
        text += &ratios_text(&ratios(&self.figures));
        for remark in &self.remarks {
            text += &format!("\n{remark}\n");
        }
        text
    }

    fn document(&self, job: &Job, machine: &Machine) -> Value {
        let options: serde_json::Map<String, Value> =
            job.options().into_iter().map(|(key, value)| (key.to_owned(), Value::String(value))).collect();
        json!({
            "job": options,
            "clock_ns": self.clock_ns,
            "figures": self.figures,
            "ratios": ratios(&self.figures),
            "remarks": self.remarks,
            "cpu": machine.cpu,
            "cores": machine.cores,
            "kernel": machine.kernel,
            "filesystem": machine.filesystem,
            "date": machine.date,
            "revision": machine.revision,
        })
    }

    /// Engines that did the same number of reads read the same bytes.
    fn check(&self) -> Result<()> {
        let ours: Vec<&Figures> = self.figures.iter().filter(|one| one.is_ours()).collect();
        for two in ours.windows(2) {
            if two[0].read.total_ios == two[1].read.total_ios && two[0].checksum != two[1].checksum {
                let scenario = format!("io-{}, io-{}", two[0].engine, two[1].engine);
                return Err(BenchError::Wrong { scenario, reason: "the engines read different bytes".into() });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
