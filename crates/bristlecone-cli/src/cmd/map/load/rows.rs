//! Rows of a file, of any format.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use clap::ValueEnum;

use super::{csv::CsvReader, dump::DumpReader, json_lines};
use crate::{
    cmd::map::{
        form::{Form, Forms},
        place::AnyMap,
    },
    failure::{Failure, Result},
    progress::{Done, Progress},
    streams,
    text::{from_hex, show},
};

/// A row has at most this many bytes: no file makes the command take more memory than a part of the load.
const ROW_BYTES_MAX: usize = 64 << 20;
/// How often the line on standard error is looked after.
const ROWS_A_TICK: u64 = 256;

/// What the rows of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RowFormat {
    /// Two columns, RFC 4180: .csv
    Csv,
    /// A JSON object or array in each line: .jsonl, .ndjson
    Jsonl,
    /// The output of LMDB's mdb_dump: .mdb-dump, .dump
    MdbDump,
}

impl RowFormat {
    /// Returns the format that the name of a file tells.
    pub(super) fn of_name(file: &OsStr) -> Result<Self> {
        match Path::new(file).extension().and_then(OsStr::to_str) {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "ndjson") => Ok(Self::Jsonl),
            Some("mdb-dump" | "dump") => Ok(Self::MdbDump),
            _ => Err(Failure::usage(format!(
                "the name \"{}\" does not tell what the rows are; give --format csv, --format jsonl or --format mdb-dump",
                show(file)
            ))),
        }
    }
}

/// A key with its value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
}

impl Row {
    /// Returns how many bytes key and value have.
    pub(super) fn bytes(&self) -> usize {
        self.key.len() + self.value.len()
    }

    /// Returns the row of two fields that are written in these forms, or says what is wrong.
    pub(super) fn of_fields(forms: Forms, key: Vec<u8>, value: Vec<u8>) -> Result<Self, Fault> {
        Ok(Self { key: decoded(forms.keys, "key", key)?, value: decoded(forms.values, "value", value)? })
    }
}

fn decoded(form: Form, what: &str, field: Vec<u8>) -> Result<Vec<u8>, Fault> {
    if form != Form::Hex {
        return Ok(field);
    }
    let wrong =
        || format!("the {what} \"{}\" is not in hexadecimal", bristlecone::escape(&field[..field.len().min(40)]));
    from_hex(&field).ok_or_else(|| Fault::Row(wrong()))
}

/// Why there is no next row.
#[derive(Debug)]
pub(super) enum Fault {
    /// What is wrong with the row.
    Row(String),
    /// The file could not be read.
    Read(io::Error),
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Row(reason)
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::Row(reason.to_owned())
    }
}

/// Lines of a file, counted.
pub(super) struct Lines<'r> {
    input: Box<dyn BufRead + 'r>,
    /// The number of the last line that was read, from one.
    pub(super) number: u64,
    /// The number of the line in which the last row began, where rows may have several.
    began: u64,
    bytes: u64,
}

impl<'r> Lines<'r> {
    pub(super) fn new(input: impl BufRead + 'r) -> Self {
        Self { input: Box::new(input), number: 0, began: 0, bytes: 0 }
    }

    /// Notes that the line that comes begins a row.
    pub(super) fn begin_row(&mut self) {
        self.began = self.number + 1;
    }

    /// Says where the last row began, if that was in a line before the last one.
    pub(super) fn beginning(&self) -> String {
        if (1..self.number).contains(&self.began) {
            format!(", in the row that begins in line {}", self.began)
        } else {
            String::new()
        }
    }

    /// Appends the next line with its end to `row`; returns whether there was one.
    pub(super) fn append(&mut self, row: &mut Vec<u8>) -> Result<bool, Fault> {
        let before = row.len();
        let room = (ROW_BYTES_MAX + 1).saturating_sub(before) as u64;
        let read = (&mut self.input).take(room).read_until(b'\n', row).map_err(Fault::Read)?;
        self.number += u64::from(read > 0);
        self.bytes += read as u64;
        if row.len() > ROW_BYTES_MAX {
            return Err(format!("the row has more than {} MiB; set it by itself", ROW_BYTES_MAX >> 20).into());
        }
        if self.number == 1 && row[before..].starts_with(b"\xef\xbb\xbf") {
            row.drain(before..before + 3);
        }
        Ok(read > 0)
    }

    /// Reads the next line without its end; `None` behind the last one.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let mut line = Vec::new();
        if !self.append(&mut line)? {
            return Ok(None);
        }
        for end in [b'\n', b'\r'] {
            line.pop_if(|last| *last == end);
        }
        Ok(Some(line))
    }
}

/// The rows of a file.
pub(super) struct Rows {
    lines: Lines<'static>,
    reader: Reader,
    /// What the file is called in messages.
    shown: String,
    done: Done,
    progress: Progress,
    count: u64,
}

enum Reader {
    Csv(CsvReader),
    JsonLines(Forms),
    Dump(DumpReader),
}

impl Rows {
    /// Opens a file, or standard input.
    pub(super) fn open(file: &OsString, format: RowFormat, forms: Forms, header: bool) -> Result<Self> {
        let (input, shown): (Box<dyn BufRead>, String) = if file == "-" {
            streams::check_input("redirect a file or a pipe")?;
            (Box::new(io::stdin().lock()), "standard input".to_owned())
        } else {
            let failed = |error| Failure::file("read", show(file), &error);
            let input = File::open(file).map_err(failed)?;
            (Box::new(BufReader::with_capacity(1 << 18, input)), show(file))
        };
        let reader = match format {
            RowFormat::Csv => Reader::Csv(CsvReader::new(forms, header)),
            RowFormat::Jsonl => Reader::JsonLines(forms),
            RowFormat::MdbDump => Reader::Dump(DumpReader::default()),
        };
        let progress = Progress::new("loaded", None);
        Ok(Self { lines: Lines::new(input), reader, shown, done: Done::default(), progress, count: 0 })
    }

    /// Returns the next row, which fits the map.
    pub(super) fn next(&mut self, map: &AnyMap) -> Result<Option<Row>> {
        let row = match &mut self.reader {
            Reader::Csv(reader) => reader.next(&mut self.lines),
            Reader::JsonLines(forms) => json_lines::next(&mut self.lines, *forms),
            Reader::Dump(reader) => reader.next(&mut self.lines),
        };
        let row = row.and_then(|row| match row {
            Some(row) => {
                map.refusal(&row.key, Some(&row.value)).map_or(Ok(Some(row)), |reason| Err(Fault::Row(reason)))
            }
            None => Ok(None),
        });
        match row {
            Ok(row) => {
                self.count += u64::from(row.is_some());
                if self.count.is_multiple_of(ROWS_A_TICK) {
                    self.done.set(self.count, self.lines.bytes);
                    self.progress.tick(&self.done);
                }
                Ok(row)
            }
            Err(Fault::Row(reason)) => {
                let (file, line, beginning) = (&self.shown, self.lines.number, self.lines.beginning());
                let way = "nothing was loaded; mend it and run the command again";
                Err(Failure::failed(format!("{file} line {line}: {reason}{beginning}; {way}")))
            }
            Err(Fault::Read(error)) => Err(Failure::file("read", &self.shown, &error)),
        }
    }

    /// Returns how many rows came.
    pub(super) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many bytes of the file were read.
    pub(super) const fn bytes(&self) -> u64 {
        self.lines.bytes
    }
}
