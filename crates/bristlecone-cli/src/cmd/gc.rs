//! `cone gc`: room that nothing needs any more.

use std::{
    cell::RefCell,
    ops::ControlFlow,
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Error, SweepLimits, SweepStatus, SweepStep, Swept};
use bristlecone_any::{AnyBackend, AnyRepo};
use clap::Args;

use super::{Context, retention::would_go, upgrade};
use crate::{
    failure::{Failure, Result},
    open::Access,
    output::fields,
    progress::{Progress, meanwhile},
    text,
};

/// Remove what no ref leads to; in a Git repository, put all packs into one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone gc
  cone gc --grace 2h
  cone gc --partial --max-rate 50MB
  cone gc -o json

The store loses every object that no ref leads to: commits of branches that were deleted or moved back, imports that were given up;
and commits that its retention keeps no longer (`cone retention`). Nothing else changes. A dry run removes nothing; as every
collection it makes durable what was written, and on the disk engine it begins a new segment of the log.

On the disk engine other processes may read and write meanwhile. What was written without a ref, or lost its ref, within the last
day stays: another process may be about to use it. Files that a process still reads go once it is done with them. Beside the
store it needs room for what is live of what was written since the last collection, and then for 256 MiB at a time. A store of
version 1 of the engine is made one of version 2 first, which earlier programs cannot open.

On the backends fs, lmdb and lsm another process that has the store open is in the way, for as long as --wait says, and there
is no grace: --grace, --partial and --max-rate are for the disk engine. In a Git repository packs are put together, and what
nothing leads to is left to `git gc` and its rules.")]
pub(super) struct GcArgs {
    /// For how long what no ref leads to stays after it was written, on the disk engine: a number with s, m, h or d [default: 1d]
    #[arg(long, value_name = "DURATION", value_parser = seconds, allow_negative_numbers = true)]
    grace: Option<u32>,
    /// Look only at what was written since the last collection, on the disk engine: quicker, and garbage among what that one
    /// kept stays
    #[arg(long, conflicts_with = "full")]
    partial: bool,
    /// Look at the whole store, as is done without --partial
    #[arg(long)]
    full: bool,
    /// Remove nothing; say what would go
    #[arg(long)]
    dry_run: bool,
    /// Read and write at most so much a second, on the disk engine: a number of bytes, or with KB, MB or GB
    #[arg(long, value_name = "BYTES", value_parser = rate, allow_negative_numbers = true)]
    max_rate: Option<u64>,
}

impl GcArgs {
    fn limits(&self) -> SweepLimits {
        let limits = SweepLimits::default().grace(self.grace.unwrap_or(GRACE_SECONDS)).dry_run(self.dry_run);
        limits.partial(self.partial && !self.full).rate(self.max_rate.unwrap_or(u64::MAX))
    }

    /// Refuses what means nothing to a store.
    fn check(&self, opened: &AnyRepo) -> Result<()> {
        let given = [
            ("--grace", self.grace.is_some_and(|seconds| seconds > 0)),
            ("--partial", self.partial),
            ("--max-rate", self.max_rate.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given && opened.disk().is_none()) {
            Some((option, _)) => Err(Failure::usage(format!(
                "{option} is for stores of the disk engine, and this one is of the backend {}; leave it out",
                opened.backend().name()
            ))),
            None => Ok(()),
        }
    }
}

/// For how long what no ref leads to stays unless it is told.
const GRACE_SECONDS: u32 = 86_400;
/// How often it is looked whether a process that is in the way has ended.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Collects once no other process is in the way, and goes on where one came in between.
fn sweep(opened: &AnyRepo, limits: &SweepLimits, wait_ms: u64) -> Result<Swept> {
    sweep_by(|| sweep_once(opened, limits), limits, wait_ms)
}

fn sweep_by(mut once: impl FnMut() -> bristlecone::Result<Swept>, limits: &SweepLimits, wait_ms: u64) -> Result<Swept> {
    let began = Instant::now();
    let mut swept = Swept::default();
    loop {
        let waited = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        match once() {
            Err(Error::Locked { .. }) if waited < wait_ms => {}
            // It came behind a part, which is told, and that there is more.
            Err(Error::Locked { .. }) if swept.more => return Ok(swept),
            Err(Error::Locked { file, holder, waited_ms }) => {
                return Err(Error::Locked { file, holder, waited_ms: waited.max(waited_ms) }.into());
            }
            Err(Error::NoRoom { place, bytes, free }) => {
                let (bytes, free) = (text::bytes(bytes), text::bytes(free));
                let reason =
                    format!("{place}: at least {bytes} are needed and {free} are free; make room and run it again");
                return Err(Failure::failed(reason));
            }
            done => {
                let done = done?;
                (swept.objects, swept.bytes) = (swept.objects + done.objects, swept.bytes + done.bytes);
                (swept.commits, swept.more) = (swept.commits + done.commits, done.more);
                if !swept.more || limits.dry_run || waited >= wait_ms {
                    return Ok(swept);
                }
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Collects, and shows how far that is.
fn sweep_once(opened: &AnyRepo, limits: &SweepLimits) -> bristlecone::Result<Swept> {
    let line = RefCell::new(Progress::new("marked", None));
    opened.sweep_watched(&opened.retention()?, &[], limits, &|status: &SweepStatus| {
        let verb = match status.step {
            SweepStep::Copy => "copied",
            SweepStep::Remove => "removed",
            _ => "marked",
        };
        line.borrow_mut().tick_with(|_| {
            format!("{verb} {}, {}", text::count(status.objects, "object", "objects"), text::bytes(status.bytes))
        });
        ControlFlow::Continue(())
    })
}

pub(super) fn run(args: GcArgs, context: &mut Context) -> Result<()> {
    context.globals.refuse_branch("gc")?;
    let opened = context.globals.open_repo(Access::Write)??;
    args.check(&opened)?;
    let wait_ms = context.globals.wait_ms()?;
    if args.dry_run {
        return dry_run(&args, &opened, context);
    }
    let precious = opened.git().is_some_and(|(git, _)| git.options().precious_objects);
    let (mut swept, repacked) = (Swept::default(), opened.git().is_some() && !precious);
    let upgraded = upgrade::upgrade(&opened)?;
    if let Some((git, _)) = opened.git() {
        let line = |seconds: f64| format!("putting the packs together, {}", text::span(seconds as u64));
        meanwhile(line, || git.repack_all())?;
    } else if opened.backend().capabilities().sweep {
        swept = sweep(&opened, &args.limits(), wait_ms)?;
    } else {
        return Err(Failure::usage(
            "a store of this backend does not collect; `cone copy` brings what refs lead to into a new one",
        ));
    }
    opened.close()?;
    let out = &mut context.out;
    if upgraded {
        out.made(upgrade::DONE)?;
    }
    match (repacked, swept.objects) {
        _ if precious => out.made("the packs stay as they are: extensions.preciousObjects is set")?,
        (true, _) => out.made("the packs were put together; `git gc` removes what nothing leads to")?,
        (false, 0) => out.made("there was nothing to remove")?,
        (false, objects) => {
            let cut = match swept.commits {
                0 => String::new(),
                commits => format!("; retention has cut {}", text::count(commits, "commit", "commits")),
            };
            let objects = text::count(objects, "object", "objects");
            out.made(format!("removed {objects}, {}{cut}", text::bytes(swept.bytes)))?;
        }
    }
    if swept.more {
        out.line("something is left, since another process came in between; run `cone gc` again")?;
    }
    out.document(fields! {
        "objects": swept.objects,
        "bytes": swept.bytes,
        "commits": swept.commits,
        "more": swept.more,
        "repacked": repacked,
        "upgraded": upgraded,
    })
}

/// Says what would go.
fn dry_run(args: &GcArgs, opened: &AnyRepo, context: &mut Context) -> Result<()> {
    if !opened.backend().capabilities().sweep {
        return Err(Failure::usage(match opened.any_backend() {
            AnyBackend::Disk(_) => {
                "a store of version 1 of the disk engine cannot say what would go; make it one of version 2 first with `cone upgrade`"
            }
            AnyBackend::Git(..) => {
                "in a Git repository nothing goes: packs are put together, and `git gc` removes; leave --dry-run out"
            }
            _ => "a store of this backend does not collect, so nothing would go",
        }));
    }
    let swept = sweep(opened, &args.limits(), context.globals.wait_ms()?)?;
    context.out.line(would_go(swept.commits, Some(swept.bytes)))?;
    context.out.document(fields! { "objects": swept.objects, "bytes": swept.bytes, "commits": swept.commits })
}

/// Returns the bytes that a number and a unit stand for.
fn rate(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => 0,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0);
    bytes.ok_or_else(|| "give a number above 0, alone or with KB, MB or GB, such as 50MB".to_owned())
}

/// Returns the seconds of a duration.
fn seconds(text: &str) -> std::result::Result<u32, String> {
    let wrong = || "give a number and s, m, h or d, such as 90m; at most 49,710 days".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use bristlecone::{Error, SweepLimits, Swept};

    use super::{rate, seconds, sweep_by};

    /// What a sweep answers that removes so many objects, of ten bytes each.
    fn part(objects: u64, more: bool) -> bristlecone::Result<Swept> {
        let mut swept = Swept::default();
        (swept.objects, swept.bytes, swept.more) = (objects, 10 * objects, more);
        Ok(swept)
    }

    #[test]
    fn a_sweep_in_which_another_process_comes_goes_on_once_it_has_gone() {
        let locked = || Err(Error::Locked { file: "open/1".to_owned(), holder: "a process".to_owned(), waited_ms: 0 });
        let sweep = |answers: Vec<bristlecone::Result<Swept>>, wait_ms| {
            let mut answers = answers.into_iter();
            sweep_by(|| answers.next().unwrap(), &SweepLimits::default(), wait_ms).map(|swept| {
                assert_eq!(swept.bytes, 10 * swept.objects);
                (swept.objects, swept.more)
            })
        };
        assert_eq!(sweep(vec![part(4096, true), locked(), part(4, false)], 60_000).unwrap(), (4100, false));
        // Who does not wait is told that something is left.
        assert_eq!(sweep(vec![part(4096, true)], 0).unwrap(), (4096, true));
        assert_eq!(sweep(vec![part(4096, true), locked()], 1).unwrap(), (4096, true));
        assert!(sweep(vec![locked()], 0).is_err());
    }

    #[test]
    fn rates_have_units() {
        for (text, wanted) in [("1", 1), ("90B", 90), ("7KB", 7000), ("50MB", 50_000_000), ("2GB", 2_000_000_000)] {
            assert_eq!(rate(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "0", "0MB", "MB", "-1", "1.5GB", "5 MB", "5mb", "99999999999GB"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_have_units() {
        for (text, wanted) in [("0", 0), ("90", 90), ("7s", 7), ("2m", 120), ("3h", 10_800), ("1d", 86_400)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "d", "-1", "1w", "1.5h", "99999d", "d1", "1 d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
