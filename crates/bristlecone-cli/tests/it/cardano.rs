//! `cone replay cardano` and `cone utxo`: shipped chains, stores that stay, digests, damage, two profiles.

use std::{fs, path::PathBuf};

use serde_json::Value;

use crate::harness::{Place, Run};

/// Returns where shipped chain data are.
fn data(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano").join(name);
    path.to_str().unwrap().to_owned()
}

fn row(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_slice(&run.out).unwrap()
}

const DEVNET: &str = "29a5c0d434c5408286656c522f308d9d31acd630a5d57e85b848733c0e604a73";
const PREPROD: &str = "738ad06ec66237b115ce6be064a9a018ab93333f83047fdfa7acc3a312203ca0";

#[test]
fn a_chain_ends_on_its_digest_with_every_index_and_store() {
    let place = Place::empty();
    fs::create_dir(place.path("scratch")).unwrap();
    let chain = data("devnet");
    for options in [
        &["--backend", "memory"][..],
        &["--backend", "disk", "--index", "mmap", "--durability", "synced", "--commit-unchanged"],
        &["--backend", "lsm", "--commit-every", "7"],
        &["--backend", "lmdb", "--profile", "low-memory"],
        &["--backend", "fs"],
        &["--utxo", "lsm"],
    ] {
        let all = ["-o", "json", "replay", "cardano", &chain, "--allow-missing", "--dir", "scratch"];
        let run = place.run(all.iter().chain(options));
        let row = row(&run);
        assert_eq!((&row["total_ops"], &row["chain"]["entries"]), (&400.into(), &14.into()), "{options:?}");
        assert_eq!((&row["chain"]["digest"], &row["chain"]["missing"]), (&DEVNET.into(), &3.into()), "{options:?}");
        assert_eq!(row["wrong"], Value::Null, "{options:?}");
        assert_eq!(fs::read_dir(place.path("scratch")).unwrap().count(), 0, "the stores are removed again");
    }
}

#[test]
fn checkpoints_are_compared_and_a_wrong_one_is_1() {
    let place = Place::empty();
    let (chain, byron, shelley) =
        (data("preview"), data("preview/byron-genesis.json"), data("preview/shelley-genesis.json"));
    let known = data("preview/utxo-checkpoints.csv");
    let all = ["replay", "cardano", &chain, "--genesis", &byron, "--genesis", &shelley, "--dir", "."];
    let run = place.run(["-o", "json"].iter().chain(&all).chain(&["--checkpoints", &known]));
    let row = row(&run);
    assert_eq!((&row["chain"]["checkpoints"], &row["checked"]), (&3.into(), &true.into()));
    fs::write(place.path("wrong.csv"), fs::read_to_string(&known).unwrap().replace("d93ffa3d", "d93ffa3e")).unwrap();
    let run = place.run(all.iter().chain(&["--checkpoints", "wrong.csv"]));
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("after chunk 0 the digest of the set is"), "{}", run.err);
    // Genesis files of two networks.
    let other = fs::read_to_string(&shelley).unwrap().replace("\"networkMagic\": 2", "\"networkMagic\": 1");
    fs::write(place.path("other.json"), other).unwrap();
    let networks = ["replay", "cardano", &chain, "--genesis", &byron, "--genesis", "other.json", "--dir", "."];
    for more in [&["--compare"][..], &["--runs", "2"], &[]] {
        let run = place.run(networks.iter().chain(more));
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains("network"), "{}", run.err);
    }
}

#[test]
fn genesis_files_come_before_the_first_block_of_a_store_that_stays() {
    let place = Place::empty();
    let (chain, byron) = (data("preview"), data("preview/byron-genesis.json"));
    let replay = ["-r", "chain", "replay", "cardano", &chain];
    let run = place.run(replay);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("--genesis, in another store or branch"), "{}", run.err);
    let says = ["the set began without genesis outputs; name another store or branch"];
    place.fails(3, &says, replay.iter().chain(&["--genesis", &byron]));
    let other = ["-b", "other", "--genesis", &byron];
    place.ok(replay.iter().chain(&other));
    // What went well once goes on.
    place.ok(replay.iter().chain(&other));
}

#[test]
fn a_store_that_stays_goes_on_and_shows_every_state() {
    let place = Place::empty();
    let chain = data("preprod");
    let replay = |more: &[&str]| {
        let all = ["-r", "chain", "-o", "json", "replay", "cardano", &chain, "--allow-missing", "--index", "mmap"];
        row(&place.run(all.iter().chain(more)))
    };
    let first = replay(&["--blocks", "500"]);
    assert_eq!(first["total_ops"], 500);
    let rest = replay(&[]);
    assert_eq!((&rest["total_ops"], &rest["chain"]["digest"]), (&364.into(), &PREPROD.into()));
    assert_eq!(replay(&[])["chain"]["entries"], 238);
    let utxo = |args: &[&str]| place.ok(["-r", "chain", "utxo"].iter().chain(args));
    let tip = utxo(&["tip"]);
    assert!(tip.starts_with("block ") && tip.contains(" slot 2777"), "{tip}");
    assert!(utxo(&["digest"]).contains(PREPROD));
    // Between two slots: what was spent and created.
    let [old, new] = ["27760000", "27770000"].map(|slot| utxo(&["at", slot]).trim().to_owned());
    let diff = place.ok(["-r", "chain", "diff", &old, &new]);
    assert!(diff.lines().count() > 50, "{diff}");
    let list = place.ok(["-r", "chain", "list"]);
    let output = list.lines().next().unwrap().trim();
    let shown = utxo(&["get", output]);
    assert!(shown.contains(" lovelace"), "{shown}");
    let run = place.run(["-r", "chain", "get", output]);
    assert!(run.code == 0 && !run.out.is_empty(), "{run:?}");
    assert!(utxo(&["excerpt", output]).contains("is in the set"));
    let absent = format!("{}#9", "0".repeat(64));
    for verb in ["get", "excerpt"] {
        let run = place.run(["-r", "chain", "utxo", verb, &absent]);
        assert_eq!(run.code, 1, "{run:?}");
    }
    place.fails(2, &["64 hexadecimal digits"], ["-r", "chain", "utxo", "get", "x#1"]);
    utxo(&["rollback", "--blocks", "300"]);
    assert_ne!(utxo(&["tip"]), tip);
    assert_eq!(replay(&[])["chain"]["digest"], PREPROD);
    assert_eq!(place.run(["-r", "chain", "utxo", "rollback", "--slot", "1"]).code, 1);
    assert_eq!(place.run(["-r", "chain", "check"]).code, 0);
    // Another chain is refused, and changes nothing.
    let run = place.run(["-r", "chain", "replay", "cardano", &data("devnet"), "--allow-missing"]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("not of this chain"), "{}", run.err);
    assert!(utxo(&["digest"]).contains(PREPROD));
}

#[test]
fn a_rollback_reaches_every_block_and_says_where_it_is() {
    let place = Place::empty();
    let chain = data("devnet");
    let replay = |options: &[&str]| {
        let all = ["-o", "json", "-r", "chain", "replay", "cardano", &chain, "--allow-missing"];
        row(&place.run(all.iter().chain(options)))["chain"]["digest"].clone()
    };
    assert_eq!(replay(&["--commit-every", "50"]), DEVNET);
    let rolled = |blocks: &str| {
        let run = place.run(["-o", "json", "-r", "chain", "utxo", "rollback", "--blocks", blocks]);
        row(&run)["blocks"].as_u64().unwrap()
    };
    let back = rolled("10");
    assert!((10..399).contains(&back), "{back}");
    assert_eq!(replay(&[]), DEVNET);
    assert_eq!(rolled("300"), 399);
    let run = place.run(["-r", "chain", "utxo", "digest"]);
    assert!(String::from_utf8_lossy(&run.out).contains("0 entries, 0 lovelace"), "{run:?}");
    assert_eq!(replay(&[]), DEVNET);
    let run = place.run(["-r", "chain", "utxo", "rollback", "--blocks", "300"]);
    let out = String::from_utf8_lossy(&run.out);
    assert!(run.code == 0 && out.contains("399 blocks back, to the last commit before that"), "{run:?}");
}

#[test]
fn a_mapped_index_that_is_damaged_inside_is_made_again() {
    let place = Place::empty();
    let chain = data("devnet");
    let replay = |options: &[&str]| {
        let all = ["-o", "json", "-r", "chain", "replay", "cardano", &chain, "--allow-missing", "--index", "mmap"];
        place.run(all.iter().chain(options))
    };
    row(&replay(&["--blocks", "200"]));
    let table = place.path("chain/blocks.index/table");
    let mut bytes = fs::read(&table).unwrap();
    bytes[4096..].chunks_exact_mut(64).for_each(|bucket| bucket[50] ^= 1);
    fs::write(&table, bytes).unwrap();
    let run = replay(&["--blocks", "100"]);
    assert!(run.err.contains("was damaged") && run.err.contains("made again"), "{}", run.err);
    assert_eq!(row(&run)["total_ops"], 100);
    // A damaged record: the index is dropped, and the next run fills a new one.
    let records = place.path("chain/blocks.index/records");
    let mut bytes = fs::read(&records).unwrap();
    bytes[4096 + 64 * 129 + 3] ^= 4;
    fs::write(&records, bytes).unwrap();
    place.run(["-r", "chain", "utxo", "rollback", "--slot", "129"]);
    let run = replay(&[]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("record 129 of"), "{}", run.err);
    let run = replay(&[]);
    assert!(run.err.contains("it is made again"), "{}", run.err);
    assert_eq!(row(&run)["chain"]["digest"], DEVNET);
    // Where nothing was damaged, nothing is said.
    let run = replay(&[]);
    assert!(run.code == 0 && !run.err.contains("again"), "{run:?}");
}

#[test]
fn both_profiles_stand_side_by_side() {
    let place = Place::empty();
    let run = place.run([
        "replay",
        "cardano",
        &data("devnet"),
        "--allow-missing",
        "--dir",
        ".",
        "--compare",
        "--json",
        "r.json",
    ]);
    assert_eq!(run.code, 0, "{run:?}");
    let text = String::from_utf8(run.out).unwrap();
    for part in ["high-memory", "low-memory", "difference", "anonymous memory", "blocks/s, steady", "UTxO entries"] {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
    let rows: Value = serde_json::from_slice(&fs::read(place.path("r.json")).unwrap()).unwrap();
    let profiles: Vec<_> = rows.as_array().unwrap().iter().map(|row| row["chain"]["profile"].clone()).collect();
    assert_eq!(profiles, ["high-memory", "low-memory"]);
}

#[test]
fn both_profiles_are_one_document() {
    let place = Place::empty();
    let few = ["--allow-missing", "--blocks", "20", "--dir", ".", "--compare"];
    let run = place.run(["-o", "json", "replay", "cardano", &data("devnet")].iter().chain(&few));
    assert_eq!(run.code, 0, "{run:?}");
    let found: Value = serde_json::from_slice(&run.out).unwrap();
    let profiles: Vec<_> = found["rows"].as_array().unwrap().iter().map(|row| &row["chain"]["profile"]).collect();
    assert_eq!(profiles, ["high-memory", "low-memory"]);
}

#[test]
fn what_is_wrong_with_a_chain_is_named_and_is_3() {
    let place = Place::empty();
    let dir = place.path("chain");
    fs::create_dir(&dir).unwrap();
    for entry in fs::read_dir(data("devnet/immutable")).unwrap() {
        let path = entry.unwrap().path();
        fs::write(dir.join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
    }
    let fails = |parts: &[&str]| {
        let run = place.run(["replay", "cardano", "chain", "--allow-missing", "--backend", "memory", "--dir", "."]);
        assert_eq!(run.code, 3, "{run:?}");
        assert!(parts.iter().all(|part| run.err.contains(part)), "{}", run.err);
    };
    let harm = |name: &str, at: usize| {
        let whole = fs::read(dir.join(name)).unwrap();
        let mut harmed = whole.clone();
        harmed[at] ^= 1;
        fs::write(dir.join(name), harmed).unwrap();
        whole
    };
    let whole = harm("00001.chunk", 5000);
    fails(&["chunk 1 is damaged at byte", "slot", "CRC-32"]);
    fs::write(dir.join("00001.chunk"), &whole).unwrap();
    let whole = harm("00002.secondary", 60);
    fails(&["chunk 2 is damaged", "secondary index"]);
    fs::write(dir.join("00002.secondary"), &whole).unwrap();
    fs::write(dir.join("00000.chunk"), []).unwrap();
    fails(&["chunk 0 is damaged"]);
    place.fails(3, &["there are no chunks"], ["replay", "cardano", ".", "--dir", "."]);
    place.fails(3, &["cannot be read"], ["replay", "cardano", "nowhere", "--dir", "."]);
    let chain = data("devnet");
    for words in [
        &["replay", "cardano", "nowhere"][..],
        &["replay", "cardano", &chain, "--genesis", "nowhere"],
        &["replay", "cardano", &chain, "--checkpoints", "nowhere"],
    ] {
        let run = place.fails(3, &["nowhere", "No such file or directory\n"], words.iter().chain(&["--dir", "."]));
        assert!(!run.err.contains("os error"), "{run:?}");
    }
    // The start is absent, and that was not said.
    let run = place.run(["replay", "cardano", &data("preprod"), "--dir", "."]);
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.err.contains("--allow-missing") && run.err.contains("--genesis"), "{}", run.err);
    place.fails(2, &["memory"], ["-r", "kept", "replay", "cardano", &data("devnet"), "--backend", "memory"]);
    let devnet = data("devnet");
    for ignored in [["--backend", "lmdb"], ["-b", "other"]] {
        let all = ["-r", "kept", "replay", "cardano", &devnet, "--utxo", "lsm"];
        place.fails(2, &["leave out --backend and -b, or --utxo lsm"], all.iter().chain(&ignored));
    }
    let grouped = ["replay", "cardano", &devnet, "--utxo", "lsm", "--durability", "grouped", "--dir", "."];
    place.fails(2, &["syncs each commit or none"], grouped);
    place.fails(
        3,
        &["genesis"],
        ["replay", "cardano", &data("devnet"), "--genesis", &data("blocks/MANIFEST.csv"), "--dir", "."],
    );
}
