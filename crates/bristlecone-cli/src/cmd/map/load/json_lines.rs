//! JSON lines: an object or an array of two in each.

use serde_json::Value;

use super::rows::{Fault, Lines, Row};
use crate::{
    cmd::map::form::Forms,
    output::Fields,
    repeated::{repeated, string_bytes},
    text::from_hex,
};

/// What a line may have at most of values and of what holds some, so that what is wrong with it can be said.
const VALUES_MAX: usize = 1000;

/// Returns the next row; lines without anything are passed over.
pub(super) fn next(lines: &mut Lines<'_>, forms: Forms) -> Result<Option<Row>, Fault> {
    while let Some(line) = lines.next()? {
        if line.trim_ascii().is_empty() {
            continue;
        }
        if has_many_values(&line) {
            return Err(format!("it has more than {VALUES_MAX} values, and a row has key and value").into());
        }
        return match serde_json::from_slice(&line) {
            Ok(Value::Object(fields)) => match repeated(&line) {
                Some(twice) => {
                    Err(format!("it has the field \"{}\" twice", bristlecone::escape(twice.as_bytes())).into())
                }
                None => of_object(fields, forms).map(Some),
            },
            Ok(Value::Array(items)) => match <[Value; 2]>::try_from(items) {
                Ok([Value::String(key), Value::String(value)]) => {
                    Row::of_fields(forms, key.into_bytes(), value.into_bytes()).map(Some)
                }
                _ => Err("an array is a row if it has two texts: key and value".into()),
            },
            Ok(_) => Err(r#"a row is {"key": TEXT, "value": TEXT} or [TEXT, TEXT]"#.into()),
            Err(error) => {
                let text = error.to_string();
                let reason = text.split(" at line ").next().unwrap_or(&text);
                Err(format!("it is no JSON at column {}: {reason}", error.column()).into())
            }
        };
    }
    Ok(None)
}

/// Whether a line has more values than [`VALUES_MAX`]: each would take many times the memory that it takes in the file.
fn has_many_values(line: &[u8]) -> bool {
    let (mut at, mut values) = (0_usize, 0);
    while let Some(byte) = line.get(at) {
        values += usize::from(matches!(byte, b',' | b'[' | b'{'));
        at += if *byte == b'"' { string_bytes(&line[at..]) } else { 1 };
    }
    values > VALUES_MAX
}

fn of_object(mut fields: Fields, forms: Forms) -> Result<Row, Fault> {
    let (key, key_hex) = (take(&mut fields, "key")?, take(&mut fields, "key_hex")?);
    let (value, value_hex) = (take(&mut fields, "value")?, take(&mut fields, "value_hex")?);
    if let Some(other) = fields.keys().next() {
        return Err(format!(
            "it has a field \"{}\", and a row has key and value",
            bristlecone::escape(other.as_bytes())
        )
        .into());
    }
    // What is in hexadecimal by its name needs no form.
    let row = Row::of_fields(forms, key.clone().unwrap_or_default(), value.clone().unwrap_or_default())?;
    Ok(Row {
        key: field("key", key.map(|_| row.key), key_hex)?,
        value: field("value", value.map(|_| row.value), value_hex)?,
    })
}

/// Takes a field that is text, if it is there.
fn take(fields: &mut Fields, name: &str) -> Result<Option<Vec<u8>>, Fault> {
    match fields.shift_remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into_bytes())),
        Some(_) => Err(format!("\"{name}\" is no text").into()),
    }
}

fn field(name: &str, text: Option<Vec<u8>>, hex: Option<Vec<u8>>) -> Result<Vec<u8>, Fault> {
    match (text, hex) {
        (Some(text), None) => Ok(text),
        (None, Some(hex)) => from_hex(&hex).ok_or_else(|| format!("\"{name}_hex\" is not in hexadecimal").into()),
        (None, None) => Err(format!("it lacks \"{name}\"").into()),
        (Some(_), Some(_)) => Err(format!("it has both \"{name}\" and \"{name}_hex\"").into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::map::form::Form;

    fn row(text: &str, keys: Form) -> Result<Option<Row>, String> {
        match next(&mut Lines::new(text.as_bytes()), Forms { keys, values: Form::Text }) {
            Ok(row) => Ok(row),
            Err(Fault::Row(reason)) => Err(reason),
            Err(Fault::Read(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn rows_are_objects_or_arrays_of_texts() {
        let both = |key: &[u8], value: &[u8]| Ok(Some(Row { key: key.to_vec(), value: value.to_vec() }));
        assert_eq!(row("\n \r\n{\"value\":\"1\",\"key\":\"a\"}\r\n", Form::Text), both(b"a", b"1"));
        assert_eq!(row(r#"["a%00","\u0000"]"#, Form::Text), both(b"a%00", b"\0"));
        assert_eq!(row(r#"{"key_hex":"ff00","value_hex":""}"#, Form::Text), both(b"\xff\0", b""));
        assert_eq!(row(r#"["00fF","00"]"#, Form::Hex), both(b"\0\xff", b"00"));
        assert_eq!(row(r#"{"key_hex":"61","value":"x"}"#, Form::Hex), both(b"a", b"x"));
        assert_eq!(row("", Form::Text), Ok(None));
        let marks = ",[{".repeat(1000);
        assert_eq!(row(&format!("[\"a\",\"{marks}\"]"), Form::Text), both(b"a", marks.as_bytes()));
        let many = row(&format!("[{}0]", "0,".repeat(1000)), Form::Text).unwrap_err();
        assert!(many.contains("more than 1000 values"), "{many}");
        for (text, says) in [
            ("{", "no JSON"),
            ("[\"a\"]", "two texts"),
            ("[\"a\",1]", "two texts"),
            ("\"a\"", "a row is"),
            (r#"{"key":"a"}"#, "lacks \"value\""),
            (r#"{"key":"a","value":5}"#, "\"value\" is no text"),
            (r#"{"key":"a","key_hex":"61","value":""}"#, "both"),
            (r#"{"key":"a","value":"","more":1}"#, "\"more\""),
            (r#"{"key_hex":"6","value":""}"#, "hexadecimal"),
            (r#"{"key":"a","value":"","key":"b"}"#, "\"key\" twice"),
        ] {
            let error = row(text, Form::Text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        assert!(row(r#"["xy","0"]"#, Form::Hex).unwrap_err().contains("\"xy\" is not in hexadecimal"));
    }
}
