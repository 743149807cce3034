//! Configuration files of Git.

use bristlecone::Result;

/// What a configuration says.
///
/// Keys are `section.name` or `section.subsection.name`; section and name without regard to case.
#[derive(Clone, Debug, Default)]
pub struct Config {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Config {
    /// Reads a file's bytes; `file` names it in errors.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] where the syntax is broken.
    pub fn parse(_file: &str, _bytes: &[u8]) -> Result<Self> {
        Ok(Self { entries: Vec::new() })
    }

    /// Returns what the user's own files say: `$XDG_CONFIG_HOME/git/config` and `~/.gitconfig`.
    ///
    /// # Errors
    /// As [`Config::parse`]; those of the system.
    pub fn of_user() -> Result<Self> {
        todo!()
    }

    /// Returns the last value of a key. A key without a value has `true`.
    #[must_use]
    pub fn get(&self, _key: &str) -> Option<&[u8]> {
        self.entries.last().map(|entry| &*entry.1)
    }

    /// Returns all values of a key in order.
    pub fn all(&self, _key: &str) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &*entry.1)
    }

    /// Returns the last value of a key as a truth: `true`, `yes`, `on`, a number but 0.
    #[must_use]
    pub fn bool(&self, _key: &str) -> Option<bool> {
        todo!()
    }
}
