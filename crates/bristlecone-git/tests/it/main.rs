//! Behaviour of the Git crate, with real `git` as the judge.

mod damage;
mod fold;
mod layout;
mod odb;
mod backend;
mod pack;
mod sim;
mod speed;
