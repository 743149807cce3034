//! `cone man`: manual pages.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::{Arg, Args, Command};
use clap_mangen::{
    Man,
    roff::{Inline, Roff, bold, italic, roman},
};

use super::Context;
use crate::{
    ending,
    failure::{Failure, Result},
    newfile::NewFile,
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
    let cone = with_texts(super::description());
    let Some(dir) = args.out else { return context.out.bytes(&page(&cone)?) };
    fs::create_dir_all(&dir).map_err(|error| Failure::file("make the folder", text::show(&dir), &error))?;
    // A signal is heard between two pages, and leaves no part of one.
    let _held = ending::hold();
    let mut names = Vec::new();
    write_below(&dir, "cone", &cone, &mut names)?;
    names.push("cone.1".to_owned());
    write(&dir, "cone", page(&cone)?)?;
    context.out.made(format!("wrote {} pages to {}", names.len(), text::show(&dir)))?;
    context.out.document(fields! { "pages": names })
}

/// Writes the pages of the commands below one.
fn write_below(dir: &std::path::Path, above: &str, command: &Command, names: &mut Vec<String>) -> Result<()> {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let name = format!("{above}-{}", below.get_name());
        write_below(dir, &name, below, names)?;
        write(dir, &name, page(below)?)?;
        names.push(format!("{name}.1"));
    }
    Ok(())
}

/// Makes every option show its text, and hides the command `help`, which has no page.
fn with_texts(command: Command) -> Command {
    let command = command.mut_args(|arg| arg.hide_short_help(false).hide_long_help(false));
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        let hidden = name == "help";
        command.mut_subcommand(name, |below| if hidden { below.hide(true) } else { with_texts(below) })
    })
}

fn page(command: &Command) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    render(command, &mut out).map_err(|error| Failure::file("write", "the manual page", &error))?;
    Ok(out)
}

fn render(command: &Command, out: &mut Vec<u8>) -> io::Result<()> {
    let version = concat!("cone ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("Bristlecone");
    man.render_title(out)?;
    man.render_name_section(out)?;
    synopsis(command).to_writer(out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(out)?;
    }
    if let Some(text) = command.get_after_help() {
        notes(&text.to_string()).to_writer(out)?;
    }
    Ok(())
}

/// Returns the synopsis: each option with what it takes.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    for arg in shown().filter(|arg| !arg.is_positional()) {
        let flag = match (arg.get_short(), arg.get_long()) {
            (Some(short), Some(long)) => format!("-{short}|--{long}"),
            (Some(short), None) => format!("-{short}"),
            (None, long) => format!("--{}", long.unwrap_or_else(|| arg.get_id().as_str())),
        };
        let mut inner = vec![bold(flag)];
        if arg.get_num_args().is_some_and(|count| count.takes_values()) {
            inner.extend([roman(" "), italic(placeholder(arg))]);
        }
        add(&mut line, arg, inner);
    }
    for arg in shown().filter(|arg| arg.is_positional()) {
        add(&mut line, arg, vec![italic(placeholder(arg))]);
    }
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        line.extend([roman(" "), italic("COMMAND")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

fn add(line: &mut Vec<Inline>, arg: &Arg, inner: Vec<Inline>) {
    let (open, close) = if arg.is_required_set() { (" ", "") } else { (" [", "]") };
    line.push(roman(open));
    line.extend(inner);
    line.push(roman(close));
    if matches!(arg.get_action(), clap::ArgAction::Append) {
        line.push(roman("..."));
    }
}

fn placeholder(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
    if names.is_empty() { format!("<{}>", arg.get_id()) } else { names.join(" ") }
}

/// Returns what help says behind the options: examples as they are, and paragraphs.
fn notes(text: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut as_they_are = false;
    for line in text.lines() {
        let example = line.starts_with(' ');
        if example != as_they_are {
            roff.control(if example { "nf" } else { "fi" }, []);
            as_they_are = example;
        }
        if line.is_empty() {
            roff.control("PP", []);
        } else {
            roff.text([roman(line)]);
        }
    }
    if as_they_are {
        roff.control("fi", []);
    }
    roff
}

/// Writes a page, which gets its name once all of it is there.
fn write(dir: &std::path::Path, name: &str, page: Vec<u8>) -> Result<()> {
    if let Some(signal) = ending::asked() {
        return Err(Failure::stopped_by(signal, "the pages that were written are whole"));
    }
    let file = dir.join(format!("{name}.1"));
    let (new, mut out) = NewFile::create(&file, true)?;
    out.write_all(&page).map_err(|error| Failure::file("write", text::show(&file), &error))?;
    new.appear()
}
