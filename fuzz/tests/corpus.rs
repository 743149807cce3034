//! Every input that was kept goes through its target.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use bristlecone_fuzz::{Bounded, TARGETS};

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// No input takes more than some milliseconds; one that takes this long has no end.
const SECONDS_MAX: u64 = 60;
/// All inputs together, in bytes: they are part of every clone.
const CORPUS_BYTES_MAX: usize = 500_000;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The names in a folder, in order.
fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_target_has_inputs_and_every_folder_a_target() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(names(&corpus()), targets, "folders of {} beside the targets of src/lib.rs", corpus().display());
    let mut bytes = 0;
    for target in &targets {
        let dir = corpus().join(target);
        assert!(!names(&dir).is_empty(), "{} has no input", dir.display());
        bytes += names(&dir).iter().map(|name| fs::read(dir.join(name)).unwrap().len()).sum::<usize>();
    }
    assert!(
        bytes <= CORPUS_BYTES_MAX,
        "the inputs have {bytes} bytes; `.ci/fuzz keep TARGET` leaves out what adds nothing"
    );
}

#[test]
fn every_input_is_taken() {
    for (name, target) in TARGETS {
        for input in names(&corpus().join(name)) {
            let path = corpus().join(name).join(&input);
            let data = fs::read(&path).unwrap();
            let (ended, wait) = mpsc::channel();
            let run = thread::spawn(move || {
                target(&data);
                ended.send(()).unwrap();
            });
            match wait.recv_timeout(Duration::from_secs(SECONDS_MAX)) {
                Ok(()) => run.join().unwrap(),
                Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{} breaks a promise: see above", path.display()),
                Err(mpsc::RecvTimeoutError::Timeout) => panic!("{} takes over {SECONDS_MAX} s", path.display()),
            }
        }
    }
}
