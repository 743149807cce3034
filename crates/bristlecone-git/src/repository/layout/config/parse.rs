//! The syntax of configuration files.
//!
//! ```text
//! file    = (section | setting | blank)*
//! section = '[' name ']' | '[' name '.' subsection ']' | '[' name ' ' '"' subsection '"' ']'
//! setting = name ('=' value)?
//! ```
//!
//! `#` and `;` begin comments outside of quotes; a backslash ends a line that goes on.
//!
//! Source: Git's documentation, git-config, "Syntax".

/// A setting: its key, section and name in lower case, and its value.
pub(super) type Setting = (Vec<u8>, Option<Vec<u8>>);

/// Reads a file's bytes.
///
/// # Errors
/// Where the syntax is broken, in bytes, and how.
pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Setting>, (usize, &'static str)> {
    let mut parser = Parser { bytes, at: 0, section: Vec::new(), settings: Vec::new() };
    match parser.file() {
        Ok(()) => Ok(parser.settings),
        Err(reason) => Err((parser.at, reason)),
    }
}

/// Reads a file from front to back.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The section with its subsection and a dot behind.
    section: Vec<u8>,
    settings: Vec<Setting>,
}

impl Parser<'_> {
    fn file(&mut self) -> Result<(), &'static str> {
        if self.bytes.starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        }
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' => self.at += 1,
                b'#' | b';' => self.skip_line(),
                b'[' => self.head()?,
                byte if byte.is_ascii_alphabetic() => self.setting()?,
                _ => return Err("neither a section nor a setting begins here"),
            }
        }
        Ok(())
    }

    /// Returns the next byte; the two that end a line elsewhere count as one.
    fn peek(&self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        let carriage = byte == b'\r' && self.bytes.get(self.at + 1).is_none_or(|next| *next == b'\n');
        Some(if carriage { b'\n' } else { byte })
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += if self.bytes[self.at] == b'\r' && byte == b'\n' { 2 } else { 1 };
        self.at = self.at.min(self.bytes.len());
        Some(byte)
    }

    fn skip_line(&mut self) {
        while !matches!(self.next(), None | Some(b'\n')) {}
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn head(&mut self) -> Result<(), &'static str> {
        let bad = "the head of a section is broken";
        self.at += 1;
        self.section.clear();
        loop {
            match self.next().ok_or(bad)? {
                b']' if !self.section.is_empty() => {
                    self.section.push(b'.');
                    return Ok(());
                }
                b' ' | b'\t' if !self.section.is_empty() => return self.subsection(),
                byte if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' => {
                    self.section.push(byte.to_ascii_lowercase());
                }
                _ => return Err(bad),
            }
        }
    }

    fn subsection(&mut self) -> Result<(), &'static str> {
        let bad = "the head of a section is broken";
        self.skip_blanks();
        if self.next() != Some(b'"') {
            return Err(bad);
        }
        self.section.push(b'.');
        loop {
            match self.next().ok_or(bad)? {
                b'"' => break,
                b'\n' => return Err(bad),
                b'\\' => {
                    let byte = self.next().filter(|byte| *byte != b'\n').ok_or(bad)?;
                    self.section.push(byte);
                }
                byte => self.section.push(byte),
            }
        }
        if self.next() != Some(b']') {
            return Err(bad);
        }
        self.section.push(b'.');
        Ok(())
    }

    fn setting(&mut self) -> Result<(), &'static str> {
        if self.section.is_empty() {
            return Err("a setting stands before the first section");
        }
        let mut key = self.section.clone();
        while let Some(byte) = self.peek().filter(|byte| byte.is_ascii_alphanumeric() || *byte == b'-') {
            key.push(byte.to_ascii_lowercase());
            self.at += 1;
        }
        self.skip_blanks();
        let value = match self.peek() {
            None | Some(b'\n') => None,
            Some(b'#' | b';') => {
                self.skip_line();
                None
            }
            Some(b'=') => {
                self.at += 1;
                Some(self.value()?)
            }
            Some(_) => return Err("the name of a setting is broken"),
        };
        self.settings.push((key, value));
        Ok(())
    }

    /// Reads a value to the end of its line. Blanks around it fall away, those within quotes stay.
    fn value(&mut self) -> Result<Vec<u8>, &'static str> {
        self.skip_blanks();
        let mut value = Vec::new();
        // Up to here blanks at the end are meant.
        let mut kept = 0;
        let mut quoted = false;
        loop {
            match self.next() {
                None | Some(b'\n') if quoted => return Err("a quoted value does not end on its line"),
                None | Some(b'\n') => break,
                Some(b'#' | b';') if !quoted => {
                    self.skip_line();
                    break;
                }
                Some(b'"') => {
                    quoted = !quoted;
                    kept = value.len();
                }
                Some(b'\\') => {
                    match self.next() {
                        Some(b'\n') => continue,
                        Some(b'n') => value.push(b'\n'),
                        Some(b't') => value.push(b'\t'),
                        Some(b'b') => value.push(8),
                        Some(byte @ (b'"' | b'\\')) => value.push(byte),
                        _ => return Err("a backslash in a value is followed by something unknown"),
                    }
                    kept = value.len();
                }
                Some(byte) => {
                    value.push(byte);
                    if quoted || !matches!(byte, b' ' | b'\t') {
                        kept = value.len();
                    }
                }
            }
        }
        value.truncate(kept);
        Ok(value)
    }
}
