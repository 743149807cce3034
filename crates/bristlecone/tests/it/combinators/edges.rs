//! What few callers meet: answers with gaps, small copies, backends that keep less, refs and files of the lower store.

use std::{
    sync::{OnceLock, mpsc},
    thread,
};

use bristlecone::{Backend, Capabilities, DEEPENED, Kind, ObjRef, SHALLOW, pass_backend};

use super::*;

/// A backend that keeps objects without metadata words.
#[derive(Debug)]
struct Wordless(Shared);

impl Backend for Wordless {
    fn capabilities(&self) -> Capabilities {
        Capabilities { metadata_words: false, ..self.0.capabilities() }
    }

    pass_backend! {
        0: name, snapshot, read, locate, position, sweeps, sweep, append, append_keeping, append_many, get_ref, list_refs,
        shallow, promised_to, flush, each_object, each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}

/// Appends `count` values of `bytes` bytes, one batch for each.
fn fill(backend: &dyn Backend, count: u8, bytes: usize) -> Vec<ObjRef> {
    let append = |number| {
        let (oid, batch) = batch_of(number, bytes);
        backend.append(batch, &[], Durability::None).unwrap();
        oid.into()
    };
    (1..=count).map(append).collect()
}

#[test]
fn a_cache_gives_no_words_that_the_backend_inside_does_not_keep() {
    let cached = Cached::new(Arc::new(Wordless(memory())), 1 << 20);
    let (oid, mut batch) = (Oid::from_array([2; 32]), Batch::new());
    batch.put(Kind::Node, oid, b"above", &[], &[7, 8]);
    cached.append(batch, &[], Durability::None).unwrap();
    let object = cached.read(&oid.into()).unwrap().unwrap();
    assert_eq!((object.body(), object.metadata_word(0)), (&b"above"[..], None));
    assert_eq!(cached.cache_stats().hits, 1);
}

#[test]
fn a_batch_fills_no_more_than_half_of_a_cache() {
    let cached = Cached::new(memory(), 100_000);
    let mut batch = Batch::new();
    for number in 1..=90 {
        batch.put(Kind::Contents, Oid::from_array([number; 32]), &[number; 800], &[], &[]);
    }
    cached.append(batch, &[], Durability::None).unwrap();
    let stats = cached.cache_stats();
    assert!(stats.objects > 30 && stats.bytes <= 50_000, "{stats}");
}

#[test]
fn what_a_snapshot_is_told_to_keep_is_looked_for_inside() {
    let counted = Counted::new(memory());
    let counts = counted.counts();
    let cached = Cached::new(Arc::new(counted), 1 << 20);
    let at = fill(&cached, 1, 50)[0];
    let snapshot = cached.snapshot(&[]);
    assert!(snapshot.read(&at).unwrap().is_some() && counts.reads.load(Relaxed) == 0);
    snapshot.keep(&at.oid);
    assert!(snapshot.read(&at).unwrap().is_some() && counts.reads.load(Relaxed) == 1);
}

#[test]
fn answers_end_before_what_cannot_be_read_and_its_error_comes_when_it_is_first() {
    let inner = Arc::new(MemoryBackend::new());
    let at = fill(&*inner, 3, 50);
    let slow = Slow::new(inner, Duration::ZERO);
    slow.break_object(at[1].oid);
    let cached = Cached::new(Arc::new(slow), 1 << 20);
    assert!(cached.read(&at[0]).unwrap().is_some() && cached.read(&at[2]).unwrap().is_some());
    let snapshot = cached.snapshot(&[]);
    let answers = snapshot.read_many(&at, usize::MAX).unwrap();
    assert!(answers.len() == 1 && answers[0].as_ref().unwrap().body() == [1; 50]);
    assert!(matches!(snapshot.read_many(&at[1..], usize::MAX), Err(Error::Corrupt { .. })));
}

#[test]
fn what_is_read_in_one_call_is_promoted_too_and_a_flush_brings_small_copies() {
    let (lower, upper) = (memory(), memory());
    let at = fill(&*lower, 10, 50);
    let both = Layered::over(upper.clone(), [lower]).promoting(children);
    let there = |at: &&ObjRef| upper.read(at).unwrap().is_some();
    let snapshot = both.snapshot(&[]);
    let mut known = 0;
    while known < at.len() {
        known += snapshot.read_many(&at[known..], usize::MAX).unwrap().len();
    }
    assert_eq!(at.iter().filter(there).count(), 0, "some are copied at a time");
    both.flush().unwrap();
    assert_eq!(at.iter().filter(there).count(), 10);
}

#[test]
fn shallow_commits_and_derived_files_of_the_lower_store_show_until_they_are_replaced() {
    let (lower, upper) = (memory(), memory());
    let oid = fill(&*lower, 1, 50)[0].oid;
    let name = format!("{SHALLOW}{oid}");
    move_ref(&lower, &name, Expected::Any, Some(RefTarget::Object(oid.into()))).unwrap();
    lower.write_derived("history", b"lower").unwrap();
    let both: Shared = Arc::new(Layered::over(upper, [lower.clone()]));
    assert_eq!(both.shallow().unwrap(), [oid].into());
    move_ref(&both, &name, Expected::Any, None).unwrap();
    assert_eq!((both.shallow().unwrap(), lower.shallow().unwrap()), ([].into(), [oid].into()));
    assert_eq!(both.read_derived("history").unwrap().as_deref(), Some(&b"lower"[..]));
    both.write_derived("history", b"upper").unwrap();
    assert_eq!(both.read_derived("history").unwrap().as_deref(), Some(&b"upper"[..]));
    assert_eq!(lower.read_derived("history").unwrap().as_deref(), Some(&b"lower"[..]));
}

#[test]
fn any_of_the_lower_stores_says_where_history_ends_and_whether_it_grew_downwards() {
    let (upper, first, second) = (memory(), memory(), memory());
    let oid = fill(&*second, 1, 50)[0].oid;
    let (name, note) = (format!("{SHALLOW}{oid}"), RefTarget::Object(oid.into()));
    move_ref(&second, &name, Expected::Any, Some(note.clone())).unwrap();
    move_ref(&second, "refs/heads/main", Expected::Any, Some(note.clone())).unwrap();
    let layers = Layered::over(upper.clone(), [first, second.clone()]);
    let all: Shared = Arc::new(layers.clone());
    for prefix in ["", "shallow", SHALLOW, &*name] {
        assert_eq!(all.list_refs(prefix).unwrap(), [(name.clone(), note.clone())].into(), "{prefix}");
    }
    assert!(all.list_refs("refs/").unwrap().is_empty() && repo(&all).is_numbered().unwrap());
    // The history goes on: the note is removed, and the numbers of the store that had it are believed no more.
    move_ref(&all, &name, Expected::Is(note), None).unwrap();
    assert_eq!((all.shallow().unwrap(), all.get_ref(&name).unwrap()), ([].into(), None));
    assert_eq!(second.shallow().unwrap(), [oid].into());
    second.append(Batch::new(), &[RefMove::deepened()], Durability::None).unwrap();
    assert!(!repo(&all).is_numbered().unwrap());
    assert_eq!(layers.promote_all(&Roots::new(&[], &children)).unwrap(), 0);
    assert_eq!(upper.list_refs("").unwrap().into_keys().collect::<Vec<_>>(), [DEEPENED]);
}

#[test]
fn what_many_reads_do_not_find_is_counted() {
    let counted = Counted::new(memory());
    let mut at = fill(&counted, 2, 50);
    at.insert(1, Oid::from_array([9; 32]).into());
    let snapshot = counted.snapshot(&[]);
    let mut known = 0;
    while known < at.len() {
        known += snapshot.read_many(&at[known..], usize::MAX).unwrap().len();
    }
    let counts = counted.counts();
    assert_eq!((counts.reads.load(Relaxed), counts.absent.load(Relaxed)), (3, 1));
}

#[test]
fn what_says_which_objects_another_names_may_read_from_the_layers() {
    let lower = memory();
    let at = fill(&*lower, 2, 50);
    let (own, other) = (Arc::new(OnceLock::<Layered>::new()), at[1]);
    let (asks, first) = (own.clone(), at[0].oid);
    let layers = Layered::over(memory(), [lower]).promoting(move |oid, _, _| {
        if *oid == first
            && let Some(layers) = asks.get()
        {
            layers.read(&other)?;
        }
        Ok(())
    });
    own.set(layers.clone()).unwrap();
    let (sender, read) = mpsc::channel();
    // If it waits for itself, nobody waits for it.
    let reading = thread::spawn(move || sender.send(layers.read(&at[0]).map(|found| found.is_some())));
    assert!(read.recv_timeout(Duration::from_secs(60)).expect("the read ends").unwrap());
    reading.join().unwrap().unwrap();
}
