//! Opening a store for writing: what a process that was stopped or a power cut left is set right first.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    durable::each_object_file,
    files::{Files, NEW, OBJECTS},
    object::{self, Written},
    state::{self, REFS, REFS_NEW, REFS_UNSYNCED},
    unsynced::{Unsynced, UnsyncedObject},
};
use crate::{Error, storage::Storage};

/// Whether there are objects: a store that lost its header has some.
pub(super) fn has_objects(storage: &Arc<dyn Storage>) -> Result<bool, Error> {
    Ok(!Files::new(storage.clone()).list(OBJECTS)?.is_empty())
}

/// Removes files that were being written. The caller holds the store's lock, so no process writes them any more.
pub(super) fn remove_parts(files: &Files) -> Result<(), Error> {
    for name in files.list(NEW)? {
        files.remove(&format!("{NEW}/{name}"))?;
    }
    files.remove(REFS_NEW).map(drop)
}

/// Removes the objects that were not durable before a power cut, also those that are whole: what they name may be torn or
/// missing, and an object that is there must have everything below it. No ref that is durable leads to them.
///
/// Each file says which list of refs was durable when it was written. If it is that of today, or a later one, the object was
/// not made durable; if it is an earlier one, it was, with the next list. Files of earlier versions do not say: of these the
/// torn ones are removed that are not older than the list. `alone`: no other process has the store open; else whole files stay.
pub(super) fn remove_unsynced(files: &Files, alone: bool) -> Result<(), Error> {
    let durable = state::durable_serial(files)?;
    let since = files.stat(REFS)?.map_or(0, |stat| stat.modified_ns);
    let mut folders = BTreeSet::new();
    each_object_file(files, |oid, name| {
        let Some(oid) = oid else { return Ok(()) };
        let modified = files.stat(name)?.map_or(0, |stat| stat.modified_ns);
        // Clocks can be wrong, so the end of an older file is looked at, too.
        let is_young = modified == 0 || modified >= since;
        let is_removed = match object::written(files, &oid, is_young)? {
            Some(Written::Since(serial)) => alone && serial >= durable,
            Some(Written::Torn) => is_young,
            Some(Written::Unknown) | None => false,
        };
        if is_removed {
            files.remove(name)?;
            folders.insert(object::folder_of(&oid));
        }
        Ok(())
    })?;
    // They must not come back once it is forgotten that there may be such.
    folders.iter().try_for_each(|folder| files.sync_dir(folder))
}

/// Goes back to the refs that are durable, if an object that was noted as not durable is torn: a sync of it failed, and the
/// system has forgotten since what it should have written. A file that was damaged before is not torn: the process that noted the
/// object was stopped before it put another one in its place. No other process has the store open.
pub(super) fn set_back_if_torn(files: &Files, unsynced: &Unsynced) -> Result<(), Error> {
    for UnsyncedObject { oid, damaged } in &unsynced.objects {
        if object::is_whole(files, oid)? == Some(false)
            && (damaged.is_none() || files.stat(&object::path_of(oid))?.map(|stat| stat.id) != *damaged)
        {
            files.remove(REFS_UNSYNCED)?;
            return remove_unsynced(files, true);
        }
    }
    Ok(())
}
