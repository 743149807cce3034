//! LMDB: a backend of the store, and the ordered maps of Okra.

pub mod backend;
mod env;
pub mod okra;
