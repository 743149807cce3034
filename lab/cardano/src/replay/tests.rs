//! Chains replayed into sets, against what others computed of them.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Durability, MemoryBackend, Native, Repo, disk::DiskOptions, storage::RealStorage};
use bristlecone_needs::needs;

use super::*;
use crate::{
    MemoryIndex, OutputRef, ReadOptions,
    immutable::Appender,
    utxo::{LsmUtxo, TreeUtxo, UtxoError, output_path},
};

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
    let from = replay.from();
    let ended = match ChainReader::open(chain, ReadOptions::default().from(from)) {
        Ok(mut reader) => replay.run(&mut reader, &mut ()),
        Err(error) => Err(error.into()),
    };
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
    let Err(ReplayError::Missing { point, .. }) = ended else { panic!("{ended:?}") };
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
fn a_replay_goes_on_where_it_stopped_to_the_same_set() {
    let whole = repo();
    done(&mut tree(&whole), "preprod", allow(), &[]);
    let root = |repo: &Repo<Native>| repo.branch("main").unwrap().map().unwrap().root().unwrap();
    for each in [33_u64, 50, 199, 863] {
        let repo = repo();
        // An index that lives on, and one that is made anew each time.
        let mut kept = memory();
        let mut rounds = 0_u64;
        loop {
            let mut anew = memory();
            let index = if rounds.is_multiple_of(2) { &mut kept } else { &mut anew };
            let (ended, report) = replay(&mut tree(&repo), index, &[data("preprod")], allow().blocks(each), &[]);
            ended.unwrap();
            rounds += 1;
            assert_eq!(index.tip().map(|tip| tip.point), report.last);
            if report.blocks < each {
                break;
            }
        }
        assert_eq!(root(&repo), root(&whole), "{each} blocks at a time");
        assert_eq!(rounds, 864_u64.div_ceil(each));
    }
}

#[test]
fn rolling_back_and_replaying_again_makes_the_same_commits() {
    let repo = repo();
    let mut set = tree(&repo);
    let mut index = memory();
    let chain = [data("preprod")];
    replay(&mut set, &mut index, &chain, allow(), &[]).0.unwrap();
    let (head, tip) = (set.head().unwrap(), set.tip());
    let digest = set.digest().unwrap();
    for blocks in [1, 2, 10, 333, 800] {
        let (to, at) = set.before(blocks).unwrap();
        assert!(at.point().unwrap().number <= tip.point().unwrap().number - blocks);
        assert_eq!(set.at(at.point().unwrap().slot).unwrap(), (to, at));
        set.roll_back(to).unwrap();
        assert_eq!((set.tip(), set.head().unwrap()), (at, Some(to)));
        assert!(blocks < 10 || set.digest().unwrap() != digest, "{blocks} blocks changed something");
        replay(&mut set, &mut index, &chain, allow(), &[]).0.unwrap();
        assert_eq!((set.tip(), set.head().unwrap(), set.digest().unwrap()), (tip, head, digest));
    }
    let mut other = tree(&repo);
    let (to, _) = set.before(10).unwrap();
    other.roll_back(to).unwrap();
    let moved = set.roll_back(to);
    assert!(matches!(moved, Err(UtxoError::Store(bristlecone::Error::RefMoved { .. }))), "{moved:?}");
    assert!(matches!(set.before(1_000_000_000), Err(UtxoError::NotSoFar { .. })));
    assert!(matches!(set.at(0), Err(UtxoError::NotKept { slot: 0 })));
}

#[test]
fn a_set_is_kept_at_every_block_from_the_first_on() {
    let repo = repo();
    let mut set = tree(&repo);
    let mut index = memory();
    let chain = [data("devnet")];
    replay(&mut set, &mut index, &chain, allow(), &[]).0.unwrap();
    let (tip, head) = (set.tip(), set.head().unwrap());
    // The first block that changes something is number 129.
    for blocks in [271, 300, 399] {
        let (to, at) = set.before(blocks).unwrap();
        assert_eq!(at.height(), 1, "{blocks}");
        set.roll_back(to).unwrap();
        assert_eq!(set.entries().unwrap(), 0, "{blocks}");
        replay(&mut set, &mut index, &chain, allow(), &[]).0.unwrap();
        assert_eq!((set.tip(), set.head().unwrap(), set.digest().unwrap().hex()), (tip, head, DEVNET.to_owned()));
    }
    assert_eq!(set.before(270).unwrap().1.height(), 130);
    assert!(matches!(set.before(400), Err(UtxoError::NotSoFar { .. })));
    // With genesis files it is kept before the first block too.
    let mut set = TreeUtxo::open(&repo, "preview", Durability::None).unwrap();
    done(&mut set, "preview", ReplayOptions::default(), &genesis());
    assert_eq!((set.tip().height(), set.before(648).unwrap().1), (648, UtxoTip::Genesis));
    assert!(matches!(set.before(649), Err(UtxoError::NotSoFar { .. })));
}

#[test]
fn another_chain_is_refused_and_changes_nothing() {
    let repo = repo();
    let mut set = tree(&repo);
    done(&mut set, "devnet", allow(), &[]);
    let tip = set.tip();
    for mut index in [memory(), filled("devnet")] {
        let (ended, report) = replay(&mut set, &mut index, &[data("preprod")], allow(), &[]);
        assert!(matches!(ended, Err(ReplayError::NotThisChain { .. })), "{ended:?}");
        assert_eq!((report.blocks, set.tip()), (0, tip));
    }
    // One that ends before the set's point, whose blocks do not stay in the index.
    let mut later = tree(&repo_of("preprod"));
    let mut index = memory();
    let (ended, _) = replay(&mut later, &mut index, &[data("devnet")], allow(), &[]);
    assert!(matches!(ended, Err(ReplayError::NotThisChain { .. })), "{ended:?}");
    assert!(index.is_empty());
    replay(&mut later, &mut index, &[data("preprod")], allow(), &[]).0.unwrap();
    assert_eq!(index.len(), 864);
    // A branch with other commits.
    let info = bristlecone::Info::message("something else");
    repo.branch("other").unwrap().commit(&mut repo.tree(), &info).unwrap();
    assert!(matches!(TreeUtxo::open(&repo, "other", Durability::None), Err(UtxoError::OtherStore { .. })));
}

fn repo_of(chain: &str) -> Repo<Native> {
    let repo = repo();
    done(&mut tree(&repo), chain, allow(), &[]);
    repo
}

fn filled(chain: &str) -> MemoryIndex {
    let mut index = memory();
    let mut set = tree(&repo());
    replay(&mut set, &mut index, &[data(chain)], allow(), &[]).0.unwrap();
    index
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
fn the_second_half_of_a_chain_is_enough_to_go_on() {
    let half = |from: u32| -> Vec<PathBuf> {
        (from..from + 2).map(|number| data(&format!("devnet/immutable/{number:05}.chunk"))).collect()
    };
    let repo = repo();
    replay(&mut tree(&repo), &mut memory(), &half(0), allow(), &[]).0.unwrap();
    let mut index = memory();
    let (ended, report) = replay(&mut tree(&repo), &mut index, &half(2), allow(), &[]);
    ended.unwrap();
    assert_eq!((report.blocks, index.len()), (200, 200));
    let digest = tree(&repo).digest().unwrap();
    assert_eq!(digest.hex(), DEVNET);
}

#[test]
fn a_set_of_genesis_outputs_takes_no_chain_without_its_first_chunk() {
    let later = [1, 2].map(|number| data(&format!("preview/immutable/{number:05}.chunk")));
    let lost = copy("preview/immutable");
    fs::remove_file(lost.path().join("00000.chunk")).unwrap();
    let repo = repo();
    let mut set = tree(&repo);
    let mut index = memory();
    let options = ReplayOptions::default;
    let (ended, _) = replay(&mut set, &mut index, &later, options(), &genesis());
    assert!(matches!(ended, Err(ReplayError::NotFirst { point }) if point.number == 216), "{ended:?}");
    let (ended, _) = replay(&mut set, &mut index, &[lost.path().to_owned()], options(), &genesis());
    assert!(matches!(ended, Err(ReplayError::Chain(crate::ChainError::NoChain { .. }))), "{ended:?}");
    assert_eq!((set.tip(), set.entries().unwrap(), index.len()), (UtxoTip::Genesis, 8, 0));
    // With the first chunk it goes on.
    replay(&mut set, &mut index, &[data("preview")], options(), &genesis()).0.unwrap();
    assert_eq!((set.entries().unwrap(), index.len()), (11, 648));
    // Whoever says that the start is absent has what can be had of the chain.
    let mut partial = TreeUtxo::open(&repo, "partial", Durability::None).unwrap();
    replay(&mut partial, &mut memory(), &later, allow(), &genesis()).0.unwrap();
    assert_eq!(partial.entries().unwrap(), 8);
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

/// Makes blocks of Byron without transactions, of an epoch and a slot in it each; boundary blocks have no slot.
fn byron_blocks(places: &[(u32, Option<u32>)]) -> Vec<Vec<u8>> {
    let bytes = |hash: &[u8; 32]| [&[0x58, 32][..], hash].concat();
    let number = |number: u32| [&[0x1a][..], &number.to_be_bytes()].concat();
    let mut previous = [9; 32];
    let mut blocks = Vec::new();
    let mut height = 0;
    for (epoch, slot) in places {
        let consensus = match slot {
            None => [&[0x82][..], &number(*epoch), &[0x81], &number(height)].concat(),
            Some(slot) => {
                height += 1;
                let at = [&[0x82][..], &number(*epoch), &number(*slot)].concat();
                [&[0x84][..], &at, &[0x40, 0x81], &number(height), &[0x80]].concat()
            }
        };
        let header = [&[0x85, 1][..], &bytes(&previous), &[0x80], &consensus, &[0x80]].concat();
        let body: &[u8] = if slot.is_some() { &[0x84, 0x80, 0x80, 0x80, 0x80] } else { &[0x80] };
        let block = [&[0x82, u8::from(slot.is_some()), 0x83][..], &header, body, &[0x80]].concat();
        previous = Block::parse(&block).unwrap().hash().0;
        blocks.push(block);
    }
    blocks
}

/// Makes a chain with boundary blocks before those of slots 0 and 21,600, of a file each.
fn byron_chain(dir: &Path) -> Vec<PathBuf> {
    let places = [(0, None), (0, Some(0)), (0, Some(1)), (0, Some(5)), (1, None), (1, Some(0)), (1, Some(1))];
    let write = |(index, block): (usize, &Vec<u8>)| {
        let file = dir.join(format!("{index}.cbor"));
        fs::write(&file, block).unwrap();
        file
    };
    byron_blocks(&places).iter().enumerate().map(write).collect()
}

#[test]
fn a_boundary_block_alone_in_its_chunk_is_not_left_out_when_a_replay_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = byron_blocks(&[(0, None), (0, Some(0)), (0, Some(5)), (1, None), (2, None), (2, Some(1))]);
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 21_600).unwrap();
    blocks.iter().for_each(|block| drop(appender.append(&Block::parse(block).unwrap()).unwrap()));
    appender.sync().unwrap();
    let chain = [dir.path().to_owned()];
    for stop in 1..blocks.len() as u64 {
        let repo = repo();
        let mut index = memory();
        replay(&mut tree(&repo), &mut index, &chain, ReplayOptions::default().blocks(stop), &[]).0.unwrap();
        let (ended, report) = replay(&mut tree(&repo), &mut index, &chain, ReplayOptions::default(), &[]);
        ended.unwrap_or_else(|error| panic!("after {stop}: {error}"));
        assert_eq!((index.len(), report.last.map(|last| last.slot)), (6, Some(43_201)), "after {stop}");
    }
}

#[test]
fn a_chain_with_boundary_blocks_goes_on_from_every_block() {
    let dir = tempfile::tempdir().unwrap();
    let chain = byron_chain(dir.path());
    for stop in 1..chain.len() as u64 {
        let repo = repo();
        let mut index = memory();
        let options = || ReplayOptions::default().commit_unchanged(true);
        replay(&mut tree(&repo), &mut index, &chain, options().blocks(stop), &[]).0.unwrap();
        for index in [&mut index, &mut memory()] {
            let mut set = tree(&repo);
            let (ended, report) = replay(&mut set, index, &chain, options(), &[]);
            ended.unwrap_or_else(|error| panic!("after {stop}: {error}"));
            assert_eq!(index.len(), chain.len() as u64);
            assert_eq!(report.last.map(|last| last.slot), Some(21_601), "after {stop}");
        }
    }
}
