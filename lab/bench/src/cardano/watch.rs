//! Watching a replay of a chain: the line of progress, samples, memory, and whether the user wants it to stop.

use std::{
    io::{IsTerminal, Write, stderr},
    ops::ControlFlow,
    time::{Duration, Instant},
};

use bristlecone_cardano::replay::{Memory, Observer, Progress, Sample};

use crate::{
    measure::cpu_us,
    replay::{clock, is_stopped},
    report::table::{mebibytes, rate},
    rss,
};

/// How often the line is drawn on a terminal, and written elsewhere.
const DRAWN_EVERY: Duration = Duration::from_millis(200);
const WRITTEN_EVERY: Duration = Duration::from_secs(10);

/// Follows a replay for people.
pub(super) struct Watch {
    terminal: bool,
    shown: Instant,
    drawn: bool,
    /// Samples are written as lines, unless they come many times a second, for a chart.
    lines: bool,
}

impl Watch {
    pub(super) fn new(sample_every: f64) -> Self {
        Self { terminal: stderr().is_terminal(), shown: Instant::now(), drawn: false, lines: sample_every >= 1.0 }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Observer for Watch {
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
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
        if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn sample(&mut self, sample: &Sample) {
        if !self.lines || sample.blocks == 0 {
            return;
        }
        self.clear();
        say!(
            "{}: slot {}, {} blocks, {}/s, {} entries, memory {} MiB and {} MiB mapped, CPU {:.0} %",
            clock(sample.seconds),
            sample.slot,
            sample.blocks,
            rate(sample.blocks_per_s),
            sample.entries,
            mebibytes(sample.memory.anon_kb),
            mebibytes(sample.memory.file_kb),
            sample.cpu_percent
        );
    }

    fn memory(&mut self) -> Memory {
        let (anon_kb, file_kb) = rss::now_kb();
        Memory { anon_kb, file_kb, cpu_us: cpu_us() }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.clear();
    }
}

fn line(now: &Progress) -> String {
    let slot = now.last.map_or(0, |last| last.slot);
    let mut text = format!("slot {slot}, {} blocks", now.blocks);
    if now.blocks == 0 && now.indexed > 0 {
        text = format!("slot {slot}, {} blocks indexed anew", now.indexed);
    }
    text += &format!(", {}/s, {} entries", rate(now.blocks as f64 / now.seconds.max(1e-9)), now.entries);
    if now.missing > 0 {
        text += &format!(", {} inputs missing", now.missing);
    }
    text += &format!(", {} MiB", mebibytes(rss::now_kb().0));
    if let Some(done) = now.done.filter(|done| *done > 0.0) {
        let left = now.seconds * (1.0 - done).max(0.0) / done;
        text += &format!(", {:.0} %, {} left", done * 100.0, clock(left));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_long() {
        let now = Progress { seconds: 10.0, blocks: 500_000, entries: 7, done: Some(0.25), ..Progress::default() };
        let line = line(&now);
        assert!(line.starts_with("slot 0, 500000 blocks, 50.0 k/s, 7 entries, "), "{line}");
        assert!(line.ends_with(" MiB, 25 %, 30 s left"), "{line}");
    }
}
