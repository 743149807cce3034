//! Watching a replay: the line of progress, memory, and whether somebody wants it to stop.

use std::{
    io::{IsTerminal, Write, stderr},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bristlecone::Backend;
use bristlecone_tezos::replay::{Memory, Observer, Progress};

use crate::{report::table::rate, rss, scratch::remove_live};

/// How often the line is drawn on a terminal, and written elsewhere.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// Set when a replay should end.
static STOP: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt ends the replay with a summary, a second one the process.
pub(crate) fn stop_on_interrupt() {
    let handler = || {
        if STOP.swap(true, Relaxed) {
            remove_live();
            std::process::exit(130);
        }
    };
    // There may be one from an earlier replay; without any an interrupt ends the process, as it does elsewhere.
    let _ = ctrlc::set_handler(handler);
}

/// Whether the user interrupted a replay.
pub(crate) fn is_stopped() -> bool {
    STOP.load(Relaxed)
}

/// Follows a replay for people.
pub(super) struct Watch {
    terminal: bool,
    shown: Instant,
    drawn: bool,
    // A store whose files are looked at, and the most that they took.
    backend: Option<Arc<dyn Backend>>,
    file_bytes: u64,
}

impl Watch {
    pub(super) fn new() -> Self {
        let (terminal, shown) = (stderr().is_terminal(), Instant::now());
        Self { terminal, shown, drawn: false, backend: None, file_bytes: 0 }
    }

    /// Looks at the files of a store, too.
    pub(super) fn sizes(self, backend: Arc<dyn Backend>) -> Self {
        Self { backend: Some(backend), ..self }
    }

    /// Returns the most bytes that the files took.
    pub(super) const fn file_bytes(&self) -> u64 {
        self.file_bytes
    }
}

impl Observer for Watch {
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
        if let Some(backend) = &self.backend {
            self.file_bytes = self.file_bytes.max(backend.stats().file_bytes);
        }
        if self.shown.elapsed() >= if self.terminal { DRAWN_EVERY } else { WRITTEN_EVERY } {
            self.shown = Instant::now();
            let text = line(now);
            if self.terminal {
                self.drawn = true;
                let _ = write!(stderr(), "\r{text}\x1b[K");
            } else {
                let _ = writeln!(stderr(), "{text}");
            }
        }
        if STOP.load(Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn memory(&mut self) -> Memory {
        let (anon_kb, file_kb) = rss::now_kb();
        Memory { anon_kb, file_kb }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if self.drawn {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

fn line(now: &Progress) -> String {
    let each = |count: u64| rate(count as f64 / now.seconds.max(1e-9));
    let mut text = format!(
        "{} commits, {} rows, {} rows/s, {} commits/s",
        now.commits,
        now.rows,
        each(now.rows),
        each(now.commits)
    );
    if let Some(done) = now.done.filter(|done| *done > 0.0) {
        let left = now.seconds * (1.0 - done).max(0.0) / done;
        text += &format!(", {:.0} %, {} left", done * 100.0, clock(left));
    }
    text
}

/// Writes a time as `12 s`, `3:25` or `2:03:25`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes) {
        (0, 0) => format!("{rest} s"),
        (0, _) => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_fast_and_how_long() {
        let now = Progress { seconds: 10.0, rows: 5_000_000, commits: 12_000, done: Some(0.25) };
        assert_eq!(line(&now), "12000 commits, 5000000 rows, 500 k rows/s, 1.20 k commits/s, 25 %, 30 s left");
        assert_eq!(clock(205.4), "3:25");
        assert_eq!(clock(7405.0), "2:03:25");
    }
}
