//! Commits as people name them: `main`, `HEAD~3`, `refs/tags/v1^2`, `1f3a9c`.

use bristlecone_core::{CommitId, Format, Kind, ObjRef, Oid, OidPrefix};

use super::{
    super::{HEAD, Repo, check_ref_name},
    CommitGraph,
};
use crate::{Error, Result};

/// The prefixes under which a name is searched, in this order, as Git does: a tag comes before a branch of the same name.
const PREFIXES: [&str; 5] = ["", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/"];
/// The fewest digits of an abbreviated id.
const DIGITS_MIN: usize = 4;

impl<F: Format> Repo<F> {
    /// Returns the commit that `text` names: `HEAD` or `@`, a tag, a branch, a ref's name from `refs/` or from behind
    /// it (`heads/main`), or at least four hexadecimal digits of a commit's or an annotated tag's id, followed by any
    /// number of `~N` (the N-th ancestor along first parents) and `^N` (the N-th parent; `^0` is the commit itself); N
    /// is 1 where it is left out. Annotated tags are followed to their commit, as [`Repo::peel`] does.
    ///
    /// Of refs that a name may mean, a tag comes before a branch, and that before a branch of a remote; a ref comes
    /// before an id of the same spelling. An abbreviated id asks [`Backend::each_with_prefix`](crate::Backend::each_with_prefix), which
    /// the disk engine answers by its sorted indexes and other backends by every object.
    ///
    /// # Errors
    /// [`Error::NoRef`] with the part of `text` that names nothing; [`Error::Absent`] for a commit that retention has cut, where a
    /// kept one names it; [`Error::Usage`] for unknown suffixes and digits that several commits begin with; [`Error::WrongKind`] for
    /// the full id of another object, and for a ref or tag that leads to one; those of the backend.
    pub fn revparse(&self, text: &str) -> Result<CommitId> {
        let base = text.find(['~', '^']).unwrap_or(text.len());
        let mut at = self.named(&text[..base])?;
        let mut rest = &text[base..];
        if rest.is_empty() {
            return Ok(at);
        }
        let mut graph = CommitGraph::new(self.now());
        while let Some(sign) = rest.chars().next() {
            let digits = rest[1..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - 1);
            let number = number(&rest[1..=digits])?;
            rest = &rest[1 + digits..];
            if !rest.is_empty() && !rest.starts_with(['~', '^']) {
                return Err(Error::Usage { reason: "after the name of a commit only ~N and ^N may follow" });
            }
            let wanted = match sign {
                '~' => self.nth_ancestor(&mut graph, at, number)?,
                _ => self.nth_parent(&mut graph, at, number)?,
            };
            at = wanted.ok_or_else(|| no_ref(&text[..text.len() - rest.len()]))?;
        }
        Ok(at)
    }

    fn named(&self, name: &str) -> Result<CommitId> {
        let name = if name == "@" { HEAD } else { name };
        if !name.is_empty() {
            for prefix in PREFIXES {
                let full = format!("{prefix}{name}");
                if check_ref_name(&full).is_ok()
                    && let Some(at) = self.resolve(&full)?
                {
                    return self.peel(at);
                }
            }
        }
        self.peel(self.abbreviated(name)?.ok_or_else(|| no_ref(name))?)
    }

    /// Returns the commit or tag whose id starts with these digits, if they are digits.
    fn abbreviated(&self, digits: &str) -> Result<Option<ObjRef>> {
        let prefix = match digits.parse::<OidPrefix>() {
            Ok(prefix) if digits.len() >= DIGITS_MIN => prefix,
            _ => return Ok(None),
        };
        if let Ok(oid) = digits.parse::<Oid>()
            && let Some(object) = self.shared.backend.read(&oid.into())?
        {
            return Ok(Some(ObjRef::new(oid, object.location())));
        }
        let (mut found, mut several) = (None, false);
        self.shared.backend.each_with_prefix(&prefix, &mut |oid, object| {
            if matches!(object.kind(), Kind::Commit | Kind::Tag) {
                several |= found.is_some_and(|at: ObjRef| at.oid != oid);
                found = Some(ObjRef::new(oid, object.location()));
            }
            Ok(())
        })?;
        if several {
            return Err(Error::Usage { reason: "several commits have ids that start so; give more digits" });
        }
        if found.is_none() {
            self.refuse_absent(&prefix)?;
        }
        Ok(found)
    }

    /// Fails if these are the first digits of a commit that is absent on purpose.
    fn refuse_absent(&self, prefix: &OidPrefix) -> Result<()> {
        let absent = self.shared.backend.absent()?;
        match absent.iter().find(|(oid, _)| prefix.matches(oid)) {
            Some((oid, row)) => Err(Error::Absent { oid: *oid, reason: row.reason }),
            None => Ok(()),
        }
    }

    fn nth_ancestor(&self, graph: &mut CommitGraph<F>, at: CommitId, number: u32) -> Result<Option<CommitId>> {
        let mut at = at;
        for _ in 0..number {
            let Some(parent) = self.nth_parent(graph, at, 1)? else { return Ok(None) };
            at = parent;
        }
        Ok(Some(at))
    }

    fn nth_parent(&self, graph: &mut CommitGraph<F>, at: CommitId, number: u32) -> Result<Option<CommitId>> {
        let commit = graph.commit(&self.shared.commit_ref(at))?;
        if number == 0 {
            return Ok(Some(at));
        }
        let Some(parent) = commit.parents.get(number as usize - 1) else { return Ok(None) };
        // What is kept behind a gap is no parent.
        if let Some(&found) = graph.parents(&at.oid(), &commit)?.iter().find(|found| found.oid == parent.oid()) {
            return Ok(Some(self.shared.commit_id(found)));
        }
        let absent = self.shared.backend.absent()?;
        let row = absent.get(&parent.oid());
        row.map_or(Ok(None), |row| Err(Error::Absent { oid: parent.oid(), reason: row.reason }))
    }
}

fn number(digits: &str) -> Result<u32> {
    if digits.is_empty() {
        return Ok(1);
    }
    digits.parse().map_err(|_| Error::Usage { reason: "the number after ~ or ^ is too large" })
}

fn no_ref(name: &str) -> Error {
    Error::NoRef { name: name.to_owned() }
}
