//! Making durable: what the journal says is not, is synced, and the journal begins anew.

use std::collections::{BTreeSet, HashSet};

use bristlecone::{RefTarget, Result};

use super::{
    journal::JournalLine,
    objects::{self, SYNCED_AT_ONCE, Written},
    open_repository::{FLUSH, OpenRepository, Writer},
    pack_files::PACKS,
};
use crate::repository::mutex::lock;

/// Lines of the journal after which the worker makes everything durable.
const LINES_SOON: usize = 1024;
/// Lines after which an append does.
const LINES_MAX: usize = 8192;

impl OpenRepository {
    /// Notes in the journal what a ref holds durably, so that a power cut takes back no more than its move.
    pub(super) fn ensure_dirty(
        &self,
        writer: &mut Writer,
        name: &str,
        durable: &Option<RefTarget>,
        written: &Written,
    ) -> Result<()> {
        let done = if !writer.journal.is_dirty() {
            self.begin(writer, [(name.to_owned(), durable.clone())].into(), written)
        } else if !writer.journal.now().bases.contains_key(name) {
            writer.journal.add_base(name, durable.clone())
        } else {
            return Ok(());
        };
        self.poison.note(done)
    }

    fn begin(
        &self,
        writer: &mut Writer,
        bases: std::collections::BTreeMap<String, Option<RefTarget>>,
        written: &Written,
    ) -> Result<()> {
        let mut known = objects::settled_packs(&self.files)?;
        if let Some(pack) = &written.pack {
            known.remove(&pack.name);
        }
        writer.journal.begin(known, bases, !written.loose.is_empty(), Vec::new())
    }

    /// Notes objects that were written and are not durable, and has them found.
    pub(super) fn note_objects(&self, writer: &mut Writer, written: &mut Written) -> Result<()> {
        if written.is_empty() {
            return Ok(());
        }
        if !writer.journal.is_dirty() {
            self.poison.note(self.begin(writer, std::collections::BTreeMap::new(), written))?;
        }
        if !written.loose.is_empty() {
            if !writer.journal.now().loose {
                self.poison.note(writer.journal.add_loose())?;
            }
            writer.journal.add([JournalLine::Loose(written.loose.clone())])?;
        }
        if let Some(pack) = &written.pack {
            writer.journal.add([JournalLine::Pack(pack.name.clone())])?;
        }
        self.open_files.add(std::mem::take(&mut written.open));
        self.publish(written)
    }

    /// Makes everything durable that the journal says is not.
    pub(super) fn make_durable(&self, writer: &mut Writer) -> Result<()> {
        // Another process may have synced our files, and have been the one to learn of a failure.
        let own = !self.open_files.is_empty() || self.refs.unsynced() > 0;
        if !own && !writer.journal.is_dirty() {
            return Ok(());
        }
        let done = self.sync_all(writer);
        self.poison.note(done)
    }

    fn sync_all(&self, writer: &mut Writer) -> Result<()> {
        let own: HashSet<String> = self.open_files.sync(&self.files)?.into_iter().collect();
        self.refs.sync_own()?;
        if !writer.journal.is_dirty() {
            return Ok(());
        }
        self.settle_moved(writer)?;
        let now = writer.journal.now();
        let mut names: BTreeSet<&String> = now.bases.keys().collect();
        let mut packs: BTreeSet<&String> = BTreeSet::new();
        let mut loose = Vec::new();
        for line in &now.lines {
            match line {
                JournalLine::Pack(name) => _ = packs.insert(name),
                JournalLine::Loose(oids) => loose.extend_from_slice(oids),
                JournalLine::Move { name, .. } => _ = names.insert(name),
            }
        }
        let endings = |pack: &&String| [format!("{PACKS}/{pack}.pack"), format!("{PACKS}/{pack}.idx")];
        // Those of other processes. What is written later has other names.
        let files: Vec<String> = packs.iter().flat_map(endings).filter(|name| !own.contains(name)).collect();
        for some in files.chunks(SYNCED_AT_ONCE) {
            let mut open = Vec::with_capacity(some.len());
            for name in some {
                // Git may have packed everything anew meanwhile, and what it packs it syncs.
                open.extend(self.files.open_if_there(name)?.map(|file| (name.clone(), file)));
            }
            self.files.sync_all(&open)?;
        }
        // Packs that were repacked and removed may be torn: their names must not come back, either.
        self.files.sync_dir(PACKS)?;
        for &oid in &loose {
            if !own.contains(&format!("objects/{}", crate::repository::odb::loose::name(&oid))) {
                objects::sync_closed_loose(&self.files, self.options.algorithm, oid)?;
            }
        }
        objects::sync_fan_out(&self.files, &loose)?;
        for name in names {
            self.refs.sync(name)?;
        }
        writer.journal.finish()
    }

    /// Makes everything that was appended so far durable, also by other processes.
    pub(super) fn flush(&self) -> Result<()> {
        self.worker.settle(FLUSH, || {
            if self.options.read_only || !self.has_written() {
                return self.poison.check();
            }
            self.locked(|writer| self.make_durable(writer))
        })
    }

    /// Whether anything of ours is here: else a flush would make a folder for nothing.
    fn has_written(&self) -> bool {
        !matches!(self.files.stat(super::journal::OURS), Ok(None))
    }

    /// Does the flush that grouped appends deferred, where no thread does it.
    pub(super) fn flush_deferred(&self) -> Result<()> {
        if self.worker.is_owed(FLUSH) { self.flush() } else { Ok(()) }
    }

    /// Has everything made durable once much was appended that need not be.
    pub(super) fn write_out(&self) {
        let lines = lock(&self.writer).journal.now().lines.len();
        if lines >= LINES_MAX {
            // An error shows at the next append: the store is poisoned.
            let _ = self.flush();
        } else if lines >= LINES_SOON {
            self.worker.ask(FLUSH);
        }
    }
}
