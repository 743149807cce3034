//! Chains replayed into sets, against what others computed of them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Durability, MemoryBackend, Native, Repo, disk::DiskOptions};
use bristlecone_needs::needs;

use super::*;
use crate::{
    Genesis, MemoryIndex, OutputRef, ReadOptions,
    utxo::{LsmUtxo, TreeUtxo, output_path},
};

mod behind;
mod resume;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano").join(name)
}

/// The digest of the set at the end of the devnet's chain.
const DEVNET: &str = "29a5c0d434c5408286656c522f308d9d31acd630a5d57e85b848733c0e604a73";

/// Copies a folder of chunks, so that it can be harmed.
fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::write(dir.path().join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
    }
    dir
}

fn memory() -> MemoryIndex {
    MemoryIndex::new().unwrap()
}

fn repo() -> Repo<Native> {
    Repo::with_backend(TreeUtxo::format(), Arc::new(MemoryBackend::new()))
}

fn tree(repo: &Repo<Native>) -> TreeUtxo {
    TreeUtxo::open(repo, "main", Durability::None).unwrap()
}

fn genesis() -> Vec<Genesis> {
    ["byron", "shelley"]
        .iter()
        .map(|era| Genesis::read(&data(&format!("preview/{era}-genesis.json"))).unwrap())
        .collect()
}

fn allow() -> ReplayOptions {
    ReplayOptions::default().allow_missing(true)
}

/// Replays a chain; what ended it comes beside what was done.
fn replay(
    set: &mut dyn UtxoStore,
    index: &mut dyn BlockIndex,
    chain: &[PathBuf],
    options: ReplayOptions,
    genesis: &[Genesis],
) -> (Result<(), ReplayError>, Report) {
    let mut replay = Replay::new(index, set, options).unwrap();
    replay.begin(genesis).unwrap();
    let mut open = |from| Ok(ChainReader::open(chain, ReadOptions::default().start_slot(from))?);
    let ended = replay.run_opened(&mut open, &mut ());
    let report = replay.report().clone();
    (ended, report)
}

fn done(set: &mut dyn UtxoStore, chain: &str, options: ReplayOptions, genesis: &[Genesis]) -> Report {
    let (ended, report) = replay(set, &mut memory(), &[data(chain)], options, genesis);
    ended.unwrap();
    report
}

#[test]
fn the_start_of_preview_ends_on_the_digests_that_are_known() {
    let checkpoints = Checkpoints::read(&data("preview/utxo-checkpoints.csv")).unwrap();
    let options = ReplayOptions::default().checkpoints(checkpoints);
    let repo = repo();
    let mut set = tree(&repo);
    let report = done(&mut set, "preview", options.clone(), &genesis());
    assert_eq!((report.blocks, report.checkpoints, report.missing), (648, 3, 0));
    assert_eq!((report.transactions, report.spent, report.created, report.entries), (2, 2, 5, 11));
    // One commit for each block that changes something, and the last block.
    assert_eq!(report.commits, 3);
    let dir = tempfile::tempdir().unwrap();
    let mut plain = LsmUtxo::open(dir.path(), 1 << 20, Durability::None).unwrap();
    let same = done(&mut plain, "preview", options.commit_unchanged(true), &genesis());
    assert_eq!((same.checkpoints, same.commits), (3, 648));
    assert_eq!(plain.digest().unwrap(), set.digest().unwrap());
}

/// Preview up to chunk 269, in two archives that are too large for the repository.
#[needs(chain)]
#[test]
fn all_of_preview_ends_on_its_270_digests_and_on_the_same_commit_everywhere() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/cardano/preview");
    let chain = ["00000-00149", "00150-00269"].map(|part| beside.join(format!("preview-immutable-{part}.tar.zst")));
    let checkpoints = Checkpoints::read(&beside.join("utxo-checkpoints.csv")).unwrap();
    let options = ReplayOptions::default().checkpoints(checkpoints);
    let dir = tempfile::tempdir().unwrap();
    let disk = Repo::create(dir.path().join("set"), TreeUtxo::format(), DiskOptions::default()).unwrap();
    let repos = [repo(), disk];
    let heads = repos.map(|repo| {
        let mut set = tree(&repo);
        let (ended, report) = replay(&mut set, &mut memory(), &chain, options.clone(), &genesis());
        ended.unwrap();
        assert_eq!((report.blocks, report.checkpoints, report.missing), (53_069, 270, 0));
        repo.branch("main").unwrap().head().unwrap()
    });
    assert!(heads[0].is_some());
    assert_eq!(heads[0], heads[1]);
}

#[test]
fn a_chain_whose_start_is_absent_counts_what_is_missing() {
    let mut set = tree(&repo());
    let report = done(&mut set, "devnet", allow(), &[]);
    assert_eq!((report.blocks, report.transactions, report.missing, report.entries), (400, 11, 3, 14));
    let digest = set.digest().unwrap();
    assert_eq!(digest.hex(), DEVNET);
    let mut set = tree(&repo());
    let report = done(&mut set, "preprod", allow(), &[]);
    assert_eq!((report.transactions, report.missing + report.spent, report.created), (233, 654, 664));
    assert_eq!((report.missing, report.entries), (228, 238));
    assert_eq!(set.digest().unwrap().hex(), "738ad06ec66237b115ce6be064a9a018ab93333f83047fdfa7acc3a312203ca0");
}

#[test]
fn a_missing_input_is_an_error_that_leaves_the_set_at_the_block_before() {
    let mut set = tree(&repo());
    let (ended, report) = replay(&mut set, &mut memory(), &[data("preprod")], ReplayOptions::default(), &[]);
    let Err(error @ ReplayError::Missing { .. }) = ended else { panic!("{ended:?}") };
    let text = error.to_string();
    let ReplayError::Missing { chunk, offset, point, .. } = error else { panic!("{error}") };
    assert!(text.starts_with(&format!("chunk 1285, byte {offset}: {point}: transaction")), "{text}");
    let mut chain = ChainReader::open(&[data("preprod")], ReadOptions::default().start_slot(point.slot)).unwrap();
    let StoredBlock { block, place } = chain.next_block().unwrap().unwrap();
    assert_eq!((block.point(), place.chunk, place.offset), (*point, chunk, offset));
    assert_eq!(report.last.map_or(0, |last| last.number + 1), if report.blocks > 0 { point.number } else { 0 });
    assert_eq!(report.missing, 0);
    assert_eq!(set.tip().point(), report.last.filter(|_| report.commits > 0));
    // A block in the middle of a chain: everything before it stays, committed.
    let dir = copy("devnet/immutable");
    let file = dir.path().join("00002.chunk");
    let whole = fs::read(&file).unwrap();
    let mut chunk = whole.clone();
    chunk[40_000] ^= 4;
    fs::write(&file, chunk).unwrap();
    let options = || allow().commit_every(7);
    let mut set = tree(&repo());
    let (ended, report) = replay(&mut set, &mut memory(), &[dir.path().to_owned()], options(), &[]);
    assert!(matches!(ended, Err(ReplayError::Chain(crate::ChainError::Damaged { chunk: 2, .. }))), "{ended:?}");
    assert!(report.blocks > 200 && report.blocks < 300, "{}", report.blocks);
    assert_eq!(set.tip().point(), report.last);
    let mut same = tree(&repo());
    replay(&mut same, &mut memory(), &[data("devnet")], options().blocks(report.blocks), &[]).0.unwrap();
    assert_eq!((same.tip(), same.digest().unwrap()), (set.tip(), set.digest().unwrap()));
    // Once it is whole, the chunks from there on are enough.
    fs::write(&file, whole).unwrap();
    let rest = ["00002.chunk", "00003.chunk"].map(|name| dir.path().join(name));
    replay(&mut set, &mut memory(), &rest, options(), &[]).0.unwrap();
    assert_eq!(set.digest().unwrap().hex(), DEVNET);
}

#[test]
fn an_output_that_is_none_is_an_error_that_leaves_the_set_at_the_block_before() {
    let dir = copy("devnet/immutable");
    let (file, index) = (dir.path().join("00002.chunk"), dir.path().join("00002.secondary"));
    let mut reader = ChainReader::open(std::slice::from_ref(&file), ReadOptions::default()).unwrap();
    let mut before = 0;
    let (bad, place, at) = loop {
        let StoredBlock { block, place } = reader.next_block().unwrap().unwrap();
        if let Some(transaction) = block.transactions().unwrap().next() {
            let (_, output) = transaction.unwrap().created().next().unwrap().unwrap();
            // An address of so many bytes, and a number.
            assert_eq!(output[..2], [0x82, 0x58]);
            let from = output.as_ptr() as usize - block.bytes().as_ptr() as usize;
            break (block.point(), place, from + 3 + usize::from(output[2]));
        }
        before += 1;
    };
    // A number below 0, in a block whose body nobody compares with its header.
    let (mut bytes, mut entries) = (fs::read(&file).unwrap(), fs::read(&index).unwrap());
    let from = place.offset as usize;
    bytes[from + at] ^= 0x20;
    let crc = crc32fast::hash(&bytes[from..from + place.bytes as usize]);
    entries[56 * before + 12..56 * before + 16].copy_from_slice(&crc.to_be_bytes());
    fs::write(&file, &bytes).unwrap();
    fs::write(&index, &entries).unwrap();
    let (repo, mut index) = (repo(), memory());
    let mut set = tree(&repo);
    let chain = [dir.path().to_owned()];
    let (ended, report) = {
        let mut replay = Replay::new(&mut index, &mut set, allow().commit_every(7)).unwrap();
        replay.begin(&[]).unwrap();
        let mut open = |from| Ok(ChainReader::open(&chain, ReadOptions::default().start_slot(from).check(false))?);
        let ended = replay.run_opened(&mut open, &mut ());
        (ended, replay.report().clone())
    };
    let Err(ReplayError::Block { chunk, offset, point, source }) = &ended else { panic!("{ended:?}") };
    assert_eq!((*chunk, *offset, *point, source.offset), (2, place.offset, bad, at));
    assert_eq!((report.blocks, set.tip().height(), index.len()), (200 + before as u64, bad.number, bad.number));
    set.digest().unwrap();
}

#[test]
fn a_newest_chunk_that_is_torn_is_compared_only_at_its_last_block() {
    let checkpoints = Checkpoints::read(&data("preview/utxo-checkpoints.csv")).unwrap();
    let options = || ReplayOptions::default().checkpoints(checkpoints.clone());
    let dir = copy("preview/immutable");
    let file = dir.path().join("00002.chunk");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 1]).unwrap();
    let chain = [dir.path().to_owned()];
    let (ended, report) = replay(&mut tree(&repo()), &mut memory(), &chain, options(), &genesis());
    ended.unwrap();
    assert_eq!((report.blocks, report.checkpoints), (647, 2));
    assert!(report.tail.unwrap().contains("left out"));
    // What is torn is what comes behind the last block.
    fs::write(&file, [&whole[..], &[0x82]].concat()).unwrap();
    let (ended, report) = replay(&mut tree(&repo()), &mut memory(), &chain, options(), &genesis());
    ended.unwrap();
    assert_eq!((report.blocks, report.checkpoints, report.tail.is_some()), (648, 3, true));
}

#[test]
fn several_blocks_in_a_commit_end_on_the_same_set() {
    let repo = repo();
    let mut one = tree(&repo);
    done(&mut one, "preprod", allow(), &[]);
    for every in [2, 7, 100, 10_000] {
        let mut many = TreeUtxo::open(&repo, &format!("every-{every}"), Durability::None).unwrap();
        let report = done(&mut many, "preprod", allow().commit_every(every), &[]);
        assert_eq!(many.digest().unwrap(), one.digest().unwrap(), "{every}");
        assert_eq!(
            repo.branch(&format!("every-{every}")).unwrap().map().unwrap().root().unwrap(),
            repo.branch("main").unwrap().map().unwrap().root().unwrap()
        );
        assert!(report.commits <= 864 / every + 1, "{every}: {}", report.commits);
    }
}

#[test]
fn what_a_block_spent_and_created_is_the_difference_of_two_states() {
    let repo = repo();
    let mut set = tree(&repo);
    done(&mut set, "preprod", allow(), &[]);
    let tip = set.tip().point().unwrap();
    let (before, _) = set.before(300).unwrap();
    let (old, new) = (repo.checkout(before).unwrap(), repo.branch("main").unwrap().tree().unwrap());
    let changes = old.diff(&new, "").unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert!(changes.len() > 100, "{}", changes.len());
    // An excerpt shows that an output is there, or is not.
    let map = repo.branch("main").unwrap().map().unwrap();
    let key = String::from_utf8(map.first().unwrap().unwrap().0.to_vec()).unwrap();
    let (tx, index) = key.split_once('#').unwrap();
    let there = OutputRef { tx: tx.parse().unwrap(), index: index.parse().unwrap() };
    let absent = OutputRef { index: 65_535, ..there };
    let (head, _) = set.at(tip.slot).unwrap();
    for (output, found) in [(there, true), (absent, false)] {
        let excerpt = set.excerpt(head, &output).unwrap();
        assert_eq!(excerpt.root().unwrap(), new.root().unwrap());
        assert_eq!(excerpt.get(output_path(&output).as_str()).unwrap().is_some(), found);
        assert_eq!(set.get(&output).unwrap().is_some(), found);
    }
}

#[test]
fn wrong_checkpoints_are_told_and_files_that_are_none_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("checkpoints.csv");
    let text = fs::read_to_string(data("preview/utxo-checkpoints.csv")).unwrap();
    fs::write(&file, text.replacen("d93ffa3d", "d93ffa3e", 1)).unwrap();
    let options = ReplayOptions::default().checkpoints(Checkpoints::read(&file).unwrap());
    let mut set = tree(&repo());
    let (ended, report) = replay(&mut set, &mut memory(), &[data("preview")], options, &genesis());
    assert!(matches!(&ended, Err(error) if error.is_wrong() && error.to_string().contains("chunk 0")), "{ended:?}");
    assert_eq!(report.last.unwrap().slot, 4_300, "the chunk whose digest is wrong was applied");
    for bad in ["", "chunk,digest\n", "chunk,utxo,lovelace,last_slot,last_hash,digest\n1,x,1,1,a,b\n"] {
        fs::write(&file, bad).unwrap();
        assert!(matches!(Checkpoints::read(&file), Err(ReplayError::Checkpoints { .. })), "{bad}");
    }
}

#[test]
fn genesis_files_hold_the_outputs_of_the_network() {
    let [byron, shelley] = &genesis()[..] else { panic!("two files") };
    assert_eq!((byron.magic, shelley.magic), (Some(2), Some(2)));
    assert_eq!((byron.outputs.len(), shelley.outputs.len()), (8, 0));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("genesis.json");
    for bad in [
        "",
        "{}",
        r#"{"nonAvvmBalances":{"0OIl":"1"}}"#,
        r#"{"nonAvvmBalances":{"2cWKMJemoBa":"x"}}"#,
        r#"{"initialFunds":{"zz":1}}"#,
        r#"{"nonAvvmBalances":{},"avvmDistr":{"AAAA":"1"}}"#,
        r#"{"nonAvvmBalances":{},"avvmDistr":{"-0BJDi-gauylk4LptQTgjMeo7kY9lTCbZv12vwOSTZk=":"x"}}"#,
    ] {
        fs::write(&file, bad).unwrap();
        assert!(Genesis::read(&file).is_err(), "{bad}");
    }
    // As in the file of mainnet: keys alone, one of them with nothing to redeem.
    let keys = r#"{"-0BJDi-gauylk4LptQTgjMeo7kY9lTCbZv12vwOSTZk=":"9999300000000","DKsNZvWNRoVbR4wIVAM2XE3IQ8vyPeE1Q8oRtraauiM=":"0"}"#;
    let text =
        format!(r#"{{"avvmDistr":{keys},"nonAvvmBalances":{{}},"protocolConsts":{{"protocolMagic":764824073}}}}"#);
    fs::write(&file, text).unwrap();
    let mainnet = Genesis::read(&file).unwrap();
    assert_eq!((mainnet.magic, mainnet.outputs.len()), (Some(764_824_073), 2));
    let (output, cbor) = &mainnet.outputs[0];
    assert_eq!(output.to_string(), "8ee33c9906974706223d7d500d63bbee2369d7150f972757a9fdded2f706b938#0");
    assert_eq!(crate::utxo::lovelace(cbor).unwrap(), 9_999_300_000_000);
}

#[test]
fn other_genesis_files_are_refused_once_there_is_a_set() {
    let repo = repo();
    let mut wrong = genesis();
    wrong[0].outputs[3].1.push(0);
    let chain = [data("preview")];
    let mut index = memory();
    let mut set = tree(&repo);
    Replay::new(&mut index, &mut set, ReplayOptions::default()).unwrap().begin(&wrong).unwrap();
    let mut again = Replay::new(&mut index, &mut set, ReplayOptions::default()).unwrap();
    again.begin(&wrong).unwrap();
    let error = again.begin(&genesis()).unwrap_err();
    assert!(error.to_string().contains("genesis"), "{error}");
    let mut right = TreeUtxo::open(&repo, "right", Durability::None).unwrap();
    replay(&mut right, &mut memory(), &chain, ReplayOptions::default(), &genesis()).0.unwrap();
}

#[test]
fn an_output_that_the_store_has_is_removed_whatever_came_between() {
    let output = |index| OutputRef { tx: crate::TxId([7; 32]), index };
    let mut set = tree(&repo());
    let mut changes = Changes::default();
    changes.create(output(0), &[0x82, 0x40, 1]);
    set.commit(&mut changes, UtxoTip::Genesis).unwrap();
    changes.spend(output(0));
    changes.create(output(0), &[0x82, 0x40, 2]);
    assert_eq!(changes.get(&output(0)), Some(Some(&[0x82, 0x40, 2][..])));
    assert_eq!(changes.take(&output(0)), Some(true));
    assert_eq!(changes.get(&output(0)), Some(None));
    changes.create(output(1), &[0x82, 0x40, 3]);
    assert_eq!((changes.take(&output(1)), changes.take(&output(1))), (Some(true), None));
    set.commit(&mut changes, UtxoTip::Genesis).unwrap();
    assert_eq!((set.contains(&output(0)).unwrap(), set.entries().unwrap()), (false, 0));
}
