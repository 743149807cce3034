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
    place::{AnyMap, NativeMap, Objects, ReadArgs, open_to_check},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result, with_commands},
    output::{Fields, Output, fields},
    progress::{Done, meanwhile},
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
    let opened = open_to_check(&context.globals, &args.read)?;
    let done = Done::default();
    // Nothing is counted where LMDB's pages and Okra's nodes are checked.
    let line = |seconds| done.line(seconds, "checking the map", "read", ["item", "items"]);
    let (damage, mut all) = match opened {
        Ok(map) => meanwhile(line, || look(args, &map, &done))?,
        Err(damage) if args.check => (Some(damage.to_string()), fields! {}),
        Err(damage) => return Err(damage.into()),
    };
    if args.check {
        all.extend(fields! { "sound": damage.is_none(), "damage": damage.clone() });
    }
    write_human(&all, &mut context.out)?;
    context.out.document(all)?;
    if damage.is_some() { Err(Failure::answered()) } else { Ok(()) }
}

/// Returns the first fault, where one is looked for, and what the map is: nothing of one with a fault, whose sizes need not make
/// sense.
fn look(args: &StatArgs, map: &AnyMap, done: &Done) -> Result<(Option<String>, Fields)> {
    match map {
        AnyMap::Native(native) => {
            let map = native.map_at(args.read.at.as_ref())?;
            let damage = if args.check { check_native(native, &map, done)? } else { None };
            let all = match damage {
                None => stat_native(native, &map, done)?,
                Some(_) => fields! {},
            };
            Ok((damage, all))
        }
        AnyMap::Okra(map) => {
            let damage = if args.check { check_okra(map)? } else { None };
            let all = match damage {
                None => stat_okra(map, done)?,
                Some(_) => fields! {},
            };
            Ok((damage, all))
        }
    }
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

fn stat_native(native: &NativeMap, map: &Map, done: &Done) -> Result<Fields> {
    let (mut levels, mut nodes, mut bytes) = (0, 0_u64, 0_u64);
    if let Some((objects, root)) = native.pieces(map)? {
        each_piece(&objects, root, &mut |piece, body_bytes| {
            levels = levels.max(u64::from(piece.level()) + 1);
            nodes += 1;
            done.add(body_bytes);
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
fn check_native(native: &NativeMap, map: &Map, done: &Done) -> Result<Option<String>> {
    let Some((objects, root)) = native.pieces(map)? else { return Ok(None) };
    let mut checked = Checked::default();
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
        done.add(object.body().len() as u64);
        let below = below(native, kind, &object)?;
        waiting.extend(below.into_iter().rev());
    }
    Ok(None)
}

/// Says what an error found wrong with the map; a failure of the system is none of the map's.
fn fault(error: Error) -> Result<String> {
    match error {
        Error::Io { .. } => Err(error.into()),
        error => Ok(report(&with_commands(error))),
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

fn stat_okra(map: &OkraMap, done: &Done) -> Result<Fields> {
    let snapshot = map.read()?;
    let root = snapshot.root()?;
    let mut entries = 0_u64;
    for entry in snapshot.entries()? {
        let (key, value) = entry?;
        done.add((key.len() + value.len()) as u64);
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
