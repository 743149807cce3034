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
    /// The share of the files that was read when the clock began.
    read_before: f64,
}

impl Watch {
    pub(super) fn new(sample_every: f64) -> Self {
        let (terminal, lines) = (stderr().is_terminal(), sample_every >= 1.0);
        Self { terminal, shown: Instant::now(), drawn: false, lines, read_before: 0.0 }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Observer for Watch {
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
        if now.blocks == 0 {
            self.read_before = now.done.unwrap_or(0.0);
        }
        if self.shown.elapsed() >= if self.terminal { DRAWN_EVERY } else { WRITTEN_EVERY } {
            self.shown = Instant::now();
            let text = line(now, self.read_before);
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

/// Writes a line. `before` is the share that was read when the clock began.
fn line(now: &Progress, before: f64) -> String {
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
        text += &format!(", {:.0} %", done * 100.0);
        // Nothing tells how long it takes before a block was applied.
        if now.blocks > 0 && done > before {
            text += &format!(", {} left", clock(now.seconds * (1.0 - done).max(0.0) / (done - before)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_long() {
        let now = Progress { seconds: 10.0, blocks: 500_000, entries: 7, done: Some(0.25), ..Progress::default() };
        let whole = line(&now, 0.0);
        assert!(whole.starts_with("slot 0, 500000 blocks, 50.0 k/s, 7 entries, "), "{whole}");
        assert!(whole.ends_with(" MiB, 25 %, 30 s left"), "{whole}");
        // Of what was read before the clock began, nothing says how fast it goes.
        let later = line(&now, 0.2);
        assert!(later.ends_with(" MiB, 25 %, 2:30 left"), "{later}");
        let filling = line(&Progress { blocks: 0, indexed: 7, seconds: 0.0, ..now }, 0.0);
        assert!(filling.starts_with("slot 0, 7 blocks indexed anew, ") && filling.ends_with(" MiB, 25 %"), "{filling}");
    }
}
