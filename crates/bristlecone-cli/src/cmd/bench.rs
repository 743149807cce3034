//! `cone bench`: the seam to the benchmark suite, which is a crate of its own.

use std::ffi::OsString;

use clap::Args;

use super::Context;
use crate::failure::{Failure, Result};

/// Measure this machine and this store
#[derive(Args, Debug)]
pub(super) struct BenchArgs {
    /// Options of the suite
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub(super) fn run(args: BenchArgs, _: &mut Context) -> Result<()> {
    let given = args.arguments.len();
    Err(Failure::failed(format!("the benchmark suite is not part of this build ({given} options given)")))
}
