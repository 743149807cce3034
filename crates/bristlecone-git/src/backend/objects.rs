//! Writing objects: as one pack with its index, or one file each.
//!
//! A pack that is new stands under the protection of a `.keep` file until its objects are reachable: a Git that packs
//! the repository meanwhile leaves it alone.
//!
//! Every pack has a name of its own, also where another process writes the same objects at the same time: each of them
//! may take back what it wrote.

use std::collections::{BTreeSet, HashSet};

use bristlecone::{
    Batch, Error, Kind, Oid, Result,
    core::{
        Record,
        git::{self, Algorithm},
    },
    to_hex,
};

use super::{
    keep::{self, Keep, Keeps},
    pack_files::{PACKS, part_of, remove_files},
};
use crate::repository::{
    error,
    files::{Files, Unsynced, folder, is_absent, passing_name},
    odb::loose,
    pack::{Builder, Compression},
    refs::Refs,
};

/// How often a folder is made again that another process removes meanwhile.
const FOLDERS_MAX: usize = 20;
/// Files that are open at a time to be synced together.
pub(super) const SYNCED_AT_ONCE: usize = 64;
/// From this length on, in bytes, a blob is deflated; below, and in trees, which are full of ids, little would be saved
/// for much time. A repack deflates everything.
const DEFLATED_MIN: usize = 1 << 10;

/// A pack that was written.
#[derive(Debug)]
pub(super) struct NewPack {
    /// `pack-…`, without ending.
    pub(super) name: String,
    pub(super) index: Vec<u8>,
    /// What protects it from every Git.
    pub(super) keep: Keep,
}

/// What an append left in the repository.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) pack: Option<NewPack>,
    /// Loose objects that were not there before, or that were and may not be durable.
    pub(super) loose: Vec<Oid>,
    /// Every object, also those that were there before.
    pub(super) oids: Vec<Oid>,
    /// Those that are not durable, under the names that they will have.
    pub(super) open: Vec<Unsynced>,
    /// Whether objects were left out that are in protected packs.
    pub(super) relied: bool,
    /// Files that wait for the names under which they are found.
    hidden: Vec<(String, String)>,
}

impl Written {
    /// Returns what an append leaves that wrote nothing; `relied`: for its objects are in protected packs.
    pub(super) fn nothing(relied: bool) -> Self {
        Self { relied, ..Self::default() }
    }

    /// Whether anything was written.
    pub(super) fn is_empty(&self) -> bool {
        self.pack.is_none() && self.loose.is_empty()
    }

    /// Whether files wait for their names, so that no ref can lead to what is in them.
    pub(super) fn is_hidden(&self) -> bool {
        !self.hidden.is_empty()
    }

    /// Gives the files the names under which they are found.
    pub(super) fn publish(&mut self, files: &Files) -> Result<()> {
        for (part, name) in std::mem::take(&mut self.hidden) {
            let mut folders = 0;
            loop {
                match files.rename(&part, &name) {
                    // Git removes folders that become empty, also one that was made just now.
                    Err(Error::Io { source, .. }) if is_absent(&source) && folders < FOLDERS_MAX => {
                        folders += 1;
                        files.create_dir(folder(&name))?;
                    }
                    renamed => break renamed?,
                }
            }
        }
        Ok(())
    }

    /// Removes what was written for nothing and that no other process can have found.
    pub(super) fn take_back(mut self, files: &Files, keeps: &Keeps) -> Result<()> {
        for (part, _) in std::mem::take(&mut self.hidden) {
            files.remove(&part)?;
        }
        let Some(pack) = self.pack else { return Ok(()) };
        remove_files(files, &pack.name)?;
        keeps.release(pack.keep)
    }
}

/// Checks that every object is one that Git has, with an id of the right length.
pub(super) fn check_batch(algorithm: Algorithm, batch: &Batch) -> Result<()> {
    batch.check_size()?;
    if batch.offsets().any(|(oid, _)| oid.as_bytes().len() != algorithm.oid_bytes()) {
        return Err(Error::Usage { reason: "the repository has ids of another hash than the objects" });
    }
    Ok(())
}

/// Returns Git's bytes of a record.
pub(super) fn raw_of<'a>(record: &Record<'_>, bytes: &'a [u8]) -> Result<&'a [u8]> {
    if git::type_name(record.kind).is_none() {
        return Err(Error::Usage { reason: "Git has no lists of pieces: a value is one object" });
    }
    let body = bytes.get(record.body_at()..).unwrap_or_default();
    git::raw(record.kind, body).map_err(|source| Error::BadObject {
        oid: Oid::new(record.oid).unwrap_or_else(|_| Oid::from_array([0; 32])),
        source: bristlecone::core::FormatError::Decode { kind: record.kind, source },
    })
}

/// Returns Git's bytes of a commit if it is the last object of its batch, as every commit is.
pub(super) fn commit_of(batch: &Batch, oid: Oid) -> Option<&[u8]> {
    let (_, at) = batch.offsets().next_back().filter(|(last, _)| *last == oid)?;
    let bytes = batch.bytes().get(at as usize..)?;
    let record = Record::parse(bytes).ok().filter(|record| record.kind == Kind::Commit)?;
    raw_of(&record, bytes.get(..record.bytes() as usize)?).ok()
}

/// Puts the objects of batches into a pack, but for those that `known` says are there.
pub(super) fn build_pack(
    algorithm: Algorithm,
    batches: &[&Batch],
    known: impl Fn(&Oid) -> bool,
) -> Result<(Builder, Vec<Oid>)> {
    let mut builder = Builder::new(algorithm);
    let (mut oids, mut seen) = (Vec::new(), HashSet::new());
    for batch in batches {
        for entry in batch.records() {
            let Ok(oid) = Oid::new(entry.record.oid) else { continue };
            // Objects of one batch are different from each other.
            if known(&oid) || batches.len() > 1 && !seen.insert(oid) {
                continue;
            }
            let raw = raw_of(&entry.record, entry.bytes)?;
            builder.add(entry.record.kind, oid, raw, compression(entry.record.kind, raw.len()));
            oids.push(oid);
        }
    }
    Ok((builder, oids))
}

fn compression(kind: Kind, bytes: usize) -> Compression {
    if kind == Kind::Contents && bytes >= DEFLATED_MIN { Compression::Level(1) } else { Compression::Stored }
}

/// Writes a pack and its index, with a `.keep` beside; it is found once it is published. Durable, but for the names, if
/// `with` says what is made durable with it.
pub(super) fn write_pack(
    files: &Files,
    keeps: &Keeps,
    builder: Builder,
    oids: Vec<Oid>,
    with: Option<Vec<Unsynced>>,
) -> Result<Written> {
    let algorithm = builder.algorithm();
    let built = builder.finish();
    let own = algorithm.digest(&[built.name.as_bytes(), passing_name("").as_bytes()]);
    let name = format!("pack-{}", to_hex(own.as_bytes()));
    let keep = keeps.protect(&name)?;
    // No Git looks at a pack without an index, so it needs no other name until it is whole.
    let (pack, index, part) = (format!("{PACKS}/{name}.pack"), format!("{PACKS}/{name}.idx"), part_of(&name));
    let write = || -> Result<Vec<Unsynced>> {
        let mut both = vec![
            (pack.clone(), files.write_sealed(&pack, &built.pack)?),
            (part.clone(), files.write_sealed(&part, &built.index)?),
        ];
        match with {
            Some(with) => {
                both.extend(with);
                files.sync_all(&both).map(|()| Vec::new())
            }
            // Found by their names, as what is synced later.
            None => {
                Ok(both.into_iter().zip([pack.clone(), index.clone()]).map(|((_, file), name)| (name, file)).collect())
            }
        }
    };
    match write() {
        Ok(open) => {
            let pack = Some(NewPack { name, index: built.index, keep });
            Ok(Written { pack, oids, open, hidden: vec![(part, index)], ..Written::default() })
        }
        Err(error) => {
            // What stays is removed by the next opening: no process holds the lock of its `.keep` then.
            let left = [&pack, &part].into_iter().try_for_each(|file| files.remove(file).map(drop));
            let _ = left.and_then(|()| keeps.release(keep));
            Err(error)
        }
    }
}

/// Removes the files of a pack that no process uses: the index first, so that none begins to.
pub(super) fn remove_pack(files: &Files, pack: &str) -> Result<()> {
    remove_files(files, pack)?;
    keep::end(files, pack)
}

/// Takes away the names of a pack that another one replaced: the index first, so that no process begins to use it. The
/// files are removed later.
pub(super) fn unlink_pack_later(refs: &Refs, pack: &str) -> Result<()> {
    for ending in ["idx", "rev", "pack"] {
        refs.unlink_later(&format!("{PACKS}/{pack}.{ending}"))?;
    }
    Ok(())
}

/// Returns the packs that are whole and not under the protection of a process of ours: those are still being written.
pub(super) fn settled_packs(files: &Files) -> Result<BTreeSet<String>> {
    let names: HashSet<String> = files.list(PACKS)?.into_iter().collect();
    let mut packs = BTreeSet::new();
    for name in &names {
        let Some(pack) = name.strip_suffix(".idx") else { continue };
        if names.contains(&format!("{pack}.keep")) && keep::is_ours(files, pack)? {
            continue;
        }
        // Our names have no spaces, and a line of the journal has no room for them.
        if !pack.contains(char::is_whitespace) {
            packs.insert(pack.to_owned());
        }
    }
    Ok(packs)
}

/// Writes objects one file each, but for those that are there and sound; they are found once they are published. Durable, but for
/// the names, if `with` says what is made durable with them.
pub(super) fn write_loose(
    files: &Files,
    algorithm: Algorithm,
    batches: &[&Batch],
    known: impl Fn(&Oid) -> bool,
    with: Option<Vec<Unsynced>>,
) -> Result<Written> {
    let mut written = Written::default();
    let synced = with.is_some();
    let (mut bytes, mut unsynced) = (Vec::new(), with.unwrap_or_default());
    for entry in batches.iter().flat_map(|batch| batch.records()) {
        let Ok(oid) = Oid::new(entry.record.oid) else { continue };
        if known(&oid) {
            continue;
        }
        written.oids.push(oid);
        let name = format!("objects/{}", loose::name(&oid));
        // A Git that prunes goes by the time of an object that no ref leads to.
        if files.freshen(&name)? && is_sound(files, algorithm, &name, oid)? {
            // The process that wrote it may not have synced it.
            if synced {
                files.sync(&name)?;
            } else {
                written.loose.push(oid);
            }
            continue;
        }
        bytes.clear();
        loose::encode(entry.record.kind, raw_of(&entry.record, entry.bytes)?, Compression::Level(1), &mut bytes);
        let part = passing_name("objects/tmp_obj_");
        let file = files.write_sealed(&part, &bytes)?;
        // No more are kept open.
        if synced && unsynced.len() >= SYNCED_AT_ONCE {
            files.sync_all(&std::mem::take(&mut unsynced))?;
        }
        if unsynced.len() < SYNCED_AT_ONCE {
            unsynced.push((if synced { part.clone() } else { name.clone() }, file));
        }
        written.hidden.push((part, name));
        written.loose.push(oid);
    }
    if synced {
        files.sync_all(&unsynced)?;
    } else {
        written.open = unsynced;
    }
    Ok(written)
}

/// Whether the file of a loose object holds it: a power cut may have taken the bytes of what a Git wrote, and a commit that leaves
/// it out would not be whole. What cannot be read here is taken for sound.
fn is_sound(files: &Files, algorithm: Algorithm, name: &str, oid: Oid) -> Result<bool> {
    let bytes = match files.read(name) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::PermissionDenied => return Ok(true),
        read => read?,
    };
    let (bytes, mut raw) = (bytes.unwrap_or_default(), Vec::new());
    Ok(loose::decode(&bytes, &mut raw).is_ok_and(|kind| algorithm.object_id(kind, &raw) == oid))
}

/// Makes a loose object durable that this process has closed, if it is there.
///
/// The sync may not learn of a write-back that failed before. If the system dropped the file since, the medium is
/// read here, and what is on it must be the object.
///
/// # Errors
/// [`Error::Corrupt`] if it is not.
pub(super) fn sync_closed_loose(files: &Files, algorithm: Algorithm, oid: Oid) -> Result<()> {
    let name = format!("objects/{}", loose::name(&oid));
    if !files.sync(&name)? {
        return Ok(());
    }
    let Some(bytes) = files.read(&name)? else { return Ok(()) };
    let mut raw = Vec::new();
    let read = loose::decode(&bytes, &mut raw);
    let corrupt = |reason: &str| error::corrupt(files.describe(&name), 0, Some(oid), reason);
    let kind = read.map_err(corrupt)?;
    let right = algorithm.object_id(kind, &raw) == oid;
    if right { Ok(()) } else { Err(corrupt("the object was lost on its way to the medium")) }
}

/// Makes the names of loose objects durable.
pub(super) fn sync_fan_out(files: &Files, oids: &[Oid]) -> Result<()> {
    let folders: BTreeSet<String> = oids.iter().map(|oid| format!("objects/{}", folder(&loose::name(oid)))).collect();
    for folder in &folders {
        files.sync_dir(folder)?;
    }
    if !folders.is_empty() {
        files.sync_dir("objects")?;
    }
    Ok(())
}
