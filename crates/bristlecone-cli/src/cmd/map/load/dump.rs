//! What LMDB's program `mdb_dump` writes, in both of its formats.

use super::rows::{Fault, Lines, Row};
use crate::text::{from_hex, hex_byte};

/// Reads the rows of one database.
#[derive(Default)]
pub(super) struct DumpReader {
    place: Place,
    /// Whether printable bytes stand for themselves (`format=print`).
    is_print: bool,
}

#[derive(Default, PartialEq, Eq)]
enum Place {
    #[default]
    Header,
    Data,
    End,
}

impl DumpReader {
    /// Returns the next row.
    pub(super) fn next(&mut self, lines: &mut Lines<'_>) -> Result<Option<Row>, Fault> {
        if self.place == Place::Header {
            self.read_header(lines)?;
        }
        if self.place == Place::End {
            return Ok(None);
        }
        let Some(key) = self.item(lines)? else {
            self.place = Place::End;
            return match lines.next()? {
                None => Ok(None),
                Some(_) => Err("another database begins; dump each by itself, with `mdb_dump -s NAME`".into()),
            };
        };
        let value = self.item(lines)?.ok_or("the last key has no value")?;
        Ok(Some(Row { key, value }))
    }

    fn read_header(&mut self, lines: &mut Lines<'_>) -> Result<(), Fault> {
        let mut is_dump = false;
        while let Some(line) = lines.next()? {
            let line = String::from_utf8_lossy(&line);
            match line.split_once('=') {
                Some(("HEADER", "END")) if is_dump => {
                    self.place = Place::Data;
                    return Ok(());
                }
                Some(("VERSION", "3")) => is_dump = true,
                Some(("format", "bytevalue")) => self.is_print = false,
                Some(("format", "print")) => self.is_print = true,
                Some(("type", "btree")) => {}
                Some((name @ ("VERSION" | "format" | "type"), other)) => {
                    return Err(format!("the dump has {name}={}, which is not known here", shown(other)).into());
                }
                Some(("duplicates" | "dupsort", "1")) => {
                    return Err("the database has several values for a key, and a map has one".into());
                }
                // How large the map was, and other things of the environment.
                Some(_) if is_dump => {}
                _ => return Err("a dump of mdb_dump begins with lines from VERSION=3 to HEADER=END".into()),
            }
        }
        Err("the file ends before HEADER=END".into())
    }

    /// Reads a key or a value; `None` at the end of the data.
    fn item(&self, lines: &mut Lines<'_>) -> Result<Option<Vec<u8>>, Fault> {
        let Some(line) = lines.next()? else { return Err("the file ends before DATA=END; it is cut off".into()) };
        if line == b"DATA=END" {
            return Ok(None);
        }
        let [b' ', line @ ..] = &line[..] else { return Err("a line of data begins with a blank".into()) };
        let bytes = if self.is_print { printed(line) } else { from_hex(line) };
        let way =
            if self.is_print { "\\XX or \\\\ behind each backslash" } else { "two hexadecimal digits for each byte" };
        bytes.map(Some).ok_or_else(|| format!("the line has not {way}").into())
    }
}

/// Returns the bytes of a line of `format=print`: a backslash and two digits, or two backslashes, for one that is not
/// printed as it is.
fn printed(line: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                tail
            }
            (b'\\', [high, low, tail @ ..]) => {
                bytes.push(hex_byte(*high, *low)?);
                tail
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(first);
                tail
            }
        };
    }
    Some(bytes)
}

fn shown(text: &str) -> String {
    bristlecone::escape(text.chars().take(40).collect::<String>().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Result<Vec<Row>, String> {
        let (mut reader, mut lines, mut all) = (DumpReader::default(), Lines::new(text.as_bytes()), Vec::new());
        loop {
            match reader.next(&mut lines) {
                Ok(Some(row)) => all.push(row),
                Ok(None) => return Ok(all),
                Err(Fault::Row(reason)) => return Err(format!("{}: {reason}", lines.number)),
                Err(Fault::Read(error)) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn both_formats_are_read() {
        let head =
            "VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1048576\nmaxreaders=126\ndb_pagesize=4096\nHEADER=END\n";
        let both = |key: &[u8], value: &[u8]| Row { key: key.to_vec(), value: value.to_vec() };
        let hex = format!("{head} 61\n 00ff5c\n 62\n \nDATA=END\n");
        let wanted = [both(b"a", b"\0\xff\\"), both(b"b", b"")];
        assert_eq!(rows(&hex).unwrap(), wanted);
        let print = head.replace("bytevalue", "print");
        assert_eq!(rows(&format!("{print} a\n \\00\\ff\\\\\n b\n \nDATA=END\n")).unwrap(), wanted);
        assert_eq!(rows(&format!("{head}DATA=END\n")).unwrap(), []);
        for (text, wanted) in [
            (String::new(), "0: the file ends before HEADER=END"),
            ("a,b\n".to_owned(), "1: a dump of mdb_dump begins"),
            ("VERSION=2\n".to_owned(), "1: the dump has VERSION=2"),
            (head.replace("btree", "hash"), "3: the dump has type=hash"),
            (head.replace("mapsize", "duplicates=1\nmapsize"), "4: the database has several values for a key"),
            (format!("{head} 61\n"), "8: the file ends before DATA=END"),
            (format!("{head} 61\nDATA=END\n"), "9: the last key has no value"),
            (format!("{head} 6\n"), "8: the line has not two"),
            (format!("{print} \\6\n"), "8: the line has not \\XX"),
            (format!("{head}61\n"), "8: a line of data begins with a blank"),
            (format!("{hex}VERSION=3\n"), "13: another database"),
        ] {
            let error = rows(&text).unwrap_err();
            assert!(error.starts_with(wanted), "{error}");
        }
    }
}
