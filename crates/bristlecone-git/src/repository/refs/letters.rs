//! Where files whose names differ by the case of letters alone are one (`core.ignoreCase`): a file or folder keeps the letters that
//! it was made with, so a ref in other letters would be listed by those, or be another ref.
//!
//! A ref is refused whose file, or a folder above, is there in other letters. Listings tell, and take as long as there are refs; so
//! what was found is noted with the number of the folder, or all that the system says of the file.

use std::collections::{BTreeSet, HashMap};

use bristlecone::{Result, storage::Stat};

use super::Refs;
use crate::repository::{
    files::{below, folder},
    mutex::lock,
};

/// Files and folders that are noted, at most.
const NOTED_MAX: usize = 4096;

/// The letters of a file or folder.
#[derive(Debug, PartialEq, Eq)]
enum Letters {
    /// There is none, in whatever letters.
    Absent,
    /// It has its name in these letters.
    Own,
    /// It has others: its own path.
    Other(String),
}

/// Files and folders that have their names in these letters.
#[derive(Debug, Default)]
pub(super) struct Noted(HashMap<String, Stat>);

impl Noted {
    fn has(&self, path: &str, now: &Stat) -> bool {
        self.0.get(path).is_some_and(|known| {
            // Files come and go in a folder that stays.
            now.id != 0 && if now.dir { known.dir && known.id == now.id } else { known == now }
        })
    }

    fn add(&mut self, path: &str, stat: Stat) {
        if self.0.len() >= NOTED_MAX {
            self.0.clear();
        }
        self.0.insert(path.to_owned(), stat);
    }
}

/// Names of refs, and of the folders above with a slash at the end: in small letters, and as they are.
#[derive(Debug)]
pub(crate) struct FoldedNames(BTreeSet<(String, String)>);

impl FoldedNames {
    pub(crate) fn of<'n>(names: impl Iterator<Item = &'n String>) -> Self {
        let (mut folded, mut last) = (BTreeSet::new(), "");
        for name in names {
            folded.insert((small(name).collect::<String>(), name.clone()));
            if folder(name) != last {
                last = folder(name);
                let folders = name.match_indices('/').map(|(at, _)| &name[..=at]);
                folded.extend(folders.map(|dir| (small(dir).collect::<String>(), dir.to_owned())));
            }
        }
        Self(folded)
    }

    /// Returns what is in the way of a ref, if these are all the refs that there are to be: another, or a folder of others.
    pub(crate) fn clash(&self, name: &str) -> Option<&str> {
        let beside = self.name_in_other_case(name).or_else(|| self.folder_in_other_case(name));
        let other = beside.or_else(|| self.place_in_other_case(name))?;
        Some(other.strip_suffix('/').unwrap_or(other))
    }

    /// Returns a ref whose name differs from this one by the case of letters alone.
    pub(super) fn name_in_other_case(&self, name: &str) -> Option<&str> {
        self.like(name).find(|other| *other != name)
    }

    /// Returns a folder whose name differs from that of a folder of this one by the case of letters alone.
    pub(super) fn folder_in_other_case(&self, name: &str) -> Option<&str> {
        let mut folders = name.match_indices('/').map(|(at, _)| &name[..=at]);
        folders.find_map(|own| self.like(own).find(|other| *other != own))
    }

    /// Returns a folder whose name differs from that of this ref by the case of letters alone, or a ref whose name so differs from
    /// that of a folder of this one.
    pub(super) fn place_in_other_case(&self, name: &str) -> Option<&str> {
        let below = self.like(&format!("{name}/")).find(|other| other.trim_end_matches('/') != name);
        let mut folders = name.match_indices('/').map(|(at, _)| &name[..at]);
        below.or_else(|| folders.find_map(|own| self.like(own).find(|other| *other != own)))
    }

    /// Returns names and folders that are this one but for the case of letters.
    fn like<'r>(&'r self, name: &str) -> impl Iterator<Item = &'r str> + use<'r> {
        let small: String = small(name).collect();
        let from = self.0.range((small.clone(), String::new())..);
        from.take_while(move |(other, _)| *other == small).map(|(_, other)| other.as_str())
    }
}

/// Returns the small letters of a name. Systems that ignore case ignore it beyond ASCII, too.
fn small(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_lowercase)
}

impl Refs {
    /// Returns a ref for which the folders of this one have other letters. The lock of a ref makes its folders, so this comes before.
    pub(super) fn folder_in_other_case(&self, name: &str, path: &str) -> Result<Option<String>> {
        if !self.ignore_case {
            return Ok(None);
        }
        for (at, _) in path.match_indices('/') {
            match self.letters(&path[..at])? {
                Letters::Own => continue,
                Letters::Absent => {}
                Letters::Other(dir) => match self.list_sound(&format!("{dir}/"), &mut |_| Ok(()))?.into_keys().next() {
                    Some(other) => return Ok(Some(other)),
                    // Whoever was refused a ref there may have left it.
                    None if matches!(self.remove_empty_dirs(&dir), Ok(true)) => {}
                    None => return Ok(Some(dir)),
                },
            }
            // Of packed ones the first that moves makes the folder, and no other is to be the first.
            let packed = self.packed()?;
            let known = packed.by_name.contains_key(name);
            return Ok(if known { None } else { packed.folder_in_other_case(name).map(str::to_owned) });
        }
        Ok(None)
    }

    /// Returns a ref with the name of this one but for the case of letters, if this one has no file.
    pub(super) fn file_in_other_case(&self, name: &str, path: &str) -> Result<Option<String>> {
        if !self.ignore_case {
            return Ok(None);
        }
        match self.letters(path)? {
            Letters::Own => return Ok(None),
            Letters::Other(other) if !self.files.stat(&other)?.is_some_and(|stat| stat.dir) => {
                let own = other.rsplit('/').next().unwrap_or(&other);
                return Ok(Some(below(folder(name), own)));
            }
            // Of folders it is looked whether there is anything in them.
            Letters::Absent | Letters::Other(_) => {}
        }
        Ok(self.packed()?.in_other_case(name).map(str::to_owned))
    }

    /// Whether there is a file of this path, with all folders above, in these letters.
    pub(super) fn is_in_own_letters(&self, path: &str) -> Result<bool> {
        for end in path.match_indices('/').map(|(at, _)| at).chain([path.len()]) {
            if self.letters(&path[..end])? != Letters::Own {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes that the file of a ref, whose lock is held, has the letters of its path: this process has just written it.
    pub(super) fn note_letters(&self, path: &str) {
        // What is not noted is looked for the next time.
        if self.ignore_case
            && let Ok(Some(stat)) = self.files.stat(path)
        {
            lock(&self.noted).add(path, stat);
        }
    }

    /// Returns the letters of a file or folder.
    fn letters(&self, path: &str) -> Result<Letters> {
        let found = self.files.stat(path)?;
        match &found {
            // One in other letters would have been found.
            None if self.folds()? => return Ok(Letters::Absent),
            Some(stat) if lock(&self.noted).has(path, stat) => return Ok(Letters::Own),
            _ => {}
        }
        let (dir, own) = path.rsplit_once('/').unwrap_or(("", path));
        let entries = self.files.list(dir)?;
        if entries.iter().any(|entry| entry == own) {
            if let Some(stat) = found {
                lock(&self.noted).add(path, stat);
            }
            return Ok(Letters::Own);
        }
        if let Some(entry) = entries.into_iter().find(|entry| small(entry).eq(small(own))) {
            return Ok(Letters::Other(below(dir, &entry)));
        }
        match found {
            // Some systems list an é as an e with an accent behind it, whatever it was made as: those are no other letters.
            Some(stat) if !own.is_ascii() && self.files.stat(path)?.is_some() => {
                lock(&self.noted).add(path, stat);
                Ok(Letters::Own)
            }
            // The system has rules of its own, unless it is gone by now.
            Some(_) if self.files.stat(path)?.is_some() => Ok(Letters::Other(path.to_owned())),
            _ => Ok(Letters::Absent),
        }
    }

    /// Whether the file system itself takes such names for one, as far as the numbers of folders tell.
    fn folds(&self) -> Result<bool> {
        if let Some(&folds) = self.folds.get() {
            return Ok(folds);
        }
        let (lower, upper) = (self.files.stat("refs")?, self.files.stat("REFS")?);
        let folds = lower.zip(upper).is_some_and(|(lower, upper)| lower.id != 0 && lower.id == upper.id);
        Ok(*self.folds.get_or_init(|| folds))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use bristlecone::{Error, RefTarget, core::git::Algorithm};
    use bristlecone_testkit::sim::{Folding, Hooked};

    use super::*;
    use crate::repository::{
        files::Files,
        refs::{LockWait, LogRules, MoveRules},
    };

    fn refs() -> (Refs, Arc<AtomicUsize>) {
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let folding = Hooked::new(Arc::new(Folding::default()), move |coming| {
            counted.fetch_add(usize::from(coming.method == "list"), Relaxed);
        });
        let files = Files::new(Arc::new(folding));
        files.create_dir("refs/heads").unwrap();
        (Refs::with_files(files, Algorithm::Sha1, "").with_ignore_case(true), lists)
    }

    fn set(refs: &Refs, name: &str) -> Result<()> {
        let log = LogRules { begin: false, all: false, who: Vec::new() };
        let rules = MoveRules { wait: LockWait { held_ms: 0 }, log };
        let target = RefTarget::Symbolic("refs/heads/main".to_owned());
        refs.lock_ref(name, &rules)?.set(refs.stage_now(&target, false)?, false, &[])
    }

    #[test]
    fn names_are_told_that_cannot_be_beside_each_other() {
        let names = ["refs/heads/a", "refs/heads/Dir/x", "refs/heads/dir/own"].map(str::to_owned);
        for (name, other) in [
            ("refs/heads/A", Some("refs/heads/a")),
            ("refs/heads/A/x", Some("refs/heads/a")),
            ("refs/heads/DIR", Some("refs/heads/Dir")),
            ("refs/heads/DIR/y", Some("refs/heads/Dir")),
            ("refs/heads/dir/y", Some("refs/heads/Dir")),
            ("refs/heads/a", None),
            ("refs/heads/ab", None),
        ] {
            assert_eq!(FoldedNames::of(names.iter()).clash(name), other, "{name}");
        }
    }

    #[test]
    fn a_ref_and_a_packed_one_in_other_letters_do_not_lie_below_each_other() {
        let (refs, _) = refs();
        let line = format!("{} refs/heads/Dir/x\n{0} refs/heads/side\n", "1".repeat(40));
        refs.files.write("packed-refs", line.as_bytes()).unwrap();
        for (name, in_the_way) in [("refs/heads/Side/x", "refs/heads/side"), ("refs/heads/dir", "refs/heads/Dir/x")] {
            let made = set(&refs, name);
            assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == in_the_way), "{made:?}");
        }
        set(&refs, "refs/heads/side").unwrap();
        set(&refs, "refs/heads/Dir/x").unwrap();
    }

    #[test]
    fn a_ref_is_not_made_in_a_folder_that_has_other_letters() {
        let (refs, _) = refs();
        set(&refs, "refs/heads/foo/y").unwrap();
        for name in ["refs/heads/Foo/x", "refs/heads/FOO/Y", "refs/heads/Foo/x/z"] {
            let made = set(&refs, name);
            assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == "refs/heads/foo/y"), "{made:?}");
        }
        set(&refs, "refs/heads/foo/x").unwrap();
        let names: Vec<String> = refs.list("").unwrap().into_keys().collect();
        assert_eq!(names, ["refs/heads/foo/x", "refs/heads/foo/y"]);
        // Packed ones take their folder when they move.
        let line = format!("{} refs/heads/bar/y\n{0} refs/heads/Bar/z\n", "1".repeat(40));
        refs.files.write("packed-refs", line.as_bytes()).unwrap();
        let made = set(&refs, "refs/heads/BAR/x");
        assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == "refs/heads/Bar/z"), "{made:?}");
        set(&refs, "refs/heads/bar/y").unwrap();
        assert_eq!(refs.files.list("refs/heads").unwrap(), ["bar", "foo"]);
        assert!(matches!(set(&refs, "refs/heads/Bar/z"), Err(Error::RefClash { .. })));
    }

    /// As on HFS+, which lists the name in another form than it was made in.
    #[test]
    fn names_beyond_ascii_are_told_apart_by_case_alone_where_files_ignore_it() {
        let (refs, _) = refs();
        refs.files.write("refs/heads/e\u{301}", b"ref: refs/heads/main\n").unwrap();
        refs.files.create_dir("refs/heads/e\u{301}e").unwrap();
        for name in ["refs/heads/\u{e9}", "refs/heads/\u{e9}e/x", "refs/heads/\u{fc}"] {
            set(&refs, name).unwrap();
            set(&refs, name).unwrap();
        }
        let made = set(&refs, "refs/heads/\u{dc}");
        assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == "refs/heads/\u{fc}"), "{made:?}");
        let names: Vec<String> = refs.list("").unwrap().into_keys().collect();
        assert_eq!(names, ["refs/heads/e\u{301}", "refs/heads/e\u{301}e/x", "refs/heads/\u{fc}"]);
        let line = format!("{} refs/heads/\u{f6}\n", "1".repeat(40));
        refs.files.write("packed-refs", line.as_bytes()).unwrap();
        let made = set(&refs, "refs/heads/\u{d6}");
        assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == "refs/heads/\u{f6}"), "{made:?}");
    }

    #[test]
    fn folders_of_refs_are_listed_once_where_files_ignore_case() {
        let (refs, lists) = refs();
        for n in 0..20 {
            set(&refs, &format!("refs/heads/many/{n}")).unwrap();
        }
        let first = lists.load(Relaxed);
        assert!(first < 20, "{first} listings for 20 refs");
        for n in 0..20 {
            set(&refs, &format!("refs/heads/many/{n}")).unwrap();
        }
        assert_eq!(lists.load(Relaxed), first);
        // A Git has made the file anew, in other letters.
        set(&refs, "refs/heads/side").unwrap();
        refs.files.remove("refs/heads/side").unwrap();
        refs.files.write("refs/heads/SIDE", b"ref: refs/heads/main\n").unwrap();
        let made = set(&refs, "refs/heads/side");
        assert!(matches!(&made, Err(Error::RefClash { other, .. }) if other == "refs/heads/SIDE"), "{made:?}");
    }
}
