//! The public face of the crate, on the shipped traces and on hostile ones.

mod files;
mod hostile;
mod page;
mod parallel;
mod recorder;
mod replay;
mod semantics;
mod shipped;
mod tampered;
