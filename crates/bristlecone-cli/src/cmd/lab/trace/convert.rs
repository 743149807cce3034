//! `cone trace convert`: a trace with its keys rewritten, or cut.

use std::{fs::File, path::PathBuf};

use bristlecone_tezos::{KeyBuf, PathConversion, Reader, Row, RowKind, TraceError, Writer};
use clap::Args;

use super::note;
use crate::{
    cmd::Context,
    ending,
    failure::{Failure, Result},
    newfile::NewFile,
    output::{fields, put_text},
    progress::{Done, Progress},
    text::{self, show},
};

/// Write a trace again, with its keys converted or with its first commits alone
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone trace convert data4.repr --out flat.repr --path-conversion v0+v1   with flat keys
  cone trace convert data4.repr --out small.repr --commits 100            the first hundred commits

Conversions: v0 joins hashes that were chopped into steps of 2, 2, 2, 2, 2 and 30 digits; v1 drops steps that only
spread entries over directories; v0+v1 does both, v1 first. With other keys come other hashes: the recorded ones stay
as they are, and cannot be checked any more.

The file appears under its name when all is written. Of a trace that ends within a row, that is the rows before it, with
a note; with --strict the exit code is 3 then.")]
pub(super) struct ConvertArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Where to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// How to rewrite keys: none, v0, v1 or v0+v1
    #[arg(long, value_name = "NAME", default_value_t = PathConversion::None)]
    path_conversion: PathConversion,
    /// Stop after this many commits [default: at the end]
    #[arg(long, value_name = "N")]
    commits: Option<u64>,
    /// Replace a file that is there
    #[arg(long)]
    force: bool,
    /// A trace that ends within a row is an error, not a note
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: ConvertArgs, context: &mut Context) -> Result<()> {
    let mut reader = Reader::open(&args.file)?;
    // A signal is heard between two rows, and takes away what was begun. A pipe may leave one waiting for its rows.
    let _held = args.file.is_file().then(ending::hold);
    let (new, file) = NewFile::create(&args.out, args.force)?;
    let mut writer = Writer::named(file, show(&args.out))?;
    let mut done = Converted::default();
    // Of a trace that is cut, what is whole is written.
    let cut = match convert(&args, &mut reader, &mut writer, &mut done) {
        Ok(()) => None,
        Err(error @ TraceError::Cut { .. }) => Some(error),
        Err(error) => return Err(error.into()),
    };
    if let Some(signal) = ending::asked() {
        return Err(Failure::stopped_by(signal, "nothing was written"));
    }
    let bytes = writer.offset();
    new.finish(&writer.finish()?)?;
    context.out.made(format!(
        "wrote {}, {} and {} to {}; {} changed",
        text::count(done.commits, "commit", "commits"),
        text::count(reader.rows(), "row", "rows"),
        text::bytes(bytes),
        show(&args.out),
        text::count(done.keys, "key", "keys"),
    ))?;
    let mut all = fields! {};
    put_text(&mut all, "file", args.file.as_os_str().as_encoded_bytes());
    put_text(&mut all, "out", args.out.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "path_conversion": args.path_conversion.to_string(),
        "commits": done.commits,
        "rows": reader.rows(),
        "keys_changed": done.keys,
        "bytes": bytes,
        "partial_bytes": reader.partial(),
    });
    context.out.document(all)?;
    let Some(error) = cut else { return Ok(()) };
    let says = format!("{error}, and are now in {}", show(&args.out));
    if args.strict {
        return Err(Failure::failed(says));
    }
    note(&says);
    Ok(())
}

#[derive(Default)]
struct Converted {
    commits: u64,
    // How many keys are not as they were.
    keys: u64,
}

fn convert(
    args: &ConvertArgs,
    reader: &mut Reader<File>,
    writer: &mut Writer<File>,
    converted: &mut Converted,
) -> Result<(), TraceError> {
    let (done, mut progress) = (Done::default(), Progress::new("commits", None));
    let (mut key_buf, mut source_buf) = (KeyBuf::new(), KeyBuf::new());
    let mut counted = reader.offset();
    while args.commits.is_none_or(|commits| converted.commits < commits) && ending::asked().is_none() {
        let Some(mut row) = reader.next()? else { break };
        if args.path_conversion != PathConversion::None {
            let keys = &mut converted.keys;
            row = match row {
                Row::Copy { source, destination, input, output } => {
                    args.path_conversion.convert(source, &mut source_buf);
                    args.path_conversion.convert(destination, &mut key_buf);
                    let (now_source, now) = (source_buf.as_key(), key_buf.as_key());
                    *keys += u64::from(now_source != source) + u64::from(now != destination);
                    Row::Copy { source: now_source, destination: now, input, output }
                }
                row => match row.key() {
                    Some(key) => {
                        args.path_conversion.convert(key, &mut key_buf);
                        *keys += u64::from(key_buf.as_key() != key);
                        row.with_key(key_buf.as_key())
                    }
                    None => row,
                },
            };
        }
        let kind = row.kind();
        writer.row(&row)?;
        if kind == RowKind::Commit {
            converted.commits += 1;
            done.add(reader.offset() - counted);
            counted = reader.offset();
            progress.tick(&done);
        }
    }
    Ok(())
}
