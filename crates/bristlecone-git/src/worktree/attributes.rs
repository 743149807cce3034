//! Attributes: for which files Git keeps other bytes than the working tree has.
//!
//! Nothing is converted here. What this finds are files whose bytes in the working tree would have to differ from those
//! of the object, so that they are left to Git.
//!
//! Source: Git's documentation, `gitattributes`.

use std::collections::HashMap;

use super::glob::Glob;

/// How deep macros of attributes may lie in each other.
const MACROS_DEEP_MAX: usize = 8;
/// Git passes over a line of as many bytes and more.
const LINE_BYTES: usize = 2048;

/// What a line says of one attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AttributeState {
    /// `attribute`
    Set,
    /// `-attribute`
    Unset,
    /// `!attribute`
    Unspecified,
    /// `attribute=value`
    Value(Vec<u8>),
}

/// Lines of files of attributes, those that count for more behind those that count for less.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    rules: Vec<Rule>,
    macros: HashMap<Vec<u8>, Vec<(Vec<u8>, AttributeState)>>,
}

#[derive(Debug)]
struct Rule {
    // The folder of the file, with a slash at its end; empty for the top.
    folder: Vec<u8>,
    pattern: Glob,
    // Whether the pattern is for the path from the folder on, and not for the last step alone.
    whole: bool,
    states: Vec<(Vec<u8>, AttributeState)>,
}

/// What becomes of a file's bytes on their way into the working tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// They stay as they are.
    None,
    /// They stay as they are unless there is a carriage return among them.
    Lines,
    /// They are changed, by this attribute or setting.
    Changed(&'static str),
}

impl Attributes {
    /// Adds the lines of a file that lies in `folder`, which ends with a slash unless it is the top.
    pub(super) fn add(&mut self, folder: &[u8], bytes: &[u8]) {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| line.len() < LINE_BYTES) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let (pattern, rest) = first_word(line);
            let words = rest.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let states: Vec<(Vec<u8>, AttributeState)> = words.map(state).collect();
            // One such name, and Git passes over the line.
            if !states.iter().all(|(name, _)| is_name(name)) {
                continue;
            }
            if let Some(name) = pattern.strip_prefix(b"[attr]").filter(|name| !name.is_empty()) {
                // Below the top, Git takes no macros: they would count elsewhere too.
                if folder.is_empty() && is_name(name) {
                    self.macros.insert(name.to_vec(), states);
                }
                continue;
            }
            // Git does not allow patterns with a sign before them, and those for folders match no file.
            if pattern.starts_with(b"!") || pattern.ends_with(b"/") {
                continue;
            }
            let whole = pattern.contains(&b'/');
            let pattern = Glob::of_path(pattern.strip_prefix(b"/").unwrap_or(&pattern), false);
            self.rules.push(Rule { folder: folder.to_vec(), pattern, whole, states });
        }
    }

    /// Returns what becomes of the bytes of a file. `autocrlf` and `eol` are the settings of these names.
    pub(super) fn conversion(&self, path: &[u8], autocrlf: Option<&[u8]>, eol: Option<&[u8]>) -> Conversion {
        let mut states = HashMap::new();
        for rule in self.rules.iter().rev() {
            if rule.matches(path) {
                self.apply(&rule.states, &mut states, 0);
            }
        }
        let state =
            |name: &str| states.get(name.as_bytes()).copied().filter(|state| **state != AttributeState::Unspecified);
        if matches!(state("filter"), Some(AttributeState::Value(_))) {
            return Conversion::Changed("filter");
        }
        if matches!(state("ident"), Some(AttributeState::Set)) {
            return Conversion::Changed("ident");
        }
        if matches!(state("working-tree-encoding"), Some(AttributeState::Value(_))) {
            return Conversion::Changed("working-tree-encoding");
        }
        // `crlf` is what `text` was called, and `crlf=input` was `eol=lf`.
        let ending = match state("eol") {
            Some(AttributeState::Value(value)) => Some(&value[..]),
            _ => None,
        };
        let (text, ending) = match (state("text"), state("crlf")) {
            (None, Some(AttributeState::Value(value))) if value == b"input" => {
                (Some(&AttributeState::Set), ending.or(Some(b"lf")))
            }
            (text, crlf) => (text.or(crlf), ending),
        };
        lines(text, ending, autocrlf, eol)
    }

    /// Notes states, and what macros among them stand for, where nothing that counts for more was noted before: what comes later
    /// does, so it is noted first. However often macros name each other, each is looked into once, as Git does it.
    fn apply<'a>(
        &'a self,
        from: &'a [(Vec<u8>, AttributeState)],
        states: &mut HashMap<&'a [u8], &'a AttributeState>,
        depth: usize,
    ) {
        for (name, state) in from.iter().rev() {
            if states.contains_key(&name[..]) {
                continue;
            }
            states.insert(name, state);
            if state == &AttributeState::Set && depth < MACROS_DEEP_MAX {
                if let Some(inner) = self.macros.get(name) {
                    self.apply(inner, states, depth + 1);
                } else if name == b"binary" {
                    // Built in: no text, and no differences of text.
                    states.entry(b"text").or_insert(&AttributeState::Unset);
                }
            }
        }
    }
}

/// Returns what becomes of the ends of lines.
fn lines(
    text: Option<&AttributeState>,
    ending: Option<&[u8]>,
    autocrlf: Option<&[u8]>,
    eol: Option<&[u8]>,
) -> Conversion {
    let auto = autocrlf.is_some_and(is_true);
    let input = autocrlf.is_some_and(|value| value.eq_ignore_ascii_case(b"input"));
    match (text, ending) {
        (Some(AttributeState::Unset), _) => Conversion::None,
        (_, Some(ending)) if ending.eq_ignore_ascii_case(b"crlf") => Conversion::Changed("eol"),
        (_, Some(_)) => Conversion::Lines,
        (None, None) if auto => Conversion::Changed("core.autocrlf"),
        (None, None) if input => Conversion::Lines,
        (None, None) => Conversion::None,
        (Some(_), None) if auto => Conversion::Changed("core.autocrlf"),
        (Some(_), None) if !input && eol.is_some_and(|eol| eol.eq_ignore_ascii_case(b"crlf")) => {
            Conversion::Changed("core.eol")
        }
        (Some(_), None) => Conversion::Lines,
    }
}

fn is_true(value: &[u8]) -> bool {
    let word = String::from_utf8_lossy(value).to_ascii_lowercase();
    matches!(&word[..], "true" | "yes" | "on") || word.parse::<i64>().is_ok_and(|number| number != 0)
}

impl Rule {
    fn matches(&self, path: &[u8]) -> bool {
        let Some(path) = path.strip_prefix(&self.folder[..]) else { return false };
        let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        self.pattern.matches(if self.whole { path } else { last })
    }
}

/// Returns the pattern that a line begins with, which may be quoted as in C, and the rest.
fn first_word(line: &[u8]) -> (Vec<u8>, &[u8]) {
    if line.first() == Some(&b'"')
        && let Some((word, used)) = unquoted(&line[1..])
    {
        return (word, &line[1 + used..]);
    }
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    (line[..end].to_vec(), &line[end..])
}

/// Returns the bytes up to the closing quote, and how many bytes they and it take.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some((out, at + 1)),
            b'\\' => {
                let escaped = *text.get(at + 1)?;
                at += 2;
                out.push(match escaped {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'0'..=b'3' => {
                        let digits = text.get(at - 1..at + 2)?;
                        at += 2;
                        digits.iter().try_fold(0_u8, |number, &digit| {
                            (b'0'..=b'7').contains(&digit).then(|| (number << 3) | (digit - b'0'))
                        })?
                    }
                    other => other,
                });
            }
            byte => {
                out.push(byte);
                at += 1;
            }
        }
    }
}

/// Whether an attribute may be called so.
fn is_name(name: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    name.first().is_some_and(|&first| first != b'-') && name.iter().all(fits)
}

fn state(word: &[u8]) -> (Vec<u8>, AttributeState) {
    let (name, value) = match word.iter().position(|&byte| byte == b'=') {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    // With a sign before the name a value means nothing.
    match (name, value) {
        ([b'-', name @ ..], _) => (name.to_vec(), AttributeState::Unset),
        ([b'!', name @ ..], _) => (name.to_vec(), AttributeState::Unspecified),
        (_, Some(value)) => (name.to_vec(), AttributeState::Value(value.to_vec())),
        (_, None) => (name.to_vec(), AttributeState::Set),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conversion(lines: &str, path: &str) -> Conversion {
        let mut all = Attributes::default();
        all.add(b"", lines.as_bytes());
        all.conversion(path.as_bytes(), None, None)
    }

    #[test]
    fn attributes_tell_which_files_are_converted() {
        for (lines, path, wanted) in [
            ("", "a", Conversion::None),
            ("* text=auto", "a", Conversion::Lines),
            ("* text=auto\n*.png binary", "b/a.png", Conversion::None),
            ("*.txt eol=crlf", "a.txt", Conversion::Changed("eol")),
            ("*.txt eol=crlf", "a.png", Conversion::None),
            ("*.txt text eol=lf", "a.txt", Conversion::Lines),
            ("*.txt crlf", "a.txt", Conversion::Lines),
            ("*.txt -crlf", "a.txt", Conversion::None),
            ("/a filter=lfs -text", "a", Conversion::Changed("filter")),
            ("/a filter=lfs -text", "b/a", Conversion::None),
            ("* filter=lfs\na -filter", "a", Conversion::None),
            ("* filter=lfs\na !filter", "a", Conversion::None),
            ("[attr]odd ident\na odd", "a", Conversion::Changed("ident")),
            ("[attr]odd odd\na odd", "a", Conversion::None),
            ("[attr]odd ident\n* odd\na -odd", "a", Conversion::None),
            ("[attr]odd -ident\na ident odd", "a", Conversion::None),
            ("[attr]odd -ident\na odd ident", "a", Conversion::Changed("ident")),
            ("\"a\\040b\" working-tree-encoding=UTF-16", "a b", Conversion::Changed("working-tree-encoding")),
            ("# a filter=x\n!a filter=x\na/ filter=x", "a", Conversion::None),
            ("\u{feff}* filter=x", "a", Conversion::Changed("filter")),
            ("* filter=x\na -filter b,c", "a", Conversion::Changed("filter")),
            ("* filter=x\na -filter --b", "a", Conversion::Changed("filter")),
            ("* filter=x\n[attr] -filter", "a", Conversion::None),
            ("* filter=x\na -filter=y", "a", Conversion::None),
        ] {
            assert_eq!(conversion(lines, path), wanted, "{lines:?} {path}");
        }
    }

    #[test]
    fn lines_that_are_too_long_for_git_do_not_count() {
        for (bytes, wanted) in [(2047, Conversion::None), (2048, Conversion::Changed("filter"))] {
            let line = "a -filter ".to_owned() + &"b".repeat(bytes - 10);
            assert_eq!(conversion(&format!("* filter=x\n{line}\n"), "a"), wanted, "{bytes}");
        }
    }

    #[test]
    fn macros_are_those_of_files_at_the_top() {
        let mut all = Attributes::default();
        all.add(b"", b"[attr]odd ident\n* odd");
        all.add(b"b/", b"[attr]odd -ident\n[attr]other filter=x\nc other");
        assert_eq!(all.conversion(b"b/a", None, None), Conversion::Changed("ident"));
        assert_eq!(all.conversion(b"b/c", None, None), Conversion::Changed("ident"));
    }

    #[test]
    fn macros_that_name_each_other_many_times_end_soon() {
        let level = |n: usize| format!("[attr]m{n} {}\n", format!("m{} ", n + 1).repeat(50));
        let lines = (0..9).map(level).collect::<String>() + "a m0 filter=x";
        assert_eq!(conversion(&lines, "a"), Conversion::Changed("filter"));
    }

    #[test]
    fn settings_count_where_attributes_are_silent() {
        let none = Attributes::default();
        let some = |text: &'static str| Some(text.as_bytes());
        assert_eq!(none.conversion(b"a", some("true"), None), Conversion::Changed("core.autocrlf"));
        assert_eq!(none.conversion(b"a", some("input"), None), Conversion::Lines);
        assert_eq!(none.conversion(b"a", some("false"), some("crlf")), Conversion::None);
        let mut text = Attributes::default();
        text.add(b"b/", b"* text\nc -text");
        assert_eq!(text.conversion(b"b/x", None, some("crlf")), Conversion::Changed("core.eol"));
        assert_eq!(text.conversion(b"b/c", some("true"), some("crlf")), Conversion::None);
        assert_eq!(text.conversion(b"x", None, some("crlf")), Conversion::None);
    }
}
