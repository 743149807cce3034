//! Files that were cut or damaged: LMDB would end the process by a signal, and a map names what is wrong.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
};

use bristlecone_lmdb::okra::{OkraError, OkraMap, OkraOptions};

const PAGE: u64 = 4096;
/// How the process ends that finds damage, and the one that finds none.
const FOUND: i32 = 42;
const SOUND: i32 = 43;

/// Makes a map of some hundred pages, among them those of large values, and returns the bytes of its file.
fn make(dir: &Path, options: &OkraOptions) -> Vec<u8> {
    let map = OkraMap::create(dir, options).unwrap();
    for round in 0..4_u32 {
        let mut writer = map.write().unwrap();
        for number in 0..2000_u32 {
            let value = vec![round as u8; if number % 400 == 7 { 9000 } else { 60 }];
            writer.insert(&number.to_be_bytes(), &value).unwrap();
        }
        writer.commit().unwrap();
    }
    drop(map);
    fs::read(dir.join("data.mdb")).unwrap()
}

/// What another process does with the map: `after` damages the file once it is open.
fn look(dir: &Path, options: &OkraOptions, after: &dyn Fn(&fs::File)) -> ! {
    let checked = OkraMap::open(dir, options).and_then(|map| {
        after(&fs::File::options().write(true).open(dir.join("data.mdb")).unwrap());
        map.read()?.check().map(drop)
    });
    end(checked)
}

/// What another process does with a map whose file was damaged before: it reads all, and changes some.
fn use_all(dir: &Path, options: &OkraOptions) -> ! {
    let used = OkraMap::open(dir, options).and_then(|map| {
        let reader = map.read()?;
        reader.root()?;
        reader.entries()?.try_for_each(|entry| entry.map(drop))?;
        drop(reader);
        let mut writer = map.write()?;
        (0..50_u32).try_for_each(|number| writer.insert(&(number * 41).to_be_bytes(), b"another"))?;
        writer.commit().map(drop)
    });
    end(used)
}

/// Tells the parent what was found.
fn end(found: Result<(), OkraError>) -> ! {
    match found {
        Ok(()) => std::process::exit(SOUND),
        Err(OkraError::Corrupt { file, reason, .. }) if file.ends_with("data.mdb") && reason.contains("backup") => {
            std::process::exit(FOUND)
        }
        // The bytes of a large value have no head: the hash of its entry tells.
        Err(OkraError::Damaged { .. }) => std::process::exit(FOUND),
        Err(error) => panic!("{error:?}"),
    }
}

/// Starts this test in another process, with a word that says what it does.
fn in_a_process(test: &str, dir: &Path, what: &str) -> ExitStatus {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("okra::damage::{test}")])
        .env("BRISTLECONE_TEST_OKRA_DAMAGED", format!("{what} {}", dir.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
}

/// What a process that was started so is to do: a word, and the folder.
fn asked() -> Option<(String, String)> {
    let asked = std::env::var("BRISTLECONE_TEST_OKRA_DAMAGED").ok()?;
    asked.split_once(' ').map(|(what, dir)| (what.to_owned(), dir.to_owned()))
}

fn named(what: &str) -> OkraOptions {
    if what.starts_with("named") { OkraOptions::default().database("one") } else { OkraOptions::default() }
}

#[test]
fn a_file_that_was_cut_is_named() {
    if let Some((what, dir)) = asked() {
        look(Path::new(&dir), &named(&what), &|_| {});
    }
    for what in ["unnamed", "named"] {
        let dir = tempfile::tempdir().unwrap();
        let sound = make(dir.path(), &named(what));
        let run = |bytes: u64| {
            fs::File::options().write(true).open(dir.path().join("data.mdb")).unwrap().set_len(bytes).unwrap();
            in_a_process("a_file_that_was_cut_is_named", dir.path(), what).code()
        };
        let whole = sound.len() as u64;
        assert_eq!(run(whole), Some(SOUND), "{what}");
        for bytes in [3 * PAGE, 2 * PAGE, 2 * PAGE - 1] {
            assert_eq!(run(bytes), Some(FOUND), "{what}, {bytes} of {whole} bytes");
        }
        // Nothing is lost with pages that are free.
        for bytes in (3..10).map(|part| whole / part + 1) {
            fs::write(dir.path().join("data.mdb"), &sound).unwrap();
            assert!(matches!(run(bytes), Some(FOUND | SOUND)), "{what}, {bytes} of {whole} bytes");
        }
    }
}

#[test]
fn a_check_names_a_damaged_page() {
    if let Some((what, dir)) = asked() {
        let at: u64 = what.rsplit('-').next().unwrap().parse().unwrap();
        look(Path::new(&dir), &named(&what), &|file| match at {
            0 => file.set_len(3 * PAGE).unwrap(),
            at => file.write_all_at(&[0xFF; 16], at).unwrap(),
        });
    }
    for what in ["unnamed", "named"] {
        let dir = tempfile::tempdir().unwrap();
        let sound = make(dir.path(), &named(what));
        let (mut found, mut all) = (0, 0);
        // Cut while it is open, and pages with a head that cannot be right.
        for at in (0..sound.len() as u64 / PAGE).filter(|page| *page == 0 || page % 9 == 2).map(|page| page * PAGE) {
            fs::write(dir.path().join("data.mdb"), &sound).unwrap();
            let status = in_a_process("a_check_names_a_damaged_page", dir.path(), &format!("{what}-{at}"));
            assert!(matches!(status.code(), Some(FOUND | SOUND)), "{what}, byte {at}: {status:?}");
            (found, all) = (found + u32::from(status.code() == Some(FOUND)), all + 1);
        }
        // Pages that are free, and those within a large value, need not be anything.
        assert!(all > 10 && found > all / 4, "{what}: {found} of {all}");
    }
}

#[test]
fn a_small_file_with_a_damaged_page_is_refused() {
    if let Some((what, dir)) = asked() {
        use_all(Path::new(&dir), &named(&what));
    }
    for what in ["unnamed", "named"] {
        let dir = tempfile::tempdir().unwrap();
        let sound = make(dir.path(), &named(what));
        let (mut found, mut all) = (0, 0);
        for at in (2 * PAGE as usize..sound.len()).step_by(7 * PAGE as usize) {
            let mut bytes = sound.clone();
            bytes[at..at + 16].fill(0xFF);
            fs::write(dir.path().join("data.mdb"), bytes).unwrap();
            let status = in_a_process("a_small_file_with_a_damaged_page_is_refused", dir.path(), what);
            assert!(matches!(status.code(), Some(FOUND | SOUND)), "{what}, byte {at}: {status:?}");
            (found, all) = (found + u32::from(status.code() == Some(FOUND)), all + 1);
        }
        assert!(all > 10 && found > all / 8, "{what}: {found} of {all}");
    }
}

#[test]
fn an_empty_file_is_no_map_and_stays_empty() {
    let dir = tempfile::tempdir().unwrap();
    drop(make(dir.path(), &OkraOptions::default().sync(false)));
    let file = dir.path().join("data.mdb");
    fs::File::create(&file).unwrap();
    for read_only in [false, true] {
        let opened = OkraMap::open(dir.path(), &OkraOptions::default().read_only(read_only));
        assert!(matches!(opened, Err(OkraError::Corrupt { offset: 0, .. })), "{opened:?}");
        assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    }
    drop(OkraMap::create(dir.path(), &OkraOptions::default().sync(false)).unwrap());
    drop(OkraMap::open(dir.path(), &OkraOptions::default()).unwrap());
}
