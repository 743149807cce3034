//! Chains as nodes wrote them, read, written again, damaged and cut.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::storage::{OpenMode, RealStorage, Storage};
use bristlecone_testkit::sim::{Policy, SimStorage};

use super::*;

mod byron;
mod damage;
mod faults;
mod tail;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano").join(name)
}

type Blocks = Vec<(Point, BlockPlace)>;

/// Returns all blocks of places, each with its place, and a note about what follows them.
fn read(paths: &[PathBuf], options: ReadOptions) -> Result<(Blocks, Option<String>), ChainError> {
    let (points, ended) = read_until(paths, options);
    ended.map(|note| (points, note))
}

/// Returns the blocks of places up to an error, and the error or a note.
fn read_until(paths: &[PathBuf], options: ReadOptions) -> (Blocks, Result<Option<String>, ChainError>) {
    let mut points = Vec::new();
    let all = || {
        let mut reader = ChainReader::open(paths, options)?;
        while let Some(StoredBlock { block, place }) = reader.next_block()? {
            points.push((block.point(), place));
        }
        Ok(reader.tail().map(str::to_owned))
    };
    let ended = all();
    (points, ended)
}

fn all(name: &str) -> Blocks {
    let (points, tail) = read(&[data(name)], ReadOptions::default()).unwrap();
    assert_eq!(tail, None);
    points
}

/// Copies a folder of chunks, so that it can be harmed.
fn copy(name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data(name)).unwrap() {
        let path = entry.unwrap().path();
        fs::write(dir.path().join(path.file_name().unwrap()), fs::read(&path).unwrap()).unwrap();
    }
    dir
}

#[test]
fn chains_are_read_whole_with_their_newest_chunk() {
    let preview = all("preview");
    assert_eq!(preview.len(), 3 * 216);
    assert_eq!(preview[215].0.hash.to_string(), "f43e8849eab67405c2a01037d82a60ea517fb49af36da5054a7c87c2e8cf98ea");
    assert_eq!(all("preview/immutable"), preview, "the folder above, and the folder itself");
    let devnet = all("devnet");
    assert_eq!((devnet.len(), devnet[0].1.chunk, devnet[399].1.chunk), (400, 0, 3));
    assert_eq!(all("preprod").len(), 864);
}

#[test]
fn reading_begins_at_a_slot() {
    let whole = all("devnet");
    for index in [0, 99, 100, 250, 398, 399] {
        let from = whole[index].0.slot;
        let (rest, _) = read(&[data("devnet")], ReadOptions::default().start_slot(from)).unwrap();
        assert_eq!(rest, whole[index..], "from {from}");
    }
}

#[test]
fn a_chunk_with_an_altered_slot_is_not_left_out() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let file = dir.path().join("00001.secondary");
    let entries = fs::read(&file).unwrap();
    let at = |from: usize| read_until(&[dir.path().to_owned()], ReadOptions::default().start_slot(whole[from].0.slot));
    for (index, sound) in [(99, 199), (0, 150)] {
        let mut altered = entries.clone();
        altered[56 * index + 48..56 * index + 56].fill(0);
        fs::write(&file, altered).unwrap();
        let (points, ended) = at(150);
        assert_eq!(points, whole[150..sound], "entry {index}");
        assert!(matches!(ended, Err(ChainError::Damaged { chunk: 1, .. })), "entry {index}: {ended:?}");
        // All of the chunk comes before.
        assert_eq!(at(250).0, whole[250..], "entry {index}");
    }
}

#[test]
fn archives_and_single_chunks_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, packed) = (dir.path().join("chain.tar"), dir.path().join("chain.tar.zst"));
    let mut archive = tar::Builder::new(Vec::new());
    // The files of a chunk in another order.
    for number in 0..4 {
        for part in ["secondary", "chunk", "primary"] {
            let name = format!("{number:05}.{part}");
            archive.append_path_with_name(data("devnet/immutable").join(&name), format!("immutable/{name}")).unwrap();
        }
    }
    let bytes = archive.into_inner().unwrap();
    fs::write(&plain, &bytes).unwrap();
    fs::write(&packed, zstd::encode_all(&bytes[..], 3).unwrap()).unwrap();
    let whole = all("devnet");
    assert_eq!(read(std::slice::from_ref(&plain), ReadOptions::default()).unwrap().0, whole);
    assert_eq!(read(std::slice::from_ref(&packed), ReadOptions::default()).unwrap().0, whole);
    let chunks: Vec<PathBuf> = (0..4).map(|number| data(&format!("devnet/immutable/{number:05}.chunk"))).collect();
    assert_eq!(read(&chunks, ReadOptions::default()).unwrap().0, whole);
    // An archive that is cut ends with an error, after the chunks that are whole.
    let cut = fs::read(&packed).unwrap();
    fs::write(&packed, &cut[..cut.len() / 2]).unwrap();
    assert!(matches!(read(&[packed], ReadOptions::default()), Err(ChainError::Io { .. })));
    for (cut, blocks) in [(bytes.len() - 30_000, 300), (bytes.len() / 2, 200), (2_000, 0)] {
        fs::write(&plain, &bytes[..cut]).unwrap();
        let (points, ended) = read_until(std::slice::from_ref(&plain), ReadOptions::default());
        assert_eq!(points, whole[..blocks], "cut at {cut}");
        assert!(
            matches!(&ended, Err(ChainError::Io { file, .. }) if file.contains("/0000")),
            "cut at {cut}: {ended:?}"
        );
    }
    let empty = dir.path().join("none.tar");
    fs::write(&empty, tar::Builder::new(Vec::new()).into_inner().unwrap()).unwrap();
    assert!(matches!(read(&[empty], ReadOptions::default()), Err(ChainError::NoChain { .. })));
}

#[test]
fn names_of_an_archive_that_are_long_are_read_and_endless_ones_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chain.tar");
    let extended = |kind: tar::EntryType, bytes: usize| {
        let mut archive = tar::Builder::new(Vec::new());
        // A large file that is none of a chain, and folders so deep that names need entries of their own.
        let mut header = tar::Header::new_gnu();
        header.set_size(1 << 20);
        header.set_mode(0o644);
        archive.append_data(&mut header, "ledger", &vec![7; 1 << 20][..]).unwrap();
        if bytes > 0 {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_size(bytes as u64);
            header.set_cksum();
            archive.append(&header, &vec![b'a'; bytes][..]).unwrap();
        }
        for name in files_of(&[0, 1]) {
            let path = data("devnet/immutable").join(&name);
            archive.append_path_with_name(path, format!("{}/{name}", "folder".repeat(40))).unwrap();
        }
        fs::write(&file, archive.into_inner().unwrap()).unwrap();
        read(std::slice::from_ref(&file), ReadOptions::default())
    };
    assert_eq!(extended(tar::EntryType::GNULongName, 0).unwrap().0, all("devnet")[..200]);
    for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
        let Err(ChainError::Io { source, .. }) = extended(kind, 1 << 20) else { panic!("{kind:?}") };
        assert!(source.to_string().contains("262144 bytes"), "{kind:?}: {source}");
    }
}

/// Packs files of the devnet's chunks in an order.
fn pack(file: &Path, names: impl IntoIterator<Item = String>) {
    let mut archive = tar::Builder::new(Vec::new());
    for name in names {
        archive.append_path_with_name(data("devnet/immutable").join(&name), format!("immutable/{name}")).unwrap();
    }
    fs::write(file, archive.into_inner().unwrap()).unwrap();
}

fn files_of(chunks: &[u32]) -> Vec<String> {
    let parts = ["chunk", "primary", "secondary"];
    chunks.iter().flat_map(|number| parts.map(|part| format!("{number:05}.{part}"))).collect()
}

#[test]
fn archives_in_the_order_of_a_folder_hold_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chain.tar");
    let whole = all("devnet");
    let packed = |names: &[String]| {
        pack(&file, names.to_vec());
        read_until(std::slice::from_ref(&file), ReadOptions::default())
    };
    for order in [[1, 2, 0, 3], [3, 2, 1, 0], [0, 3, 1, 2]] {
        let (points, ended) = packed(&files_of(&order));
        assert_eq!((points, ended.unwrap()), (whole.clone(), None), "{order:?}");
    }
    let mut names = files_of(&[0, 1, 2, 3]);
    names.sort_by_key(|name| name.bytes().fold(7_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)));
    assert_eq!(packed(&names).0, whole);
    // The middle of a chain, and one part of it behind another.
    assert_eq!(packed(&files_of(&[2, 1])).0, whole[100..300]);
    let (first, second) = (dir.path().join("first.tar"), dir.path().join("second.tar"));
    pack(&first, files_of(&[1, 0]));
    pack(&second, files_of(&[2, 3]));
    assert_eq!(read(&[first, second], ReadOptions::default()).unwrap().0, whole);
    // What is missing is named, and not the chunk behind it.
    names = files_of(&[0, 1, 2, 3]);
    names.retain(|name| name != "00001.primary");
    let (points, ended) = packed(&names);
    assert_eq!(points, whole[..100]);
    assert!(
        matches!(&ended, Err(ChainError::Damaged { chunk: 1, reason, .. }) if reason.contains("primary")),
        "{ended:?}"
    );
    // What comes too late is told as that.
    let (points, ended) = packed(&files_of(&[0, 1, 0]));
    assert_eq!(points, whole[..200]);
    assert!(ended.unwrap_err().to_string().contains("with names in order"));
}

#[test]
fn single_blocks_are_read_in_both_spellings() {
    let raw = data("blocks/amaru-preprod/b9bef52dd8dedf992837d20c18399a284d80fde0ae9435f2a33649aaee7c5698.cbor");
    let (points, _) = read(&[raw], ReadOptions::default()).unwrap();
    assert_eq!(points[0].0.slot, 70_175_999);
    let (points, _) = read(&[data("blocks/pallas/byron1.block")], ReadOptions::default()).unwrap();
    assert_eq!(points[0].0.number, 4_490_505);
}

/// Appends the blocks of a chain, synced after every `sync_every`.
fn append(storage: &Arc<dyn Storage>, name: &str, slots: u64, sync_every: usize) -> Result<Option<Point>, ChainError> {
    let mut appender = Appender::open(storage.clone(), slots)?;
    let from = appender.tip().map(|tip| tip.slot);
    let mut synced = appender.tip();
    let mut reader = ChainReader::open(&[data(name)], ReadOptions::default().start_slot(from))?;
    let mut count = 0;
    while let Some(StoredBlock { block, .. }) = reader.next_block()? {
        if from == Some(block.slot()) {
            continue;
        }
        if appender.append(&block).is_err() {
            return Ok(synced);
        }
        count += 1;
        if count % sync_every == 0 {
            if appender.sync().is_err() {
                return Ok(synced);
            }
            synced = appender.tip();
        }
    }
    Ok(if appender.sync().is_ok() { appender.tip() } else { synced })
}

fn contents(storage: &dyn Storage, name: &str) -> Vec<u8> {
    let file = storage.open(name, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), bytes.len());
    bytes
}

/// Compares a database with the one that a node wrote. The primary index of its newest chunk may go on with empty slots.
fn compare(storage: &dyn Storage, name: &str) {
    let mut names = storage.list("").unwrap();
    names.sort();
    let newest = names.last().unwrap()[..5].to_owned();
    for file in &names {
        let (mine, theirs) = (contents(storage, file), fs::read(data(name).join(file)).unwrap());
        if *file == format!("{newest}.primary") {
            assert!(theirs.starts_with(&mine), "{file}");
        } else {
            assert!(mine == theirs, "{file} differs");
        }
    }
}

#[test]
fn what_is_appended_is_what_a_node_wrote() {
    for (name, slots) in [("devnet", 100), ("preview", 4_320), ("preprod", 21_600)] {
        let dir = tempfile::tempdir().unwrap();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        append(&storage, name, slots, 50).unwrap();
        compare(&*storage, &format!("{name}/immutable"));
        assert_eq!(read(&[dir.path().to_owned()], ReadOptions::default()).unwrap(), (all(name), None), "{name}");
        let mut db = ImmutableDb::open(dir.path()).unwrap();
        let listed = db.chunks().unwrap().into_iter().flat_map(|chunk| db.listed(chunk).unwrap()).collect::<Vec<_>>();
        assert_eq!(
            listed.iter().map(|one| one.place).collect::<Vec<_>>(),
            all(name).iter().map(|one| one.1).collect::<Vec<_>>()
        );
        let some = listed[listed.len() / 2];
        assert_eq!(Block::parse(&db.read(some.place).unwrap()).unwrap().hash(), some.hash);
        let beyond = BlockPlace { offset: u64::MAX, ..some.place };
        assert!(matches!(db.read(beyond), Err(ChainError::Damaged { .. })));
    }
}

#[test]
fn a_block_that_does_not_follow_is_not_appended() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    append(&storage, "devnet", 100, 50).unwrap();
    let mut appender = Appender::open(storage, 100).unwrap();
    let tip = appender.tip();
    let mut reader = ChainReader::open(&[data("preprod")], ReadOptions::default()).unwrap();
    let foreign = reader.next_block().unwrap().unwrap();
    assert!(matches!(appender.append(&foreign.block), Err(ChainError::Order { .. })));
    let mut reader = ChainReader::open(&[data("devnet")], ReadOptions::default()).unwrap();
    let early = reader.next_block().unwrap().unwrap();
    assert!(matches!(appender.append(&early.block), Err(ChainError::Order { .. })));
    assert_eq!(appender.tip(), tip);
}

#[test]
fn the_chunks_of_another_network_are_refused_and_stay_as_they_are() {
    let contents = |dir: &Path| {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files.into_iter().map(|file| (fs::read(&file).unwrap(), file)).collect::<Vec<_>>()
    };
    for (name, newest, slots) in
        [("preview", 2, 21_600), ("preview", 2, 4_300), ("devnet", 3, 99), ("devnet", 3, 4_320)]
    {
        let dir = copy(&format!("{name}/immutable"));
        let open = || {
            let before = contents(dir.path());
            let opened = Appender::open(Arc::new(RealStorage::new(dir.path())), slots);
            assert!(contents(dir.path()) == before, "{name} with {slots} slots");
            opened.unwrap_err()
        };
        let error = open();
        assert!(matches!(error, ChainError::Order { chunk, .. } if chunk == newest), "{error}");
        assert!(error.to_string().contains(&format!("with {slots} slots a chunk")), "{error}");
        // Without a block in the newest chunk, those of the one before say it.
        for part in ["chunk", "secondary"] {
            fs::write(dir.path().join(format!("{newest:05}.{part}")), []).unwrap();
        }
        let error = open();
        assert!(matches!(error, ChainError::Order { chunk, .. } if chunk == newest - 1), "{error}");
    }
    // A boundary block may be anywhere.
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    let text = fs::read(data("blocks/pallas/genesis.block")).unwrap();
    let bytes = crate::hash::from_hex_bytes(text.trim_ascii()).unwrap();
    let boundary = Block::parse(&bytes).unwrap();
    Appender::open(storage.clone(), 21_600).unwrap().append(&boundary).unwrap();
    assert_eq!(Appender::open(storage, 100).unwrap().tip(), Some(boundary.point()));
}

#[test]
fn after_a_power_cut_at_any_call_the_chain_goes_on_from_what_was_synced() {
    let disk = SimStorage::new();
    disk.keep_moments();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut acknowledged = vec![(0, None)];
    let mut appender = Appender::open(storage.clone(), 100).unwrap();
    let mut reader = ChainReader::open(&[data("devnet")], ReadOptions::default()).unwrap();
    let mut count = 0;
    while let Some(StoredBlock { block, .. }) = reader.next_block().unwrap() {
        appender.append(&block).unwrap();
        count += 1;
        if count % 7 == 0 {
            appender.sync().unwrap();
            acknowledged.push((disk.calls(), appender.tip()));
        }
    }
    appender.sync().unwrap();
    compare(&*storage, "devnet/immutable");
    let calls = disk.calls();
    assert!(calls > 1000, "{calls}");
    let (mut lost, mut seed) = (0, 0);
    for call in (1..=calls).step_by(11) {
        for policy in Policy::ALL {
            seed += 1;
            let after = disk.moment(call).unwrap().reboot(seed, policy);
            let storage: Arc<dyn Storage> = Arc::new(after);
            let known = acknowledged.iter().rfind(|(at, _)| *at <= call).and_then(|(_, tip)| *tip);
            let appender = Appender::open(storage.clone(), 100).unwrap();
            let number = |tip: Option<Point>| tip.map_or(0, |tip| tip.number + 1);
            assert!(number(appender.tip()) >= number(known), "call {call}, {policy:?}: {:?}", appender.tip());
            lost += u64::from(appender.cut().is_some());
            drop(appender);
            if call % 5 == 0 {
                append(&storage, "devnet", 100, 50).unwrap();
                compare(&*storage, "devnet/immutable");
            }
        }
    }
    assert!(lost > 20, "cuts that left something to be cut off: {lost}");
}

#[test]
fn the_greatest_number_has_no_successor() {
    let hash = |byte: u8| BlockHash([byte; 32]);
    let link = |slot: u8, number| Link {
        point: Point { slot: slot.into(), number, hash: hash(slot) },
        previous: slot.checked_sub(1).map(hash),
        era: Era::Conway,
        is_boundary: false,
    };
    assert!(link(1, u64::MAX).breaks(&link(2, 0)).unwrap().contains("greatest number"));
    assert_eq!(link(1, u64::MAX - 1).breaks(&link(2, u64::MAX)), None);
}
