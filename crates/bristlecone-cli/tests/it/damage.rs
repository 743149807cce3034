//! Damaged stores: never a wrong answer, always named.

use std::fs;

use crate::harness::Place;

fn store() -> Place {
    let place = Place::with_store();
    place.ok(["set", "good", "sound"]);
    place.ok(["checkout", "-c", "hurt"]);
    place.ok(["set", "bad", &"target of a flipped bit ".repeat(20)]);
    place.ok(["set", "more", "later"]);
    place.ok(["set", "still", "more"]);
    place
}

#[test]
fn a_sound_store_is_sound() {
    let place = store();
    assert!(place.ok(["check"]).contains("no damage"));
}

#[test]
fn a_store_with_tags_and_an_empty_directory_is_sound() {
    let place = Place::empty();
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../bristlecone/tests/golden/native-1");
    fs::create_dir_all(place.path(".bristlecone/segments")).unwrap();
    fs::copy(golden.join("store"), place.path(".bristlecone/store")).unwrap();
    for entry in fs::read_dir(golden.join("segments")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), place.path(".bristlecone/segments").join(entry.file_name())).unwrap();
    }
    assert!(place.ok(["check"]).contains("no damage"));
    assert!(place.ok(["list"]).contains("empty/"));
    place.ok(["set", "empty/x", "1"]);
    place.ok(["del", "empty/x"]);
    assert!(!place.ok(["list"]).contains("empty/"));
    // The tag that leads to a damaged object is named as a branch would be.
    place.flip(b"git-raw");
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(text.contains("affected: refs/tags/v1\n") && text.contains("affected: refs/heads/main\n"), "{text}");
}

#[test]
fn a_directory_that_is_cut_otherwise_is_named_with_the_branches_it_hurts() {
    use bristlecone::{Batch, Durability, Info, Kind, Native, Repo, disk::DiskOptions};
    use bristlecone_testkit::pieces::{self, Pieces};
    let place = store();
    let repo: Repo = Repo::open(place.path(".bristlecone"), DiskOptions::default()).unwrap();
    let mut tree = repo.tree();
    for n in 0..2000 {
        tree.set(format!("{n}"), "v").unwrap();
    }
    let info = Info::unsigned("m");
    let (wide, odd) = (repo.branch("wide").unwrap(), repo.branch("odd").unwrap());
    let head = wide.commit(&mut tree, &info).unwrap();
    let mut commit = repo.read_commit(head).unwrap();
    let mut pieces = Pieces::read(&**repo.backend(), commit.tree.oid()).unwrap();
    // One entry goes over from a leaf to its neighbour: each node is sound by itself, and nothing else is the same.
    let cut = *pieces.starts[0].iter().nth(9).unwrap();
    pieces.shift(0, cut, cut + 1);
    let made = pieces.make(&Native::new(), &mut |_, _, _| ());
    let mut batch = Batch::new();
    for piece in &made {
        pieces::put(&mut batch, repo.format(), Kind::Node, &piece.body);
    }
    repo.backend().append(batch, &[], Durability::None).unwrap();
    commit.tree = made.last().unwrap().oid.into();
    let head = repo.write_commit(&commit, 1, Durability::None).unwrap();
    odd.compare_and_set(None, Some(head), Durability::Synced).unwrap();
    drop((wide, odd, tree, repo));
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert_eq!(run.code, 1, "{text}");
    assert!(made.iter().any(|piece| text.contains(&format!("damage: object {}: ", piece.oid))), "{text}");
    assert!(text.contains("affected: refs/heads/odd\n") && !text.contains("affected: refs/heads/wide\n"), "{text}");
    assert!(text.contains("1 place of damage"), "{text}");
}

#[test]
fn a_flipped_bit_in_a_value_is_named_with_the_branches_it_hurts() {
    let place = store();
    place.flip(b"target of a flipped bit");
    std::fs::write(place.path("mine"), "keep").unwrap();
    place.fails(3, &["cone check"], ["get", "bad", "--out", "mine"]);
    assert_eq!(std::fs::read_to_string(place.path("mine")).unwrap(), "keep");
    let run = place.run(["check"]);
    assert_eq!(run.code, 1, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    assert!(text.contains("damage: ") && text.contains(".seg at byte "), "{text}");
    assert!(text.contains("affected: refs/heads/hurt\n"), "{text}");
    assert!(!text.contains("affected: refs/heads/main"), "{text}");
    place.fails(3, &["damaged", "cone check"], ["get", "bad"]);
    assert_eq!(place.ok(["get", "good"]), "sound");
    let mut command = place.command(["-o", "json", "check"]);
    let report: serde_json::Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    assert_eq!((&report["sound"], &report["affected"]), (&false.into(), &serde_json::json!(["refs/heads/hurt"])));
    assert!(report["damage"][0]["file"].as_str().unwrap().ends_with(".seg"));
}

#[test]
fn a_damaged_header_is_named() {
    let place = store();
    let header = place.path(".bristlecone/store");
    let mut bytes = fs::read(&header).unwrap();
    bytes[20] ^= 1;
    fs::write(&header, bytes).unwrap();
    let run = place.run(["check"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(String::from_utf8(run.out).unwrap().contains("damage: "));
    place.fails(3, &["store is damaged"], ["list"]);
}

#[test]
fn a_missing_segment_is_an_answer_or_an_error_but_no_panic() {
    let place = store();
    for entry in fs::read_dir(place.path(".bristlecone/segments")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for verb in [&["check"][..], &["list"], &["set", "a", "1"], &["info"]] {
        let run = place.run(verb);
        assert!(run.code == 1 || run.code == 3, "{run:?}");
        assert!(!run.err.contains("panicked"), "{run:?}");
    }
}

#[test]
fn a_folder_of_segments_that_is_missing_is_named_as_the_loss_that_it_is() {
    let place = store();
    fs::rename(place.path(".bristlecone/segments"), place.path("aside")).unwrap();
    for verb in [&["list"][..], &["set", "a", "1"], &["info"], &["repair"]] {
        place.fails(3, &[".bristlecone/segments", "folder of the segments is missing", "from a backup"], verb);
    }
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(run.code == 1 && text.contains("damage: ") && text.contains("folder of the segments is missing"), "{text}");
    assert!(!place.path(".bristlecone/segments").exists(), "nothing is made in its place");
    fs::rename(place.path("aside"), place.path(".bristlecone/segments")).unwrap();
    assert_eq!(place.ok(["get", "good"]), "sound");
}

#[test]
fn a_lost_header_is_restored_by_a_repair_and_never_made_anew() {
    let place = store();
    fs::remove_file(place.path(".bristlecone/store")).unwrap();
    for verb in [&["list"][..], &["set", "a", "1"], &["init"]] {
        place.fails(3, &["store", "header is missing", "cone repair"], verb);
    }
    let run = place.run(["check"]);
    let text = String::from_utf8(run.out).unwrap();
    assert!(
        run.code == 1 && text.contains("header is missing") && text.contains("`cone repair` restores it"),
        "{text}"
    );
    assert!(place.ok(["repair"]).contains("the header was restored"));
    assert_eq!(place.ok(["get", "good"]), "sound");
    assert!(place.ok(["check"]).contains("no damage"));
    assert!(place.ok(["repair"]).contains("nothing to repair"));
    assert_eq!(place.json(["repair"])["header_restored"], false);
}

#[test]
fn a_segment_that_was_cut_is_told_and_so_is_that_a_repair_made_it_longer() {
    let place = store();
    let segment = place.path(".bristlecone/segments/00000001.seg");
    let cut = || {
        let file = fs::File::options().write(true).open(&segment).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1000).unwrap();
    };
    cut();
    place.fails(3, &["00000001.seg", "it was cut", "cone repair"], ["list"]);
    let output = place.ok(["repair"]);
    assert!(output.contains("00000001.seg was cut") && !output.contains("nothing to repair"), "{output}");
    assert_eq!(place.ok(["get", "good"]), "sound");
    cut();
    let files = &place.json(["repair"])["segments_lengthened"];
    assert!(files[0].as_str().unwrap().ends_with("00000001.seg") && files[1].is_null(), "{files}");
    assert!(place.ok(["repair"]).contains("nothing to repair"));
    assert!(place.ok(["check"]).contains("no damage"));
}

/// The one segment of a small store: nothing else is there by which the header could be known to be the right one.
#[test]
fn a_flipped_bit_in_the_head_of_the_only_segment_is_put_right() {
    let place = store();
    let segment = place.path(".bristlecone/segments/00000001.seg");
    let whole = fs::read(&segment).unwrap();
    for at in [0, 16, 60, 87] {
        let mut bytes = whole.clone();
        bytes[at] ^= 4;
        fs::write(&segment, bytes).unwrap();
        place.fails(3, &["00000001.seg"], ["list"]);
        assert!(place.ok(["repair"]).contains("head of a segment was put right"), "byte {at}");
        assert_eq!(place.ok(["get", "good"]), "sound");
        assert!(fs::read(&segment).unwrap() == whole, "byte {at}");
    }
    assert_eq!(place.json(["repair"])["heads_restored"], 0);
}

#[test]
fn the_end_of_a_log_that_is_lost_is_told_and_given_up_by_a_decision_alone() {
    let place = store();
    let segment = place.path(".bristlecone/segments/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes[end - 400..].fill(0);
    fs::write(&segment, &bytes).unwrap();
    place.fails(3, &["00000001.seg", "was durable up to", "cone repair --accept-end"], ["set", "new", "1"]);
    let run = place.run(["list"]);
    assert!(run.code == 0 && run.err.contains("warning: ") && run.err.contains("00000001.seg"), "{run:?}");
    assert_eq!(place.run(["check"]).code, 1);
    // So do a copy of it, and one that would go there.
    place.ok(["init", "other"]);
    place.ok(["-r", "other", "set", "a", "1"]);
    for words in [&["copy", ".", "copy"][..], &["copy", "other", ".", "--dry-run"]] {
        let run = place.run(words);
        assert!(run.err.contains("warning: ") && run.err.contains("00000001.seg"), "{run:?}");
    }
    place.fails(3, &["cone repair --accept-end"], ["repair"]);
    assert_eq!(fs::read(&segment).unwrap(), bytes, "nothing is changed before the decision");
    let output = place.ok(["repair", "--accept-end"]);
    assert!(output.contains("given up: ") && output.contains("are kept in "), "{output}");
    place.ok(["set", "new", "1"]);
    assert!(place.ok(["check"]).contains("no damage"));
    let kept = fs::read_dir(place.path(".bristlecone/segments")).unwrap();
    assert!(kept.filter_map(Result::ok).any(|file| file.file_name().to_string_lossy().starts_with("behind-")));
}

#[test]
fn a_last_segment_that_is_gone_is_missed() {
    let place = store();
    place.ok(["set", "large", &"x".repeat(2000)]);
    for n in 0..12 {
        assert_eq!(place.feed(["set", &format!("v{n}"), "-"], &vec![n; 100_000]).code, 0);
    }
    fs::remove_file(place.path(".bristlecone/segments/00000002.seg")).unwrap();
    place.fails(3, &["00000002.seg", "missing", "cone repair --accept-end"], ["set", "new", "1"]);
    assert!(place.run(["list"]).err.contains("warning: "));
    place.ok(["repair", "--accept-end"]);
    let run = place.run(["set", "new", "1"]);
    assert!(run.code == 0 && run.err.contains("note: "), "{run:?}");
    assert!(place.run(["set", "newer", "1"]).err.is_empty());
}

#[test]
fn an_index_that_does_not_fit_is_named_and_is_no_damage() {
    let place = store();
    let index = place.path(".bristlecone/segments/00000001.ids");
    fs::write(&index, "of another segment").unwrap();
    let text = place.ok(["check"]);
    assert!(text.contains("note: ") && text.contains("00000001.ids is not the index of its segment"), "{text}");
    assert!(text.contains("no damage"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&place.ok(["-o", "json", "check"])).unwrap();
    assert_eq!(report["sound"], true);
    assert!(report["stale_indexes"][0].as_str().unwrap().ends_with("00000001.ids"));
    assert_eq!(place.ok(["get", "good"]), "sound");
}
