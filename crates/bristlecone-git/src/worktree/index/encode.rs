//! From an index to bytes.

use super::{EXTENDED, Index, IndexEntry};

/// The part of an entry's flags that has the length of its path, or all ones for a longer one.
const LENGTH: u16 = 0x0fff;

impl Index {
    /// Returns the bytes of the index, with its hash at the end.
    pub(in super::super) fn encode(&self) -> Vec<u8> {
        let extended = self.entries.iter().any(|entry| entry.extended != 0);
        let version = if extended { self.version.max(3) } else { self.version };
        let mut out = Vec::with_capacity(self.names.len() + self.entries.len() * 80 + 64);
        out.extend_from_slice(b"DIRC");
        out.extend_from_slice(&version.to_be_bytes());
        out.extend_from_slice(&(self.entries.len() as u32).to_be_bytes());
        let mut before: &[u8] = b"";
        for entry in &self.entries {
            self.write_entry(entry, version, before, &mut out);
            before = self.path(entry);
        }
        if let Some(resolved) = &self.resolved {
            out.extend_from_slice(b"REUC");
            out.extend_from_slice(&(resolved.len() as u32).to_be_bytes());
            out.extend_from_slice(resolved);
        }
        let hash = self.algorithm.digest(&[&out]);
        out.extend_from_slice(hash.as_bytes());
        out
    }

    fn write_entry(&self, entry: &IndexEntry, version: u32, before: &[u8], out: &mut Vec<u8>) {
        let began = out.len();
        let (stat, path) = (&entry.stat, self.path(entry));
        let words = [
            stat.ctime.0,
            stat.ctime.1,
            stat.mtime.0,
            stat.mtime.1,
            stat.device,
            stat.inode,
            entry.mode,
            stat.user,
            stat.group,
            stat.bytes,
        ];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
        out.extend_from_slice(entry.oid.as_bytes());
        // Nothing of the flags is lost: whether the file is assumed to be unchanged, and the stage.
        let kept = entry.flags & !(LENGTH | EXTENDED);
        let more = if entry.extended != 0 { EXTENDED } else { 0 };
        let flags = kept | more | (path.len() as u16).min(LENGTH);
        out.extend_from_slice(&flags.to_be_bytes());
        if entry.extended != 0 {
            out.extend_from_slice(&entry.extended.to_be_bytes());
        }
        if version == 4 {
            let kept = before.iter().zip(path).take_while(|(one, other)| one == other).count();
            put_varint(before.len() - kept, out);
            out.extend_from_slice(&path[kept..]);
            out.push(0);
        } else {
            out.extend_from_slice(path);
            let end = (out.len() - began + 1).next_multiple_of(8);
            out.resize(began + end, 0);
        }
    }
}

/// Appends a number as packs write offsets.
fn put_varint(number: usize, out: &mut Vec<u8>) {
    let mut bytes = [0; 10];
    let mut at = bytes.len() - 1;
    bytes[at] = (number & 0x7f) as u8;
    let mut rest = number >> 7;
    while rest > 0 {
        rest -= 1;
        at -= 1;
        bytes[at] = 0x80 | (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.extend_from_slice(&bytes[at..]);
}
