//! The smallest engine that keeps the contract: one log file, read whole when it is opened.
//!
//! A frame is: 4 bytes length, 8 bytes checksum (seeded by the last frame's), records, moves. Each [`Bug`]
//! leaves out one thing that a crash-safe engine needs.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, RefMove, RefTarget, Snapshot, check_moves,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
};
use bristlecone_core::{Location, ObjRef, Object, Oid, record_bytes};
use bristlecone_testkit::crash::Engine;

/// What the engine does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    None,
    /// `Synced` is acknowledged without a sync.
    NoSync,
    /// The folder is not synced when the store is made.
    NoDirSync,
    /// Frames are taken without looking at their checksum.
    NoChecksum,
    /// A torn tail is passed over but not erased, and frames are not chained: an old frame beyond it may come back.
    NoErasing,
    /// What a flush promises is not done.
    NoFlush,
    /// A recovery empties the log and writes the sound part of it anew.
    Rewriting,
}

#[derive(Debug)]
pub(crate) struct Toy(Arc<Store>);

impl std::ops::Deref for Toy {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

#[derive(Debug)]
pub(crate) struct Store {
    file: Arc<dyn StorageFile>,
    bug: Bug,
    log: Mutex<Log>,
    derived: Mutex<HashMap<String, Vec<u8>>>,
}

#[derive(Debug, Default)]
struct Log {
    end: u64,
    chain: u64,
    objects: HashMap<Oid, Arc<[u8]>>,
    refs: BTreeMap<String, RefTarget>,
}

const NAME: &str = "log";
const HEADER: u64 = 12;

fn io(source: std::io::Error) -> Error {
    Error::io(NAME.to_owned(), source)
}

fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3).rotate_left(7))
}

impl Toy {
    fn new(file: Arc<dyn StorageFile>, bug: Bug) -> Self {
        Self(Arc::new(Store { file, bug, log: Mutex::default(), derived: Mutex::default() }))
    }
}

impl Store {
    fn locked<T>(&self, run: impl FnOnce(&mut Log) -> Result<T, Error>) -> Result<T, Error> {
        let mut log = self.log.lock().unwrap();
        while !self.file.try_lock().map_err(io)? {
            std::thread::yield_now();
        }
        let done = self.refresh(&mut log).and_then(|()| run(&mut log));
        self.file.unlock().map_err(io)?;
        done
    }

    /// Reads the frames that others appended; returns at the first bytes that are no frame.
    fn refresh(&self, log: &mut Log) -> Result<(), Error> {
        let len = self.file.len().map_err(io)?;
        while log.end + HEADER <= len {
            let mut header = [0; HEADER as usize];
            read_exact_at(&*self.file, &mut header, log.end).map_err(io)?;
            let bytes = u64::from(u32::from_le_bytes(header[..4].try_into().unwrap()));
            let sum = u64::from_le_bytes(header[4..].try_into().unwrap());
            if bytes == 0 || log.end + HEADER + bytes > len {
                break;
            }
            let mut frame = vec![0; bytes as usize];
            read_exact_at(&*self.file, &mut frame, log.end + HEADER).map_err(io)?;
            let chain = if self.bug == Bug::NoErasing { 0 } else { log.chain };
            if self.bug != Bug::NoChecksum && checksum(chain, &frame) != sum {
                break;
            }
            log.apply(&frame);
            log.chain = sum;
            log.end += HEADER + bytes;
        }
        Ok(())
    }
}

impl Log {
    fn apply(&mut self, frame: &[u8]) {
        let records = u32::from_le_bytes(frame[..4].try_into().unwrap()) as usize;
        let mut rest = &frame[4..4 + records];
        while !rest.is_empty() {
            let Ok((record, bytes)) = record_bytes(rest) else { break };
            self.objects.insert(Oid::new(record.oid).unwrap(), bytes.into());
            rest = &rest[bytes.len().next_multiple_of(8)..];
        }
        let words: Vec<String> =
            frame[4 + records..].split(|&b| b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        for pair in words.chunks_exact(2) {
            let [name, to] = pair else { unreachable!() };
            match to.split_at(1) {
                ("-", _) => self.refs.remove(name),
                ("@", other) => self.refs.insert(name.to_owned(), RefTarget::Symbolic(other.to_owned())),
                (_, oid) => self.refs.insert(name.to_owned(), RefTarget::Object(oid.parse::<Oid>().unwrap().into())),
            };
        }
    }
}

fn frame(batch: Batch, moves: &[RefMove]) -> Vec<u8> {
    let mut frame = (batch.bytes().len() as u32).to_le_bytes().to_vec();
    frame.extend(batch.bytes());
    for wanted in moves {
        let to = match &wanted.to {
            None => "-".to_owned(),
            Some(RefTarget::Symbolic(name)) => format!("@{name}"),
            Some(RefTarget::Object(at)) => format!("={}", at.oid),
        };
        frame.extend(format!("{}\0{to}\0", wanted.name).as_bytes());
    }
    frame
}

/// Nothing is ever dropped, and what is read is copied.
#[derive(Debug)]
struct View(Arc<Store>);

impl Snapshot for View {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.0.locked(|log| {
            Ok(log.objects.get(&at.oid).map(|bytes| {
                let (record, _) = record_bytes(bytes).expect("checked when it was read");
                Object::from_record(&record, bytes.clone().into(), Location::NONE)
            }))
        })
    }

    fn locate(&self, _: &Oid) -> Option<Location> {
        None
    }

    fn keep(&self, _: &Oid) {}
}

impl Backend for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: true,
            atomic_commits: true,
            several_refs: true,
            locations: false,
            processes: true,
            metadata_words: true,
            positions: false,
            sweep: false,
            retention: false,
            git: None,
        }
    }

    fn snapshot(&self, _: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(View(self.0.clone()))
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.locked(|log| {
            check_moves(moves, |name| log.refs.get(name))?;
            let frame = frame(batch, moves);
            let chain = if self.bug == Bug::NoErasing { 0 } else { log.chain };
            let sum = checksum(chain, &frame);
            let mut bytes = (frame.len() as u32).to_le_bytes().to_vec();
            bytes.extend(sum.to_le_bytes());
            bytes.extend(&frame);
            write_all_at(&*self.file, &bytes, log.end).map_err(io)?;
            if durability == Durability::Synced && self.bug != Bug::NoSync {
                self.file.sync_data().map_err(io)?;
            }
            self.refresh(log)?;
            Ok(Location::NONE)
        })
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.locked(|log| Ok(log.refs.get(name).cloned()))
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.locked(|log| {
            Ok(log
                .refs
                .iter()
                .filter(|(name, _)| name.starts_with(prefix))
                .map(|(n, t)| (n.clone(), t.clone()))
                .collect())
        })
    }

    fn flush(&self) -> Result<(), Error> {
        if self.bug == Bug::NoFlush { Ok(()) } else { self.file.sync_data().map_err(io) }
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        _: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let oids: Vec<Oid> = self.locked(|log| Ok(log.objects.keys().copied().collect()))?;
        for oid in oids {
            let object = self.read(&oid.into())?.expect("nothing is ever removed");
            each(oid, &object)?;
        }
        Ok(())
    }

    fn stats(&self) -> BackendStats {
        BackendStats::default()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.derived.lock().unwrap().get(name).cloned())
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.derived.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

/// The toy as an engine, with its bug.
pub(crate) struct ToyEngine(pub(crate) Bug);

impl Engine for ToyEngine {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        let file = storage.open(NAME, OpenMode::Create).map_err(io)?;
        if self.0 != Bug::NoDirSync {
            storage.sync_dir("").map_err(io)?;
        }
        Ok(Arc::new(Toy::new(file, self.0)))
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        let file = storage.open(NAME, OpenMode::Write).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::NoStore { file: NAME.to_owned() },
            _ => io(error),
        })?;
        let toy = Toy::new(file, self.0);
        toy.locked(|log| {
            if self.0 != Bug::NoErasing && toy.file.len().map_err(io)? > log.end {
                if self.0 == Bug::Rewriting {
                    let mut kept = vec![0; log.end as usize];
                    read_exact_at(&*toy.file, &mut kept, 0).map_err(io)?;
                    toy.file.set_len(0).map_err(io)?;
                    toy.file.sync_data().map_err(io)?;
                    write_all_at(&*toy.file, &kept, 0).map_err(io)?;
                }
                toy.file.set_len(log.end).map_err(io)?;
            }
            toy.file.sync_data().map_err(io)
        })?;
        Ok(Arc::new(toy))
    }
}
