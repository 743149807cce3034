//! `cone trace info`: what is in a trace.

use std::{fs::File, path::PathBuf};

use bristlecone::{Signature, escape};
use bristlecone_tezos::{Reader, RowKind, TraceError, TraceInfo, VALUE_BUCKETS};
use clap::Args;
use serde_json::Value;

use super::note;
use crate::{
    cmd::Context,
    failure::Result,
    output::{Fields, Output, fields, put_text},
    progress::{Done, Progress},
    text::{self, show},
};

/// The kinds of rows that answer yes or no.
const READS: [RowKind; 3] = [RowKind::Find, RowKind::Mem, RowKind::MemTree];

/// Tell what is in a trace: rows, commits, keys, values
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone trace info data4.repr
  cone trace info data4.repr --shapes 100    more shapes of keys
  cone trace info data4.repr -o json

The whole file is read, and every row checked. Shapes are keys with the steps that vary written as *.
A trace that ends within a row ends before it, with a note; with --strict the exit code is 3 then.")]
pub(super) struct InfoArgs {
    /// The trace
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// How many shapes of keys to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    shapes: usize,
    /// A trace that ends within a row is an error, not a note
    #[arg(long)]
    strict: bool,
}

pub(super) fn run(args: InfoArgs, context: &mut Context) -> Result<()> {
    let mut reader = Reader::open(&args.file)?;
    let mut info = TraceInfo::new();
    // Of a trace that is cut, what is whole is counted.
    let cut = match gather(&mut reader, &mut info) {
        Ok(()) => None,
        Err(error @ TraceError::Cut { .. }) => Some(error),
        Err(error) => return Err(error.into()),
    };
    let trace = Trace { file: args.file, partial: reader.partial(), shapes: args.shapes, info };
    trace.write_human(&mut context.out)?;
    context.out.document(trace.describe())?;
    match cut {
        Some(error) if args.strict => Err(error.into()),
        Some(error) => {
            note(&error);
            Ok(())
        }
        None => Ok(()),
    }
}

fn gather(reader: &mut Reader<File>, info: &mut TraceInfo) -> Result<(), TraceError> {
    let (done, mut progress) = (Done::default(), Progress::new("rows", None));
    while info.read_row(reader)? {
        if reader.rows().is_multiple_of(1024) {
            done.set(info.rows_all(), info.bytes());
            progress.tick(&done);
        }
    }
    Ok(())
}

struct Trace {
    file: PathBuf,
    partial: u64,
    // How many shapes to list.
    shapes: usize,
    info: TraceInfo,
}

impl Trace {
    fn write_human(&self, out: &mut Output) -> Result<()> {
        if out.json() {
            return Ok(());
        }
        let (info, commits) = (&self.info, self.info.rows(RowKind::Commit));
        let (rows, (alive_max, alive)) = (info.rows_all(), info.contexts());
        out.line(format_args!("trace         {}", show(&self.file)))?;
        out.line(format_args!("rows          {rows}, of {:.1} bytes each", ratio(info.bytes(), rows)))?;
        out.line(format_args!("commits       {commits}, of {:.1} rows each", ratio(rows, commits)))?;
        if let Some((first, last)) = info.dates() {
            let date = |seconds| text::date(&Signature::new("", seconds));
            out.line(format_args!("from          {}", date(first)))?;
            out.line(format_args!("to            {}", date(last)))?;
            out.line(format_args!("last commit   {}", escape(info.last_commit())))?;
        }
        out.line(format_args!("checkouts     {} of another commit than the newest", info.old_checkouts()))?;
        out.line(format_args!("contexts      {alive_max} alive at most, {alive} at the end"))?;
        if info.rows_uncommitted() > 0 {
            out.line(format_args!(
                "at the end    {} without a commit",
                text::count(info.rows_uncommitted(), "row", "rows")
            ))?;
        }
        if self.partial > 0 {
            let bytes = text::count(self.partial, "byte", "bytes");
            out.line(format_args!("at the end    {bytes} of a row that is cut"))?;
        }
        self.tables().into_iter().try_for_each(|table| {
            out.line("")?;
            aligned(&table).into_iter().try_for_each(|line| out.line(line))
        })
    }

    fn tables(&self) -> Vec<Vec<Vec<String>>> {
        let mut tables = vec![self.kinds()];
        tables.extend(self.spread());
        tables.push(self.largest());
        tables.push(self.depths());
        tables.push(self.values());
        tables.push(self.shapes());
        tables.retain(|table| table.len() > 1);
        tables
    }

    fn kinds(&self) -> Vec<Vec<String>> {
        let (info, commits) = (&self.info, self.info.rows(RowKind::Commit));
        let mut table = vec![heads(&["operation", "rows", "share", "a commit", "found", "not found"])];
        for kind in RowKind::ALL {
            let rows = info.rows(kind);
            let (found, not_found) = match READS.contains(&kind) {
                true => (info.found(kind).to_string(), (rows - info.found(kind)).to_string()),
                false => Default::default(),
            };
            table.push(vec![
                kind.name().to_owned(),
                rows.to_string(),
                percent(rows, info.rows_all()),
                format!("{:.3}", ratio(rows, commits)),
                found,
                not_found,
            ]);
        }
        table
    }

    fn spread(&self) -> Option<Vec<Vec<String>>> {
        let spread = self.info.rows_per_commit()?;
        let line = [spread.min, spread.p50, spread.p99, spread.max].map(|rows| rows.to_string());
        let [min, p50, p99, max] = line;
        let line = vec!["rows a commit".to_owned(), min, format!("{:.1}", spread.mean), p50, p99, max];
        Some(vec![heads(&["", "least", "mean", "median", "99 %", "most"]), line])
    }

    fn largest(&self) -> Vec<Vec<String>> {
        let mut table = vec![heads(&["largest commits", "rows", "bytes", "message"])];
        for commit in self.info.largest().iter().take(5) {
            let message = commit.message.split(|&byte| byte == b'\n').next().unwrap_or_default();
            table.push(vec![
                format!("{} {}", commit.index, escape(&commit.hash)),
                commit.rows.to_string(),
                text::bytes(commit.bytes),
                escape(message),
            ]);
        }
        table
    }

    fn depths(&self) -> Vec<Vec<String>> {
        let mut table = vec![heads(&["steps of the key", "added", "other rows"])];
        let last = self.info.depths().len() - 1;
        for (steps, depth) in self.info.depths().iter().enumerate() {
            if depth.rows() > 0 {
                let more = if steps == last { " or more" } else { "" };
                table.push(vec![format!("{steps}{more}"), depth.added.to_string(), depth.others.to_string()]);
            }
        }
        table
    }

    fn values(&self) -> Vec<Vec<String>> {
        let added = self.info.rows(RowKind::Add);
        let mut table = vec![heads(&["bytes of the value", "added", "share", "mean"])];
        if added == 0 {
            return table;
        }
        for ((from, to), bucket) in VALUE_BUCKETS.iter().zip(self.info.values()) {
            table.push(vec![
                to.map_or_else(|| format!("{from} and more"), |to| format!("{from} to {to}")),
                bucket.count.to_string(),
                percent(bucket.count, added),
                format!("{:.1}", ratio(bucket.bytes, bucket.count)),
            ]);
        }
        table
    }

    fn shapes(&self) -> Vec<Vec<String>> {
        let about = if self.info.shapes_were_dropped() { "shape of the key (at least)" } else { "shape of the key" };
        let mut table = vec![heads(&[about, "rows", "share", "Add", "Remove", "Find", "Mem", "Mem_tree"])];
        for shape in self.info.shapes(self.shapes) {
            let mut line = vec![shape.pattern.clone(), shape.rows_all().to_string()];
            line.push(percent(shape.rows_all(), self.info.rows_all()));
            let kinds = [RowKind::Add, RowKind::Remove, RowKind::Find, RowKind::Mem, RowKind::MemTree];
            line.extend(kinds.map(|kind| shape.rows(kind).to_string()));
            table.push(line);
        }
        table
    }

    fn describe(&self) -> Fields {
        let info = &self.info;
        let (alive_max, alive) = info.contexts();
        let mut all = fields! {};
        put_text(&mut all, "file", self.file.as_os_str().as_encoded_bytes());
        all.extend(fields! {
            "rows": info.rows_all(),
            "row_bytes": info.bytes(),
            "commits": info.rows(RowKind::Commit),
            "rows_uncommitted": info.rows_uncommitted(),
            "partial_bytes": self.partial,
            "first_date": info.dates().map(|dates| dates.0),
            "last_date": info.dates().map(|dates| dates.1),
            "last_commit": info.dates().map(|_| escape(info.last_commit())),
            "old_checkouts": info.old_checkouts(),
            "contexts_max": alive_max,
            "contexts_left": alive,
            "kinds": list(RowKind::ALL, |kind| {
                let mut one = fields! { "kind": kind.name(), "rows": info.rows(kind) };
                if READS.contains(&kind) {
                    one.extend(fields! { "found": info.found(kind) });
                }
                one
            }),
            "rows_per_commit": info.rows_per_commit().map(|spread| Value::Object(fields! {
                "min": spread.min, "mean": spread.mean, "p50": spread.p50, "p99": spread.p99, "max": spread.max,
            })),
            "largest": list(info.largest(), |commit| {
                let mut one = fields! {
                    "index": commit.index,
                    "commit": escape(&commit.hash),
                    "rows": commit.rows,
                    "bytes": commit.bytes,
                };
                put_text(&mut one, "message", &commit.message);
                one
            }),
            "depths": list(info.depths().iter().enumerate().filter(|(_, depth)| depth.rows() > 0), |(steps, depth)| {
                fields! { "steps": steps, "added": depth.added, "others": depth.others }
            }),
            "values": list(VALUE_BUCKETS.iter().zip(info.values()), |((from, to), bucket)| fields! {
                "from": *from, "to": *to, "added": bucket.count, "bytes": bucket.bytes,
            }),
            "shapes": list(info.shapes(self.shapes), |shape| {
                let mut one = fields! { "pattern": shape.pattern.as_str(), "rows": shape.rows_all() };
                one.extend(RowKind::ALL.iter().filter(|&&kind| shape.rows(kind) > 0).map(|&kind| {
                    (kind.name().to_owned(), shape.rows(kind).into())
                }));
                one
            }),
            "shapes_were_dropped": info.shapes_were_dropped(),
        });
        all
    }
}

fn list<T>(items: impl IntoIterator<Item = T>, describe: impl FnMut(T) -> Fields) -> Vec<Value> {
    items.into_iter().map(describe).map(Value::Object).collect()
}

fn heads(heads: &[&str]) -> Vec<String> {
    heads.iter().map(|&head| head.to_owned()).collect()
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.1} %", 100.0 * ratio(part, whole))
}

/// Returns the lines of a table: words to the left, in the first column and under `message`; numbers to the right.
fn aligned(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.first().map_or(0, Vec::len);
    let length = |text: &String| text.chars().count();
    let widths: Vec<usize> =
        (0..columns).map(|at| table.iter().filter_map(|line| line.get(at)).map(length).max().unwrap_or(0)).collect();
    let words = |at: usize| at == 0 || table[0][at] == "message";
    let cell = |(at, text): (usize, &String)| match words(at) {
        true => format!("{text:<width$}", width = widths[at]),
        false => format!("{text:>width$}", width = widths[at]),
    };
    let line = |line: &Vec<String>| line.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
    table.iter().map(|cells| line(cells).trim_end().to_owned()).collect()
}
