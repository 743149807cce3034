//! The command `cone` as people meet it: the real binary in folders of its own.

mod bad_use;
mod branches;
mod damage;
mod folders;
mod formats;
mod harness;
mod hostile;
mod json;
mod replay;
mod values;
