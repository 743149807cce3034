//! Who commits, when and why: from options, the environment and the system.

use std::{
    env,
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::{SystemTime, UNIX_EPOCH},
};

use bristlecone::{Durability, Format, Info, Signature, Zone};
use bristlecone_git::worktree::Settings;
use clap::{Args, ValueEnum};

use crate::{
    commit::BeginArgs,
    failure::{Failure, Result},
    open::Opened,
};

const AUTHOR_HELP: &str = "Who: \"Name <mail>\" [default: $BRISTLECONE_AUTHOR, $GIT_AUTHOR_NAME and \
$GIT_AUTHOR_EMAIL, in a Git repository what its user.name and user.email say, or user@host]";

/// What to record with a commit of whatever changed.
#[derive(Args, Debug)]
pub(crate) struct CommitArgs {
    #[command(flatten)]
    why: WhyArgs,
    /// Commit also if nothing has changed
    #[arg(long)]
    pub(crate) allow_empty: bool,
    #[command(flatten)]
    pub(crate) begin: BeginArgs,
}

/// What to record with a commit.
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// Why: the message
    #[arg(short, long, value_name = "MSG")]
    message: Option<OsString>,
    #[arg(long, value_name = "WHO", help = AUTHOR_HELP)]
    author: Option<OsString>,
    /// When: seconds since 1970, and a zone such as +0100 [default: $SOURCE_DATE_EPOCH, or now]
    #[arg(long, value_name = "SECONDS[ +HHMM]", allow_hyphen_values = true)]
    date: Option<String>,
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// After the write: survives this process, not a power cut
    None,
    /// After the write, and synced within 10 ms
    Grouped,
    /// After the sync: survives a power cut
    #[default]
    Synced,
}

impl From<DurabilityArg> for Durability {
    fn from(durability: DurabilityArg) -> Self {
        match durability {
            DurabilityArg::None => Self::None,
            DurabilityArg::Grouped => Self::Grouped,
            DurabilityArg::Synced => Self::Synced,
        }
    }
}

impl CommitArgs {
    /// As [`WhyArgs::info`].
    pub(crate) fn info(&self, opened: &Opened, message: &str, durability: Durability) -> Result<Info> {
        self.why.info(opened, message, durability)
    }
}

impl WhyArgs {
    /// Whether a message was given.
    pub(crate) fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Returns what to record in a store, as far as its format keeps it; `message` stands where none was given.
    ///
    /// A zone that was asked for and cannot be kept is refused; a committer beside the author is left out.
    pub(crate) fn info(&self, opened: &Opened, message: &str, durability: impl Into<Durability>) -> Result<Info> {
        let format = opened.repo.format();
        let author = match &self.author {
            Some(author) => Some(author.clone()),
            None => env::var_os("BRISTLECONE_AUTHOR"),
        };
        let when = self.when()?;
        let sign = |ident: Vec<u8>| Signature { ident, seconds: when.0, zone: when.1.clone() };
        let (author, committer) = match author {
            Some(ident) => {
                let ident = checked(ident.as_bytes())?;
                (ident.clone(), ident)
            }
            None => {
                let settings = opened.settings()?;
                let author = from_git("AUTHOR", settings.as_ref()).unwrap_or_else(user_at_host);
                let committer = from_git("COMMITTER", settings.as_ref()).unwrap_or_else(|| author.clone());
                (author, committer)
            }
        };
        let (author, committer) = format.signatures(sign(author), sign(committer));
        if author.zone != when.1 {
            let (name, zone) = (format.name(), bristlecone::escape(when.1.as_bytes()));
            let way = format!("give the seconds alone: --date {}", when.0);
            return Err(Failure::usage(format!("a commit of the format {name} cannot keep the zone {zone}; {way}")));
        }
        let message = self.message.as_ref().map_or(message.as_bytes(), |message| message.as_bytes());
        let info = Info::message(opened.message(message.to_vec())).author(author).committer(committer);
        Ok(info.durability(durability.into()))
    }

    fn when(&self) -> Result<(i64, Zone)> {
        if let Some(text) = &self.date {
            return date(text).ok_or_else(|| {
                let way = "give seconds since 1970 and, if you like, a zone: --date \"1700000000 +0100\"";
                Failure::usage(format!("\"{text}\" is no date; {way}"))
            });
        }
        if let Ok(text) = env::var("SOURCE_DATE_EPOCH") {
            let seconds = text.trim().parse().map_err(|_| {
                Failure::usage(format!("SOURCE_DATE_EPOCH is \"{text}\"; set it to seconds since 1970, or unset it"))
            })?;
            return Ok((seconds, Zone::default()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64);
        Ok((now, Zone::default()))
    }
}

/// Parses `SECONDS[ +hhmm]`, with `@` before it if you like, as Git writes dates.
fn date(text: &str) -> Option<(i64, Zone)> {
    let mut words = text.strip_prefix('@').unwrap_or(text).split_whitespace();
    let seconds = words.next()?.parse().ok()?;
    let zone = match words.next() {
        Some(zone) => {
            let digits = zone.strip_prefix(['+', '-'])?;
            if digits.len() != 4 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
                return None;
            }
            Zone::from_bytes(zone.as_bytes())
        }
        None => Zone::default(),
    };
    words.next().is_none().then_some((seconds, zone))
}

/// Checks that `ident` has the form `Name <mail>` on one line.
fn checked(ident: &[u8]) -> Result<Vec<u8>> {
    let inner = ident.strip_suffix(b">").unwrap_or_default();
    let opening = inner.iter().filter(|&&byte| byte == b'<').count();
    if opening != 1 || inner.iter().any(|&byte| byte == b'>' || byte == b'\n' || byte == 0) {
        let shown = bristlecone::escape(ident);
        return Err(Failure::usage(format!("\"{shown}\" names no author; write it as \"Name <mail>\"")));
    }
    Ok(ident.to_vec())
}

/// Returns who commits, as reflogs note it.
pub(crate) fn committer(settings: Option<&Settings>) -> Vec<u8> {
    from_git("COMMITTER", settings).unwrap_or_else(user_at_host)
}

/// Returns who somebody is by the environment and by Git's settings, each of name and address by itself.
fn from_git(role: &str, settings: Option<&Settings>) -> Option<Vec<u8>> {
    let set = |what: &str| {
        let settings = settings?;
        let own = settings.get(&format!("{}.{what}", role.to_ascii_lowercase()));
        own.or_else(|| settings.get(&format!("user.{what}"))).map(<[u8]>::to_vec)
    };
    let environment = |name: &str| env::var_os(name).map(OsStringExt::into_vec);
    let name = environment(&format!("GIT_{role}_NAME")).or_else(|| set("name"))?;
    let mail = environment(&format!("GIT_{role}_EMAIL")).or_else(|| set("email")).or_else(|| environment("EMAIL"));
    Some([&clean(&name)[..], b" <", &clean(&mail.unwrap_or_default()), b">"].concat())
}

fn user_at_host() -> Vec<u8> {
    let named = ["USER", "LOGNAME", "USERNAME"].into_iter().find_map(env::var_os);
    let user = match named {
        Some(name) if !name.is_empty() => clean(name.as_bytes()),
        _ => format!("uid{}", rustix::process::getuid().as_raw()).into_bytes(),
    };
    let system = rustix::system::uname();
    let host = clean(system.nodename().to_bytes());
    [&user[..], b" <", &user, b"@", &host, b">"].concat()
}

/// Leaves out what would break the form `Name <mail>`.
fn clean(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !matches!(byte, b'<' | b'>' | b'\n' | 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_and_a_zone() {
        assert_eq!(date("12"), Some((12, Zone::default())));
        assert_eq!(date("@-12 -0530"), Some((-12, Zone::from_bytes(b"-0530"))));
        for text in ["", "x", "1 0100", "1 +1", "1 +010a", "1 +0100 2"] {
            assert_eq!(date(text), None, "{text}");
        }
    }

    #[test]
    fn authors_have_a_name_and_an_address() {
        assert!(checked(b"A B <a@b>").is_ok());
        for text in ["A", "A <b", "A <<b>", "A <b>>", "A\n <b>"] {
            assert!(checked(text.as_bytes()).is_err(), "{text}");
        }
    }
}
