//! A job of raw reads, and its form as one of fio's job files, in and out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use super::size::{Sizes, parse_size, parse_sizes};
use crate::{BenchError, error::Result};

/// How bytes are read. The names are fio's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    /// Positional reads: a system call each.
    Psync,
    /// From a memory map.
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

/// What is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Random places of a file.
    Random(Pattern),
    /// The reads of a recording, in its order.
    Recorded(PathBuf),
}

/// Random reads of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) file: PathBuf,
    /// Where the span begins, in bytes.
    pub(crate) offset: u64,
    /// The bytes of the file that are read.
    pub(crate) span: u64,
    pub(crate) sizes: Sizes,
    /// Sizes are any number of bytes, not multiples of the smallest.
    pub(crate) unaligned: bool,
    /// Every block is read once a loop.
    pub(crate) map: bool,
}

/// A job: what is read, how often, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) source: Source,
    pub(crate) engines: Vec<Engine>,
    pub(crate) loops: u64,
    /// The longest time, in seconds.
    pub(crate) seconds: Option<u64>,
    /// Loops go on until the time is over.
    pub(crate) time_based: bool,
    pub(crate) threads: usize,
    pub(crate) seed: u64,
    /// The page cache is emptied of the files before every loop.
    pub(crate) cold: bool,
}

impl Job {
    /// Returns the options of fio that make it do this job, apart from the engine.
    pub(crate) fn options(&self) -> Vec<(&'static str, String)> {
        let mut options: Vec<(&'static str, String)> = vec![("rw", "randread".into())];
        let mut push = |key, value: String| options.push((key, value));
        match &self.source {
            Source::Random(pattern) => {
                push("filename", escaped(&pattern.file));
                if pattern.offset > 0 {
                    push("offset", pattern.offset.to_string());
                }
                push("size", pattern.span.to_string());
                push("bsrange", format!("{}-{}", pattern.sizes.min, pattern.sizes.max));
                push("bs_unaligned", u8::from(pattern.unaligned).to_string());
                push("norandommap", u8::from(!pattern.map).to_string());
                push("randseed", self.seed.to_string());
                // In the page cache from the first loop on, or out of it before each.
                push("pre_read", u8::from(!self.cold).to_string());
            }
            Source::Recorded(file) => {
                push("read_iolog", escaped(file));
                push("replay_no_stall", "1".into());
            }
        }
        push("invalidate", u8::from(self.cold).to_string());
        push("loops", self.loops.to_string());
        if let Some(seconds) = self.seconds {
            push("runtime", seconds.to_string());
            push("time_based", u8::from(self.time_based).to_string());
        }
        push("numjobs", self.threads.to_string());
        push("thread", "1".into());
        push("group_reporting", "1".into());
        options
    }

    /// Returns the job as one of fio's job files, with a section for each of these engines. Recordings have one for
    /// `psync` whatever is asked for: fio's map engine does not run them.
    pub(crate) fn to_fio(&self, engines: &[Engine]) -> String {
        let mut text = String::from("; Raw reads of cone bench io, for fio\n[global]\n");
        for (key, value) in self.options() {
            text += &format!("{key}={value}\n");
        }
        let recorded = matches!(self.source, Source::Recorded(_));
        for engine in if recorded { &[Engine::Psync] } else { engines } {
            text += &format!("\n[{0}]\nioengine={0}\nstonewall\n", engine.name());
        }
        text
    }

    /// Reads one of fio's job files. Its sections may differ in the engine alone.
    ///
    /// # Errors
    /// [`BenchError::Usage`] naming the line that asks for something other than reads that we do.
    pub(crate) fn from_fio(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).map_err(BenchError::io(file))?;
        parse(&text).map_err(|reason| BenchError::usage(format!("{}: {reason}", file.display())))
    }

    /// Returns what a row is called, after `io-` and before the engine.
    pub(crate) const fn kind(&self) -> &'static str {
        match (&self.source, self.cold) {
            (Source::Random(_), false) => "",
            (Source::Random(_), true) => "cold-",
            (Source::Recorded(_), false) => "recorded-",
            (Source::Recorded(_), true) => "recorded-cold-",
        }
    }
}

/// Writes a path as fio's options want it: colons separate files.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(':', "\\:")
}

/// Reads a path of fio's options.
fn unescaped(text: &str) -> Result<PathBuf, String> {
    let bare = text.replace("\\:", "");
    if bare.contains(':') {
        return Err("one file is read; colons within a name are written \\:".into());
    }
    Ok(PathBuf::from(text.replace("\\:", ":")))
}

/// The options of a section, each with its line.
type Options = BTreeMap<String, (usize, String)>;

fn parse(text: &str) -> Result<Job, String> {
    let mut global = Options::new();
    let mut sections: Vec<Options> = Vec::new();
    let mut in_global = false;
    for (index, line) in text.lines().enumerate() {
        let (line, number) = (line.trim(), index + 1);
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').ok_or_else(|| format!("line {number}: a section ends with ]"))?;
            in_global = name.trim() == "global";
            if !in_global {
                sections.push(global.clone());
            }
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "1"));
        let into = if in_global { Some(&mut global) } else { sections.last_mut() };
        let into = into.ok_or_else(|| format!("line {number}: options come after a [section]"))?;
        into.insert(long_name(key.trim()).to_owned(), (number, value.trim().to_owned()));
    }
    let mut jobs = sections.iter().map(section);
    let mut job = jobs.next().ok_or("there is no job: a file needs a [section] beside [global]")??;
    for other in jobs {
        let other = other?;
        let engines = std::mem::take(&mut job.engines);
        if job != (Job { engines: Vec::new(), ..other.clone() }) {
            return Err("sections may differ in ioengine alone: give other jobs files of their own".into());
        }
        job.engines = engines;
        for engine in other.engines {
            if !job.engines.contains(&engine) {
                job.engines.push(engine);
            }
        }
    }
    Ok(job)
}

/// Returns the name of an option that also has a shorter one.
fn long_name(key: &str) -> &str {
    match key {
        "readwrite" => "rw",
        "blocksize" => "bs",
        "blocksize_range" => "bsrange",
        "blocksize_unaligned" => "bs_unaligned",
        other => other,
    }
}

/// Options that change nothing of what is read, or say what we do anyway.
const IGNORED: [&str; 12] = [
    "name",
    "description",
    "stonewall",
    "wait_for_previous",
    "group_reporting",
    "thread",
    "percentile_list",
    "clat_percentiles",
    "replay_no_stall",
    "randrepeat",
    "allow_file_create",
    "unified_rw_reporting",
];

fn section(options: &Options) -> Result<Job, String> {
    let mut job = Job {
        source: Source::Recorded(PathBuf::new()),
        engines: Vec::new(),
        loops: 1,
        seconds: None,
        time_based: false,
        threads: 1,
        seed: 1,
        // What fio does where a job does not say.
        cold: true,
    };
    let mut pattern = Pattern {
        file: PathBuf::new(),
        offset: 0,
        span: 0,
        sizes: Sizes { min: 4096, max: 4096 },
        unaligned: false,
        map: true,
    };
    let (mut random, mut recording, mut pre_read) = (false, None, false);
    for (key, (line, value)) in options {
        let mut set = || -> Result<(), String> {
            match key.as_str() {
                "rw" => random = value == "randread",
                "ioengine" => job.engines = vec![Engine::parse(value)?],
                "filename" => pattern.file = unescaped(value)?,
                "read_iolog" => recording = Some(unescaped(value)?),
                "offset" => pattern.offset = parse_size(value)?,
                "size" => pattern.span = parse_size(value)?,
                "bs" | "bsrange" => pattern.sizes = parse_sizes(value)?,
                "bs_unaligned" => pattern.unaligned = parse_flag(value)?,
                "norandommap" => pattern.map = !parse_flag(value)?,
                "loops" => job.loops = parse_count(value)?,
                "runtime" => job.seconds = Some(parse_count(value.trim_end_matches('s'))?),
                "time_based" => job.time_based = parse_flag(value)?,
                "numjobs" => job.threads = parse_count(value)? as usize,
                "randseed" => job.seed = value.parse().map_err(|_| format!("{value:?} is no number"))?,
                "invalidate" => job.cold = parse_flag(value)?,
                "pre_read" => pre_read = parse_flag(value)?,
                "direct" | "buffered" if parse_flag(value)? == (key == "buffered") => {}
                "iodepth" if value == "1" => {}
                other if IGNORED.contains(&other) => {}
                other => {
                    return Err(format!("{other}={value} is not done here: only reads of one file, one at a time"));
                }
            }
            Ok(())
        };
        set().map_err(|reason| format!("line {line}: {reason}"))?;
    }
    job.cold &= !pre_read;
    if job.time_based && job.seconds.is_none() {
        return Err("time_based needs runtime".into());
    }
    job.source = match recording {
        Some(file) => Source::Recorded(file),
        None if !random => return Err("only rw=randread is done, or read_iolog".into()),
        None if pattern.file.as_os_str().is_empty() => return Err("a job names its file: filename=".into()),
        None => Source::Random(pattern),
    };
    Ok(job)
}

fn parse_flag(value: &str) -> Result<bool, String> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(format!("{value:?} is neither 0 nor 1")),
    }
}

/// Loops, seconds and threads: from 1 to 2^32.
fn parse_count(value: &str) -> Result<u64, String> {
    match value.parse::<u32>() {
        Ok(count) if count > 0 => Ok(count.into()),
        _ => Err(format!("{value:?} is no number from 1 on")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let pattern = Pattern {
            file: "/data/a:b".into(),
            offset: 4096,
            span: 20 << 20,
            sizes: Sizes { min: 50, max: 300 },
            unaligned: true,
            map: false,
        };
        Job {
            source: Source::Random(pattern),
            engines: Engine::ALL.to_vec(),
            loops: 100,
            seconds: Some(7),
            time_based: true,
            threads: 2,
            seed: 9,
            cold: false,
        }
    }

    #[test]
    fn jobs_go_through_files_of_fio() {
        for cold in [false, true] {
            let job = Job { cold, ..job() };
            assert_eq!(parse(&job.to_fio(&Engine::ALL)), Ok(job.clone()));
            let one = Job { engines: vec![Engine::Mmap], ..job };
            assert_eq!(parse(&one.to_fio(&[Engine::Mmap])), Ok(one));
        }
        let source = Source::Recorded("/data/log".into());
        let recorded = Job { source, engines: vec![Engine::Psync], seed: 1, ..job() };
        assert_eq!(parse(&recorded.to_fio(&Engine::ALL)), Ok(recorded));
    }

    #[test]
    fn files_written_by_hand_are_read() {
        let text = "# raw reads\n[reads]\nreadwrite = randread\nfilename=f\nsize=20M\nblocksize_range=50-300\nloops=100\n\
            ioengine=psync\nnorandommap\n";
        let job = parse(text).unwrap();
        let Source::Random(pattern) = &job.source else { panic!("{job:?}") };
        assert_eq!((pattern.span, pattern.map, job.loops, job.cold), (20 << 20, false, 100, true));
        assert_eq!(job.engines, [Engine::Psync]);
    }

    #[test]
    fn what_is_not_done_is_refused_with_its_line() {
        let reason = |options: &str| parse(&format!("[a]\nrw=randread\nfilename=f\n{options}\n")).unwrap_err();
        assert!(reason("direct=1").starts_with("line 4: direct=1 is not done"));
        assert!(reason("iodepth=8").contains("line 4"));
        assert!(reason("ioengine=libaio").contains("engines are"));
        assert!(reason("size=x").contains("no size"));
        assert!(reason("loops=0").contains("from 1 on"));
        assert!(reason("filename=a:b").contains("one file"));
        assert!(reason("time_based").contains("runtime"));
        assert!(reason("[b]\nrw=randread\nfilename=g").contains("differ"));
        assert!(parse("[a]\nrw=randwrite\nfilename=f").unwrap_err().contains("randread"));
        assert!(parse("[a]\nrw=randread").unwrap_err().contains("filename"));
        assert!(parse("rw=randread").unwrap_err().contains("[section]"));
        assert!(parse("").unwrap_err().contains("no job"));
        assert!(parse("[a").is_err());
    }
}
