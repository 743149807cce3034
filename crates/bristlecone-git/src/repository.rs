//! The files of a repository as Git keeps them: where they are, what they hold, how they are read and written.

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod hash;
pub mod layout;
pub(crate) mod mutex;
pub mod odb;
pub mod pack;
pub mod refs;
pub(crate) mod shallow;
pub(crate) mod zlib;
