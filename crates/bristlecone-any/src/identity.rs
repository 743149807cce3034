//! Who commits, and when: by the environment, the settings of Git, and the system.
//!
//! The environment that is read: `BRISTLECONE_AUTHOR`; as in Git `GIT_AUTHOR_NAME`, `GIT_AUTHOR_EMAIL`,
//! `GIT_COMMITTER_NAME`, `GIT_COMMITTER_EMAIL` and `EMAIL`; `USER`, `LOGNAME` and `USERNAME`; `SOURCE_DATE_EPOCH`.

use std::{
    env,
    os::unix::ffi::{OsStrExt, OsStringExt},
    time::{SystemTime, UNIX_EPOCH},
};

use bristlecone::{Format, Info, Signature, Zone};
use bristlecone_git::worktree::Settings;

pub use crate::moment::Moment;
use crate::{
    AnyFormat, AnyRepo,
    error::{Error, Result},
};

/// Who wrote what is committed, and who commits it: `Name <mail>` each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    author: Vec<u8>,
    committer: Vec<u8>,
}

impl Identity {
    /// Returns one person who is both.
    ///
    /// # Errors
    /// [`Error::Ident`] for what has not the form `Name <mail>` on one line.
    pub fn named(ident: &[u8]) -> Result<Self> {
        let inner = ident.strip_suffix(b">").unwrap_or_default();
        let opening = inner.iter().filter(|&&byte| byte == b'<').count();
        if opening != 1 || inner.iter().any(|&byte| byte == b'>' || byte == b'\n' || byte == 0) {
            return Err(Error::Ident { ident: ident.to_owned() });
        }
        Ok(Self { author: ident.to_owned(), committer: ident.to_owned() })
    }

    /// Returns who the environment says, else the settings of a Git repository, else the system: `user@host`.
    ///
    /// # Errors
    /// As [`Identity::named`] for `BRISTLECONE_AUTHOR`; those of [`AnyRepo::settings`].
    pub fn of(repo: &AnyRepo) -> Result<Self> {
        if let Some(ident) = env::var_os("BRISTLECONE_AUTHOR") {
            return Self::named(ident.as_bytes());
        }
        let settings = repo.settings()?;
        let author = from_git("AUTHOR", settings.as_ref()).unwrap_or_else(bristlecone::user_at_host);
        let committer = from_git("COMMITTER", settings.as_ref()).unwrap_or_else(|| author.clone());
        Ok(Self { author, committer })
    }

    /// Returns what a commit of a format records of this, as far as the format keeps it: a committer beside the author may
    /// be left out. The message ends as the format has it.
    ///
    /// # Errors
    /// [`Error::Zone`] for a zone that the format cannot keep.
    pub fn info(self, format: &AnyFormat, when: &Moment, message: &[u8]) -> Result<Info> {
        let sign = |ident| Signature { ident, seconds: when.seconds, zone: when.zone.clone() };
        let (author, committer) = format.signatures(sign(self.author), sign(self.committer));
        if author.zone != when.zone {
            return Err(Error::Zone { format: format.name(), when: when.clone() });
        }
        Ok(Info::message(format.message(message.to_owned())).author(author).committer(committer))
    }
}

impl Moment {
    /// Returns what `SOURCE_DATE_EPOCH` says, else the time that it is now.
    ///
    /// # Errors
    /// [`Error::Epoch`] where `SOURCE_DATE_EPOCH` is no number.
    pub fn now() -> Result<Self> {
        let seconds = match env::var_os("SOURCE_DATE_EPOCH").map(|text| text.to_string_lossy().into_owned()) {
            Some(text) => text.trim().parse().map_err(|_| Error::Epoch { text })?,
            None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64),
        };
        Ok(Self { seconds, zone: Zone::default() })
    }
}

/// Returns who moves refs, as reflogs note it.
pub(crate) fn committer(settings: &Settings) -> Vec<u8> {
    from_git("COMMITTER", Some(settings)).unwrap_or_else(bristlecone::user_at_host)
}

/// Returns who acts in a role by the environment and by Git's settings, each of name and address by itself.
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

/// Leaves out what would break the form `Name <mail>`.
fn clean(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !matches!(byte, b'<' | b'>' | b'\n' | 0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authors_have_a_name_and_an_address() {
        assert!(Identity::named(b"A B <a@b>").is_ok());
        for text in ["A", "A <b", "A <<b>", "A <b>>", "A\n <b>"] {
            assert!(Identity::named(text.as_bytes()).is_err(), "{text}");
        }
    }
}
