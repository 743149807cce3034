//! Who commits, when and why: what the options say, and else [`bristlecone_any::identity`].

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use bristlecone::{Durability, Info, escape};
use bristlecone_any::{
    Error as AnyError,
    identity::{Identity, Moment},
};
use clap::{Args, ValueEnum};

use crate::{
    begin::BeginArgs,
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
    /// Returns the first of the options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.why.given().or_else(|| self.allow_empty.then_some("--allow-empty")).or_else(|| self.begin.given())
    }

    /// Whether any of it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.given().is_some()
    }

    /// As [`WhyArgs::info`].
    pub(crate) fn info(&self, opened: &Opened, message: &str, durability: Durability) -> Result<Info> {
        self.why.info(opened, message, durability)
    }
}

impl WhyArgs {
    /// Returns the first of the options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let options =
            [("-m", self.message.is_some()), ("--author", self.author.is_some()), ("--date", self.date.is_some())];
        options.into_iter().find_map(|(option, given)| given.then_some(option))
    }

    /// Whether any of it was given.
    pub(crate) fn is_given(&self) -> bool {
        self.given().is_some()
    }

    /// Whether a message was given.
    pub(crate) fn has_message(&self) -> bool {
        self.message.is_some()
    }

    /// Returns what to record in a store, as far as its format keeps it; `message` stands where none was given.
    ///
    /// A zone that was asked for and cannot be kept is refused; a committer beside the author is left out.
    pub(crate) fn info(&self, opened: &Opened, message: &str, durability: impl Into<Durability>) -> Result<Info> {
        let named = self.author.as_ref().map(|author| Identity::named(author.as_bytes()));
        let when = self.when()?;
        let who = match named {
            Some(named) => named?,
            None => Identity::of(&opened.repo).map_err(of_environment)?,
        };
        let message = self.message.as_ref().map_or(message.as_bytes(), |message| message.as_bytes());
        Ok(who.info(opened.repo.format(), &when, message)?.durability(durability.into()))
    }

    fn when(&self) -> Result<Moment> {
        let Some(text) = &self.date else { return Ok(Moment::now()?) };
        Moment::parse(text).ok_or_else(|| {
            let way = "give seconds since 1970 and, if you like, a zone: --date \"1700000000 +0100\"";
            Failure::usage(format!("\"{text}\" is no date; {way}"))
        })
    }
}

/// An author that is none was not given with the command: the message says where it comes from.
fn of_environment(error: AnyError) -> Failure {
    match error {
        AnyError::Ident { ident } => Failure::usage(format!(
            "BRISTLECONE_AUTHOR is \"{}\", which names no author; set it to \"Name <mail>\", or unset it",
            escape(&ident)
        )),
        error => error.into(),
    }
}
