//! Settings of Git that say how files are written: of the repository, of the user, and of the machine.

use std::{
    env,
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bristlecone::{Error, Result};

use crate::layout::{Config, Layout};

const MACHINE: &str = "/etc/gitconfig";

/// All settings that count for a repository, the nearer ones first.
#[derive(Clone, Debug)]
pub struct Settings {
    layers: [Config; 3],
}

impl Settings {
    /// Reads the settings of the repository, of the user and of the machine.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the syntax is broken; [`Error::Io`].
    pub fn of(layout: &Layout) -> Result<Self> {
        let bytes = match fs::read(MACHINE) {
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
                Vec::new()
            }
            Err(source) => return Err(Error::Io { file: MACHINE.to_owned(), source }),
        };
        Ok(Self { layers: [layout.config.clone(), Config::of_user()?, Config::parse(MACHINE, &bytes)?] })
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    /// Returns the value of a key as a truth.
    #[must_use]
    pub fn bool(&self, key: &str) -> Option<bool> {
        self.layers.iter().find_map(|layer| layer.bool(key))
    }

    /// Returns the file of attributes that counts for all repositories of the user.
    pub(super) fn attributes_file(&self) -> Option<PathBuf> {
        if let Some(file) = self.get("core.attributesFile") {
            let file = Path::new(OsStr::from_bytes(file));
            return Some(match file.strip_prefix("~/") {
                Ok(rest) => home()?.join(rest),
                Err(_) => file.to_owned(),
            });
        }
        let base = env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        Some(base.or_else(|| Some(home()?.join(".config")))?.join("git/attributes"))
    }
}

fn home() -> Option<PathBuf> {
    env::var_os("HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from)
}
