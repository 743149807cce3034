//! Where a copy is made.

use std::{fs, path::Path as FilePath};

use bristlecone::core::git::Algorithm;
use bristlecone_git::layout::Layout;

use super::{CopyError, shown};
use crate::{
    error::{Error, Result},
    format::AnyFormat,
    place::{Place, STORE_DIR},
    repo::{AnyRepo, FIRST_BRANCH, Head, OpenOptions},
};

/// Opens the store in a place for a copy of `from`, or makes it where there is nothing; tells whether it was made. A folder
/// that holds something else than a store is left alone.
///
/// A store that is made has the format `format` [default: that of `from`, with its options; in a Git repository that of Git].
/// A Git repository that is made has no working tree, and its HEAD names the branch that `from` has checked out.
///
/// # Errors
/// [`CopyError::Occupied`], [`CopyError::OtherFormat`]; as [`OpenOptions::open`] and [`OpenOptions::create`].
pub fn open_or_make(
    place: &Place,
    from: &AnyRepo,
    format: Option<AnyFormat>,
    options: &OpenOptions,
) -> Result<(AnyRepo, bool)> {
    match place.find() {
        Ok(found) => {
            let to = match options.open_found(found) {
                // A folder of the right name, and nothing in it yet.
                Err(error) if error.is_no_store() => return make(place, from, format, options),
                opened => opened?,
            };
            // Memory takes the format that is asked for.
            let is_memory = matches!(place, Place::Memory);
            if is_memory {
                let options = options.clone().format(format.unwrap_or_else(|| from.format().clone()));
                return Ok((options.create(Place::Memory)?, true));
            }
            match format {
                Some(wanted) if wanted.name() != to.format().name() => {
                    let (found, wanted) = (to.format().name(), wanted.name());
                    Err(CopyError::OtherFormat { place: shown(&to), found, wanted }.into())
                }
                _ => Ok((to, false)),
            }
        }
        Err(error) if error.is_no_store() => make(place, from, format, options),
        Err(error) => Err(error),
    }
}

/// Refuses a place where a store would be made, and that is a folder with something else in it. Where the folder of the store itself is
/// named, the one around it may hold other things.
///
/// # Errors
/// [`CopyError::Occupied`].
pub fn check_free(place: &Place) -> Result<()> {
    let dir = match place {
        Place::Folder(dir)
        | Place::Disk(dir)
        | Place::Fs(dir)
        | Place::Git(dir)
        | Place::Lmdb(dir)
        | Place::Lsm(dir) => dir,
        Place::Memory => return Ok(()),
    };
    let is_empty = |dir: &FilePath| fs::read_dir(dir).is_ok_and(|mut names| names.next().is_none());
    // An empty folder of the right name is as none.
    let occupied = match fs::read_dir(dir) {
        Ok(mut names) => {
            names.any(|entry| !entry.is_ok_and(|entry| entry.file_name() == STORE_DIR && is_empty(&entry.path())))
        }
        // A file is named by the error of the system.
        Err(_) => false,
    };
    if occupied { Err(CopyError::Occupied { dir: dir.to_owned() }.into()) } else { Ok(()) }
}

fn make(place: &Place, from: &AnyRepo, format: Option<AnyFormat>, options: &OpenOptions) -> Result<(AnyRepo, bool)> {
    check_free(place)?;
    if let Place::Git(dir) = place {
        let algorithm = match format.as_ref().unwrap_or(from.format()) {
            AnyFormat::Git(git) => git.algorithm(),
            other if format.is_some() => return Err(Error::Unfit { format: other.name(), backend: "git" }),
            _ => Algorithm::Sha1,
        };
        let branch = match from.checked_out()? {
            Head::Branch(name) => name,
            Head::Detached(_) => FIRST_BRANCH.to_owned(),
        };
        Layout::init_on(dir, true, algorithm, &branch)?;
        return Ok((options.open(place.clone())?, true));
    }
    let options = options.clone().format(format.unwrap_or_else(|| from.format().clone()));
    Ok((options.create(place.clone())?, true))
}
