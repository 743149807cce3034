//! The public face of the crate, on the shipped traces and on hostile ones.

mod files;
mod recorder;
mod replay;
mod semantics;
mod shared;
mod tampered;
