//! Objects go in and come out unchanged, by id and by hint.

use std::collections::{BTreeMap, HashMap};

use bristlecone::{Batch, Durability, Expected};
use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, OidPrefix, Sink, git};

use super::{Make, append_all, append_one, family};
use crate::{
    generate::Rng,
    sample::{Family, Sample, appended},
};

/// What was appended is read back, by id alone and by its place, with its kind.
///
/// # Panics
/// If it is not so.
pub fn appended_objects_are_read_back(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let kinds = family.kinds();
    let sample = |n: u64| family.sample(n, kinds[n as usize % kinds.len()], &[], n as usize * 37);
    let samples: Vec<Sample> = (0..50).map(sample).collect();
    for durability in [Durability::None, Durability::Grouped, Durability::Synced] {
        let part = &samples[durability as usize * 16..][..16];
        let places = append_all(&*backend, part, &[], durability).expect("an append without moves");
        for (sample, at) in part.iter().zip(places) {
            sample.expect(&*backend, at.at).unwrap();
            sample.expect(&*backend, Location::NONE).unwrap();
        }
    }
    // Appending nothing is allowed.
    backend.append(Batch::new(), &[], Durability::Synced).unwrap();
}

/// An object that was never appended is `Ok(None)`, in an empty backend too.
///
/// # Panics
/// If it is not so.
pub fn absent_objects_are_absent(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let absent = family.contents(1, 10).oid;
    assert!(backend.read(&absent.into()).unwrap().is_none());
    assert!(backend.locate(&absent).is_none());
    let there = append_one(&*backend, &family.contents(2, 10));
    assert!(backend.read(&absent.into()).unwrap().is_none());
    assert!(backend.read(&ObjRef::new(absent, there.at)).unwrap().is_none());
    assert!(backend.locate(&absent).is_none());
}

/// An object given twice to a batch is there once; appended again in another batch it does no harm.
///
/// # Panics
/// If it is not so.
pub fn the_same_object_is_kept_once_in_a_batch(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let sample = family.contents(1, 100);
    let mut batch = Batch::new();
    let first = sample.put(&mut batch, &HashMap::new());
    assert_eq!(sample.put(&mut batch, &HashMap::new()), first);
    assert_eq!(batch.len(), 1);
    let base = backend.append(batch, &[], Durability::None).unwrap();
    sample.expect(&*backend, appended(first, base)).unwrap();
    let again = append_one(&*backend, &sample);
    sample.expect(&*backend, again.at).unwrap();
    sample.expect(&*backend, appended(first, base)).unwrap();
    sample.expect(&*backend, Location::NONE).unwrap();
}

/// A hint that leads elsewhere or nowhere costs time and nothing else.
///
/// # Panics
/// If it is not so.
pub fn hints_may_be_stale_wrong_or_missing(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let samples: Vec<Sample> = (0..20).map(|n| family.contents(n, 64 + n as usize)).collect();
    let places: Vec<ObjRef> = samples.iter().map(|sample| append_one(&*backend, sample)).collect();
    let mut rng = Rng::new(3);
    let mut hints: Vec<Location> = places.iter().map(|at| at.at).collect();
    hints.extend([0, 1, 7, 8, u64::MAX, u64::MAX - 1, 1 << 63, (1 << 63) - 1, 1 << 32, 1 << 40].map(Location));
    hints.extend((0..200).map(|_| Location(rng.next_u64() >> rng.below(64))));
    let near = hints.clone();
    hints.extend(near.iter().take(20).flat_map(|at| [1_u64, 4, 8, 16].map(|by| Location(at.0.wrapping_add(by)))));
    for sample in &samples {
        for &hint in &hints {
            sample.expect(&*backend, hint).unwrap();
        }
    }
    let absent = family.contents(99, 64).oid;
    for &hint in &hints {
        assert!(backend.read(&ObjRef::new(absent, hint)).unwrap().is_none(), "{hint:?}");
    }
    for (sample, at) in samples.iter().zip(places) {
        if let Some(found) = backend.locate(&sample.oid) {
            sample.expect(&*backend, found).unwrap();
            assert!(backend.capabilities().locations || found == at.at);
        }
    }
}

/// The locations of an object's children lead to them: within a batch, across batches, and after many others.
///
/// # Panics
/// If it is not so.
pub fn children_are_found_by_location(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let mut known = HashMap::new();
    let mut above: Vec<Sample> = Vec::new();
    for n in 0..40_u64 {
        let leaf = family.contents(n * 3, 50 * n as usize);
        let mut children = vec![leaf.child()];
        children.extend(above.iter().rev().take(3).map(Sample::child));
        let node = family.sample(n * 3 + 1, Kind::Node, &children, 9);
        let mut batch = Batch::new();
        let places = [&leaf, &node].map(|sample| (sample.oid, sample.put(&mut batch, &known)));
        let base = backend.append(batch, &[], Durability::None).unwrap();
        known.extend(places.map(|(oid, at)| (oid, appended(at, base))));
        above.extend([leaf, node]);
    }
    let by_oid: BTreeMap<Oid, &Sample> = above.iter().map(|sample| (sample.oid, sample)).collect();
    for sample in &above {
        let object = backend.read(&ObjRef::new(sample.oid, known[&sample.oid])).unwrap().expect("appended");
        if backend.capabilities().locations {
            assert_eq!(object.children(), sample.children.len());
        }
        for (index, child) in sample.children.iter().enumerate() {
            by_oid[&child.oid].expect(&*backend, object.child(index)).unwrap();
        }
    }
}

/// `read_many` answers in the order of the questions, absent ones and repeated ones included, as far as it was told to.
///
/// # Panics
/// If it is not so.
pub fn read_many_answers_in_order(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let samples: Vec<Sample> = (0..300).map(|n| family.contents(n, n as usize)).collect();
    let places = append_all(&*backend, &samples[..200], &[], Durability::None).unwrap();
    let mut rng = Rng::new(4);
    let asked: Vec<usize> = (0..500).map(|_| rng.index(300)).collect();
    let at: Vec<ObjRef> =
        asked.iter().map(|&n| if n < 200 && n % 2 == 0 { places[n] } else { samples[n].oid.into() }).collect();
    let snapshot = backend.snapshot(&[]);
    for bytes_max in [usize::MAX, 1000, 0] {
        let mut answered = 0;
        while answered < asked.len() {
            let found = snapshot.read_many(&at[answered..], bytes_max).unwrap();
            let (answers, questions) = (found.len(), asked.len() - answered);
            assert!((1..=questions).contains(&answers), "read_many gave {answers} answers to {questions} questions");
            let bytes = |found: &Option<Object<'_>>| found.as_ref().map_or(0, Object::read_bytes);
            let bytes: usize = found[..found.len() - 1].iter().map(bytes).sum();
            assert!(bytes == 0 || bytes < bytes_max, "{bytes} bytes before the last object, of {bytes_max}");
            for (&n, found) in asked[answered..].iter().zip(&found) {
                assert_eq!(found.is_some(), n < 200);
                assert_eq!(found.as_ref().and_then(|object| samples[n].mismatch(object)), None);
            }
            answered += found.len();
        }
    }
    assert!(snapshot.read_many(&[], usize::MAX).unwrap().is_empty());
}

/// A backend that keeps one format's objects alone says so of any other, and adds nothing.
///
/// # Panics
/// If it is not so.
pub fn what_cannot_be_kept_is_refused(make: Make<'_>) {
    let backend = make();
    let Family::Git(algorithm) = family(&*backend) else { return };
    let plain = Family::Plain.contents(1, 50);
    let other = if algorithm == git::Algorithm::Sha1 { git::Algorithm::Sha256 } else { git::Algorithm::Sha1 };
    let mut refused = vec![
        Family::Plain.with_payload(plain.oid, Kind::Contents, &[], b"a list that Git does not have"),
        Family::Git(other).contents(1, 50),
        Family::Plain.with_payload(Oid::new(&[7; 5]).unwrap(), Kind::Contents, &[], b"a short id"),
    ];
    refused[0].kind = Kind::Pieces;
    refused[0].oid = family(&*backend).no_object(3);
    for sample in refused {
        for durability in [Durability::None, Durability::Synced] {
            let added = append_all(&*backend, std::slice::from_ref(&sample), &[], durability);
            assert!(matches!(added, Err(bristlecone::Error::Usage { .. })), "{added:?}");
            assert!(!matches!(backend.read(&sample.oid.into()), Ok(Some(_))));
        }
    }
}

/// Ids have 1 to 32 bytes; one that starts another, or is it padded with zeroes, is another id.
///
/// # Panics
/// If it is not so.
pub fn ids_of_every_length_are_kept_apart(make: Make<'_>) {
    let backend = make();
    if family(&*backend) != Family::Plain {
        // Ids are digests of one length: `what_cannot_be_kept_is_refused`.
        return;
    }
    let digest = Rng::new(5).bytes(32);
    let mut samples = Vec::new();
    for bytes in 1..=32 {
        let mut zeroes = digest[..bytes].to_vec();
        zeroes[bytes - 1] = 0;
        for id in [&digest[..bytes], &zeroes[..], &vec![0; bytes]] {
            let oid = Oid::new(id).unwrap();
            if samples.iter().all(|sample: &Sample| sample.oid != oid) {
                let payload = [bytes as u8; 3].map(|b| b + zeroes[0]);
                samples.push(Family::Plain.with_payload(oid, Kind::Contents, &[], &payload));
            }
        }
    }
    let places = append_all(&*backend, &samples, &[], Durability::None).unwrap();
    for (sample, at) in samples.iter().zip(places) {
        sample.expect(&*backend, at.at).unwrap();
        sample.expect(&*backend, Location::NONE).unwrap();
    }
}

/// Metadata words of a record come back where the backend keeps records as they are; else there are no such words.
///
/// # Panics
/// If it is not so.
pub fn metadata_words_come_back(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    for count in [0, 1, 2, 7] {
        let sample = family.contents(count, 33);
        let words: Vec<u64> = (0..count).map(|n| n.wrapping_mul(0x1234_5678_9abc_def1)).collect();
        let mut batch = Batch::new();
        let at = batch.put(sample.kind, sample.oid, &sample.body, &[Location::NONE, Location(5)], &words);
        let base = backend.append(batch, &[], Durability::None).unwrap();
        let object = backend.read(&ObjRef::new(sample.oid, appended(at, base))).unwrap().expect("appended");
        assert_eq!(sample.mismatch(&object), None);
        let found: Vec<Option<u64>> = (0..=count as usize).map(|n| object.metadata_word(n)).collect();
        let kept: Vec<Option<u64>> = words.iter().copied().map(Some).chain([None]).collect();
        let lost = !backend.capabilities().locations && found.iter().all(Option::is_none);
        assert!(found == kept || lost, "{found:?} for {kept:?}");
    }
}

/// Objects of several MiB come back whole, alone and beside small ones.
///
/// # Panics
/// If it is not so.
pub fn large_objects_come_back_whole(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let samples =
        [family.contents(1, 5 << 20), family.contents(2, 10), family.contents(3, (3 << 20) + 1), family.contents(4, 0)];
    let places = append_all(&*backend, &samples, &[], Durability::Synced).unwrap();
    let single = family.contents(5, (2 << 20) - 7);
    let at = append_one(&*backend, &single);
    for (sample, at) in samples.iter().chain([&single]).zip(places.into_iter().chain([at])) {
        sample.expect(&*backend, at.at).unwrap();
        sample.expect(&*backend, Location::NONE).unwrap();
    }
}

/// Ten thousand small objects, in batches of very different sizes, come back.
///
/// # Panics
/// If it is not so.
pub fn many_small_objects_come_back(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let samples: Vec<Sample> = (0..10_000).map(|n| family.contents(n, n as usize % 90)).collect();
    let mut rest = &samples[..];
    let mut rng = Rng::new(6);
    while !rest.is_empty() {
        let bound = if rng.chance(1, 4) { 2000 } else { 40 };
        let size = 1 + rng.index(bound);
        let (part, later) = rest.split_at(size.min(rest.len()));
        append_all(&*backend, part, &[], Durability::None).unwrap();
        rest = later;
    }
    for sample in &samples {
        sample.expect(&*backend, Location::NONE).unwrap();
    }
}

/// A batch that is kept for more leaves its objects behind and is empty afterwards, again and again.
///
/// # Panics
/// If it is not so.
pub fn a_batch_is_appended_and_used_again(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let mut batch = Batch::new();
    let mut all = Vec::new();
    for n in 0..60 {
        let mut places = Vec::new();
        for k in 0..n % 7 {
            let sample = family.contents(n * 10 + k, (n * k * 9) as usize);
            places.push((sample.put(&mut batch, &HashMap::new()), sample.clone()));
            all.push(sample);
        }
        let base = backend.append_keeping(&mut batch).unwrap();
        assert!(batch.is_empty() && batch.left_out().0.is_empty());
        for (at, sample) in places {
            sample.expect(&*backend, appended(at, base)).unwrap();
        }
    }
    for sample in &all {
        sample.expect(&*backend, Location::NONE).unwrap();
    }
}

/// A snapshot finds what was appended after it was taken, and what it looked for before without finding it.
///
/// # Panics
/// If it is not so.
pub fn a_snapshot_finds_what_comes_later(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let early = backend.snapshot(&[]);
    for n in 0..50 {
        let samples = [family.contents(n * 2, 40), family.contents(n * 2 + 1, 3000)];
        let late = backend.snapshot(&[]);
        for sample in &samples {
            assert!(
                early.read(&sample.oid.into()).unwrap().is_none() && late.read(&sample.oid.into()).unwrap().is_none()
            );
            assert!(early.locate(&sample.oid).is_none());
        }
        let places = append_all(&*backend, &samples, &[], Durability::None).unwrap();
        for (sample, at) in samples.iter().zip(places) {
            for (snapshot, at) in [(&early, at), (&late, sample.oid.into())] {
                let object = snapshot.read(&at).unwrap().expect("what was appended is there");
                assert_eq!(sample.mismatch(&object), None);
            }
        }
    }
}

/// A hundred thousand objects in one batch come back, and those that name others find them.
///
/// # Panics
/// If it is not so.
pub fn a_batch_of_many_objects_comes_back(make: Make<'_>) {
    const COUNT: u64 = 100_000;
    let backend = make();
    let family = family(&*backend);
    let main = family.ref_name("main");
    let mut batch = Batch::new();
    let known = HashMap::new();
    for n in 0..COUNT {
        family.contents(n, 8).put(&mut batch, &known);
    }
    let last = family.contents(COUNT - 1, 8);
    backend.append(batch, &[super::set(&main, Expected::Absent, super::object(last.oid))], Durability::Synced).unwrap();
    for n in (0..COUNT).step_by(97).chain([COUNT - 1]) {
        family.contents(n, 8).expect(&*backend, Location::NONE).unwrap();
    }
    assert!(backend.read(&family.contents(COUNT, 8).oid.into()).unwrap().is_none());
    assert_eq!(backend.get_ref(&main).unwrap(), Some(super::object(last.oid)));
}

/// An object of 64 MiB comes back whole.
///
/// # Panics
/// If it is not so.
pub fn a_huge_object_comes_back(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let samples = [family.contents(1, 10), family.contents(2, 64 << 20), family.contents(3, 10)];
    let places = append_all(&*backend, &samples, &[], Durability::Synced).unwrap();
    for (sample, at) in samples.iter().zip(places) {
        sample.expect(&*backend, at.at).unwrap();
        sample.expect(&*backend, Location::NONE).unwrap();
    }
}

/// A walk over the objects meets every one, whole, and finds no damage.
///
/// # Panics
/// If it is not so.
pub fn a_walk_meets_every_object(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let mut samples = crate::sample::Samples::default();
    let mut wanted: Vec<Oid> = Vec::new();
    assert_eq!(samples.expect_sound(&*backend).unwrap(), []);
    for n in 0..30 {
        let part: Vec<Sample> = (0..=n).map(|k| family.contents(n * 100 + k, (n * k) as usize)).collect();
        append_all(&*backend, &part, &[], Durability::None).unwrap();
        wanted.extend(part.iter().map(|sample| sample.oid));
        part.into_iter().for_each(|sample| samples.insert(sample));
    }
    let mut found = samples.expect_sound(&*backend).unwrap();
    found.sort_unstable();
    found.dedup();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
    let absent = Oid::new(&vec![0xa5; wanted[0].as_bytes().len()]).unwrap();
    for oid in wanted.iter().step_by(97).chain([&absent]) {
        for digits in [1, 2, 3, 7, 2 * oid.as_bytes().len()] {
            let prefix: OidPrefix = oid.to_string()[..digits].parse().unwrap();
            let mut found = Vec::new();
            let mut each = |oid, _: &Object<'_>| {
                found.push(oid);
                Ok(())
            };
            backend.each_with_prefix(&prefix, &mut each).unwrap();
            found.sort_unstable();
            found.dedup();
            let expected: Vec<Oid> = wanted.iter().copied().filter(|oid| prefix.matches(oid)).collect();
            assert_eq!(found, expected, "{prefix}");
        }
    }
    // What the visitor says ends the walk.
    let mut visits = 0;
    let stopped = backend.each_object(
        &mut |_, _| {
            visits += 1;
            Err(bristlecone::Error::ReadOnly)
        },
        &mut |damage| panic!("{damage:?}"),
    );
    assert!(matches!(stopped, Err(bristlecone::Error::ReadOnly)) && visits == 1);
}

/// A derived file is absent, or holds what was last written to it.
///
/// # Panics
/// If it is not so.
pub fn derived_files_hold_what_was_last_written(make: Make<'_>) {
    let backend = make();
    assert_eq!(backend.read_derived("history").unwrap(), None);
    for bytes in [&b"first"[..], b"", &[7; 100_000], b"shorter"] {
        backend.write_derived("history", bytes).unwrap();
        backend.write_derived("other", b"beside").unwrap();
        let found = backend.read_derived("history").unwrap();
        assert!(found.as_deref() == Some(bytes), "{} bytes", bytes.len());
    }
    assert_eq!(backend.read_derived("other").unwrap().as_deref(), Some(&b"beside"[..]));
    assert_eq!(backend.read_derived("third").unwrap(), None);
    assert!(backend.list_refs("").unwrap().is_empty());
}
