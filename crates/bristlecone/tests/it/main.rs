//! What the store promises, tested from the outside: one binary, a file per topic.

mod ahead;
mod conformance;
mod copy;
mod crash;
mod distance;
mod engine;
mod exclusion;
mod faults;
mod files;
mod flips;
mod foreign;
mod golden;
mod imported;
mod indexes;
mod losses;
mod merge;
mod model;
mod order;
mod processes;
mod ranges;
mod real_git;
mod structure;
mod subtree;
mod tags;
mod tezos;
mod unreached;
