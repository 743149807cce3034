//! Work on many parts, on several threads.

use std::{
    collections::BTreeMap,
    sync::{
        atomic::{AtomicUsize, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use crate::Error;

/// Calls `work` with the numbers of `parts` parts on some threads, and `take` with what that returned, in the order of the parts,
/// on the calling thread. Ends with the first error in that order.
pub(super) fn in_order<T: Send>(
    threads: usize,
    parts: usize,
    work: &(impl Fn(usize) -> Result<T, Error> + Sync),
    take: &mut dyn FnMut(usize, T) -> Result<(), Error>,
) -> Result<(), Error> {
    if threads.min(parts) <= 1 {
        return (0..parts).try_for_each(|part| take(part, work(part)?));
    }
    let next = &AtomicUsize::new(0);
    // No thread is far ahead of what was taken, so that little waits.
    let (sender, results) = mpsc::sync_channel(threads);
    thread::scope(|scope| {
        for _ in 0..threads.min(parts) {
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let part = next.fetch_add(1, Relaxed);
                    if part >= parts || sender.send((part, work(part))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut turn) = (BTreeMap::new(), 0);
        // Threads end at their next result once the receiver is dropped.
        for (part, result) in results {
            waiting.insert(part, result);
            while let Some(result) = waiting.remove(&turn) {
                take(turn, result?)?;
                turn += 1;
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn failed(part: usize) -> Error {
        Error::Expired { file: part.to_string() }
    }

    #[test]
    fn results_come_in_the_order_of_the_parts_and_the_first_error_ends_the_work() {
        for threads in [1, 2, 3, 8] {
            let work = |part: usize| {
                thread::sleep(Duration::from_micros(part as u64 * 7919 % 300));
                if part == 70 || part == 90 { Err(failed(part)) } else { Ok(part * 2) }
            };
            let mut taken = Vec::new();
            let mut take = |part, result| {
                assert_eq!(result, part * 2);
                taken.push(part);
                if part == 50 { Err(failed(part)) } else { Ok(()) }
            };
            let ended = in_order(threads, 60, &work, &mut take).unwrap_err();
            assert_eq!((ended.to_string(), &taken), (failed(50).to_string(), &(0..=50).collect()));
            taken.clear();
            let mut take = |part, _| {
                taken.push(part);
                Ok(())
            };
            let ended = in_order(threads, 100, &work, &mut take).unwrap_err();
            assert_eq!((ended.to_string(), &taken), (failed(70).to_string(), &(0..70).collect()));
            taken.clear();
            let mut take = |part, _| {
                taken.push(part);
                Ok(())
            };
            in_order(threads, 60, &work, &mut take).unwrap();
            assert_eq!(taken, (0..60).collect::<Vec<_>>());
            in_order(threads, 0, &work, &mut |_, _| panic!("there is no part")).unwrap();
        }
    }
}
