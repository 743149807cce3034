//! Proves that a backend of the Bristlecone store keeps its contract.
//!
//! - [`conformance`] runs on every [`Backend`](bristlecone::Backend): a new one is proven by a test file of
//!   ten lines.
//! - [`sim`] is a disk in memory that forgets, tears and reorders what was not synced, and fails any call.
//! - [`crash`] cuts the power after every call of its workloads, and again within every recovery.
//! - [`model`] is the plainest thing that a tree with history could be, to compare with; [`generate`] makes up
//!   paths, values and edits from a seed.
//! - [`nasty`] is a backend that moves and frees everything it may, to find code that relies on more.
//! - [`sample`] makes up objects for suites that know no format.
//! - [`pieces`] makes directories of the native format that are cut as no directory is.
//! - [`hooked`] is a backend that calls a function before and after each append.
//! - [`slow`] is a backend as far away as a bucket, which counts what is read from it and what is held.
//! - [`scratch`] says where tests that do not depend on a disk keep their files.
//! - [`git`] runs the program `git`, the judge of everything about Git, and makes repositories with it.
//!
//! Nothing but [`git`] and [`scratch`] touches a real disk or starts a process.

pub mod conformance;
pub mod crash;
pub mod generate;
pub mod git;
pub mod hooked;
pub mod model;
pub mod nasty;
pub mod pieces;
pub mod sample;
pub mod scratch;
pub mod sim;
pub mod slow;
