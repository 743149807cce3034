//! The test kit tested: on a toy engine that keeps the contract, and on variants of it that each break it in one way.

mod conformance;
mod flood;
mod harness;
mod matrix;
mod sim;
mod toy;
