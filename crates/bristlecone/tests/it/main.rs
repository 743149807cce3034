//! What the store promises, tested from the outside: one binary, a file per topic.

mod conformance;
mod copy;
mod crash;
mod engine;
mod faults;
mod flips;
mod golden;
mod imported;
mod merge;
mod model;
mod processes;
mod real_git;
mod structure;
mod subtree;
mod tags;
mod tezos;
