//! What the store promises, tested from the outside: one binary, a file per topic.

mod conformance;
mod crash;
mod engine;
mod faults;
mod flips;
mod imported;
mod model;
mod processes;
mod tezos;
