//! Reflogs: what a ref held, line by line.

use std::time::{SystemTime, UNIX_EPOCH};

use bristlecone::{Error, Oid, RefTarget, Result, Signature, Zone, core::git::Algorithm, storage::OpenMode};

use super::value::parse_hex;
use crate::repository::files::{Files, folder, is_absent};

/// One line of a reflog.
#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    /// What the ref held before.
    pub(crate) from: Option<RefTarget>,
    /// What it holds from then on.
    pub(crate) to: Option<RefTarget>,
    /// Why, in one line.
    pub(crate) message: String,
}

/// A move of a ref, as its reflog tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedMove {
    /// What the ref held before; `None`: it was not there.
    pub before: Option<Oid>,
    /// What it held from then on; `None`: it was removed.
    pub after: Option<Oid>,
    /// Who moved it, and when.
    pub who: Signature,
    /// Why, in one line.
    pub reason: Vec<u8>,
}

/// How reflogs are written.
#[derive(Clone, Debug)]
pub(crate) struct LogRules {
    /// Whether reflogs are begun; those that are there go on in any case.
    pub(crate) begin: bool,
    /// Whether that is for refs of every kind.
    pub(crate) all: bool,
    /// Who moves refs: `Name <email>`.
    pub(crate) who: Vec<u8>,
}

impl LogRules {
    /// Whether Git begins a reflog for a ref of this name.
    pub(super) fn begins(&self, name: &str) -> bool {
        let kept = ["refs/heads/", "refs/remotes/", "refs/notes/"];
        self.begin && (self.all || name == "HEAD" || kept.iter().any(|dir| name.starts_with(dir)))
    }
}

/// Returns the name of a ref's reflog, for a ref whose file is `path`.
pub(crate) fn log_path(dir: &str, name: &str) -> String {
    if dir.is_empty() { format!("logs/{name}") } else { format!("{dir}/logs/{name}") }
}

/// Appends lines to the reflog at `path` of the ref `name`. The ref's lock must be held.
///
/// A folder that is where the file should be, or a file where a folder should be, is an old reflog's: there is then
/// none.
pub(crate) fn append(
    files: &Files,
    rules: &LogRules,
    algorithm: Algorithm,
    (name, path): (&str, &str),
    lines: &[LogLine],
) -> Result<()> {
    let mut text = Vec::new();
    for line in lines {
        // Symbolic refs have no ids to write.
        let (Some(from), Some(to)) = (id_of(line.from.as_ref(), algorithm), id_of(line.to.as_ref(), algorithm)) else {
            continue;
        };
        text.extend_from_slice(format!("{from} {to} ").as_bytes());
        text.extend(rules.who.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        text.extend_from_slice(format!(" {seconds} +0000\t{}\n", line.message.replace('\n', " ")).as_bytes());
    }
    if text.is_empty() {
        return Ok(());
    }
    let mode = if rules.begins(name) { OpenMode::Create } else { OpenMode::Write };
    let mut opened = files.open_raw(path, mode);
    if mode == OpenMode::Create && opened.as_ref().is_err_and(is_absent) {
        if files.create_dir(folder(path)).is_err() {
            return Ok(());
        }
        opened = files.open_raw(path, mode);
    }
    match opened {
        Err(error) if is_absent(&error) || error.kind() == std::io::ErrorKind::IsADirectory => Ok(()),
        opened => {
            let file = files.named(path, opened)?;
            let end = files.named(path, file.len())?;
            files.write_at(path, &*file, &text, end).inspect_err(|_| {
                // A part of a line would spoil the one that comes next. If it stays, that is no worse than what failed.
                let _ = files.set_len(path, &*file, end);
            })
        }
    }
}

/// Returns what the reflog at `path` says that a ref held, oldest first; nothing where there is no reflog.
pub(crate) fn values(files: &Files, algorithm: Algorithm, path: &str) -> Result<Vec<Oid>> {
    let mut values = Vec::new();
    each_line(files, algorithm, path, &mut |from, to, _| {
        // The oldest line tells of one move more.
        if values.is_empty() && is_some(&from) {
            values.push(from);
        }
        values.push(to);
    })?;
    Ok(values)
}

/// Returns the moves of a ref that the reflog at `path` tells of, oldest first; none where there is no reflog.
pub(crate) fn moves(files: &Files, algorithm: Algorithm, path: &str) -> Result<Vec<LoggedMove>> {
    let mut moves = Vec::new();
    each_line(files, algorithm, path, &mut |from, to, rest| {
        let end = rest.iter().position(|&byte| byte == b'\t').unwrap_or(rest.len());
        let (who, reason) = (signature(&rest[..end]), rest.get(end + 1..).unwrap_or_default().to_vec());
        let [before, after] = [from, to].map(|id| Some(id).filter(is_some));
        moves.push(LoggedMove { before, after, who, reason });
    })?;
    Ok(moves)
}

/// Whether an id is one, and not the zeroes that stand for none.
fn is_some(id: &Oid) -> bool {
    id.as_bytes().iter().any(|&byte| byte != 0)
}

/// Reads `NAME <ADDRESS> SECONDS ZONE`; what has not that form is a name.
fn signature(text: &[u8]) -> Signature {
    let mut parts = text.rsplitn(3, |&byte| byte == b' ');
    if let (Some(zone), Some(seconds), Some(ident)) = (parts.next(), parts.next(), parts.next())
        && let Some(seconds) = str::from_utf8(seconds).ok().and_then(|seconds| seconds.parse().ok())
    {
        return Signature { ident: ident.to_vec(), seconds, zone: Zone::from_bytes(zone) };
    }
    Signature::new(text, 0)
}

/// Gives each line of a reflog, oldest first: both ids, and what follows them. Lines that make no sense, as a power cut leaves
/// them, are passed over, as Git does.
fn each_line(files: &Files, algorithm: Algorithm, path: &str, each: &mut dyn FnMut(Oid, Oid, &[u8])) -> Result<()> {
    let bytes = match files.read(path) {
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::IsADirectory => None,
        read => read?,
    };
    for line in bytes.unwrap_or_default().split_inclusive(|&byte| byte == b'\n') {
        if let Some([from, to]) = ids_of(line, algorithm) {
            let rest = line.get(4 * algorithm.oid_bytes() + 2..).unwrap_or_default();
            each(from, to, rest.strip_suffix(b"\n").unwrap_or(rest));
        }
    }
    Ok(())
}

/// Returns the id of what a ref holds, zeroes for nothing.
fn id_of(target: Option<&RefTarget>, algorithm: Algorithm) -> Option<String> {
    match target {
        None => Some("0".repeat(algorithm.oid_bytes() * 2)),
        Some(RefTarget::Object(at)) => Some(at.oid.to_string()),
        Some(RefTarget::Symbolic(_)) => None,
    }
}

/// Removes the reflog at `path`, and the folders that become empty below `logs/refs/KIND`.
pub(crate) fn remove(files: &Files, path: &str) -> Result<()> {
    match files.remove(path) {
        Ok(true) => remove_empty_parents(files, path, 3),
        // A folder of other reflogs, or nothing.
        Ok(false) => Ok(()),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::IsADirectory => Ok(()),
        Err(error) => Err(error),
    }
}

/// Removes the folders above a file that are empty, but for the first `keep` parts of the path.
pub(crate) fn remove_empty_parents(files: &Files, path: &str, keep: usize) -> Result<()> {
    let mut dir = folder(path);
    while dir.split('/').count() > keep && files.remove_dir(dir)? {
        dir = folder(dir);
    }
    Ok(())
}

/// The lines of a reflog that may stay.
#[derive(Debug)]
pub(crate) struct Mended {
    /// Their bytes.
    pub(crate) bytes: Vec<u8>,
    /// Whether there were others.
    pub(crate) changed: bool,
}

/// Returns the lines of a reflog, as these bytes hold it, whose ids are all of objects that are there.
///
/// `trusted` says of an id that everything is there which it leads to. After the last line that ends at such a one
/// stand those that a power cut may have left without what they name: the second argument of `is_there` says that an id
/// is of one of those.
pub(crate) fn mended(
    bytes: &[u8],
    algorithm: Algorithm,
    trusted: &dyn Fn(&Oid) -> bool,
    is_there: &mut dyn FnMut(&Oid, bool) -> Result<bool>,
) -> Result<Mended> {
    let lines: Vec<(&[u8], Option<[Oid; 2]>)> =
        bytes.split_inclusive(|&byte| byte == b'\n').map(|line| (line, ids_of(line, algorithm))).collect();
    let durable = lines.iter().rposition(|(_, ids)| ids.is_some_and(|[_, to]| trusted(&to))).map_or(0, |at| at + 1);
    let mut mended = Mended { bytes: Vec::with_capacity(bytes.len()), changed: false };
    for (index, (line, ids)) in lines.into_iter().enumerate() {
        let mut stays = ids.is_some();
        for oid in ids.iter().flatten() {
            stays = stays && (!is_some(oid) || trusted(oid) || is_there(oid, index >= durable)?);
        }
        mended.changed |= !stays;
        if stays {
            mended.bytes.extend_from_slice(line);
        }
    }
    Ok(mended)
}

/// Returns what a line says a ref held before and after; `None` for what is no line.
fn ids_of(line: &[u8], algorithm: Algorithm) -> Option<[Oid; 2]> {
    let digits = algorithm.oid_bytes() * 2;
    let line = line.strip_suffix(b"\n")?;
    let (from, rest) = line.split_at_checked(digits)?;
    let (to, rest) = rest.strip_prefix(b" ")?.split_at_checked(digits)?;
    rest.starts_with(b" ").then_some([parse_hex(from)?, parse_hex(to)?])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bristlecone_testkit::sim::SimStorage;

    use super::*;

    #[test]
    fn lines_that_make_no_sense_are_passed_over() {
        let files = Files::new(Arc::new(SimStorage::new()));
        let line = |from: &str, to: &str| format!("{} {} A <a@b> 1 +0000\tx\n", from.repeat(40), to.repeat(40));
        let lines = [line("0", "1"), "torn\n".to_owned(), line("1", "2"), "\0\0".to_owned()];
        files.write("log", lines.concat().as_bytes()).unwrap();
        let held = values(&files, Algorithm::Sha1, "log").unwrap();
        assert_eq!(held.iter().map(Oid::to_string).collect::<Vec<_>>(), ["1".repeat(40), "2".repeat(40)]);
        assert!(values(&files, Algorithm::Sha1, "none").unwrap().is_empty());
    }

    #[test]
    fn lines_that_lead_to_nothing_are_taken_out() {
        let id = |digit: &str| digit.repeat(40);
        let line = |from: &str, to: &str| format!("{} {} A <a@b> 1 +0000\tx\n", id(from), id(to));
        let lines =
            [line("0", "1"), line("1", "2"), line("2", "3"), "torn\n".to_owned(), line("3", "4"), "\0\0".to_owned()];
        let mut asked = Vec::new();
        let trusted = |oid: &Oid| oid.to_string() == id("2");
        let mended = mended(lines.concat().as_bytes(), Algorithm::Sha1, &trusted, &mut |oid, suspect| {
            asked.push((oid.to_string()[..1].to_owned(), suspect));
            Ok(oid.to_string() != id("4"))
        });
        let mended = mended.unwrap();
        assert!(mended.changed);
        assert_eq!(String::from_utf8(mended.bytes).unwrap(), lines[..3].concat());
        let shown: Vec<(&str, bool)> = asked.iter().map(|(digit, suspect)| (&**digit, *suspect)).collect();
        assert_eq!(shown, [("1", false), ("1", false), ("3", true), ("3", true), ("4", true)]);
    }
}
