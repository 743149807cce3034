//! `cone man`: manual pages.

use std::{fs, path::PathBuf};

use clap::Args;

use super::Context;
use crate::{
    failure::{Failure, Result},
    output::fields,
    text,
};

/// Write manual pages: that of cone to standard output, or all into a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone man | man -l -
  cone man --out ~/.local/share/man/man1")]
pub(super) struct ManArgs {
    /// Write cone.1 and a page for each command into this folder, which is made unless it is there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: ManArgs, context: &mut Context) -> Result<()> {
    let cone = super::description();
    let Some(dir) = args.out else { return context.out.bytes(&page(cone)?) };
    fs::create_dir_all(&dir).map_err(|error| Failure::file("make the folder", text::show(&dir), &error))?;
    let mut names = Vec::new();
    write_below(&dir, "cone", &cone, &mut names)?;
    names.push("cone.1".to_owned());
    write(&dir, "cone", page(cone)?)?;
    context.out.line(format_args!("wrote {} pages to {}", names.len(), text::show(&dir)))?;
    context.out.document(fields! { "pages": names })
}

/// Writes the pages of the commands below one.
fn write_below(dir: &std::path::Path, above: &str, command: &clap::Command, names: &mut Vec<String>) -> Result<()> {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let name = format!("{above}-{}", below.get_name());
        write_below(dir, &name, below, names)?;
        write(dir, &name, page(below.clone())?)?;
        names.push(format!("{name}.1"));
    }
    Ok(())
}

fn page(command: clap::Command) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

fn write(dir: &std::path::Path, name: &str, page: Vec<u8>) -> Result<()> {
    let file = dir.join(format!("{name}.1"));
    fs::write(&file, page).map_err(|error| Failure::file("write", text::show(&file), &error))
}
