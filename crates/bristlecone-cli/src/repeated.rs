//! Fields that stand in a JSON object twice, of which `serde_json` keeps the last.

use std::collections::HashSet;

/// Returns a field that an object has twice. `text` is what was parsed already; of what is no object there are no fields.
pub(crate) fn repeated(text: &[u8]) -> Option<String> {
    let (mut at, mut depth, mut seen) = (0, 0, HashSet::new());
    while let Some(byte) = text.get(at) {
        let end = at + if *byte == b'"' { string_bytes(&text[at..]) } else { 1 };
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' if depth == 1 && text[end..].trim_ascii_start().first() == Some(&b':') => {
                // One key may be written in several ways.
                let key: String = serde_json::from_slice(&text[at..end]).ok()?;
                if let Some(key) = seen.replace(key) {
                    return Some(key);
                }
            }
            _ => {}
        }
        at = end;
    }
    None
}

/// Returns how long the string is that begins here, with its quotes.
pub(crate) fn string_bytes(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_stands_there_twice_is_found_however_it_is_written() {
        for (text, found) in [
            (r#"{"a":1,"b":2,"a":3}"#, Some("a")),
            (r#" { "a" : "" , "\u0061" : "" } "#, Some("a")),
            (r#"{"\\":"\"","\\":""}"#, Some("\\")),
            (r#"{"a":"a","b":":a\\","":"a:\"","c":{"a":1},"d":[{"a":1},"a"]}"#, None),
            (r#"["a","a"]"#, None),
            ("{}", None),
        ] {
            serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(repeated(text.as_bytes()).as_deref(), found, "{text}");
        }
    }
}
