//! `cone map` on maps of both kinds.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, process::Command};

use bristlecone_needs::needs;
use serde_json::{Value, json};

use crate::harness::{Place, Run};

/// Places with an empty map of either kind in the folder `m`.
fn kinds() -> [(&'static str, Place); 2] {
    ["native", "okra"].map(|kind| {
        let place = Place::empty();
        place.ok(["map", "init", "m", "--kind", kind]);
        (kind, place)
    })
}

/// The arguments of `cone -r m map`, and those given as words.
fn map(words: &str) -> Vec<&str> {
    ["-r", "m", "map"].into_iter().chain(words.split(' ')).collect()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn entries_are_set_read_listed_and_removed() {
    for (kind, place) in kinds() {
        for entry in ["c baz", "a foo", "b bar", "ab 100%"] {
            place.ok(map(&format!("set {entry}")));
        }
        assert_eq!(place.ok(map("get a")), "foo\n", "{kind}");
        assert_eq!(place.ok(map("get ab")), "100%\n");
        assert_eq!(place.ok(map("get a --values hex")), "666f6f\n");
        assert_eq!(place.ok(map("get a --values raw")), "foo");
        place.fails(1, &["\"d\""], map("get d"));
        assert_eq!(place.ok(map("list")), "a\tfoo\nab\t100%\nb\tbar\nc\tbaz\n");
        assert_eq!(place.ok(map("list --reverse -n 2 --only-keys")), "c\nb\n");
        assert_eq!(place.ok(map("list --from ab --to c --only-keys")), "ab\nb\n");
        assert_eq!(place.ok(map("list --prefix a --only-keys")), "a\nab\n");
        assert_eq!(place.ok(map("list --prefix a --from aa --to b --only-keys")), "ab\n");
        assert_eq!(place.ok(map("list --from c --to b")), "");
        assert_eq!(place.ok(map("list -n 0")), "");
        assert_eq!(place.ok(map("list --count")), "4\n");
        assert_eq!(place.ok(map("list --count --prefix a")), "2\n");
        assert_eq!(place.ok(map("list --count --from b --to a")), "0\n");
        assert_eq!(place.ok(map("list --only-keys --keys hex --prefix 61")), "61\n6162\n");
        // All or nothing.
        place.fails(1, &["\"x\""], map("del a x"));
        assert_eq!(place.ok(map("list --count")), "4\n");
        place.ok(map("del a c"));
        assert_eq!(place.ok(map("list --only-keys")), "ab\nb\n");
        place.ok(map("set b other"));
        assert!(place.ok(map("set b other")).contains("nothing changed"));
        assert_eq!(place.ok(map("get b")), "other\n");
        // Twice is once.
        assert_eq!(place.json(map("del ab b ab"))["keys"], json!([{"key": "ab"}, {"key": "b"}]));
        assert_eq!(place.ok(map("list")), "");
        assert_eq!(place.json(map("stat"))["entries"], 0);
        place.ok(map("set a again"));
        assert_eq!(place.ok(map("list --count")), "1\n");
    }
}

#[test]
fn keys_and_values_of_any_bytes_come_back() {
    for (kind, place) in kinds() {
        let words: [&[u8]; 6] = [b"-r", b"m", b"map", b"set", b"a/%00%25", b"\xff\n"];
        place.ok(words.map(OsStr::from_bytes));
        assert_eq!(place.ok(map("list")), "a/%00%25\t%FF%0A\n", "{kind}");
        assert_eq!(place.ok(map("list --keys hex --values hex")), "612f0025\tff0a\n");
        assert_eq!(place.run(map("list --keys raw --values raw")).out, b"a/\0%\t\xff\n\n");
        assert_eq!(place.run(map("get a/%00%25 --values raw")).out, b"\xff\n");
        let list = place.json(map("list"));
        assert_eq!(list["entries"], json!([{"key": "a/\0%", "value_hex": "ff0a"}]));
        let run = place.feed(map("set --keys hex ff00 -"), b"line\nline\n");
        assert_eq!(run.code, 0, "{run:?}");
        assert_eq!(place.ok(map("get --keys hex ff00")), "line\nline\n\n");
        assert_eq!(place.ok(map("list --keys hex --prefix ff")), "ff00\tline%0Aline%0A\n");
        place.ok(map("set --values hex k 00fF"));
        assert_eq!(place.run(map("get k --values raw")).out, b"\0\xff");
        place.ok(map("set --keys raw 100% x"));
        assert_eq!(place.ok(map("get 100%25")), "x\n");
        place.fails(2, &["%25"], map("get 100%"));
        place.fails(2, &["hexadecimal"], map("get 100 --keys hex"));
        place.fails(2, &["hexadecimal"], map("set a zz --values hex"));
    }
}

/// A file that LMDB makes by itself, not in a folder.
#[test]
fn an_okra_map_may_be_a_file_that_stands_alone() {
    let place = Place::empty();
    std::fs::write(place.path("alone.mdb"), []).unwrap();
    place.ok(["map", "init", "alone.mdb", "--kind", "okra"]);
    place.ok(["-r", "alone.mdb", "map", "set", "a", "foo"]);
    assert_eq!(place.ok(["-r", "alone.mdb", "map", "get", "a"]), "foo\n");
    std::fs::write(place.path("other"), "no file of LMDB's, and longer than the head of one").unwrap();
    place.fails(3, &["no store in other"], ["-r", "other", "map", "get", "a"]);
}

#[test]
fn three_texts_have_the_roots_of_okra() {
    let place = Place::empty();
    let made = place.json(["map", "init", "m", "--kind", "okra"]);
    assert_eq!(keys(&made), ["kind", "map", "mode", "k", "q", "root"]);
    let empty = "af1349b9f5f9a1a6a0404dea36dcc949";
    assert_eq!(made["root"], empty);
    for (set, level, root) in [
        ("a foo", 1, "4673dadad02d3f337faf434904407d4e"),
        ("c baz", 1, "bcc54f494ba524b62accf2c03cfe2d1b"),
        ("b bar", 1, "6246b94074d09feb644be1a1c12c1f50"),
    ] {
        let done = place.json(map(&format!("set {set}")));
        assert_eq!((&done["root"], &done["changed"]), (&json!(root), &json!(true)));
        let stat = place.json(map("stat --check"));
        assert_eq!((&stat["root"], &stat["levels"]), (&json!(root), &json!(level + 1)));
        assert_eq!(stat["sound"], true);
    }
    let stat = place.json(map("stat"));
    assert_eq!(keys(&stat), ["kind", "entries", "levels", "root", "nodes", "bytes", "mode", "k", "q", "version"]);
    let of = ["kind", "entries", "mode", "k", "q", "version"].map(|name| &stat[name]);
    assert_eq!(of, [&json!("okra"), &json!(3), &json!("store"), &json!(16), &json!(32), &json!(3)]);
    let tree = place.json(map("tree"));
    let root = json!({
        "depth": 0, "level": 1, "key": null, "id": "6246b94074d09feb644be1a1c12c1f50", "nodes": null, "entries": 3
    });
    assert_eq!(tree["nodes"], json!([root]));
    assert_eq!(place.ok(map("tree")), "level 1  6246b94074d0  3 entries\n");
    assert_eq!(place.json(map("del a b c"))["root"], empty);
    assert_eq!(place.json(map("stat --check"))["root"], empty);
}

/// Rows of CSV with the keys 0 to `count` - 1, each as four bytes in hexadecimal, in the order that `step` makes of them.
fn numbers(count: u32, step: u32) -> String {
    (0..count).map(|n| n * step % count).map(|n| format!("{n:08x},{:08x}\n", !n)).collect()
}

#[test]
fn a_load_is_the_same_map_in_any_order() {
    for (kind, place) in kinds() {
        place.file("sorted.csv", numbers(5000, 1));
        place.file("mixed.csv", numbers(5000, 7));
        // What ascends first, and then does not.
        let both = [numbers(5000, 1), numbers(5000, 1)].concat();
        place.file("again.csv", both);
        let mut roots = Vec::new();
        for name in ["sorted", "mixed", "again"] {
            place.ok(["map", "init", name, "--kind", kind]);
            let file = format!("{name}.csv");
            let load = ["-r", name, "map", "load", &file, "--keys", "hex", "--values", "hex"];
            let done = place.json(load);
            assert_eq!(done["rows"], if name == "again" { 10_000 } else { 5000 });
            let stat = place.json(["-r", name, "map", "stat", "--check"]);
            assert_eq!((&stat["entries"], &stat["sound"]), (&json!(5000), &json!(true)), "{kind} {name}");
            roots.push(stat["root"].clone());
            assert_eq!(
                place.ok(["-r", name, "map", "get", "--keys", "hex", "000003e8", "--values", "hex"]),
                "fffffc17\n"
            );
            // A load onto what is there changes nothing more.
            assert_eq!(place.json(load)["changed"], false, "{kind} {name}");
            if kind == "native" {
                assert_eq!(place.ok(["-r", name, "log", "--oneline"]).lines().count(), 1);
                place.ok(["-r", name, "check"]);
            }
        }
        assert!(roots.iter().all(|root| *root == roots[0]), "{kind}: {roots:?}");
        // Each node once, with as many below it as it says.
        let tree = place.json(["-r", "mixed", "map", "tree"]);
        let nodes = tree["nodes"].as_array().unwrap();
        assert_eq!(nodes[0]["id"], roots[0]);
        let lowest = nodes.iter().filter(|node| node["nodes"].is_null());
        assert_eq!(lowest.map(|node| node["entries"].as_u64().unwrap()).sum::<u64>(), 5000, "{kind}");
        let inner: u64 = nodes.iter().filter_map(|node| node["nodes"].as_u64()).sum();
        assert_eq!(inner + 1, nodes.len() as u64, "{kind}");
        assert!(nodes.iter().all(|node| node["depth"].as_u64().unwrap() + node["level"].as_u64().unwrap() >= 1));
        assert_eq!(place.ok(["-r", "mixed", "map", "tree", "--depth", "1"]).lines().count(), 1);
        assert_eq!(place.ok(["-r", "mixed", "map", "tree"]).lines().count(), nodes.len());
    }
}

#[test]
fn every_format_loads_the_same_entries() {
    let print = "VERSION=3\nformat=print\ntype=btree\nHEADER=END\n";
    let bytes = "VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1048576\nHEADER=END\n";
    for (kind, place) in kinds() {
        for (name, text, options) in [
            ("a.csv", "key,value\r\n\"b,c\",\"x\n\"\"y\"\"\"\r\na%00,\\1\r\n".to_owned(), &["--header"][..]),
            ("a.jsonl", "{\"key\":\"b,c\",\"value\":\"x\\n\\\"y\\\"\"}\n[\"a%00\",\"\\\\1\"]\n".to_owned(), &[]),
            ("a.dump", format!("{print} a%00\n \\\\1\n b,c\n x\\0a\"y\"\nDATA=END\n"), &[]),
            ("b.dump", format!("{bytes} 61253030\n 5c31\n 622c63\n 780a227922\nDATA=END\n"), &["--keys", "hex"]),
        ] {
            place.file(name, text);
            place.ok([&["-r", "m", "map", "load", name][..], options].concat());
            let wanted = json!([{"key": "a%00", "value": "\\1"}, {"key": "b,c", "value": "x\n\"y\""}]);
            assert_eq!(place.json(map("list"))["entries"], wanted, "{kind} {name}");
            place.ok(map("del b,c a%2500"));
        }
        let run = place.feed(map("load - --format jsonl"), b"[\"k\",\"v\"]\n");
        assert_eq!((run.code, place.ok(map("list")).as_str()), (0, "k\tv\n"), "{run:?}");
        place.fails(2, &["--format"], map("load -"));
        place.file("a.txt", "");
        place.fails(2, &["--format csv", "jsonl", "mdb-dump"], map("load a.txt"));
        place.fails(2, &["--header"], map("load a.jsonl --header"));
        place.fails(3, &["nowhere.csv"], map("load nowhere.csv"));
    }
}

#[test]
fn a_bad_row_is_named_and_nothing_is_loaded() {
    for (kind, place) in kinds() {
        place.ok(map("set old 1"));
        let before = place.json(map("stat"))["root"].clone();
        let long = format!("a,1\n{},2\n", "k".repeat(if kind == "okra" { 511 } else { 4097 }));
        let deep = format!("{}x\n", numbers(3000, 1));
        for (name, text, says) in [
            ("few.csv", "a,1\nb\n", &["few.csv line 2", "one field"][..]),
            ("quote.csv", "a,1\n\"b,2\n", &["line 2", "quotes"]),
            ("lines.csv", "a,1\nb,\"2\n3\",4\n", &["lines.csv line 3", "the row that begins in line 2"]),
            ("long.csv", &long, &["line 2", "at most"]),
            ("deep.csv", &deep, &["line 3001", "one field"]),
            ("bad.jsonl", "[\"a\",\"1\"]\n\n{\"key\":\"b\"}\n", &["line 3", "\"value\""]),
            ("bad.dump", "VERSION=3\nformat=bytevalue\nHEADER=END\n 61\n 6\n", &["line 5"]),
            ("cut.dump", "VERSION=3\nformat=bytevalue\nHEADER=END\n 61\n 61\n", &["line 5", "DATA=END"]),
        ] {
            place.file(name, text);
            let failed = place.fails(3, says, map(&format!("load {name}")));
            assert!(failed.err.contains("nothing was loaded") && failed.out.is_empty(), "{failed:?}");
            assert_eq!(place.json(map("stat --check"))["root"], before, "{kind} {name}");
        }
        place.file("odd.csv", "6,1\n");
        place.fails(3, &["line 1", "hexadecimal"], map("load odd.csv --keys hex"));
        // Into an empty map, too.
        place.ok(map("del old"));
        place.fails(3, &["line 3001"], map("load deep.csv"));
        assert_eq!(place.ok(map("list --count")), "0\n");
    }
}

#[test]
fn maps_are_compared() {
    let entries = "c baz\na foo\nb bar";
    let okra = Place::empty();
    for name in ["one", "two"] {
        okra.ok(["map", "init", name, "--kind", "okra"]);
        for entry in entries.lines() {
            let (key, value) = entry.split_once(' ').unwrap();
            okra.ok(["-r", name, "map", "set", key, value]);
        }
    }
    let native = Place::with_store();
    for entry in entries.lines() {
        let (key, value) = entry.split_once(' ').unwrap();
        native.ok(["map", "set", key, value, "--path", "m"]);
    }
    native.ok(["branches", "two"]);
    assert_eq!(native.ok(["map", "diff", "HEAD", "two", "--path", "m", "--exit-code"]), "");
    assert_eq!(okra.ok(["-r", "one", "map", "diff", "two", "--exit-code"]), "");
    for edit in [&["set", "b", "new"][..], &["set", "d", "x"], &["del", "a"]] {
        okra.ok([&["-r", "two", "map"][..], edit].concat());
        native.ok([&["-b", "two", "map"][..], edit, &["--path", "m"]].concat());
    }
    let wanted = "- a\tfoo\n~ b\tbar\tnew\n+ d\tx\n";
    let list = json!([
        {"change": "removed", "key": "a", "before": "foo", "after": null},
        {"change": "changed", "key": "b", "before": "bar", "after": "new"},
        {"change": "added", "key": "d", "before": null, "after": "x"},
    ]);
    assert_eq!(okra.ok(["-r", "one", "map", "diff", "two"]), wanted);
    let json = okra.json(["-r", "one", "map", "diff", "two"]);
    assert_eq!(keys(&json), ["before", "after", "differences", "calls", "nodes"]);
    assert_eq!(json["differences"], list);
    assert_eq!(okra.run(["-r", "one", "map", "diff", "two", "--exit-code"]).code, 1);
    assert_eq!(native.ok(["map", "diff", "main", "two", "--path", "m"]), wanted);
    assert_eq!(native.ok(["map", "diff", "main..two", "--path", "m"]), wanted);
    assert_eq!(native.ok(["map", "diff", "-b", "two", "--path", "m"]), "- a\tfoo\n");
    let json = native.json(["map", "diff", "main", "two", "--path", "m"]);
    assert_eq!((keys(&json), &json["differences"]), (vec!["before", "after", "differences"], &list));
    assert_eq!(native.run(["map", "diff", "main", "two", "--path", "m", "--exit-code"]).code, 1);
    // The directory came between the two.
    assert_eq!(native.ok(["map", "diff", "main~2", "main", "--path", "m"]), "+ a\tfoo\n+ b\tbar\n");
    native.fails(1, &["nothing"], ["map", "diff", "main", "two", "--path", "other"]);
    // A map with itself, under another name, too.
    for name in ["one", "./one"] {
        assert_eq!(okra.ok(["-r", "one", "map", "diff", name, "--exit-code"]), "", "{name}");
    }
    okra.ok(["map", "init", "index", "--kind", "okra", "--index"]);
    okra.fails(2, &["index mode"], ["-r", "one", "map", "diff", "index"]);
    okra.fails(2, &["cone -r A map diff B"], ["-r", "one", "map", "diff"]);
    okra.fails(3, &["nowhere"], ["-r", "one", "map", "diff", "nowhere"]);
}

#[test]
fn a_native_map_is_a_directory_with_history() {
    let place = Place::with_store();
    let set = place.json(["map", "set", "apple", "3", "--path", "prices", "-m", "First"]);
    assert_eq!(keys(&set), ["branch", "commit", "root", "changed", "key", "bytes"]);
    place.ok(["map", "set", "plum/red", "2", "--path", "prices"]);
    place.ok(["map", "set", "", "the empty key", "--path", "prices"]);
    assert_eq!(place.ok(["get", "prices/apple"]), "3");
    assert_eq!(place.ok(["map", "list", "--path", "prices"]), "\tthe empty key\napple\t3\nplum/red\t2\n");
    assert_eq!(place.ok(["map", "list", "--path", "prices", "--at", "HEAD~2"]), "apple\t3\n");
    assert_eq!(place.ok(["map", "get", "apple", "--path", "prices", "--at", "HEAD:"]), "3\n");
    assert!(place.ok(["log", "-n", "3"]).contains("First"));
    place.ok(["map", "set", "apple", "4", "--path", "prices", "-b", "trial", "-c"]);
    assert_eq!(place.ok(["map", "get", "apple", "--path", "prices"]), "3\n");
    assert_eq!(place.ok(["map", "get", "apple", "--path", "prices", "-b", "trial"]), "4\n");
    let stat = place.json(["map", "stat", "--path", "prices", "--check"]);
    let names = ["kind", "entries", "levels", "root", "nodes", "bytes", "options", "sound", "damage"];
    assert_eq!((keys(&stat), &stat["entries"], &stat["levels"]), (names.to_vec(), &json!(3), &json!(1)));
    place.fails(1, &["nothing at"], ["map", "list", "--path", "nowhere"]);
    place.fails(2, &["value", "cone del"], ["map", "set", "a", "1", "--path", "prices/apple"]);
    place.fails(2, &["value", "cone del"], ["map", "set", "a", "1", "--path", "prices/apple/x"]);
    // The root holds a directory, which is no value.
    place.fails(2, &["prices", "--path"], ["map", "list"]);
    assert_eq!(place.ok(["map", "list", "--only-keys"]), "prices\n");
    // The last key goes with its directory.
    let words = ["map", "del", "", "apple", "plum/red", "--path", "prices"];
    assert_eq!(keys(&place.json(words)), ["branch", "commit", "root", "changed", "keys"]);
    assert_eq!(place.ok(["list"]), "");
    place.ok(["check"]);
}

#[test]
fn an_index_holds_hashes() {
    let place = Place::empty();
    assert_eq!(place.json(["map", "init", "m", "--kind", "okra", "--index"])["mode"], "index");
    let hash = "00112233445566778899aabbccddeeff";
    place.ok(map(&format!("set k {hash}")));
    assert_eq!(place.ok(map("list")), format!("k\t{hash}\n"));
    assert_eq!(place.json(map("get k"))["value_hex"], hash);
    place.fails(2, &["hashes of 16"], map("set k 0011"));
    place.file("a.csv", format!("a,{hash}\nb,00\n"));
    place.fails(3, &["line 2", "hashes of 16"], map("load a.csv"));
    assert_eq!(place.json(map("stat --check"))["entries"], 1);
}

#[test]
fn what_is_no_such_map_is_refused() {
    for (kind, place) in kinds() {
        let bytes_max: usize = if kind == "okra" { 510 } else { 4096 };
        let longest = "k".repeat(bytes_max);
        place.ok(map(&format!("set {longest} 1")));
        let long = "k".repeat(bytes_max + 1);
        let refused = place.fails(2, &[&bytes_max.to_string()], map(&format!("set {long} 1")));
        assert!(refused.err.contains(&(bytes_max + 1).to_string()), "{kind}: {refused:?}");
        place.fails(2, &["at most"], map(&format!("get {long}")));
        place.fails(2, &["at most"], map(&format!("list --from {long}")));
        place.fails(2, &["already"], ["map", "init", "m", "--kind", kind]);
        assert_eq!(place.ok(map("list --count")), "1\n");
    }
    let place = Place::empty();
    place.fails(3, &["no store"], ["-r", "nowhere", "map", "list"]);
    place.ok(["init", "git", "--format", "git"]);
    place.fails(3, &["format git", "native"], ["-r", "git", "map", "list"]);
    place.fails(2, &["store", "hide"], ["map", "init", "git", "--kind", "okra"]);
    place.fails(2, &["--kind okra"], ["map", "init", "n", "--index"]);
    place.ok(["map", "init", "m", "--kind", "okra"]);
    place.fails(2, &["empty"], ["-r", "m", "map", "get", ""]);
    place.fails(2, &["--at", "last state"], map("list --at HEAD"));
    place.fails(2, &["--path"], map("set a 1 --path d"));
    place.fails(2, &["--path"], map("diff other --path d"));
    // A file of another program, and one that is no file of LMDB's at all.
    place.file("other/data.mdb", vec![7; 8192]);
    let refused = place.fails(3, &["other/data.mdb"], ["-r", "other", "map", "list"]);
    assert!(refused.out.is_empty());
    place.fails(3, &["other/data.mdb"], ["-r", "other", "map", "set", "a", "1"]);
    assert_eq!(fs::read(place.path("other/data.mdb")).unwrap(), vec![7; 8192]);
}

#[test]
fn maps_of_other_constants_are_refused() {
    let place = Place::empty();
    place.ok(["map", "init", "m", "--kind", "okra"]);
    place.ok(map("set a foo"));
    let file = place.path("m/data.mdb");
    let sound = fs::read(&file).unwrap();
    let metadata = b"okra\x03\x10\0\0\0\x20\x01";
    for (at, byte, says) in
        [(0, b'x', "another program"), (4, 2, "version 2"), (5, 32, "K 32"), (9, 64, "Q 64"), (10, 9, "mode 9")]
    {
        let mut bytes = sound.clone();
        let places: Vec<_> = (0..bytes.len() - 11).filter(|&place| bytes[place..].starts_with(metadata)).collect();
        assert!(!places.is_empty());
        places.iter().for_each(|place| bytes[place + at] = byte);
        fs::write(&file, &bytes).unwrap();
        for verb in ["list", "set a 1", "stat", "diff m"] {
            let refused = place.fails(3, &["m/data.mdb", says], map(verb));
            assert!(refused.out.is_empty(), "{refused:?}");
        }
        assert_eq!(fs::read(&file).unwrap(), bytes);
    }
}

#[test]
fn damage_is_named_by_check() {
    let okra = Place::empty();
    okra.ok(["map", "init", "m", "--kind", "okra"]);
    okra.file("a.csv", numbers(500, 1));
    okra.ok(map("load a.csv --keys hex --values text"));
    let file = okra.path("m/data.mdb");
    let mut bytes = fs::read(&file).unwrap();
    let value = format!("{:08x}", !77_u32);
    let places: Vec<_> = (0..bytes.len() - 8).filter(|&at| bytes[at..].starts_with(value.as_bytes())).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|&at| bytes[at] ^= 1);
    fs::write(&file, bytes).unwrap();
    let found = okra.run(map("stat --check"));
    let said = String::from_utf8(found.out).unwrap();
    assert!(found.code == 1 && said.contains("0000004d") && said.contains("level 0"), "{said}");
    let found = okra.run(["-o", "json", "-r", "m", "map", "stat", "--check"]);
    let json: Value = serde_json::from_slice(&found.out).unwrap();
    assert_eq!((found.code, &json["sound"]), (1, &json!(false)));

    let native = Place::with_store();
    native.file("a.csv", numbers(500, 1));
    native.ok(["map", "load", "a.csv", "--keys", "hex"]);
    native.ok(["map", "stat", "--check"]);
    native.flip(value.as_bytes());
    let found = native.run(["map", "stat", "--check"]);
    let said = String::from_utf8(found.out).unwrap();
    assert!(found.code == 1 && said.contains("damage") && said.contains("sound        no"), "{said} {}", found.err);
}

#[test]
fn a_damaged_page_is_named_before_it_is_read() {
    let place = Place::empty();
    place.ok(["map", "init", "m", "--kind", "okra"]);
    place.file("a.csv", numbers(1000, 1));
    place.ok(map("load a.csv --keys hex"));
    let file = place.path("m/data.mdb");
    let sound = fs::read(&file).unwrap();
    let mut found = 0;
    for at in (2 * 4096..sound.len()).step_by(4096) {
        let mut bytes = sound.clone();
        bytes[at..at + 16].fill(0xff);
        fs::write(&file, &bytes).unwrap();
        let checked = place.run(map("stat --check"));
        // Pages that are free need not be anything.
        if checked.code == 0 {
            continue;
        }
        let says = format!("m/data.mdb is damaged at byte {at}");
        let said = String::from_utf8(checked.out).unwrap();
        assert!(checked.code == 1 && said.contains(&says), "{at}: {said} {}", checked.err);
        for verb in ["list", "get 00000001 --keys hex", "set a 1", "stat", "tree"] {
            let refused = place.fails(3, &[&says], map(verb));
            assert!(refused.out.is_empty(), "{refused:?}");
        }
        assert!(fs::read(&file).unwrap() == bytes, "it was changed");
        found += 1;
    }
    assert!(found > 5, "{found}");
}

#[test]
fn a_map_too_small_changes_nothing() {
    let place = Place::empty();
    place.ok(["map", "init", "m", "--kind", "okra"]);
    place.ok(map("set a foo"));
    let before = place.json(map("stat"))["root"].clone();
    place.file("a.csv", numbers(20_000, 1));
    place.fails(3, &["m/data.mdb", "--map-bytes"], map("load a.csv --map-bytes 65536"));
    assert_eq!(place.json(map("stat --check"))["root"], before);
    place.ok(map("load a.csv"));
    assert_eq!(place.ok(map("list --count")), "20001\n");
}

#[needs(somebody_else)]
#[test]
fn a_folder_that_cannot_be_written_is_named() {
    for (kind, place) in kinds() {
        place.ok(map("set a 1"));
        let folder = place.path("m");
        assert!(Command::new("chmod").args(["-R", "a-w"]).arg(&folder).status().unwrap().success());
        let run = place.run_as_somebody(place.command(map("set b 2")));
        run.failed(3, &["m"]);
        assert!(run.err.contains("permission") || run.err.contains("read"), "{kind}: {run:?}");
        assert!(Command::new("chmod").args(["-R", "u+w"]).arg(&folder).status().unwrap().success());
        assert_eq!(place.ok(map("list")), "a\t1\n");
    }
}

#[needs(lmdb)]
#[test]
fn dumps_of_lmdb_itself_are_read() {
    for (kind, place) in kinds() {
        fs::create_dir(place.path("plain")).unwrap();
        let text =
            "VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1048576\nHEADER=END\n 61\n 7a00ff\n 62ff\n \nDATA=END\n";
        let dump = place.file("in.dump", text);
        let lmdb = |program: &str, words: &[&str]| {
            let run = Command::new(program).args(words).current_dir(place.path("")).output().unwrap();
            assert!(run.status.success(), "{program}: {run:?}");
            run.stdout
        };
        lmdb("mdb_load", &["-f", dump.to_str().unwrap(), "plain"]);
        for options in [&["plain"][..], &["-p", "plain"]] {
            place.file("out.dump", lmdb("mdb_dump", options));
            place.ok(map("load out.dump"));
            assert_eq!(place.ok(map("list --keys hex --values hex")), "61\t7a00ff\n62ff\t\n", "{kind}");
            place.ok(map("del 61 62ff --keys hex"));
        }
        let refused = Run::of(place.command(["-r", "plain", "map", "list"]));
        refused.failed(3, &["plain/data.mdb", "another program"]);
    }
}

#[test]
fn a_map_whose_keys_are_no_steps_is_drawn() {
    let place = Place::with_store();
    for key in ["", "a/b", "c"] {
        place.ok(["map", "set", key, "x"]);
    }
    assert!(place.ok(["tree"]).ends_with("c\n\n0 directories, 3 values\n"));
    let entries = place.json(["tree"])["entries"].clone();
    let shown = |entry: &serde_json::Value| {
        (entry["path"].as_str().map(str::to_owned), entry["step"].as_str().map(str::to_owned))
    };
    let some = |text: &str| Some(text.to_owned());
    let found: Vec<_> = entries.as_array().unwrap().iter().map(shown).collect();
    assert_eq!(found, [(None, some("")), (None, some("a/b")), (some("c"), None)]);
    for key in ["", "a/b", "c", "d"] {
        place.ok(["map", "set", key, "y"]);
    }
    let differences = |words: &[&str]| {
        let run = place.run(words);
        assert_eq!(run.code, 0, "{run:?}");
        assert!(run.err.contains("2 keys of maps that are no steps of paths differ, too"), "{}", run.err);
        String::from_utf8(run.out).unwrap()
    };
    assert_eq!(differences(&["diff", "HEAD~4"]), "M c\nA d\n");
    assert!(place.run(["show", "HEAD~2"]).err.contains("1 key of a map that is no step of a path differs"));
}

#[test]
fn options_of_the_other_kind_are_refused() {
    for (kind, place) in kinds() {
        place.ok(map("set a 1"));
        let refused: &[&str] = match kind {
            "okra" => &[
                "set a 2 -m why",
                "set a 2 -b main",
                "set a 2 -c",
                "set a 2 --orphan",
                "set a 2 --author A<a@b>",
                "set a 2 --date 1",
                "set a 2 --allow-empty",
                "set a 2 --durability none",
                "del a --durability grouped",
                "del a -m why",
                "list -b main",
                "set a 2 --worktree",
                "list --worktree",
                "get a --at HEAD",
                "stat --path p",
            ],
            _ => &["set a 2 --map-bytes 65536", "del a --map-bytes 65536"],
        };
        for words in refused {
            place.fails(2, &["leave", "out"], map(words));
        }
        place.ok(map("set a 1 --durability synced"));
        assert_eq!(place.ok(map("get a")), "1\n");
    }
    let place = Place::empty();
    for option in [&["--here"][..], &["-b", "x"]] {
        place.fails(2, &["--kind native"], [&["map", "init", "m", "--kind", "okra"][..], option].concat());
    }
    place.fails(2, &["leave it out"], ["map", "init", "m", "--kind", "okra", "--worktree"]);
    assert!(!place.path("m").exists());
}
