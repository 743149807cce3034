//! Comma-separated values of two columns, as RFC 4180 has them.

use std::mem;

use super::rows::{Fault, Lines, Row};
use crate::cmd::map::form::Forms;

/// Reads rows of two fields.
pub(super) struct CsvReader {
    forms: Forms,
    /// Whether the row that comes names the columns.
    is_header: bool,
}

/// Where in a field the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before its first byte.
    Start,
    /// In one without quotes.
    Bare,
    /// Between quotes.
    Quoted,
    /// Behind a quote between quotes: it ends the field, or another one follows and both stand for one.
    Quote,
}

impl CsvReader {
    pub(super) fn new(forms: Forms, is_header: bool) -> Self {
        Self { forms, is_header }
    }

    /// Returns the next row; lines without anything are passed over.
    pub(super) fn next(&mut self, lines: &mut Lines<'_>) -> Result<Option<Row>, Fault> {
        loop {
            let Some(fields) = next_fields(lines)? else { return Ok(None) };
            if mem::take(&mut self.is_header) {
                continue;
            }
            return match <[Vec<u8>; 2]>::try_from(fields) {
                Ok([key, value]) => Row::of_fields(self.forms, key, value).map(Some),
                Err(fields) => {
                    let found = if fields.len() < 2 { "one field" } else { "more than two fields" };
                    Err(format!("the row has {found}, and two are expected: key and value").into())
                }
            };
        }
    }
}

/// Reads the fields of the next row, which may have several lines.
fn next_fields(lines: &mut Lines<'_>) -> Result<Option<Vec<Vec<u8>>>, Fault> {
    let mut row = Vec::new();
    loop {
        lines.begin_row();
        row.clear();
        if !lines.append(&mut row)? {
            return Ok(None);
        }
        if bare(&row).is_empty() {
            continue;
        }
        let (mut fields, mut field, mut place) = (Vec::new(), Vec::new(), Place::Start);
        let mut at = 0;
        loop {
            let end = bare(&row).len();
            // What ends a line within quotes belongs to the field.
            while at < if place == Place::Quoted { row.len() } else { end.max(at) } {
                place = step(row[at], place, &mut fields, &mut field)?;
                at += 1;
            }
            if place != Place::Quoted {
                fields.push(field);
                return Ok(Some(fields));
            }
            if !lines.append(&mut row)? {
                return Err("the file ends within quotes".into());
            }
        }
    }
}

/// Returns a line without its end.
fn bare(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Takes one byte of a row and returns the place behind it.
fn step(byte: u8, place: Place, fields: &mut Vec<Vec<u8>>, field: &mut Vec<u8>) -> Result<Place, Fault> {
    Ok(match (place, byte) {
        (Place::Start, b'"') => Place::Quoted,
        (Place::Start | Place::Bare | Place::Quote, b',') => {
            // What is too much already need not be kept.
            if fields.len() <= 2 {
                fields.push(mem::take(field));
            }
            field.clear();
            Place::Start
        }
        (Place::Bare, b'"') => return Err("a quote stands within a field that does not begin with one".into()),
        (Place::Start | Place::Bare, byte) => {
            field.push(byte);
            Place::Bare
        }
        (Place::Quoted, b'"') => Place::Quote,
        (Place::Quote, b'"') | (Place::Quoted, _) => {
            field.push(byte);
            Place::Quoted
        }
        (Place::Quote, _) => return Err("behind the quote that ends a field stands something else than a comma".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::map::form::Form;

    /// The rows of a text, each as `key=value`, and what ends them.
    fn rows(text: &[u8]) -> Result<Vec<String>, String> {
        let forms = Forms { keys: Form::Text, values: Form::Text };
        let (mut reader, mut lines) = (CsvReader::new(forms, false), Lines::new(text));
        let mut all = Vec::new();
        loop {
            match reader.next(&mut lines) {
                Ok(Some(row)) => {
                    all.push(format!("{}={}", bristlecone::escape(&row.key), bristlecone::escape(&row.value)))
                }
                Ok(None) => return Ok(all),
                Err(Fault::Row(reason)) => return Err(format!("{}: {reason}{}", lines.number, lines.beginning())),
                Err(Fault::Read(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn rows_are_those_of_rfc_4180() {
        for (text, wanted) in [
            (&b""[..], &[][..]),
            (b"\n\r\n", &[]),
            (b"a,1", &["a=1"]),
            (b"a,1\n", &["a=1"]),
            (b"\xef\xbb\xbfa,1\r\n\r\nb,\r\n", &["a=1", "b="]),
            (b"\"a,b\",\"say \"\"x\"\"\"\n", &["a,b=say \"x\""]),
            (b"\"a\r\nb\",\"\n\n\"\nc,d", &["a%0D%0Ab=%0A%0A", "c=d"]),
            (b"\"\",\"\"\r\n", &["="]),
            (b",\n", &["="]),
            (b"a,\xff\0\r\n", &["a=%FF%00"]),
            (b"a,x\ry\n", &["a=x%0Dy"]),
        ] {
            assert_eq!(rows(text).unwrap(), wanted, "{:?}", bristlecone::escape(text));
        }
        for (text, line, says) in [
            (&b"a,1\nb\n"[..], 2, "one field"),
            (b"a,1,2\n", 1, "more than two fields"),
            (b"a,\"1\n2\nb,3\n", 3, "within quotes, in the row that begins in line 1"),
            (b"a,1\nb,\"2\nc,\"3\"\n", 3, "a comma, in the row that begins in line 2"),
            (b"\"a\n\",1,2\n", 2, "key and value, in the row that begins in line 1"),
            (b"a,,,,,,,\n", 1, "more than two fields"),
            (b"\na,x\"y\n", 2, "a quote stands within"),
            (b"\"a\"x,1\n", 1, "behind the quote"),
        ] {
            let error = rows(text).unwrap_err();
            assert!(error.starts_with(&format!("{line}: ")) && error.contains(says), "{error}");
        }
    }
}
