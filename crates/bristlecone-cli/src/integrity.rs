//! Checking a store whole: frames, the hash of every object, every reference, and which refs lead to damage.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bristlecone::{Damage, Error, Format, Kind, ObjRef, Object, Oid, RefTarget, disk::CheckSummary};

use crate::{
    failure::Result,
    formats::Repo,
    open::{Opened, Store},
    progress::{Done, Progress},
};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file and the offset in it, where that is known.
    pub(crate) place: Option<(String, u64)>,
    /// The object, where that is known.
    pub(crate) oid: Option<Oid>,
    /// What is wrong.
    pub(crate) reason: String,
}

/// What a check found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// What the engine went through.
    pub(crate) engine: CheckSummary,
    /// Objects whose hash was computed.
    pub(crate) objects: u64,
    /// References from object to object that were followed.
    pub(crate) references: u64,
    /// Refs.
    pub(crate) refs: u64,
    /// What is wrong.
    pub(crate) findings: BTreeSet<Finding>,
    /// Refs that lead to something that is.
    pub(crate) affected: Vec<String>,
}

/// What has a place in a file comes first, in the order of files.
impl Ord for Finding {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let key = |one: &Self| (one.place.is_none(), one.place.clone(), one.oid, one.reason.clone());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Finding {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Report {
    /// The report on a store that is too damaged to be opened.
    pub(crate) fn unopened(file: String, offset: u64, reason: String) -> Self {
        let finding = Finding { place: Some((file, offset)), oid: None, reason };
        Self { findings: BTreeSet::from([finding]), ..Self::default() }
    }
}

impl From<Damage> for Finding {
    fn from(damage: Damage) -> Self {
        Self { place: Some((damage.file, damage.offset)), oid: damage.oid, reason: damage.reason }
    }
}

impl Finding {
    fn of(oid: Oid, reason: impl Into<String>) -> Self {
        Self { place: None, oid: Some(oid), reason: reason.into() }
    }
}

/// Checks a store.
pub(crate) fn check(opened: &Opened) -> Result<Report> {
    let mut report = Report::default();
    let mut findings = BTreeSet::new();
    if let Store::Disk { backend, .. } = &opened.store {
        report.engine = backend.check(&mut |damage| _ = findings.insert(damage.into()))?;
    }
    report.findings = findings;
    objects(opened, &mut report)?;
    let refs = opened.backend().list_refs("")?;
    report.refs = refs.len() as u64;
    check_refs(opened, &refs, &mut report);
    if !report.findings.is_empty() {
        report.affected = affected(opened, &refs, &mut report.findings);
    }
    Ok(report)
}

/// Hashes every object, and follows its references one step.
fn objects(opened: &Opened, report: &mut Report) -> Result<()> {
    let mut progress = Progress::new("checked", None);
    let done = Done::default();
    let format = opened.repo.format();
    let Report { objects, references, findings, .. } = report;
    let mut damages = Vec::new();
    opened.backend().each_object(
        &mut |oid, object| {
            *objects += 1;
            done.add(object.body().len() as u64);
            progress.tick(&done);
            if let Some((whose, reason)) = wrong(&opened.repo, oid, object) {
                findings.insert(Finding::of(oid, reason));
                if whose == Fault::Own {
                    return Ok(());
                }
            }
            for (kind, at) in children(format, object) {
                *references += 1;
                if let Some(reason) = wrong_reference(opened, kind, &at) {
                    findings.insert(Finding::of(oid, reason));
                }
            }
            Ok(())
        },
        &mut |damage| damages.push(damage),
    )?;
    findings.extend(damages.into_iter().map(Finding::from));
    Ok(())
}

/// Where the reason lies that an object is not sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// In the object itself.
    Own,
    /// In others, without which its hash cannot be computed.
    Others,
}

/// Returns what is wrong with an object by itself.
fn wrong(repo: &Repo, oid: Oid, object: &Object<'_>) -> Option<(Fault, String)> {
    let kind = object.kind();
    match repo.hash_object(object) {
        Ok(found) if found == oid => {}
        Ok(found) => return Some((Fault::Own, format!("the {kind} object's hash is {found}"))),
        Err(Error::Corrupt { .. } | Error::Missing { .. } | Error::WrongKind { .. } | Error::BadObject { .. }) => {
            let reason = format!("the {kind} object's hash takes objects that are missing or damaged");
            return Some((Fault::Others, reason));
        }
        Err(error) => return Some((Fault::Own, error.to_string())),
    }
    let children = repo.format().children(kind, object.body(), &mut |_, _| ());
    children.err().map(|error| (Fault::Own, error.to_string()))
}

/// Returns the children of a sound object.
fn children(format: &impl Format, object: &Object<'_>) -> Vec<(Kind, ObjRef)> {
    let mut all = Vec::new();
    let _ = format.children(object.kind(), object.body(), &mut |kind, oid| {
        all.push((kind, ObjRef::new(oid, object.child(all.len()))));
    });
    all
}

/// Returns what is wrong with a reference: there is nothing, something damaged, or something of another kind.
fn wrong_reference(opened: &Opened, kind: Kind, at: &ObjRef) -> Option<String> {
    match opened.backend().read(at) {
        Ok(Some(object)) if fits(kind, object.kind()) => None,
        Ok(Some(object)) => {
            Some(format!("it names {} as a {kind} object, which is a {} object", at.oid, object.kind()))
        }
        Ok(None) => Some(format!("it names the {kind} object {}, which is missing", at.oid)),
        Err(_) => Some(format!("it names the {kind} object {}, which is damaged", at.oid)),
    }
}

/// A large value stands for a value.
fn fits(wanted: Kind, found: Kind) -> bool {
    wanted == found || (wanted == Kind::Contents && found == Kind::Pieces)
}

fn check_refs(opened: &Opened, refs: &BTreeMap<String, RefTarget>, report: &mut Report) {
    for (name, target) in refs {
        if let RefTarget::Object(at) = target
            && let Some(reason) = wrong_reference(opened, Kind::Commit, at)
        {
            let reason = format!("the ref {name}: {reason}");
            report.findings.insert(Finding { place: None, oid: Some(at.oid), reason });
        }
    }
}

/// Walks everything that refs lead to and returns those that lead to damage; what is found missing or
/// damaged on the way is added.
fn affected(opened: &Opened, refs: &BTreeMap<String, RefTarget>, findings: &mut BTreeSet<Finding>) -> Vec<String> {
    let known: BTreeSet<Oid> = findings.iter().filter_map(|finding| finding.oid).collect();
    let mut walk = Reach { opened, known, findings, leads: HashMap::new() };
    let mut names = Vec::new();
    for (name, target) in refs {
        if let RefTarget::Object(at) = target
            && walk.leads_to_damage(*at)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Which objects lead to damage.
struct Reach<'a> {
    opened: &'a Opened,
    known: BTreeSet<Oid>,
    findings: &'a mut BTreeSet<Finding>,
    // Whether each object walked so far does; false also while it is being walked.
    leads: HashMap<Oid, bool>,
}

impl Reach<'_> {
    fn leads_to_damage(&mut self, at: ObjRef) -> bool {
        // Without recursion: histories are deep. Each level: an object and its children still to be walked.
        let mut stack: Vec<(Oid, Vec<(Kind, ObjRef)>)> = Vec::new();
        self.enter(Kind::Commit, at, &mut stack);
        while let Some((oid, waiting)) = stack.last_mut() {
            let oid = *oid;
            match waiting.pop() {
                Some((kind, child)) => match self.leads.get(&child.oid) {
                    Some(&leads) => *self.leads.entry(oid).or_default() |= leads,
                    None => self.enter(kind, child, &mut stack),
                },
                None => {
                    stack.pop();
                    let leads = self.leads[&oid];
                    if let Some((above, _)) = stack.last() {
                        *self.leads.entry(*above).or_default() |= leads;
                    }
                }
            }
        }
        self.leads[&at.oid]
    }

    fn enter(&mut self, kind: Kind, at: ObjRef, stack: &mut Vec<(Oid, Vec<(Kind, ObjRef)>)>) {
        if self.leads.contains_key(&at.oid) {
            return;
        }
        let format = self.opened.repo.format();
        let waiting = match self.opened.backend().read(&at) {
            Ok(Some(object)) if fits(kind, object.kind()) && wrong(&self.opened.repo, at.oid, &object).is_none() => {
                children(format, &object)
            }
            _ => {
                if self.known.insert(at.oid) {
                    self.findings.insert(Finding::of(at.oid, format!("the {kind} object is missing or damaged")));
                }
                Vec::new()
            }
        };
        self.leads.insert(at.oid, self.known.contains(&at.oid));
        stack.push((at.oid, waiting));
    }
}
