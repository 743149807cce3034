//! A job of raw reads, and its form as one of fio's job files, in and out.

use std::{collections::BTreeMap, fs, path::Path, path::PathBuf};

use crate::{BenchError, error::Result};

/// How bytes are read: positional reads, a system call each, or a memory map. The names are fio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Psync,
    Mmap,
}

impl Engine {
    pub(crate) const ALL: [Self; 2] = [Self::Psync, Self::Mmap];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Psync => "psync",
            Self::Mmap => "mmap",
        }
    }

    /// Reads a name: fio's or that of the system call.
    pub(crate) fn parse(name: &str) -> Result<Self, String> {
        match name {
            "psync" | "pread" => Ok(Self::Psync),
            "mmap" => Ok(Self::Mmap),
            _ => Err(format!("{name:?} is no engine; engines are pread (psync) and mmap")),
        }
    }
}

/// A job: what is read, how often, and how. The default is what fio does where a job file does not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadJob {
    /// The file that is read, or the recording of reads.
    pub(crate) file: PathBuf,
    /// The file is a recording: its reads are done in its order, whatever place and size say.
    pub(crate) recorded: bool,
    /// Where the span begins, and how long it is, in bytes.
    pub(crate) offset: u64,
    pub(crate) span: u64,
    /// The smallest and the largest read, in bytes.
    pub(crate) sizes: (u64, u64),
    /// Sizes are any number of bytes, not multiples of the smallest.
    pub(crate) unaligned: bool,
    /// Places may repeat; otherwise every block is read once a loop.
    pub(crate) norandommap: bool,
    /// From the start to the end, not at random places.
    pub(crate) sequential: bool,
    pub(crate) engines: Vec<Engine>,
    pub(crate) loops: u64,
    /// Loops go on for so long, however many that are.
    pub(crate) seconds: Option<u64>,
    /// Threads, each of which does the whole job.
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// The file is dropped from the page cache before every loop.
    pub(crate) cold: bool,
}

impl ReadJob {
    /// Returns one loop of reads, in the page cache; of what, and of what sizes, is not said yet.
    pub(crate) fn once() -> Self {
        Self { sizes: (4096, 4096), loops: 1, threads: 1, seed: 1, ..Self::default() }
    }

    /// Returns the options of fio that make it do this job, apart from the engine.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let flag = |set: bool| u8::from(set).to_string();
        // Colons separate files.
        let file = self.file.display().to_string().replace(':', "\\:");
        let mut options = vec![("rw", if self.sequential { "read" } else { "randread" }.to_owned())];
        if self.recorded {
            options.extend([("read_iolog", file), ("replay_no_stall", flag(true))]);
        } else {
            options.extend([("filename", file), ("offset", self.offset.to_string()), ("size", self.span.to_string())]);
            options.push(("bsrange", format!("{}-{}", self.sizes.0, self.sizes.1)));
            options.extend([("bs_unaligned", flag(self.unaligned)), ("norandommap", flag(self.norandommap))]);
            // In the page cache from the first loop on, or out of it before each.
            options.extend([("randseed", self.seed.to_string()), ("pre_read", flag(!self.cold))]);
        }
        options.extend([("invalidate", flag(self.cold)), ("loops", self.loops.to_string())]);
        if let Some(seconds) = self.seconds {
            options.extend([("runtime", seconds.to_string()), ("time_based", flag(true))]);
        }
        options.extend([
            ("numjobs", self.threads.to_string()),
            ("thread", flag(true)),
            ("group_reporting", flag(true)),
        ]);
        options
    }

    /// Returns the job as one of fio's job files, with a section for each of these engines.
    pub(crate) fn to_fio(&self, engines: &[Engine]) -> String {
        let mut text = String::from("; Raw reads of cone bench io, for fio\n[global]\n");
        self.options().iter().for_each(|(key, value)| text += &format!("{key}={value}\n"));
        for name in engines.iter().map(|engine| engine.name()) {
            text += &format!("\n[{name}]\nioengine={name}\nstonewall\n");
        }
        text
    }

    /// Reads one of fio's job files. Its sections may differ in the engine alone.
    ///
    /// # Errors
    /// [`BenchError::Usage`] naming the file, the line, and what is supported; [`BenchError::Io`].
    pub(crate) fn from_fio(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(BenchError::io(file))?;
        parse(&text).map_err(|reason| BenchError::usage(format!("{}, {reason}", file.display())))
    }

    /// Returns what stands in the names of rows between `io-` and the engine.
    pub(crate) fn kind(&self) -> String {
        let words = [(self.recorded, "recorded-"), (self.sequential, "sequential-"), (self.cold, "cold-")];
        words.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect()
    }
}

/// The options of a section, each with its line.
type Options = BTreeMap<String, (usize, String)>;

fn parse(text: &str) -> Result<ReadJob, String> {
    let (mut global, mut sections, mut in_global) = (Options::new(), Vec::<Options>::new(), false);
    for (index, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if line.starts_with('[') {
            in_global = line == "[global]";
            if !in_global {
                sections.push(global.clone());
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let into = if in_global { Some(&mut global) } else { sections.last_mut() };
        let into = into.ok_or_else(|| format!("line {}: options come after a [section]", index + 1))?;
        into.insert(key.trim().to_owned(), (index + 1, value.trim().to_owned()));
    }
    let jobs: Vec<ReadJob> = sections.iter().map(section).collect::<Result<_, _>>()?;
    let mut job = jobs.first().ok_or("line 1: a file needs a [section] beside [global]")?.clone();
    for other in &jobs[1..] {
        if (ReadJob { engines: job.engines.clone(), ..other.clone() }) != job {
            return Err("line 1: sections may differ in ioengine alone: give other jobs files of their own".into());
        }
        job.engines.extend(&other.engines);
    }
    Ok(job)
}

/// What a job file may have.
const SUPPORTED: &str = "rw=randread or read, ioengine, filename or read_iolog, offset, size, bs, bsrange, bs_unaligned, \
                         norandommap, loops, runtime with time_based, numjobs, randseed, invalidate, pre_read; stonewall, \
                         thread, group_reporting, replay_no_stall, iodepth=1 and direct=0, which change nothing";

fn section(options: &Options) -> Result<ReadJob, String> {
    // fio drops a file from the page cache unless told otherwise.
    let (mut job, mut pre_read, mut time_based) = (ReadJob { cold: true, ..ReadJob::once() }, 0, 0);
    for (key, (line, value)) in options {
        let number = |max: u64| match value.trim_end_matches('s').parse::<u64>() {
            Ok(number) if number <= max => Ok(number),
            _ => Err(format!("line {line}: {key}={value}: a number up to {max} stands here")),
        };
        let count = || number(u16::MAX.into()).map(|count| count.max(1));
        let at_line = |reason: String| format!("line {line}: {reason}");
        match (key.as_str(), value.as_str()) {
            ("rw", "read" | "randread") => job.sequential = value == "read",
            ("ioengine", name) => job.engines = vec![Engine::parse(name).map_err(at_line)?],
            ("filename" | "read_iolog", name) if !name.replace("\\:", "").contains(':') => {
                (job.file, job.recorded) = (name.replace("\\:", ":").into(), key == "read_iolog");
            }
            ("offset", bytes) => job.offset = parse_size(bytes).map_err(at_line)?,
            ("size", bytes) => job.span = parse_size(bytes).map_err(at_line)?,
            ("bs" | "bsrange", sizes) => job.sizes = parse_sizes(sizes).map_err(at_line)?,
            ("bs_unaligned", _) => job.unaligned = number(1)? == 1,
            ("norandommap", _) => job.norandommap = number(1)? == 1,
            ("loops", _) => job.loops = count()?,
            ("runtime", _) => job.seconds = Some(count()?),
            ("time_based", _) => time_based = number(1)?,
            ("numjobs", _) => job.threads = count()? as usize,
            ("randseed", _) => job.seed = number(u64::MAX)?,
            ("invalidate", _) => job.cold = number(1)? == 1,
            ("pre_read", _) => pre_read = number(1)?,
            ("stonewall" | "thread" | "group_reporting" | "replay_no_stall", _)
            | ("iodepth", "1")
            | ("direct", "0") => {}
            _ => return Err(at_line(format!("{key}={value} is not done here; what is: {SUPPORTED}"))),
        }
    }
    let first = options.values().map(|(line, _)| *line).min().unwrap_or(1);
    job.cold &= pre_read == 0;
    if job.seconds.is_some() != (time_based == 1) {
        return Err(format!("line {first}: runtime and time_based go together: reads go on for so long"));
    }
    if job.file.as_os_str().is_empty() {
        return Err(format!("line {first}: a job names what it reads: filename=, or read_iolog="));
    }
    Ok(job)
}

/// Reads a size in bytes as fio does: a number, which may have decimals, and `k`, `M`, `G`, `T` or `P`, which are powers of
/// 1024, with or without `iB` or `B`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (number, unit) = lower.split_at(lower.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(lower.len()));
    let unit = unit.strip_suffix('b').unwrap_or(unit);
    let power = ["", "k", "m", "g", "t", "p"].iter().position(|name| *name == unit.strip_suffix('i').unwrap_or(unit));
    let number = Some(number).filter(|number| number.starts_with(|c: char| c.is_ascii_digit()));
    match (number.and_then(|number| number.parse::<f64>().ok()), power) {
        (Some(number), Some(power)) if number < 1e15 => Ok((number * 1024_f64.powi(power as i32)) as u64),
        _ => Err(format!("{text:?} is no size: write 300, 5k, 20M or 3.7G (k, M, G, T, P are powers of 1024)")),
    }
}

/// A read is no longer than this: 256 MiB, far beyond any object.
const READ_BYTES_MAX: u64 = 1 << 28;

/// Reads one size, or two with `-` between them.
pub(crate) fn parse_sizes(text: &str) -> Result<(u64, u64), String> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let (min, max) = (parse_size(min)?, parse_size(max)?);
    if min == 0 || min > max || max > READ_BYTES_MAX {
        return Err(format!("{text:?}: sizes go from at least 1 to at most 256M, the smaller first"));
    }
    Ok((min, max))
}
