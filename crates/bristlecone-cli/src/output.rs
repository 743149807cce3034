//! Standard output: lines for people, or one JSON document.

use std::{
    fmt::{self, Display},
    io::{self, BufWriter, Stdout, Write},
    mem,
};

use bristlecone::{escape, to_hex};
use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::{
    failure::{Failure, Result},
    streams,
};

/// A JSON object in the making.
pub(crate) type Fields = Map<String, Value>;

/// How output is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Style {
    /// Text for people, which may change.
    #[default]
    Human,
    /// One JSON document, whose shape is documented.
    Json,
}

/// Standard output in one style. Lists are written as they come, so that long ones need no memory.
pub(crate) struct Output {
    style: Style,
    out: BufWriter<Stdout>,
    // Items of the list being written.
    items: u64,
    // Whether a list was begun and not ended.
    open: bool,
    // Whether the line of the last item is ended.
    line_ended: bool,
    // What was done already, which the reader does not know if writing fails.
    made: Option<String>,
}

impl Output {
    /// Returns standard output.
    pub(crate) fn new(style: Style) -> Self {
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        Self { style, out, items: 0, open: false, line_ended: false, made: None }
    }

    /// Whether JSON is wanted.
    pub(crate) fn json(&self) -> bool {
        self.style == Style::Json
    }

    /// Writes a line for people; nothing in JSON.
    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        if !self.json() {
            let written = self.sink().and_then(|out| writeln!(out, "{text}"));
            self.check(written)?;
        }
        Ok(())
    }

    /// Writes a line for people that says what was done, or that there was nothing to do, and notes it.
    pub(crate) fn made(&mut self, text: impl Into<String>) -> Result<()> {
        let text = text.into();
        self.note_made(text.as_str());
        self.line(text)
    }

    /// Notes what was done, where other output tells it. Should writing fail from here on, the error says it; where standard output was
    /// closed from the start nobody wants to hear it.
    pub(crate) fn note_made(&mut self, text: impl Into<String>) {
        self.made = Some(text.into());
    }

    /// Writes bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.sink().and_then(|out| out.write_all(bytes));
        self.check(written)
    }

    /// Where data goes. Without a standard output only lines about what was done are lost.
    fn sink(&mut self) -> io::Result<&mut BufWriter<Stdout>> {
        let told = self.made.is_some() && !self.json();
        if told || streams::has_output() { Ok(&mut self.out) } else { Err(streams::no_output()) }
    }

    fn check(&self, written: io::Result<()>) -> Result<()> {
        written.map_err(|error| match &self.made {
            Some(made) => Failure::unheard(made, error),
            None => error.into(),
        })
    }

    /// Writes a whole JSON document; nothing for people.
    pub(crate) fn document(&mut self, fields: Fields) -> Result<()> {
        if self.json() {
            let written = self.sink().and_then(|out| writeln!(out, "{}", Value::Object(fields)));
            self.check(written)?;
        }
        Ok(())
    }

    /// Begins a JSON document of `fields` and a list named `name`; nothing for people.
    pub(crate) fn begin(&mut self, fields: &Fields, name: &str) -> Result<()> {
        (self.items, self.open, self.line_ended) = (0, true, false);
        if self.json() {
            let out = self.sink()?;
            write!(out, "{{")?;
            for (key, value) in fields {
                write!(out, "{}:{value},", Value::from(key.as_str()))?;
            }
            write!(out, "{}:[", Value::from(name))?;
        }
        Ok(())
    }

    /// Writes an item of the list; nothing for people.
    pub(crate) fn item(&mut self, fields: Fields) -> Result<()> {
        if self.json() {
            let before = match (self.items, mem::take(&mut self.line_ended)) {
                (0, _) => "\n",
                (_, false) => ",\n",
                (_, true) => ",",
            };
            let written = write!(self.out, "{before}{}", Value::Object(fields));
            self.check(written)?;
            self.items += 1;
        }
        Ok(())
    }

    /// Ends the list, and the document with further fields; nothing for people.
    pub(crate) fn end(&mut self, fields: &Fields) -> Result<()> {
        let open = mem::take(&mut self.open);
        if self.json() && open {
            let mut text = if self.items == 0 || self.line_ended { "]".to_owned() } else { "\n]".to_owned() };
            for (key, value) in fields {
                text.push_str(&format!(",{}:{value}", Value::from(key.as_str())));
            }
            let written = writeln!(self.out, "{text}}}");
            self.check(written)?;
        }
        Ok(())
    }

    /// Ends a list that a failure left open, so that a negative answer is a document, too: without what would stand behind the
    /// list. Of what could not be carried out a document stays cut short.
    pub(crate) fn end_after(&mut self, failure: &Failure) -> Result<()> {
        if failure.is_answer() { self.end(&Fields::new()) } else { Ok(()) }
    }

    /// Ends the line of the last item and brings everything out, for those who read it line by line while more comes.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        if self.json() && self.open && self.items > 0 && !self.line_ended {
            let written = writeln!(self.out);
            self.check(written)?;
            self.line_ended = true;
        }
        self.flush()
    }

    /// Brings everything out.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let flushed = self.out.flush();
        self.check(flushed)
    }
}

/// Writes a line for people to standard error, as the standard library's macro does. Where standard error is closed, nothing is written.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::write_line(format_args!($($text)*)) };
}
pub(crate) use say;

/// As the macro.
pub(crate) fn write_line(text: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Makes JSON fields: `fields! { "a": 1, "b": "c" }`.
macro_rules! fields {
    ($($key:literal: $value:expr),* $(,)?) => {{
        #[allow(unused_mut, reason = "there may be no fields")]
        let mut fields = $crate::output::Fields::new();
        $(fields.insert($key.to_owned(), serde_json::Value::from($value));)*
        fields
    }};
}
pub(crate) use fields;

/// Adds a name: escaped as `cone` takes it back, and in hexadecimal beside if it is not UTF-8.
pub(crate) fn put_name(fields: &mut Fields, key: &str, bytes: &[u8]) {
    fields.insert(key.to_owned(), escape(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        fields.insert(format!("{key}_hex"), to_hex(bytes).into());
    }
}

/// Adds text as it is; if it is not UTF-8, with replacement characters, and in hexadecimal beside.
pub(crate) fn put_text(fields: &mut Fields, key: &str, bytes: &[u8]) {
    fields.insert(key.to_owned(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        fields.insert(format!("{key}_hex"), to_hex(bytes).into());
    }
}

/// Adds a value: as text, or in hexadecimal alone if it is not UTF-8.
pub(crate) fn put_value(fields: &mut Fields, key: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => fields.insert(key.to_owned(), text.into()),
        Err(_) => fields.insert(format!("{key}_hex"), to_hex(bytes).into()),
    };
}
