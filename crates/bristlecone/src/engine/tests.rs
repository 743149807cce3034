use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use super::*;
use crate::Error;

/// What a test is given to wait for.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn who_runs_alone_writes_its_own_item() {
    let queue: Queue<u32, u32> = Queue::default();
    assert_eq!(queue.run(7, |items| items.iter().map(|&item| item * 2).collect()).unwrap(), 14);
    assert_eq!(queue.run(8, |items| items.iter().map(|&item| item * 2).collect()).unwrap(), 16);
}

/// One thread leads until `count` others wait; returns what each of these got. Each of them writes by `write`.
fn answers_of(count: u32, write: impl Fn(&[&u32]) -> Vec<u32> + Sync) -> Vec<thread::Result<Result<u32, Error>>> {
    let queue: Queue<u32, u32> = Queue::default();
    let Entered::Leads(lead) = queue.enter(|| 0) else { panic!("nobody leads yet") };
    thread::scope(|scope| {
        let (queue, write) = (&queue, &write);
        let mut threads = Vec::new();
        for item in 1..=count {
            threads.push(scope.spawn(move || queue.run(item, write)));
            // Their order is the order of the items.
            while queue.waiting_count() < item as usize {
                thread::yield_now();
            }
        }
        drop(lead);
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    })
}

#[test]
fn one_writes_for_all_who_wait_in_the_order_they_came() {
    let calls = std::sync::Mutex::new(Vec::new());
    let answers = answers_of(3, |items| {
        calls.lock().unwrap().push(items.iter().map(|&&item| item).collect::<Vec<_>>());
        items.iter().map(|&item| item * 2).collect()
    });
    let answers: Vec<u32> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(answers, [2, 4, 6]);
    assert_eq!(*calls.lock().unwrap(), [vec![1, 2, 3]]);
}

#[test]
fn who_waits_for_a_leader_that_panics_is_told_and_the_lead_goes_on() {
    let answers = answers_of(3, |_| panic!("a leader of the test"));
    assert!(answers[0].is_err(), "the leader panics");
    for answer in &answers[1..] {
        assert!(matches!(answer, Ok(Err(Error::Unanswered))), "{answer:?}");
    }

    let queue: Queue<u32, u32> = Queue::default();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.run(1, |_| panic!("a leader of the test")))).is_err());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(queue.run(2, |items| vec![items.len() as u32])));
    assert_eq!(receiver.recv_timeout(LONG).expect("the lead is lost").unwrap(), 1);
}

#[test]
fn an_answer_that_a_leader_forgets_is_an_error() {
    let answers = answers_of(2, |items| vec![*items[0]]);
    assert!(matches!(answers[0], Ok(Ok(1))), "{answers:?}");
    assert!(matches!(answers[1], Ok(Err(Error::Unanswered))), "{answers:?}");
    assert!(matches!(Queue::<(), ()>::default().run((), |_| Vec::new()), Err(Error::Unanswered)));
}
