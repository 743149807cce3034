//! `cone completions`: for shells.

use clap::Args;
use clap_complete::Shell;

use super::Context;
use crate::failure::Result;

/// Write completions for a shell to standard output
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone completions bash > ~/.local/share/bash-completion/completions/cone
  cone completions zsh > ~/.zfunc/_cone
  cone completions fish > ~/.config/fish/completions/cone.fish")]
pub(super) struct CompletionsArgs {
    /// Which shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

pub(super) fn run(args: CompletionsArgs, context: &mut Context) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::description(), "cone", &mut script);
    context.out.bytes(&script)
}
