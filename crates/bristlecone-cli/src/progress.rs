//! A line on standard error that says how far a long command is. Only for people: where standard error is
//! no terminal, nothing is shown.

use std::{
    io::{IsTerminal, Write, stderr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

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
    /// Counts one more thing of so many bytes.
    pub(crate) fn add(&self, bytes: u64) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
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
        if !self.shown || self.drawn.unwrap_or(self.began).elapsed() < EVERY {
            return;
        }
        self.drawn = Some(Instant::now());
        let (items, bytes) = (done.items.load(Relaxed), done.bytes.load(Relaxed));
        let of = self.total.map(|total| format!(" of {total}")).unwrap_or_default();
        let rate = (bytes as f64 / self.began.elapsed().as_secs_f64().max(0.001)) as u64;
        let line = format!("{} {items}{of}, {} ({}/s)", self.verb, text::bytes(bytes), text::bytes(rate));
        let _ = write!(stderr(), "\r{line}\x1b[K");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
