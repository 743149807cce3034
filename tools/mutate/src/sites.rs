//! The places of a source that can be changed, and what each becomes.

use std::ops::Range;

use crate::scan::{Kind, Source};

/// One change of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutation {
    /// The file, below the tree.
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) at: Range<usize>,
    pub(crate) new: String,
    /// What a reader of the table is told.
    pub(crate) what: String,
}

/// Operators with blanks around them, and what they become.
const OPERATORS: [(&str, &str); 21] = [
    ("==", "!="),
    ("!=", "=="),
    ("<", "<="),
    ("<=", "<"),
    (">", ">="),
    (">=", ">"),
    ("+", "-"),
    ("-", "+"),
    ("*", "/"),
    ("/", "*"),
    ("%", "/"),
    ("+=", "-="),
    ("-=", "+="),
    ("<<", ">>"),
    (">>", "<<"),
    ("&", "|"),
    ("|", "&"),
    ("|=", "&="),
    ("&=", "|="),
    ("&&", "||"),
    ("||", "&&"),
];

/// Methods, and what they become.
const METHODS: [(&str, &str); 12] = [
    ("min", "max"),
    ("max", "min"),
    ("is_some", "is_none"),
    ("is_none", "is_some"),
    ("is_ok", "is_err"),
    ("is_err", "is_ok"),
    ("any", "all"),
    ("all", "any"),
    ("first", "last"),
    ("last", "first"),
    ("is_some_and", "is_none_or"),
    ("is_none_or", "is_some_and"),
];

/// What a function returns without doing its work, by its type.
const RETURNS: [(&str, &[&str]); 12] = [
    ("Result<()>", &["Ok(())"]),
    ("io::Result<()>", &["Ok(())"]),
    ("Result<bool>", &["Ok(true)", "Ok(false)"]),
    ("io::Result<bool>", &["Ok(true)", "Ok(false)"]),
    ("bool", &["true", "false"]),
    ("u64", &["0", "1"]),
    ("u32", &["0", "1"]),
    ("usize", &["0", "1"]),
    ("Result<u64>", &["Ok(0)"]),
    ("io::Result<u64>", &["Ok(0)"]),
    ("Result<usize>", &["Ok(0)"]),
    ("io::Result<usize>", &["Ok(0)"]),
];

/// A statement that begins so cannot be left out.
const NOT_A_CALL: [&str; 27] = [
    "let",
    "return",
    "use",
    "const",
    "static",
    "fn",
    "pub",
    "struct",
    "enum",
    "impl",
    "mod",
    "type",
    "trait",
    "extern",
    "for",
    "while",
    "loop",
    "if",
    "match",
    "break",
    "continue",
    "unsafe",
    "where",
    "else",
    "macro_rules",
    "assert",
    "debug_assert",
];

/// Returns every mutation of a source outside of its tests.
pub(crate) fn mutations(file: &str, text: String) -> Vec<Mutation> {
    let mut sites = Sites { source: Source::new(text), file, found: Vec::new() };
    sites.gather();
    sites.found
}

struct Sites<'f> {
    source: Source,
    file: &'f str,
    found: Vec<Mutation>,
}

impl Sites<'_> {
    fn gather(&mut self) {
        let mut index = 0;
        while index < self.source.tokens.len() {
            if let Some(after) = self.passed_over(index) {
                index = after;
                continue;
            }
            self.operator(index);
            self.method(index);
            self.literal(index);
            self.condition(index);
            self.jump(index);
            self.statement(index);
            self.function(index);
            index += 1;
        }
    }

    /// Returns where it goes on behind an attribute, and behind what is compiled for tests alone.
    fn passed_over(&self, index: usize) -> Option<usize> {
        let word = |more: usize| self.source.word(index + more);
        if word(0) != "#" || !matches!(word(1), "[" | "!") {
            return None;
        }
        let open = if word(1) == "!" { index + 2 } else { index + 1 };
        let after = self.source.closes(open)? + 1;
        let tests = ["cfg", "(", "test", ")"].iter().enumerate().all(|(at, wanted)| word(2 + at) == *wanted);
        if !tests {
            return Some(after);
        }
        let body = (after..self.source.tokens.len()).find(|&index| matches!(self.source.word(index), "{" | ";"))?;
        if self.source.word(body) == ";" { Some(body + 1) } else { Some(self.source.closes(body)? + 1) }
    }

    fn add(&mut self, at: Range<usize>, new: &str, what: String) {
        let (file, line) = (self.file.to_owned(), self.source.line(at.start));
        self.found.push(Mutation { file, line, at, new: new.to_owned(), what });
    }

    fn replace(&mut self, index: usize, new: &str) {
        let at = self.source.tokens[index].at.clone();
        let (start, end) = (at.start.saturating_sub(24), (at.end + 24).min(self.source.text.len()));
        let around = |range: Range<usize>| self.source.text.get(range).unwrap_or("").replace('\n', " ");
        let before = around(start..at.start);
        let before = before.rsplit("  ").next().unwrap_or_default().to_owned();
        let after = around(at.end..end);
        let after = after.split("  ").next().unwrap_or_default();
        let what = format!("`{before}{}{after}`: {} for {}", self.source.word(index), new, self.source.word(index));
        self.add(at, new, what);
    }

    /// Whether blanks stand on both sides, as the formatter sets operators of two values.
    fn is_spaced(&self, index: usize) -> bool {
        let at = &self.source.tokens[index].at;
        let blank = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_whitespace);
        let bytes = self.source.text.as_bytes();
        blank(at.start.checked_sub(1).and_then(|at| bytes.get(at))) && blank(bytes.get(at.end))
    }

    fn operator(&mut self, index: usize) {
        let Some((old, new)) = OPERATORS.iter().find(|(old, _)| *old == self.source.word(index)) else { return };
        let Some(before) = index.checked_sub(1) else { return };
        let ends_value = match self.source.tokens[before].kind {
            Kind::Word => !matches!(self.source.word(before), "return" | "in" | "match" | "if" | "while" | "else"),
            Kind::Number | Kind::Other => true,
            Kind::Sign => matches!(self.source.word(before), ")" | "]" | "}" | "?" | ">"),
        };
        let next = self.source.word(index + 1);
        // Bounds of types: `Send + 'a`, `A + Debug`.
        let is_bound = *old == "+" && (next.starts_with('\'') || is_type(next) || is_type(self.source.word(before)));
        if self.is_spaced(index) && ends_value && !is_bound {
            self.replace(index, new);
        }
    }

    fn method(&mut self, index: usize) {
        if index > 0
            && self.source.word(index - 1) == "."
            && self.source.word(index + 1) == "("
            && let Some((_, new)) = METHODS.iter().find(|(old, _)| *old == self.source.word(index))
        {
            self.replace(index, new);
        }
    }

    fn literal(&mut self, index: usize) {
        let word = self.source.word(index).to_owned();
        match (word.as_str(), self.source.tokens[index].kind) {
            ("true", _) => self.replace(index, "false"),
            ("false", _) => self.replace(index, "true"),
            (_, Kind::Number) if index > 0 && self.source.word(index - 1) != "." => {
                let (digits, base) = match word.strip_prefix("0x").or(word.strip_prefix("0X")) {
                    Some(digits) => (digits, 16),
                    None => (&word[..], 10),
                };
                let plain: String = digits.chars().take_while(|c| c.is_digit(base) || *c == '_').collect();
                let suffix = &digits[plain.len()..];
                let Ok(number) = u128::from_str_radix(&plain.replace('_', ""), base) else { return };
                if suffix.starts_with('.') || (base == 10 && word.starts_with("0b")) {
                    return;
                }
                self.replace(index, &format!("{}{suffix}", number + 1));
                if number > 0 {
                    self.replace(index, &format!("{}{suffix}", number - 1));
                }
            }
            _ => {}
        }
    }

    /// The condition of an `if` or a `while` is turned round, and a `!` left out.
    fn condition(&mut self, index: usize) {
        // A macro's name touches its mark.
        let at = self.source.tokens[index].at.start;
        let before = at.checked_sub(1).map_or(b' ', |at| self.source.text.as_bytes()[at]);
        if self.source.word(index) == "!" && !before.is_ascii_alphanumeric() && before != b'#' {
            self.replace(index, "");
        }
        if !matches!(self.source.word(index), "if" | "while") {
            return;
        }
        let (mut at, mut depth) = (index + 1, 0);
        while at < self.source.tokens.len() {
            match self.source.word(at) {
                "(" | "[" => depth += 1,
                ")" | "]" => depth -= 1,
                "{" | "=>" if depth == 0 => break,
                "let" if depth == 0 => return,
                _ => {}
            }
            at += 1;
        }
        if at > index + 1 && at < self.source.tokens.len() {
            let range = self.source.tokens[index + 1].at.start..self.source.tokens[at - 1].at.end;
            let old = self.source.text[range.clone()].to_owned();
            self.add(
                range,
                &format!("!({old})"),
                format!("`{} {}` turned round", self.source.word(index), short(&old)),
            );
        }
    }

    fn jump(&mut self, index: usize) {
        match (self.source.word(index), self.source.word(index + 1)) {
            ("break", ";" | ",") => self.replace(index, "continue"),
            ("continue", ";" | ",") => self.replace(index, "break"),
            _ => {}
        }
    }

    /// A statement that calls or sets something is left out.
    fn statement(&mut self, index: usize) {
        let begins = index > 0 && matches!(self.source.word(index - 1), ";" | "{" | "}");
        let first = self.source.word(index);
        if !begins || self.source.tokens[index].kind == Kind::Number || NOT_A_CALL.contains(&first) {
            return;
        }
        if !matches!(self.source.tokens[index].kind, Kind::Word) && !matches!(first, "*" | "(") {
            return;
        }
        let (mut at, mut does) = (index, false);
        while at < self.source.tokens.len() {
            match self.source.word(at) {
                "(" | "[" | "{" => {
                    does |= self.source.word(at) == "(";
                    let Some(closed) = self.source.closes(at) else { return };
                    at = closed;
                }
                "=" | "+=" | "-=" | "|=" | "&=" => does = true,
                // A field of a literal, an arm of a match, the last value of a block.
                ":" | "," | "=>" | "}" | ")" => return,
                ";" => break,
                _ => {}
            }
            at += 1;
        }
        if does && at < self.source.tokens.len() {
            let range = self.source.tokens[index].at.start..self.source.tokens[at].at.end;
            let old = short(&self.source.text[range.clone()]);
            self.add(range, "", format!("`{old}` left out"));
        }
    }

    /// A function returns at once.
    fn function(&mut self, index: usize) {
        if self.source.word(index) != "fn" || self.source.tokens[index].kind != Kind::Word {
            return;
        }
        let name = self.source.word(index + 1).to_owned();
        let Some(open) = (index..self.source.tokens.len()).find(|&at| self.source.word(at) == "(") else { return };
        let Some(closed) = self.source.closes(open) else { return };
        let Some(body) = (closed..self.source.tokens.len()).find(|&at| matches!(self.source.word(at), "{" | ";"))
        else {
            return;
        };
        if self.source.word(body) == ";" {
            return;
        }
        let start = self.source.tokens[body].at.end;
        if body == closed + 1 {
            return self.add(start..start, " if true { return; }", format!("`{name}` returns at once"));
        }
        if self.source.word(closed + 1) != "->" {
            return;
        }
        let range = self.source.tokens[closed + 2].at.start..self.source.tokens[body - 1].at.end;
        let returned = self.source.text[range].to_owned();
        let values: Vec<&str> = match RETURNS.iter().find(|(of, _)| *of == returned) {
            Some((_, values)) => values.to_vec(),
            None if returned.starts_with("Option<") => vec!["None"],
            None if returned.starts_with("Result<Option<") || returned.starts_with("io::Result<Option<") => {
                vec!["Ok(None)"]
            }
            None => return,
        };
        for value in values {
            self.add(
                start..start,
                &format!(" if true {{ return {value}; }}"),
                format!("`{name}` returns {value} at once"),
            );
        }
    }
}

/// Whether a word is written as types are.
fn is_type(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) && word.contains(|c: char| c.is_ascii_lowercase())
}

fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= 60 { text } else { text.chars().take(57).chain("...".chars()).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> Vec<String> {
        let apply = |one: Mutation| [&text[..one.at.start], &one.new, &text[one.at.end..]].concat();
        mutations("file.rs", text.to_owned()).into_iter().map(apply).collect()
    }

    #[test]
    fn operators_and_numbers_are_changed_and_types_are_not() {
        assert_eq!(changed("const A: T<B> = a + b;"), ["const A: T<B> = a - b;"]);
        assert_eq!(changed("const A: u8 = 0x1f;"), ["const A: u8 = 32;", "const A: u8 = 30;"]);
        assert_eq!(changed("type A = dyn Send + 'static;"), [""; 0]);
        assert_eq!(changed("#[cfg(test)]\nmod tests { fn f() { a(); } }\n"), [""; 0]);
        assert_eq!(
            changed("#[inline(always)] const A: B = C { d: true };"),
            ["#[inline(always)] const A: B = C { d: false };"]
        );
        assert_eq!(changed("const A: B = |c: &D| c.0 <= c.1;"), ["const A: B = |c: &D| c.0 < c.1;"]);
    }

    #[test]
    fn conditions_statements_and_functions_are_changed() {
        let all = changed("fn f(a: &A) -> io::Result<()> { if a.b() { a.sync()?; } Ok(c) }");
        let wanted = [
            "fn f(a: &A) -> io::Result<()> { if true { return Ok(()); } if a.b() { a.sync()?; } Ok(c) }",
            "fn f(a: &A) -> io::Result<()> { if !(a.b()) { a.sync()?; } Ok(c) }",
            "fn f(a: &A) -> io::Result<()> { if a.b() {  } Ok(c) }",
        ];
        assert_eq!(all, wanted);
        let all = changed("fn f(a: A) { while !a { break; } }");
        let wanted = [
            "fn f(a: A) { if true { return; } while !a { break; } }",
            "fn f(a: A) { while !(!a) { break; } }",
            "fn f(a: A) { while a { break; } }",
            "fn f(a: A) { while !a { continue; } }",
        ];
        assert_eq!(all, wanted);
    }
}
