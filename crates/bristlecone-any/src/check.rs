//! Checking a store whole: frames, the hash of every object, every reference, what must hold between objects, and which
//! refs lead to damage.
//!
//! In a Git repository every object is checked against its id by the hash that finds collisions. Objects that nothing
//! leads to may lack what they name there, as after `git gc`; so only what refs lead to must be complete.
//!
//! ```
//! use bristlecone_any::{AnyRepo, check};
//!
//! let report = check::check(&AnyRepo::open("memory:")?, &mut |_, _| {})?;
//! assert!(report.opened && report.findings.is_empty());
//! # Ok::<(), bristlecone_any::Error>(())
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    num::NonZero,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use bristlecone::{
    AbsentCommits, Damage, Error as StoreError, Format, Kind, ObjRef, Object, Oid, RefTarget, Snapshot, check_ref_name,
    core::{
        AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Checked,
        git::{self, Algorithm},
    },
    disk::{CheckSummary, DiskBackend},
    report,
};
use bristlecone_git::{
    backend::GitBackend,
    layout::Layout,
    odb::check_id,
    pack::Pack,
    refs::{OF_WORKTREE, Refs},
    worktree::{WorktreeHead, checked_out},
};

use crate::{
    AnyFormat, AnyRepo, Repo,
    error::{Error, Result},
};

mod reachable;

use reachable::Reachable;

/// The most threads that are started.
const THREADS_MAX: usize = 256;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file and the offset in it, where that is known.
    pub place: Option<(String, u64)>,
    /// The object, where that is known.
    pub oid: Option<Oid>,
    /// What is wrong.
    pub reason: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Whether the store could be opened; else the finding says why not, and nothing else was checked.
    pub opened: bool,
    /// What the engine went through.
    pub engine: CheckSummary,
    /// Objects whose hash was computed.
    pub objects: u64,
    /// References from object to object that were followed.
    pub references: u64,
    /// Refs.
    pub refs: u64,
    /// Objects that the remote of a partial clone promised, and that are not here.
    pub promised: u64,
    /// What is wrong.
    pub findings: BTreeSet<Finding>,
    /// Refs that lead to something that is.
    pub affected: Vec<String>,
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
    /// Returns the report on a store that is too damaged to be opened; `None` if that is not why it did not open.
    #[must_use]
    pub fn unopened(error: &Error) -> Option<Self> {
        let (file, offset, reason) = match error {
            Error::Store(StoreError::Corrupt { file, offset, reason, .. }) => (file, *offset, reason),
            Error::Store(StoreError::Lost { file, reason }) => (file, 0, reason),
            _ => return None,
        };
        let finding = Finding { place: Some((file.clone(), offset)), oid: None, reason: reason.clone() };
        Some(Self { findings: BTreeSet::from([finding]), ..Self::default() })
    }
}

impl From<Damage> for Finding {
    fn from(damage: Damage) -> Self {
        Self { place: Some((damage.file, damage.offset)), oid: damage.oid, reason: damage.reason }
    }
}

impl Finding {
    /// Whether both say the same of the same place, if perhaps of two objects.
    #[must_use]
    pub fn is_same_damage(&self, other: &Self) -> bool {
        self.place == other.place && self.reason == other.reason
    }

    fn of(oid: Oid, reason: impl Into<String>) -> Self {
        Self { place: None, oid: Some(oid), reason: reason.into() }
    }
}

/// Checks a store. `tell` hears how many objects were checked, and their bytes. All cores check a store of the disk engine and a Git
/// repository. Where something is put around a backend ([`AnyRepo::wrapped`]), objects are read through that, by one thread; but a Git
/// repository is checked as it is, without what is around it.
///
/// What is wrong is in the report and no error.
///
/// # Errors
/// What keeps the check from going on: those of the backend and of the system.
pub fn check(repo: &AnyRepo, tell: &mut dyn FnMut(u64, u64)) -> Result<Report> {
    check_with(repo, thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN), tell)
}

/// As [`check`], on at most so many threads, and on no more than 256. The report is the same for any number.
///
/// # Errors
/// As [`check`].
pub fn check_with(repo: &AnyRepo, threads: NonZero<usize>, tell: &mut dyn FnMut(u64, u64)) -> Result<Report> {
    let threads = bounded(threads);
    let mut report = Report { opened: true, ..Report::default() };
    let mut broken = BTreeSet::<Finding>::new();
    let mut refs = match repo.git() {
        Some((backend, _)) => backend.sound_refs(&mut |damage| _ = broken.insert(damage.into()))?,
        None => sound(repo.backend().list_refs(""), &mut broken)?.unwrap_or_default(),
    };
    match repo.git() {
        None => {
            let shallow = match repo.shallow() {
                // Refs say it, too.
                Err(Error::Store(StoreError::Corrupt { .. })) if !broken.is_empty() => HashSet::new(),
                shallow => shallow?,
            };
            if let Some(disk) = repo.disk() {
                report.engine = disk.check_with(threads, &mut |damage| _ = broken.insert(damage.into()))?;
            }
            report.findings = broken;
            match repo.unwrapped_disk() {
                Some(disk) => objects_of_disk(repo, disk, threads, &mut report, &shallow, tell)?,
                None => objects(repo, &mut report, &shallow, tell)?,
            }
            report.refs = refs.len() as u64;
            check_refs(repo, &refs, &mut report);
            if !report.findings.is_empty() {
                report.affected = affected(repo, &refs, &mut report, shallow, &Promised::default());
            }
        }
        Some((backend, layout)) => {
            report.findings = broken;
            let mut promised = Promised { packs: backend.odb().promisor_packs()?, absent: HashSet::new() };
            objects_of_git(repo, backend, threads, &mut report, &mut promised, tell)?;
            refs.extend(heads(backend, layout, &mut report.findings)?);
            report.refs = refs.len() as u64;
            let shallow = repo.shallow()?;
            // Where something is wrong, one thread finds out what it touches.
            if threads.get() == 1
                || !report.findings.is_empty()
                || !Reachable::new(repo, &shallow, &promised).is_sound(&refs, threads)
            {
                report.affected = affected(repo, &refs, &mut report, shallow, &promised);
            }
            report.promised = promised.absent.len() as u64;
        }
    }
    Ok(report)
}

/// Returns how many threads are started where so many are asked for: others would only wait, and take memory.
fn bounded(threads: NonZero<usize>) -> NonZero<usize> {
    NonZero::new(threads.get().min(THREADS_MAX)).unwrap_or(threads)
}

/// Returns the commits that working trees have checked out by themselves, and the refs that others than this one have of their
/// own, by the names of their files. `broken` takes what makes no sense.
fn heads(backend: &GitBackend, layout: &Layout, broken: &mut BTreeSet<Finding>) -> Result<BTreeMap<String, RefTarget>> {
    let mut found = BTreeMap::new();
    for place in checked_out(layout)? {
        let file = |name: &str| place.git_dir.join(name).display().to_string();
        match &place.head {
            WorktreeHead::Ref(name) if check_ref_name(name).is_ok() => {}
            WorktreeHead::Commit(oid) => _ = found.insert(file("HEAD"), RefTarget::Object((*oid).into())),
            WorktreeHead::Ref(_) | WorktreeHead::Unknown => {
                let reason = "it names neither a branch nor a commit".to_owned();
                broken.insert(Finding { place: Some((file("HEAD"), 0)), oid: None, reason });
            }
        }
        let below = place.git_dir.strip_prefix(&layout.common_dir).ok().and_then(Path::to_str);
        if let Some(dir) = below.filter(|_| place.git_dir != layout.git_dir) {
            let refs = Refs::open(layout.storage(), layout.algorithm, dir);
            for folder in OF_WORKTREE {
                let listed = sound(refs.list(folder), broken)?.unwrap_or_default();
                found.extend(listed.into_iter().map(|(name, target)| (file(&name), target)));
            }
        }
    }
    // That of a bare repository is no working tree's.
    if layout.is_bare()
        && let Some(head @ RefTarget::Object(_)) = sound(backend.git_head(), broken)?.flatten()
    {
        found.insert(layout.git_dir.join("HEAD").display().to_string(), head);
    }
    Ok(found)
}

/// Returns what was read; nothing where it is damaged, which `broken` takes.
fn sound<T>(read: bristlecone::Result<T>, broken: &mut BTreeSet<Finding>) -> Result<Option<T>> {
    match read {
        Err(StoreError::Corrupt { file, offset, oid, reason }) => {
            broken.insert(Finding { place: Some((file, offset)), oid, reason });
            Ok(None)
        }
        read => Ok(Some(read?)),
    }
}

/// What the remote of a partial clone promised to give when it is needed: all that is named by the objects that it gave.
#[derive(Default)]
struct Promised {
    packs: Vec<Arc<Pack>>,
    absent: HashSet<Oid>,
}

impl Promised {
    /// Notes what an object names and is not here, if the remote gave the object.
    fn note(&mut self, backend: &GitBackend, oid: &Oid, children: &[(Kind, ObjRef)]) -> bristlecone::Result<()> {
        if self.packs.iter().any(|pack| pack.index().find(oid).is_some()) {
            for (_, child) in children {
                if !self.absent.contains(&child.oid) && !backend.odb().contains(&child.oid)? {
                    self.absent.insert(child.oid);
                }
            }
        }
        Ok(())
    }
}

/// Hashes every object, checks it together with what it names, and follows its references one step, but for the parents of those
/// commits.
fn objects(repo: &AnyRepo, report: &mut Report, shallow: &HashSet<Oid>, tell: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let absent = repo.backend().absent()?;
    let (mut check, mut damages) = (ObjectCheck::new(repo, Some(shallow), absent, Checked::new()), Vec::new());
    repo.backend().each_object(
        &mut |oid, object| {
            check.object(oid, object);
            tell(check.found.objects, check.found.bytes);
            Ok(())
        },
        &mut |damage| damages.push(damage),
    )?;
    report.add(check.finish(damages).0);
    Ok(())
}

/// As [`objects`], on several threads. What is found does not depend on their number.
fn objects_of_disk(
    repo: &AnyRepo,
    disk: &DiskBackend,
    threads: NonZero<usize>,
    report: &mut Report,
    shallow: &HashSet<Oid>,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let absent = repo.backend().absent()?;
    // What was found sound, for the next part.
    let known = Mutex::new(Vec::new());
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let mut bytes = 0;
    disk.objects()?.each_part(
        threads,
        &|part| {
            let checked = known().pop().unwrap_or_default();
            let mut check = ObjectCheck::new(repo, Some(shallow), absent.clone(), checked);
            let mut damages = Vec::new();
            part.each_object(
                &mut |oid, object| {
                    check.object(oid, object);
                    Ok(())
                },
                &mut |damage| damages.push(damage),
            )?;
            let (found, checked) = check.finish(damages);
            known().push(checked);
            Ok(found)
        },
        &mut |found| {
            bytes += found.bytes;
            report.add(found);
            tell(report.objects, bytes);
            Ok(())
        },
    )?;
    Ok(())
}

/// As [`objects`], of a Git repository, on several threads: no references are followed, but it is noted what was promised. What is
/// found does not depend on the number of threads.
fn objects_of_git(
    repo: &AnyRepo,
    backend: &GitBackend,
    threads: NonZero<usize>,
    report: &mut Report,
    promised: &mut Promised,
    tell: &mut dyn FnMut(u64, u64),
) -> Result<()> {
    let absent = repo.backend().absent()?;
    let known = Mutex::new(Vec::new());
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let packs = promised.packs.clone();
    let (mut bytes, all_absent) = (0, &mut promised.absent);
    backend.each_part(
        threads,
        &|part| {
            let checked = known().pop().unwrap_or_default();
            let mut check = ObjectCheck::new(repo, None, absent.clone(), checked);
            let mut promised = Promised { packs: packs.clone(), absent: HashSet::new() };
            let mut damages = Vec::new();
            part.each_object(
                &mut |oid, object| {
                    let children = check.object(oid, object);
                    promised.note(backend, &oid, &children)
                },
                &mut |damage| damages.push(damage),
            )?;
            let (found, checked) = check.finish(damages);
            known().push(checked);
            Ok((found, promised.absent))
        },
        &mut |(found, absent)| {
            bytes += found.bytes;
            report.add(found);
            all_absent.extend(absent);
            tell(report.objects, bytes);
            Ok(())
        },
    )?;
    Ok(())
}

/// What was found in some objects.
#[derive(Default)]
struct Found {
    objects: u64,
    references: u64,
    bytes: u64,
    findings: Vec<Finding>,
}

/// A check of some objects.
struct ObjectCheck<'r> {
    repo: &'r AnyRepo,
    complete: Option<&'r HashSet<Oid>>,
    absent: Arc<AbsentCommits>,
    checked: Checked,
    named: References,
    found: Found,
}

impl<'r> ObjectCheck<'r> {
    fn new(
        repo: &'r AnyRepo,
        complete: Option<&'r HashSet<Oid>>,
        absent: Arc<AbsentCommits>,
        checked: Checked,
    ) -> Self {
        let named = References { snapshot: repo.backend().snapshot(&[]), waiting: Vec::new(), wrong: Vec::new() };
        Self { repo, complete, absent, checked, named, found: Found::default() }
    }

    /// Checks an object, and returns what it names if it is sound by itself.
    fn object(&mut self, oid: Oid, object: &Object<'_>) -> Vec<(Kind, ObjRef)> {
        self.found.objects += 1;
        self.found.bytes += object.body().len() as u64;
        if let Some((whose, reason)) = wrong(self.repo, oid, object) {
            self.found.findings.push(Finding::of(oid, reason));
            if whose == Fault::Own {
                return Vec::new();
            }
        }
        if let Some(reason) = misplaced(self.repo, object, false, &mut self.checked) {
            self.found.findings.push(Finding::of(oid, reason));
        }
        let children = children(self.repo.format(), object);
        self.found.references += children.len() as u64;
        if let Some(shallow) = self.complete {
            for (kind, at) in &children {
                let parent = *kind == Kind::Commit && object.kind() == Kind::Commit;
                if !(parent && (shallow.contains(&oid) || self.absent.contains_key(&at.oid))) {
                    self.named.add(oid, *kind, *at);
                }
            }
        }
        children
    }

    fn finish(mut self, damages: Vec<Damage>) -> (Found, Checked) {
        self.named.look();
        let wrong = self.named.wrong.into_iter().map(|(oid, reason)| Finding::of(oid, reason));
        self.found.findings.extend(wrong.chain(damages.into_iter().map(Finding::from)));
        (self.found, self.checked)
    }
}

impl Report {
    fn add(&mut self, found: Found) {
        self.objects += found.objects;
        self.references += found.references;
        self.findings.extend(found.findings);
    }
}

/// What objects name, looked at many a call.
struct References {
    snapshot: Arc<dyn Snapshot>,
    // Which object names what.
    waiting: Vec<(Oid, Kind, ObjRef)>,
    wrong: Vec<(Oid, String)>,
}

impl References {
    fn add(&mut self, by: Oid, kind: Kind, at: ObjRef) {
        self.waiting.push((by, kind, at));
        if self.waiting.len() == AHEAD_OBJECTS_MAX {
            self.look();
        }
    }

    /// Looks at all that waits.
    fn look(&mut self) {
        let places: Vec<ObjRef> = self.waiting.iter().map(|(_, _, at)| *at).collect();
        let mut next = 0;
        while next < places.len() {
            let found = match self.snapshot.read_many(&places[next..], AHEAD_BYTES_MAX) {
                Ok(found) if !found.is_empty() => found.into_iter().map(Ok).collect(),
                Ok(_) => vec![self.snapshot.read(&places[next])],
                Err(error) => vec![Err(error)],
            };
            for ((by, kind, at), found) in self.waiting[next..].iter().zip(&found) {
                self.wrong.extend(wrong_reference(*kind, at, found).map(|reason| (*by, reason)));
            }
            next += found.len();
        }
        self.waiting.clear();
    }
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
    if let AnyFormat::Git(format) = repo.format()
        && repo.backend().capabilities().git.is_some()
    {
        if let Err(reason) = wrong_id(format.algorithm(), oid, object) {
            return Some((Fault::Own, reason));
        }
        return undecodable(repo, object);
    }
    match repo.hash_object(object) {
        Ok(found) if found == oid => {}
        Ok(found) => return Some((Fault::Own, format!("the {kind} object's hash is {found}"))),
        Err(
            StoreError::Corrupt { .. }
            | StoreError::Missing { .. }
            | StoreError::Promised { .. }
            | StoreError::WrongKind { .. }
            | StoreError::BadObject { .. },
        ) => {
            let reason = format!("the {kind} object's hash takes objects that are missing or damaged");
            return Some((Fault::Others, reason));
        }
        Err(error) => return Some((Fault::Own, report(&error))),
    }
    undecodable(repo, object)
}

/// Returns what is wrong between an object and those below it, which are named as damage of their own if they are missing
/// or damaged.
fn misplaced(repo: &Repo, object: &Object<'_>, whole: bool, checked: &mut Checked) -> Option<String> {
    match repo.check_structure(object, whole, checked) {
        Ok(()) => None,
        Err(
            StoreError::Missing { .. }
            | StoreError::Promised { .. }
            | StoreError::Corrupt { .. }
            | StoreError::WrongKind { .. },
        ) => None,
        Err(error) => Some(report(&error)),
    }
}

/// Compares an object of a Git repository with its id, by the hash that finds collisions.
fn wrong_id(algorithm: Algorithm, oid: Oid, object: &Object<'_>) -> Result<(), String> {
    let raw = git::raw(object.kind(), object.body()).map_err(|error| error.to_string())?;
    check_id(algorithm, &oid, object.kind(), raw)
}

fn undecodable(repo: &Repo, object: &Object<'_>) -> Option<(Fault, String)> {
    let children = repo.format().children(object.kind(), object.body(), &mut |_, _| ());
    children.err().map(|error| (Fault::Own, report(&error)))
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
fn wrong_reference(kind: Kind, at: &ObjRef, found: &bristlecone::Result<Option<Object<'_>>>) -> Option<String> {
    match found {
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

/// Returns the kind that a ref names: a branch a commit, others whatever is there, such as an annotated tag.
fn named_kind(snapshot: &dyn Snapshot, name: &str, at: &ObjRef) -> Kind {
    match snapshot.read(at) {
        Ok(Some(object)) if !name.starts_with("refs/heads/") => match object.kind() {
            Kind::Pieces => Kind::Contents,
            kind => kind,
        },
        _ => Kind::Commit,
    }
}

fn check_refs(repo: &AnyRepo, refs: &BTreeMap<String, RefTarget>, report: &mut Report) {
    let snapshot = repo.backend().snapshot(&[]);
    for (name, target) in refs {
        let RefTarget::Object(at) = target else { continue };
        let kind = named_kind(&*snapshot, name, at);
        let reason = wrong_reference(kind, at, &snapshot.read(at)).or_else(|| no_whole(repo, &*snapshot, kind, at));
        if let Some(reason) = reason {
            let reason = format!("the ref {}: {reason}", bristlecone::escape(name.as_bytes()));
            report.findings.insert(Finding { place: None, oid: Some(at.oid), reason });
        }
    }
}

/// Returns why what a ref names is no whole directory or value, but a piece of one.
fn no_whole(repo: &AnyRepo, snapshot: &dyn Snapshot, kind: Kind, at: &ObjRef) -> Option<String> {
    if matches!(kind, Kind::Commit | Kind::Tag) {
        return None;
    }
    let object = snapshot.read(at).ok()??;
    misplaced(repo, &object, true, &mut Checked::new())
}

/// Walks everything that refs lead to and returns those that lead to damage; what is found missing or
/// damaged on the way is added. The parents of the commits in `shallow` are not missing, nor is what was promised.
fn affected(
    repo: &AnyRepo,
    refs: &BTreeMap<String, RefTarget>,
    report: &mut Report,
    shallow: HashSet<Oid>,
    promised: &Promised,
) -> Vec<String> {
    let known: BTreeSet<Oid> = report.findings.iter().filter_map(|finding| finding.oid).collect();
    let git = repo.git().is_some();
    let snapshot = &*repo.backend().snapshot(&[]);
    let (findings, leads) = (&mut report.findings, HashMap::new());
    let absent = repo.backend().absent().unwrap_or_default();
    let mut walk = Reach { repo, snapshot, known, findings, leads, git, shallow, absent, promised };
    let mut names = Vec::new();
    for (name, target) in refs {
        if let RefTarget::Object(at) = target
            && walk.leads_to_damage(named_kind(snapshot, name, at), *at)
        {
            names.push(name.clone());
        }
    }
    names
}

/// Which objects lead to damage.
struct Reach<'a> {
    repo: &'a AnyRepo,
    snapshot: &'a dyn Snapshot,
    known: BTreeSet<Oid>,
    findings: &'a mut BTreeSet<Finding>,
    // Whether each object walked so far does; false also while it is being walked.
    leads: HashMap<Oid, bool>,
    // Every object was looked at before, and its id is sound unless it is known: nothing is hashed again.
    git: bool,
    shallow: HashSet<Oid>,
    // What retention has cut.
    absent: Arc<AbsentCommits>,
    promised: &'a Promised,
}

impl Reach<'_> {
    fn leads_to_damage(&mut self, kind: Kind, at: ObjRef) -> bool {
        // Without recursion: histories are deep. Each level: an object and its children still to be walked.
        let mut stack: Vec<(Oid, Vec<(Kind, ObjRef)>)> = Vec::new();
        self.enter(kind, at, &mut stack);
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
        let mut waiting = self.below(kind, at).unwrap_or_else(|| {
            if !self.promised.absent.contains(&at.oid) && self.known.insert(at.oid) {
                self.findings.insert(Finding::of(at.oid, format!("the {kind} object is missing or damaged")));
            }
            Vec::new()
        });
        if self.shallow.contains(&at.oid) {
            waiting.retain(|(kind, _)| *kind != Kind::Commit);
        }
        waiting.retain(|(_, child)| !self.absent.contains_key(&child.oid));
        self.leads.insert(at.oid, self.known.contains(&at.oid));
        stack.push((at.oid, waiting));
    }

    /// Returns what a sound object names; `None` of one that is missing, damaged or of another kind.
    fn below(&self, kind: Kind, at: ObjRef) -> Option<Vec<(Kind, ObjRef)>> {
        if let (Some((backend, _)), Kind::Contents) = (self.repo.git(), kind) {
            // Whether it is there is enough: values name nothing.
            let found = backend.odb().header(&at.oid).ok()??;
            return (found.0 == Kind::Contents).then(Vec::new);
        }
        let object = self.snapshot.read(&at).ok()??;
        let sound = fits(kind, object.kind()) && (self.git || wrong(self.repo, at.oid, &object).is_none());
        sound.then(|| children(self.repo.format(), &object))
    }
}

#[cfg(test)]
mod tests;
