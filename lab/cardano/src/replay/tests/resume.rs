//! Replays that go on, roll back, and meet other chains.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use bristlecone::{Durability, Native, Repo, SweepLimits, disk::DiskOptions, storage::RealStorage};

use super::{DEVNET, allow, copy, data, done, genesis, memory, replay, repo, tree};
use crate::{
    Block, BlockHash, BlockIndex, Era, Genesis, MemoryIndex, OutputRef, TxId,
    hash::from_hex_bytes,
    immutable::Appender,
    made_up::{byron_blocks, empty_blocks, files_of},
    replay::{Replay, ReplayError, ReplayOptions},
    utxo::{Changes, LsmUtxo, TreeUtxo, UtxoError, UtxoStore, UtxoTip},
};

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
fn a_replay_that_has_no_time_gets_further_however_much_its_index_lacks() {
    let repo = repo();
    let mut applied = 0;
    for round in 0..8 {
        let options = allow().time(Duration::from_nanos(1));
        let (ended, report) = replay(&mut tree(&repo), &mut memory(), &[data("devnet")], options, &[]);
        ended.unwrap();
        assert!((1..100).contains(&report.blocks), "{} blocks in round {round}", report.blocks);
        assert_eq!(report.indexed, applied, "round {round}");
        applied += report.blocks;
    }
    assert_eq!(tree(&repo).tip().height(), applied);
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

#[test]
fn a_chain_that_ends_without_the_last_known_block_is_refused() {
    let preprod = repo_of("preprod");
    let mut set = tree(&preprod);
    let tip = set.tip();
    // One that ends before that point, whether or not the index has it.
    let short = [data("devnet")];
    for mut index in [memory(), filled("preprod")] {
        let len = index.len();
        let (ended, report) = replay(&mut set, &mut index, &short, allow(), &[]);
        assert!(matches!(ended, Err(ReplayError::NotThisChain { .. })), "{ended:?}");
        assert_eq!((report.blocks, set.tip(), index.len()), (0, tip, len));
    }
    replay(&mut set, &mut filled("preprod"), &[data("preprod")], allow(), &[]).0.unwrap();
    // Another block in the slot of the last one, with which the chain ends.
    let dir = tempfile::tempdir().unwrap();
    let mut files = files_of(dir.path(), &byron_blocks(&[(0, None), (0, Some(0)), (0, Some(1))]));
    let repo = repo();
    let mut index = memory();
    let options = || ReplayOptions::default().commit_unchanged(true);
    replay(&mut tree(&repo), &mut index, &files, options(), &[]).0.unwrap();
    let other = byron_blocks(&[(0, Some(1))]).remove(0);
    fs::write(&files[2], &other).unwrap();
    files.drain(..2);
    let (ended, _) = replay(&mut tree(&repo), &mut index, &files, options(), &[]);
    let other = Block::parse(&other).unwrap().point();
    assert!(matches!(ended, Err(ReplayError::NotThisChain { point, .. }) if point == other), "{ended:?}");
}

#[test]
fn an_index_of_another_chain_is_filled_anew() {
    // The index of one folder, and branches on two chains: neither is in the way of the other.
    let mut index = filled("devnet");
    let (repo, whole) = (repo_of("preprod"), repo_of("preprod"));
    let mut set = tree(&repo);
    let (to, _) = set.before(100).unwrap();
    set.roll_back(to).unwrap();
    assert!(index.tip().unwrap().point.slot < set.tip().point().unwrap().slot, "the index seems to be behind");
    let (ended, report) = replay(&mut set, &mut index, &[data("preprod")], allow(), &[]);
    ended.unwrap();
    assert_eq!((report.blocks, report.indexed, index.len()), (100, 764, 864));
    assert_eq!((set.tip(), set.head().unwrap()), (tree(&whole).tip(), tree(&whole).head().unwrap()));
    // What is of neither chain is refused as before.
    let mut index = filled("devnet");
    let (ended, report) = replay(&mut tree(&repo), &mut index, &[data("preview")], allow(), &[]);
    assert!(matches!(ended, Err(ReplayError::NotThisChain { .. })), "{ended:?}");
    assert_eq!(report.blocks, 0);
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
fn a_block_behind_a_gap_is_named_by_its_place() {
    let repo = repo();
    replay(&mut tree(&repo), &mut memory(), &[data("devnet/immutable/00000.chunk")], allow(), &[]).0.unwrap();
    let tip = tree(&repo).tip();
    let later = [data("devnet/immutable/00002.chunk")];
    let (ended, _) = replay(&mut tree(&repo), &mut memory(), &later, allow(), &[]);
    let Err(error @ ReplayError::NotThisChain { .. }) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().starts_with("chunk 2, byte 0: block 200 in slot "), "{error}");
    assert_eq!(tree(&repo).tip(), tip);
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
    let Err(error @ ReplayError::NotFirst { .. }) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().starts_with("chunk 1, byte 0: block 216 in slot "), "{error}");
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
fn outputs_of_redemption_leave_the_set_wherever_a_chain_is_parted() {
    let address =
        from_hex_bytes(b"82d818582183581cccdf735b7d5cafe44e65e75a82fd4305fe7712924a8e1196fefdbddfa0021a9cbc2ffe")
            .unwrap();
    let redeemable = [&[0x82, 0x58, 0x2b][..], &address, &[7]].concat();
    let output = |address: &[u8]| OutputRef { tx: TxId::of(&[address]), index: 0 };
    let outputs = vec![(output(&address), redeemable.clone()), (output(&[9]), vec![0x82, 0x41, 9, 7])];
    let genesis = [Genesis { outputs, ..Genesis::default() }];
    let dir = tempfile::tempdir().unwrap();
    let eras = [Era::Shelley, Era::Shelley, Era::Allegra, Era::Allegra, Era::Mary];
    let blocks = empty_blocks(&eras);
    let chain = files_of(dir.path(), &blocks);
    for stop in 1..chain.len() {
        let repo = repo();
        let mut kept = memory();
        replay(&mut tree(&repo), &mut kept, &chain[..stop], ReplayOptions::default(), &genesis).0.unwrap();
        let (head, _) = tree(&repo).at(u64::MAX).unwrap();
        for index in [&mut kept, &mut memory()] {
            let mut set = tree(&repo);
            set.roll_back(head).unwrap();
            assert_eq!(set.entries().unwrap(), if eras[stop - 1] < Era::Allegra { 2 } else { 1 });
            replay(&mut set, index, &chain[stop..], ReplayOptions::default(), &genesis).0.unwrap();
            assert_eq!((set.entries().unwrap(), set.contains(&output(&[9])).unwrap()), (1, true), "after {stop}");
        }
    }
    // What comes to such an address in Allegra stays.
    let repo = repo();
    let mut set = tree(&repo);
    replay(&mut set, &mut memory(), &chain[..3], ReplayOptions::default(), &genesis).0.unwrap();
    let mut changes = Changes::default();
    changes.create(output(&[1]), &redeemable);
    let tip = set.tip();
    set.commit(&mut changes, tip).unwrap();
    replay(&mut set, &mut memory(), &chain[3..], ReplayOptions::default(), &genesis).0.unwrap();
    assert_eq!((set.entries().unwrap(), set.contains(&output(&[1])).unwrap()), (2, true));
    // A chain that begins with a later era has passed the boundary before its first block.
    let chain = files_of(dir.path(), &empty_blocks(&[Era::Mary]));
    let mut set = TreeUtxo::open(&repo, "later", Durability::None).unwrap();
    replay(&mut set, &mut memory(), &chain, ReplayOptions::default(), &genesis).0.unwrap();
    assert_eq!((set.entries().unwrap(), set.contains(&output(&[9])).unwrap()), (1, true));
}

/// Names genesis files for a set that is there; returns what is said against it.
fn refused(set: &mut dyn UtxoStore) -> Option<String> {
    let mut index = memory();
    let mut replay = Replay::new(&mut index, set, ReplayOptions::default()).unwrap();
    replay.begin(&genesis()).err().map(|error| error.to_string())
}

#[test]
fn genesis_files_are_refused_for_a_set_that_began_without_them() {
    const REFUSED: &str = "the set began without genesis outputs; name another store or branch";
    let dir = tempfile::tempdir().unwrap();
    let lsm = || LsmUtxo::open(dir.path(), 1 << 20, Durability::None).unwrap();
    let repo = repo();
    let (mut versioned, mut plain) = (tree(&repo), lsm());
    for set in [&mut versioned as &mut dyn UtxoStore, &mut plain] {
        let (ended, _) = replay(set, &mut memory(), &[data("preview")], ReplayOptions::default(), &[]);
        let Err(error @ ReplayError::Missing { .. }) = ended else { panic!("{ended:?}") };
        assert!(error.to_string().contains("--genesis, in another store or branch"), "{error}");
        assert!(matches!(set.began().unwrap(), Some(UtxoTip::Block(point)) if point.number == 0));
        assert_eq!(refused(set).as_deref(), Some(REFUSED));
        let (ended, _) = replay(set, &mut memory(), &[data("preview")], ReplayOptions::default(), &[]);
        assert!(matches!(ended, Err(ReplayError::Missing { .. })), "without them it is as before: {ended:?}");
    }
    drop(plain);
    assert_eq!(refused(&mut lsm()).as_deref(), Some(REFUSED));
    // A set that began with them is taken, also where none of them is left.
    let mut set = TreeUtxo::open(&repo, "whole", Durability::None).unwrap();
    done(&mut set, "preview", ReplayOptions::default(), &genesis());
    assert_eq!((refused(&mut set), set.began().unwrap()), (None, Some(UtxoTip::Genesis)));
    let mut changes = Changes::default();
    for (output, _) in genesis().iter().flat_map(|file| &file.outputs) {
        if set.contains(output).unwrap() {
            changes.spend(*output);
        }
    }
    let tip = set.tip();
    set.commit(&mut changes, tip).unwrap();
    assert_eq!(refused(&mut set), None);
    // So is one whose first commit retention has cut, since nothing tells how it began.
    let dir = tempfile::tempdir().unwrap();
    let cut = Repo::create(dir.path(), TreeUtxo::format(), DiskOptions::default()).unwrap();
    done(&mut tree(&cut), "devnet", allow(), &[]);
    assert_eq!(refused(&mut tree(&cut)).as_deref(), Some(REFUSED));
    cut.set_retention(&"last 3 refs/heads/*".parse().unwrap()).unwrap();
    cut.sweep(&[], &SweepLimits::default()).unwrap();
    assert_eq!((tree(&cut).began().unwrap(), refused(&mut tree(&cut))), (None, None));
}

/// Makes a chain with boundary blocks before those of slots 0 and 21,600, of a file each.
fn byron_chain(dir: &Path) -> Vec<PathBuf> {
    let places = [(0, None), (0, Some(0)), (0, Some(1)), (0, Some(5)), (1, None), (1, Some(0)), (1, Some(1))];
    files_of(dir, &byron_blocks(&places))
}

#[test]
fn a_boundary_block_alone_in_its_chunk_is_not_left_out_when_a_replay_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = byron_blocks(&[(0, None), (0, Some(0)), (0, Some(5)), (1, None), (2, None), (2, Some(1))]);
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 21_600).unwrap();
    for block in &blocks {
        appender.append(&Block::parse(block).unwrap()).unwrap();
    }
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
fn blocks_of_another_network_than_the_genesis_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let blocks = byron_blocks(&[(0, None), (0, Some(0)), (1, Some(7))]);
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 21_600).unwrap();
    for block in &blocks {
        appender.append(&Block::parse(block).unwrap()).unwrap();
    }
    appender.sync().unwrap();
    let network = |magic| [Genesis { magic: Some(magic), ..Genesis::default() }];
    let refused = |set: &mut TreeUtxo, chain: &[PathBuf], place, of: &[u8]| {
        let tip = set.tip().point();
        let (ended, report) = replay(set, &mut memory(), chain, ReplayOptions::default(), &network(2));
        let Err(error @ ReplayError::OtherNetwork { chunk, offset, point, .. }) = &ended else { panic!("{ended:?}") };
        assert_eq!((*chunk, *offset, *point), (place, 0, Block::parse(of).unwrap().point()));
        assert!(error.to_string().contains("is of the network 1, and the genesis file of the network 2"), "{error}");
        assert_eq!((report.blocks, set.tip().point()), (0, tip));
    };
    let repo = repo();
    let mut set = tree(&repo);
    let whole = [dir.path().to_owned()];
    refused(&mut set, &whole, 0, &blocks[0]);
    let mut set = TreeUtxo::open(&repo, "right", Durability::None).unwrap();
    replay(&mut set, &mut memory(), &whole, ReplayOptions::default().blocks(2), &network(1)).0.unwrap();
    // A later part is compared as well, though the outputs of the files matter no more.
    let later = [dir.path().join("00001.chunk")];
    refused(&mut set, &later, 1, &blocks[2]);
    replay(&mut set, &mut memory(), &later, ReplayOptions::default(), &network(1)).0.unwrap();
    assert_eq!(set.tip().point(), Some(Block::parse(&blocks[2]).unwrap().point()));
}

#[test]
fn a_genesis_file_that_the_first_block_does_not_name_is_refused() {
    // Mainnet's, which names the file with this hash.
    let first = [data("blocks/pallas/genesis.block")];
    let hash = |text: &str| Some(text.parse::<BlockHash>().unwrap());
    let right = hash("5f20df933584822601f9e3f8c024eb5eb252fe8cefb24d1317dc3d432e940ebb");
    let other = genesis()[0].hash;
    assert_eq!(other, hash("83de1d7302569ad56cf9139a41e2e11346d4cb4a31c00142557b6ab3fa550761"));
    assert_eq!(genesis()[1].hash, None, "Shelley's file");
    let file = |hash| [Genesis { magic: Some(764_824_073), hash, ..Genesis::default() }];
    for (branch, options) in [("strict", ReplayOptions::default()), ("partial", allow())] {
        let mut set = TreeUtxo::open(&repo(), branch, Durability::None).unwrap();
        let (ended, report) = replay(&mut set, &mut memory(), &first, options, &file(other));
        let Err(error @ ReplayError::OtherGenesis { point, .. }) = &ended else { panic!("{ended:?}") };
        assert_eq!((point.number, report.blocks, set.tip()), (0, 0, UtxoTip::Genesis));
        assert!(error.to_string().contains("of the genesis file with the hash 5f20df93"), "{error}");
    }
    for hash in [right, None] {
        let (ended, report) = replay(&mut tree(&repo()), &mut memory(), &first, ReplayOptions::default(), &file(hash));
        ended.unwrap();
        assert_eq!(report.blocks, 1);
    }
    // Only the first block of a chain names it.
    let dir = tempfile::tempdir().unwrap();
    let chain = files_of(dir.path(), &byron_blocks(&[(0, None), (1, None), (1, Some(0))]));
    let file = |hash| [Genesis { hash, ..Genesis::default() }];
    for (chain, hash) in [(&chain[..], Some(BlockHash([9; 32]))), (&chain[1..], right)] {
        replay(&mut tree(&repo()), &mut memory(), chain, ReplayOptions::default(), &file(hash)).0.unwrap();
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
