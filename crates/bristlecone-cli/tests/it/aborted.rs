//! Commands that are stopped: what they leave is counted and told, the store is whole and goes on, and a store that the
//! command made itself is gone.

use std::{
    fs,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use bristlecone_needs::needs;
use bristlecone_testkit::{generate::Rng, git::Git};
use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Place, Run};

/// What each such message ends with.
pub(crate) const SENTENCE: &str =
    "that nothing leads to; the store is whole, `cone info` counts them, and `cone gc` returns them";
pub(crate) const MIB: usize = 1 << 20;
/// Files of a folder that takes long enough to import for another process to meddle.
const FILES: usize = 150;

/// Fills a folder with files of a mebibyte that cannot be compressed.
pub(crate) fn folder(dir: &Path, files: usize) {
    let mut rng = Rng::stream(1, 2);
    for number in 0..files {
        let dir = dir.join(format!("{:02}", number % 10));
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(number.to_string()), rng.bytes(MIB)).unwrap();
    }
}

/// A store of a backend that does not count what nothing leads to, with a commit.
fn with_commit_in(backend: &str) -> Place {
    let place = Place::empty();
    place.ok(["init", "--backend", backend]);
    place.ok(["set", "before", "kept"]);
    place
}

/// A store with a commit, and what it says it could give back.
pub(crate) fn with_commit() -> Place {
    let place = Place::with_store();
    place.ok(["set", "before", "kept"]);
    assert_eq!(reclaimable(&place), 0);
    place
}

pub(crate) fn reclaimable(place: &Place) -> u64 {
    place.json(["info"])["reclaimable_bytes"].as_u64().unwrap()
}

pub(crate) fn store_bytes(place: &Place) -> u64 {
    place.json(["info"])["store_bytes"].as_u64().unwrap()
}

/// Checks that a store has no damage, holds what it held and takes more.
#[track_caller]
pub(crate) fn goes_on(place: &Place) {
    assert_eq!(place.ok(["get", "before"]), "kept");
    place.ok(["check"]);
    let left = reclaimable(place);
    place.ok(["set", "after", &left.to_string()]);
    assert_eq!(place.ok(["get", "after"]), left.to_string());
    assert_eq!(reclaimable(place), left, "a commit leaves nothing");
}

/// A `cone` at work, which goes with the test.
struct Working(Child);

impl Working {
    fn begin<const N: usize>(place: &Place, arguments: [&str; N]) -> Self {
        Self::begin_telling(place, arguments, Stdio::piped())
    }

    /// As [`Working::begin`], with standard error going elsewhere.
    fn begin_telling<const N: usize>(place: &Place, arguments: [&str; N], err: Stdio) -> Self {
        let mut command = place.command(arguments);
        // SAFETY: the calls take numbers alone, and may be made between fork and exec.
        unsafe {
            // Tests that a shell runs in the background ignore the interrupt key, those that `nohup` runs the end of the terminal.
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        Self(command.stdout(Stdio::piped()).stderr(err).spawn().unwrap())
    }

    /// Waits until it has appended some mebibytes to the store, and stops it there: it gets a millisecond at a time, however
    /// busy the machine is.
    fn appends(&mut self, place: &Place) {
        self.appends_to(&|| store_bytes(place));
    }

    /// As [`Working::appends`], where something else says how many bytes there are.
    fn appends_to(&mut self, bytes: &dyn Fn() -> u64) {
        let before = bytes();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            self.signal(Signal::STOP);
            assert!(self.0.try_wait().unwrap().is_none(), "it ended before anybody meddled");
            if bytes() >= before + 4 * MIB as u64 {
                return;
            }
            assert!(Instant::now() < until, "it appends nothing");
            self.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends it a signal; one that is stopped goes on with it.
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, signal).unwrap();
        if signal != Signal::STOP {
            // After a deadly one it may be gone.
            let _ = kill_process(pid, Signal::CONT);
        }
    }

    fn end(self) -> (std::process::ExitStatus, Run) {
        let output = self.0.wait_with_output().unwrap();
        (output.status, Run::from(output))
    }
}

#[test]
fn an_import_whose_source_fails_says_what_it_leaves_and_info_counts_it() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    let mut importer = Working::begin(&place, ["import", "photos", "--path", "photos"]);
    importer.appends(&place);
    fs::rename(place.path("photos"), place.path("elsewhere")).unwrap();
    importer.signal(Signal::CONT);
    let (_, run) = importer.end();
    run.failed(3, &["cannot read", "photos", "this leaves", ".bristlecone"]);
    assert!(run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
    let left = reclaimable(&place);
    assert!(left > 2 * MIB as u64 && left <= store_bytes(&place), "{left}");
    let shown = place.ok(["info"]);
    assert!(shown.lines().any(|line| line.starts_with("reclaimable   ") && line.contains(" MB")), "{shown}");
    goes_on(&place);
    // One that succeeds afterwards leaves nothing more.
    place.ok(["import", "elsewhere", "--path", "photos"]);
    assert_eq!(reclaimable(&place), left);
    goes_on(&place);
}

#[test]
fn an_import_that_is_stopped_by_a_signal_says_so_and_what_it_leaves() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    let mut sum = 0;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut importer = Working::begin(&place, ["import", "photos", "--path", "photos"]);
        importer.appends(&place);
        importer.signal(signal);
        let (_, run) = importer.end();
        run.failed(code, &["what was committed before stays", "this leaves"]);
        assert!(run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
        let left = reclaimable(&place);
        assert!(left > sum + 2 * MIB as u64, "{left} after {sum}");
        sum = left;
        goes_on(&place);
    }
    assert!(sum <= store_bytes(&place));
}

#[test]
fn an_import_into_any_backend_that_is_stopped_says_what_it_leaves() {
    for backend in ["fs", "lmdb", "lsm"] {
        let place = with_commit_in(backend);
        folder(&place.path("photos"), FILES);
        for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
            let mut importer = Working::begin(&place, ["import", "photos", "--path", "photos"]);
            // What is written first may be of an append that is not done.
            importer.appends_to(&|| room_below(&place.path(".bristlecone")) / 8);
            importer.signal(signal);
            let (_, run) = importer.end();
            run.failed(code, &["what was committed before stays", "this leaves", ".bristlecone", "the store is whole"]);
            assert!(run.err.trim_end().ends_with("`cone gc` returns them"), "{backend}: {}", run.err);
            assert!(!run.err.contains("cone info"), "{backend}: {}", run.err);
            assert_eq!(place.ok(["get", "before"]), "kept", "{backend}");
        }
        place.ok(["gc"]);
        place.ok(["check"]);
        // Where nothing was appended, nothing is said.
        let run = place.fails(1, &["nowhere"], ["set", "a", "1", "-b", "nowhere"]);
        assert!(!run.err.contains("this leaves"), "{backend}: {}", run.err);
    }
}

#[test]
fn a_copy_that_is_stopped_takes_away_the_store_it_made() {
    let from = with_commit();
    folder(&from.path("photos"), FILES);
    from.ok(["import", "photos", "--path", "photos"]);
    for backend in ["disk", "fs", "lmdb", "lsm"] {
        let place = Place::empty();
        let store = from.path("").display().to_string();
        let mut copier = Working::begin(&place, ["copy", &store, "new/copy", "--backend", backend]);
        copier.appends_to(&|| room_below(&place.path("new")));
        copier.signal(Signal::INT);
        let (_, run) = copier.end();
        run.failed(130, &["interrupted"]);
        assert!(!run.err.contains("this leaves"), "{backend}: {}", run.err);
        let left: Vec<_> = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{backend}: {left:?}");
    }
}

#[needs(linux)]
#[test]
fn a_signal_ends_an_import_also_where_nobody_can_be_told() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    // As after the terminal was closed: every write fails.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let mut importer = Working::begin_telling(&place, ["import", "photos", "--path", "photos"], full.into());
    importer.appends(&place);
    importer.signal(Signal::HUP);
    let until = Instant::now() + Duration::from_secs(60);
    while importer.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it hangs");
        thread::sleep(Duration::from_millis(5));
    }
    let (status, _) = importer.end();
    assert_eq!(status.code(), Some(129));
    assert!(reclaimable(&place) > 2 * MIB as u64);
    goes_on(&place);
}

#[test]
fn a_killed_import_is_counted_by_whoever_comes_next() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    let mut importer = Working::begin(&place, ["import", "photos", "--path", "photos"]);
    importer.appends(&place);
    importer.signal(Signal::STOP);
    assert_eq!(reclaimable(&place), 0, "it is under way");
    importer.signal(Signal::KILL);
    let (status, _) = importer.end();
    assert!(!status.success());
    let left = reclaimable(&place);
    let most = store_bytes(&place);
    assert!(left > 2 * MIB as u64 && left <= most, "{left} of {most}");
    goes_on(&place);
    assert_eq!(reclaimable(&place), left);
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    let mut command = Command::new("sh");
    let cone = format!("trap '' HUP; exec {} import photos --path photos", env!("CARGO_BIN_EXE_cone"));
    command.args(["-c", &cone]).current_dir(place.path("")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut importer = Working(command.spawn().unwrap());
    importer.appends(&place);
    importer.signal(Signal::HUP);
    let (_, run) = importer.end();
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(reclaimable(&place), 0);
}

#[test]
fn an_export_that_is_stopped_takes_away_the_repository_it_made() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    place.ok(["import", "photos"]);
    for signal in [Signal::INT, Signal::TERM] {
        let mut exporter = Working::begin(&place, ["export", "--git", "new/out.git"]);
        let until = Instant::now() + Duration::from_secs(60);
        while !place.path("new/out.git/objects/pack").exists() {
            assert!(Instant::now() < until && exporter.0.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_micros(200));
        }
        exporter.signal(signal);
        let (_, run) = exporter.end();
        assert!(run.code > 128, "{run:?}");
        assert!(!place.path("new").exists(), "{:?}", fs::read_dir(place.path("new")).unwrap().collect::<Vec<_>>());
    }
}

#[test]
fn an_export_into_a_folder_that_is_stopped_leaves_whole_files() {
    let place = with_commit();
    folder(&place.path("photos"), FILES);
    place.ok(["import", "photos"]);
    let mut exporter = Working::begin(&place, ["export", "out"]);
    exporter.appends_to(&|| bytes_below(&place.path("out")));
    exporter.signal(Signal::INT);
    let (_, run) = exporter.end();
    run.failed(130, &["interrupted", "are whole", "--force"]);
    let mut files = 0;
    for number in 0..FILES {
        let name = format!("{:02}/{number}", number % 10);
        if let Ok(found) = fs::metadata(place.path("out").join(name)) {
            assert_eq!(found.len(), MIB as u64);
            files += 1;
        }
    }
    assert!(files > 0 && files < FILES, "{files}");
    place.ok(["export", "out", "--force"]);
    assert_eq!(bytes_below(&place.path("out")), (FILES * MIB) as u64);
}

#[test]
fn a_value_that_is_stopped_on_its_way_into_a_file_leaves_nothing() {
    let place = with_commit();
    place.file("photos/large", vec![7; 256 * MIB]);
    place.ok(["import", "photos", "--path", "photos"]);
    place.file("to/old", "old");
    let mut getter = Working::begin(&place, ["get", "photos/large", "--out", "to/old"]);
    getter.appends_to(&|| bytes_below(&place.path("to")));
    getter.signal(Signal::INT);
    let (_, run) = getter.end();
    run.failed(130, &["interrupted", "nothing was written"]);
    assert_eq!(fs::read(place.path("to/old")).unwrap(), b"old");
    assert_eq!(fs::read_dir(place.path("to")).unwrap().count(), 1);
}

#[cfg(feature = "lab")]
#[test]
fn a_trace_that_is_stopped_takes_away_what_it_began() {
    let place = Place::empty();
    let mut maker = Working::begin(&place, ["trace", "generate", "--commits", "1000", "--out", "made.repr"]);
    let until = Instant::now() + Duration::from_secs(60);
    while fs::read_dir(place.path("")).unwrap().count() == 0 {
        assert!(Instant::now() < until && maker.0.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_micros(200));
    }
    maker.signal(Signal::TERM);
    let (_, run) = maker.end();
    run.failed(143, &["asked to end", "nothing was written"]);
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
}

#[needs(git)]
#[test]
fn an_import_of_a_history_into_a_git_repository_that_is_stopped_says_so_and_goes_on() {
    let place = Place::empty();
    folder(&place.path("from"), 60);
    let (from, to) = (Git::init(place.path("from"), &[]), Git::init(place.path("to.git"), &["--bare"]));
    let head = from.commit_all("files");
    let words = ["-r", "to.git", "import", "--git", "from"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut importer = Working::begin(&place, words);
        importer.appends_to(&|| bytes_below(&place.path("to.git/objects")));
        importer.signal(signal);
        let (_, run) = importer.end();
        run.failed(code, &["what was committed before stays"]);
        assert_eq!(to.text(&["for-each-ref"]), "");
    }
    place.ok(words);
    assert_eq!(to.text(&["rev-parse", "main"]), head);
}

#[needs(git)]
#[test]
fn what_a_stopped_copy_of_a_git_repository_left_counts_no_more_once_it_has_gone_on() {
    let place = Place::with_store();
    folder(&place.path("from"), 60);
    Git::init(place.path("from"), &[]).commit_all("files");
    let mut copying = Working::begin(&place, ["copy", "from", "."]);
    copying.appends(&place);
    copying.signal(Signal::INT);
    let (_, run) = copying.end();
    run.failed(130, &["this leaves"]);
    assert!(reclaimable(&place) > 2 * MIB as u64);
    place.ok(["copy", "from", "."]);
    assert_eq!(reclaimable(&place), 0);
}

#[needs(git)]
#[test]
fn a_signal_that_was_heard_while_a_lock_was_waited_for_has_its_own_code() {
    let place = Place::empty();
    let git = Git::init(place.path("r"), &[]);
    git.write("a", "1");
    let head = git.commit_all("one");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let lock = place.file("r/.git/index.lock", "");
        let setting = Working::begin(&place, ["-r", "r", "set", "--worktree", "a", "2"]);
        thread::sleep(Duration::from_millis(500));
        setting.signal(signal);
        // Else the lock may be free before the process has heard of it.
        thread::sleep(Duration::from_millis(300));
        fs::remove_file(lock).unwrap();
        let (_, run) = setting.end();
        run.failed(code, &[]);
        assert_eq!(
            (git.text(&["rev-parse", "main"]), git.text(&["status", "--porcelain"])),
            (head.clone(), String::new())
        );
    }
}

/// What the files in a folder and below take on the disk, without the holes of those that are made long at once.
fn room_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let room = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => room_below(&entry.path()),
        found => found.map_or(0, |found| found.blocks() * 512),
    };
    entries.map(room).sum()
}

/// Bytes of the files in a folder and below.
fn bytes_below(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        found => found.map_or(0, |found| found.len()),
    };
    entries.map(bytes).sum()
}

#[needs(git)]
#[test]
fn a_subtree_that_is_stopped_while_objects_come_holds_no_lock_and_changes_no_file() {
    let place = Place::empty();
    folder(&place.path("lib"), 60);
    let (app, lib) = (Git::init(place.path("app"), &[]), Git::init(place.path("lib"), &[]));
    lib.commit_all("files");
    app.write("start", "1");
    let head = app.commit_all("one");
    let words = ["-r", "app", "subtree", "add", "-P", "vendor", "lib", "main", "--worktree"];
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut adding = Working::begin(&place, words);
        adding.appends_to(&|| bytes_below(&place.path("app/.git/objects")));
        assert!(!place.path("app/.git/index.lock").exists());
        adding.signal(signal);
        let (_, run) = adding.end();
        run.failed(code, &["nothing else has changed"]);
        assert!(!place.path("app/.git/index.lock").exists());
        assert_eq!(
            (app.text(&["rev-parse", "main"]), app.text(&["status", "--porcelain"])),
            (head.clone(), String::new())
        );
    }
    place.ok(words);
    assert_eq!(app.text(&["status", "--porcelain"]), "");
    assert_eq!(fs::read(place.path("app/vendor/00/0")).unwrap().len(), MIB);
}
