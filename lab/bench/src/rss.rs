//! Resident memory of this process, or of others that it started: anonymous pages apart from mapped ones.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How often memory is looked at. One look is one read of `/proc/self/statm`, about 2 µs.
const INTERVAL: Duration = Duration::from_millis(5);
/// How often other processes are looked at, which takes several reads for each.
const INTERVAL_OTHERS: Duration = Duration::from_millis(10);
/// Processes are followed so far down.
const FAMILY_DEPTH_MAX: usize = 8;

/// The most memory that was resident at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peak {
    /// Anonymous pages, in KiB.
    pub(crate) anon_kb: u64,
    /// Pages of mapped files, in KiB.
    pub(crate) file_kb: u64,
    /// The least anonymous pages, in KiB, of the time that counts.
    pub(crate) anon_min_kb: u64,
    /// Their mean over the samples of that time, in KiB.
    pub(crate) anon_mean_kb: u64,
    /// All pages, in KiB: as the system counts its high-water mark, or of a sample.
    pub(crate) max_kb: u64,
}

impl Peak {
    /// Returns the most of each kind of two stretches of time; least and mean are those of the second.
    pub(crate) fn most(self, later: Self) -> Self {
        Self {
            anon_kb: self.anon_kb.max(later.anon_kb),
            file_kb: self.file_kb.max(later.file_kb),
            max_kb: self.max_kb.max(later.max_kb),
            ..later
        }
    }
}

/// Samples this process's memory until it is asked for the peak.
pub(crate) struct Sampler {
    stop: Arc<AtomicBool>,
    counts: Arc<AtomicBool>,
    thread: JoinHandle<Peak>,
}

/// What is averaged of samples.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    samples: u64,
    sum_kb: u64,
    min_kb: u64,
}

impl Mean {
    fn add(&mut self, kb: u64) {
        self.min_kb = if self.samples == 0 { kb } else { self.min_kb.min(kb) };
        self.samples += 1;
        self.sum_kb += kb;
    }
}

impl Sampler {
    /// Samples this process.
    pub(crate) fn start() -> Self {
        Self::start_counting(true)
    }

    /// Samples this process; least and mean are those of the time for which [`Sampler::count`] was told to count, from the
    /// start on if it `counts`. Where no sample was taken in that time, they are those of all.
    pub(crate) fn start_counting(counts: bool) -> Self {
        Self::every(INTERVAL, counts, {
            // Where there is no such file, memory is reported as nothing.
            let statm = File::open("/proc/self/statm").ok();
            move || statm.as_ref().and_then(read)
        })
    }

    /// Samples other processes together with whatever they start in turn. Pages that several of them map are counted
    /// for each.
    pub(crate) fn others(roots: Vec<u32>) -> Self {
        Self::every(INTERVAL_OTHERS, true, move || {
            Some(roots.iter().fold((0, 0), |sum, &root| add(sum, family(root, 0))))
        })
    }

    /// Begins or ends the time that counts for least and mean.
    pub(crate) fn count(&self, counts: bool) {
        self.counts.store(counts, SeqCst);
    }

    fn every(interval: Duration, counts: bool, look: impl Fn() -> Option<(u64, u64)> + Send + 'static) -> Self {
        let (stop, counts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(counts)));
        let (stopped, counting) = (stop.clone(), counts.clone());
        let thread = thread::spawn(move || {
            let mut peak = Peak::default();
            let (mut all, mut counted) = (Mean::default(), Mean::default());
            loop {
                let last = stopped.load(Relaxed);
                // A sample counts if it was taken wholly within the time.
                let began = counting.load(SeqCst);
                let Some((anon_kb, file_kb)) = look() else { return peak };
                all.add(anon_kb);
                if began && counting.load(SeqCst) {
                    counted.add(anon_kb);
                }
                let mean = if counted.samples > 0 { counted } else { all };
                (peak.anon_min_kb, peak.anon_mean_kb) = (mean.min_kb, mean.sum_kb / mean.samples);
                peak.anon_kb = peak.anon_kb.max(anon_kb);
                peak.file_kb = peak.file_kb.max(file_kb);
                peak.max_kb = peak.max_kb.max(anon_kb + file_kb);
                if last {
                    return peak;
                }
                thread::park_timeout(interval);
            }
        });
        Self { stop, counts, thread }
    }

    /// Takes a last sample of this process and returns the peak, with its high-water mark as the system has it.
    pub(crate) fn finish(self) -> Peak {
        let mut peak = self.finish_sampled();
        peak.max_kb = high_water_kb().unwrap_or(0);
        peak
    }

    /// Takes a last sample and returns the peak; the most memory of all kinds is that of a sample. For other processes, and for a
    /// process in which several rows are measured: the system's high-water mark is that of all it ever did.
    pub(crate) fn finish_sampled(self) -> Peak {
        self.stop.store(true, Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

/// Returns what a process and those that it started have resident, in KiB; nothing for one that has ended.
fn family(process: u32, depth: usize) -> (u64, u64) {
    let Ok(statm) = File::open(format!("/proc/{process}/statm")) else { return (0, 0) };
    let own = read(&statm).unwrap_or_default();
    if depth == FAMILY_DEPTH_MAX {
        return own;
    }
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    children.fold(own, |sum, children| {
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        children.fold(sum, |sum, child| add(sum, family(child, depth + 1)))
    })
}

const fn add(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    (one.0 + other.0, one.1 + other.1)
}

/// Returns the anonymous pages and those of mapped files that are resident now, in KiB; nothing where the system
/// does not say.
pub(crate) fn now_kb() -> (u64, u64) {
    File::open("/proc/self/statm").ok().and_then(|statm| read(&statm)).unwrap_or_default()
}

fn read(statm: &File) -> Option<(u64, u64)> {
    let mut buffer = [0; 128];
    let count = statm.read_at(&mut buffer, 0).ok()?;
    let text = std::str::from_utf8(&buffer[..count]).unwrap_or("");
    // Pages: size, resident, shared (of files), and others.
    let mut pages = text.split_whitespace().skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (pages.next().unwrap_or(0), pages.next().unwrap_or(0));
    let kb = |pages: u64| pages * rustix::param::page_size() as u64 / 1024;
    Some((kb(resident.saturating_sub(shared)), kb(shared)))
}

fn high_water_kb() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

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

    #[test]
    fn what_was_given_back_before_is_in_the_high_water_mark_alone() {
        const TOUCHED_KB: u64 = 256 << 10;
        drop(std::hint::black_box(vec![1_u8; (TOUCHED_KB as usize) << 10]));
        let peak = Sampler::start().finish_sampled();
        let mark = Sampler::start().finish().max_kb;
        assert!(peak.max_kb + TOUCHED_KB / 8 < mark, "{peak:?}, {mark}");
    }

    #[test]
    fn the_most_of_each_kind_may_be_of_different_times() {
        let peak = |anon_kb, file_kb, max_kb| Peak { anon_kb, file_kb, max_kb, ..Peak::default() };
        let most = peak(5, 9, 11).most(peak(7, 2, 9));
        assert_eq!((most.anon_kb, most.file_kb, most.max_kb), (7, 9, 11));
        let most = Peak::default().most(peak(7, 2, 9));
        assert_eq!((most.anon_kb, most.file_kb, most.max_kb), (7, 2, 9));
    }

    #[test]
    fn least_and_mean_are_those_of_the_time_that_counts() {
        let held = Arc::new(AtomicU64::new(10));
        let seen = held.clone();
        let sampler = Sampler::every(Duration::from_millis(1), false, move || Some((seen.load(SeqCst), 0)));
        let hold = |kb| {
            held.store(kb, SeqCst);
            thread::sleep(Duration::from_millis(20));
        };
        hold(10);
        hold(100);
        sampler.count(true);
        hold(100);
        hold(60);
        sampler.count(false);
        hold(1);
        hold(200);
        let peak = sampler.finish_sampled();
        assert!(peak.anon_min_kb == 60 && peak.anon_kb == 200, "{peak:?}");
        assert!((60..=100).contains(&peak.anon_mean_kb), "{peak:?}");
        // Where nothing counts all do.
        let sampler = Sampler::every(Duration::from_millis(1), false, || Some((7, 0)));
        assert_eq!(sampler.finish_sampled().anon_mean_kb, 7);
    }

    #[test]
    fn what_others_and_their_children_hold_is_seen() {
        // The shell's child holds 8 MiB in a variable.
        let script = "sh -c 'a=$(head -c 8388608 /dev/zero | tr \\\\0 x); sleep 0.4'; true";
        let mut child = std::process::Command::new("sh").args(["-c", script]).spawn().unwrap();
        let sampler = Sampler::others(vec![child.id()]);
        child.wait().unwrap();
        let peak = sampler.finish_sampled();
        assert!(peak.anon_kb >= 8 << 10 && peak.max_kb >= peak.anon_kb, "{peak:?}");
    }
}
