//! Sound inputs, from which the search begins: they lead into code that no bytes made by chance reach.
//!
//! They stand in the corpus as `seed-NAME`. `BRISTLECONE_BLESS=1 cargo test -p bristlecone-fuzz --lib` writes them anew.

use std::{fs, path::Path};

use bristlecone_core::{
    Change, ChangeTarget, Commit, EntryKind, Format, Kind, Location, Mode, NoSource, ObjRef, Oid, Signature, Sink, Tag,
    Zone,
    git::{Algorithm, Git},
    native::Native,
    tezos::Tezos,
    write_record,
};
use bristlecone_git::{
    odb::loose,
    pack::{Builder, Compression},
};
use bristlecone_tezos::{HashesBuf, KeyBuf, Row, Scoped, Writer};

use crate::{
    directory::directory,
    input::Input,
    objects::{DIR_ID, Store, VALUE_BYTES, VALUE_ID, id_of},
};

/// A target, the name of an input of it, and the input.
type Seed = (&'static str, String, Vec<u8>);

/// Objects in the order in which a format made them.
#[derive(Default)]
struct Made(Vec<(Oid, Vec<u8>)>);

impl Sink for Made {
    fn put(&mut self, _: Kind, oid: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.0.push((oid, body.to_vec()));
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

fn run(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_le_bytes(), bytes].concat()
}

/// Writes numbers of objects in the place of their ids, as inputs have them.
fn with_numbers(body: &[u8], ids: &[Oid]) -> Vec<u8> {
    let mut body = body.to_vec();
    for (index, oid) in ids.iter().enumerate() {
        let oid = oid.as_bytes();
        let mut at = 0;
        while at + oid.len() <= body.len() {
            if body[at..at + oid.len()] == *oid {
                body[at..at + oid.len()].fill(index as u8 + 1);
            }
            at += 1;
        }
    }
    body
}

fn oid(oid_bytes: usize, byte: u8) -> ObjRef {
    id_of(byte, oid_bytes).into()
}

/// A directory of `count` entries of all sorts, one that differs from it in a few, and questions about some names.
fn directories<F: Format>(format: &F, options: u8, oid_bytes: usize, count: usize) -> Vec<u8> {
    let steps: Vec<String> = (0..count).map(|number| format!("n{number:03}")).collect();
    let change = |(number, step): (usize, &'_ String)| -> (Vec<u8>, Mode, (EntryKind, ChangeTarget<'static>)) {
        let value = ChangeTarget::Object { at: oid(oid_bytes, VALUE_ID), bytes: VALUE_BYTES as u64 };
        let to = match number % 5 {
            0 if format.inline_bytes_max() > 0 => (EntryKind::Value, ChangeTarget::Inline(b"value")),
            1 => (EntryKind::Dir, ChangeTarget::Object { at: oid(oid_bytes, DIR_ID), bytes: 0 }),
            2 if format.holds(EntryKind::Executable) => (EntryKind::Executable, value),
            3 if format.holds(EntryKind::Foreign) => {
                (EntryKind::Foreign, ChangeTarget::Foreign(oid(oid_bytes, 0xbb).oid))
            }
            _ => (EntryKind::Value, value),
        };
        (step.clone().into_bytes(), Mode::USUAL, to)
    };
    let owned: Vec<_> = steps.iter().enumerate().map(change).collect();
    let changes: Vec<Change<'_>> =
        owned.iter().map(|(step, mode, to)| Change { step, mode: *mode, to: Some(*to) }).collect();
    let (mut first, mut second, mut store) = (Made::default(), Made::default(), Store::default());
    let root = format.update(&NoSource, &mut first, None, &changes).unwrap().unwrap();
    format.update(&NoSource, &mut store, None, &changes).unwrap();
    let gone = [Change { step: b"n000", mode: Mode::USUAL, to: None }, Change { step: b"new", ..changes[1] }];
    store.begin(false);
    format.update(&store, &mut second, Some(&root), &gone).unwrap().unwrap();
    let (first_root, second_root) = (first.0.pop().unwrap(), second.0.pop().unwrap());
    let objects: Vec<_> = first.0.into_iter().chain(second.0).chain([first_root, second_root]).collect();
    let ids: Vec<Oid> = objects.iter().map(|(oid, _)| *oid).collect();
    let mut seed = vec![options, 4];
    for (removed, name) in [(0, &b"n001"[..]), (1, b"n002"), (1, b"n999"), (0, b"x")] {
        seed.extend([removed, name.len() as u8]);
        seed.extend(name);
    }
    for (index, (_, body)) in objects.iter().enumerate() {
        seed.extend(run(&with_numbers(body, &ids[..index])));
    }
    let checked = directory(format, oid_bytes, &mut Input::new(&seed[1..], usize::MAX));
    assert!(checked, "a directory that {} made is sound", F::NAME);
    seed
}

fn of_directories(seeds: &mut Vec<Seed>) {
    for count in [2, 5, 90] {
        let native = directories(&Native::new(), 0, 32, count);
        seeds.push(("native_directory", format!("{count}"), native));
        let narrow = [(0, Tezos::new()), (2, Tezos::new().hashing(2, 2)), (4, Tezos::new().hashing(4, 12))];
        for (options, tezos) in narrow {
            seeds.push(("tezos_directory", format!("{count}-{options}"), directories(&tezos, options, 32, count)));
        }
        for (options, git) in [(0, Git::sha1()), (1, Git::sha256())] {
            if count < 90 || options == 0 {
                let bytes = git.algorithm().oid_bytes();
                seeds.push(("git_directory", format!("{count}-{options}"), directories(&git, options, bytes, count)));
            }
        }
    }
    seeds.push(("native_directory", "whole".to_owned(), directories(&Native::new().split(false), 1, 32, 70)));
    seeds.push(("native_directory", "flat".to_owned(), directories(&Native::new().group(0).inline(0), 8, 32, 5)));
    for (name, raw) in [
        ("one", [&b"\x00100644 a\0"[..], &[7; 20]].concat()),
        ("three", [&b"\x00100755 a-b\0"[..], &[7; 20], b"40000 a\0", &[8; 20], b"160000 b\0", &[9; 20]].concat()),
        ("old", [&b"\x00100664 .git\0"[..], &[7; 20], b"040000 \xff\0", &[8; 20]].concat()),
    ] {
        seeds.push(("git_tree", name.to_owned(), raw));
    }
    let list = |level: u8, items: &[(u8, u8)]| {
        let items = items.iter().flat_map(|(bytes, number)| [&[*bytes][..], &[*number; 32]].concat());
        [&[level, 0][..], &items.collect::<Vec<u8>>()].concat()
    };
    let with_count = |mut list: Vec<u8>, count: u8| {
        list[1] = count;
        list
    };
    let leaf = with_count(list(0, &[(3, 1), (4, 2)]), 2);
    let top = with_count(list(1, &[(7, 3), (7, 3)]), 2);
    let value = [&[2, 0, 6, 0, 0][..], &run(b"abc"), &[0], &run(b"defg"), &[1], &run(&leaf), &[1], &run(&top)].concat();
    seeds.push(("native_value", "lists".to_owned(), value));
    seeds.push(("native_value", "whole".to_owned(), [&[0, 0, 9, 0, 0][..], &run(b"a value")].concat()));
}

fn of_commits(seeds: &mut Vec<Seed>) {
    let who = Signature { ident: b"Ada <a@b>".to_vec(), seconds: -5, zone: Zone::from_minutes(-90) };
    let at = |byte| oid(32, byte);
    let mut commit = Commit::new(at(1).into(), vec![at(2).into(), at(3).into()], who.clone(), "message");
    let last = |made: Made| made.0.last().unwrap().1.clone();
    let put = |commit: &Commit| {
        let mut made = Made::default();
        Native::new().put_commit(&mut made, commit, 1).unwrap();
        last(made)
    };
    seeds.push(("native_commit", "plain".to_owned(), put(&commit)));
    let plain = Commit::new(at(1).into(), vec![at(2).into()], Signature::new("Tezos", -5), "message");
    let mut made = Made::default();
    Tezos::new().put_commit(&mut made, &plain, 1).unwrap();
    seeds.push(("tezos_commit", "plain".to_owned(), last(made)));
    commit.committer.seconds = 9;
    commit.headers = vec![(b"encoding".to_vec(), b"latin".to_vec())];
    seeds.push(("native_commit", "headers".to_owned(), put(&commit)));
    for (name, kind, tagger) in [("commit", Kind::Commit, Some(who)), ("node", Kind::Node, None)] {
        let (v1, headers, message) = (b"v1".to_vec(), commit.headers.clone(), b"message".to_vec());
        let mut made = Made::default();
        Native::new().put_tag(&mut made, &Tag { target: at(1), kind, name: v1, tagger, headers, message }).unwrap();
        seeds.push(("native_tag", name.to_owned(), last(made)));
    }
    let id = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    let text = format!(
        "\0tree {id}\nparent {id}\nauthor A <a@b> 12 +0100\ncommitter C <> 7 -0000\nencoding x\ngpgsig a\n \n b\n\nwhy\n"
    );
    seeds.push(("git_commit", "signed".to_owned(), text.into_bytes()));
    let tag = format!("\0object {id}\ntype commit\ntag v1\ntagger A <a@b> 12 +0100\nx y\n z\n\nwhy\n");
    seeds.push(("git_tag", "plain".to_owned(), tag.into_bytes()));
    let mut record = Vec::new();
    write_record(&mut record, Kind::Node, &oid(20, 5).oid, b"some body", &[Location(8), Location::NONE], &[7]);
    seeds.push(("record", "node".to_owned(), record));
}

fn of_files(seeds: &mut Vec<Seed>) {
    for choice in 0..8 {
        seeds.push(("disk_store", format!("sound-{choice}"), vec![choice, 0]));
    }
    for (name, bytes) in
        [("flip", &[1, 1, 3, 2, 200, 0, 4][..]), ("cut", &[0, 1, 1, 3, 0, 9]), ("sealed", &[4, 1, 4, 3, 100, 0, 9, 0])]
    {
        seeds.push(("disk_store", name.to_owned(), bytes.to_vec()));
    }
    for target in
        ["disk_state", "disk_cold", "disk_refs", "disk_filters", "disk_indexes", "disk_readers", "history_files"]
    {
        for choice in 0..8 {
            seeds.push((target, format!("sound-{choice}"), vec![choice, 0]));
        }
        // Flips, numbers, and an end that is cut, in files whose checksums are made right or are not.
        for place in [9, 20, 41, 60, 77, 100, 130] {
            for (choice, change) in [(0, [3, 0, place, 0, 4]), (4, [3, 0, place, 0, 1]), (5, [3, 1, place, 0, 0x80])] {
                seeds.push((target, format!("flip-{choice}-{place}"), [&[choice, 1][..], &change].concat()));
            }
        }
        seeds.push((target, "number".to_owned(), vec![4, 2, 4, 0, 44, 0, 0xff, 0xff, 4, 1, 12, 0, 2, 0]));
        seeds.push((target, "cut".to_owned(), vec![4, 1, 1, 0, 70, 0]));
        seeds.push((target, "gone".to_owned(), vec![0, 1, 7, 0, 0, 0]));
        seeds.push((target, "copied".to_owned(), vec![4, 1, 5, 0, 80, 0, 48, 0, 40, 0]));
    }
    for choice in 0..2 {
        seeds.push(("git_repository", format!("sound-{choice}"), vec![choice, 0]));
    }
    seeds.push((
        "git_repository",
        "packed-refs".to_owned(),
        [&[0, 1, 6, 8, 0, 0][..], &run(b"# pack-refs with: peeled\n")].concat(),
    ));
    let delta = [&run(b"0123456789")[..], &[10, 12, 0x90, 10, 2, b'a', b'b']].concat();
    seeds.push(("git_delta", "copy".to_owned(), delta));
    let mut builder = Builder::new(Algorithm::Sha1);
    for raw in [&b"one"[..], b"two", b"three"] {
        builder.add(Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, raw), raw, Compression::Stored);
    }
    seeds.push(("git_index", "three".to_owned(), [&[2][..], &builder.finish().index].concat()));
    let pack = |choice: u8, changes: &[u8]| {
        let objects =
            [&[1][..], &run(b"0123456789"), &[5, 0, 0], &run(&[10, 11, 0x90, 10, 1, b'!']), &[24, 1, 0]].concat();
        let third =
            [&run(&[11, 12, 0x90, 11, 1, b'?'])[..], &[19], &run(b"a commit"), &[12, 0, 0], &run(&[1, 1, 0x90, 1])]
                .concat();
        [&[choice][..], &objects, &third, &[0], changes].concat()
    };
    seeds.push(("git_pack", "chain".to_owned(), pack(0, &[])));
    seeds.push(("git_pack", "changed".to_owned(), pack(3, &[1, 20, 0, 1, 0x95, 1, 30, 0, 1, 9])));
    let mut file = vec![0];
    loose::encode(Kind::Contents, b"some value", Compression::Level(6), &mut file);
    seeds.push(("git_loose", "deflated".to_owned(), file));
    seeds.push(("git_loose", "changed".to_owned(), [&[5][..], &run(b"some value"), &[1, 9, 0, 1, 7]].concat()));
    let config = "[core]\n\tbare = false\n\tx = \"a # \\\"b\\\"\" ; why\n[remote \"origin\"]\n\turl = a\\\n b\n[branch.main] n=1k\n[a \"b\"]\nc\n";
    seeds.push(("git_config", "all".to_owned(), config.as_bytes().to_vec()));
    let patterns =
        [&[1][..], &run(b"dir/sub/a.txt"), b"# why\n*.txt\n!a.txt\n/dir/**/a[b-d]?\ndir/\n**/sub/*\\ \n[![:alpha:]]\n"]
            .concat();
    seeds.push(("git_ignore", "all".to_owned(), patterns));
}

fn of_text(seeds: &mut Vec<Seed>) {
    let texts = [
        ("path", "a%20b/%ff//c"),
        ("native", "inline=48 split=on group=2"),
        ("tezos", "entries=2 stable=30 inline=7 split=off"),
        ("git", "hash=sha256"),
        ("hash", "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj"),
        ("url", "file:///srv/my%20data"),
        ("who", "A B <a@b>"),
        ("moment", "1700000000 +0130"),
        ("oid", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"),
        ("ref", "refs/heads/a.b-c"),
    ];
    for (name, text) in texts {
        seeds.push(("texts", name.to_owned(), text.as_bytes().to_vec()));
    }
    let revisions = [
        "main~2",
        "HEAD@{1}^{tree}",
        "main^{commit}~1:fruit/0/",
        ":/apples 1",
        "side..main",
        "main...side",
        "main ^main~1 fruit",
    ];
    for (number, text) in revisions.iter().enumerate() {
        seeds.push(("revisions", format!("{number}"), [&[number as u8 % 3], text.as_bytes()].concat()));
    }
}

fn of_traces(seeds: &mut Vec<Seed>) {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let (keep, forget) = (Scoped::<i64>::keep, Scoped::<i64>::forget);
    let (a, b, dir) = (KeyBuf::from_steps(["a", "b"]), KeyBuf::from_steps(["c"]), KeyBuf::from_steps(["a"]));
    let (first, second) = (Scoped::keep(&b"first"[..]), Scoped::forget(&b"second"[..]));
    let (none, mut parents) = (HashesBuf::new(), HashesBuf::new());
    parents.push(first);
    let commit = |hash, parents, input| Row::Commit { hash, date: 7, message: b"m", parents, input };
    for row in [
        Row::Add { key: a.as_key(), value: b"hi", input: forget(0), output: keep(1) },
        Row::Find { key: a.as_key(), found: true, input: keep(1) },
        commit(first, none.as_hashes(), forget(1)),
        Row::Checkout { hash: first, output: keep(2) },
        Row::Copy { source: dir.as_key(), destination: b.as_key(), input: forget(2), output: keep(3) },
        Row::Mem { key: b.as_key(), found: false, input: keep(3) },
        Row::MemTree { key: b.as_key(), found: true, input: keep(3) },
        Row::Remove { key: a.as_key(), input: forget(3), output: keep(4) },
        commit(second, parents.as_hashes(), forget(4)),
    ] {
        writer.row(&row).unwrap();
    }
    seeds.push(("trace", "rows".to_owned(), writer.finish().unwrap()));
}

/// Short blocks of several eras, and the first blocks of a chunk with their indexes.
fn of_chains(seeds: &mut Vec<Seed>) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/cardano");
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    for name in ["byron1", "byron4", "alonzo10", "babbage1", "conway1", "conway3"] {
        let text = fs::read(data.join(format!("blocks/pallas/{name}.block"))).unwrap();
        let digits: Vec<u8> = text.iter().filter_map(|byte| digit(*byte)).collect();
        let block = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        seeds.push(("cardano_block", name.to_owned(), block));
    }
    let file = |extension: &str| fs::read(data.join(format!("devnet/immutable/00000.{extension}"))).unwrap();
    let (primary, secondary, chunk) = (file("primary"), file("secondary"), file("chunk"));
    // The third entry says where the second block ends.
    let end = u64::from_be_bytes(secondary[112..120].try_into().unwrap()) as usize;
    let two = [run(&primary[..13]), run(&secondary[..112]), chunk[..end].to_vec()].concat();
    seeds.push(("cardano_chunk", "two-blocks".to_owned(), two));
    let torn = [run(&primary[..13]), run(&secondary[..112]), chunk[..end - 9].to_vec()].concat();
    seeds.push(("cardano_chunk", "torn".to_owned(), torn));
}

fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    of_directories(&mut seeds);
    of_commits(&mut seeds);
    of_files(&mut seeds);
    of_text(&mut seeds);
    of_traces(&mut seeds);
    of_chains(&mut seeds);
    seeds
}

#[test]
fn sound_inputs_are_in_the_corpus() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (target, name, bytes) in all() {
        let file = corpus.join(target).join(format!("seed-{name}"));
        if std::env::var_os("BRISTLECONE_BLESS").is_some() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, &bytes).unwrap();
        }
        let found = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(found == bytes, "{} differs; BRISTLECONE_BLESS=1 writes it anew", file.display());
    }
}
