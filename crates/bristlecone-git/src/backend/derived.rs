//! Derived files: caches of the store above, below `bristlecone/derived/`.

use std::fmt::Write as _;

use bristlecone::{Error, Result};

use super::shared::Shared;

const DERIVED: &str = "bristlecone/derived";

/// Returns the file of a name: letters, digits, `-`, `_` and inner dots as they are, all else as `%` and two digits.
fn path(name: &str) -> String {
    let mut path = format!("{DERIVED}/");
    for (at, byte) in name.bytes().enumerate() {
        if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || byte == b'.' && at > 0 {
            path.push(char::from(byte));
        } else {
            let _ = write!(path, "%{byte:02x}");
        }
    }
    path
}

impl Shared {
    pub(super) fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.files.read(&path(name))? else { return Ok(None) };
        // What a power cut tore is absent.
        let Some((bytes, check)) = bytes.split_last_chunk::<4>() else { return Ok(None) };
        Ok((crc32fast::hash(bytes).to_le_bytes() == *check).then(|| bytes.to_vec()))
    }

    pub(super) fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        let path = path(name);
        let part = crate::files::passing_name(&format!("{path}.new-"));
        let mut whole = bytes.to_vec();
        whole.extend_from_slice(&crc32fast::hash(bytes).to_le_bytes());
        match self.files.write(&part, &whole) {
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                self.files.create_dir(DERIVED)?;
                self.files.write(&part, &whole)?;
            }
            written => _ = written?,
        }
        self.files.rename(&part, &path)
    }
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn names_stay_in_their_folder() {
        assert_eq!(path("history"), "bristlecone/derived/history");
        assert_eq!(path("a.b-c_D"), "bristlecone/derived/a.b-c_D");
        assert_eq!(path("../x/é"), "bristlecone/derived/%2e.%2fx%2f%c3%a9");
        assert_eq!(path("."), "bristlecone/derived/%2e");
    }
}
