//! The lines of a batch: words, or JSON objects.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use bristlecone::Path;
use serde_json::{Map, Value};

use crate::{
    argument,
    failure::{Failure, Result},
    repeated::repeated,
    text::from_hex,
};

/// What one line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Edit(Edit),
    /// A branch moves; revisions as they were written.
    Branch(Move),
    /// What stands before becomes a commit, with this message if there is one.
    Commit(Option<String>),
}

/// A change of the tree, or what must hold for the changes to be made.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edit {
    Set(Path, Vec<u8>),
    Remove(Path),
    /// The value must be this; `None`: there must be nothing.
    Test(Path, Option<Vec<u8>>),
}

/// A move of a branch.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) name: String,
    /// A revision; `None`: the branch is removed.
    pub(super) to: Option<String>,
    /// What it must name now.
    pub(super) expected: Expected,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expected {
    Anything,
    Nothing,
    Revision(String),
}

/// Parses a line; `None` for one that says nothing.
pub(super) fn line(line: &[u8]) -> Result<Option<Line>> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.trim_ascii_start().first() {
        None | Some(b'#') => Ok(None),
        Some(b'{') => json(line).map(Some),
        Some(_) => words(line).map(Some),
    }
}

/// Splits the first word off. What follows the one space behind it is the rest.
fn word(text: &[u8]) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|&byte| byte == b' ') {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

fn words(line: &[u8]) -> Result<Line> {
    let (verb, rest) = word(line);
    let (first, value) = rest.map_or((&b""[..], None), word);
    let given = |what: &str| match value {
        Some(value) => Ok(value.to_vec()),
        None => Err(Failure::usage(format!("{what} lacks a value; write a space behind the path for an empty one"))),
    };
    Ok(match verb {
        b"set" => Line::Edit(Edit::Set(value_path(first)?, given("`set`")?)),
        b"del" => Line::Edit(Edit::Remove(whole(rest).and_then(entry_path)?)),
        b"test" => Line::Edit(Edit::Test(entry_path(first)?, Some(given("`test`")?))),
        b"absent" => Line::Edit(Edit::Test(whole(rest).and_then(entry_path)?, None)),
        b"branch" | b"drop" => Line::Branch(branch(verb == b"drop", rest.unwrap_or_default())?),
        b"commit" => Line::Commit(rest.map(text_of).transpose()?),
        _ => return Err(unknown(verb)),
    })
}

/// Parses `NAME TO [EXPECTED]`, or without `TO`.
fn branch(removed: bool, rest: &[u8]) -> Result<Move> {
    let text = text_of(rest)?;
    let mut words = text.split(' ').filter(|word| !word.is_empty()).map(str::to_owned);
    let lacks =
        |what: &str| Failure::usage(format!("{what} is missing; write `branch NAME REV [OLD]` or `drop NAME [OLD]`"));
    let name = words.next().ok_or_else(|| lacks("the name of the branch"))?;
    let to = if removed { None } else { Some(words.next().ok_or_else(|| lacks("the revision"))?) };
    let expected = match words.next() {
        None => Expected::Anything,
        Some(none) if none == "-" => Expected::Nothing,
        Some(revision) => Expected::Revision(revision),
    };
    match words.next() {
        Some(more) => {
            Err(Failure::usage(format!("\"{more}\" is one word too many; a branch has a name and revisions")))
        }
        None => Ok(Move { name, to, expected }),
    }
}

fn whole(rest: Option<&[u8]>) -> Result<&[u8]> {
    rest.ok_or_else(|| Failure::usage("the path is missing; write it behind the verb"))
}

fn entry_path(bytes: &[u8]) -> Result<Path> {
    argument::entry_path(OsStr::from_bytes(bytes))
}

fn value_path(bytes: &[u8]) -> Result<Path> {
    argument::value_path(OsStr::from_bytes(bytes))
}

fn text_of(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Failure::usage("that is no UTF-8; write names and messages in it"))
}

fn unknown(verb: &[u8]) -> Failure {
    let verb = bristlecone::escape(verb);
    Failure::usage(format!("\"{verb}\" is no verb; there are set, del, test, absent, branch, drop and commit"))
}

/// Parses a JSON object: its verb is the field that names one.
fn json(line: &[u8]) -> Result<Line> {
    let parsed = serde_json::from_slice::<Map<String, Value>>(line);
    let mut fields = parsed.map_err(|error| Failure::usage(format!("the line is no JSON object: {error}")))?;
    if let Some(twice) = repeated(line) {
        let shown = bristlecone::escape(twice.as_bytes());
        return Err(Failure::usage(format!("the field \"{shown}\" stands there twice; give it once")));
    }
    let verbs = ["set", "del", "test", "branch", "commit"];
    let Some(verb) = verbs.into_iter().find(|verb| fields.contains_key(*verb)) else {
        return Err(Failure::usage(format!("the object has no verb; it has one of the fields {}", verbs.join(", "))));
    };
    let named = text_field(&mut fields, verb)?;
    let path = || argument::entry_path(OsStr::new(&named));
    let done = match verb {
        "set" => match value_field(&mut fields)? {
            Some(Some(value)) => Line::Edit(Edit::Set(argument::value_path(OsStr::new(&named))?, value)),
            _ => return Err(Failure::usage("`set` lacks a value; give it as \"value\" or \"value_hex\"")),
        },
        "del" => Line::Edit(Edit::Remove(path()?)),
        "test" => match value_field(&mut fields)? {
            Some(value) => Line::Edit(Edit::Test(path()?, value)),
            None => {
                let way = "give it as \"value\" or \"value_hex\", or null where nothing must be there";
                return Err(Failure::usage(format!("`test` lacks a value; {way}")));
            }
        },
        "branch" => {
            let to = optional(&mut fields, "to")?;
            let Some(to) = to else {
                return Err(Failure::usage("`branch` lacks \"to\"; give a revision, or null to remove the branch"));
            };
            let expected = match optional(&mut fields, "expected")? {
                None => Expected::Anything,
                Some(None) => Expected::Nothing,
                Some(Some(revision)) => Expected::Revision(revision),
            };
            Line::Branch(Move { name: named, to, expected })
        }
        _ => Line::Commit(Some(named)),
    };
    match fields.keys().next() {
        Some(more) => Err(Failure::usage(format!("\"{more}\" is no field of `{verb}`; leave it out"))),
        None => Ok(done),
    }
}

fn text_field(fields: &mut Map<String, Value>, key: &str) -> Result<String> {
    match fields.remove(key) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Failure::usage(format!("the field \"{key}\" is text, in quotes"))),
    }
}

/// Returns a field that may be left out, and may be `null`.
fn optional(fields: &mut Map<String, Value>, key: &str) -> Result<Option<Option<String>>> {
    match fields.get(key) {
        None => Ok(None),
        Some(Value::Null) => {
            fields.remove(key);
            Ok(Some(None))
        }
        Some(_) => text_field(fields, key).map(|text| Some(Some(text))),
    }
}

/// Returns the value in an object: as text or in hexadecimal, `Some(None)` for `null`, `None` where it is left out.
fn value_field(fields: &mut Map<String, Value>) -> Result<Option<Option<Vec<u8>>>> {
    let (text, hex) = (optional(fields, "value")?, optional(fields, "value_hex")?);
    match (text, hex) {
        (Some(text), None) => Ok(Some(text.map(String::into_bytes))),
        (None, Some(hex)) => hex.map(|hex| bytes(&hex)).transpose().map(Some),
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Failure::usage("the value is given twice; give \"value\" or \"value_hex\"")),
    }
}

fn bytes(hex: &str) -> Result<Vec<u8>> {
    let wrong = || Failure::usage("\"value_hex\" is two hexadecimal digits for each byte");
    from_hex(hex.as_bytes()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Line {
        line(text.as_bytes()).unwrap().unwrap()
    }

    fn path(text: &str) -> Path {
        text.parse().unwrap()
    }

    #[test]
    fn words_and_json_say_the_same() {
        for (words, json) in [
            ("set a/b  two words ", r#"{"set":"a/b","value":" two words "}"#),
            ("set a ", r#"{"set":"a","value_hex":""}"#),
            ("del a", r#"{"del":"a"}"#),
            ("test a x", r#"{"test":"a","value_hex":"78"}"#),
            ("absent a", r#"{"test":"a","value":null}"#),
            // A slash behind what is only looked at, or removed, is forgiven.
            ("absent a/", r#"{"test":"a/","value":null}"#),
            ("test a/ x", r#"{"test":"a/","value":"x"}"#),
            ("del a/", r#"{"del":"a/"}"#),
            ("branch x main~1", r#"{"branch":"x","to":"main~1"}"#),
            ("branch x main -", r#"{"branch":"x","to":"main","expected":null}"#),
            ("drop x main", r#"{"branch":"x","to":null,"expected":"main"}"#),
            ("commit Two words", r#"{"commit":"Two words"}"#),
        ] {
            assert_eq!(parsed(words), parsed(json), "{words}");
        }
    }

    #[test]
    fn what_says_nothing_is_passed_over_and_what_is_wrong_is_refused() {
        for text in ["", "  ", "# set a b", "\r"] {
            assert_eq!(line(text.as_bytes()).unwrap(), None);
        }
        assert_eq!(parsed("commit"), Line::Commit(None));
        assert_eq!(parsed("set a b\r"), Line::Edit(Edit::Set(path("a"), b"b".to_vec())));
        for text in [
            "put a b",
            "set",
            "set a",
            "set a/ b",
            "del",
            "del ",
            "branch",
            "branch x",
            "branch x y z w",
            "{",
            "{}",
            r#"{"set":"a"}"#,
            r#"{"set":1,"value":"x"}"#,
            r#"{"set":"a/","value":"x"}"#,
            r#"{"test":"a"}"#,
            r#"{"set":"a","value":"x","value_hex":"00"}"#,
            r#"{"set":"a","value_hex":"0"}"#,
            r#"{"set":"a","value_hex":"0g"}"#,
            r#"{"branch":"a"}"#,
            r#"{"del":"a","value":"x"}"#,
            r#"{"del":"a","del":"b"}"#,
            r#"{"set":"a","value":"x","value":"y"}"#,
        ] {
            assert!(line(text.as_bytes()).is_err(), "{text}");
        }
    }
}
