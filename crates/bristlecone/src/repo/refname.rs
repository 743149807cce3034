//! Names of refs: those that Git accepts, so that they go through.

use crate::{Error, RefMove, Result};

/// Checks that `name` can name a ref: what `git check-ref-format --allow-onelevel` accepts.
///
/// # Errors
/// [`Error::RefName`].
pub fn check_ref_name(name: &str) -> Result<()> {
    let component = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    let character = |c: char| !matches!(c, '\0'..=' ' | '\u{7f}' | '~' | '^' | ':' | '?' | '*' | '[' | '\\');
    let sound = name.len() <= RefMove::NAME_BYTES_MAX
        && name.split('/').all(component)
        && name.chars().all(character)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && name != "@";
    if sound { Ok(()) } else { Err(Error::RefName { name: name.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_git_accepts_and_nothing_else() {
        for name in ["main", "refs/heads/a/b", "v1.0", "\u{e9}t\u{e9}", "a@b", "-x", "a\u{80}\u{9f}"] {
            assert!(check_ref_name(name).is_ok(), "{name}");
        }
        for name in [
            "", "a..b", "/a", "a/", "a//b", "a b", ".a", "a/.b", "a.lock", "a.", "@", "a@{b", "a~", "a\u{7f}",
            "a\u{1f}", "a\nb", "a\\b",
        ] {
            assert!(check_ref_name(name).is_err(), "{name}");
        }
    }
}
