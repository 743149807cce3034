//! May a working tree follow a commit? Each path by itself, before anything is changed.

use std::{
    collections::{BTreeSet, HashSet},
    fs, io,
    path::Path,
};

use bristlecone::{EntryKind, Error, core::git::refused_name};

use super::{
    attributes::{Attributes, Conversion},
    change::{Change, ReadFile, Refusal, TreeItem},
    folder::PathState,
    index::IndexStat,
    view::{WorktreeView, holds},
};

const ATTRIBUTES: &[u8] = b".gitattributes";

/// What is to be done at a path.
#[derive(Debug)]
pub(super) struct PathUpdate {
    pub(super) path: Vec<u8>,
    pub(super) to: Option<TreeItem>,
    // Whether something is there.
    pub(super) there: bool,
    // Whether the file is as it will be.
    pub(super) done: Option<IndexStat>,
}

/// Returns what is to be done, or every path that stands against it.
pub(super) fn steps(view: &WorktreeView, changes: &[Change], read: ReadFile<'_>) -> Result<Vec<PathUpdate>, Refusal> {
    let attributes = [on_disk(view, changes)?, in_tree(view, changes, read)?];
    let goes = |change: &&Change| change.after.is_none() && view.index.get(&change.path).is_some();
    let going = changes.iter().filter(goes).map(|change| &change.path[..]).collect();
    let checks = Checks { view, attributes, going };
    let (mut steps, mut refused) = (Vec::with_capacity(changes.len()), Vec::new());
    for change in changes {
        match checks.one(change, read)? {
            Ok(step) => steps.push(step),
            Err(why) => refused.push((change.path.clone(), why)),
        }
    }
    if refused.is_empty() { Ok(steps) } else { Err(Refusal::Paths(refused)) }
}

struct Checks<'a> {
    view: &'a WorktreeView,
    // As the working tree has them, and as the commit does.
    attributes: [Attributes; 2],
    // The paths that the commit removes and whose files go with it.
    going: HashSet<&'a [u8]>,
}

type Why<T> = Result<Result<T, String>, Refusal>;

impl Checks<'_> {
    fn one(&self, change: &Change, read: ReadFile<'_>) -> Why<PathUpdate> {
        if let Err(why) = self.name(change) {
            return Ok(Err(why));
        }
        if let Err(why) = self.conversion(change, read)? {
            return Ok(Err(why));
        }
        if let Err(why) = self.entry(change) {
            return Ok(Err(why));
        }
        self.file(change)
    }

    /// May there be such a thing at all?
    fn name(&self, change: &Change) -> Result<(), String> {
        let submodule = |item: Option<TreeItem>| item.is_some_and(|item| item.kind == EntryKind::Foreign);
        if submodule(change.before) || submodule(change.after) {
            return Err("it is a submodule, which git changes".to_owned());
        }
        let Some(after) = change.after else { return Ok(()) };
        let mut steps = change.path.split(|&byte| byte == b'/').peekable();
        while let Some(step) = steps.next() {
            let kind = if steps.peek().is_some() { EntryKind::Dir } else { after.kind };
            if let Some(what) = refused_name(step, kind) {
                return Err(format!("Git does not write {what}"));
            }
        }
        if after.kind == EntryKind::Link && self.view.settings.bool("core.symlinks") == Some(false) {
            return Err("it is a link, and core.symlinks says that there are no links here".to_owned());
        }
        Ok(())
    }

    /// Has the file the bytes of the object?
    fn conversion(&self, change: &Change, read: ReadFile<'_>) -> Why<()> {
        let plain = |item: Option<TreeItem>| item.is_some_and(|item| item.kind != EntryKind::Link);
        if !plain(change.before) && !plain(change.after) {
            return Ok(Ok(()));
        }
        let settings = &self.view.settings;
        let (autocrlf, eol) = (settings.get("core.autocrlf"), settings.get("core.eol"));
        for attributes in &self.attributes {
            match attributes.conversion(&change.path, autocrlf, eol) {
                Conversion::None => {}
                Conversion::Changed(what) => {
                    return Ok(Err(format!("{what} asks for other bytes in the file than in the commit")));
                }
                Conversion::Lines if plain(change.after) => {
                    let bytes = read(&change.path)?.unwrap_or_default();
                    if bytes.contains(&b'\r') {
                        return Ok(Err("it is text by its attributes, and has carriage returns".to_owned()));
                    }
                }
                Conversion::Lines => {}
            }
        }
        Ok(Ok(()))
    }

    /// Is the index as before the commit here, or as after it?
    fn entry(&self, change: &Change) -> Result<(), String> {
        let index = &self.view.index;
        let found = index.get(&change.path);
        if found.is_some_and(|entry| entry.is_skipped()) {
            return Err("a sparse checkout leaves it out".to_owned());
        }
        if found.is_some_and(|entry| entry.is_intended()) {
            return Err("it was announced with `git add -N`".to_owned());
        }
        let found = found.map(|entry| TreeItem { kind: entry.kind(), oid: entry.oid });
        if found != change.before && found != change.after {
            return Err(match found {
                Some(_) => "what is staged differs from the last commit".to_owned(),
                None => "its removal is staged".to_owned(),
            });
        }
        if change.after.is_none() {
            return Ok(());
        }
        let mut above = &change.path[..];
        while let Some(at) = above.iter().rposition(|&byte| byte == b'/') {
            above = &above[..at];
            if index.get(above).is_some() && !self.going.contains(above) {
                return Err(format!("{} is staged as a file", shown(above)));
            }
        }
        match index.below(&change.path).map(|entry| index.path(entry)).find(|path| !self.going.contains(path)) {
            Some(path) => Err(format!("{} is staged below it", shown(path))),
            None => Ok(()),
        }
    }

    /// Is the file as before the commit, or as after it?
    fn file(&self, change: &Change) -> Why<PathUpdate> {
        let path = &change.path[..];
        let failed = |source| Refusal::Failed(Error::io(shown(path), source));
        let step = |there, done| PathUpdate { path: path.to_vec(), to: change.after, there, done };
        if change.after.is_none() && self.view.index.get(path).is_none() {
            // What is there, if anything, is none of Git's any more: `git rm --cached` leaves it.
            return Ok(Ok(step(false, None)));
        }
        Ok(match self.view.top.look(path).map_err(failed)? {
            PathState::Missing if change.before.is_none() || change.after.is_none() => Ok(step(false, None)),
            PathState::Missing => Err("its file was removed, and that is not committed".to_owned()),
            PathState::Blocked { .. } if change.after.is_none() => Ok(step(false, None)),
            PathState::Blocked { bytes } if change.before.is_none() && self.going.contains(&path[..bytes]) => {
                Ok(step(false, None))
            }
            PathState::Blocked { bytes } => Err(format!("{} is no folder, but a file or link", shown(&path[..bytes]))),
            PathState::File { stat, link, executable } => {
                let is = |item: Option<TreeItem>| self.is(path, item, &stat, link, executable);
                if is(change.after).map_err(failed)? {
                    Ok(step(true, Some(stat)))
                } else if is(change.before).map_err(failed)? {
                    Ok(step(true, None))
                } else if change.before.is_none() {
                    Err("a file is there that is not in the last commit".to_owned())
                } else {
                    Err("its file has changes that are not committed".to_owned())
                }
            }
            PathState::Folder if change.before.is_none() => match self.first_kept(path).map_err(failed)? {
                None => Ok(step(false, None)),
                Some(kept) => Err(format!("a folder is there with {}, which is not in the last commit", shown(&kept))),
            },
            PathState::Folder => Err("a folder is there in place of its file".to_owned()),
            PathState::Other => Err("what is there is no file".to_owned()),
        })
    }

    /// Whether what is at a path is this item.
    fn is(
        &self,
        path: &[u8],
        item: Option<TreeItem>,
        stat: &IndexStat,
        link: bool,
        executable: bool,
    ) -> io::Result<bool> {
        let Some(item) = item else { return Ok(false) };
        let modes = self.view.settings.bool("core.fileMode") != Some(false);
        if link != (item.kind == EntryKind::Link)
            || !link && modes && executable != (item.kind == EntryKind::Executable)
        {
            return Ok(false);
        }
        match self.view.index.get(path).filter(|entry| entry.oid == item.oid) {
            Some(entry) => self.view.is_unchanged(entry, path, stat),
            None => holds(&self.view.top, self.view.algorithm, path, item.kind, item.oid),
        }
    }

    /// Returns something below a folder that the commit does not remove.
    fn first_kept(&self, path: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut kept = None;
        self.view.top.each_below(path, &mut |below| {
            if kept.is_none() && !self.going.contains(below) {
                kept = Some(below.to_vec());
            }
        })?;
        Ok(kept)
    }
}

/// Reads the attributes that the working tree has for the paths of changes.
fn on_disk(view: &WorktreeView, changes: &[Change]) -> Result<Attributes, Refusal> {
    let top = &view.top;
    collect(view, changes, &mut |path| top.read(path, false).map_err(|source| Error::io(shown(path), source)))
}

/// Reads the attributes that the commit has for them.
fn in_tree(view: &WorktreeView, changes: &[Change], read: ReadFile<'_>) -> Result<Attributes, Refusal> {
    collect(view, changes, read)
}

fn collect(view: &WorktreeView, changes: &[Change], read: ReadFile<'_>) -> Result<Attributes, Refusal> {
    let mut all = Attributes::default();
    let outside = |path: &Path| -> Result<Option<Vec<u8>>, Refusal> {
        match fs::read(path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(source) => Err(Refusal::Failed(Error::io(path.display().to_string(), source))),
        }
    };
    for file in &view.attributes_files {
        if let Some(bytes) = outside(file)? {
            all.add(b"", &bytes);
        }
    }
    for folder in folders_above(changes) {
        if let Some(bytes) = read(&[folder, ATTRIBUTES].concat())? {
            all.add(folder, &bytes);
        }
    }
    if let Some(bytes) = outside(&view.common_dir.join("info/attributes"))? {
        all.add(b"", &bytes);
    }
    Ok(all)
}

fn shown(path: &[u8]) -> String {
    bristlecone::escape(path)
}

/// Returns all folders above the paths of changes, and the top, in order.
fn folders_above(changes: &[Change]) -> BTreeSet<&[u8]> {
    let mut all = BTreeSet::from([&b""[..]]);
    for change in changes {
        let path = &change.path[..];
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        all.extend(ends.map(|at| &path[..=at]));
    }
    all
}
