//! Sweeps beside appends.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use bristlecone::{
    Backend as _, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Object, Oid, OidPrefix, RefMove,
    RefTarget, Roots, SweepLimits, SweepStatus, SweepStep,
};
use bristlecone_lsm::LsmBackend;
use bristlecone_testkit::sample::{Family, Sample};

use crate::{create, tiny};

fn append(backend: &LsmBackend, samples: &[&Sample], moves: &[RefMove]) -> Result<(), Error> {
    let mut batch = Batch::since(backend.sweeps());
    samples.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
    backend.append(batch, moves, Durability::None).map(drop)
}

/// How something leads to an object that is absent.
#[derive(Clone, Copy, Debug)]
enum LedBy {
    Child,
    Root,
    Ref,
}

#[test]
fn what_arrives_while_a_sweep_marks_keeps_what_is_below_it() {
    for led_by in [LedBy::Child, LedBy::Root, LedBy::Ref] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), tiny());
        let family = Family::default();
        let [below, other] = [family.contents(1, 30), family.contents(2, 30)];
        let arrives = family.sample(3, Kind::Node, &[below.child()], 10);
        let children =
            if matches!(led_by, LedBy::Child) { vec![other.child(), arrives.child()] } else { vec![other.child()] };
        let head = family.sample(4, Kind::Node, &children, 10);
        let garbage = family.contents(5, 30);
        let move_to = |name: &str, oid: Oid| RefMove {
            name: name.to_owned(),
            expected: Expected::Any,
            to: Some(RefTarget::Object(oid.into())),
        };
        let moves = match led_by {
            LedBy::Ref => vec![move_to("main", head.oid), move_to("next", arrives.oid)],
            _ => vec![move_to("main", head.oid)],
        };
        append(&backend, &[&other, &head, &garbage], &moves).unwrap();
        let samples = HashMap::from([(head.oid, &head), (arrives.oid, &arrives)]);
        let oids = if matches!(led_by, LedBy::Root) { vec![arrives.oid] } else { Vec::new() };
        // The value is looked at once; what is absent before it or after it by turns.
        let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            if *oid == other.oid && backend.read(&arrives.oid.into())?.is_none() {
                append(&backend, &[&below, &arrives], &[])?;
            }
            samples.get(oid).into_iter().flat_map(|sample| &sample.children).for_each(|child| each(child.oid));
            Ok(())
        };
        let swept = backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).unwrap();
        assert_eq!(swept.objects, 1, "{led_by:?}: the garbage");
        for sample in [&below, &arrives, &other, &head] {
            sample.expect(&backend, Location::NONE).unwrap_or_else(|wrong| panic!("{led_by:?}: {wrong}"));
        }
    }
}

#[test]
fn a_walk_meets_what_is_appended_again_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let samples: Vec<Sample> = (0..20).map(|number| family.contents(number, 300)).collect();
    samples.iter().for_each(|sample| append(&backend, &[sample], &[]).unwrap());
    // One that is on two pages before the walk, too.
    append(&backend, &[&samples[3]], &[]).unwrap();
    let mut met = HashMap::new();
    let mut each = |oid: Oid, _: &Object<'_>| {
        if met.is_empty() {
            let again: Vec<&Sample> = samples.iter().collect();
            append(&backend, &again, &[])?;
            assert!(backend.locate(&family.contents(999, 300).oid).is_none(), "the new page is read");
        }
        *met.entry(oid).or_insert(0) += 1;
        Ok(())
    };
    backend.each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    for sample in &samples {
        assert_eq!(met.get(&sample.oid), Some(&1), "{}", sample.oid);
    }
}

#[test]
fn a_walk_meets_what_a_sweep_moves_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let live: Vec<Sample> = (0..20).map(|number| family.contents(number, 300)).collect();
    for (number, sample) in live.iter().enumerate() {
        // On the same page, so that the page is written anew.
        append(&backend, &[sample, &family.contents(100 + number as u64, 300)], &[]).unwrap();
    }
    let below: Vec<_> = live.iter().map(Sample::child).collect();
    let head = family.sample(200, Kind::Node, &below, 10);
    let moves =
        RefMove { name: "main".to_owned(), expected: Expected::Any, to: Some(RefTarget::Object(head.oid.into())) };
    append(&backend, &[&head], &[moves]).unwrap();
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        if *oid == head.oid {
            live.iter().for_each(|sample| each(sample.oid));
        }
        Ok(())
    };
    let gone = family.contents(100, 300).oid;
    let gone = ObjRef::new(gone, backend.locate(&gone).unwrap());
    let (mut met, mut swept) = (HashMap::new(), 0);
    let mut each = |oid: Oid, _: &Object<'_>| {
        if met.is_empty() {
            swept = backend.sweep(&Roots::new(&[], &children), &SweepLimits::default())?.objects;
        }
        *met.entry(oid).or_insert(0) += 1;
        Ok(())
    };
    backend.each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(swept, 20);
    // Its page is still there, and it is not.
    assert!(backend.read(&gone).unwrap().is_none() && backend.snapshot(&[]).read(&gone).unwrap().is_none());
    for sample in live.iter().chain([&head]) {
        assert_eq!(met.get(&sample.oid), Some(&1), "{}", sample.oid);
    }
    // What was left to do beside the walk is done by the next sweep.
    assert_eq!(backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 0);
    for sample in live.iter().chain([&head]) {
        sample.expect(&backend, Location::NONE).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    // What the caller says ends the walk, whatever it is.
    let stop = Error::Corrupt { file: "mine".to_owned(), offset: 0, oid: None, reason: String::new() };
    let ended = backend.each_object(&mut |_, _| Err(stop.clone()), &mut |damage| panic!("{damage:?}"));
    assert!(matches!(ended, Err(Error::Corrupt { file, .. }) if file == "mine"));
}

#[test]
fn the_first_digits_of_an_id_lead_to_what_a_sweep_moved_and_not_to_what_it_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let samples: Vec<Sample> = (0..40).map(|number| family.contents(number, 300)).collect();
    // Two by two on a page, so that the sweep moves one and drops the other.
    samples.chunks(2).for_each(|two| append(&backend, &[&two[0], &two[1]], &[]).unwrap());
    let oids: Vec<Oid> = samples.iter().step_by(2).map(|sample| sample.oid).collect();
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let swept = backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).unwrap();
    assert_eq!(swept.objects, 20);
    // In memory as well as in the database, and in memory alone.
    let new = family.contents(40, 300);
    append(&backend, &[&samples[4], &new], &[]).unwrap();
    for (number, sample) in samples.iter().chain([&new]).enumerate() {
        for digits in [7, 64] {
            let prefix: OidPrefix = sample.oid.to_string()[..digits].parse().unwrap();
            let mut met = Vec::new();
            let mut each = |oid: Oid, object: &Object<'_>| {
                assert!(object.body() == sample.body);
                met.push(oid);
                Ok(())
            };
            backend.each_with_prefix(&prefix, &mut each).unwrap();
            met.dedup();
            let expected = if number % 2 == 0 { vec![sample.oid] } else { Vec::new() };
            assert_eq!(met, expected, "{number}");
        }
    }
}

#[test]
fn what_is_on_several_pages_is_dropped_from_all() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let [twice, stays] = [family.contents(1, 300), family.contents(2, 300)];
    let append = |samples: &[&Sample]| {
        let mut batch = Batch::since(backend.sweeps());
        samples.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
        ObjRef::new(twice.oid, backend.append(batch, &[], Durability::None).unwrap())
    };
    let places = [append(&[&twice, &stays]), append(&[&twice])];
    assert_ne!(places[0].at, places[1].at);
    let (children, oids) = (|_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(()), [stays.oid]);
    let swept = backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).unwrap();
    assert_eq!(swept.objects, 1);
    // Nor where it was first: who goes on from what is gone would build on it.
    for at in places {
        assert!(backend.read(&at).unwrap().is_none(), "{at:?} is still read where it was");
        assert!(backend.snapshot(&[]).read(&at).unwrap().is_none(), "a snapshot still reads {at:?}");
    }
    stays.expect(&backend, Location::NONE).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn who_watches_a_sweep_may_ask_for_refs_whatever_is_appended_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let samples: Vec<Sample> = (0..1200).map(|number| family.contents(number, 30)).collect();
    let (sender, ended) = mpsc::channel();
    // If it waits for itself, nobody waits for it.
    let sweeping = thread::spawn(move || {
        let (there, later) = samples.split_at(400);
        append(&backend, &there.iter().collect::<Vec<_>>(), &[]).unwrap();
        // It keeps what comes: that is marked once appends wait.
        let _snapshot = backend.snapshot(&[]);
        let told = Cell::new(0);
        let watch = |_: &SweepStatus| {
            if told.replace(told.get() + 1) == 0 {
                append(&backend, &later.iter().collect::<Vec<_>>(), &[])?;
            }
            let _ = backend.stats();
            backend.get_ref("main").map(drop)
        };
        let oids: Vec<Oid> = there.iter().map(|sample| sample.oid).collect();
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        let swept = backend.sweep(&Roots::new(&oids, &children).watch(&watch), &SweepLimits::default());
        let _ = sender.send(swept.map(|swept| (swept.objects, told.get() > 0)));
    });
    let swept = ended.recv_timeout(Duration::from_secs(120)).expect("the sweep ends");
    assert_eq!(swept.unwrap(), (0, true));
    sweeping.join().unwrap();
}

/// Without threads of ours an append writes the index that is due; beside a sweep, which has the index for itself, a later one does.
#[test]
fn appends_do_not_wait_for_a_sweep_with_an_index_that_is_due() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Arc::new(create(dir.path(), tiny().background(false)));
    let family = Family::default();
    // More than the index waits for.
    let samples: Vec<Sample> = (0..700).map(|number| family.contents(number, 100)).collect();
    append(&backend, &samples.iter().collect::<Vec<_>>(), &[]).unwrap();
    let new = family.contents(1000, 100);
    let asked = Cell::new(false);
    let watch = |_: &SweepStatus| -> Result<(), Error> {
        if asked.replace(true) {
            return Ok(());
        }
        let (sender, ended) = mpsc::channel();
        let (backend, new) = (backend.clone(), new.clone());
        // If it waits for the sweep, nobody waits for it.
        thread::spawn(move || sender.send(append(&backend, &[&new], &[])));
        ended.recv_timeout(Duration::from_secs(30)).expect("the append ends")
    };
    let oids: Vec<Oid> = samples.iter().map(|sample| sample.oid).collect();
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let swept = backend.sweep(&Roots::new(&oids, &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert!(asked.get() && swept.objects <= 1, "{swept:?}");
    append(&backend, &[&new], &[]).unwrap();
    new.expect(&*backend, Location::NONE).unwrap_or_else(|wrong| panic!("{wrong}"));
}

#[test]
fn who_watches_a_sweep_is_told_what_it_dropped_and_ends_it_before_pages_are_cleaned() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), tiny());
    let family = Family::default();
    let [gone, stays] = [family.contents(1, 300), family.contents(2, 300)];
    append(&backend, &[&gone, &stays], &[]).unwrap();
    let (children, oids) = (|_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(()), [stays.oid]);
    let told = Cell::new(0);
    let watch = |status: &SweepStatus| -> Result<(), Error> {
        if status.step != SweepStep::Remove {
            return Ok(());
        }
        told.set(status.objects);
        Err(Error::Stopped)
    };
    let swept = backend.sweep(&Roots::new(&oids, &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert_eq!((swept.objects, swept.more, told.get()), (1, true, 1));
    assert!(backend.read(&gone.oid.into()).unwrap().is_none());
    // The next sweep cleans the page.
    let swept = backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).unwrap();
    assert_eq!((swept.objects, swept.more), (0, false));
    stays.expect(&backend, Location::NONE).unwrap_or_else(|wrong| panic!("{wrong}"));
}
