//! Which refs a transfer takes.

use std::collections::HashMap;

use crate::history::error::TransferError;

/// Patterns of names of refs; without any, all below `refs/` match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Vec<String>);

/// Returns those of `names` that patterns choose, in their order; all of them if there are no patterns. A pattern is as in
/// [`ImportOptions::refs`](super::ImportOptions::refs).
///
/// # Errors
/// [`TransferError::NoRef`] for a pattern that no name matches; `from` names the store in it.
pub fn choose_refs<'n>(from: &str, names: &[&'n str], patterns: &[String]) -> Result<Vec<&'n str>, TransferError> {
    Patterns::new(patterns).select(from, names)
}

/// Where a short name is looked for.
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];

impl Patterns {
    pub(crate) fn new(patterns: &[String]) -> Self {
        Self(patterns.to_vec())
    }

    /// Returns those of `names` that match, in their order.
    ///
    /// A pattern is a full name, a glob in which `*` stands for anything and `?` for one character, or the short name
    /// of a tag, branch or remote branch, in this order, as Git understands it. `from` names the repository or store in
    /// errors.
    pub(crate) fn select<'n>(&self, from: &str, names: &[&'n str]) -> Result<Vec<&'n str>, TransferError> {
        if self.0.is_empty() {
            return Ok(names.to_vec());
        }
        let mut wanted = vec![false; names.len()];
        // Whoever has chosen already gives each ref its full name: as many patterns as there are refs.
        let places: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        for pattern in &self.0 {
            let found = PREFIXES.iter().any(|prefix| {
                let full = format!("{prefix}{pattern}");
                if !full.contains(['*', '?']) {
                    let at = places.get(&*full);
                    if let Some(&at) = at {
                        wanted[at] = true;
                    }
                    return at.is_some();
                }
                let mut found = false;
                for (name, wanted) in names.iter().zip(&mut wanted) {
                    let is = matches(full.as_bytes(), name.as_bytes());
                    *wanted |= is;
                    found |= is;
                }
                found
            });
            if !found {
                return Err(TransferError::NoRef { from: from.to_owned(), pattern: pattern.clone() });
            }
        }
        Ok(names.iter().zip(wanted).filter_map(|(&name, wanted)| wanted.then_some(name)).collect())
    }

    /// Whether a name is chosen that may be no text.
    pub(crate) fn chooses(&self, name: &[u8]) -> bool {
        let fits =
            |pattern: &String| PREFIXES.iter().any(|prefix| matches(format!("{prefix}{pattern}").as_bytes(), name));
        self.0.is_empty() || self.0.iter().any(fits)
    }
}

/// Whether a name is what a glob says, in which `*` stands for anything and `?` for one byte.
///
/// Takes at most the product of their lengths in steps.
pub fn matches(glob: &[u8], name: &[u8]) -> bool {
    let (mut at, mut of) = (0, 0);
    // Where to go on if what follows the last star does not match here.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match glob.get(of) {
            Some(b'*') => {
                star = Some((of, at));
                of += 1;
            }
            Some(&letter) if letter == b'?' || letter == name[at] => (at, of) = (at + 1, of + 1),
            _ => match star {
                Some((back, from)) => {
                    star = Some((back, from + 1));
                    (at, of) = (from + 1, back + 1);
                }
                None => return false,
            },
        }
    }
    glob[of..].iter().all(|&letter| letter == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_refs_are_chosen_by_their_full_names() {
        let names: Vec<String> = (0..100_000).map(|number| format!("refs/heads/{number:06}")).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(Patterns::new(&names).select("there", &all).unwrap(), all);
    }

    #[test]
    fn names_and_globs_choose_refs() {
        let names = ["refs/heads/main", "refs/heads/x/main", "refs/remotes/o/x", "refs/tags/main", "refs/tags/v1"];
        let select = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
            Patterns::new(&patterns).select("there", &names)
        };
        assert_eq!(select(&[]).unwrap(), names);
        assert_eq!(select(&["main"]).unwrap(), ["refs/tags/main"]);
        assert_eq!(select(&["heads/main", "v1"]).unwrap(), ["refs/heads/main", "refs/tags/v1"]);
        assert_eq!(select(&["refs/heads/*"]).unwrap(), ["refs/heads/main", "refs/heads/x/main"]);
        assert_eq!(select(&["v?"]).unwrap(), ["refs/tags/v1"]);
        assert_eq!(select(&["o/*"]).unwrap(), ["refs/remotes/o/x"]);
        assert_eq!(select(&["*"]).unwrap(), names);
        let chooses = |pattern: &str| Patterns::new(&[pattern.to_owned()]).chooses(b"refs/heads/caf\xe9");
        assert!(Patterns::new(&[]).chooses(b"refs/heads/caf\xe9") && chooses("refs/heads/*") && chooses("caf?"));
        assert!(!chooses("refs/tags/*") && !chooses("main"));
        assert!(matches!(select(&["nothing"]), Err(TransferError::NoRef { .. })));
        assert_eq!(select(&["x/main", "refs/heads/x/main", "main"]).unwrap(), ["refs/heads/x/main", "refs/tags/main"]);
        assert!(!matches(b"*a*b", b"aaaaaaac") && matches(b"*a*b", b"xxaxxb") && matches(b"**", b""));
    }
}
