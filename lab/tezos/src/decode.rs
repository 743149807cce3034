//! Decoding of rows in place: each byte is looked at once, nothing is copied or allocated.

use crate::{
    cursor::{Cursor, Fault},
    hashes::Hashes,
    key::Key,
    row::Row,
    scoped::{ContextId, Scoped},
};

/// Decodes the bytes of one row, all of them.
#[inline]
pub(crate) fn decode(bytes: &[u8]) -> Result<Row<'_>, Fault> {
    let mut cursor = Cursor::new(bytes);
    let row = cursor.row()?;
    if cursor.offset() != bytes.len() {
        return Err(cursor.fault("the row is longer than what is in it"));
    }
    Ok(row)
}

impl<'a> Cursor<'a> {
    #[inline]
    fn row(&mut self) -> Result<Row<'a>, Fault> {
        Ok(match self.varint()? {
            0 => Row::Checkout { hash: self.scoped_hash()?, output: self.context()? },
            1 => Row::Add { key: self.key()?, value: self.string()?, input: self.context()?, output: self.context()? },
            2 => Row::Remove { key: self.key()?, input: self.context()?, output: self.context()? },
            3 => Row::Copy {
                source: self.key()?,
                destination: self.key()?,
                input: self.context()?,
                output: self.context()?,
            },
            4 => Row::Find { key: self.key()?, found: self.flag()?, input: self.context()? },
            5 => Row::Mem { key: self.key()?, found: self.flag()?, input: self.context()? },
            6 => Row::MemTree { key: self.key()?, found: self.flag()?, input: self.context()? },
            7 => self.commit()?,
            _ => return Err(Fault { at: 0, reason: "there is no operation of this number" }),
        })
    }

    #[inline(never)]
    fn commit(&mut self) -> Result<Row<'a>, Fault> {
        let hash = self.scoped_hash()?;
        let date = self.int64()?;
        let message = self.string()?;
        let parents = self.hashes()?;
        Ok(Row::Commit { hash, date, message, parents, input: self.context()? })
    }

    #[inline]
    fn context(&mut self) -> Result<Scoped<ContextId>, Fault> {
        let keep = self.scope()?;
        Ok(Scoped { value: self.int64()?, keep })
    }

    // Every element takes a byte at least: a count that is too large runs out of bytes, and costs nothing before.
    #[inline]
    fn key(&mut self) -> Result<Key<'a>, Fault> {
        let count = self.varint()?;
        let start = self.clone();
        for _ in 0..count {
            self.string()?;
        }
        Ok(Key { steps: start.until(self), count: count as usize })
    }

    fn hashes(&mut self) -> Result<Hashes<'a>, Fault> {
        let count = self.varint()?;
        let start = self.clone();
        for _ in 0..count {
            self.scoped_hash()?;
        }
        Ok(Hashes { bytes: start.until(self), count: count as usize })
    }
}
