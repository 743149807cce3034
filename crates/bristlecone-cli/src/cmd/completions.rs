//! `cone completions`: for shells, which ask by running `cone` with [`VARIABLE`] set.

use std::{env, ffi::OsString, process::ExitCode};

use clap::{Args, ValueEnum};
use clap_complete::{CompleteEnv, env::Shells};

use super::{Context, description};
use crate::failure::{Failure, Result};

/// The variable of the environment that has the name of the shell that asks.
const VARIABLE: &str = "CONE_COMPLETE";

/// Write completions for a shell to standard output
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone completions bash > ~/.local/share/bash-completion/completions/cone
  cone completions zsh > ~/.zfunc/_cone
  cone completions fish > ~/.config/fish/completions/cone.fish

They run cone, which must be found in $PATH, to complete verbs, options, branches, revisions and paths of the store that
the words typed so far name.")]
pub(super) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// The shells that can ask.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    const fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Elvish => "elvish",
            Self::Fish => "fish",
            Self::Powershell => "powershell",
            Self::Zsh => "zsh",
        }
    }
}

pub(super) fn run(args: CompletionsArgs, context: &mut Context) -> Result<()> {
    let shell = args.shell.name();
    let shells = Shells::builtins();
    let completer = shells.completer(shell).ok_or_else(|| Failure::usage(format!("no completions for {shell}")))?;
    let mut script = Vec::new();
    completer
        .write_registration(VARIABLE, "cone", "cone", "cone", &mut script)
        .map_err(|error| Failure::file("write", "the completions", &error))?;
    context.out.bytes(&script)
}

/// Answers a shell that asks for completions; `None` if none does.
pub(super) fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    env::var_os(VARIABLE)?;
    let here = env::current_dir().ok();
    let asked = CompleteEnv::with_factory(description).var(VARIABLE).try_complete(arguments, here.as_deref());
    match asked {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        // The shell shows nothing of it.
        Err(_) => Some(ExitCode::FAILURE),
    }
}
