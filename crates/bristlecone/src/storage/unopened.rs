//! A folder that could not be opened to be synced: nothing failed on the medium.

use std::{error, fmt, io};

/// Why a folder was not synced: it could not be opened, as where a process has no handle left. It stands within an error of
/// [`Storage::sync_dir`](super::Storage::sync_dir). No sync was tried, so none has failed, and the call may be made again.
#[derive(Debug)]
pub struct Unopened(io::Error);

impl Unopened {
    /// Returns the error of a sync that was not tried, since opening the folder failed so.
    #[must_use]
    pub fn error(source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self(source))
    }

    /// Whether an error of [`Storage::sync_dir`](super::Storage::sync_dir) is one of these.
    #[must_use]
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|cause| cause.is::<Self>())
    }
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the folder cannot be opened to be synced")
    }
}

impl error::Error for Unopened {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Error, report,
        storage::{RealStorage, Storage},
    };

    #[test]
    fn a_folder_that_cannot_be_opened_is_told_from_one_whose_sync_failed() {
        let dir = tempfile::tempdir().unwrap();
        let storage = RealStorage::new(dir.path());
        storage.sync_dir("").unwrap();
        let error = storage.sync_dir("none").unwrap_err();
        assert!(Unopened::is(&error) && error.kind() == io::ErrorKind::NotFound, "{error:?}");
        let told = report(&Error::io("none", error));
        assert!(
            told.starts_with("none cannot be read or written: the folder cannot be opened to be synced: "),
            "{told}"
        );
        // EIO: what a sync that failed says.
        assert!(!Unopened::is(&io::Error::from_raw_os_error(5)));
    }
}
