//! A file that appears under its name when it is whole.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, Result},
    text::show,
};

/// Up to how many bytes the name of the file is part of the one beside it.
const NAME_BYTES_MAX: usize = 200;

/// A file being written, under a name of its own beside the final one. It goes if it is dropped before
/// [`NewFile::finish`]; a process that is killed leaves it, and nothing else.
#[derive(Debug)]
pub(crate) struct NewFile {
    to: PathBuf,
    beside: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Begins a file; `force`: also where there is one, which stays until this one is whole.
    pub(crate) fn create(to: &Path, force: bool) -> Result<(Self, File)> {
        if !force && fs::symlink_metadata(to).is_ok() {
            return Err(Failure::usage(format!(
                "{} is there already; choose another name, or replace it with --force",
                show(to)
            )));
        }
        if to.file_name().is_none() {
            return Err(Failure::usage(format!("{} cannot be the name of a file", show(to))));
        }
        // A link stays, and what it leads to is replaced.
        let to = &fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
        if fs::metadata(to).is_ok_and(|found| !found.is_file()) {
            return Err(Failure::usage(format!(
                "{} is no plain file, which alone is replaced; choose another name",
                show(to)
            )));
        }
        let mut hidden = std::ffi::OsString::from(".");
        // With a name that is nearly as long as file systems allow it would be too long.
        hidden.push(to.file_name().filter(|name| name.len() <= NAME_BYTES_MAX).unwrap_or("cone".as_ref()));
        hidden.push(format!(".part-{}", std::process::id()));
        let beside = to.with_file_name(hidden);
        let failed = |error| Failure::file("write", show(to), &error);
        let file = File::create(&beside).map_err(failed)?;
        if let Ok(replaced) = fs::metadata(to) {
            // Who may read it stays as it is.
            file.set_permissions(replaced.permissions()).map_err(failed)?;
        }
        Ok((Self { to: to.to_owned(), beside, finished: false }, file))
    }

    /// Makes what was written durable, and gives it its name.
    pub(crate) fn finish(mut self, file: &File) -> Result<()> {
        let failed = |error| Failure::file("write", show(&self.to), &error);
        file.sync_all().map_err(failed)?;
        fs::rename(&self.beside, &self.to).map_err(failed)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // It may be gone already, and the command ends anyway.
            let _ = fs::remove_file(&self.beside);
        }
    }
}
