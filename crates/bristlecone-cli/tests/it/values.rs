//! Setting, reading, removing and listing values.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Stdio};

use bristlecone::{Native, Repo, disk::DiskOptions};
use bristlecone_needs::needs;

use crate::harness::{Place, Run};

#[test]
fn a_value_comes_back_byte_for_byte() {
    let place = Place::with_store();
    let value: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    assert_eq!(place.feed(["set", "a/b", "-"], &value).code, 0);
    assert_eq!(place.run(["get", "a/b"]).out, value);
    place.ok(["get", "a/b", "--out", "file"]);
    assert_eq!(std::fs::read(place.path("file")).unwrap(), value);
    assert_eq!(place.feed(["set", "a/c"], b"from input").code, 0);
    assert_eq!(place.ok(["get", "a/c"]), "from input");
    place.ok(["set", "a/d", ""]);
    assert_eq!(place.ok(["get", "a/d"]), "");
}

#[test]
fn a_value_that_looks_like_an_option_is_asked_for() {
    let place = Place::with_store();
    place.fails(2, &["--typo"], ["set", "a", "--typo"]);
    place.fails(2, &["-5"], ["set", "a", "-5"]);
    place.fails(1, &["nothing at a"], ["get", "a"]);
    place.ok(["set", "a", "--", "--x"]);
    assert_eq!(place.ok(["cat", "a"]), "--x");
    place.ok(["set", "a", "--value", "-5"]);
    assert_eq!(place.ok(["get", "a"]), "-5");
    place.fails(2, &["given twice"], ["set", "a", "b", "--value", "-5"]);
}

#[test]
fn several_values_are_one_commit() {
    let place = Place::with_store();
    place.ok(["set", "a/b=1", "c=x=y", "d=", "e%3Df=2", "g=-"]);
    assert_eq!(place.ok(["log"]).matches("commit ").count(), 1);
    for (path, value) in [("a/b", "1"), ("c", "x=y"), ("d", ""), ("e=f", "2"), ("g", "-")] {
        assert_eq!(place.ok(["get", path]), value);
    }
    place.fails(2, &["\"value\" is no assignment", "%3D"], ["set", "e=f", "value"]);
    place.fails(2, &["too many", "PATH=VALUE"], ["set", "a", "two", "words"]);
    place.fails(2, &["a is a directory"], ["set", "h=1", "a=2"]);
    place.fails(1, &["nothing at h"], ["get", "h"]);
}

#[needs(linux)]
#[test]
fn large_values_come_and_go_in_bounded_memory() {
    let place = Place::with_store();
    // 300 MB that nothing compresses and no two pieces of which are the same.
    let mut state = 1_u64;
    let mut word = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 16) as u32
    };
    let bytes: Vec<u8> = (0..75_000_000).flat_map(|_| word().to_le_bytes()).collect();
    let file = place.file("large", &bytes);
    let limited = |script: &str| Run::of(place.shell(&format!("ulimit -d 150000; {script}"), &[]));
    assert_eq!(limited("\"$0\" set a/b - < large").code, 0);
    assert_eq!(limited("\"$0\" get a/b > again").code, 0);
    assert!(std::fs::read(place.path("again")).unwrap() == bytes);
    assert_eq!(limited("\"$0\" get a/b --out third").code, 0);
    assert!(std::fs::read(place.path("third")).unwrap() == bytes);
    assert_eq!(limited("\"$0\" show main:a/b > again").code, 0);
    assert!(std::fs::read(place.path("again")).unwrap() == bytes);
    let differs = limited("\"$0\" diff --path a/b");
    assert_eq!((differs.code, &*differs.out), (0, &b"A a/b\n"[..]), "{differs:?}");
    // The same as if it had come whole.
    let mut tree = bristlecone::Repo::memory().tree();
    tree.set("a/b", &bytes).unwrap();
    assert_eq!(place.json(["log"])["commits"][0]["root"], tree.root().unwrap().to_string());
    // And as a file among others.
    place.file("folder/small", "x");
    std::fs::rename(place.path("third"), place.path("folder/large")).unwrap();
    assert_eq!(limited("\"$0\" import folder --path b").code, 0);
    tree.set("b/large", &bytes).unwrap();
    tree.set("b/small", b"x").unwrap();
    assert_eq!(place.json(["log"])["commits"][0]["root"], tree.root().unwrap().to_string());
    // What is too large is refused by its size, at once.
    std::fs::File::options().write(true).open(file).unwrap().set_len(5 << 30).unwrap();
    let run = limited("\"$0\" set c - < large");
    run.failed(3, &["standard input is too large for a value", "5.4 GB", "2.1 GB"]);
    place.fails(3, &["large is too large for a value", "5.4 GB", "2.1 GB"], ["import", "."]);
}

#[test]
fn a_closed_standard_input_is_no_value() {
    let place = Place::with_store();
    // As `nohup` has it, it is there and cannot be read.
    for way in ["<&-", "0> /dev/null"] {
        for arguments in [&["set", "a", "-"][..], &["set", "a"]] {
            let mut shell = place.shell(&format!("\"$0\" \"$@\" {way}"), arguments);
            shell.env("LC_ALL", "C");
            Run::of(shell).failed(2, &["standard input is closed", "''"]);
        }
    }
    place.fails(1, &["nothing at a"], ["get", "a"]);
    // Something that is there and empty is an empty value.
    place.ok(["set", "a", "-"]);
    assert_eq!(place.ok(["get", "a"]), "");
}

#[needs(linux)]
#[test]
fn what_finds_no_standard_output_is_not_given() {
    let place = Place::with_store();
    place.ok(["set", "d/e", "1"]);
    for way in [">&-", "1< /dev/null"] {
        let run = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            Run::of(place.shell(&format!("\"$0\" \"$@\" {way}"), &words))
        };
        // Who wants to hear nothing of what is done closes it.
        for line in ["set a 1", "set a 1", "del a", "set a 2", "branches new", "branches -d new", "gc"] {
            assert_eq!(run(line).code, 0, "{line}");
        }
        // An id that a branch names is not lost with the output.
        assert_eq!(run("subtree split -P d -b split").code, 0);
        assert_eq!(place.ok(["get", "e", "-b", "split"]), "1");
        run("subtree split -P d").failed(3, &["cannot write to standard output", "closed"]);
        for line in ["get a", "list", "log", "branches", "info", "check", "-o json list", "--help", "completions bash"]
        {
            run(line).failed(3, &["cannot write to standard output", "closed"]);
        }
        let untold = run("-o json set a 3");
        untold.failed(3, &["set a on main as commit", "it is closed", "need not be run again"]);
        assert_eq!(place.ok(["get", "a"]), "3");
    }
}

#[needs(linux)]
#[test]
fn a_commit_that_could_not_be_told_is_made() {
    let place = Place::with_store();
    for output in ["human", "json"] {
        let shell = place.shell("\"$0\" \"$@\" > /dev/full", &["set", "a", output, "-o", output]);
        Run::of(shell).failed(3, &["set a on main as commit", "no space", "need not be run again"]);
        assert_eq!(place.ok(["get", "a"]), output);
    }
    // Nor does a message that cannot be written change what is done.
    let shell = place.shell("\"$0\" \"$@\" 2> /dev/full", &["set", "-b", "new", "-c", "a", "3"]);
    assert_eq!(Run::of(shell).code, 0);
    let shell = place.shell("\"$0\" \"$@\" 2>&-", &["import", ".", "--path", "d"]);
    assert_eq!(Run::of(shell).code, 0);
    let shell = place.shell("\"$0\" \"$@\" 2> /dev/full", &["get", "nothing"]);
    assert_eq!(Run::of(shell).code, 1);
}

#[needs(linux)]
#[test]
fn what_else_could_not_be_told_is_done() {
    let untold = |place: &Place, line: &str, says: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let run = Run::of(place.shell("\"$0\" \"$@\" > /dev/full", &words));
        run.failed(3, &[says, "no space", "it need not be run again"]);
    };
    let place = Place::empty();
    drop(Repo::create(place.path(".bristlecone"), Native::new(), DiskOptions::default().version(1)).unwrap());
    place.fails(2, &["version 1", "`cone upgrade`"], ["gc", "--dry-run"]);
    untold(&place, "upgrade", "version 2 of the disk engine");
    for number in 1..=6 {
        place.ok(["set", "a", &number.to_string()]);
    }
    untold(&place, "retention set main last 4", "2 commits will go with the next");
    untold(&place, "-o json retention set main last 3", "3 commits will go with the next");
    untold(&place, "gc", "retention has cut 3 commits");
    assert_eq!(place.json(["gc"])["commits"], 0);
    untold(&place, "retention unset main", "last 3 no longer");
    assert!(place.ok(["retention", "list"]).contains("no rules"));
    untold(&place, "retention snapshots 1h", "for 1 h at most");
    untold(&place, "-o json retention snapshots none", "as long as they are read by");
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    fs::remove_file(place.path(".bristlecone/store")).unwrap();
    untold(&place, "repair", "the header was restored");
    place.ok(["init", "other"]);
    place.ok(["-r", "other", "set", "b", "1"]);
    untold(&place, "subtree add -P lib other main", "at lib on main as commit");
    assert_eq!(place.ok(["get", "lib/b"]), "1");
    untold(&place, "subtree split -P lib -b split", "made the branch split at commit");
    untold(&place, "-o json subtree split -P lib -b split", "the branch split is at commit");
}

#[test]
fn a_slash_behind_a_directory_is_forgiven() {
    let place = Place::with_store();
    place.ok(["set", "a/b", "1"]);
    assert_eq!(place.ok(["list", "a/"]), "b\n");
    place.ok(["tree", "a/"]);
    place.ok(["diff", "--path", "a/"]);
    place.fails(2, &["\"c/\" names a directory", "c/name"], ["set", "c/", "1"]);
    place.ok(["del", "a/"]);
    assert_eq!(place.ok(["list"]), "");
}

#[test]
fn the_past_stays() {
    let place = Place::with_store();
    for value in ["one", "two", "three"] {
        place.ok(["set", "a/b", value]);
    }
    place.ok(["del", "a/b"]);
    place.fails(1, &["nothing at a/b"], ["get", "a/b"]);
    assert_eq!(place.ok(["get", "a/b", "--at", "HEAD~1"]), "three");
    assert_eq!(place.ok(["get", "a/b", "--at", "main~3"]), "one");
    assert_eq!(place.ok(["get", "a/b", "--at", "@^^"]), "two");
    assert_eq!(place.ok(["list"]), "", "directories that are empty are gone");
}

#[test]
fn nothing_changed_is_no_commit() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    assert!(place.ok(["set", "a", "1"]).contains("nothing changed"));
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 1);
    place.ok(["set", "a", "1", "--allow-empty"]);
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 2);
}

#[test]
fn lists_are_ordered_and_paged() {
    let place = Place::with_store();
    for step in ["b1", "a1", "b2", "a2", "c"] {
        place.ok(["set", &format!("d/{step}"), "x"]);
    }
    assert_eq!(place.ok(["list", "d"]), "a1\na2\nb1\nb2\nc\n");
    assert_eq!(place.ok(["list", "d", "--prefix", "b"]), "b1\nb2\n");
    assert_eq!(place.ok(["list", "d", "--after", "a2", "--limit", "2"]), "b1\nb2\n");
    assert_eq!(place.ok(["list", "d", "--after", "b1", "--prefix", "b"]), "b2\n");
    assert_eq!(place.ok(["ls", "d", "--reverse", "--limit", "2"]), "c\nb2\n");
    assert_eq!(place.ok(["list", "d", "--reverse", "--after", "b1"]), "a2\na1\n");
    assert_eq!(place.ok(["list"]), "d/\n");
    assert!(place.ok(["list", "d", "-l"]).starts_with("value                 1 -            a1\n"));
}

#[test]
fn trees_are_drawn() {
    let place = Place::with_store();
    for path in ["a/x", "a/y/z", "b"] {
        place.ok(["set", path, "1"]);
    }
    let whole = ".\n├── a/\n│   ├── x\n│   └── y/\n│       └── z\n└── b\n\n2 directories, 3 values\n";
    assert_eq!(place.ok(["tree"]), whole);
    assert_eq!(place.ok(["tree", "a", "--depth", "1"]), "a\n├── x\n└── y/\n\n1 directory, 1 value\n");
}

#[test]
fn names_of_odd_bytes_go_through() {
    let place = Place::with_store();
    place.ok([OsStr::new("set"), OsStr::from_bytes(b"a/\xff\n"), OsStr::new("1")]);
    assert_eq!(place.ok(["list", "a"]), "%FF%0A\n");
    assert_eq!(place.ok(["get", "a/%FF%0A"]), "1");
    place.ok(["set", "100%25", "2"]);
    assert_eq!(place.ok(["get", "100%25"]), "2");
}

#[test]
fn stores_are_found_from_below_and_by_name() {
    let place = Place::empty();
    place.ok(["init", "s"]);
    place.ok(["-r", "s", "set", "a", "1"]);
    assert_eq!(place.ok(["get", "a", "--repo", "s/.bristlecone"]), "1");
    std::fs::create_dir_all(place.path("s/x/y")).unwrap();
    let mut command = place.command(["get", "a"]);
    command.current_dir(place.path("s/x/y"));
    assert_eq!(Run::of(command).out, b"1");
    std::fs::rename(place.path("s/.bristlecone"), place.path("other")).unwrap();
    assert_eq!(place.ok(["-r", "other", "get", "a"]), "1");
}

#[test]
fn options_of_the_format_change_roots_and_are_kept() {
    let place = Place::empty();
    place.ok(["init", "one"]);
    place.ok(["init", "two", "--inline", "0", "--no-split"]);
    for dir in ["one", "two"] {
        place.ok(["-r", dir, "set", "a", "1"]);
    }
    let root = |dir| place.json(["-r", dir, "show"])["root"].clone();
    assert_ne!(root("one"), root("two"));
    let options = place.json(["-r", "two", "info"])["options"].as_str().unwrap().to_owned();
    assert!(options.contains("inline=0 split=off"), "{options}");
}

#[test]
fn authors_and_dates_come_from_where_they_are_given() {
    let place = Place::with_store();
    place.ok(["set", "a", "1", "--author", "Bob <b@x>", "--date", "12 -0100", "-m", "why\n\nbecause"]);
    let commit = place.json(["show"]);
    assert_eq!(commit["author"]["ident"], "Bob <b@x>");
    assert_eq!((&commit["author"]["seconds"], &commit["committer"]["zone"]), (&12.into(), &"-0100".into()));
    assert_eq!(commit["message"], "why\n\nbecause");
    let mut command = place.command(["set", "a", "2"]);
    command.env_remove("BRISTLECONE_AUTHOR").env("GIT_AUTHOR_NAME", "Cy").env("GIT_AUTHOR_EMAIL", "c@x");
    assert_eq!(Run::of(command).code, 0);
    assert_eq!(place.json(["show"])["author"]["ident"], "Cy <c@x>");
    let mut command = place.command(["set", "a", "3"]);
    command.env_remove("BRISTLECONE_AUTHOR").env_remove("GIT_AUTHOR_NAME").env("USER", "dee");
    assert_eq!(Run::of(command).code, 0);
    assert!(place.json(["show"])["author"]["ident"].as_str().unwrap().starts_with("dee <dee@"));
}

#[test]
fn durabilities_are_a_choice() {
    let place = Place::with_store();
    for durability in ["none", "grouped", "synced"] {
        place.ok(["set", durability, "x", "--durability", durability]);
    }
    assert_eq!(place.ok(["list"]), "grouped\nnone\nsynced\n");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::with_store();
    let value = vec![b'x'; 4 << 20];
    place.feed(["set", "a"], &value);
    let mut child = place.command(["get", "a"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let run = Run::from(child.wait_with_output().unwrap());
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}

#[test]
fn parallel_writers_all_get_through() {
    let place = Place::with_store();
    let children: Vec<_> = (0..8)
        .map(|n| {
            let mut command = place.command(["set", &format!("d/{n}"), "x"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(place.ok(["list", "d"]).lines().count(), 8);
    assert_eq!(place.json(["log"])["commits"].as_array().unwrap().len(), 8);
}

#[test]
fn help_completions_and_manual_pages_are_there() {
    let place = Place::empty();
    assert!(place.ok(["--help"]).contains("Examples:"));
    for verb in [
        "init", "tag", "set", "get", "del", "list", "tree", "log", "show", "branches", "checkout", "diff", "import",
        "export", "info", "check",
    ] {
        assert!(place.ok([verb, "--help"]).contains("Examples:"), "{verb}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(place.ok(["completions", shell]).contains("cone"), "{shell}");
    }
    assert!(place.ok(["man"]).contains(".TH cone 1"));
    place.ok(["man", "--out", "pages"]);
    assert!(place.path("pages/cone-import.1").exists());
    #[cfg(feature = "lab")]
    {
        assert!(place.path("pages/cone-trace-convert.1").exists());
        for verb in ["trace", "bench"] {
            assert!(place.ok([verb, "--help"]).contains("Examples:"), "{verb}");
        }
    }
}

#[test]
fn a_value_goes_into_a_file_whole_and_never_into_a_store() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    let file = place.path("notes.txt");
    fs::write(&file, "keep").unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), "keep");
    place.ok(["get", "a", "--out", "notes.txt"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "1");
    place.ok(["get", "a", "--out", "/dev/null"]);
    place.fails(2, &["the folder of a store"], ["get", "a", "--out", ".bristlecone/store"]);
    place.ok(["check"]);
    // Nothing is left beside it.
    let hidden = |name: &str| name.starts_with(".notes");
    assert!(!fs::read_dir(place.path(".")).unwrap().any(|entry| hidden(entry.unwrap().file_name().to_str().unwrap())));
}
