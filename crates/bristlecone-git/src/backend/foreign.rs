//! What a Git moved a ref to, which no process may have synced: by default Git syncs neither loose objects nor refs. A
//! commit of ours that is acknowledged as durable needs what it stands on, so that is synced once, before.
//!
//! A commit that a Git made is a loose object, and ours are in packs. What Git packs it syncs. So one look at a name tells
//! whose a commit is, where this process does not know; and what this process moved a ref to itself costs nothing.

use std::collections::HashSet;

use bristlecone::{Oid, RefTarget, Result, storage::retry};

use super::{
    append_group::{Moves, Request},
    objects::{self, SYNCED_AT_ONCE},
    open_repository::{OpenRepository, Writer},
    pack_files::PACKS,
};
use crate::repository::{files::Unsynced, odb::loose};

/// Values that are remembered, at most.
const SETTLED_MAX: usize = 4096;

/// Values of refs that need no sync for the sake of what a Git left: this process moved a ref there, or has looked.
#[derive(Debug, Default)]
pub(super) struct SettledValues(HashSet<Oid>);

impl SettledValues {
    pub(super) fn add(&mut self, oid: Oid) {
        if self.0.len() >= SETTLED_MAX {
            self.0.clear();
        }
        self.0.insert(oid);
    }
}

impl OpenRepository {
    /// Makes durable what a Git left that the move of a ref goes on from.
    pub(super) fn settle_bases(&self, writer: &mut Writer, requests: &[Request<'_>], moves: &Moves) -> Result<()> {
        let mut written: Vec<Oid> = Vec::with_capacity(moves.requests.len());
        for request in moves.requests.iter().map(|&index| &requests[index]) {
            let Some(target) = request.target().as_ref().and_then(object) else { continue };
            let bases = bases_of(request, target);
            written.push(target);
            for base in bases.into_iter().filter(|base| !written.contains(base)) {
                self.settle_foreign(writer, base)?;
            }
        }
        self.settle_value(writer, &moves.before)
    }

    /// Makes durable what a Git left in a ref.
    pub(super) fn settle_value(&self, writer: &mut Writer, value: &Option<RefTarget>) -> Result<()> {
        value.as_ref().and_then(object).map_or(Ok(()), |oid| self.settle_foreign(writer, oid))
    }

    fn settle_foreign(&self, writer: &mut Writer, oid: Oid) -> Result<()> {
        if writer.settled.0.contains(&oid) {
            return Ok(());
        }
        if self.files.stat(&format!("objects/{}", loose::name(&oid)))?.is_some() {
            self.poison.note(self.sync_foreign())?;
        }
        writer.settled.add(oid);
        Ok(())
    }

    /// Makes everything durable that is in the repository: there may be thousands of loose objects.
    fn sync_foreign(&self) -> Result<()> {
        let files = &self.files;
        let head = "HEAD";
        if let Some(file) = files.open_if_there(head)?
            && files.named(head, retry(|| file.sync_file_system()))?
        {
            return Ok(());
        }
        for dir in files.list("objects")?.into_iter().filter(|name| name.len() == 2) {
            let dir = format!("objects/{dir}");
            self.sync_files(&dir, &|_| true)?;
        }
        files.sync_dir("objects")?;
        self.sync_files(PACKS, &|name| name.ends_with(".pack") || name.ends_with(".idx"))
    }

    /// Makes the files of a folder durable, with their names.
    fn sync_files(&self, dir: &str, chosen: &dyn Fn(&str) -> bool) -> Result<()> {
        let names: Vec<String> = self.files.list(dir)?.into_iter().filter(|name| chosen(name)).collect();
        for some in names.chunks(SYNCED_AT_ONCE) {
            let mut open: Vec<Unsynced> = Vec::with_capacity(some.len());
            for name in some {
                let name = format!("{dir}/{name}");
                open.extend(self.files.open_if_there(&name)?.map(|file| (name, file)));
            }
            self.files.sync_all(&open)?;
        }
        self.files.sync_dir(dir).map(drop)
    }
}

fn object(target: &RefTarget) -> Option<Oid> {
    if let RefTarget::Object(at) = target { Some(at.oid) } else { None }
}

/// Returns what a new value of a ref goes on from: the parents of a commit that was written for it, or itself.
fn bases_of(request: &Request<'_>, target: Oid) -> Vec<Oid> {
    let Some(raw) = objects::commit_of(request.batch, target) else {
        let written = request.batch.offsets().any(|(oid, _)| oid == target);
        return if written { Vec::new() } else { vec![target] };
    };
    let headers = raw.split(|&byte| byte == b'\n').take_while(|line| !line.is_empty());
    let parents = headers.filter_map(|line| line.strip_prefix(b"parent "));
    parents.filter_map(|hex| str::from_utf8(hex).ok()?.parse().ok()).collect()
}
