//! Writing objects: as one pack with its index, or one file each.
//!
//! A pack that is new stands under the protection of a `.keep` file until its objects are reachable: a Git that packs
//! the repository meanwhile leaves it alone. Such a file names the process that made it, so that one that nobody needs
//! any more is told apart from the user's own.

use std::{
    collections::{BTreeSet, HashSet},
    io, process,
    time::Duration,
};

use bristlecone::{
    Batch, Error, Kind, Oid, Result,
    core::{
        Record,
        git::{self, Algorithm},
    },
    storage::OpenMode,
};

use super::journal::OURS;
use crate::{
    error,
    files::{Files, Found, Unsynced, folder, is_absent},
    odb::loose,
    pack::{Builder, Compression},
    refs::Refs,
};

/// The folder of packs.
pub(super) const PACKS: &str = "objects/pack";
/// What `.keep` files of ours begin with.
const KEEP: &str = "bristlecone ";
/// How often a folder that vanishes under the hands is made again.
const FOLDERS_MAX: usize = 20;
/// Files that are open at a time to be synced together.
pub(super) const SYNCED_AT_ONCE: usize = 64;
/// After so long a process has written more into a file than its name.
const OLD: Duration = Duration::from_secs(60);
/// From this length on, in bytes, a blob is deflated; below, and in trees, which are full of ids, little would be saved
/// for much time. Folding deflates everything.
const DEFLATED_MIN: usize = 1 << 10;

/// A pack that was written.
#[derive(Debug)]
pub(super) struct NewPack {
    /// `pack-…`, without ending.
    pub(super) name: String,
    pub(super) index: Vec<u8>,
    /// Whether it was not there before.
    pub(super) fresh: bool,
    /// Whether it is under the protection of this process.
    pub(super) kept: bool,
}

/// What an append left in the repository.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) pack: Option<NewPack>,
    /// Loose objects that were not there before.
    pub(super) loose: Vec<Oid>,
    /// Every object, also those that were there before.
    pub(super) oids: Vec<Oid>,
    /// Files that wait for the names under which they are found.
    hidden: Vec<(String, String)>,
}

impl Written {
    /// Whether anything was written.
    pub(super) fn is_empty(&self) -> bool {
        self.pack.is_none() && self.loose.is_empty()
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

    /// Removes what was written for nothing, found already or not.
    pub(super) fn take_back(mut self, files: &Files) -> Result<()> {
        for (part, _) in std::mem::take(&mut self.hidden) {
            files.remove(&part)?;
        }
        match self.pack.filter(|pack| pack.fresh) {
            Some(pack) => remove_pack(files, &pack.name),
            None => Ok(()),
        }
    }
}

/// Checks that every object is one that Git has, with an id of the right length.
pub(super) fn check_batch(algorithm: Algorithm, batch: &Batch) -> Result<()> {
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
    boot: Option<&str>,
    builder: Builder,
    oids: Vec<Oid>,
    with: Option<Vec<Unsynced>>,
) -> Result<Written> {
    let built = builder.finish();
    let name = format!("{PACKS}/{}", built.name);
    let (pack, index) = (format!("{name}.pack"), format!("{name}.idx"));
    let mut written = Written { oids, ..Written::default() };
    let fresh = files.stat(&index)?.is_none() || files.stat(&pack)?.is_none();
    let mut kept = false;
    if fresh {
        kept = keep(files, boot, &built.name)?;
        // No Git looks at a pack without an index, so it needs no other name until it is whole; unless one is there that a
        // power cut left, or that another process is writing.
        let taken = files.stat(&pack)?.is_some();
        let body = if taken { part_of("pack", &built.name, process::id()) } else { pack.clone() };
        let part = part_of("idx", &built.name, process::id());
        let mut both =
            vec![(body.clone(), files.write(&body, &built.pack)?), (part.clone(), files.write(&part, &built.index)?)];
        if let Some(with) = with {
            both.extend(with);
            files.sync_all(&both)?;
        }
        drop(both);
        if taken {
            files.rename(&body, &pack)?;
        }
        written.hidden.push((part, index));
    } else if let Some(with) = with {
        // The very same objects were appended before.
        files.sync(&pack)?;
        files.sync(&index)?;
        files.sync_all(&with)?;
    }
    written.pack = Some(NewPack { name: built.name, index: built.index, fresh, kept });
    Ok(written)
}

/// Returns the name of a pack's index, or of the pack, until it is whole.
fn part_of(what: &str, pack: &str, process: u32) -> String {
    format!("{PACKS}/tmp_{what}_{}_{process}", &pack[pack.len().saturating_sub(20)..])
}

/// Returns the name of the `.keep` file of this process that protects nothing at the time. As that of locks, it is given
/// other names again and again.
pub(super) fn spare_keep(process: u32) -> String {
    format!("{OURS}/keep-{process}")
}

/// Protects a pack that is about to be written; returns whether it is this process that does.
fn keep(files: &Files, boot: Option<&str>, pack: &str) -> Result<bool> {
    let name = format!("{PACKS}/{pack}.keep");
    if files.rename_new_raw(&spare_keep(process::id()), &name).is_ok() {
        return Ok(true);
    }
    let line = format!("{KEEP}{} {}\n", process::id(), boot.unwrap_or("-"));
    match files.open_raw(&name, OpenMode::CreateNew) {
        Ok(file) => files.write_at(&name, &*file, line.as_bytes(), 0).map(|()| true),
        // The user's, or that of another process that writes the same.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) if is_absent(&error) => {
            files.create_dir(PACKS)?;
            files.sync_dir("objects")?;
            files.sync_dir("")?;
            files.write(&name, line.as_bytes()).map(|_| true)
        }
        Err(error) => Err(error::io(files.describe(&name), error)),
    }
}

/// Ends the protection of a pack by this process.
pub(super) fn release_keep(files: &Files, pack: &str) -> Result<()> {
    let name = format!("{PACKS}/{pack}.keep");
    match files.rename_new_raw(&name, &spare_keep(process::id())) {
        Ok(()) => Ok(()),
        Err(_) => files.remove(&name).map(drop),
    }
}

/// Ends the protection of a pack, whoever gave it.
pub(super) fn unkeep(files: &Files, pack: &str) -> Result<()> {
    let name = format!("{PACKS}/{pack}.keep");
    if is_kept_by_us(files, pack)? { files.remove(&name).map(drop) } else { Ok(()) }
}

/// Whether a pack is under the protection of a process of ours.
pub(super) fn is_kept_by_us(files: &Files, pack: &str) -> Result<bool> {
    Ok(keeper(files, pack)?.is_some())
}

/// Returns what the `.keep` file of a pack says of the process of ours that made it.
fn keeper(files: &Files, pack: &str) -> Result<Option<String>> {
    let found = files.read_up_to(&format!("{PACKS}/{pack}.keep"), 256)?;
    let Found::Bytes(bytes) = found else { return Ok(None) };
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.strip_prefix(KEEP).map(|rest| rest.trim_end().to_owned()))
}

/// Removes the files of a pack that nobody uses: the index first, so that nobody begins to.
pub(super) fn remove_pack(files: &Files, pack: &str) -> Result<()> {
    for ending in ["idx", "rev", "pack"] {
        files.remove(&format!("{PACKS}/{pack}.{ending}"))?;
    }
    unkeep(files, pack)
}

/// Takes away the names of a pack that another took the place of: the index first, so that nobody begins to use it. The
/// files are left for later.
pub(super) fn take_pack_away(files: &Files, refs: &Refs, pack: &str) -> Result<()> {
    for ending in ["idx", "rev", "pack"] {
        refs.take_away(&format!("{PACKS}/{pack}.{ending}"))?;
    }
    unkeep(files, pack)
}

/// Returns the packs that are whole and not under the protection of a process of ours: those are still being written.
pub(super) fn settled_packs(files: &Files) -> Result<BTreeSet<String>> {
    let names: HashSet<String> = files.list(PACKS)?.into_iter().collect();
    let mut packs = BTreeSet::new();
    for name in &names {
        let Some(pack) = name.strip_suffix(".idx") else { continue };
        if names.contains(&format!("{pack}.keep")) && is_kept_by_us(files, pack)? {
            continue;
        }
        // Names with spaces are none of ours, and have no place in a line.
        if !pack.contains(char::is_whitespace) {
            packs.insert(pack.to_owned());
        }
    }
    Ok(packs)
}

/// Removes the `.keep` files of processes of ours that have ended, and the packs without index that they left.
pub(super) fn sweep_keeps(files: &Files, boot: Option<&str>) -> Result<()> {
    for name in files.list(OURS)? {
        let Some(process) = name.strip_prefix("keep-") else { continue };
        // One of this number may be from before the machine was started.
        let own = process.parse() == Ok(process::id());
        if own || !is_at_work(&format!("{process} {}", boot.unwrap_or("-")), boot) {
            files.remove(&format!("{OURS}/{name}"))?;
        }
    }
    let names = files.list(PACKS)?;
    for name in &names {
        let Some(pack) = name.strip_suffix(".keep") else { continue };
        let whole = names.iter().any(|other| other.strip_suffix(".idx") == Some(pack));
        let left = match keeper(files, pack)? {
            Some(by) => !is_at_work(&by, boot),
            // Without a word in it and without a pack: it was made a moment before its process ended.
            None => !whole && is_old_and_empty(files, &format!("{PACKS}/{name}"))?,
        };
        if !left {
            continue;
        }
        if !whole {
            files.remove(&format!("{PACKS}/{pack}.pack"))?;
            let process = keeper(files, pack)?.and_then(|by| by.split(' ').next()?.parse().ok());
            if let Some(process) = process {
                files.remove(&part_of("idx", pack, process))?;
            }
        }
        files.remove(&format!("{PACKS}/{name}"))?;
    }
    Ok(())
}

fn is_old_and_empty(files: &Files, name: &str) -> Result<bool> {
    Ok(files.stat(name)?.is_some_and(|stat| stat.bytes == 0) && files.is_older(name, OLD)?)
}

/// Whether the process that a `.keep` file names, as `PID BOOT`, is still there.
fn is_at_work(by: &str, boot: Option<&str>) -> bool {
    let Some((process, since)) = by.split_once(' ') else { return false };
    if since != boot.unwrap_or("-") {
        return false;
    }
    let process = process.parse().ok().and_then(rustix::process::Pid::from_raw);
    process.is_some_and(|process| rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

/// Writes objects one file each, but for those that are there; they are found once they are published. Durable, but for
/// the names, if `with` says what is made durable with them.
pub(super) fn write_loose(
    files: &Files,
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
        if files.stat(&name)?.is_some() {
            // Whoever wrote it may not have synced it.
            if synced {
                files.sync(&name)?;
            }
            continue;
        }
        bytes.clear();
        loose::encode(entry.record.kind, raw_of(&entry.record, entry.bytes)?, Compression::Level(1), &mut bytes);
        let part = format!("objects/tmp_obj_{}_{}", &name[name.len() - 16..], process::id());
        let file = files.write(&part, &bytes)?;
        if synced {
            unsynced.push((part.clone(), file));
            if unsynced.len() >= SYNCED_AT_ONCE {
                files.sync_all(&std::mem::take(&mut unsynced))?;
            }
        }
        written.hidden.push((part, name));
        written.loose.push(oid);
    }
    files.sync_all(&unsynced)?;
    Ok(written)
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
