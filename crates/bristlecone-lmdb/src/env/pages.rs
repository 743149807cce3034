//! All pages of the data file, read without LMDB: it believes what a page says, so a damaged one can end the process.
//!
//! A walk goes from the roots that a meta page names to every page below them. It looks at no byte before it knows that it is
//! there, meets no page twice, and reports what LMDB would follow out of the file or out of a page.

use std::io;

use bristlecone::{
    Error,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, retry},
};

use super::layout::{DataFile, HEAD_BYTES, Meta, NO_PAGE, TreeHead, u16_at, u32_at, u64_at};

const FLAGS_AT: usize = 10;
const LOWER_AT: usize = 12;
const UPPER_AT: usize = 14;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
/// Flags that a page of a store has: what else there is marks kinds of pages that it has not.
const FLAGS: u16 = BRANCH | LEAF | OVERFLOW;
/// Bytes of a node before its key.
const NODE_BYTES: usize = 8;
/// The value lies in pages of its own.
const NODE_BIG: u16 = 1;
/// The value is the head of a tree.
const NODE_TREE: u16 = 2;

/// A page that cannot be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageFault {
    /// Where the page begins in the file, in bytes.
    pub(crate) offset: u64,
    pub(crate) reason: &'static str,
}

/// What a walk calls with the key, the value and the value's offset of each entry of one tree.
pub(crate) type EachEntry<'a> = &'a mut dyn FnMut(&[u8], &[u8], u64);

/// Which tree a page is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// Lists of free pages, by the transaction that freed them.
    Free,
    /// The heads of the named trees; in a map's file also entries.
    Main,
    Named,
}

/// A node of a page.
struct Node<'p> {
    /// The length of a value, or the lower half of a page's number.
    low: u32,
    flags: u16,
    key: &'p [u8],
    /// Where the value begins in the page.
    value_at: usize,
}

/// A page that a walk has still to look at, and between which keys it lies in its tree.
struct OpenPage {
    number: u64,
    level: u16,
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
}

/// A walk over the pages of one commit.
pub(crate) struct PageWalk<'f> {
    file: &'f dyn StorageFile,
    meta: Meta,
    page_bytes: usize,
    /// How many whole pages the file has.
    pages: u64,
    /// A bit for each page of the file: met.
    met: Vec<u64>,
    /// The trees that the main one names.
    named: Vec<(Vec<u8>, TreeHead)>,
    /// Whether the main tree may have entries of its own.
    has_entries: bool,
    faults: Vec<PageFault>,
    go_on: Option<&'f mut dyn FnMut() -> bool>,
}

impl<'f> PageWalk<'f> {
    /// Begins a walk over what `meta` names. Its pages are not used again as long as the caller has a transaction open that
    /// reads the same commit, or keeps all writers out.
    pub(crate) fn new(file: &'f dyn StorageFile, meta: Meta) -> io::Result<Self> {
        let page_bytes = meta.page_bytes as usize;
        let pages = file.len()? / u64::from(meta.page_bytes);
        let met = vec![0; pages.div_ceil(64) as usize];
        let (named, faults) = (Vec::new(), Vec::new());
        Ok(Self { file, meta, page_bytes, pages, met, named, has_entries: false, faults, go_on: None })
    }

    /// Has the walk ask before each page whether it goes on. Once it does not, what it returns is not all.
    pub(crate) fn asking(mut self, go_on: &'f mut dyn FnMut() -> bool) -> Self {
        self.go_on = Some(go_on);
        self
    }

    /// Goes through all pages and returns the damaged ones. `each` is called for the entries of the tree `name` that are on
    /// sound pages.
    pub(crate) fn run(mut self, name: &[u8], mut each: Option<EachEntry<'_>>) -> io::Result<Vec<PageFault>> {
        let [free, main] = self.meta.trees;
        self.tree(main, Tree::Main, None)?;
        for (found, head) in std::mem::take(&mut self.named) {
            let each = if found == name { each.as_mut().map(|each| &mut **each as EachEntry<'_>) } else { None };
            self.named_tree(head, each)?;
        }
        // Last, so that a page which is in use and listed as free is met twice.
        self.tree(free, Tree::Free, None)?;
        Ok(self.faults)
    }

    /// Goes through the pages that lead to the entries of the tree `name`, and no others, and calls `each` with those.
    fn run_one(mut self, name: &[u8], mut each: Option<EachEntry<'_>>) -> io::Result<Vec<PageFault>> {
        self.tree(self.meta.trees[1], Tree::Main, None)?;
        for (_, head) in std::mem::take(&mut self.named).into_iter().filter(|(found, _)| found == name) {
            self.named_tree(head, each.as_mut().map(|each| &mut **each as EachEntry<'_>))?;
        }
        Ok(self.faults)
    }

    /// Goes through the pages of a map, which is the tree `name` or the main one, and those that list free pages.
    pub(crate) fn run_map(mut self, name: Option<&[u8]>) -> io::Result<Vec<PageFault>> {
        self.has_entries = true;
        let [free, main] = self.meta.trees;
        self.tree(main, Tree::Main, None)?;
        // One with flags is no map, which opening it tells.
        let is_map = |(found, head): &(Vec<u8>, TreeHead)| Some(&**found) == name && head.flags == 0;
        for (_, head) in std::mem::take(&mut self.named).into_iter().filter(is_map) {
            self.named_tree(head, None)?;
        }
        self.tree(free, Tree::Free, None)?;
        Ok(self.faults)
    }

    fn named_tree(&mut self, head: TreeHead, each: Option<EachEntry<'_>>) -> io::Result<()> {
        if head.is_sound(self.meta.last_page, false) {
            return self.tree(head, Tree::Named, each);
        }
        self.faults.push(PageFault { offset: 0, reason: "the root of a tree cannot be where it is said to be" });
        Ok(())
    }

    fn tree(&mut self, head: TreeHead, tree: Tree, mut each: Option<EachEntry<'_>>) -> io::Result<()> {
        if head.root == NO_PAGE {
            return Ok(());
        }
        let mut page = vec![0; self.page_bytes];
        let mut open = vec![OpenPage { number: head.root, level: 1, from: None, to: None }];
        while let Some(at) = open.pop() {
            if self.go_on.as_mut().is_some_and(|go_on| !go_on()) {
                return Ok(());
            }
            let below = open.len();
            let each = each.as_mut().map(|each| &mut **each as EachEntry<'_>);
            if let Err(reason) = self.page(&at, at.level == head.depth, tree, &mut page, &mut open, each)? {
                open.truncate(below);
                self.fault(at.number, reason);
            }
        }
        Ok(())
    }

    fn fault(&mut self, number: u64, reason: &'static str) {
        self.faults.push(PageFault { offset: number.saturating_mul(self.page_bytes as u64), reason });
    }

    /// Looks at one page of a tree. `open` gets the pages below.
    fn page(
        &mut self,
        at: &OpenPage,
        is_leaf: bool,
        tree: Tree,
        page: &mut [u8],
        open: &mut Vec<OpenPage>,
        mut each: Option<EachEntry<'_>>,
    ) -> io::Result<Result<(), &'static str>> {
        let number = at.number;
        if let Err(reason) = self.meet(number, 1) {
            return Ok(Err(reason));
        }
        read_exact_at(self.file, page, number * self.page_bytes as u64)?;
        let (page, count) = match node_count(page, number, is_leaf, tree) {
            Ok(count) => (&*page, count),
            Err(reason) => return Ok(Err(reason)),
        };
        let mut last: Option<&[u8]> = None;
        for index in 0..count {
            let Some(node) = node(page, index) else { return Ok(Err("an entry lies outside its page")) };
            // The first key of a branch stands for all that is lower.
            let has_key = is_leaf || index > 0;
            if has_key && tree != Tree::Free {
                let lowest =
                    last.map_or(at.from.as_deref().is_none_or(|from| from <= node.key), |last| last < node.key);
                if !lowest || at.to.as_deref().is_some_and(|to| to <= node.key) {
                    return Ok(Err("keys are out of order"));
                }
                last = Some(node.key);
            }
            if !is_leaf {
                let from = if has_key { Some(node.key.to_vec()) } else { at.from.clone() };
                if let Some(before) = (index > 0).then(|| open.last_mut()).flatten() {
                    before.to.clone_from(&from);
                }
                let number = u64::from(node.low) | u64::from(node.flags) << 32;
                open.push(OpenPage { number, level: at.level + 1, from, to: at.to.clone() });
                continue;
            }
            let wanted = match tree {
                Tree::Free => true,
                Tree::Main => node.flags & NODE_TREE != 0,
                Tree::Named => each.is_some(),
            };
            let (value, offset) = match self.value(number, page, &node, wanted)? {
                Ok(found) => found,
                Err(reason) => return Ok(Err(reason)),
            };
            match (tree, &mut each) {
                (Tree::Free, _) => {
                    if let Err(reason) = self.free_list(&value) {
                        return Ok(Err(reason));
                    }
                }
                (Tree::Main, _) if node.flags & NODE_TREE != 0 && value.len() == TreeHead::BYTES => {
                    self.named.push((node.key.to_vec(), TreeHead::decode(&value)));
                }
                (Tree::Main, _) if self.has_entries && node.flags & NODE_TREE == 0 => {}
                (Tree::Main, _) => return Ok(Err("an entry is not the head of a tree")),
                (Tree::Named, Some(each)) => each(node.key, &value, offset),
                (Tree::Named, None) => {}
            }
        }
        Ok(Ok(()))
    }

    /// Returns a node's value, where it is wanted, and its offset in the file.
    fn value(
        &mut self,
        number: u64,
        page: &[u8],
        node: &Node<'_>,
        wanted: bool,
    ) -> io::Result<Result<(Vec<u8>, u64), &'static str>> {
        if node.flags & !(NODE_BIG | NODE_TREE) != 0 {
            return Ok(Err("an entry is of a kind that a store does not have"));
        }
        let bytes = node.low as usize;
        let at = number * self.page_bytes as u64 + node.value_at as u64;
        if node.flags & NODE_BIG == 0 {
            let value = page.get(node.value_at..node.value_at.saturating_add(bytes));
            let value = value.map(|value| if wanted { value.to_vec() } else { Vec::new() });
            return Ok(value.map(|value| (value, at)).ok_or("a value ends outside its page"));
        }
        let Some(pointer) = page.get(node.value_at..node.value_at + 8) else {
            return Ok(Err("an entry lies outside its page"));
        };
        let first = u64_at(pointer, 0);
        let count = (HEAD_BYTES - 1 + bytes) / self.page_bytes + 1;
        if let Err(reason) = self.meet(first, count as u64) {
            return Ok(Err(reason));
        }
        let at = first * self.page_bytes as u64;
        let mut head = [0; HEAD_BYTES];
        read_exact_at(self.file, &mut head, at)?;
        let fits =
            u64_at(&head, 0) == first && u16_at(&head, FLAGS_AT) == OVERFLOW && u32_at(&head, LOWER_AT) == count as u32;
        if !fits {
            return Ok(Err("a large value does not begin where its entry says"));
        }
        // The file has these bytes.
        let mut value = vec![0; if wanted { bytes } else { 0 }];
        read_exact_at(self.file, &mut value, at + HEAD_BYTES as u64)?;
        Ok(Ok((value, at + HEAD_BYTES as u64)))
    }

    /// Notes that pages are in use; an error if they cannot be.
    fn meet(&mut self, first: u64, count: u64) -> Result<(), &'static str> {
        let end = first.saturating_add(count);
        if first < 2 || end - 1 > self.meta.last_page {
            return Err("an entry leads to a page that the file does not have");
        }
        if end > self.pages {
            return Err("the file ends before a page that is in use");
        }
        for number in first..end {
            let (word, bit) = (&mut self.met[(number / 64) as usize], 1 << (number % 64));
            if *word & bit != 0 {
                return Err("a page is in use twice, or in use and free");
            }
            *word |= bit;
        }
        Ok(())
    }

    /// Checks a list of free pages: how many they are, and their numbers.
    fn free_list(&mut self, value: &[u8]) -> Result<(), &'static str> {
        let count = u64_at(value, 0);
        if value.len() < 8 || (value.len() as u64 - 8) / 8 < count {
            return Err("a list of free pages is longer than its value");
        }
        for number in (1..=count as usize).map(|index| u64_at(value, index * 8)) {
            // What is free need not be in the file.
            if number < self.pages {
                self.meet(number, 1)?;
            } else if number > self.meta.last_page {
                return Err("a page is free that the file does not have");
            }
        }
        Ok(())
    }
}

/// Returns how many nodes a page of a tree has.
fn node_count(page: &[u8], number: u64, is_leaf: bool, tree: Tree) -> Result<usize, &'static str> {
    let kind = if is_leaf { LEAF } else { BRANCH };
    let (lower, upper) = (usize::from(u16_at(page, LOWER_AT)), usize::from(u16_at(page, UPPER_AT)));
    if u64_at(page, 0) != number || u16_at(page, FLAGS_AT) & FLAGS != kind || u16_at(page, FLAGS_AT) & !FLAGS != 0 {
        return Err("a page is not the one that its entry above says");
    }
    if lower < HEAD_BYTES || !lower.is_multiple_of(2) || lower > upper || upper > page.len() {
        return Err("a page's bounds are outside the page");
    }
    let count = (lower - HEAD_BYTES) / 2;
    // LMDB ends the process where a branch has no choice, but for the tree that it changes while it commits.
    if count < if is_leaf || tree == Tree::Free { 1 } else { 2 } {
        return Err("a page has too few entries");
    }
    Ok(count)
}

/// Returns a node of a page whose bounds are right.
fn node(page: &[u8], index: usize) -> Option<Node<'_>> {
    let at = usize::from(u16_at(page, HEAD_BYTES + 2 * index));
    if at < usize::from(u16_at(page, UPPER_AT)) || !at.is_multiple_of(2) {
        return None;
    }
    let value_at = at + NODE_BYTES + usize::from(u16_at(page, at + 6));
    let key = page.get(at + NODE_BYTES..value_at)?;
    Some(Node { low: u32_at(page, at), flags: u16_at(page, at + 4), key, value_at })
}

/// Checks the pages that opening a store goes through: those that lead to the tree `name`; all pages where the file ends before
/// its last one. A sound file may: pages at its end that are free were never written.
///
/// # Errors
/// [`Error::Lost`] if a page in use is beyond the end; [`Error::Corrupt`], [`Error::Io`].
pub(crate) fn check(storage: &dyn Storage, file_name: &str, found: &DataFile, name: &[u8]) -> Result<(), Error> {
    let file = storage.describe(file_name);
    let failed = |error| Error::io(file.clone(), error);
    let opened = retry(|| storage.open(file_name, OpenMode::Read)).map_err(failed)?;
    let walk = PageWalk::new(&*opened, found.meta).map_err(failed)?;
    let faults = if found.is_short() { walk.run(b"", None) } else { walk.run_one(name, None) }.map_err(failed)?;
    let Some(PageFault { offset, reason }) = faults.first().cloned() else { return Ok(()) };
    if found.is_short() {
        let (bytes, count) = (found.bytes, faults.len());
        let reason = format!(
            "it has {bytes} bytes, which is less than its first pages say, and {count} pages are missing or damaged \
             ({reason}, at byte {offset}); put it back from a backup"
        );
        return Err(Error::Lost { file, reason });
    }
    Err(Error::Corrupt { file, offset, oid: None, reason: format!("{reason}; put the file back from a backup") })
}

/// Returns the value that the key had in the tree `name` at the commit of `meta`; `None` if that cannot be told any more.
///
/// # Errors
/// [`Error::Io`].
pub(crate) fn value_at(
    storage: &dyn Storage,
    file_name: &str,
    meta: Meta,
    name: &[u8],
    key: &[u8],
) -> Result<Option<Vec<u8>>, Error> {
    let failed = |error| Error::io(storage.describe(file_name), error);
    let opened = retry(|| storage.open(file_name, OpenMode::Read)).map_err(failed)?;
    let mut found = None;
    let mut each = |at: &[u8], value: &[u8], _: u64| {
        if at == key {
            found = Some(value.to_vec());
        }
    };
    let faults = PageWalk::new(&*opened, meta).and_then(|walk| walk.run_one(name, Some(&mut each))).map_err(failed)?;
    Ok(found.filter(|_| faults.is_empty()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bristlecone::storage::RealStorage;

    use super::*;
    use crate::env::{DATA, Env, EnvOptions};

    const PAGE: usize = 4096;

    /// Makes a file with a tree of several levels and large values, in one commit, and returns its bytes.
    fn make(dir: &Path) -> Vec<u8> {
        let env = Env::open(dir, &EnvOptions { map_bytes: 1 << 24, read_only: false, databases_max: 1 }).unwrap();
        let mut txn = env.write(true).unwrap();
        let [database] = txn.create_databases(["objects"]).unwrap();
        for number in 0..3000_u32 {
            let value = vec![7; if number % 1000 == 5 { 5000 } else { 40 }];
            txn.put(database, &number.to_be_bytes(), &value).unwrap();
        }
        txn.commit().unwrap();
        drop(env);
        std::fs::read(dir.join(DATA)).unwrap()
    }

    /// Returns what a walk finds in these bytes, and how many entries it meets.
    fn walk(dir: &Path, bytes: &[u8]) -> (Vec<&'static str>, usize) {
        std::fs::write(dir.join(DATA), bytes).unwrap();
        let file = RealStorage::new(dir).open(DATA, OpenMode::Read).unwrap();
        let metas = Meta::read_both(&*file).unwrap().unwrap();
        let meta = metas.into_iter().max_by_key(|meta| meta.txn).unwrap();
        let mut met = 0;
        let faults = PageWalk::new(&*file, meta).unwrap().run(b"objects", Some(&mut |_, _, _| met += 1)).unwrap();
        (faults.into_iter().map(|fault| fault.reason).collect(), met)
    }

    /// Returns where the pages of a kind begin that have two entries or more.
    fn pages_of(bytes: &[u8], kind: u16) -> Vec<usize> {
        let is = |at: &usize| {
            u16_at(bytes, at + FLAGS_AT) == kind && usize::from(u16_at(bytes, at + LOWER_AT)) > HEAD_BYTES + 2
        };
        (2 * PAGE..bytes.len()).step_by(PAGE).filter(is).collect()
    }

    #[test]
    fn what_cannot_be_right_is_found_and_the_rest_is_met() {
        let dir = tempfile::tempdir().unwrap();
        let sound = make(dir.path());
        assert_eq!(walk(dir.path(), &sound), (vec![], 3000));
        let damaged = |wanted: &str, damage: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sound.clone();
            damage(&mut bytes);
            let (faults, met) = walk(dir.path(), &bytes);
            assert!(faults.iter().any(|fault| fault.contains(wanted)), "{wanted}: {faults:?}");
            assert!(met < 3000, "{wanted}");
        };
        let (leaves, branches) = (pages_of(&sound, LEAF), pages_of(&sound, BRANCH));
        let (leaf, branch) = (leaves[1], branches[0]);
        damaged("out of order", &|bytes| bytes[leaf + HEAD_BYTES..leaf + HEAD_BYTES + 4].rotate_left(2));
        // The key that divides two pages: entries of the first belong to the second then.
        let node_at = branch + usize::from(u16_at(&sound, branch + HEAD_BYTES + 2));
        damaged("out of order", &|bytes| bytes[node_at + NODE_BYTES + 3] ^= 1);
        damaged("page's bounds", &|bytes| bytes[leaf + UPPER_AT + 1] = 0xFF);
        damaged("outside its page", &|bytes| bytes[leaf + HEAD_BYTES + 1] = 0xFF);
        damaged("outside its page", &|bytes| bytes[leaf + HEAD_BYTES..leaf + HEAD_BYTES + 2].fill(0));
        damaged("not the one", &|bytes| bytes[leaf] ^= 1);
        damaged("not the one", &|bytes| bytes[leaf + FLAGS_AT] = 0x40);
        damaged("too few", &|bytes| bytes[branch + LOWER_AT] = HEAD_BYTES as u8 + 2);
        damaged("does not have", &|bytes| bytes[node_at + 3] = 0xFF);
        damaged("ends before", &|bytes| bytes.truncate(leaf));
        // An entry of a large value leads to the pages of another one.
        let big: Vec<usize> = leaves
            .iter()
            .flat_map(|&at| {
                let page = &sound[at..at + PAGE];
                let count = (usize::from(u16_at(page, LOWER_AT)) - HEAD_BYTES) / 2;
                (0..count)
                    .filter_map(move |index| node(page, index))
                    .filter(|node| node.flags == NODE_BIG)
                    .map(move |node| at + node.value_at)
            })
            .collect();
        assert_eq!(big.len(), 3);
        damaged("in use twice", &|bytes| bytes.copy_within(big[0]..big[0] + 8, big[1]));
        damaged("does not begin", &|bytes| {
            let number = u64_at(bytes, big[0]) as usize;
            bytes[number * PAGE + FLAGS_AT] = LEAF as u8;
        });
    }

    #[test]
    fn pages_that_are_in_use_and_free_are_found() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path());
        let env =
            Env::open(dir.path(), &EnvOptions { map_bytes: 1 << 24, read_only: false, databases_max: 1 }).unwrap();
        let mut txn = env.write(true).unwrap();
        let [database] = txn.create_databases(["objects"]).unwrap();
        for number in 0..500_u32 {
            txn.remove(database, &number.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        drop(env);
        let mut bytes = std::fs::read(dir.path().join(DATA)).unwrap();
        assert_eq!(walk(dir.path(), &bytes), (vec![], 2500));
        // The list of what was freed: the only value of the tree of free pages.
        let meta = PAGE * usize::from(u64_at(&bytes, 144) < u64_at(&bytes, PAGE + 144));
        let (free, main) = (u64_at(&bytes, meta + 80) as usize * PAGE, u64_at(&bytes, meta + 128));
        let value_at = free + node(&bytes[free..free + PAGE], 0).unwrap().value_at;
        assert!(u64_at(&bytes, value_at) > 1);
        bytes[value_at + 8..value_at + 16].copy_from_slice(&main.to_le_bytes());
        assert_eq!(walk(dir.path(), &bytes).0, ["a page is in use twice, or in use and free"]);
        bytes[value_at..value_at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(walk(dir.path(), &bytes).0, ["a list of free pages is longer than its value"]);
    }
}
