//! `cone export --git`: whole histories into a Git repository.

use std::{path::Path, time::Instant};

use bristlecone::core::git::Algorithm;
use bristlecone_git::history::{self, ExportOptions, ExportReport, RefState, TransferError};

use super::{
    Context,
    import_git::{common, line, stayed, store_of, summary},
};
use crate::{
    ending::{self, Made},
    failure::{Failure, Result},
    open::{Access, refuse_url, refuse_within_store},
    output::{Fields, fields, put_text, say},
    progress::Progress,
    text::{self, count, show},
};

/// What to export, and how.
pub(super) struct Wanted<'a> {
    pub(super) to: &'a Path,
    pub(super) refs: Vec<String>,
    pub(super) bare: bool,
    pub(super) force: bool,
    pub(super) hash: Option<String>,
}

pub(super) fn run(wanted: Wanted<'_>, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    refuse_url(wanted.to, "name a folder, or copy to a url such as git+file:///srv/data.git with `cone copy`")?;
    let opened = context.globals.open(Access::Read)?;
    let store = store_of(opened.repo.format())?;
    let hash = wanted.hash.as_deref().and_then(Algorithm::from_name);
    if let (history::StoreFormat::Git(git), Some(hash)) = (&store, hash)
        && git.algorithm() != hash
    {
        let (own, hash) = (git.algorithm().name(), hash.name());
        let way = "leave --hash out, or export from a store of the format native";
        return Err(Failure::usage(format!("the ids of this store are of {own} and stay so, not of {hash}; {way}")));
    }
    let options = ExportOptions::default().refs(wanted.refs).bare(wanted.bare).force(wanted.force).algorithm(hash);
    let mut progress = Progress::new("exported", None);
    refuse_within_store(wanted.to)?;
    ending::makes(Made::git(wanted.to, opened.wait_ms)?);
    let report = history::export(store, opened.repo.backend(), wanted.to, &options, &mut |status| {
        progress.tick_with(|seconds| line(&status, seconds));
    });
    let report = report.map_err(of_export)?;
    ending::made_it();
    drop(progress);
    if report.made {
        // A working tree without files would show all of them as removed.
        context.globals.elsewhere(Some(wanted.to.to_owned())).open(Access::Write)?.check_out_files()?;
    }
    let seconds = began.elapsed().as_secs_f64();
    tell(&report, seconds);
    context.out.made(format!("exported to {}", show(wanted.to)))?;
    let mut all = describe(&report, seconds);
    put_text(&mut all, "to", wanted.to.as_os_str().as_encoded_bytes());
    context.out.document(all)?;
    let stayed = report.refs.iter().any(|moved| matches!(moved.state, RefState::Kept | RefState::CheckedOut));
    if stayed { Err(Failure::answered()) } else { Ok(()) }
}

/// What an import may leave out, an export does not; and its refs are those of the store.
fn of_export(error: TransferError) -> Failure {
    match error {
        TransferError::Missing(missing) => {
            let way = "`cone check` says what else is missing; export from a store that has it";
            Failure::failed(format!("{missing}; {way}; no ref has moved"))
        }
        TransferError::NoRef { .. } => {
            Failure::negative(format!("{error}; `cone branches` and `cone tag` list those there are"))
        }
        error => error.into(),
    }
}

fn tell(report: &ExportReport, seconds: f64) {
    for (name, why) in report.refs.iter().filter_map(stayed) {
        say!("left where it is: {} ({why})", show(name));
    }
    if !report.shallow.is_empty() {
        let many = count(report.shallow.len() as u64, "commit", "commits");
        say!("the history is cut off at {many}, whose parents are not in the store");
    }
    let refs = report.refs.iter().filter(|moved| matches!(moved.state, RefState::New | RefState::Moved)).count();
    let (bytes, packs) = (text::bytes(report.pack_bytes), count(report.packs, "pack", "packs"));
    say!("{}, {bytes} in {packs}", summary(&report.counts, refs, seconds));
}

fn describe(report: &ExportReport, seconds: f64) -> Fields {
    let mut all = common(&report.counts, &report.refs, &report.shallow, seconds);
    all.extend(fields! { "made": report.made, "packs": report.packs, "pack_bytes": report.pack_bytes });
    all
}
