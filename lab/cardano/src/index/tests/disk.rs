//! A disk that loses power: each page of a file is as it was last flushed, or as it was seen at any time since.

use std::{cell::RefCell, collections::BTreeMap, fs, ops::Range, os::unix::fs::MetadataExt, path::Path};

use super::Numbers;

const PAGE: usize = 4096;

thread_local! {
    static DISK: RefCell<Option<Disk>> = const { RefCell::new(None) };
}

/// Files by name, as a crash would leave them.
pub(crate) type Image = BTreeMap<String, Vec<u8>>;

struct Disk {
    files: BTreeMap<String, Pages>,
    numbers: Numbers,
    /// What a crash within the last operation would have left.
    images: Vec<Image>,
}

#[derive(Default)]
struct Pages {
    inode: u64,
    bytes: usize,
    /// What each page may hold after a crash.
    versions: Vec<Vec<Vec<u8>>>,
}

/// Begins to watch the files that this thread flushes.
pub(crate) fn watch(seed: u64) {
    DISK.set(Some(Disk { files: BTreeMap::new(), numbers: Numbers(seed), images: Vec::new() }));
}

/// Takes in what the files of a folder hold now, and returns what crashes since the last call would have left.
pub(crate) fn images(dir: &Path) -> Vec<Image> {
    DISK.with_borrow_mut(|disk| {
        let disk = disk.as_mut().unwrap();
        disk.look(dir);
        disk.crash();
        std::mem::take(&mut disk.images)
    })
}

pub(crate) fn before_flush(path: &Path) {
    DISK.with_borrow_mut(|disk| {
        if let Some(disk) = disk {
            disk.look(path.parent().unwrap());
            disk.crash();
        }
    });
}

pub(crate) fn flushed(path: &Path, range: &Range<usize>) {
    DISK.with_borrow_mut(|disk| {
        let Some(disk) = disk else { return };
        disk.look(path.parent().unwrap());
        let name = path.file_name().unwrap().to_str().unwrap();
        let pages = disk.files.get_mut(name).unwrap();
        for versions in &mut pages.versions[range.start / PAGE..range.end.div_ceil(PAGE)] {
            versions.drain(..versions.len() - 1);
        }
        disk.crash();
    });
}

impl Disk {
    fn look(&mut self, dir: &Path) {
        for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (name, inode) = (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().ino());
            let bytes = fs::read(entry.path()).unwrap();
            let pages = self.files.entry(name).or_default();
            // A new file of records is durable when it is first seen, that of a table is not.
            let is_durable = pages.inode != inode && entry.file_name() == "records";
            if pages.inode != inode {
                // Renamed, and the folder synced.
                *pages = Pages { inode, ..Pages::default() };
            }
            pages.bytes = bytes.len();
            for (index, page) in bytes.chunks(PAGE).enumerate() {
                match pages.versions.get_mut(index) {
                    None if is_durable => pages.versions.push(vec![page.to_vec()]),
                    None => pages.versions.push(vec![vec![0; page.len()], page.to_vec()]),
                    Some(versions) if versions.last().is_none_or(|last| last != page) => versions.push(page.to_vec()),
                    Some(_) => {}
                }
            }
        }
    }

    fn crash(&mut self) {
        let mut image = Image::new();
        for (name, pages) in &self.files {
            let mut bytes = Vec::with_capacity(pages.bytes);
            for versions in &pages.versions {
                bytes.extend_from_slice(&versions[self.numbers.below(versions.len() as u64) as usize]);
            }
            image.insert(name.clone(), bytes);
        }
        self.images.push(image);
    }
}
