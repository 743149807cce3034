//! What of a folder is taken: all but what patterns leave out.
//!
//! In a Git repository these are Git's own, and a path that the index has is not ignored. In a store of its own they are
//! those of a `.coneignore` in the folder. What the caller excludes counts before both, and for paths of the index, too.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{EntryKind, core::git::Algorithm, escape};
use bristlecone_git::{
    layout::Layout,
    worktree::{Refusal, Settings, Submodule, Tracked, TreeItem, ignore, ignore::Patterns, submodule},
};

use super::{FolderError, ImportOptions};
use crate::{
    AnyRepo,
    error::{Error, Result},
    folder::hidden::is_hidden_name,
    text::shown,
};

/// The file of patterns of a store of its own, in the folder that is imported.
const CONE_IGNORE: &str = ".coneignore";
const GIT_IGNORE: &str = ".gitignore";
/// How much was left out by one file of patterns. A folder counts once, with all that is in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Files and links.
    pub files: u64,
    /// Folders.
    pub dirs: u64,
}

/// What a path is to become.
pub(super) enum Verdict {
    Taken,
    /// It is left out, by this file or by the caller.
    Ignored(Option<Arc<str>>),
    /// The folder is ignored by this file, but the index has something in it.
    Partly(Arc<str>),
}

/// What counts in a folder.
#[derive(Clone)]
pub(super) enum Scope {
    /// These patterns, the nearest first.
    Patterns(Option<Arc<Link>>),
    /// It is ignored, by this file.
    Ignored(Arc<str>),
}

/// A file of patterns, and those that count for less.
pub(super) struct Link {
    patterns: Patterns,
    source: Arc<str>,
    next: Option<Arc<Link>>,
}

impl Drop for Link {
    /// Links are as many as folders lie in each other: they go one after the other, and not each within the one before.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut link) = next.and_then(Arc::into_inner) {
            next = link.next.take();
        }
    }
}

/// The rules of an import.
pub(super) struct Rules {
    excludes: Patterns,
    top: Scope,
    git: Option<Git>,
    // Whether also that is taken what is left out without being asked.
    all: bool,
    // By the name of the file of patterns.
    ignored: BTreeMap<Option<Arc<str>>, Ignored>,
}

/// What counts in a Git repository.
struct Git {
    algorithm: Algorithm,
    // Where the folder is in the working tree, with a slash at its end; empty at the top, and for folders elsewhere.
    prefix: Vec<u8>,
    tracked: Option<Tracked>,
    // Whether the files of patterns in folders count.
    reads: bool,
    fold: bool,
    // Whether the system's files have executable bits, and links, that count.
    modes: bool,
    links: bool,
}

impl Rules {
    /// Returns the rules for the folder `dir`.
    ///
    /// Refused if the folder itself is ignored, or is the store's own.
    pub(super) fn of(repo: &AnyRepo, dir: &FilePath, options: &ImportOptions) -> Result<Self> {
        if let (Some(store), None) = (repo.dir(), repo.git()) {
            refuse_store(store, dir)?;
        }
        let mut excludes = Patterns::new(b"", false);
        for pattern in &options.exclude {
            excludes.add(pattern.as_bytes());
        }
        let (top, ignored) = (Scope::Patterns(None), BTreeMap::new());
        let mut rules = Self { excludes, top, git: None, all: options.all, ignored };
        match repo.git() {
            Some((_, layout)) => rules.read_git(layout, dir, options.all)?,
            None if !options.all => rules.top = rules.with_file(&Scope::Patterns(None), dir, b"", CONE_IGNORE)?,
            None => {}
        }
        Ok(rules)
    }

    fn read_git(&mut self, layout: &Layout, dir: &FilePath, all: bool) -> Result<()> {
        let settings = Settings::of(layout)?;
        let dir = &fs::canonicalize(dir).map_err(|error| Error::io("read the folder", dir, error))?;
        let (tracked, steps) = tracked(layout, dir)?;
        let git = self.git.insert(Git {
            algorithm: layout.algorithm,
            prefix: Vec::new(),
            tracked,
            reads: !all,
            fold: settings.bool("core.ignoreCase") == Some(true),
            modes: settings.bool("core.fileMode") != Some(false),
            links: settings.bool("core.symlinks") != Some(false),
        });
        if all {
            git.prefix = steps.iter().flat_map(|step| [&step[..], b"/"].concat()).collect();
            return Ok(());
        }
        let above = layout.worktree.clone().unwrap_or_else(|| dir.to_owned());
        let files = [above.join(settings.excludes_file()), layout.common_dir.join("info/exclude")];
        for file in files {
            let source = file.strip_prefix(&above).unwrap_or(&file).to_owned();
            let bytes = outside(&file)?;
            self.top = self.with_patterns(&self.top.clone(), b"", shown(&source), bytes);
        }
        self.go_down(dir, steps)
    }

    /// Reads the ignore files from the top of the working tree down to the folder.
    fn go_down(&mut self, dir: &FilePath, steps: Vec<Vec<u8>>) -> Result<()> {
        let mut place = dir.ancestors().nth(steps.len()).unwrap_or(dir).to_owned();
        let mut path = Vec::new();
        for step in steps {
            self.top = self.with_file(&self.top.clone(), &place, &path, GIT_IGNORE)?;
            path.extend_from_slice(&step);
            match self.ruled(&self.top, &path, true) {
                Verdict::Taken => {}
                Verdict::Partly(source) => self.top = Scope::Ignored(source),
                Verdict::Ignored(source) => {
                    let by = source.map(|source| source.to_string()).unwrap_or_default();
                    return Err(FolderError::Ignored { dir: dir.to_owned(), by }.into());
                }
            }
            path.push(b'/');
            place.push(std::ffi::OsStr::from_bytes(&step));
        }
        self.top = self.with_file(&self.top.clone(), &place, &path, GIT_IGNORE)?;
        if let Some(git) = &mut self.git {
            git.prefix = path;
        }
        Ok(())
    }

    /// Returns what counts in the imported folder.
    pub(super) fn top(&self) -> Scope {
        self.top.clone()
    }

    /// Whether the store is a Git repository, in which repositories in the folder are submodules.
    pub(super) fn is_git(&self) -> bool {
        self.git.is_some()
    }

    /// Returns what counts in the folder `path` at `place`, in one where `scope` does.
    pub(super) fn below(&self, scope: &Scope, place: &FilePath, path: &[u8]) -> Result<Scope> {
        match &self.git {
            Some(git) if git.reads => {
                let folder = [&git.prefix[..], path, b"/"].concat();
                self.with_file(scope, place, &folder, GIT_IGNORE)
            }
            _ => Ok(scope.clone()),
        }
    }

    /// Returns what is to become of a path, and counts what is left out. `path` is from the imported folder.
    pub(super) fn verdict(&mut self, scope: &Scope, path: &[u8], is_folder: bool) -> Verdict {
        let verdict = match self.excludes.ignores(path, is_folder) {
            Some(true) => Verdict::Ignored(None),
            Some(false) => Verdict::Taken,
            None => self.ruled(scope, &self.whole(path), is_folder),
        };
        if let Verdict::Ignored(source) = &verdict {
            let count = self.ignored.entry(source.clone()).or_default();
            *(if is_folder { &mut count.dirs } else { &mut count.files }) += 1;
        }
        verdict
    }

    /// The same by ignore files alone. `path` is from the top of the working tree.
    fn ruled(&self, scope: &Scope, path: &[u8], is_folder: bool) -> Verdict {
        let source = match scope {
            Scope::Ignored(source) => Some(source),
            Scope::Patterns(nearest) => {
                let mut links = std::iter::successors(nearest.as_ref(), |link| link.next.as_ref());
                let decided = links.find_map(|link| Some((link, link.patterns.ignores(path, is_folder)?)));
                decided.filter(|(_, ignored)| *ignored).map(|(link, _)| &link.source)
            }
        };
        let Some(source) = source else { return Verdict::Taken };
        match self.git.as_ref().and_then(|git| git.tracked.as_ref()) {
            Some(tracked) if tracked.item(path).is_some_and(|item| !is_folder || item.kind == EntryKind::Foreign) => {
                Verdict::Taken
            }
            Some(tracked) if is_folder && tracked.has_below(path) => Verdict::Partly(source.clone()),
            _ => Verdict::Ignored(Some(source.clone())),
        }
    }

    /// Whether a file has the name of one that was not whole yet when a process was killed, and is left out: the index of a Git repository
    /// does not have it. `path` is from the imported folder.
    pub(super) fn is_unfinished(&self, name: &[u8], path: &[u8]) -> bool {
        !self.all && is_hidden_name(name) && self.item(path).is_none()
    }

    /// Returns the kind that a file has whatever the system says of it; `None` if the system knows.
    pub(super) fn kind_of_file(&self, path: &[u8]) -> Option<EntryKind> {
        let git = self.git.as_ref().filter(|git| !git.modes || !git.links)?;
        let kind = self.item(path).map(|item| item.kind);
        match kind {
            Some(EntryKind::Link) if !git.links => Some(EntryKind::Link),
            Some(EntryKind::Executable) if !git.modes => Some(EntryKind::Executable),
            _ if !git.modes => Some(EntryKind::Value),
            _ => None,
        }
    }

    /// Returns what stands for a folder that is a repository of its own, or a submodule by the index; and whether the index
    /// has it. `None` if it is a folder as any other.
    pub(super) fn submodule(&self, place: &FilePath, path: &[u8]) -> Result<Option<(Submodule, bool)>> {
        let Some(git) = &self.git else { return Ok(None) };
        let known = self.item(path).filter(|item| item.kind == EntryKind::Foreign);
        if known.is_none() && git.tracked.as_ref().is_some_and(|tracked| tracked.has_below(&self.whole(path))) {
            return Ok(None);
        }
        let found = submodule(place, git.algorithm)
            .map_err(|source| FolderError::Repository { place: place.to_owned(), source })?;
        Ok(match (found, known) {
            (Some(Submodule::At(oid)), known) => Some((Submodule::At(oid), known.is_some())),
            (_, Some(known)) => Some((Submodule::At(known.oid), true)),
            (found, None) => found.map(|found| (found, false)),
        })
    }

    /// Returns the files that a sparse checkout leaves out of the folder, by their paths from there.
    pub(super) fn skipped(&self) -> impl Iterator<Item = (&[u8], TreeItem)> {
        let git = self.git.as_ref().and_then(|git| Some((git, git.tracked.as_ref()?)));
        git.into_iter().flat_map(|(git, tracked)| {
            tracked.skipped().filter_map(|(path, item)| Some((path.strip_prefix(&git.prefix[..])?, item)))
        })
    }

    /// Returns what was left out, by the file of patterns that says so.
    pub(super) fn into_ignored(self) -> Vec<(Option<String>, Ignored)> {
        self.ignored.into_iter().map(|(source, count)| (source.map(|source| source.to_string()), count)).collect()
    }

    fn item(&self, path: &[u8]) -> Option<TreeItem> {
        self.git.as_ref()?.tracked.as_ref()?.item(&self.whole(path))
    }

    /// Returns a path from the top of the working tree.
    fn whole<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match &self.git {
            Some(git) if !git.prefix.is_empty() => [&git.prefix[..], path].concat().into(),
            _ => path.into(),
        }
    }

    /// Adds the ignore file of the folder at `place`, which is `folder` from the top.
    fn with_file(&self, scope: &Scope, place: &FilePath, folder: &[u8], name: &str) -> Result<Scope> {
        if let Scope::Ignored(_) = scope {
            return Ok(scope.clone());
        }
        let file = place.join(name);
        let bytes = ignore::read(&file).map_err(|error| Error::io("read", &file, error))?;
        let source = escape(&[folder, name.as_bytes()].concat());
        Ok(self.with_patterns(scope, folder, source, bytes))
    }

    fn with_patterns(&self, scope: &Scope, folder: &[u8], source: String, bytes: Option<Vec<u8>>) -> Scope {
        let Scope::Patterns(next) = scope else { return scope.clone() };
        let fold = self.git.as_ref().is_some_and(|git| git.fold);
        let patterns = Patterns::new(folder, fold).with_lines(&bytes.unwrap_or_default());
        if patterns.is_empty() {
            return scope.clone();
        }
        Scope::Patterns(Some(Arc::new(Link { patterns, source: source.into(), next: next.clone() })))
    }
}

/// Refuses the folder of the store and all that is in it: an import would read files that it is writing.
fn refuse_store(store: &FilePath, dir: &FilePath) -> Result<()> {
    match (fs::canonicalize(dir), fs::canonicalize(store)) {
        (Ok(whole), Ok(store)) if whole.starts_with(&store) => {
            Err(FolderError::WithinStore { dir: dir.to_owned() }.into())
        }
        // Who reads the folder says why it cannot be.
        _ => Ok(()),
    }
}

/// Reads the index if `dir`, which is a name without detours, is in the working tree, and returns the steps that lead there.
fn tracked(layout: &Layout, dir: &FilePath) -> Result<(Option<Tracked>, Vec<Vec<u8>>)> {
    let elsewhere = Ok((None, Vec::new()));
    let Some(worktree) = &layout.worktree else { return elsewhere };
    let top = fs::canonicalize(worktree).map_err(|error| Error::io("read the folder", worktree, error))?;
    let Ok(below) = dir.strip_prefix(&top) else { return elsewhere };
    let steps: Vec<Vec<u8>> = below.iter().map(|step| step.as_bytes().to_vec()).collect();
    // What is in a repository of its own is not in this one.
    let mut place = top.clone();
    for step in below {
        place.push(step);
        if submodule(&place, layout.algorithm)?.is_some() {
            return elsewhere;
        }
    }
    match Tracked::of(layout) {
        Ok(tracked) => Ok((tracked, steps)),
        Err(Refusal::Failed(error)) => Err(error.into()),
        Err(Refusal::Whole(why)) => Err(FolderError::Index { why }.into()),
        Err(Refusal::Paths(_)) => elsewhere,
    }
}

/// Reads a file of patterns that is the user's or the repository's; `None` if there is none.
fn outside(file: &PathBuf) -> Result<Option<Vec<u8>>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(Error::io("read", file, error)),
    }
}
