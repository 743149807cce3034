//! Behaviour of the Git crate, with real `git` as the judge.

mod backend;
mod damage;
mod odb;
mod pack;
mod sim;
mod speed;
