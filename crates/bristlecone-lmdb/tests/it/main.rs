//! Tests of the crate as one binary.

mod backend;
mod okra;
