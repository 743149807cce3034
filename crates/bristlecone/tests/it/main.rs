//! What the store promises, tested from the outside: one binary, a file per topic.

mod ahead;
mod beside;
mod branches;
mod churn;
mod circles;
mod closing;
mod collect;
mod combinators;
mod conformance;
mod copy;
mod crash;
mod cuts;
mod dead;
mod deepened;
#[cfg(all(feature = "git", feature = "tezos"))]
mod distance;
mod early;
mod edits;
mod emptied;
mod engine;
mod exclusion;
mod faults;
mod files;
mod filters;
mod flips;
mod foreign;
mod forged;
mod fs;
mod fs_crash;
mod fs_cut;
mod fs_sweep;
mod golden;
mod grown;
mod held;
mod ids;
mod imported;
mod in_parts;
mod indexes;
mod lookups;
mod losses;
mod maps;
mod merge;
mod model;
mod names;
mod nasty;
mod order;
mod parts;
mod passed;
mod pipelined;
mod processes;
mod ranges;
#[cfg(feature = "git")]
mod real_git;
mod recent;
mod retention;
mod rolls;
mod shared;
mod stores;
mod structure;
#[cfg(feature = "git")]
mod subtree;
#[cfg(feature = "git")]
mod tags;
#[cfg(feature = "tezos")]
mod tezos;
mod unreached;
mod upgrade;
