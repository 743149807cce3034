//! What can go wrong with a command, what is said about it, and the exit code.

use std::{
    borrow::Cow,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use bristlecone::{Error, PathError, VALUE_BYTES_MAX, report};
use bristlecone_any::{
    Error as AnyError, ErrorKind, copy::CopyError, folder::FolderError, revision::RevisionError, short_branch,
};
use bristlecone_git::history::TransferError;

use crate::{ending::Left, text};

/// A result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// How a command ended that did not end well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The reader of the output has stopped reading: nothing to say.
    Quiet = 0,
    /// A negative answer: not found, differs where asked, damage.
    Negative = 1,
    /// The command must be changed.
    Usage = 2,
    /// The command could not be carried out.
    Failed = 3,
    // Ended by a signal, as a shell counts it: 128 and the signal's number.
    /// The terminal has ended.
    HungUp = 129,
    /// Interrupted.
    Interrupted = 130,
    /// A signal asks the process to end.
    Terminated = 143,
}

/// An exit code with a sentence that says what is wrong and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    message: String,
    causes: Vec<String>,
    // What stays in a store.
    left: Vec<String>,
}

impl Failure {
    /// A negative answer.
    pub(crate) fn negative(message: impl Into<String>) -> Self {
        Self::new(Code::Negative, message)
    }

    /// A negative answer that the output gives already.
    pub(crate) fn answered() -> Self {
        Self::negative("")
    }

    /// Wrong usage.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Code::Usage, message)
    }

    /// A failure.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Code::Failed, message)
    }

    /// An interruption that the command has answered already.
    #[cfg(feature = "lab")]
    pub(crate) fn interrupted() -> Self {
        Self::new(Code::Interrupted, "")
    }

    fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), causes: Vec::new(), left: Vec::new() }
    }

    /// An end by a signal, at any point.
    pub(crate) fn ended_by(signal: i32) -> Self {
        Self::stopped_by(signal, "what was committed before stays, and nothing else has changed")
    }

    /// An end by a signal, with what holds then.
    pub(crate) fn stopped_by(signal: i32, holds: &str) -> Self {
        let (code, what) = match signal {
            libc::SIGHUP => (Code::HungUp, "the terminal has ended"),
            libc::SIGTERM => (Code::Terminated, "asked to end"),
            _ => (Code::Interrupted, "interrupted"),
        };
        Self::new(code, format!("{what}; {holds}"))
    }

    /// A failure of the system on a file or folder.
    pub(crate) fn file(doing: &str, file: impl fmt::Display, error: &io::Error) -> Self {
        let advice = advice(error).map(|advice| format!("; {advice}")).unwrap_or_default();
        Self::failed(format!("cannot {doing} {file}: {}{advice}", reason(error)))
    }

    /// A value that no store takes; `bytes`: how long it is, where that is known.
    pub(crate) fn too_large(what: impl fmt::Display, bytes: Option<u64>) -> Self {
        let limit = text::bytes(VALUE_BYTES_MAX);
        let has = bytes.map_or_else(|| "more".to_owned(), text::bytes);
        let way = "cut it into several values, or leave it out";
        Self::failed(format!("{what} is too large for a value: at most {limit} fit, and it has {has}; {way}"))
    }

    /// As [`Failure::about`], where something was done before: that is no wrong usage any more.
    pub(crate) fn half_done(mut self, message: impl Into<String>) -> Self {
        if self.code == Code::Usage {
            self.code = Code::Failed;
        }
        self.about(message)
    }

    /// The same with a sentence before it, which becomes the message; what was said is the cause.
    pub(crate) fn about(mut self, message: impl Into<String>) -> Self {
        let before = std::mem::replace(&mut self.message, message.into());
        self.causes.insert(0, before);
        self
    }

    /// The same, with a sentence at its end for each store where the command leaves bytes that nothing leads to.
    pub(crate) fn leaving(mut self, left: &[Left]) -> Self {
        for left in left.iter().filter(|left| left.bytes > 0) {
            let (dir, bytes) = (text::show(&left.dir), text::bytes(left.bytes));
            let counted = if left.is_counted { ", `cone info` counts them," } else { "" };
            self.left.push(format!(
                "this leaves {bytes} in {dir} that nothing leads to; the store is whole{counted} and `cone gc` returns them"
            ));
        }
        self
    }

    /// Whether this is an answer, or the command has to be changed: nothing broke off.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(self.code, Code::Negative | Code::Usage)
    }

    /// Returns the exit code.
    pub(crate) fn exit_code(&self) -> u8 {
        self.code as u8
    }

    /// Says what is wrong on standard error and returns the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        // Where standard error is closed, the exit code alone says it.
        let _ = self.write_to(&mut io::stderr().lock());
        ExitCode::from(self.exit_code())
    }

    fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        if self.code == Code::Quiet {
            return Ok(());
        }
        if !self.message.is_empty() {
            writeln!(out, "error: {}", shortened(&self.message))?;
            for cause in &self.causes {
                writeln!(out, "  because {}", shortened(cause))?;
            }
        }
        for left in &self.left {
            writeln!(out, "  {left}")?;
        }
        Ok(())
    }
}

impl Failure {
    /// Something was done, and telling so on standard output failed.
    pub(crate) fn unheard(made: &str, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return error.into();
        }
        let reason = reason(&error);
        let way = "it need not be run again";
        Self::failed(format!("{made}; but that could not be written to standard output: {reason}; {way}"))
    }
}

/// Writing to standard output failed.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::new(Code::Quiet, "");
        }
        Self::file("write", "to standard output", &error)
    }
}

impl From<PathError> for Failure {
    fn from(error: PathError) -> Self {
        Self::usage(with_way(error.to_string(), "choose another name"))
    }
}

/// Returns a message that says what to do: as it does itself behind a semicolon, or this.
pub(crate) fn with_way(text: String, way: &str) -> String {
    if text.contains(';') { text } else { format!("{text}; {way}") }
}

/// Returns a reason of the library with the commands that do what it advises.
pub(crate) fn by_commands(reason: &str) -> String {
    let commands = [
        ("a repair that accepts the end", "`cone repair --accept-end`"),
        ("a repair makes it", "`cone repair` makes it"),
        ("a repair restores it", "`cone repair` restores it"),
        ("an upgrade makes it", "`cone upgrade` makes it"),
    ];
    commands.iter().fold(reason.to_owned(), |text, (what, command)| text.replace(what, command))
}

/// Returns an error of the library whose reason names those commands. A file keeps its name, whatever that is.
pub(crate) fn with_commands(error: Error) -> Error {
    match error {
        Error::Corrupt { file, offset, oid, reason } => {
            Error::Corrupt { file, offset, oid, reason: by_commands(&reason) }
        }
        Error::Lost { file, reason } => Error::Lost { file, reason: by_commands(&reason) },
        error => error,
    }
}

/// Whether what was found in place of the store that was expected is one of another backend that this program has.
fn is_of_known_backend(found: &str) -> bool {
    let backend = found.strip_prefix("a store of the backend ");
    backend.is_some_and(|backend| ["disk", "fs", "lmdb", "lsm"].contains(&backend))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let error = with_commands(error);
        let code = match &error {
            // The command was right and could not be carried out.
            Error::NoStore { .. } | Error::TooLarge { .. } => Code::Failed,
            _ => ErrorKind::of(&error).into(),
        };
        let message = match &error {
            Error::RefName { name } => format!(
                "\"{}\" cannot be the name of a branch; choose one without spaces, control characters, \
                 \"..\", or any of ~ ^ : ? * [ \\, as in Git",
                text::show(short_branch(name))
            ),
            Error::RefMoved { name, .. } => {
                format!("{} was moved by another process meanwhile; run the command again", text::show(name))
            }
            Error::ReadOnly => "the store is open for reading only; nothing was changed".to_owned(),
            Error::Locked { file, holder, waited_ms } => format!(
                "{file} is locked by {holder} (waited {waited_ms} ms); try again when that is done, or wait longer \
                 with --wait SECONDS"
            ),
            Error::Exists { file } => format!("{file}: there is a store already; use it, or choose another folder"),
            // The backend was named: a store that is looked for is opened by the one that its header has, if that is known here.
            Error::Incompatible { file, found, expected } if is_of_known_backend(found) => format!(
                "{file}: this is {found}, and {expected} was asked for; name its folder without a backend, or another \
                 place"
            ),
            Error::Incompatible { file, found, expected } => format!(
                "{file}: this store has {found}, and this program expects {expected}; use the version of cone that \
                 made it, or a newer one"
            ),
            Error::Corrupt { .. } | Error::BadObject { .. } | Error::WrongKind { .. } | Error::Missing { .. } => {
                format!("{}; run `cone check` to see what is affected", report(&error))
            }
            Error::Promised { oid, folder, .. } => format!(
                "{error}; bring it with `git -C {folder} cat-file -e {oid}`, or all that a revision has with \
                 `git -C {folder} archive -o /dev/null REV`"
            ),
            Error::NoSpace { file } => {
                format!("{file}: no space left on the device; nothing was committed; make room and run it again")
            }
            Error::NoRoom { place, bytes, free } => format!(
                "{place}: at least {} are needed and {} are free; nothing was written; make room, or go on with \
                 --ignore-free-space if less will do",
                text::bytes(*bytes),
                text::bytes(*free)
            ),
            Error::Io { file, source } => return Self::file("access", file, source),
            Error::NoStore { file } => {
                format!("{file}: there is no store here; make one with `cone init`, or name one with --repo DIR")
            }
            Error::NoRef { name } => format!(
                "there is no \"{}\"; name a branch (`cone branches`), HEAD, or at least four digits of an id (`cone log`)",
                text::show(name)
            ),
            Error::RefClash { name, other } if !lies_below(name, other) && !lies_below(other, name) => format!(
                "{} cannot be made, because there is {}, and files here ignore the case of letters (core.ignoreCase); choose \
                 another name",
                text::show(name),
                text::show(other)
            ),
            Error::RefClash { name, other } => format!(
                "{} cannot be made, because there is {}, and one name cannot lie below another; choose another name",
                text::show(name),
                text::show(other)
            ),
            Error::TooLarge { what, bytes, bytes_max } => format!(
                "{what} is too large: it has {}, and at most {} fit; cut it into several, or leave it out",
                text::bytes(*bytes),
                text::bytes(*bytes_max)
            ),
            Error::IsDirectory { path } => {
                format!("{path} is a directory; remove it first (`cone del`), or name another path")
            }
            Error::NotAValue { key } => {
                return Self::usage(format!(
                    "\"{key}\" is a directory or an id of another store, and a map has values alone; name the directory that \
                     is the map with --path, or look with `cone list`"
                ));
            }
            Error::Unanswered => "another thread was writing for this one and failed; run the command again".to_owned(),
            Error::RootPath => "an empty path is the root, which is a directory; name an entry in it".to_owned(),
            Error::Expired { file } => format!(
                "a collection has removed {file}, which this command was still reading, since it took longer than the store's \
                 limit of snapshots (`cone retention list`), or since the store's folder `readers` cannot be written from here; \
                 run the command again"
            ),
            Error::Absent { .. } => {
                return Self::negative(with_way(error.to_string(), "name a commit that `cone log` lists"));
            }
            Error::Pruned { oid } => {
                format!("the object {oid} was left out when the store was cut down; use a store that has it all")
            }
            Error::Poisoned { reason } => format!(
                "an earlier sync failed ({reason}), so nothing more is written; run the command again, which goes on from \
                 what is on the disk"
            ),
            Error::Path(_) => with_way(error.to_string(), "choose another name"),
            Error::Format(_) => with_way(report(&error), "use a store of another format"),
            // Each says itself what to do.
            Error::Usage { reason } => by_commands(reason),
            Error::Lost { .. } | Error::Uncommitted { .. } | Error::Gone { .. } | Error::Stopped => error.to_string(),
            _ => format!("{}; run `cone check` to see whether the store is sound", report(&error)),
        };
        Self::new(code, message)
    }
}

/// Whether a name has another one for a folder.
fn lies_below(name: &str, folder: &str) -> bool {
    name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Mistake => Self::Usage,
            ErrorKind::NotFound => Self::Negative,
            _ => Self::Failed,
        }
    }
}

impl From<AnyError> for Failure {
    fn from(error: AnyError) -> Self {
        let way = match &error {
            AnyError::Store(error) => return error.clone().into(),
            AnyError::Io { doing, file, source } => return Self::file(doing, file, source),
            AnyError::NoStore { dir, or_above } => {
                let way = match or_above {
                    true => "make one here with `cone init` or `git init`, or name one with --repo DIR".to_owned(),
                    false => format!("make one with `cone init {}`", text::show(dir)),
                };
                return Self::failed(format!("{error}; {way}"));
            }
            AnyError::Revision(RevisionError::Neither { word }) => format!(
                "write `-- {word}` for a path that is not there any more; `cone branches` and `cone tag` list names of \
                 revisions"
            ),
            AnyError::Revision(revision) => return Self::with_code(&error, revision_way(revision)),
            AnyError::Folder(folder) => return Self::of_folder(folder, &error),
            AnyError::Copy(copy) => return Self::of_copy(copy, &error),
            AnyError::NothingAt { value_above: Some(above), .. } => format!("read that with `cone get {above}`"),
            AnyError::NothingAt { .. } => "`cone list` and `cone tree` show what there is".to_owned(),
            AnyError::NotADirectory { path, .. } => format!("read it with `cone get {path}`"),
            AnyError::Submodule { .. } => return Self::usage(format!("{error}, or see the id with `cone list -l`")),
            AnyError::Head { .. } => "`cone checkout` one".to_owned(),
            AnyError::Zone { when, .. } => format!("give the seconds alone: --date {}", when.seconds),
            _ => return Self::with_code(&error, None),
        };
        Self::with_code(&error, Some(&way))
    }
}

impl Failure {
    /// An error with what to do about it, where the error does not say it itself.
    fn with_code(error: &AnyError, way: Option<&str>) -> Self {
        let way = way.map(|way| format!("; {way}")).unwrap_or_default();
        Self::new(error.kind().into(), format!("{error}{way}"))
    }

    fn of_copy(copy: &CopyError, error: &AnyError) -> Self {
        let way = match copy {
            CopyError::Occupied { .. } => "name an empty folder or a new one, or make a store there with `cone init`",
            CopyError::NoRef { .. } => "`cone branches` and `cone tag` list those there are",
            CopyError::Losses { .. } => "nothing was written; leave --strict out to go without",
            CopyError::Commit { .. } => {
                let way = "no ref has moved; copy other refs with --ref, or to a store of another format";
                return Self::new(error.kind().into(), format!("{}; {way}", report(error)));
            }
            CopyError::Transfer(_) => "no ref has moved",
            _ => return Self::with_code(error, None),
        };
        Self::with_code(error, Some(way))
    }

    fn of_folder(folder: &FolderError, error: &AnyError) -> Self {
        let way = match folder {
            FolderError::Repository { source, .. } => return Self::from(source.clone()).about(error.to_string()),
            FolderError::Name { source, .. } => return Self::from(source.clone()).about(error.to_string()),
            FolderError::TooLarge { place, bytes } => return Self::too_large(text::show(place), Some(*bytes)),
            FolderError::Ignored { .. } => "take it with all that is in it with --all",
            FolderError::NotKept { .. } => {
                "take them as plain values with --plain, links as their targets, or leave them out"
            }
            FolderError::NotEmpty { .. } => "choose another, or replace files in it with --force",
            FolderError::FileName { .. } => "nothing was written; export another part with --path",
            FolderError::LongPath { .. } => {
                "nothing was written; export a folder further down by itself with --path, or to a shorter name"
            }
            FolderError::EndsEarly { .. } => "run `cone check`",
            _ => return Self::with_code(error, None),
        };
        Self::with_code(error, Some(way))
    }
}

/// Returns what to do about a revision, where the error does not say it itself.
fn revision_way(error: &RevisionError) -> Option<&'static str> {
    Some(match error {
        RevisionError::WrongKind { tree: false, .. } => "name a commit here, or look at the object with `cone show`",
        RevisionError::WrongKind { .. } => "name a commit or a directory here, or look at the object with `cone show`",
        RevisionError::Peel { .. } => "`cone show` shows what it is",
        RevisionError::Foreign { .. } => "see it with `cone list -l`",
        RevisionError::Inline { .. } => "read it with `cone show` or `cone get`",
        RevisionError::NoMessage { .. } => "look with `cone log --all`",
        RevisionError::NoAncestor { .. } => "compare the two as they are, with a blank in place of the dots",
        _ => return None,
    })
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        match error {
            TransferError::Store(error) => error.into(),
            TransferError::Missing(missing) => {
                let way = "fetch or restore it, or take the rest with --skip-missing; no ref has moved";
                Self::failed(format!("{missing}; {way}"))
            }
            TransferError::Algorithm { from, found, expected } => Self::usage(format!(
                "{from} has ids of {found}, and this store of {expected}; use a store of the format native, or one \
                 made for {found}"
            )),
            TransferError::NoRepository { .. } => {
                Self::failed(format!("{error}; name a working tree, its .git or a bare repository"))
            }
            TransferError::Occupied { .. } => Self::usage(format!("{error}; name a new folder or a Git repository")),
            TransferError::NoRef { .. } => Self::negative(format!("{error}; `git for-each-ref` lists those there are")),
            _ => Self::failed(format!("{error}; no ref has moved")),
        }
    }
}

/// How many bytes of a sentence are shown: what it names may come from standard input, which has no end.
const SENTENCE_BYTES_MAX: usize = 8 << 10;

/// Returns a sentence, of one that is too long its beginning, and its end, which says what to do.
fn shortened(text: &str) -> Cow<'_, str> {
    if text.len() <= SENTENCE_BYTES_MAX {
        return text.into();
    }
    let boundary = |at: usize| (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    let (start, end) = (boundary(SENTENCE_BYTES_MAX / 2), boundary(text.len() - SENTENCE_BYTES_MAX / 2));
    format!("{} … {}", &text[..start], &text[end..]).into()
}

/// Returns a message without the number of an error of the system, which stands behind the names of files.
#[cfg(feature = "lab")]
pub(crate) fn without_number(text: &str) -> String {
    let cut = text.rsplit_once(" (os error ").and_then(|(before, rest)| Some((before, rest.split_once(')')?.1)));
    cut.map_or_else(|| text.to_owned(), |(before, after)| format!("{before}{after}"))
}

/// Returns what the system says, without its error number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => "no reason given".to_owned(),
    }
}

/// Returns what to do about a failure of the system, where there is something.
fn advice(error: &io::Error) -> Option<&'static str> {
    Some(match error.kind() {
        io::ErrorKind::PermissionDenied => "check its owner and permissions",
        io::ErrorKind::ReadOnlyFilesystem => "the disk is read-only: mount it for writing, or work on a copy",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "make room and run it again",
        io::ErrorKind::NotFound => "check the name",
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "a file stands where a folder belongs: choose another name"
        }
        _ => return None,
    })
}

/// Returns whether refs moved, or had been moved by another before.
pub(crate) fn is_won(moved: bristlecone::Result<()>) -> Result<bool> {
    match moved {
        Err(bristlecone::Error::RefMoved { .. }) => Ok(false),
        moved => Ok(moved.map(|()| true)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_was_right_fails_where_there_is_no_store_or_no_room_for_a_value() {
        let large = Error::TooLarge { what: "a value", bytes: 9, bytes_max: 8 };
        for error in [Error::NoStore { file: "there".to_owned() }, large] {
            assert_eq!(Failure::from(error).exit_code(), 3);
        }
    }

    #[cfg(feature = "lab")]
    #[test]
    fn the_number_of_an_error_is_left_out_and_no_part_of_a_name() {
        let text = "a (os error 7)/b cannot be read: No such file or directory (os error 2); name another";
        let left = "a (os error 7)/b cannot be read: No such file or directory; name another";
        assert_eq!(without_number(text), left);
        assert_eq!(without_number("no error"), "no error");
    }

    #[test]
    fn a_backend_that_is_not_known_is_one_of_another_version() {
        for (backend, says) in [("lsm", "one of disk was asked for"), ("later", "use the version of cone")] {
            let (file, found) = ("store".to_owned(), format!("a store of the backend {backend}"));
            let error = Error::Incompatible { file, found, expected: "one of disk".to_owned() };
            let message = Failure::from(error).message;
            assert!(message.contains(says), "{message}");
        }
    }

    #[test]
    fn reasons_name_commands_and_files_keep_their_names() {
        let file = "a repair makes it/store".to_owned();
        let reason = "cut; a repair makes it as long as it was".to_owned();
        let cut = Error::Corrupt { file: file.clone(), offset: 7, oid: None, reason };
        let lost = Error::Lost { file, reason: "it is missing; a repair restores it from its copy".to_owned() };
        let old = Error::Usage { reason: "it is of version 1; an upgrade makes it one of version 2" };
        for (error, says) in [
            (cut, "a repair makes it/store is damaged at byte 7: cut; `cone repair` makes it as long as it was;"),
            (lost, "a repair makes it/store: it is missing; `cone repair` restores it from its copy"),
            (old, "it is of version 1; `cone upgrade` makes it one of version 2"),
        ] {
            let message = Failure::from(error).message;
            assert!(message.starts_with(says), "{message}");
        }
    }

    #[test]
    fn a_value_that_is_too_large_is_told_with_both_sizes() {
        for (bytes, has) in [(None, "more"), (Some(5_400_000_000), "5.4 GB")] {
            let message = Failure::too_large("it", bytes).message;
            assert!(message.contains(&format!("at most 2.1 GB fit, and it has {has};")), "{message}");
        }
    }

    #[test]
    fn a_ref_that_cannot_be_made_is_told_with_the_reason() {
        let clash = |name: &str, other: &str| {
            Failure::from(Error::RefClash { name: name.to_owned(), other: other.to_owned() }).message
        };
        for other in ["refs/heads/foo/y", "refs/heads/foo/X", "refs/heads/Foo/X"] {
            assert!(clash("refs/heads/Foo/x", other).contains("ignore the case of letters"), "{other}");
        }
        for (name, other) in [("refs/heads/a", "refs/heads/a/b"), ("refs/heads/a/b", "refs/heads/a")] {
            assert!(clash(name, other).contains("one name cannot lie below another"), "{name}");
        }
    }
}
