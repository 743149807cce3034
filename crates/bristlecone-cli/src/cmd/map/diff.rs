//! `cone map diff`: the entries that differ between two maps.

use std::{ffi::OsString, path::PathBuf};

use bristlecone_lmdb::okra::{OkraError, OkraMap, OkraOptions};
use clap::Args;

use super::{
    form::{FormArgs, Forms},
    init::mode_name,
    place::{AnyMap, NativeMap, PathArgs, ReadArgs, okra_dir, open_to_read},
};
use crate::{
    cmd::{Context, diff::sides},
    failure::{Failure, Result},
    output::{Fields, Output, fields},
    text::show,
};

/// List the entries that differ between two maps, walking only what differs
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map diff                              what the last commit changed in the map
  cone map diff HEAD~5                       what changed since then
  cone map diff main trial --path prices     between two branches, in one directory
  cone map diff main trial --exit-code       exit code 1 if anything differs
  cone -r fruit map diff other               between the Okra maps in the folders fruit and other

Behind + is an entry that was added, behind - one that was removed, and behind ~ one that has another value: key, old value
and new value, with tabs between.")]
pub(super) struct DiffArgs {
    /// Before [default: the parent of AFTER]; or both, as BEFORE..AFTER; of an Okra map the folder of the other one
    #[arg(value_name = "BEFORE")]
    before: Option<OsString>,
    /// After [default: the branch's head]
    #[arg(value_name = "AFTER")]
    after: Option<OsString>,
    /// Exit with code 1 if anything differs
    #[arg(long)]
    exit_code: bool,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    path: PathArgs,
}

pub(super) fn run(args: &DiffArgs, context: &mut Context) -> Result<()> {
    let read = ReadArgs { path: args.path.clone(), at: None };
    let map = open_to_read(&context.globals, &read)?;
    let forms = args.forms.of(map.is_index());
    let count = match &map {
        AnyMap::Native(map) => diff_native(map, args, forms, &mut context.out)?,
        AnyMap::Okra(map) => {
            let (Some(other), None) = (&args.before, &args.after) else {
                let way = "give the folder of the other map, as in `cone -r A map diff B`";
                return Err(Failure::usage(format!("an Okra map is compared with one other; {way}")));
            };
            let globals = context.globals.elsewhere(Some(PathBuf::from(other)));
            let Some(dir) = okra_dir(&globals) else {
                let shown = show(other);
                return Err(Failure::failed(format!("{shown}: there is no Okra map here; name the folder of one")));
            };
            match OkraMap::open(dir, &OkraOptions::default().read_only(true)) {
                // It is this map, by whatever name, which a process opens once.
                Err(OkraError::AlreadyOpen { .. }) => diff_okra(map, map, forms, &mut context.out)?,
                other => diff_okra(map, &other?, forms, &mut context.out)?,
            }
        }
    };
    if args.exit_code && count > 0 { Err(Failure::answered()) } else { Ok(()) }
}

fn diff_native(native: &NativeMap, args: &DiffArgs, forms: Forms, out: &mut Output) -> Result<u64> {
    let (before, after) = sides(&native.opened, args.before.as_ref(), args.after.as_ref())?;
    let id = |tree: &bristlecone_any::Tree| tree.origin().map(|at| at.oid().to_string());
    out.begin(&fields! { "before": id(&before), "after": id(&after) }, "differences")?;
    // The directory may have come, or gone, between the two.
    let (before, after) = native.maps_in(&before, &after)?;
    let mut count = 0;
    for difference in before.diff(&after)? {
        let difference = difference?;
        write(forms, &difference.key, difference.before.as_deref(), difference.after.as_deref(), out)?;
        count += 1;
    }
    out.end(&fields! {})?;
    Ok(count)
}

fn diff_okra(before: &OkraMap, after: &OkraMap, forms: Forms, out: &mut Output) -> Result<u64> {
    if before.mode() != after.mode() {
        let (one, other) = (mode_name(before.mode()), mode_name(after.mode()));
        let way = "compare maps of one mode";
        return Err(Failure::usage(format!("one map is in {one} mode and the other in {other} mode; {way}")));
    }
    let (target, source) = (before.read()?, after.read()?);
    out.begin(
        &fields! { "before": target.root()?.hash.to_string(), "after": source.root()?.hash.to_string() },
        "differences",
    )?;
    let mut failed = None;
    let walked = target.diff(&mut &source, |difference| {
        write(forms, difference.key, difference.target, difference.source, out).map_err(|failure| {
            failed = Some(failure);
            // It ends the walk, and the failure above is what is told.
            OkraError::KeyEmpty
        })
    });
    if let Some(failure) = failed {
        return Err(failure);
    }
    let walked = walked?;
    out.end(&fields! { "calls": walked.calls, "nodes": walked.nodes })?;
    Ok(walked.differences)
}

fn write(forms: Forms, key: &[u8], before: Option<&[u8]>, after: Option<&[u8]>, out: &mut Output) -> Result<()> {
    let (sign, change) = match (before, after) {
        (None, _) => ("+ ", "added"),
        (_, None) => ("- ", "removed"),
        _ => ("~ ", "changed"),
    };
    if !out.json() {
        let values: Vec<&[u8]> = before.into_iter().chain(after).collect();
        return forms.line(out, sign, key, &values);
    }
    let mut item = fields! { "change": change };
    forms.put_key(&mut item, "key", key);
    put_side(forms, &mut item, "before", before);
    put_side(forms, &mut item, "after", after);
    out.item(item)
}

fn put_side(forms: Forms, item: &mut Fields, name: &str, value: Option<&[u8]>) {
    match value {
        Some(value) => forms.put_value(item, name, value),
        None => drop(item.insert(name.to_owned(), serde_json::Value::Null)),
    }
}
