//! A file that appears under its name when it is whole.

use std::{
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
};

use bristlecone_any::folder::{hidden_name, rename_new};
use rustix::fs::CWD;

use crate::{
    failure::{Failure, Result},
    text::show,
};

/// A file being written, under a name of its own beside the final one. It goes if it is dropped before
/// [`NewFile::finish`] or [`NewFile::appear`]; a process that is killed leaves it, and nothing else.
#[derive(Debug)]
pub(crate) struct NewFile {
    to: PathBuf,
    beside: PathBuf,
    // What has the name meanwhile is replaced.
    force: bool,
    finished: bool,
}

impl NewFile {
    /// Begins a file; `force`: also where there is one, which stays until this one is whole.
    pub(crate) fn create(to: &Path, force: bool) -> Result<(Self, File)> {
        if !force && fs::symlink_metadata(to).is_ok() {
            return Err(is_there(to));
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
        let failed = |error| Failure::file("write", show(to), &error);
        let (beside, file) = create_beside(to).map_err(failed)?;
        if let Ok(replaced) = fs::metadata(to) {
            // Who may read it stays as it is.
            file.set_permissions(replaced.permissions()).map_err(failed)?;
        }
        Ok((Self { to: to.to_owned(), beside, force, finished: false }, file))
    }

    /// Makes what was written durable, and gives it its name.
    pub(crate) fn finish(self, file: &File) -> Result<()> {
        file.sync_all().map_err(|error| Failure::file("write", show(&self.to), &error))?;
        self.appear()
    }

    /// Gives what was written its name. It is not made durable, for what can be made again at any time.
    pub(crate) fn appear(mut self) -> Result<()> {
        let moved =
            if self.force { fs::rename(&self.beside, &self.to) } else { rename_new(CWD, &self.beside, &self.to) };
        moved.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => is_there(&self.to),
            _ => Failure::file("write", show(&self.to), &error),
        })?;
        self.finished = true;
        Ok(())
    }
}

fn is_there(to: &Path) -> Failure {
    Failure::usage(format!("{} is there already; choose another name, or replace it with --force", show(to)))
}

/// Makes a file of a hidden name beside another, and returns its path. What is there already, left by a process that was killed or a link
/// of somebody else's, stays as it is.
fn create_beside(to: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0.. {
        let beside = to.with_file_name(hidden_name(number));
        match File::options().write(true).create_new(true).open(&beside) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (beside, file)),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // It may be gone already, and the command ends anyway.
            let _ = fs::remove_file(&self.beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn what_has_a_hidden_name_already_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("theirs"), "theirs").unwrap();
        symlink("theirs", at(&hidden_name(0))).unwrap();
        let (new, mut file) = NewFile::create(&at("out"), false).ok().unwrap();
        file.write_all(b"ours").unwrap();
        new.finish(&file).ok().unwrap();
        assert_eq!((fs::read(at("theirs")).unwrap(), fs::read(at("out")).unwrap()), (b"theirs".into(), b"ours".into()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    }

    #[test]
    fn what_came_meanwhile_is_replaced_by_force_alone() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        for force in [false, true] {
            let (new, mut file) = NewFile::create(&out, force).ok().unwrap();
            fs::write(&out, "theirs").unwrap();
            file.write_all(b"ours").unwrap();
            assert_eq!(new.finish(&file).is_ok(), force);
            assert_eq!(fs::read(&out).unwrap(), if force { &b"ours"[..] } else { b"theirs" });
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
