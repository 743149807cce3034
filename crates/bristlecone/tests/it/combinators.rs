//! What backends around backends add to the contract: what a cache keeps, what layers show, what is counted.
//!
//! That they keep the contract itself the matrix of `bristlecone-testkit` proves.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Cached, CommitId, Counted, Durability, Error, Expected, Format, Info, Layered, MemoryBackend,
    Native, Object, Oid, ReadOnly, RefMove, RefTarget, Repo, Roots, Signature, Sink, SweepLimits,
};
use bristlecone_testkit::{
    hooked::{Hooked, Moment},
    slow::Slow,
};

mod edges;

type Shared = Arc<dyn Backend>;

fn memory() -> Shared {
    Arc::new(MemoryBackend::new())
}

fn repo(backend: &Shared) -> Repo<Native> {
    Repo::with_backend(Native::new(), backend.clone())
}

/// Commits one value to a branch.
fn commit(backend: &Shared, branch: &str, path: &str, value: &str) -> CommitId {
    let info = Info::message(path).by(Signature::new("A", 1)).durability(Durability::None);
    repo(backend).branch(branch).unwrap().edit(&info, |tree| tree.set(path, value)).unwrap()
}

/// Returns a value on a branch, if it is there.
fn value(backend: &Shared, branch: &str, path: &str) -> Option<String> {
    let tree = repo(backend).branch(branch).unwrap().tree().unwrap();
    tree.get(path).unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Says what an object of the native format names.
fn children(oid: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)) -> Result<(), Error> {
    let decoded = Native::new().children(object.kind(), object.body(), &mut |_, child| each(child));
    decoded.map_err(|source| Error::BadObject { oid: *oid, source })
}

fn sweep(backend: &Shared) -> u64 {
    backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects
}

fn move_ref(backend: &Shared, name: &str, expected: Expected, to: Option<RefTarget>) -> Result<(), Error> {
    backend.append(Batch::new(), &[RefMove { name: name.to_owned(), expected, to }], Durability::None).map(|_| ())
}

/// A value of `bytes` bytes as the only object of a batch.
fn batch_of(number: u8, bytes: usize) -> (Oid, Batch) {
    let (oid, mut batch) = (Oid::from_array([number; 32]), Batch::new());
    batch.put(bristlecone::Kind::Contents, oid, &vec![number; bytes], &[], &[]);
    (oid, batch)
}

mod cached {
    use super::*;

    #[test]
    fn an_object_is_read_once_from_the_backend_inside() {
        let inner = memory();
        let oids: Vec<Oid> = (1..100)
            .map(|n| {
                let (oid, batch) = batch_of(n, 300);
                inner.append(batch, &[], Durability::None).unwrap();
                oid
            })
            .collect();
        let counted = Counted::new(inner);
        let counts = counted.counts();
        let cached = Cached::new(Arc::new(counted), 1 << 20);
        let snapshot = cached.snapshot(&[]);
        for round in 0..3 {
            for oid in &oids {
                let object = snapshot.read(&(*oid).into()).unwrap().unwrap();
                assert_eq!(object.body(), [oid.as_bytes()[0]; 300]);
                assert!(cached.read(&(*oid).into()).unwrap().is_some());
            }
            let places: Vec<_> = oids.iter().map(|oid| (*oid).into()).collect();
            assert_eq!(snapshot.read_many(&places, usize::MAX).unwrap().len(), 99, "one call has all that is kept");
            assert_eq!(counts.reads.load(Relaxed), 99, "round {round}");
        }
        let stats = cached.cache_stats();
        assert_eq!((stats.hits, stats.misses, stats.objects), (99 * 8, 99, 99));
        assert!(stats.bytes > 99 * 300 && cached.stats().memory_bytes >= stats.bytes);
        cached.clear_caches();
        assert_eq!((cached.cache_stats().objects, cached.cache_stats().bytes), (0, 0));
        assert!(cached.read(&oids[0].into()).unwrap().is_some());
        assert_eq!(counts.reads.load(Relaxed), 100);
    }

    #[test]
    fn questions_count_once_however_many_calls_it_takes_to_answer_them() {
        let inner = memory();
        let mut places = Vec::new();
        for n in 1..=20 {
            let (oid, batch) = batch_of(n, 300);
            inner.append(batch, &[], Durability::None).unwrap();
            places.push(bristlecone::ObjRef::from(oid));
        }
        let cached = Cached::new(inner, 1 << 20);
        let snapshot = cached.snapshot(&[]);
        assert!(snapshot.read(&places[10]).unwrap().is_some());
        // Memory answers the first of several questions alone.
        let (mut answered, mut calls) = (0, 0);
        while answered < places.len() {
            answered += snapshot.read_many(&places[answered..], usize::MAX).unwrap().len();
            calls += 1;
        }
        let stats = cached.cache_stats();
        assert_eq!((stats.hits, stats.misses), (1, 20));
        assert!(calls > 10, "{calls}");
    }

    #[test]
    fn what_was_appended_is_there_and_so_are_its_metadata_words() {
        let counted = Counted::new(memory());
        let counts = counted.counts();
        let cached: Shared = Arc::new(Cached::new(Arc::new(counted), 1 << 20));
        let mut batch = Batch::new();
        let (one, two) = (Oid::from_array([1; 32]), Oid::from_array([2; 32]));
        let child = batch.put(bristlecone::Kind::Contents, one, b"below", &[], &[]);
        batch.put(bristlecone::Kind::Node, two, b"above", &[child], &[7, 8]);
        let base = cached.append(batch, &[], Durability::None).unwrap();
        let object = cached.read(&two.into()).unwrap().unwrap();
        assert_eq!((object.child(0), object.metadata_word(1)), (child.resolve(base), Some(8)));
        assert_eq!(counts.reads.load(Relaxed), 0);
        // What was refused is not there.
        let (absent, batch) = batch_of(3, 10);
        let refused = move_batch(&cached, batch, "r", Expected::Is(RefTarget::Object(one.into())), one);
        assert!(matches!(refused, Err(Error::RefMoved { .. })));
        assert!(cached.read(&absent.into()).unwrap().is_none());
    }

    fn move_batch(backend: &Shared, batch: Batch, name: &str, expected: Expected, to: Oid) -> Result<(), Error> {
        let to = Some(RefTarget::Object(to.into()));
        backend.append(batch, &[RefMove { name: name.to_owned(), expected, to }], Durability::None).map(|_| ())
    }

    #[test]
    fn the_budget_holds_for_any_objects() {
        for budget in [0_u64, 1000, 50_000, 300_000] {
            let cached = Cached::new(memory(), budget);
            for n in 1..=255 {
                let (oid, batch) = batch_of(n, usize::from(n) * 40);
                cached.append(batch, &[], Durability::None).unwrap();
                assert_eq!(cached.read(&oid.into()).unwrap().unwrap().body().len(), usize::from(n) * 40);
                let stats = cached.cache_stats();
                assert!(stats.bytes <= budget, "{stats} within {budget}");
            }
            assert_eq!(cached.cache_stats().objects > 20, budget == 300_000, "{}", cached.cache_stats());
        }
    }

    #[test]
    fn what_another_handle_swept_is_gone_here_and_what_stayed_is_read_again() {
        let inner = memory();
        let cached: Shared = Arc::new(Cached::new(inner.clone(), 1 << 20));
        let (gone, stays) = (batch_of(1, 50), batch_of(2, 50));
        cached.append(gone.1, &[], Durability::None).unwrap();
        move_batch(&cached, stays.1, "r", Expected::Any, stays.0).unwrap();
        assert!(cached.read(&gone.0.into()).unwrap().is_some());
        // Not through the cache.
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        assert_eq!(inner.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 1);
        assert!(cached.read(&gone.0.into()).unwrap().is_none());
        assert!(cached.snapshot(&[]).read(&gone.0.into()).unwrap().is_none());
        assert!(cached.read(&stays.0.into()).unwrap().is_some());
    }

    #[test]
    fn a_sweep_through_the_cache_leaves_in_it_what_stays() {
        let counted = Counted::new(memory());
        let counts = counted.counts();
        let cached: Shared = Arc::new(Cached::new(Arc::new(counted), 1 << 20));
        let (gone, stays) = (batch_of(1, 50), batch_of(2, 50));
        cached.append(gone.1, &[], Durability::None).unwrap();
        move_batch(&cached, stays.1, "r", Expected::Any, stays.0).unwrap();
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        assert_eq!(cached.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 1);
        let before = counts.reads.load(Relaxed);
        assert!(cached.read(&stays.0.into()).unwrap().is_some());
        assert_eq!(counts.reads.load(Relaxed), before);
        assert!(cached.read(&gone.0.into()).unwrap().is_none());
    }
}

mod layered {
    use super::*;

    /// Whatever is there has everything below it; returns how many objects are.
    fn expect_whole(store: &Shared) -> usize {
        let (mut count, mut met) = (0, Vec::new());
        let mut note = |oid: Oid, object: &Object<'_>| {
            count += 1;
            children(&oid, object, &mut |child| met.push(child))
        };
        store.each_object(&mut note, &mut |damage| panic!("{damage:?}")).unwrap();
        assert!(met.iter().all(|oid| store.read(&(*oid).into()).unwrap().is_some()));
        count
    }

    /// A lower store with two branches, and layers over it.
    fn over_two_branches() -> (Shared, Shared, Shared) {
        let lower = memory();
        commit(&lower, "main", "fruit/plum", "blue");
        commit(&lower, "other", "fruit/fig", "green");
        let upper = memory();
        let both: Shared = Arc::new(Layered::over(upper.clone(), [Arc::new(ReadOnly(lower.clone())) as Shared]));
        (lower, upper, both)
    }

    #[test]
    fn what_is_new_goes_to_the_upper_store_and_the_lower_one_stays_as_it_is() {
        let (lower, upper, both) = over_two_branches();
        let before = (lower.stats(), lower.list_refs("").unwrap(), lower.position().unwrap());
        assert_eq!(value(&both, "main", "fruit/plum").as_deref(), Some("blue"));
        let head = commit(&both, "main", "fruit/pear", "yellow");
        commit(&both, "third", "x", "y");
        both.write_derived("history", b"upper").unwrap();
        both.flush().unwrap();
        let read = |path| value(&both, "main", path);
        assert_eq!((read("fruit/pear").as_deref(), read("fruit/plum").as_deref()), (Some("yellow"), Some("blue")));
        assert_eq!(value(&both, "other", "fruit/fig").as_deref(), Some("green"));
        assert_eq!((lower.stats(), lower.list_refs("").unwrap(), lower.position().unwrap()), before);
        assert_eq!((lower.read_derived("history").unwrap(), upper.list_refs("").unwrap().len()), (None, 2));
        // A parent of the commit is in the lower store.
        let log = repo(&both).log(&[head], bristlecone::LogOptions::default());
        assert_eq!(log.map(Result::unwrap).count(), 2);
    }

    #[test]
    fn refs_of_the_lower_store_move_and_are_removed_in_the_upper_one() {
        let (lower, upper, both) = over_two_branches();
        let (main, old) = ("refs/heads/main", lower.get_ref("refs/heads/main").unwrap().unwrap());
        let other = lower.get_ref("refs/heads/other").unwrap().unwrap();
        let is = |target: &RefTarget| Expected::Is(target.clone());
        let refused = |expected, found: Option<&RefTarget>| match move_ref(&both, main, expected, None) {
            Err(Error::RefMoved { name, found: told }) => assert_eq!((&*name, told.as_ref()), (main, found)),
            other => panic!("{other:?}"),
        };
        refused(Expected::Absent, Some(&old));
        refused(is(&other), Some(&old));
        move_ref(&both, main, is(&old), None).unwrap();
        assert_eq!(both.get_ref(main).unwrap(), None);
        assert_eq!(both.list_refs("").unwrap().into_keys().collect::<Vec<_>>(), ["refs/heads/other"]);
        refused(is(&old), None);
        move_ref(&both, main, Expected::Any, None).unwrap();
        move_ref(&both, main, Expected::Absent, Some(other.clone())).unwrap();
        assert_eq!(both.get_ref(main).unwrap(), Some(other.clone()));
        refused(Expected::Absent, Some(&other));
        move_ref(&both, main, is(&other), Some(old.clone())).unwrap();
        // Several in one step, and step by step in one call.
        let step = |expected, to| (Batch::new(), vec![RefMove { name: main.to_owned(), expected, to }]);
        let steps = vec![step(is(&old), None), step(Expected::Absent, Some(other.clone())), step(is(&old), None)];
        let done: Vec<bool> = both.append_many(steps, Durability::None).iter().map(Result::is_ok).collect();
        assert_eq!(done, [true, true, false]);
        assert_eq!(both.get_ref(main).unwrap(), Some(other));
        assert_eq!(lower.get_ref(main).unwrap(), Some(old));
        assert_eq!(upper.list_refs("").unwrap().len(), 1);
    }

    #[test]
    fn the_name_that_says_removed_is_refused() {
        let (_, _, both) = over_two_branches();
        for name in ["refs/layered/removed", "refs/layered/never"] {
            let moved = move_ref(&both, "r", Expected::Any, Some(RefTarget::Symbolic(name.to_owned())));
            assert!(matches!(moved, Err(Error::RefName { name: told }) if told == name));
        }
        assert_eq!(both.list_refs("").unwrap().len(), 2);
    }

    #[test]
    fn one_of_two_threads_moves_a_ref_of_the_lower_store() {
        for round in 0..50 {
            let (_, _, both) = over_two_branches();
            let main = "refs/heads/main";
            let held = both.get_ref(main).unwrap().unwrap();
            let other = both.get_ref("refs/heads/other").unwrap();
            let wins = std::thread::scope(|scope| {
                let race = |to: Option<RefTarget>| {
                    let (both, held) = (&both, held.clone());
                    scope.spawn(move || move_ref(both, main, Expected::Is(held), to).is_ok())
                };
                [race(None), race(other.clone())].map(|one| one.join().unwrap()).into_iter().filter(|won| *won).count()
            });
            assert_eq!(wins, 1, "round {round}");
        }
    }

    #[test]
    fn the_upper_store_holds_what_was_read_where_that_is_promoted() {
        let lower = memory();
        commit(&lower, "main", "fruit/plum", &"blue".repeat(30_000));
        let counted = Counted::new(lower);
        let counts = counted.counts();
        for promoting in [false, true] {
            let layers = Layered::over(memory(), [Arc::new(counted.clone()) as Shared]);
            let both: Shared = Arc::new(if promoting { layers.promoting(children) } else { layers });
            let read = || {
                let before = counts.reads.load(Relaxed);
                assert_eq!(value(&both, "main", "fruit/plum").map(|value| value.len()), Some(120_000));
                both.flush().unwrap();
                counts.reads.load(Relaxed) - before
            };
            assert!(read() >= 3);
            assert_eq!(read() == 0, promoting);
        }
    }

    #[test]
    fn what_was_promoted_has_everything_below_it_so_that_a_copy_brings_the_rest() {
        let (lower, upper) = (memory(), memory());
        for n in 0..30 {
            commit(&lower, "main", &format!("fruit/{n}/plum"), &format!("blue {n}").repeat(200));
        }
        let both: Shared = Arc::new(Layered::over(upper.clone(), [lower.clone()]).promoting(children));
        assert!(value(&both, "main", "fruit/7/plum").is_some());
        both.flush().unwrap();
        assert!(expect_whole(&upper) >= 2, "a value, and the directory that has no other");
        let head = repo(&lower).branch("main").unwrap().head().unwrap().unwrap();
        repo(&upper).copy_objects(&repo(&lower), &[head]).unwrap();
        move_ref(&upper, "refs/heads/main", Expected::Absent, Some(head.into())).unwrap();
        drop((both, lower));
        expect_whole(&upper);
        for n in 0..30 {
            assert_eq!(value(&upper, "main", &format!("fruit/{n}/plum")), Some(format!("blue {n}").repeat(200)));
        }
        assert_eq!(repo(&upper).log(&[head], bristlecone::LogOptions::default()).map(Result::unwrap).count(), 30);
    }

    #[test]
    fn an_upper_store_that_takes_nothing_can_be_read_through() {
        let (lower, _, _) = over_two_branches();
        let both: Shared = Arc::new(Layered::over(Arc::new(ReadOnly(memory())), [lower.clone()]).promoting(children));
        commit(&lower, "main", "long", &"x".repeat(200_000));
        assert_eq!(value(&both, "main", "long").map(|value| value.len()), Some(200_000));
        assert_eq!(value(&both, "main", "fruit/plum").as_deref(), Some("blue"));
        both.flush().unwrap();
        assert!(matches!(move_ref(&both, "refs/heads/main", Expected::Any, None), Err(Error::ReadOnly)));
    }

    #[test]
    fn the_lower_store_may_leave_once_everything_was_promoted() {
        let (lower, upper, _) = over_two_branches();
        let layers = Layered::over(upper.clone(), [lower.clone()]).promoting(children);
        let both: Shared = Arc::new(layers.clone());
        for n in 0..20 {
            commit(&both, "main", &format!("many/{n}"), &format!("{n}").repeat(n * 50));
        }
        // Some was promoted by reading already.
        assert!(value(&both, "main", "fruit/plum").is_some());
        move_ref(&both, "refs/heads/other", Expected::Any, None).unwrap();
        commit(&lower, "late", "late", "late");
        let roots = Roots::new(&[], &children);
        let copied = layers.promote_all(&roots).unwrap();
        assert!(copied > 3, "{copied} objects");
        assert_eq!(
            upper.list_refs("").unwrap().into_keys().collect::<Vec<_>>(),
            ["refs/heads/late", "refs/heads/main"]
        );
        // The branch that was removed shows again, over the lower store.
        assert_eq!(value(&both, "other", "fruit/fig").as_deref(), Some("green"));
        assert!(layers.promote_all(&roots).unwrap() > 0);
        assert_eq!(layers.promote_all(&roots).unwrap(), 0);
        assert_eq!(upper.list_refs("").unwrap().len(), 3);
        drop((layers, both, lower));
        for (branch, path, wanted) in
            [("main", "fruit/plum", "blue"), ("late", "late", "late"), ("other", "fruit/fig", "green")]
        {
            assert_eq!(value(&upper, branch, path).as_deref(), Some(wanted));
        }
        let head = repo(&upper).branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(repo(&upper).log(&[head], bristlecone::LogOptions::default()).map(Result::unwrap).count(), 21);
        expect_whole(&upper);
    }

    #[test]
    fn what_the_upper_store_has_stays_or_is_promoted_again_whatever_sweeps_meanwhile() {
        let (lower, below) = (memory(), memory());
        commit(&lower, "main", "fruit/plum", &"blue".repeat(30_000));
        commit(&lower, "main", "fruit/pear", &"green".repeat(30_000));
        // Nothing leads to this here, and all of it is part of what is promoted.
        let mut fruit = repo(&below).tree();
        fruit.set("fruit/plum", "blue".repeat(30_000)).unwrap();
        fruit.write().unwrap();
        drop(fruit);
        let swept = below.clone();
        let hook = move |moment| {
            if let Moment::Before(0..3) = moment {
                sweep(&swept);
            }
        };
        let upper: Shared = Arc::new(Hooked::new(below, hook));
        let layers = Layered::over(upper.clone(), [lower.clone()]);
        layers.promote_all(&Roots::new(&[], &children)).unwrap();
        drop((layers, lower));
        for (path, wanted) in [("fruit/plum", "blue"), ("fruit/pear", "green")] {
            assert_eq!(value(&upper, "main", path), Some(wanted.repeat(30_000)));
        }
        let head = repo(&upper).branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(repo(&upper).log(&[head], bristlecone::LogOptions::default()).map(Result::unwrap).count(), 2);
    }

    #[test]
    fn a_sweep_drops_nothing_that_layers_show() {
        let (lower, upper, both) = over_two_branches();
        let layers = Layered::over(upper.clone(), [lower.clone()]);
        // The upper store gets a copy of what only a ref of the lower one leads to.
        let children = &children;
        let theirs = lower.get_ref("refs/heads/other").unwrap().unwrap();
        let RefTarget::Object(theirs) = theirs else { panic!("a commit") };
        move_ref(&upper, "copied", Expected::Absent, Some(RefTarget::Object(theirs))).unwrap();
        layers.promote_all(&Roots::new(&[], children)).unwrap();
        for name in upper.list_refs("").unwrap().into_keys() {
            move_ref(&upper, &name, Expected::Any, None).unwrap();
        }
        commit(&both, "main", "fruit/pear", "yellow");
        commit(&both, "gone", "gone", "gone");
        assert_eq!(sweep(&both), 0);
        assert!(upper.read(&theirs).unwrap().is_some(), "a ref of the lower store leads to it");
        move_ref(&both, "refs/heads/gone", Expected::Any, None).unwrap();
        assert!(sweep(&both) >= 2);
        for path in ["fruit/pear", "fruit/plum"] {
            assert!(value(&both, "main", path).is_some());
        }
        // What a batch leaves out may be in the lower store alone, also after a sweep of the upper one.
        let mut batch = Batch::since(both.sweeps() - 1);
        batch.leave_out(theirs.oid);
        let lower_only: Shared = Arc::new(Layered::over(memory(), [lower.clone()]));
        assert!(both.append(batch.clone(), &[], Durability::None).is_ok());
        // So may what a ref is moved to.
        while sweep(&both) > 0 {}
        let late = commit(&lower, "late", "late", "late").oid();
        assert!(both.sweeps() > 0 && upper.read(&late.into()).unwrap().is_none());
        move_ref(&both, "moved", Expected::Absent, Some(RefTarget::Object(late.into()))).unwrap();
        let nowhere = Some(RefTarget::Object(Oid::from_array([9; 32]).into()));
        assert!(matches!(move_ref(&both, "moved", Expected::Any, nowhere), Err(Error::Gone { .. })));
        assert!(lower_only.append(batch, &[], Durability::None).is_ok());
    }

    #[test]
    fn several_lower_stores_are_read_in_their_order_and_the_first_has_the_refs() {
        let (one, two) = (memory(), memory());
        commit(&one, "main", "a", "one");
        let theirs = commit(&two, "other", "b", "two");
        let all: Shared = Arc::new(Layered::new(one, [two.clone()]));
        assert_eq!(all.list_refs("").unwrap().len(), 1);
        assert_eq!(repo(&all).checkout(theirs).unwrap().get("b").unwrap().as_deref(), Some(&b"two"[..]));
        let (counted, places) = (Counted::new(two), [theirs.oid().into(), Oid::from_array([9; 32]).into()]);
        let all = Layered::new(memory(), [Arc::new(counted) as Shared]);
        let snapshot = all.snapshot(&[]);
        let mut found = Vec::new();
        while found.len() < 2 {
            let more = snapshot.read_many(&places[found.len()..], usize::MAX).unwrap();
            found.extend(more.iter().map(Option::is_some));
        }
        assert_eq!(found, [true, false]);
    }
}

mod counted {
    use super::*;

    #[test]
    fn everything_that_goes_through_is_counted() {
        let counted = Counted::new(memory());
        let counts = counted.counts();
        let (oid, batch) = batch_of(1, 1000);
        let bytes = batch.bytes().len() as u64;
        let at = bristlecone::ObjRef::new(oid, counted.append(batch, &[], Durability::Synced).unwrap());
        counted.append_keeping(&mut batch_of(2, 1000).1).unwrap();
        let many = (3..6).map(|n| (batch_of(n, 1000).1, Vec::new())).collect();
        counted.append_many(many, Durability::None).into_iter().for_each(|one| _ = one.unwrap());
        counted.flush().unwrap();
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        assert_eq!((of(&counts.appends), of(&counts.objects), of(&counts.appended_bytes)), (5, 5, 5 * bytes));
        assert_eq!((counts.append_times.count(), counts.sync_times.count()), (2, 2));
        let snapshot = counted.snapshot(&[]);
        let absent = Oid::from_array([9; 32]).into();
        assert!(counted.read(&at).unwrap().is_some() && snapshot.read(&at).unwrap().is_some());
        assert!(snapshot.peek(oid.as_bytes(), at.at).is_some() && snapshot.peek(&[9; 32], at.at).is_none());
        assert_eq!(snapshot.read_many(&[at, at], usize::MAX).unwrap().len(), 1);
        assert!(snapshot.read(&absent).unwrap().is_none() && counted.read(&absent).unwrap().is_none());
        assert!(snapshot.locate(&oid).is_some() && counted.locate(&oid).is_some());
        assert_eq!((of(&counts.reads), of(&counts.absent), of(&counts.located)), (6, 2, 2));
        assert!((4 * 1000..4 * 1100).contains(&of(&counts.read_bytes)), "{counts}");
        assert_eq!(counts.read_times.count(), 6);
        let shown = counts.to_string();
        for line in ["read          4 objects", "absent        2 objects", "5 objects, ", "in 5 batches", "of 6"] {
            assert!(shown.contains(line), "{line}:\n{shown}");
        }
    }

    #[test]
    fn what_is_refused_is_not_counted_as_appended() {
        let counted = Counted::new(memory());
        let nowhere = Expected::Is(RefTarget::Symbolic("nowhere".to_owned()));
        let refused = vec![RefMove { name: "refs/heads/main".to_owned(), expected: nowhere, to: None }];
        assert!(counted.append(batch_of(1, 10).1, &refused, Durability::None).is_err());
        let both = vec![(batch_of(2, 10).1, refused), (batch_of(3, 10).1, Vec::new())];
        let answers = counted.append_many(both, Durability::None);
        assert!(answers[0].is_err() && answers[1].is_ok());
        let counts = counted.counts();
        assert_eq!((counts.appends.load(Relaxed), counts.objects.load(Relaxed)), (1, 1));
        assert_eq!(counts.append_times.count(), 2, "calls are timed, whatever they end with");
    }

    #[test]
    fn few_of_many_reads_are_timed_and_slow_ones_are_seen() {
        let counted = Counted::new(memory());
        let (oid, batch) = batch_of(1, 10);
        counted.append(batch, &[], Durability::None).unwrap();
        let snapshot = counted.snapshot(&[]);
        (0..64 * 100).for_each(|_| assert!(snapshot.read(&oid.into()).unwrap().is_some()));
        assert_eq!(counted.counts().read_times.count(), 1024 + (6400 - 1024) / 64);
        let slow = Slow::new(Arc::new(MemoryBackend::new()), Duration::from_millis(3));
        let counted = Counted::new(Arc::new(slow));
        let (oid, batch) = batch_of(1, 10);
        counted.append(batch, &[], Durability::None).unwrap();
        assert!(counted.snapshot(&[]).read(&oid.into()).unwrap().is_some());
        assert!(counted.counts().read_times.quantile(0.5).unwrap() >= Duration::from_millis(3));
    }
}
