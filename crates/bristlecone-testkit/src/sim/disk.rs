//! The medium with the cache above it: files by number, names, and what is pending in both.

use std::{io, sync::Arc};

use bristlecone::storage::Stat;

use super::{
    file::{FileState, PendingPart},
    files::SimFiles,
    names::{NameNode, SimNames, folder},
    policy::{Fate, Policy},
};

/// Everything that a fork copies; cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Disk {
    files: SimFiles,
    names: Arc<SimNames>,
    file_next: u64,
    seq: u64,
    // How often the machine was started again.
    starts: u64,
}

impl Disk {
    /// Returns the number of the next change.
    fn step(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Returns how often the machine was started again.
    pub(super) fn starts(&self) -> u64 {
        self.starts
    }

    pub(super) fn names(&self) -> &SimNames {
        &self.names
    }

    pub(super) fn file(&self, id: u64) -> &FileState {
        self.files.get(id).expect("files live as long as the disk")
    }

    pub(super) fn find(&self, name: &str) -> io::Result<u64> {
        match self.names.get(name) {
            Some(NameNode::File(id)) => Ok(id),
            Some(NameNode::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<u64> {
        if !self.names.is_dir(folder(name)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        self.file_next += 1;
        let (id, seq) = (self.file_next, self.step());
        self.files.insert(id, Arc::default());
        Arc::make_mut(&mut self.names).create(name, NameNode::File(id), seq);
        Ok(id)
    }

    pub(super) fn create_dir(&mut self, name: &str) -> io::Result<()> {
        if !self.names.is_dir(folder(name)) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        match self.names.get(name) {
            Some(NameNode::Dir) => return Ok(()),
            Some(NameNode::File(_)) => return Err(io::ErrorKind::AlreadyExists.into()),
            None => {}
        }
        let seq = self.step();
        Arc::make_mut(&mut self.names).create(name, NameNode::Dir, seq);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let id = self.find(from)?;
        if !self.names.is_dir(folder(to)) {
            return Err(io::ErrorKind::NotFound.into());
        }
        if self.names.is_dir(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let seq = self.step();
        Arc::make_mut(&mut self.names).rename(from, to, NameNode::File(id), seq);
        Ok(())
    }

    pub(super) fn exchange(&mut self, one: &str, other: &str) -> io::Result<()> {
        let (first, second) = (NameNode::File(self.find(one)?), NameNode::File(self.find(other)?));
        let seqs = [self.step(), self.step()];
        Arc::make_mut(&mut self.names).exchange((one, first), (other, second), seqs);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, name: &str) -> io::Result<()> {
        match self.names.get(name) {
            Some(NameNode::Dir) => {}
            Some(NameNode::File(_)) => return Err(io::ErrorKind::NotADirectory.into()),
            None => return Err(io::ErrorKind::NotFound.into()),
        }
        if self.names.below(name).next().is_some() {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let seq = self.step();
        Arc::make_mut(&mut self.names).remove(name, NameNode::Dir, seq);
        Ok(())
    }

    pub(super) fn stat(&self, name: &str) -> io::Result<Stat> {
        match self.names.get(name) {
            None => Err(io::ErrorKind::NotFound.into()),
            Some(NameNode::Dir) => Ok(Stat { dir: true, bytes: 0, id: 0, modified_ns: 0 }),
            Some(NameNode::File(id)) => {
                let file = self.file(id);
                Ok(Stat { dir: false, bytes: file.len(), id, modified_ns: file.modified() })
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        let id = self.find(name)?;
        let seq = self.step();
        Arc::make_mut(&mut self.names).remove(name, NameNode::File(id), seq);
        Ok(())
    }

    pub(super) fn sync_dir(&mut self, dir: &str) -> io::Result<()> {
        if !self.names.is_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Arc::make_mut(&mut self.names).sync(dir);
        Ok(())
    }

    pub(super) fn forget_names(&mut self, dir: &str) {
        Arc::make_mut(&mut self.names).forget(dir);
    }

    pub(super) fn write(&mut self, id: u64, bytes: &[u8], offset: u64) {
        let seq = self.step();
        self.file_mut(id).write(bytes, offset, seq);
    }

    pub(super) fn set_len(&mut self, id: u64, len: u64) {
        let seq = self.step();
        self.file_mut(id).set_len(len, seq);
    }

    /// Gives a file the time of the last change of all: nothing else changes, and nothing is to survive.
    pub(super) fn touch(&mut self, id: u64) {
        let seq = self.seq;
        self.file_mut(id).touch(seq);
    }

    pub(super) fn file_mut(&mut self, id: u64) -> &mut FileState {
        self.files.file_mut(id)
    }

    pub(super) fn forget_cache(&mut self) {
        self.files.iter_mut().for_each(FileState::forget_cache);
    }

    /// Returns the bytes that all files take, with the holes in them.
    pub(super) fn bytes(&self) -> u64 {
        let files = self.names.iter().filter_map(|(_, node)| match node {
            NameNode::File(id) => Some(self.file(*id).len()),
            NameNode::Dir => None,
        });
        files.sum()
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        self.files.iter().flat_map(|file| file.pending()).chain(self.names.pending())
    }

    /// Returns the disk after a power cut: what `policy` lets survive, all of it durable.
    pub(super) fn after_cut(&self, seed: u64, policy: Policy) -> Self {
        let mut fate = Fate::new(policy, seed, self.pending());
        let names = self.names.survivor(|seq| fate.keeps(seq, PendingPart::Length));
        let mut files = SimFiles::default();
        for (_, node) in names.iter() {
            let NameNode::File(id) = *node else { continue };
            let file = self.files.get(id).expect("files live as long as the disk");
            let survivor = if file.is_clean() {
                file.clone()
            } else {
                let contents = file.survivor(|seq, part| fate.keeps(seq, part));
                Arc::new(FileState::durable(contents, file.modified()))
            };
            files.insert(id, survivor);
        }
        Self { files, names: Arc::new(names), file_next: self.file_next, seq: self.seq, starts: self.starts + 1 }
    }
}
