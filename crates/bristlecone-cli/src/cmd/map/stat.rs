//! `cone map stat`: what a map is, how large it is, and whether its tree is what its entries make it.

use std::fs;

use bristlecone::{
    Error, Kind, Map, ObjRef, Oid,
    core::{Checked, native::Piece},
    report,
};
use bristlecone_lmdb::okra::{self, OkraError, OkraMap};
use clap::Args;

use super::{
    init::mode_name,
    place::{AnyMap, NativeMap, Objects, ReadArgs, open_to_read},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result},
    output::{Fields, Output, fields},
    progress::{Done, Progress},
    text,
};

/// Say what the map is: entries, levels, root, bytes
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map stat
  cone map stat --check            makes every node anew from the entries, and names the first that is wrong
  cone -r fruit map stat -o json

Exit code 1 if --check finds damage. Nothing is changed.")]
pub(super) struct StatArgs {
    /// Check every node against what the entries make it
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    read: ReadArgs,
}

pub(super) fn run(args: &StatArgs, context: &mut Context) -> Result<()> {
    let map = open_to_read(&context.globals, &args.read)?;
    let damage = match &map {
        AnyMap::Native(native) if args.check => check_native(native, &native.map_at(args.read.at.as_ref())?)?,
        AnyMap::Okra(map) if args.check => check_okra(map)?,
        _ => None,
    };
    let mut all = match (&map, &damage) {
        // The sizes of what is damaged need not make sense.
        (_, Some(_)) => fields! {},
        (AnyMap::Native(native), _) => stat_native(native, &native.map_at(args.read.at.as_ref())?)?,
        (AnyMap::Okra(map), _) => stat_okra(map)?,
    };
    if args.check {
        all.extend(fields! { "sound": damage.is_none(), "damage": damage.clone() });
    }
    write_human(&all, &mut context.out)?;
    context.out.document(all)?;
    if damage.is_some() { Err(Failure::answered()) } else { Ok(()) }
}

fn write_human(all: &Fields, out: &mut Output) -> Result<()> {
    for (name, value) in all {
        let shown = match value {
            serde_json::Value::Null => continue,
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Number(bytes) if name.ends_with("bytes") => text::bytes(bytes.as_u64().unwrap_or(0)),
            serde_json::Value::Bool(is_sound) => if *is_sound { "yes" } else { "no" }.to_owned(),
            value => value.to_string(),
        };
        out.line(format_args!("{:<12} {shown}", name.replace('_', " ")))?;
    }
    Ok(())
}

fn stat_native(native: &NativeMap, map: &Map) -> Result<Fields> {
    let (mut levels, mut nodes, mut bytes) = (0, 0_u64, 0_u64);
    if let Some((objects, root)) = native.pieces(map)? {
        each_piece(&objects, root, &mut |piece, body_bytes| {
            levels = levels.max(u64::from(piece.level()) + 1);
            nodes += 1;
            let far = piece.far_bytes().map_err(Error::from)?;
            bytes = bytes.saturating_add(body_bytes).saturating_add(far);
            Ok(())
        })?;
    }
    let root = if map.is_empty()? { None } else { Some(map.root()?.to_string()) };
    Ok(fields! {
        "kind": "native",
        "entries": map.len()?,
        "levels": levels,
        "root": root,
        "nodes": nodes,
        "bytes": bytes,
        "options": native.opened.repo.format().tag().options,
    })
}

/// Gives each piece of a directory, with the bytes of its body.
fn each_piece(objects: &Objects, root: ObjRef, each: &mut dyn FnMut(&Piece<'_>, u64) -> Result<()>) -> Result<()> {
    let mut waiting = vec![(root, u8::MAX)];
    while let Some((at, above)) = waiting.pop() {
        let object = objects.read(Kind::Node, &at)?;
        let piece = Piece::new(&object).map_err(Error::from)?;
        if piece.level() >= above {
            return Err(Failure::failed(format!(
                "the piece {} stands below one of its own level; run `cone check`",
                at.oid
            )));
        }
        each(&piece, object.body().len() as u64)?;
        for index in 0..piece.len() {
            let child = piece.child(index).map_err(Error::from)?;
            waiting.extend(child.map(|child| (child.at, piece.level())));
        }
    }
    Ok(())
}

/// Checks the id of every object of a map, and that pieces are cut as the entries say; returns the first fault.
fn check_native(native: &NativeMap, map: &Map) -> Result<Option<String>> {
    let Some((objects, root)) = native.pieces(map)? else { return Ok(None) };
    let (mut checked, done, mut progress) = (Checked::default(), Done::default(), Progress::new("checked", None));
    let (mut count, mut bytes) = (0, 0);
    // Each with whether it stands for a whole directory or value. The next one is last.
    let mut waiting = vec![(Kind::Node, root.oid, true)];
    while let Some((kind, oid, is_whole)) = waiting.pop() {
        let object = match objects.read(kind, &oid.into()) {
            Ok(object) => object,
            Err(error) => return fault(error).map(Some),
        };
        let wrong = match native.repo.hash_object(&object) {
            _ if object.kind() != kind => Some(format!("it is a {} object", object.kind())),
            Ok(found) if found != oid => Some(format!("its hash is {found}")),
            Ok(_) => native.repo.check_structure(&object, is_whole, &mut checked).err().map(fault).transpose()?,
            Err(error) => Some(fault(error)?),
        };
        if let Some(wrong) = wrong {
            return Ok(Some(format!("the {kind} object {oid}: {wrong}")));
        }
        (count, bytes) = (count + 1, bytes + object.body().len() as u64);
        done.set(count, bytes);
        progress.tick(&done);
        let below = below(native, kind, &object)?;
        waiting.extend(below.into_iter().rev());
    }
    Ok(None)
}

/// Says what an error found wrong with the map; a failure of the system is none of the map's.
fn fault(error: Error) -> Result<String> {
    match error {
        Error::Io { .. } => Err(error.into()),
        error => Ok(report(&error).trim_end_matches("; `check` lists what is affected").to_owned()),
    }
}

/// Returns the objects that an object names, each with its kind and whether it stands for something whole.
fn below(native: &NativeMap, kind: Kind, object: &bristlecone::Object<'_>) -> Result<Vec<(Kind, Oid, bool)>> {
    use bristlecone::Format as _;

    let is_leaf = kind == Kind::Node && Piece::new(object).map_err(Error::from)?.level() == 0;
    let mut all = Vec::new();
    let children = native.repo.format().children(kind, object.body(), &mut |kind, oid| all.push((kind, oid, is_leaf)));
    children.map_err(Error::from)?;
    Ok(all)
}

fn stat_okra(map: &OkraMap) -> Result<Fields> {
    let snapshot = map.read()?;
    let root = snapshot.root()?;
    let mut entries = 0_u64;
    for entry in snapshot.entries()? {
        entry?;
        entries += 1;
    }
    let (nodes, _) = snapshot.node_count()?;
    let bytes = fs::metadata(map.file()).map_err(|error| Failure::file("read", map.file(), &error))?.len();
    Ok(fields! {
        "kind": "okra",
        "entries": entries,
        "levels": u64::from(root.level) + 1,
        "root": root.hash.to_string(),
        "nodes": nodes,
        "bytes": bytes,
        "mode": mode_name(map.mode()),
        "k": okra::HASH_BYTES,
        "q": okra::FANOUT,
        "version": okra::VERSION,
    })
}

fn check_okra(map: &OkraMap) -> Result<Option<String>> {
    match map.read()?.check() {
        Ok(_) => Ok(None),
        Err(error @ (OkraError::Damaged { .. } | OkraError::Corrupt { .. })) => Ok(Some(error.to_string())),
        Err(error) => Err(error.into()),
    }
}
