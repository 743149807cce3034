//! `cone map tree`: the shape of the Merkle tree.

use bristlecone::{Kind, ObjRef, core::native::Piece};
use bristlecone_lmdb::okra::OkraSnapshot;
use clap::Args;

use super::{
    form::{FormArgs, Forms},
    place::{AnyMap, Objects, ReadArgs, open_to_read},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result},
    output::{Output, fields},
    text::count,
};

/// Digits of an id in a line.
const ID_DIGITS: usize = 12;

/// Draw the Merkle tree above the entries, each node before those below it
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map tree                   every node down to those that hold the entries
  cone map tree --depth 1         the root alone
  cone -r fruit map tree

Each line has the level, the id, how many nodes or entries are right below, and the first key. Of a native map the nodes are
the pieces of its directory, and level 0 holds the entries; of an Okra map level 1 does, and its leftmost nodes, which
begin at the anchor, have no key.")]
pub(super) struct TreeArgs {
    /// Levels to show, from the root [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    depth: Option<usize>,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// A node that is shown.
struct Node<'n> {
    /// The root has depth 0.
    depth: usize,
    level: u8,
    key: Option<&'n [u8]>,
    id: String,
    /// What is right below.
    below: Below,
}

enum Below {
    /// Nodes, with the entries below them all where that is known.
    Nodes(u64, Option<u64>),
    Entries(u64),
}

pub(super) fn run(args: &TreeArgs, context: &mut Context) -> Result<()> {
    let map = open_to_read(&context.globals, &args.read)?;
    let forms = args.forms.of(map.is_index());
    let depth_max = args.depth.unwrap_or(usize::MAX);
    let out = &mut context.out;
    out.begin(&fields! {}, "nodes")?;
    let mut each = |node: &Node<'_>| write(forms, node, out);
    match &map {
        AnyMap::Native(native) => {
            let map = native.map_at(args.read.at.as_ref())?;
            if let Some((objects, root)) = native.pieces(&map)? {
                walk_native(&objects, root, depth_max, &mut each)?;
            }
        }
        AnyMap::Okra(map) => walk_okra(&map.read()?, depth_max, &mut each)?,
    }
    out.end(&fields! {})
}

fn write(forms: Forms, node: &Node<'_>, out: &mut Output) -> Result<()> {
    if out.json() {
        let mut item = fields! { "depth": node.depth, "level": node.level };
        match node.key {
            Some(key) => forms.put_key(&mut item, "key", key),
            None => drop(item.insert("key".to_owned(), serde_json::Value::Null)),
        }
        let (nodes, entries) = match node.below {
            Below::Nodes(nodes, entries) => (Some(nodes), entries),
            Below::Entries(entries) => (None, Some(entries)),
        };
        item.extend(fields! { "id": node.id.as_str(), "nodes": nodes, "entries": entries });
        return out.item(item);
    }
    let below = match node.below {
        Below::Nodes(nodes, _) => count(nodes, "node", "nodes"),
        Below::Entries(entries) => count(entries, "entry", "entries"),
    };
    let key = node.key.map(|key| format!("  {}", forms.show_key(key))).unwrap_or_default();
    let (indent, id) = ("  ".repeat(node.depth), &node.id[..node.id.len().min(ID_DIGITS)]);
    out.line(format_args!("{indent}level {}  {id}  {below}{key}", node.level))
}

/// Gives the pieces of a directory, each before those below it.
fn walk_native(
    objects: &Objects,
    root: ObjRef,
    depth_max: usize,
    each: &mut dyn FnMut(&Node<'_>) -> Result<()>,
) -> Result<()> {
    // Of each level the pieces that are still to be shown, the next one last.
    let mut levels = vec![vec![root]];
    // The level of the piece above, which each piece is below: damage cannot lead round and round.
    let mut above = vec![u8::MAX];
    while let Some(waiting) = levels.last_mut() {
        let Some(at) = waiting.pop() else {
            levels.pop();
            above.pop();
            continue;
        };
        let depth = levels.len() - 1;
        if depth >= depth_max {
            continue;
        }
        let object = objects.read(Kind::Node, &at)?;
        let piece = Piece::new(&object).map_err(bristlecone::Error::from)?;
        if piece.level() >= above[depth] {
            let way = "run `cone check` to see what is affected";
            return Err(Failure::failed(format!("the piece {} stands below one of its own level; {way}", at.oid)));
        }
        let entries = piece.entries().map_err(bristlecone::Error::from)?;
        let below = match piece.level() {
            0 => Below::Entries(entries),
            _ => Below::Nodes(piece.len() as u64, Some(entries)),
        };
        let key = piece.first().map_err(bristlecone::Error::from)?;
        each(&Node { depth, level: piece.level(), key, id: at.oid.to_string(), below })?;
        let mut children = Vec::new();
        for index in (0..piece.len()).rev() {
            children.extend(piece.child(index).map_err(bristlecone::Error::from)?.map(|child| child.at));
        }
        levels.push(children);
        above.push(piece.level());
    }
    Ok(())
}

/// Gives the nodes of an Okra map down to level 1, or the root of an empty one.
fn walk_okra(
    snapshot: &OkraSnapshot<'_>,
    depth_max: usize,
    each: &mut dyn FnMut(&Node<'_>) -> Result<()>,
) -> Result<()> {
    let root = snapshot.root()?;
    let mut levels = vec![vec![(None, root.hash)]];
    while let Some(waiting) = levels.last_mut() {
        let Some((key, hash)) = waiting.pop() else {
            levels.pop();
            continue;
        };
        let depth = levels.len() - 1;
        // Levels are one below the other, so there are no more of them than the root's.
        let Some(level) = root.level.checked_sub(depth as u8).filter(|_| depth < depth_max) else { continue };
        let key: Option<Vec<u8>> = key;
        let children = snapshot.children(level, key.as_deref())?.unwrap_or_default();
        let below = match level {
            0 | 1 => Below::Entries(children.iter().filter(|child| child.key.is_some()).count() as u64),
            _ => Below::Nodes(children.len() as u64, None),
        };
        each(&Node { depth, level, key: key.as_deref(), id: hash.to_string(), below })?;
        if level > 1 {
            levels.push(children.into_iter().rev().map(|child| (child.key, child.hash)).collect());
        }
    }
    Ok(())
}
