//! Behaviour of the Git crate, with real `git` as the judge.

mod damage;
mod odb;
mod pack;
mod sim;
mod speed;
