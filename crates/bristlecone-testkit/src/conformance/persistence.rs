//! What was appended is there when the store is opened again.

use std::{
    fs::{self, File},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bristlecone::{Backend, Durability, Error, Expected, RefMove, Roots, SweepLimits};
use bristlecone_core::{Object, Oid};

use super::{append_all, family, object, set};
use crate::sample::{Sample, Samples};

/// Objects, refs and their removals are there after the last handle was dropped and the store opened again.
///
/// # Panics
/// If it is not so.
pub fn everything_is_there_after_reopening(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let mut samples = Samples::default();
    let family = family(&*backend);
    let all: Vec<Sample> = (0..200).map(|n| family.contents(n, n as usize * 13)).collect();
    for (n, sample) in all.iter().enumerate() {
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][n % 3];
        let moves = [set(family.ref_name(&format!("ref{}", n % 7)), Expected::Any, object(sample.oid))];
        append_all(&*backend, std::slice::from_ref(sample), &moves, durability).unwrap();
        samples.insert(sample.clone());
    }
    let remove = RefMove { name: family.ref_name("ref3"), expected: Expected::Any, to: None };
    append_all(&*backend, &[], &[remove], Durability::Synced).unwrap();
    let refs = backend.list_refs("").unwrap();
    assert_eq!(refs.len(), 6);
    backend.flush().unwrap();
    drop(backend);
    for _ in 0..3 {
        let backend = reopen();
        assert_eq!(backend.list_refs("").unwrap(), refs);
        for sample in &all {
            sample.expect(&*backend, bristlecone_core::Location::NONE).unwrap();
        }
        samples.expect_sound(&*backend).unwrap();
    }
}

/// A store that was opened again takes appends, round after round.
///
/// # Panics
/// If it is not so.
pub fn a_reopened_store_goes_on(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let mut backend = backend;
    let family = family(&*backend);
    let mut expected = Expected::Absent;
    for n in 0..12 {
        let sample = family.contents(n, 400 * n as usize);
        let to = object(sample.oid);
        append_all(&*backend, &[sample], &[set(family.ref_name("main"), expected, to.clone())], Durability::None)
            .unwrap();
        expected = Expected::Is(to);
        drop(backend);
        backend = reopen();
        for earlier in 0..=n {
            let sample = family.contents(earlier, 400 * earlier as usize);
            sample.expect(&*backend, bristlecone_core::Location::NONE).unwrap();
        }
    }
}

/// Positions rise over reopening as they do within one handle.
///
/// # Panics
/// If it is not so.
pub fn positions_go_on_after_reopening(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let family = family(&*backend);
    let mut backend = backend;
    let mut last = backend.position().unwrap();
    for n in 0..6 {
        let sample = family.contents(n, 30);
        let moves = [set(family.ref_name("main"), Expected::Any, object(sample.oid))];
        append_all(&*backend, &[sample], &moves, Durability::None).unwrap();
        let now = backend.position().unwrap();
        assert!(now > last || now.is_none(), "{now:?} after {last:?}");
        last = now;
        drop(backend);
        backend = reopen();
        // Closing and opening may count as moves do, but only upwards.
        let opened = backend.position().unwrap();
        assert!(opened >= last && opened.is_some() == last.is_some(), "{opened:?} after {last:?}");
        assert_eq!(backend.snapshot(&[]).position(), opened);
        last = opened;
    }
}

/// What one handle appended another one sees that was open meanwhile, durable or not: objects, refs, moves and removals.
/// One that says that several processes can work on a store keeps to it.
///
/// # Panics
/// If it is not so.
pub fn another_handle_sees_what_was_appended(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    if !backend.capabilities().processes {
        return;
    }
    let family = family(&*backend);
    let main = family.ref_name("main");
    let handles = [backend, reopen()];
    let early = handles.each_ref().map(|handle| handle.snapshot(&[]));
    let mut held = None;
    for n in 0..24 {
        let (one, other) = (&handles[n % 2], &handles[(n + 1) % 2]);
        let sample = family.contents(n as u64, n * 150);
        assert!(other.read(&sample.oid.into()).unwrap().is_none(), "it is looked for before it is there");
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][n / 2 % 3];
        let expected = held.take().map_or(Expected::Absent, Expected::Is);
        let to = (n % 5 != 4).then(|| object(sample.oid));
        let wanted = RefMove { name: main.clone(), expected: expected.clone(), to: to.clone() };
        append_all(&**one, std::slice::from_ref(&sample), std::slice::from_ref(&wanted), durability).unwrap();
        for handle in &handles {
            assert_eq!(handle.get_ref(&main).unwrap(), to, "after move {n}");
            assert_eq!(handle.list_refs("").unwrap().get(&main), to.as_ref());
            sample.expect(&**handle, bristlecone_core::Location::NONE).unwrap();
        }
        assert_eq!(one.position().unwrap(), other.position().unwrap());
        for snapshot in &early {
            assert!(snapshot.read(&sample.oid.into()).unwrap().is_some(), "a snapshot finds what comes later");
        }
        // Only one of them moves a ref from what it held.
        if expected != Expected::Absent || to.is_some() {
            let late = append_all(&**other, &[], &[wanted], durability);
            assert!(matches!(late, Err(Error::RefMoved { .. })), "{late:?}");
        }
        held = to;
    }
}

/// A sweep by one handle leaves what a snapshot of another shows, or is refused as long as there is another.
///
/// # Panics
/// If it is not so.
pub fn a_sweep_leaves_what_another_handle_shows(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let can = backend.capabilities();
    if !(can.processes && can.sweep) {
        return;
    }
    let family = family(&*backend);
    let other = reopen();
    let samples: Vec<Sample> = (0..4).map(|n| family.contents(n, 500)).collect();
    let names: Vec<String> = (0..4).map(|n| family.ref_name(&format!("r{n}"))).collect();
    for (sample, name) in samples.iter().zip(&names) {
        let moves = [set(name, Expected::Any, object(sample.oid))];
        append_all(&*backend, std::slice::from_ref(sample), &moves, Durability::None).unwrap();
    }
    let snapshot = backend.snapshot(&[]);
    let remove = |name: &String| {
        let wanted = RefMove { name: name.clone(), expected: Expected::Any, to: None };
        append_all(&*other, &[], &[wanted], Durability::None).unwrap();
    };
    names[..3].iter().for_each(remove);
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let all = || other.sweep(&Roots::new(&[], &children), &SweepLimits::default());
    // A backend may refuse to sweep while another handle is open.
    let swept = match all() {
        Err(Error::Locked { .. }) => false,
        swept => swept.map(|_| true).unwrap(),
    };
    for sample in &samples {
        let object = snapshot.read(&sample.oid.into()).unwrap().expect("the snapshot shows it");
        assert_eq!(sample.mismatch(&object), None);
    }
    drop(snapshot);
    if !swept {
        return;
    }
    all().unwrap();
    // Seen by both, whichever swept.
    for handle in [&backend, &other] {
        let there: Vec<bool> =
            samples.iter().map(|sample| handle.read(&sample.oid.into()).unwrap().is_some()).collect();
        assert_eq!(there, [false, false, false, true]);
    }
}

/// What a process left that died while it wrote a derived file goes when the store is opened to be written. `derived`: the folder of
/// these files; `open` opens the store, which nobody has open, to be read alone if it is told so.
///
/// # Panics
/// If it is not so.
pub fn what_is_left_of_a_derived_file_is_removed(derived: &Path, open: &dyn Fn(bool) -> Arc<dyn Backend>) {
    open(false).write_derived("history", b"whole").unwrap();
    let left = derived.join("history.new-0123456789abcdef");
    fs::write(&left, "a part").unwrap();
    let old = SystemTime::now() - Duration::from_secs(3600);
    File::options().write(true).open(&left).unwrap().set_modified(old).unwrap();
    for read_only in [true, false] {
        let backend = open(read_only);
        assert_eq!(left.exists(), read_only);
        assert_eq!(backend.read_derived("history").unwrap().as_deref(), Some(&b"whole"[..]));
    }
}
