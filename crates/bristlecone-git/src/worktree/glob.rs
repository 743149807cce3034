//! Patterns of file names, as `.gitattributes` has them: `*`, `?`, `[a-z]`, and `**` between slashes.

/// Whether `text` as a whole is as `pattern` says. `*` and `?` stand for no slash; `**/` stands for any folders, `/**`
/// for all below.
///
/// Takes at most the product of both lengths in steps.
pub(super) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    // `reached[at]`: the pattern so far can stand for the first `at` bytes.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let (next, part) = part(pattern, at);
        let mut then = vec![false; text.len() + 1];
        match part {
            Part::Star => {
                let mut open = false;
                for (index, &here) in reached.iter().enumerate() {
                    open = here || open && text[index - 1] != b'/';
                    then[index] = open;
                }
            }
            Part::Folders => {
                let mut open = false;
                for (index, &here) in reached.iter().enumerate() {
                    // Nothing, or all up to a slash.
                    then[index] = here || open && text[index - 1] == b'/';
                    open |= here;
                }
            }
            Part::All => {
                let mut open = false;
                for (index, &here) in reached.iter().enumerate() {
                    then[index] = open || here;
                    open |= here;
                }
            }
            Part::One(class) => {
                for (index, &byte) in text.iter().enumerate() {
                    then[index + 1] = reached[index] && class.holds(byte);
                }
            }
        }
        (reached, at) = (then, next);
    }
    reached[text.len()]
}

enum Part<'a> {
    /// Any bytes but slashes.
    Star,
    /// Any folders, each with its slash, or none.
    Folders,
    /// Anything.
    All,
    /// One byte.
    One(Class<'a>),
}

enum Class<'a> {
    Any,
    Byte(u8),
    Set { members: &'a [u8], not: bool },
}

impl Class<'_> {
    fn holds(&self, byte: u8) -> bool {
        match *self {
            Self::Any => byte != b'/',
            Self::Byte(wanted) => byte == wanted,
            Self::Set { members, not } => byte != b'/' && is_member(members, byte) != not,
        }
    }
}

/// Returns the part that begins at `at`, and where the next begins.
fn part(pattern: &[u8], at: usize) -> (usize, Part<'_>) {
    let rest = &pattern[at..];
    match rest[0] {
        b'*' => {
            let stars = rest.iter().take_while(|&&byte| byte == b'*').count();
            let alone = at == 0 || pattern[at - 1] == b'/';
            match rest.get(stars) {
                Some(b'/') if stars == 2 && alone => (at + 3, Part::Folders),
                None if stars == 2 && alone => (at + 2, Part::All),
                _ => (at + stars, Part::Star),
            }
        }
        b'?' => (at + 1, Part::One(Class::Any)),
        b'\\' if rest.len() > 1 => (at + 2, Part::One(Class::Byte(rest[1]))),
        b'[' => match set(rest) {
            Some((length, class)) => (at + length, Part::One(class)),
            None => (at + 1, Part::One(Class::Byte(b'['))),
        },
        byte => (at + 1, Part::One(Class::Byte(byte))),
    }
}

/// Returns the set that `rest` begins with, and its length.
fn set(rest: &[u8]) -> Option<(usize, Class<'_>)> {
    let not = matches!(rest.get(1), Some(b'!' | b'^'));
    let first = if not { 2 } else { 1 };
    let mut at = first;
    loop {
        match rest.get(at)? {
            b']' if at > first => return Some((at + 1, Class::Set { members: &rest[first..at], not })),
            b'\\' => at += 2,
            b'[' if rest.get(at + 1) == Some(&b':') => {
                let end = rest[at + 2..].windows(2).position(|two| two == b":]")?;
                at += 2 + end + 2;
            }
            _ => at += 1,
        }
    }
}

fn is_member(members: &[u8], byte: u8) -> bool {
    let mut rest = members;
    while let Some((&first, behind)) = rest.split_first() {
        if let Some(named) = rest.strip_prefix(b"[:")
            && let Some(end) = named.windows(2).position(|two| two == b":]")
        {
            if is_named(&named[..end], byte) {
                return true;
            }
            rest = &named[end + 2..];
            continue;
        }
        let (low, behind) = match (first, behind.split_first()) {
            (b'\\', Some((&escaped, behind))) => (escaped, behind),
            _ => (first, behind),
        };
        if let [b'-', high, ..] = behind {
            let escaped = *high == b'\\' && behind.len() > 2;
            let (high, used) = if escaped { (behind[2], 3) } else { (*high, 2) };
            if (low..=high).contains(&byte) {
                return true;
            }
            rest = &behind[used..];
        } else {
            if low == byte {
                return true;
            }
            rest = behind;
        }
    }
    false
}

fn is_named(name: &[u8], byte: u8) -> bool {
    match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => matches!(byte, b' ' | b'\t'),
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("\\*", "*"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("**/b", "b"),
            ("**/b", "x/b"),
            ("a/**", "a/x/y"),
            ("a**b", "axxb"),
            ("[", "["),
            ("[a\\]]", "]"),
            ("a/*/c", "a/b/c"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
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
            ("", "a"),
            ("a", ""),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn hard_patterns_end_soon() {
        let (pattern, text) = ("*a".repeat(500), "a".repeat(4000) + "b");
        assert!(!matches(pattern.as_bytes(), text.as_bytes()));
    }
}
