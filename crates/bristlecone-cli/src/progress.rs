//! A line on standard error that says how far a long command is. Only for people: where standard error is
//! no terminal, nothing is shown.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::{
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

use bristlecone_any::folder::{Status, Step};

use crate::text;

/// How often the line is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// What was done so far; counted by all threads.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Things done.
    pub(crate) items: AtomicU64,
    /// Bytes in them.
    pub(crate) bytes: AtomicU64,
}

impl Done {
    /// Counts one more thing, and its bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns what a line says: `before` until the first thing is done, and then how many are, with their bytes and the rate. A thing
    /// is called `one`, several `many`.
    pub(crate) fn line(&self, seconds: f64, before: &str, verb: &str, [one, many]: [&str; 2]) -> String {
        let (items, bytes) = (self.items.load(Relaxed), self.bytes.load(Relaxed));
        if items == 0 {
            return format!("{before}, {}", text::span(seconds as u64));
        }
        let rate = text::bytes((bytes as f64 / seconds) as u64);
        format!("{verb} {}, {} ({rate}/s)", text::count(items, one, many), text::bytes(bytes))
    }

    /// Says how much was done in all, where one thread counts.
    pub(crate) fn set(&self, items: u64, bytes: u64) {
        self.items.store(items, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// The line.
pub(crate) struct Progress {
    verb: &'static str,
    total: Option<u64>,
    began: Instant,
    drawn: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Begins; `total`: how many things there are, if that is known.
    pub(crate) fn new(verb: &'static str, total: Option<u64>) -> Self {
        Self { verb, total, began: Instant::now(), drawn: None, shown: stderr().is_terminal() }
    }

    /// Draws the line if it is time to.
    pub(crate) fn tick(&mut self, done: &Done) {
        let (verb, total) = (self.verb, self.total);
        self.tick_with(|seconds| {
            let (items, bytes) = (done.items.load(Relaxed), done.bytes.load(Relaxed));
            let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
            let rate = (bytes as f64 / seconds) as u64;
            format!("{verb} {items}{of}, {} ({}/s)", text::bytes(bytes), text::bytes(rate))
        });
    }

    /// Draws the line that `line` makes of the seconds since the beginning, if it is time to.
    pub(crate) fn tick_with(&mut self, line: impl FnOnce(f64) -> String) {
        if !self.shown || self.drawn.unwrap_or(self.began).elapsed() < EVERY {
            return;
        }
        self.drawn = Some(Instant::now());
        let line = line(self.began.elapsed().as_secs_f64().max(0.001));
        let _ = write!(stderr(), "\r{line}\x1b[K");
    }
}

/// Does something with a folder of files and shows how far it is, a line for each step.
pub(crate) fn with_progress<T>(does: impl FnOnce(&mut dyn FnMut(Status)) -> T) -> T {
    let (done, mut line) = (Done::default(), None::<Progress>);
    does(&mut |status| {
        let (verb, total) = (verb(status.step), status.items_total);
        let line: &mut Progress = match &mut line {
            Some(line) if line.verb == verb => line,
            // The line of the step before goes first.
            line => {
                *line = None;
                line.insert(Progress::new(verb, total))
            }
        };
        done.set(status.items, status.bytes);
        line.tick(&done);
    })
}

/// Does something that does not say itself how far it is, and draws meanwhile the line that `line` makes of the seconds since the
/// beginning.
pub(crate) fn meanwhile<T>(line: impl Fn(f64) -> String + Sync, does: impl FnOnce() -> T) -> T {
    if !stderr().is_terminal() {
        return does();
    }
    let line = &line;
    thread::scope(|scope| {
        let (ends, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut progress = Progress::new("", None);
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                progress.tick_with(line);
            }
        });
        let done = does();
        // The line goes before anything else is said.
        drop(ends);
        done
    })
}

fn verb(step: Step) -> &'static str {
    match step {
        Step::Scan => "scanned",
        Step::Import => "imported",
        Step::Export => "exported",
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
