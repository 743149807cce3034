//! How keys and values are written: in arguments, in lines and in JSON.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::{escape, to_hex};
use clap::{Args, ValueEnum};

use crate::{
    failure::{Failure, Result},
    output::{Fields, Output},
    text::{self, from_hex, hex_byte},
};

/// How bytes are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// UTF-8 as it is, other bytes as %XX
    #[default]
    Text,
    /// Two hexadecimal digits for each byte
    Hex,
    /// Bytes as they are
    Raw,
}

/// How keys and values are written.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct FormArgs {
    /// How keys are written, in arguments and in the output
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(super) keys: Form,
    /// How values are written [default: text; hex for the hashes of an index]
    #[arg(long, value_enum, value_name = "FORM")]
    values: Option<Form>,
}

/// How the keys and values of one map are written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forms {
    pub(super) keys: Form,
    pub(super) values: Form,
}

impl FormArgs {
    /// Returns the forms for a map; `is_index`: its values are hashes.
    pub(super) fn of(self, is_index: bool) -> Forms {
        let usual = if is_index { Form::Hex } else { Form::Text };
        Forms { keys: self.keys, values: self.values.unwrap_or(usual) }
    }
}

impl Forms {
    /// Returns the key that an argument is. In text `%XX` stands for any byte, as in paths.
    pub(super) fn key(self, word: &OsStr) -> Result<Vec<u8>> {
        match self.keys {
            Form::Text => unescape(word.as_bytes()).ok_or_else(|| {
                let (shown, way) =
                    (text::show(word), "write %25 for a percent sign, or take bytes as they are with --keys raw");
                Failure::usage(format!("the key \"{shown}\" has a % without two hexadecimal digits behind it; {way}"))
            }),
            Form::Hex => from_hex(word.as_bytes()).ok_or_else(|| not_hex("key", word)),
            Form::Raw => Ok(word.as_bytes().to_vec()),
        }
    }

    /// Returns the value that an argument, or what was read for it, is.
    pub(super) fn value(self, word: &[u8]) -> Result<Vec<u8>> {
        match self.values {
            Form::Text | Form::Raw => Ok(word.to_vec()),
            Form::Hex => from_hex(word.trim_ascii_end()).ok_or_else(|| not_hex("value", OsStr::from_bytes(word))),
        }
    }

    /// Writes one line for people: `sign`, the key, and each of the values behind a tab.
    pub(super) fn line(self, out: &mut Output, sign: &str, key: &[u8], values: &[&[u8]]) -> Result<()> {
        if out.json() {
            return Ok(());
        }
        out.bytes(sign.as_bytes())?;
        match self.keys {
            Form::Text => out.bytes(escape(key).as_bytes())?,
            Form::Hex => out.bytes(to_hex(key).as_bytes())?,
            Form::Raw => out.bytes(key)?,
        }
        for value in values {
            out.bytes(b"\t")?;
            match self.values {
                Form::Text => out.bytes(text_value(value).as_bytes())?,
                Form::Hex => out.bytes(to_hex(value).as_bytes())?,
                Form::Raw => out.bytes(value)?,
            }
        }
        out.bytes(b"\n")
    }

    /// Adds a key to a JSON object: as text, or in hexadecimal alone if that was asked for or it is not UTF-8.
    pub(super) fn put_key(self, fields: &mut Fields, name: &str, key: &[u8]) {
        put(self.keys, fields, name, key);
    }

    /// As [`Forms::put_key`], of a value.
    pub(super) fn put_value(self, fields: &mut Fields, name: &str, value: &[u8]) {
        put(self.values, fields, name, value);
    }

    /// Returns a key for messages.
    pub(super) fn show_key(self, key: &[u8]) -> String {
        if self.keys == Form::Hex { to_hex(key) } else { escape(key) }
    }
}

fn put(form: Form, fields: &mut Fields, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) if form != Form::Hex => fields.insert(name.to_owned(), text.into()),
        _ => fields.insert(format!("{name}_hex"), to_hex(bytes).into()),
    };
}

/// Shows a value in a line: as it is, but for bytes that would not be seen there.
fn text_value(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(char::is_control) => text.to_owned(),
        _ => escape(value),
    }
}

fn not_hex(what: &str, word: &OsStr) -> Failure {
    let shown = text::show(word);
    Failure::usage(format!(
        "the {what} \"{shown}\" is not in hexadecimal; give two digits for each byte, or another form"
    ))
}

/// Returns bytes with each `%XX` as the byte that it stands for.
fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let [high, low, tail @ ..] = tail else { return None };
            bytes.push(hex_byte(*high, *low)?);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_of_a_key_is_taken_back() {
        for keys in [Form::Text, Form::Hex] {
            let forms = Forms { keys, values: Form::Text };
            for key in [&b""[..], b"a/b", b"100%", b"\xff\0\n", "ä".as_bytes()] {
                assert_eq!(forms.key(OsStr::new(&forms.show_key(key))).ok().as_deref(), Some(key), "{keys:?}");
            }
        }
        assert_eq!([from_hex(b"0"), from_hex(b"0g"), from_hex(b"+1")], [None, None, None]);
        assert_eq!([unescape(b"%"), unescape(b"%4"), unescape(b"%+1")], [None, None, None]);
    }
}
