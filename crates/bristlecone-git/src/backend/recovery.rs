//! What is done when a repository is opened after a power cut, as far as the journal says that something was not
//! durable.
//!
//! First the packs: those that the journal does not know as durable are checked, and torn ones are taken away. The
//! lines of the journal are then good up to the first whose pack is not. Each ref is set to what it held there, unless
//! it holds something that Git or a lost line put there, with everything that it leads to. In the end all of it is made
//! durable, and the journal begins anew. Doing any of it again changes nothing: a second power cut on the way is no
//! other case.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use bristlecone::{
    Error, Oid, RefTarget, Result,
    core::git::Algorithm,
    storage::{Reach, Storage},
};

use super::{
    journal::{Generation, Journal, JournalLine, Value},
    keep, objects,
    pack_files::PACKS,
    reachability::Reachability,
};
use crate::repository::{
    files::{Files, below},
    odb::{Odb, loose},
    pack::Pack,
    refs::{LogLine, MoveRules, Refs, STORE_HEAD},
    zlib::TOO_LARGE,
};

/// Where torn packs that may not be ours go.
const TORN: &str = "bristlecone/torn";

/// What is known once the packs were looked at.
#[derive(Debug)]
pub(super) struct Recovery {
    /// Packs that are whole and may not be durable.
    intact: BTreeSet<String>,
    algorithm: Algorithm,
}

impl Recovery {
    /// Checks the packs that may be torn, and takes away those that are, and loose objects.
    pub(super) fn of_packs(files: &Files, algorithm: Algorithm, now: &Generation) -> Result<Self> {
        let mut recovery = Self { intact: BTreeSet::new(), algorithm };
        let own: HashSet<&String> = own_packs(now).collect();
        let names = files.list(PACKS)?;
        for name in names.iter().filter_map(|name| name.strip_suffix(".idx")) {
            if now.known.contains(name) {
                continue;
            }
            if is_intact(files.storage(), algorithm, name)? {
                recovery.intact.insert(name.to_owned());
            } else if own.contains(&name.to_owned()) {
                objects::remove_pack(files, name)?;
            } else {
                move_away(files, name)?;
            }
        }
        // No process finds a pack without an index, and it would be in the way of the same one.
        for name in own.into_iter().filter(|name| !recovery.intact.contains(*name) && !now.known.contains(*name)) {
            objects::remove_pack(files, name)?;
        }
        for name in own_packs(now) {
            keep::end_wordless(files, name)?;
        }
        files.sync_dir(PACKS)?;
        if now.loose {
            remove_torn_loose(files, algorithm)?;
        }
        Ok(recovery)
    }

    /// Sets every ref right and makes everything durable.
    pub(super) fn finish(
        self,
        files: &Files,
        odb: &Odb,
        refs: &Refs,
        rules: &MoveRules,
        journal: &mut Journal,
    ) -> Result<()> {
        let wanted = self.wanted(odb, journal.now())?;
        if let Some(absent) = odb.absent_alternate().filter(|_| !wanted.is_empty()) {
            // What a Git committed since may lead there, and would be taken for lost.
            let reason = "objects/info/alternates names this folder, which is not there, and what refs lead to is to be looked through \
                          after a power cut; make it available, or take it out of that file";
            return Err(Error::Lost { file: absent.display().to_string(), reason: reason.to_owned() });
        }
        let mut walk = Reachability::new(files, odb, self.algorithm)?;
        for value in wanted.values().flat_map(|wanted| &wanted.history) {
            walk.trust(value.as_ref());
        }
        refs.remove_wordless_locks(wanted.keys())?;
        let journal_ns = if files.reach() == Reach::Local { journal.modified_ns()? } else { 0 };
        let mut removed = HashSet::new();
        for name in wanted.keys() {
            if refs.is_removed(name, rules)? {
                removed.insert(name.clone());
            }
        }
        mend_logs(refs, rules, &mut walk, &wanted)?;
        // Removals first: a ref that was made since may need the name of a folder that they leave.
        let mut ordered: Vec<(&String, &Wanted)> = wanted.iter().collect();
        ordered.sort_by_key(|(_, wanted)| wanted.value.is_some());
        for (name, wanted) in ordered {
            // Our own values are written before the lines that tell of them.
            let younger = journal_ns > 0 && refs.modified_ns(name)? > journal_ns;
            let seen = Seen { younger, removed: removed.contains(name) };
            match set_right(refs, rules, &mut walk, (name, seen), wanted) {
                // Another ref was made since, where this one would be: by a Git, which knew better.
                Err(Error::RefClash { .. }) => {}
                done => done?,
            }
        }
        for pack in &self.intact {
            files.sync(&format!("{PACKS}/{pack}.pack"))?;
            files.sync(&format!("{PACKS}/{pack}.idx"))?;
        }
        files.sync_dir(PACKS)?;
        self.sync_loose(files, journal.now())?;
        for name in wanted.keys() {
            refs.sync(name)?;
        }
        journal.finish()
    }

    /// Makes the loose objects durable that the journal names and that are there: where nobody knows when the machine was
    /// started, there may have been no power cut, and they are on no medium yet.
    fn sync_loose(&self, files: &Files, now: &Generation) -> Result<()> {
        let named =
            now.lines.iter().filter_map(|line| if let JournalLine::Loose(oids) = line { Some(oids) } else { None });
        let loose: Vec<Oid> = named.flatten().copied().collect();
        for &oid in &loose {
            objects::sync_closed_loose(files, self.algorithm, oid)?;
        }
        objects::sync_fan_out(files, &loose)
    }

    /// Returns what each ref held where the lines end that are good.
    fn wanted(&self, odb: &Odb, now: &Generation) -> Result<BTreeMap<String, Wanted>> {
        let mut wanted: BTreeMap<String, Wanted> = now
            .bases
            .iter()
            .map(|(name, value)| (name.clone(), Wanted { value: value.clone(), history: vec![value.clone()] }))
            .collect();
        for line in &now.lines {
            let good = match line {
                JournalLine::Pack(name) => self.intact.contains(name) || now.known.contains(name),
                JournalLine::Loose(oids) => are_there(odb, oids)?,
                JournalLine::Move { .. } => true,
            };
            if !good {
                break;
            }
            if let JournalLine::Move { name, to, .. } = line {
                let wanted = wanted.entry(name.clone()).or_default();
                wanted.value = to.clone();
                wanted.history.push(to.clone());
            }
        }
        Ok(wanted)
    }
}

/// Returns the packs that processes of ours wrote.
fn own_packs(now: &Generation) -> impl Iterator<Item = &String> {
    now.lines.iter().filter_map(|line| if let JournalLine::Pack(name) = line { Some(name) } else { None })
}

/// What a ref should hold after a power cut.
#[derive(Debug, Default)]
struct Wanted {
    value: Value,
    /// What it held one after another, with everything that this leads to; `value` last.
    history: Vec<Value>,
}

/// What was seen of a ref that may show that a Git moved it since, also where it holds what it held before.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its file was written after the journal.
    younger: bool,
    /// It is gone with its reflog.
    removed: bool,
}

/// Sets a ref to what it should hold, unless it holds something newer that is whole, or a Git removed it.
fn set_right(
    refs: &Refs,
    rules: &MoveRules,
    walk: &mut Reachability<'_>,
    (name, seen): (&str, Seen),
    wanted: &Wanted,
) -> Result<()> {
    let locked = if name == STORE_HEAD { refs.lock_store_head(rules)? } else { refs.lock_ref(name, rules)? };
    // A file that makes no sense was torn.
    let (now, torn) = match locked.value() {
        Ok(now) => (now.cloned(), false),
        Err(Error::Corrupt { .. }) => (None, true),
        Err(error) => return Err(error),
    };
    if now == wanted.value && !torn {
        return Ok(());
    }
    let newer = match &now {
        // No power cut takes the name of a ref that was there all the time.
        None => seen.removed && !wanted.history.contains(&None),
        // Where another ref moved later, the journal is younger all the same, and the reflog tells.
        Some(_) if wanted.history.contains(&now) => {
            seen.younger || refs.ends_with_move(name, wanted.value.as_ref(), now.as_ref())?
        }
        Some(_) => true,
    };
    if newer && !torn && walk.is_whole(now.as_ref())? {
        return Ok(());
    }
    let message = "bristlecone: set right after a power cut".to_owned();
    // What is lost has no place in a reflog.
    let from = if walk.is_whole(now.as_ref())? { now } else { None };
    let line = LogLine { from, to: wanted.value.clone(), message };
    match &wanted.value {
        Some(target) => locked.set(refs.stage_now(target, true)?, true, &[line]),
        None => locked.remove(true),
    }
}

/// Takes out of reflogs what leads to objects that are lost.
fn mend_logs(
    refs: &Refs,
    rules: &MoveRules,
    walk: &mut Reachability<'_>,
    wanted: &BTreeMap<String, Wanted>,
) -> Result<()> {
    let object = |value: &Value| if let Some(RefTarget::Object(at)) = value { Some(at.oid) } else { None };
    let trusted: HashSet<Oid> = wanted.values().flat_map(|wanted| wanted.history.iter().filter_map(object)).collect();
    let mut known: HashMap<(Oid, bool), bool> = HashMap::new();
    let names = wanted.iter().map(|(name, wanted)| (name, wanted.value.is_some()));
    refs.mend_logs(names, rules, &|oid| trusted.contains(oid), &mut |oid, suspect| {
        if let Some(&known) = known.get(&(*oid, suspect)) {
            return Ok(known);
        }
        let there = if suspect { walk.is_whole(Some(&RefTarget::Object((*oid).into())))? } else { walk.is_there(oid)? };
        known.insert((*oid, suspect), there);
        Ok(there)
    })
}

/// Whether a pack and its index are whole.
fn is_intact(storage: &Arc<dyn Storage>, algorithm: Algorithm, name: &str) -> Result<bool> {
    match Pack::open(storage, PACKS, name, algorithm).and_then(|pack| pack.check()) {
        Ok(()) => Ok(true),
        Err(Error::Corrupt { .. }) => Ok(false),
        Err(Error::Io { source, .. })
            if matches!(source.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Takes a pack that is torn out of the way, and keeps it: it may be a Git's.
fn move_away(files: &Files, name: &str) -> Result<()> {
    files.create_dir(TORN)?;
    for ending in ["idx", "rev", "pack"] {
        let file = format!("{PACKS}/{name}.{ending}");
        if files.stat(&file)?.is_some() {
            files.rename(&file, &format!("{TORN}/{name}.{ending}"))?;
        }
    }
    Ok(())
}

/// Takes loose objects that are torn out of the way.
fn remove_torn_loose(files: &Files, algorithm: Algorithm) -> Result<()> {
    for fan_out in files.list("objects")?.into_iter().filter(|name| is_hex(name, 2)) {
        let dir = below("objects", &fan_out);
        let mut changed = false;
        for name in files.list(&dir)?.into_iter().filter(|name| is_hex(name, algorithm.oid_bytes() * 2 - 2)) {
            let file = below(&dir, &name);
            let Some(bytes) = files.read(&file)? else { continue };
            let mut raw = Vec::new();
            let decoded = loose::decode(&bytes, &mut raw);
            let whole = format!("{fan_out}{name}").parse::<Oid>().is_ok_and(|oid| {
                decoded.is_ok_and(|kind| crate::repository::odb::check_id(algorithm, &oid, kind, &raw).is_ok())
            });
            // None of ours is too large to be read, and that of a Git may be whole.
            if whole || decoded == Err(TOO_LARGE) {
                continue;
            }
            changed = true;
            if bytes.iter().all(|&byte| byte == 0) {
                files.remove(&file)?;
            } else {
                files.create_dir(TORN)?;
                files.rename(&file, &format!("{TORN}/{fan_out}{name}"))?;
            }
        }
        if changed {
            files.sync_dir(&dir)?;
        }
    }
    Ok(())
}

fn is_hex(name: &str, digits: usize) -> bool {
    name.len() == digits && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether these objects are there, loose or in a pack that a Git made of them; torn ones were taken away.
fn are_there(odb: &Odb, oids: &[Oid]) -> Result<bool> {
    for oid in oids {
        if !odb.is_written(oid)? {
            return Ok(false);
        }
    }
    Ok(true)
}
