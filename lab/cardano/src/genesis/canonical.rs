//! The hash of a Byron genesis file: BLAKE2b-256 of what it says in canonical JSON, where keys are sorted, nothing stands between
//! values, and only quotation marks and backslashes are escaped.
//!
//! Source: `readGenesisData` in cardano-ledger, and `renderCanonicalJSON` in canonical-json.

use serde_json::Value;

use crate::BlockHash;

/// Returns the hash of a file.
pub(super) fn hash(file: &[u8]) -> serde_json::Result<BlockHash> {
    let value: Value = serde_json::from_slice(file)?;
    let mut text = Vec::with_capacity(file.len());
    write(&mut text, &value);
    Ok(BlockHash::of(&[&text]))
}

/// Writes a value. The parser has bounded how deep values lie within each other.
fn write(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => text.extend_from_slice(value.to_string().as_bytes()),
        Value::String(string) => write_string(text, string),
        Value::Array(items) => write_all(text, b"[]", items, write),
        Value::Object(fields) => {
            let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
            fields.sort_unstable_by_key(|(name, _)| *name);
            write_all(text, b"{}", fields, |text, (name, value)| {
                write_string(text, name);
                text.push(b':');
                write(text, value);
            });
        }
    }
}

/// Writes items between brackets, with commas between them.
fn write_all<T>(
    text: &mut Vec<u8>,
    [open, close]: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    each: impl Fn(&mut Vec<u8>, T),
) {
    text.push(*open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        each(text, item);
    }
    text.push(*close);
}

fn write_string(text: &mut Vec<u8>, string: &str) {
    text.push(b'"');
    for byte in string.bytes() {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_the_order_of_keys_do_not_change_the_hash() {
        let canonical = r#"{"a":[1,-2,{}],"b":{"c":"\\ \"/é","d":[]},"e":[true,null]}"#;
        let spelled = r#" { "e" : [ true , null ], "b": {"d":[], "c" : "\u005c \u0022\/\u00e9"}, "a": [1, -2, { }] } "#;
        let hash_of_text = BlockHash::of(&[canonical.as_bytes()]);
        assert_eq!(hash(canonical.as_bytes()).unwrap(), hash_of_text);
        assert_eq!(hash(spelled.as_bytes()).unwrap(), hash_of_text);
        assert_ne!(hash(canonical.replace("-2", "-3").as_bytes()).unwrap(), hash_of_text);
        assert!(hash(b"{").is_err());
    }
}
