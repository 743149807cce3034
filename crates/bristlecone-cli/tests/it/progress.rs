//! Lines that say how far a command is: for people at a terminal, and for nobody else.

use std::{
    ffi::OsStr,
    fs::File,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bristlecone_needs::needs;
use bristlecone_testkit::generate::Rng;
use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
};

use crate::harness::Place;

/// Bytes that take some milliseconds to check.
const BYTES: usize = 64 << 20;
/// Entries of a map that take some milliseconds to check.
const ROWS: usize = 1_000_000;
/// How often a command is held back for a while: a line is drawn a tenth of a second after the beginning.
const ROUNDS: usize = 12;

/// Runs a command whose standard error is a terminal and returns what that was told. However fast the machine is, the command takes
/// long enough to draw: at first it gets a millisecond at a time.
fn told(mut command: Command) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap();
    let side =
        File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(OsStr::from_bytes(name.to_bytes()));
    let mut child = command.stdout(Stdio::null()).stderr(side.unwrap()).spawn().unwrap();
    drop(command);
    for _ in 0..ROUNDS {
        for (signal, pause) in [(Signal::STOP, 20), (Signal::CONT, 1)] {
            kill_process(Pid::from_child(&child), signal).unwrap();
            thread::sleep(Duration::from_millis(pause));
        }
    }
    assert!(child.wait().unwrap().success());
    let (mut terminal, mut said, mut part) = (File::from(terminal), Vec::new(), [0; 4096]);
    // Once nobody has the other side open, the end is an error.
    while let Ok(bytes @ 1..) = terminal.read(&mut part) {
        said.extend_from_slice(&part[..bytes]);
    }
    String::from_utf8(said).unwrap()
}

#[needs(linux)]
#[test]
fn a_check_shows_how_far_it_is_on_a_terminal_alone() {
    let place = Place::with_store();
    place.file("file", Rng::stream(1, 2).bytes(BYTES));
    let mut set = place.command(["set", "value", "-"]);
    assert!(set.stdin(File::open(place.path("file")).unwrap()).stdout(Stdio::null()).status().unwrap().success());
    assert_eq!(place.run(["check"]).err, "");
    let said = told(place.command(["check"]));
    assert!(said.starts_with("\rcheck"), "{said:?}");
    // The line goes before the report comes.
    assert!(said.ends_with("\r\u{1b}[K") && !said.contains('\n'), "{said:?}");
}

#[needs(linux)]
#[test]
fn a_check_of_a_map_shows_how_far_it_is() {
    let place = Place::empty();
    let rows: String = (0..ROWS).map(|number| format!("{number:07},{number}\n")).collect();
    place.file("rows.csv", rows);
    place.ok(["map", "init", "m", "--kind", "okra"]);
    place.ok(["-r", "m", "map", "load", "rows.csv"]);
    let words = ["-r", "m", "map", "stat", "--check"];
    assert_eq!(place.run(words).err, "");
    let said = told(place.command(words));
    // The nodes are checked first, and then entries are counted.
    assert!(said.starts_with("\rchecking the map") || said.starts_with("\rread "), "{said:?}");
    assert!(said.ends_with("\r\u{1b}[K") && !said.contains('\n'), "{said:?}");
}
