//! A thread for work beside commits.

use std::{
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, SendError, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use crate::{storage::Origin, sync::lock};

/// How much less of a busy processor the thread gets than what commits: about a third. Much less would hold up commits that
/// wait for a lock that it has.
#[cfg(target_os = "linux")]
const NICE: i32 = 5;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other, each for a `T`, and gives way to commits.
///
/// It is started for the first job, and stays for the next: an allocator gives each thread memory of its own, and what threads that
/// come and go have used is kept for others.
#[derive(Debug)]
pub(super) struct BesideThread<T> {
    running: Mutex<Option<Running>>,
    // What the job that was given last returns.
    last: Mutex<Option<Receiver<T>>>,
}

#[derive(Debug)]
struct Running {
    jobs: Sender<Job>,
    thread: JoinHandle<()>,
    origin: Origin,
}

impl<T> Default for BesideThread<T> {
    fn default() -> Self {
        Self { running: Mutex::default(), last: Mutex::default() }
    }
}

impl<T: Send + 'static> BesideThread<T> {
    /// Gives the thread a job, under this name if there is no thread yet; returns whether one will do it.
    pub(super) fn begin(&self, name: &str, job: impl FnOnce() -> T + Send + 'static) -> bool {
        let (done, last) = channel();
        let begun = self.give(name, Box::new(move || _ = done.send(job())));
        if begun {
            *lock(&self.last) = Some(last);
        }
        begun
    }

    /// Waits for the job that was given last, which has let go of all it held by then, and returns what it did; `None` if that was
    /// asked before, or nothing comes of it, since it panicked.
    pub(super) fn wait(&self) -> Option<T> {
        let last = lock(&self.last).take()?;
        last.recv().ok()
    }

    fn give(&self, name: &str, job: Job) -> bool {
        let mut running = lock(&self.running);
        let job = match &*running {
            Some(there) if there.origin.is_here() => match there.jobs.send(job) {
                Ok(()) => return true,
                // A job has panicked.
                Err(SendError(job)) => job,
            },
            _ => job,
        };
        let (jobs, given) = channel::<Job>();
        let work = move || {
            give_way();
            given.into_iter().for_each(|job| job());
        };
        let Ok(thread) = thread::Builder::new().name(name.to_owned()).spawn(work) else { return false };
        let begun = jobs.send(job).is_ok();
        *running = Some(Running { jobs, thread, origin: Origin::here() });
        begun
    }
}

impl<T> Drop for BesideThread<T> {
    /// Waits until the thread has done what it was given.
    fn drop(&mut self) {
        let running = self.running.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A process that was forked has no such thread.
        if let Some(Running { jobs, thread, .. }) = running.filter(|running| running.origin.is_here()) {
            drop(jobs);
            let _ = thread.join();
        }
    }
}

/// Lets commits come before this thread alone, where the system can do that.
fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, NICE);
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, time::Duration};

    use super::*;

    #[test]
    fn one_thread_does_all_jobs_in_order_and_another_one_goes_on_after_a_panic() {
        let beside = BesideThread::default();
        let (told, said) = mpsc::channel();
        for number in 0..3 {
            let told = told.clone();
            assert!(beside.begin("cone-test", move || told.send((number, thread::current().id())).unwrap()));
        }
        let first: Vec<_> = said.iter().take(3).collect();
        assert!(first.iter().enumerate().all(|(number, done)| *done == (number, first[0].1)), "{first:?}");
        let ended = told.clone();
        beside.begin("cone-test", move || {
            // Once the thread has let go of it, it takes no more jobs.
            let _ended = ended;
            panic!("a job that panics");
        });
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let after = loop {
            assert!(std::time::Instant::now() < deadline, "no thread goes on");
            let told = told.clone();
            beside.begin("cone-test", move || told.send((9, thread::current().id())).unwrap());
            // A job that came to the thread that was just ending is lost.
            if let Ok(done) = said.recv_timeout(Duration::from_millis(50)) {
                break done;
            }
        };
        assert!(after.0 == 9 && after.1 != first[0].1);
    }

    #[test]
    fn who_waits_and_its_end_wait_for_what_was_given() {
        let (told, said) = mpsc::channel();
        let beside = BesideThread::default();
        assert!(beside.wait().is_none());
        for number in 0..2 {
            let told = told.clone();
            beside.begin("cone-test", move || {
                thread::sleep(Duration::from_millis(20));
                told.send(number).unwrap();
                number
            });
        }
        assert_eq!((beside.wait(), beside.wait()), (Some(1), None));
        beside.begin("cone-test", move || {
            thread::sleep(Duration::from_millis(20));
            told.send(2).unwrap();
            2
        });
        drop(beside);
        assert_eq!(said.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }
}
