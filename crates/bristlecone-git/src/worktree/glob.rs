//! Patterns of file names, as `.gitattributes` and `.gitignore` have them: `*`, `?`, `[a-z]`, and `**` between slashes.
//!
//! Source: Git's documentation, `gitignore`, "Pattern format"; what it leaves open is as Git answers it.

/// A pattern. `*` and `?` stand for no slash; `**/` stands for any folders, `/**` for all below.
///
/// A pattern that is broken (a set that does not end, an unknown class, a backslash at the end) matches nothing.
#[derive(Debug)]
pub(super) struct Glob {
    // What the text begins with; the parts come behind it.
    front: Vec<u8>,
    // `None` if the pattern is broken.
    parts: Option<Vec<GlobPart>>,
    fold: bool,
}

#[derive(Debug)]
enum GlobPart {
    /// Any bytes but slashes.
    Star,
    /// Any folders, each with its slash, or none.
    Folders,
    /// Anything.
    All,
    /// This byte.
    Byte(u8),
    /// Any byte but a slash.
    Any,
    /// A byte of this set, or one that is not in it; never a slash.
    Set { members: Vec<Member>, not: bool },
}

#[derive(Debug)]
enum Member {
    Byte(u8),
    Range(u8, u8),
    Named(fn(u8) -> bool),
}

impl Glob {
    /// Reads a pattern. With `fold`, capital letters count as small ones.
    pub(super) fn new(pattern: &[u8], fold: bool) -> Self {
        Self { front: Vec::new(), parts: parts(pattern, fold), fold }
    }

    /// Reads a pattern of whole paths. Where stars follow what stands for itself, they count as if they began the
    /// pattern, so that `a**/b` matches `ax/y/b`: Git compares what stands for itself first, and only then looks at the
    /// rest.
    pub(super) fn of_path(pattern: &[u8], fold: bool) -> Self {
        let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
        let mut front = pattern[..end].to_vec();
        if fold {
            front.make_ascii_lowercase();
        }
        Self { front, parts: parts(&pattern[end..], fold), fold }
    }

    /// Whether `text` as a whole is as the pattern says.
    ///
    /// Takes at most the product of both lengths in steps.
    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let folded;
        let text = if self.fold {
            folded = text.to_ascii_lowercase();
            &folded[..]
        } else {
            text
        };
        let (Some(parts), Some(rest)) = (&self.parts, text.strip_prefix(&self.front[..])) else { return false };
        // Most patterns are a name, or a star and the end of one.
        match &parts[..] {
            [GlobPart::Star, end @ ..] if end.iter().all(GlobPart::is_byte) => {
                let split = rest.len().checked_sub(end.len());
                split.is_some_and(|at| are_bytes(end, &rest[at..]) && !rest[..at].contains(&b'/'))
            }
            all if all.iter().all(GlobPart::is_byte) => all.len() == rest.len() && are_bytes(all, rest),
            all => all_match(all, rest, self.fold),
        }
    }
}

impl GlobPart {
    const fn is_byte(&self) -> bool {
        matches!(self, Self::Byte(_))
    }

    /// Whether a part that stands for one byte stands for this one.
    fn holds(&self, byte: u8, fold: bool) -> bool {
        match self {
            Self::Byte(wanted) => byte == *wanted,
            Self::Any => byte != b'/',
            Self::Set { members, not } => byte != b'/' && members.iter().any(|member| member.holds(byte, fold)) != *not,
            Self::Star | Self::Folders | Self::All => false,
        }
    }
}

impl Member {
    /// Whether it stands for this byte, which is small if letters are folded. A capital letter by itself is not: Git
    /// folds ranges and classes alone.
    fn holds(&self, byte: u8, fold: bool) -> bool {
        let is = |byte: u8| match self {
            Self::Byte(wanted) => byte == *wanted,
            Self::Range(low, high) => (*low..=*high).contains(&byte),
            Self::Named(is) => is(byte),
        };
        is(byte) || fold && !matches!(self, Self::Byte(_)) && is(byte.to_ascii_uppercase())
    }
}

fn are_bytes(parts: &[GlobPart], text: &[u8]) -> bool {
    parts.iter().zip(text).all(|(part, &byte)| matches!(part, GlobPart::Byte(wanted) if *wanted == byte))
}

fn all_match(parts: &[GlobPart], text: &[u8], fold: bool) -> bool {
    // `reached[at]`: the parts so far can stand for the first `at` bytes.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for part in parts {
        let mut then = vec![false; text.len() + 1];
        // Whether this part can have begun before `index`, and can go on.
        let mut open = false;
        for (index, &here) in reached.iter().enumerate() {
            let slash = index > 0 && text[index - 1] == b'/';
            match part {
                GlobPart::Star => {
                    open = here || open && !slash;
                    then[index] = open;
                }
                GlobPart::Folders => {
                    // Nothing, or all up to a slash.
                    then[index] = here || open && slash;
                    open |= here;
                }
                GlobPart::All => {
                    open |= here;
                    then[index] = open;
                }
                one => then[index] = index > 0 && reached[index - 1] && one.holds(text[index - 1], fold),
            }
        }
        reached = then;
    }
    reached[text.len()]
}

/// Reads the parts of a pattern; `None` if it is broken.
fn parts(pattern: &[u8], fold: bool) -> Option<Vec<GlobPart>> {
    let small = |byte: u8| if fold { byte.to_ascii_lowercase() } else { byte };
    let mut parts = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        let rest = &pattern[at..];
        let (used, part) = match rest {
            [b'*', ..] => stars(rest, at == 0 || pattern[at - 1] == b'/'),
            [b'?', ..] => (1, GlobPart::Any),
            [b'\\', escaped, ..] => (2, GlobPart::Byte(small(*escaped))),
            [b'\\'] => return None,
            [b'[', ..] => set(rest)?,
            _ => (1, GlobPart::Byte(small(rest[0]))),
        };
        parts.push(part);
        at += used;
    }
    Some(parts)
}

/// Reads the stars that `rest` begins with; `first`: they begin the pattern or follow a slash.
fn stars(rest: &[u8], first: bool) -> (usize, GlobPart) {
    let stars = rest.iter().take_while(|&&byte| byte == b'*').count();
    match &rest[stars..] {
        _ if stars < 2 || !first => (stars, GlobPart::Star),
        [b'/', ..] => (stars + 1, GlobPart::Folders),
        [] | [b'\\', b'/', ..] => (stars, GlobPart::All),
        _ => (stars, GlobPart::Star),
    }
}

/// Reads the set that `rest` begins with: its length, and what is in it. `None` if it does not end, or names a class
/// that there is not.
fn set(rest: &[u8]) -> Option<(usize, GlobPart)> {
    let not = matches!(rest.get(1), Some(b'!' | b'^'));
    let first = if not { 2 } else { 1 };
    let mut at = first;
    let mut members = Vec::new();
    loop {
        match rest.get(at)? {
            b']' if at > first => return Some((at + 1, GlobPart::Set { members, not })),
            b'[' if rest.get(at + 1) == Some(&b':') => {
                let end = at + 2 + rest[at + 2..].iter().position(|&byte| byte == b']')?;
                if let Some(name) = rest[at + 2..end].strip_suffix(b":") {
                    members.push(Member::Named(class(name)?));
                    at = end + 1;
                    continue;
                }
            }
            _ => {}
        }
        let low = member(rest, &mut at)?;
        let ranges = rest.get(at) == Some(&b'-') && rest.get(at + 1).is_some_and(|&byte| byte != b']');
        members.push(if ranges {
            at += 1;
            Member::Range(low, member(rest, &mut at)?)
        } else {
            Member::Byte(low)
        });
    }
}

/// Reads one byte of a set, which a backslash may stand before.
fn member(rest: &[u8], at: &mut usize) -> Option<u8> {
    if rest.get(*at) == Some(&b'\\') {
        *at += 1;
    }
    *at += 1;
    rest.get(*at - 1).copied()
}

/// Returns the class of bytes with a name.
fn class(name: &[u8]) -> Option<fn(u8) -> bool> {
    Some(match name {
        b"alnum" => |byte| byte.is_ascii_alphanumeric(),
        b"alpha" => |byte| byte.is_ascii_alphabetic(),
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => |byte| byte.is_ascii_control(),
        b"digit" => |byte| byte.is_ascii_digit(),
        b"graph" => |byte| byte.is_ascii_graphic(),
        b"lower" => |byte| byte.is_ascii_lowercase(),
        b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
        b"punct" => |byte| byte.is_ascii_punctuation(),
        b"space" => |byte| byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => |byte| byte.is_ascii_uppercase(),
        b"xdigit" => |byte| byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Glob::new(pattern.as_bytes(), false).matches(text.as_bytes())
    }

    #[test]
    fn patterns_match_as_git_matches_them() {
        let yes = [
            ("*.txt", "a.txt"),
            ("*", ".x"),
            ("a?c", "abc"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[]x]", "]"),
            ("[[:digit:]]*", "7up"),
            ("[[:digit]", ":"),
            ("[a-]", "-"),
            ("\\*", "*"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("**/b", "b"),
            ("***/b", "x/b"),
            ("a/**", "a/x/y"),
            ("a/***", "a/x/y"),
            ("a**b", "axxb"),
            ("[a\\]]", "]"),
            ("a/*/c", "a/b/c"),
            ("[A-C]", "B"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        let no = [
            ("*.txt", "a/b.txt"),
            ("a?c", "a/c"),
            ("[a-c]x", "dx"),
            ("[^a-c]x", "/x"),
            ("a/**/b", "ab"),
            ("**/b", "xb"),
            ("a/**", "a"),
            ("a**b", "a/b"),
            ("a/*/c", "a/b/d/c"),
            ("[", "["),
            ("[a", "a"),
            ("[[:odd:]a]", "a"),
            ("a\\", "a\\"),
            ("", "a"),
            ("a", ""),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn what_stands_for_itself_is_compared_first_in_a_path() {
        let of_path = |pattern: &str, text: &str| Glob::of_path(pattern.as_bytes(), false).matches(text.as_bytes());
        assert!(of_path("a**/b", "ax/y/b") && of_path("a**/b", "a/b") && of_path("a/b", "a/b"));
        assert!(!of_path("?**/b", "ax/y/b") && !of_path("a/b", "a/bc") && !of_path("a/b", "a"));
    }

    #[test]
    fn capital_letters_may_count_as_small_ones() {
        let folded = |pattern: &str, text: &str| Glob::of_path(pattern.as_bytes(), true).matches(text.as_bytes());
        for (pattern, text) in
            [("READ*", "readME"), ("[R-R]x", "rX"), ("[r]x", "RX"), ("[[:upper:]]", "a"), ("a/B", "A/b")]
        {
            assert!(folded(pattern, text), "{pattern} {text}");
        }
        assert!(!folded("[!r]", "R") && !folded("[R]", "r"));
    }

    #[test]
    fn hard_patterns_end_soon() {
        let (pattern, text) = ("*a".repeat(500), "a".repeat(4000) + "b");
        assert!(!matches(&pattern, &text));
    }
}
