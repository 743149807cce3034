//! Behaviour of the Git crate, with real `git` as the judge.

mod after_cut;
mod backend;
mod beside_git;
mod beside_repack;
mod conformance;
mod containers;
mod crash;
mod damage;
mod history;
mod layout;
mod locks;
mod logs;
mod multi_pack_index;
mod odb;
mod odd_history;
mod pack;
mod packed_refs;
mod partial;
mod processes;
mod repack;
mod seam;
mod shared;
mod sim;
mod sims;
mod speed;
