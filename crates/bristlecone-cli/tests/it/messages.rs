//! Every error of every verb, in one table: what was typed, the exit code, and all that is said.
//!
//! `BRISTLECONE_BLESS=1` writes the table anew; look at what changed before it is committed.

use std::{fs, path::Path};

use bristlecone_needs::needs;

use crate::{
    git_harness::GitPlace,
    harness::{Place, Run},
};

/// Command lines in a store with something in it. Words are separated by single spaces; `''` is an empty one.
const IN_A_STORE: &str = "\
init
init -b HEAD
init other -r other
init other --format nope
init other --format git --inline 9
init other --inline 513
init other --hash sha1
init file.txt
set
set a --typo
set a -5
set a b c
set a b --value c
set a=1 b
set a=1 --value b
set '' 1
set a//b 1
set a/ 1
set 100% 1
set a%2Fb 1
set dir 1
set value/below 1
set a 1 -b nowhere
set a 1 -c
set a 1 -c -b main
set a 1 -c -b -dash
set a 1 --orphan -b HEAD
set a 1 -b a..b
set a 1 --author Ann
set a 1 --date yesterday
set a 1 --durability often
set a 1 --wait -1
set a 1 --worktree
set a 1 -r nowhere
set a 1 -r file.txt
get
get nothing
get dir
get value/below
get value --at nowhere
get value --at HEAD~9
get value --at HEAD~x
get value --at main..side
get value -b nowhere
get value --out nowhere/file
del
del nothing
del ''
del nothing -b nowhere
list value
list nothing
list dir --limit x
list dir --prefix a/b
tree value
tree nothing
log --at nowhere
show nowhere
show 0123456789
diff nowhere main
diff main nowhere
diff --path a//b
branches main
branches HEAD
branches -d main
branches -d nowhere
branches -d side
branches new --at nowhere
branches a..b
checkout nowhere
checkout -c side
checkout -c HEAD
checkout -c new nowhere
checkout --git
checkout -b new main
batch --nope
import
import nowhere
import file.txt
import . --path value
import . --path value/below
import . -b nowhere
import . --git .
import --git nowhere
import --git .
import --git file.txt
export
export .
export out --at nowhere
export out --path value
export out --path nothing
export file.txt
export out --git out
export --git file.txt
subtree add -P lib nowhere main
subtree pull -P nothing . main
subtree push -P nothing . new
subtree split -P nothing
subtree status -P nothing
subtree split
map get nothing
map get 100%
map get a --keys hex
map get a --keys octal
map list
map list --path nowhere
map list --path value
map set a 1 --path value
map set a zz --values hex
map set a 1 -b nowhere
map del nothing
map diff nowhere
map load file.txt
map load nowhere.csv
map load file.txt --format csv
map load file.txt --format jsonl
map load file.txt --format mdb-dump
map load file.txt --format jsonl --header
map init
map init other --index
map init . --kind okra
map init other --kind okra -r other
info -b main
info -r nowhere
check -r nowhere
gc -r nowhere
repair -r nowhere
repair -r file.txt
trace info nowhere
trace info file.txt
trace convert file.txt --out out
trace generate --commits 0 --out out
replay tezos nowhere
bench --only-scenario nope
completions nope
man --out file.txt
nope
-o xml list
--repo
";

/// Command lines where there is no store.
const IN_NO_STORE: &str = "\
set a 1
get a
list
log
show
diff
branches
checkout main
batch
import .
export out
info
check
repair
";

/// Command lines in the working tree of a Git repository that has main checked out.
const IN_GIT: &str = "\
init
map list
set a 1
set .git/config x
set apple 2 -b symbolic
del fruit
import .
batch
branches -d main
branches main
checkout --git main
repair
subtree split -P fruit -b main
get module
list module
export .
";

/// Returns the command line of a row.
fn words(row: &str) -> Vec<&str> {
    row.split(' ').map(|word| if word == "''" { "" } else { word }).collect()
}

/// Adds a row to the table, with what differs from run to run put in the same words.
fn tell(table: &mut String, top: &Path, row: &str, run: &Run) {
    let top = top.canonicalize().unwrap();
    let mut message = run.err.replace(&*top.to_string_lossy(), "TOP");
    // Ids and times.
    let long = |word: &str| word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ids: Vec<String> =
        message.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| long(word)).map(str::to_owned).collect();
    for id in ids {
        message = message.replace(&id, "ID");
    }
    // What clap adds is not ours.
    let message = message.split("\n\nUsage:").next().unwrap_or_default().trim_end();
    let message = message.split("\n\nFor more information").next().unwrap_or_default();
    table.push_str(&format!("$ cone {row}\n[{}] {message}\n\n", run.code));
}

/// Checks what holds for all messages.
fn judge(row: &str, message: &str) {
    let theirs = [
        "[possible values",
        "required",
        "unexpected argument",
        "invalid value",
        "cannot be used with",
        "unrecognized",
        "is required for",
    ];
    let ours = !theirs.iter().any(|words| message.contains(words));
    // What a long command said before it failed stands above.
    let message = message.rfind("\nerror: ").map_or(message, |at| &message[at + 1..]);
    let Some(text) = message.strip_prefix("error: ") else { panic!("{row}: {message}") };
    for leak in ["os error", "`init`", "`check` lists", "panicked", "Some(", "Err(", "node object", "NotFound"] {
        assert!(!text.contains(leak), "{row} says {leak}: {message}");
    }
    let subject = text.starts_with("Git ") || text.starts_with("TOP") || text.starts_with("HEAD");
    assert!(subject || !text.starts_with(char::is_uppercase), "{row}: {message}");
    // What is wrong, and the way out: behind a semicolon, or as a command.
    assert!(
        !ours || [";", "`cone ", "`git "].iter().any(|sign| text.contains(sign)),
        "{row} gives no way out: {message}"
    );
}

#[needs(git)]
#[test]
fn errors_are_those_of_the_table() {
    let mut table =
        String::from("Made by tests/it/messages.rs: in brackets the exit code, behind it all of standard error.\n\n");
    table.push_str("# In a store\n\n");
    let place = Place::with_store();
    place.ok(["set", "value", "1"]);
    place.ok(["set", "dir/inner", "1"]);
    place.ok(["set", "-c", "-b", "side", "value", "2"]);
    place.file("file.txt", "text\n");
    place.file("out/there", "text\n");
    for row in IN_A_STORE.lines() {
        tell(&mut table, &place.path(""), row, &place.run(words(row)));
    }
    for (row, input) in [
        ("set large -", None),
        ("batch", None),
        ("batch", Some("put a 1\n")),
        ("batch", Some("set a\n")),
        ("batch", Some("del nothing\n")),
        ("batch", Some("test value 9\n")),
        ("batch", Some("absent value\n")),
        ("batch", Some("set dir 1\n")),
        ("batch", Some("branch side main -\n")),
        ("batch", Some("branch side\n")),
        ("batch", Some("{\"set\":\"a\"}\n")),
        ("batch", Some("{\"set\":\n")),
        ("batch", Some("set b 1\ncommit\ndel nothing\n")),
    ] {
        let (row, run) = match input {
            None => (format!("{row} <&-"), Run::of(place.shell("\"$0\" \"$@\" <&-", &words(row)))),
            Some(input) => (format!("{row} <<< {input:?}"), place.feed(words(row), input.as_bytes())),
        };
        tell(&mut table, &place.path(""), &row, &run);
    }
    place.ok(["checkout", "HEAD~1"]);
    tell(&mut table, &place.path(""), "set a 1", &place.run(["set", "a", "1"]));
    table.push_str("# In a store of the format tezos\n\n");
    let tezos = Place::empty();
    tezos.ok(["init", "--format", "tezos"]);
    tezos.ok(["set", "a", "1"]);
    for row in ["del a", "set a 2 --date 1700000000 +0100", "import --git .", "export --git out"] {
        let mut words = words(row);
        if row.contains("+0100") {
            words = vec!["set", "a", "2", "--date", "1700000000 +0100"];
        }
        tell(&mut table, &tezos.path(""), row, &tezos.run(words));
    }
    table.push_str("# Where there is no store\n\n");
    let nothing = Place::empty();
    for row in IN_NO_STORE.lines() {
        tell(&mut table, &nothing.path(""), row, &nothing.run(words(row)));
    }
    table.push_str("# In a Git repository that has main checked out\n\n");
    let git = GitPlace::new();
    git.git(["branch", "side"]);
    git.git(["symbolic-ref", "refs/heads/symbolic", "refs/heads/main"]);
    let id = git.git(["rev-parse", "HEAD"]);
    git.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},module", id.trim())]);
    git.git(["commit", "-q", "-m", "two"]);
    for row in IN_GIT.lines() {
        let run = match row {
            "batch" => Run::of(git.shell("echo set a 1 | \"$0\" \"$@\"", &["batch"])),
            _ => git.run(words(row)),
        };
        tell(&mut table, &git.path("../"), row, &run);
    }
    compare(&table);
    for block in table.split("\n\n$ cone ").skip(1) {
        let (row, message) = block.split_once("\n[").unwrap();
        let (code, message) = message.split_once("] ").unwrap();
        assert!(["1", "2", "3"].contains(&code), "{row}: {code}");
        judge(row, message);
    }
}

fn compare(table: &str) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/messages.txt");
    if std::env::var_os("BRISTLECONE_BLESS").is_some() {
        fs::write(&golden, table).unwrap();
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    for (expected, found) in expected.split("\n\n").zip(table.split("\n\n")) {
        assert_eq!(found, expected, "BRISTLECONE_BLESS=1 writes the table anew");
    }
    assert_eq!(table.len(), expected.len(), "rows were added or taken away");
}
