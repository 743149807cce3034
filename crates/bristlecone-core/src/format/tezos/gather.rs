//! All entries of a directory, from wherever its pieces hold them.

use alloc::vec::Vec;

use super::{
    Tezos, bad, inconsistent,
    node::{InnerView, LeafItems, LeafView, PieceView, at_depth},
};
use crate::{
    DecodeError, FormatError, Kind, Location, Next, ObjRef, Object, ObjectWalk, Oid, Source, Window,
    format::search::prefix,
};

/// The leaves of a directory or of a part of one, loaded.
pub(super) struct Gathered<'a> {
    pub(super) leaves: Vec<Object<'a>>,
    /// It is the root of a directory that is hashed flat.
    pub(super) flat: bool,
    // The pieces of its buckets.
    children: Vec<(u32, ObjRef)>,
}

/// Loads every leaf below the piece at a depth. `flat`: what it is a piece of is hashed flat.
pub(super) fn gather<'a, S: Source>(
    format: &Tezos,
    source: &'a S,
    piece: Object<'a>,
    depth: u8,
    flat: bool,
) -> Result<Gathered<'a>, S::Error> {
    let mut gathered = Gathered { leaves: Vec::new(), flat: false, children: Vec::new() };
    if let PieceView::Inner(inner) = PieceView::parse(piece.body()).map_err(bad)? {
        gathered.flat = inner.flat;
        for (index, (bucket, hash)) in inner.buckets().enumerate() {
            gathered.children.push((bucket, ObjRef::new(Oid::from_array(*hash), piece.child(index))));
        }
    }
    let mut gather = Gather::below(format, piece, depth, flat, false)?;
    Window::new(source).advance(&mut gather)?;
    gathered.leaves = gather.take_leaves();
    Ok(gathered)
}

/// A walk that gathers the leaves of a directory or of a part of one. It gives nothing before its end.
#[derive(Clone, Debug)]
pub(super) struct Gather<'a> {
    format: Tezos,
    // Until it is read.
    root: Option<ObjRef>,
    // Inner pieces from the first one down.
    open: Vec<OpenPiece<'a>>,
    leaves: Vec<Object<'a>>,
    // Pieces may be passed over, so that nothing can be counted.
    scouting: bool,
}

/// An inner piece whose children are being gathered.
#[derive(Clone, Debug)]
struct OpenPiece<'a> {
    piece: Object<'a>,
    depth: u8,
    // How many children were entered, and how many leaves there were before the last one.
    entered: usize,
    leaves: usize,
    // Entries of the leaves below.
    found: u64,
}

impl<'a> Gather<'a> {
    /// Begins with the root of a directory.
    pub(super) fn new(format: &Tezos, dir: ObjRef) -> Self {
        Self { format: *format, root: Some(dir), open: Vec::new(), leaves: Vec::new(), scouting: false }
    }

    /// Begins with a piece at a depth. `flat`: what it is a piece of is hashed flat.
    pub(super) fn below(
        format: &Tezos,
        piece: Object<'a>,
        depth: u8,
        flat: bool,
        scouting: bool,
    ) -> Result<Self, FormatError> {
        let mut gather = Self { format: *format, root: None, open: Vec::new(), leaves: Vec::new(), scouting };
        gather.enter(piece, depth, flat)?;
        Ok(gather)
    }

    /// Takes the leaves that were gathered.
    pub(super) fn take_leaves(&mut self) -> Vec<Object<'a>> {
        core::mem::take(&mut self.leaves)
    }

    /// Takes a leaf, or begins with the children of an inner piece.
    fn enter(&mut self, piece: Object<'a>, depth: u8, flat: bool) -> Result<(), FormatError> {
        match at_depth(&self.format, &piece, depth, flat)? {
            PieceView::Inner(_) => {
                self.format.check_depth(depth)?;
                self.open.push(OpenPiece { piece, depth, entered: 0, leaves: 0, found: 0 });
                Ok(())
            }
            PieceView::Leaf(leaf) if leaf.len() == 0 => Err(inconsistent("a directory is not empty")),
            PieceView::Leaf(leaf) => {
                let count = leaf.len() as u64;
                self.leaves.push(piece);
                self.leave(count)
            }
        }
    }

    /// Leaves a piece of `count` entries, the last one that was entered.
    fn leave(&mut self, count: u64) -> Result<(), FormatError> {
        let Some(above) = self.open.last_mut() else { return Ok(()) };
        above.found = above.found.saturating_add(count);
        if self.scouting {
            return Ok(());
        }
        let inner = inner(&above.piece)?;
        let Some((bucket, _)) = inner.buckets().nth(above.entered - 1) else { return Ok(()) };
        check_bucket(&self.format, &self.leaves[above.leaves..], inner.flat, above.depth, bucket)
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for Gather<'a> {
    type Item = ();

    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<()>, S::Error> {
        if let Some(root) = self.root {
            let Some(piece) = window.get(Kind::Node, &root) else { return Ok(Next::Wants(Kind::Node, root)) };
            self.root = None;
            self.enter(piece, 0, false)?;
        }
        while let Some(open) = self.open.last_mut() {
            let inner = inner(&open.piece)?;
            let Some(hash) = inner.hashes.get(open.entered) else {
                let (found, count) = (open.found, inner.count);
                if !self.scouting && (found == 0 || found != count) {
                    return Err(inconsistent("it does not hold as many entries as it counts").into());
                }
                self.open.pop();
                self.leave(found)?;
                continue;
            };
            let (at, flat) = (ObjRef::new(Oid::from_array(*hash), open.piece.child(open.entered)), inner.flat);
            let Some(piece) = window.get(Kind::Node, &at) else { return Ok(Next::Wants(Kind::Node, at)) };
            (open.entered, open.leaves) = (open.entered + 1, self.leaves.len());
            let depth = open.depth + 1;
            self.enter(piece, depth, flat)?;
        }
        Ok(Next::End)
    }

    fn scout(&self, items: bool) -> Self {
        let leaves = if items { self.leaves.clone() } else { Vec::new() };
        Self { format: self.format, root: self.root, open: self.open.clone(), leaves, scouting: true }
    }

    fn skip(&mut self) {
        if self.root.take().is_none()
            && let Some(open) = self.open.last_mut()
        {
            open.entered += 1;
        }
    }
}

pub(super) fn inner<'b>(piece: &'b Object<'_>) -> Result<InnerView<'b>, FormatError> {
    match PieceView::parse(piece.body()).map_err(bad)? {
        PieceView::Inner(inner) => Ok(inner),
        PieceView::Leaf(_) => Err(inconsistent("its depth is not that of its place")),
    }
}

/// Checks that leaves are in the bucket of their first names. A piece that is named repeatedly could make a walk of a few
/// objects endless: it fails here the second time.
pub(super) fn check_bucket(
    format: &Tezos,
    leaves: &[Object<'_>],
    flat: bool,
    depth: u8,
    bucket: u32,
) -> Result<(), FormatError> {
    for object in leaves {
        let name = leaf(object).and_then(|leaf| leaf.name(0)).map_err(bad)?;
        if format.bucket_of(flat, depth, name) != bucket {
            return Err(inconsistent("it holds a name of another bucket"));
        }
    }
    Ok(())
}

impl Gathered<'_> {
    /// Returns every entry, in order of names.
    pub(super) fn items(&self) -> Result<LeafItems<'_>, DecodeError> {
        let mut count = 0;
        for object in &self.leaves {
            count += leaf(object)?.len();
        }
        let mut items = LeafItems::with_capacity(count);
        for object in &self.leaves {
            leaf(object)?.items(object, &mut items)?;
        }
        if self.leaves.len() > 1 {
            sort(&mut items);
        }
        Ok(items)
    }

    /// Returns the piece of one of its buckets.
    pub(super) fn child(&self, bucket: u32) -> Option<ObjRef> {
        let index = self.children.binary_search_by_key(&bucket, |(bucket, _)| *bucket).ok()?;
        Some(self.children[index].1)
    }
}

/// Returns where every entry of some leaves is, as leaf and index: in order of names if it is to be sorted.
pub(super) fn order(leaves: &[Object<'_>], sort: bool) -> Result<Vec<(u32, u32)>, DecodeError> {
    let mut order = Vec::new();
    for (number, object) in leaves.iter().enumerate() {
        let leaf = leaf(object)?;
        for index in 0..leaf.len() {
            let item = leaf.item(index, |_| Location::NONE)?;
            order.push((prefix(item.name()), item.name(), number as u32, index as u32));
        }
    }
    if sort {
        order.sort_unstable();
    }
    Ok(order.into_iter().map(|(_, _, leaf, index)| (leaf, index)).collect())
}

pub(super) fn leaf<'b>(object: &'b Object<'_>) -> Result<LeafView<'b>, DecodeError> {
    match PieceView::parse(object.body())? {
        PieceView::Leaf(leaf) => Ok(leaf),
        PieceView::Inner(_) => Err(DecodeError { offset: 0, reason: "it is no leaf" }),
    }
}

/// Sorts entries by name; the first eight bytes decide nearly always.
fn sort(items: &mut LeafItems<'_>) {
    let mut keys: Vec<(u64, u32)> =
        items.iter().enumerate().map(|(index, item)| (prefix(item.name()), index as u32)).collect();
    keys.sort_unstable_by(|one, other| {
        one.0.cmp(&other.0).then_with(|| items[one.1 as usize].name().cmp(items[other.1 as usize].name()))
    });
    let sorted: LeafItems<'_> = keys.iter().map(|(_, index)| items[*index as usize]).collect();
    items.copy_from_slice(&sorted);
}
