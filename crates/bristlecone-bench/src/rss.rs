//! Resident memory of this process: anonymous pages apart from mapped ones.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often memory is looked at. One look is one read of `/proc/self/statm`, about 2 µs.
const INTERVAL: Duration = Duration::from_millis(5);
const PAGE_KB: u64 = 4;

/// The most memory that was resident at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Anonymous pages, in KiB.
    pub(crate) anon_kb: u64,
    /// Pages of mapped files, in KiB.
    pub(crate) file_kb: u64,
    /// All pages, in KiB, as the system counts its high-water mark.
    pub(crate) max_kb: u64,
}

/// Samples this process's memory until it is asked for the peak.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

impl Sampler {
    pub(crate) fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let mut peak = Peak::default();
            // Where there is no such file, memory is reported as nothing.
            let Ok(statm) = File::open("/proc/self/statm") else { return peak };
            loop {
                let last = stopped.load(Relaxed);
                sample(&statm, &mut peak);
                if last {
                    return peak;
                }
                thread::park_timeout(INTERVAL);
            }
        });
        Self { stop, thread }
    }

    /// Takes a last sample and returns the peak.
    pub(crate) fn finish(self) -> Peak {
        self.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        let mut peak = self.thread.join().unwrap_or_default();
        peak.max_kb = high_water_kb().unwrap_or(0);
        peak
    }
}

/// Returns the anonymous pages and those of mapped files that are resident now, in KiB; nothing where the system
/// does not say.
pub(crate) fn now_kb() -> (u64, u64) {
    File::open("/proc/self/statm").ok().and_then(|statm| read(&statm)).unwrap_or_default()
}

fn sample(statm: &File, peak: &mut Peak) {
    let Some((anon_kb, file_kb)) = read(statm) else { return };
    peak.anon_kb = peak.anon_kb.max(anon_kb);
    peak.file_kb = peak.file_kb.max(file_kb);
}

fn read(statm: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let count = statm.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..count]).unwrap_or("");
    // Pages: size, resident, shared (of files), and others.
    let mut pages = text.split_whitespace().skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    Some((resident.saturating_sub(shared) * PAGE_KB, shared * PAGE_KB))
}

fn high_water_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_touched_is_seen() {
        let sampler = Sampler::start();
        let touched = vec![1_u8; 64 << 20];
        thread::sleep(INTERVAL * 4);
        let peak = sampler.finish();
        assert!(peak.anon_kb >= 64 << 10, "{peak:?}");
        assert!(peak.max_kb >= peak.anon_kb - 1024, "{peak:?}");
        drop(touched);
    }
}
