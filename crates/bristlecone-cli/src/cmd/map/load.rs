//! `cone map load`: many entries from a file.
//!
//! Rows whose keys ascend stream into a map without entries. What comes from the first row on that does not is sorted in
//! parts of bounded size. All of it is one commit, or one transaction of an Okra map, so a bad row leaves nothing behind.

use std::{ffi::OsString, mem, time::Instant};

use bristlecone::Map;
use bristlecone_lmdb::okra::OkraMap;
use clap::Args;

use super::{
    form::FormArgs,
    place::{AnyMap, NativeMap, WriteArgs, open_to_write},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result},
    output::{Fields, fields},
    text::{count, show},
};

mod csv;
mod dump;
mod json_lines;
mod rows;

use rows::{Row, RowFormat, Rows};

/// Bytes of rows that are sorted together at most, with [`ROW_BYTES`] for each.
const PART_BYTES_MAX: usize = 64 << 20;
/// What a row takes beside its key and value: itself, and what the allocator keeps for each of the two.
const ROW_BYTES: usize = size_of::<Row>() + 32;

/// Load entries from a file: CSV, JSON lines, or what mdb_dump writes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map load prices.csv --header            two columns, key and value; the first line is left out
  cone map load prices.jsonl --path prices     {\"key\": \"apple\", \"value\": \"3\"} or [\"apple\", \"3\"] in each line
  cone -o json map list | jq -c '.entries[]' | cone -r other map load - --format jsonl
  mdb_dump data | cone -r fruit map load - --format mdb-dump
  cone map load ids.csv --keys hex --values hex

All rows are one commit to a store, or one transaction of an Okra map. A bad row is named with its line; nothing is changed
then. Of rows with the same key the last one counts, and entries that the file does not name stay.

CSV is that of RFC 4180: fields in double quotes may hold commas, quotes (doubled) and ends of lines. Text in files stands
for itself: %XX is no byte there. A JSON row may have key_hex and value_hex instead. A dump has bytes, whatever --keys and
--values say.

Memory: rows in the order of their keys stream into an empty map; others are sorted in parts of 64 MiB. A row has at most
64 MiB.")]
pub(super) struct LoadArgs {
    /// The file; - for standard input
    #[arg(value_name = "FILE")]
    file: OsString,
    /// What the rows are [default: by the file's name]
    #[arg(long, value_enum)]
    format: Option<RowFormat>,
    /// CSV: the first row names the columns
    #[arg(long)]
    header: bool,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn run(args: &LoadArgs, context: &mut Context) -> Result<()> {
    let format = match args.format {
        Some(format) => format,
        None => RowFormat::of_name(&args.file)?,
    };
    if args.header && format != RowFormat::Csv {
        return Err(Failure::usage("--header is of CSV; leave it out"));
    }
    let map = open_to_write(&context.globals, &args.write)?;
    let began = Instant::now();
    let mut rows = Rows::open(&args.file, format, args.forms.of(map.is_index()), args.header)?;
    let shown = if args.file == "-" { "standard input".to_owned() } else { show(&args.file) };
    let (mut all, what) = match &map {
        AnyMap::Native(native) => {
            let mut loader = NativeLoad::new(native, &map, &mut rows);
            let done = native.commit(&args.write, &format!("Load {shown}"), &mut |map| loader.load_onto(map))?;
            let what = format!("loaded {}", count(rows.count(), "row", "rows"));
            done.tell(&mut context.out, &what)?;
            (done.fields(&native.opened), None)
        }
        AnyMap::Okra(okra) => {
            let all = load_okra(okra, &map, &mut rows)?;
            (all, Some(format!("loaded {}", count(rows.count(), "row", "rows"))))
        }
    };
    if let Some(what) = what {
        context.out.made(what)?;
    }
    all.extend(fields! { "rows": rows.count(), "bytes": rows.bytes(), "seconds": began.elapsed().as_secs_f64() });
    context.out.document(all)
}

/// The load of a native map. A commit that another process overtakes asks for it again, and the rows came already.
struct NativeLoad<'a> {
    native: &'a NativeMap,
    any: &'a AnyMap,
    rows: &'a mut Rows,
    /// The root of the map that was loaded onto, if it had entries, and what came of it.
    loaded: Option<(Option<bristlecone::TreeId>, Map)>,
}

impl<'a> NativeLoad<'a> {
    fn new(native: &'a NativeMap, any: &'a AnyMap, rows: &'a mut Rows) -> Self {
        Self { native, any, rows, loaded: None }
    }

    fn load_onto(&mut self, map: &mut Map) -> Result<()> {
        let root = if map.is_empty()? { None } else { Some(map.root()?) };
        match &self.loaded {
            Some((before, loaded)) if *before == root => map.clone_from(loaded),
            Some(_) => {
                return Err(Failure::failed(
                    "another process changed the map meanwhile; nothing was loaded; run the command again",
                ));
            }
            None => {
                self.load(map)?;
                self.loaded = Some((root, map.clone()));
            }
        }
        Ok(())
    }

    fn load(&mut self, map: &mut Map) -> Result<()> {
        let mut next = if map.is_empty()? { self.load_sorted(map)? } else { self.rows.next(self.any)? };
        let (mut part, mut bytes) = (Vec::new(), 0);
        while let Some(row) = next {
            bytes += ROW_BYTES + row.bytes();
            part.push(row);
            if bytes >= PART_BYTES_MAX {
                apply(map, &mem::take(&mut part))?;
                map.tree_mut().write()?;
                bytes = 0;
            }
            next = self.rows.next(self.any)?;
        }
        apply(map, &part)
    }

    /// Streams rows in while their keys ascend; returns the first one that is out of order.
    fn load_sorted(&mut self, map: &mut Map) -> Result<Option<Row>> {
        let mut loader = self.native.repo.map_loader();
        let (mut last, mut next) = (None, self.rows.next(self.any)?);
        while let Some(row) = next.take_if(|row| last.as_ref() < Some(&row.key)) {
            loader.push(&row.key, &row.value[..])?;
            last = Some(row.key);
            next = self.rows.next(self.any)?;
        }
        if last.is_some() {
            *map = self.native.repo.tree_at(loader.finish()?.root()?).into();
        }
        Ok(next)
    }
}

fn apply(map: &mut Map, part: &[Row]) -> Result<()> {
    Ok(map.apply(part.iter().map(|row| (&row.key[..], Some(&row.value[..]))))?)
}

fn load_okra(okra: &OkraMap, any: &AnyMap, rows: &mut Rows) -> Result<Fields> {
    let mut writer = okra.write()?;
    let before = writer.root()?;
    let mut next = rows.next(any)?;
    if writer.entries()?.first()?.is_none() {
        let (mut last, mut failed) = (None, None);
        let sorted = std::iter::from_fn(|| {
            let row = next.take_if(|row| last.as_ref() < Some(&row.key))?;
            last = Some(row.key.clone());
            match rows.next(any) {
                Ok(row) => next = row,
                Err(failure) => failed = Some(failure),
            }
            Some((row.key, row.value))
        });
        writer.load_sorted(sorted)?;
        if let Some(failure) = failed {
            return Err(failure);
        }
    }
    // It sorts what it is given, a part at a time.
    while let Some(row) = next {
        writer.insert(&row.key, &row.value)?;
        next = rows.next(any)?;
    }
    let root = writer.commit()?;
    Ok(fields! { "root": root.hash.to_string(), "changed": root != before })
}
