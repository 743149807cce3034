//! The tokens of a Rust source: enough of its grammar to change an operator and not a comment.

use std::ops::Range;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    /// An operator, of up to three characters; a bracket.
    Sign,
    /// A string, a character or a lifetime.
    Other,
}

/// A token and where it is.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: Range<usize>,
}

/// Operators of several characters, longer ones first.
const SIGNS: [&str; 25] = [
    "<<=", ">>=", "..=", "...", "::", "->", "=>", "==", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=", "/=", "%=",
    "^=", "&=", "|=", "<<", ">>", "..", "$(",
];

/// A source with its tokens, without comments.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) tokens: Vec<Token>,
}

impl Source {
    /// Reads a source that compiles; of another, tokens may be missed.
    pub(crate) fn new(text: String) -> Self {
        let mut tokens = Vec::new();
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let (kind, end) = match bytes[at] {
                b'/' if text[at..].starts_with("//") => (None, line_end(bytes, at)),
                b'/' if text[at..].starts_with("/*") => (None, comment_end(bytes, at)),
                byte if byte.is_ascii_whitespace() => (None, at + 1),
                byte if byte.is_ascii_digit() => (Some(Kind::Number), number_end(bytes, at)),
                b'r' | b'b' | b'c' if string_start(&text[at..]).is_some() => (Some(Kind::Other), string_end(&text, at)),
                b'"' => (Some(Kind::Other), string_end(&text, at)),
                b'\'' => (Some(Kind::Other), quote_end(&text, at)),
                byte if is_word(byte) => (Some(Kind::Word), at + word_bytes(&bytes[at..])),
                _ => {
                    let sign = SIGNS.iter().find(|sign| text[at..].starts_with(**sign));
                    let bytes =
                        sign.map_or_else(|| text[at..].chars().next().map_or(1, char::len_utf8), |sign| sign.len());
                    (Some(Kind::Sign), at + bytes)
                }
            };
            tokens.extend(kind.map(|kind| Token { kind, at: at..end }));
            at = end;
        }
        Self { text, tokens }
    }

    /// Returns the text of a token; empty beyond the ends.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |token| &self.text[token.at.clone()])
    }

    /// Returns the line of a byte, counted from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        1 + self.text[..at].bytes().filter(|&byte| byte == b'\n').count()
    }

    /// Returns the token that closes the bracket at `open`.
    pub(crate) fn closes(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for index in open..self.tokens.len() {
            match self.word(index) {
                "(" | "[" | "{" | "$(" => depth += 1,
                ")" | "]" | "}" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(index);
                    }
                }
                _ => {}
            }
        }
        None
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn word_bytes(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|&&byte| is_word(byte)).count()
}

/// A number ends before `..` and before a method.
fn number_end(bytes: &[u8], at: usize) -> usize {
    let end = at + word_bytes(&bytes[at..]);
    let fraction = bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit);
    if fraction { end + 1 + word_bytes(&bytes[end + 1..]) } else { end }
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |more| at + more)
}

fn comment_end(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0);
    while at < bytes.len() {
        match &bytes[at..bytes.len().min(at + 2)] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the prefix of a string literal up to its quote: `r#"`, `b"`.
fn string_start(text: &str) -> Option<&str> {
    let letters = text.bytes().take_while(|byte| b"rbc".contains(byte)).count();
    let marks = text[letters..].bytes().take_while(|&byte| byte == b'#').count();
    let quoted = text[letters + marks..].starts_with('"') && letters <= 2;
    (quoted && (marks == 0 || text[..letters].contains('r'))).then(|| &text[..=letters + marks])
}

fn string_end(text: &str, at: usize) -> usize {
    let start = string_start(&text[at..]).unwrap_or("\"");
    let raw = start.contains('r');
    let closing = format!("\"{}", "#".repeat(start.matches('#').count()));
    let mut end = at + start.len();
    while end < text.len() && !text[end..].starts_with(&closing) {
        end += if !raw && text.as_bytes()[end] == b'\\' { 2 } else { 1 };
        while !text.is_char_boundary(end.min(text.len())) {
            end += 1;
        }
    }
    (end + closing.len()).min(text.len())
}

/// Returns the end of a character or of a lifetime.
fn quote_end(text: &str, at: usize) -> usize {
    let rest = &text[at + 1..];
    let first = rest.chars().next().map_or(1, char::len_utf8);
    if let Some(escape) = rest.strip_prefix('\\') {
        // The escaped one may be a quote itself.
        let escaped = escape.chars().next().map_or(0, char::len_utf8);
        return at + 2 + escaped + escape[escaped..].find('\'').map_or(0, |more| more + 1);
    }
    if rest[first..].starts_with('\'') { at + first + 2 } else { at + 1 + word_bytes(rest.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_found_and_comments_are_not() {
        let text = "/// a == b\nfn f<'a>(x: &'a str) -> bool { /* > */ x == r#\"a \" < b\"# && b'\\'' != 'x' || 1..0x2f <= y.0 }";
        let source = Source::new(text.to_owned());
        let words: Vec<&str> = (0..source.tokens.len()).map(|index| source.word(index)).collect();
        let wanted =
            "fn f < 'a > ( x : & 'a str ) -> bool { x == r#\"a \" < b\"# && b '\\'' != 'x' || 1 .. 0x2f <= y . 0 }";
        assert_eq!(words.join(" "), wanted);
        assert_eq!(source.closes(14), Some(words.len() - 1));
        assert_eq!(source.line(source.tokens[0].at.start), 2);
    }

    #[test]
    fn the_engine_is_read_to_its_end() {
        let src = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/bristlecone/src");
        for entry in std::fs::read_dir(format!("{src}/disk")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let source = Source::new(std::fs::read_to_string(&path).unwrap());
                let opened = (0..source.tokens.len()).filter(|&index| "([{".contains(source.word(index)));
                let all = opened.inspect(|&open| assert!(source.closes(open).is_some(), "{}: {open}", path.display()));
                assert!(all.count() > 0);
            }
        }
    }
}
