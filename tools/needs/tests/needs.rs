//! What a test needs is there when it runs; where it is not, these tests are ignored.

use std::process::Command;

use bristlecone_needs::needs;

fn runs(program: &str, argument: &str) {
    assert!(Command::new(program).arg(argument).output().unwrap().status.success());
}

#[needs(git)]
#[test]
fn git_runs() {
    runs("git", "--version");
}

#[needs(fio)]
#[test]
fn fio_runs() {
    runs("fio", "--version");
}

#[needs(git, linux)]
#[test]
fn two_things_are_there() {
    runs("git", "--version");
    assert!(std::fs::exists("/dev/full").unwrap());
}
