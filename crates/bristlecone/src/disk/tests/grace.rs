//! What loses its ref stays for the grace from then on, however long it had the ref.

use bristlecone_core::Kind;

use super::{super::roll::LATER, *};
use crate::SweepLimits;

const DAY: u32 = 86_400;

/// Sets how many hours after the beginning it is.
fn at_hour(hour: u32) {
    LATER.set(hour * 3600);
}

/// Makes an object to which a ref leads, another one in its place.
fn set(backend: &DiskBackend, name: &str, number: u64) {
    backend.append(batch(number..number + 1, 100), &[to(name, number, Expected::Any)], Durability::None).unwrap();
}

fn remove(backend: &DiskBackend, name: &str) {
    let removed = RefMove { name: name.to_owned(), expected: Expected::Any, to: None };
    backend.append(Batch::new(), &[removed], Durability::None).unwrap();
}

fn sweep(backend: &DiskBackend, partial: bool) -> Swept {
    let none = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    backend.sweep(&Roots::new(&[], &none), &SweepLimits::default().grace(DAY).partial(partial)).unwrap()
}

fn is_there(backend: &DiskBackend, number: u64) -> bool {
    backend.read(&oid(number).into()).unwrap().is_some()
}

/// A store with so many refs, and two objects that lost theirs in its first hours.
fn store(dir: &Path, refs: u64) -> DiskBackend {
    at_hour(0);
    let backend = create(dir, small());
    (0..refs).for_each(|number| set(&backend, &format!("refs/{number}"), number));
    set(&backend, "garbage", 1000);
    remove(&backend, "garbage");
    at_hour(5);
    set(&backend, "garbage", 1001);
    remove(&backend, "garbage");
    backend
}

#[test]
fn what_a_ref_left_within_the_grace_stays_however_long_it_had_been_there() {
    // Many refs are in tables.
    for (refs, forced, partial) in [(1, false, false), (1, true, false), (100, false, false), (100, true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let backend = store(dir.path(), refs);
        // In the log, in the same segment or not, and in a cold segment.
        for (number, ahead) in [(2000, 0), (2001, 200), (2002, 0)] {
            set(&backend, &format!("side/{number}"), number);
            (0..ahead).for_each(|number| set(&backend, "busy", 3000 + number));
        }
        let leave = |number: u64| match forced {
            true => set(&backend, &format!("side/{number}"), number + 100),
            false => remove(&backend, &format!("side/{number}")),
        };
        at_hour(240);
        [2000, 2001].into_iter().for_each(leave);
        assert!(sweep(&backend, false).objects > 0, "the garbage");
        assert!(!is_there(&backend, 1000) && is_there(&backend, 2000) && is_there(&backend, 2001));
        at_hour(250);
        leave(2002);
        // Something that can go, so that there is a collection.
        at_hour(263);
        sweep(&backend, partial);
        assert_eq!([2000, 2001, 2002].map(|number| is_there(&backend, number)), [true; 3], "{refs} {forced} {partial}");
        at_hour(265);
        sweep(&backend, false);
        assert_eq!([2000, 2001, 2002].map(|number| is_there(&backend, number)), [false, false, true]);
        at_hour(275);
        sweep(&backend, false);
        assert!(!is_there(&backend, 2002));
        (0..refs).for_each(|number| assert!(is_there(&backend, number)));
        at_hour(0);
    }
}

#[test]
fn the_grace_counts_from_when_the_ref_left_and_not_from_when_it_came() {
    for (refs, rolled) in [(1, false), (1, true), (100, true)] {
        let dir = tempfile::tempdir().unwrap();
        let backend = store(dir.path(), refs);
        at_hour(26);
        set(&backend, "side", 2000);
        if rolled {
            // The next segment's head lists the ref.
            assert!(sweep(&backend, false).objects > 0);
        }
        at_hour(46);
        remove(&backend, "side");
        at_hour(49);
        assert!(sweep(&backend, false).objects > 0, "the later garbage");
        // A day has passed since it came, and not since it was left.
        for hour in [51, 69] {
            at_hour(hour);
            sweep(&backend, false);
            assert!(is_there(&backend, 2000), "{refs} {rolled} at {hour}");
        }
        at_hour(71);
        sweep(&backend, false);
        assert!(!is_there(&backend, 2000), "{refs} {rolled}");
        at_hour(0);
    }
}

#[test]
fn what_hangs_together_stays_for_as_long_as_each_part_must() {
    let dir = tempfile::tempdir().unwrap();
    let backend = store(dir.path(), 1);
    let parent = oid(2001);
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        if *oid == parent {
            each(super::oid(2000));
        }
        Ok(())
    };
    let sweep = || backend.sweep(&Roots::new(&[], &children), &SweepLimits::default().grace(DAY)).unwrap();
    set(&backend, "below", 2000);
    let mut above = Batch::new();
    above.put(Kind::Node, parent, &body(2001, 100), &[Location::NONE], &[]);
    above.leave_out(oid(2000));
    backend.append(above, &[to("above", 2001, Expected::Any)], Durability::None).unwrap();
    at_hour(90);
    remove(&backend, "above");
    at_hour(95);
    assert!(sweep().objects > 0);
    at_hour(100);
    remove(&backend, "below");
    at_hour(113);
    sweep();
    assert!(is_there(&backend, 2000) && is_there(&backend, 2001));
    at_hour(123);
    sweep();
    assert!(is_there(&backend, 2000) && !is_there(&backend, 2001));
    at_hour(125);
    sweep();
    assert!(!is_there(&backend, 2000));
    at_hour(0);
}

/// A tree that was written and is held, or a branch that was removed while something read by a snapshot.
#[test]
fn what_a_snapshot_keeps_as_well_stays_for_the_rest_of_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let backend = store(dir.path(), 1);
    set(&backend, "side", 2001);
    at_hour(240);
    backend.append(batch(2000..2001, 100), &[], Durability::None).unwrap();
    let held = backend.snapshot(&[oid(2000)]);
    remove(&backend, "side");
    assert!(sweep(&backend, false).objects > 0, "the garbage");
    drop(held);
    for (hour, there) in [(241, true), (263, true), (265, false)] {
        at_hour(hour);
        sweep(&backend, false);
        assert_eq!([2000, 2001].map(|number| is_there(&backend, number)), [there; 2], "at {hour}");
    }
    at_hour(0);
}
