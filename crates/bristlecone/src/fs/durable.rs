//! Making durable what was appended, by whatever process: objects, their names, then the refs.

use std::collections::BTreeSet;

use bristlecone_core::Oid;

use super::{
    files::{Files, NEW, OBJECTS},
    object,
    state::{FLUSH, FsState, OwnObject, Writer},
    table::RefTable,
    unsynced::Unsynced,
};
use crate::{Error, oid_map::OidSet, storage::OpenMode, sync::read_lock};

/// From this many objects on they are made durable by one sync of the file system, where there is such a call.
const OBJECTS_MANY: usize = 1024;

impl FsState {
    /// Makes everything durable that was appended, by other processes too.
    pub(super) fn flush(&self) -> Result<(), Error> {
        if self.read_only {
            return Ok(());
        }
        self.worker.settle(FLUSH, || self.locked(|writer| self.make_durable(writer, None)))
    }

    /// Makes the flush that grouped appends wait for and no thread makes.
    pub(super) fn flush_owed(&self) -> Result<(), Error> {
        if self.worker.is_owed(FLUSH) { self.flush() } else { Ok(()) }
    }

    /// Makes everything durable, and with it the refs: as they are, or moved on to these.
    pub(super) fn make_durable(&self, writer: &mut Writer, table: Option<RefTable>) -> Result<(), Error> {
        let unsynced = writer.unsynced.now();
        if table.is_none() && unsynced.is_empty() && read_lock(&self.refs).durable {
            return Ok(());
        }
        let objects: OidSet = match unsynced {
            Unsynced { all: true, .. } => object_ids(&self.files)?.collect(),
            some => some.objects.iter().map(|object| object.oid).collect(),
        };
        let mut folder = unsynced.folder || unsynced.all;
        let mut left: Vec<Oid> = objects.into_iter().collect();
        if left.len() >= OBJECTS_MANY && self.poisons(writer.unsynced.sync_file_system())? {
            // What other processes wrote is left: the system may have told them alone of a failure.
            left.retain(|oid| !writer.own.contains_key(oid));
            folder &= !left.is_empty();
        }
        let mut folders = BTreeSet::new();
        for oid in &left {
            self.make_object_durable(writer, oid)?;
            folders.insert(object::folder_of(oid));
        }
        for folder in &folders {
            // A folder of which no object got its name was never made.
            if self.files.stat(folder)?.is_some() {
                self.sync_folder(folder)?;
            }
        }
        if folder {
            self.sync_folder(OBJECTS)?;
        }
        writer.unsynced.add(&[], false, true)?;
        let table = table.unwrap_or_else(|| read_lock(&self.refs).table.clone());
        self.write_refs(table, true)?;
        writer.forget_own();
        writer.durable_serial = read_lock(&self.refs).durable_serial;
        writer.unsynced.clear()
    }

    /// Makes the file of an object durable, but for its name.
    ///
    /// The system reports a write that failed later only to those that had the file open by then. So what another process
    /// wrote is written anew, and what this one has closed is read after its sync.
    fn make_object_durable(&self, writer: &Writer, oid: &Oid) -> Result<(), Error> {
        let path = object::path_of(oid);
        match writer.own.get(oid) {
            Some(OwnObject::Synced) => Ok(()),
            Some(OwnObject::Open(file)) => self.poisons(self.files.sync(&path, &**file)),
            Some(OwnObject::Closed) => {
                let file = self.files.open(&path, OpenMode::Read)?;
                self.poisons(self.files.sync(&path, &*file))?;
                self.poisons(match object::read_file(&self.files, oid)? {
                    Some(Err(damaged)) => Err(damaged.into_error(&self.files, oid)),
                    _ => Ok(()),
                })
            }
            None => {
                // Without a file, the process that noted it was stopped before the object was found by any other. One
                // that is damaged is as damaged afterwards: a check tells of it.
                let Some(Ok(bytes)) = object::read_file(&self.files, oid)? else { return Ok(()) };
                let part = format!("{NEW}/again");
                let file = self.files.write_new(&part, &bytes)?;
                self.poisons(self.files.sync(&part, &*file))?;
                self.files.rename(&part, &path)
            }
        }
    }
}

/// Returns the ids of all objects.
pub(super) fn object_ids(files: &Files) -> Result<impl Iterator<Item = Oid>, Error> {
    let mut ids = Vec::new();
    each_object_file(files, |oid, _| {
        ids.extend(oid);
        Ok(())
    })?;
    Ok(ids.into_iter())
}

/// Calls `each` for every file among the objects, in order, with the id that its name says, if it says one.
pub(super) fn each_object_file(
    files: &Files,
    each: impl FnMut(Option<Oid>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    each_object_file_in(files, "", each)
}

/// As [`each_object_file`], in the folders whose names begin with these digits.
pub(super) fn each_object_file_in(
    files: &Files,
    digits: &str,
    mut each: impl FnMut(Option<Oid>, &str) -> Result<(), Error>,
) -> Result<(), Error> {
    for folder in files.list(OBJECTS)?.into_iter().filter(|folder| folder.starts_with(digits)) {
        for rest in files.list(&format!("{OBJECTS}/{folder}"))? {
            each(object::oid_of(&folder, &rest), &format!("{OBJECTS}/{folder}/{rest}"))?;
        }
    }
    Ok(())
}
