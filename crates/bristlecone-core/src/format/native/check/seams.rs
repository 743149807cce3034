//! Where two pieces of a directory meet.
//!
//! A level is cut as it should be if and only if (1) no piece is heavier than the bound unless it is a single item; (2) no
//! item within a piece has a smaller hash than the item that begins it (but in the first piece of the level), nor one as
//! small as the item that begins the next; (3) each item that begins a piece but the first has the smallest hash in a
//! stretch of more than the bound. By (2) such a stretch begins and ends where pieces do, so (3) follows from the items of
//! the level above, which have first step and weight of each piece. A stretch that breaks (3) weighs no more than the
//! bound, so a check that looks that far to both sides of a seam sees all of it.

use alloc::{collections::VecDeque, vec::Vec};

use super::{
    super::{
        Direction, bad,
        cursor::{LevelCursor, load_child, view},
        cut::{self, Token, WEIGHT_MAX, level_hash},
        node::{NodeChild, NodeSurvey, NodeView},
    },
    CheckSource, ahead, broken, facts, misfit,
};
use crate::{Checked, FormatError, Kind, Object, Oid, Source};

const MERGED: &str = "two pieces below it belong in one";

/// Checks an inner node with the pieces that it names and the seams between them. At its edges nothing is known, unless
/// it is a whole directory.
pub(super) fn check<'o, S: Source>(
    source: &CheckSource<'_, 'o, S>,
    object: &'o Object<'_>,
    whole: bool,
    checked: &mut Checked,
) -> Result<(), S::Error> {
    let node = view(object)?;
    let children = children(&node)?;
    check_starts(&tokens(&children, node.level), true, true)?;
    let mut left: Option<SeamPiece<'_>> = None;
    for (index, pair) in children.windows(2).enumerate() {
        if facts::with_pair(&node, index, |place, fact| checked.knows(place, fact))? {
            left = None;
            continue;
        }
        source.expect_once(|| ahead::of_pairs(object, &node, index, checked));
        let one = match left.take() {
            Some(piece) => piece,
            None => SeamPiece::load(source, object, index, &pair[0])?,
        };
        let other = SeamPiece::load(source, object, index + 1, &pair[1])?;
        let seam = Seam { above: object, step: pair[1].step, from: pair[0].step, to: children.get(index + 2) };
        if seam.check(source, &one, &other)? {
            facts::with_pair(&node, index, |place, fact| checked.learn(place, fact))?;
        }
        left = Some(other);
    }
    if let [only] = &children[..] {
        SeamPiece::load(source, object, 0, only)?;
    }
    if whole { check_root(source, object, broken) } else { Ok(()) }
}

/// Reads what `check` reads of a piece and the next one.
pub(super) fn read_pair<S: Source>(source: &S, object: &Object<'_>, index: usize) -> Result<(), S::Error> {
    let node = view(object)?;
    let child = |index| node.child(index).map_err(bad(Kind::Node));
    let (one, other) = (child(index)?, child(index + 1)?);
    let to = if index + 2 < node.len() { Some(child(index + 2)?) } else { None };
    let seam = Seam { above: object, step: other.step, from: one.step, to: to.as_ref() };
    let left = SeamPiece::load(source, object, index, &one);
    let right = SeamPiece::load(source, object, index + 1, &other)?;
    seam.check(source, &left?, &right).map(drop)
}

/// Checks that an inner node stands for a whole directory: it has two pieces at least, and every level would be cut so
/// though nothing is beyond its edges.
pub(super) fn check_root<S: Source>(
    source: &S,
    root: &Object<'_>,
    wrong: impl Fn(Kind, &'static str) -> FormatError,
) -> Result<(), S::Error> {
    let node = view(root)?;
    let check_starts = |tokens: &[Token], open_start, open_end| {
        check_starts(tokens, open_start, open_end).map_err(|_| wrong(Kind::Node, MERGED))
    };
    if node.len() < 2 {
        return Err(wrong(Kind::Node, "a directory of one piece has a level above it").into());
    }
    if node.len() as u64 > WEIGHT_MAX {
        return Err(wrong(Kind::Node, "it weighs more than a piece may").into());
    }
    check_starts(&tokens(&children(&node)?, node.level), false, false)?;
    for (level, end) in edges(&node) {
        let (mut window, more) = edge(source, root, level, end)?;
        let (open_start, open_end) = (more && end == Direction::Reverse, more && end == Direction::Forward);
        check_starts(window.tokens.make_contiguous(), open_start, open_end)?;
    }
    Ok(())
}

/// Returns both ends of every level between the leaves of a directory and its root.
pub(super) fn edges(root: &NodeView<'_>) -> impl Iterator<Item = (u8, Direction)> + use<> {
    (1..root.level).flat_map(|level| [Direction::Forward, Direction::Reverse].map(|end| (level, end)))
}

/// Returns the pieces at one end of a level, as far as a cut can depend on them, and whether there are more.
pub(super) fn edge<S: Source>(
    source: &S,
    root: &Object<'_>,
    level: u8,
    end: Direction,
) -> Result<(SeamWindow, bool), S::Error> {
    let mut cursor = LevelCursor::new(source, root.clone(), level);
    cursor.seek_end(end)?;
    let mut window = SeamWindow::default();
    window.push(&cursor, end)?;
    let more = window.gather(&mut cursor, end)?;
    Ok((window, more))
}

/// Reads the items of an inner node; the weight of the node bounds how many there are.
fn children<'b>(node: &NodeView<'b>) -> Result<Vec<NodeChild<'b>>, FormatError> {
    if node.len() == 0 {
        return Err(broken(Kind::Node, "it has a level and no items"));
    }
    let child = |index| node.child(index).map_err(bad(Kind::Node));
    (0..node.len()).map(child).collect()
}

/// Returns what the cuts below a node depend on.
fn tokens(children: &[NodeChild<'_>], level: u8) -> Vec<Token> {
    let token = |child: &NodeChild<'_>| Token { hash: level_hash(level - 1, child.step), weight: child.weight };
    children.iter().map(token).collect()
}

/// Checks that each of these pieces begins with a cut.
fn check_starts(tokens: &[Token], open_start: bool, open_end: bool) -> Result<(), FormatError> {
    match cut::starts(tokens, WEIGHT_MAX, open_start, open_end).iter().all(|&start| start) {
        true => Ok(()),
        false => Err(broken(Kind::Node, MERGED)),
    }
}

/// A piece that an inner node names.
struct SeamPiece<'a> {
    object: Object<'a>,
    oid: Oid,
    survey: NodeSurvey,
}

impl<'a> SeamPiece<'a> {
    /// Loads a piece and checks that the item above says of it what is so.
    fn load<S: Source>(
        source: &'a S,
        above: &Object<'_>,
        index: usize,
        item: &NodeChild<'_>,
    ) -> Result<Self, S::Error> {
        let object = load_child(source, above, index)?;
        let wrong = |reason| misfit(Kind::Node, item.oid, reason);
        let node = view(&object)?;
        if node.step(0).map_err(bad(Kind::Node))? != item.step {
            return Err(wrong("its first step is not the one above it").into());
        }
        if node.count().map_err(bad(Kind::Node))? != item.count {
            return Err(wrong("it has not as many entries as are counted above it").into());
        }
        let survey = node.survey().map_err(bad(Kind::Node))?;
        if survey.weight != item.weight {
            return Err(wrong("its weight is not the one above it").into());
        }
        Ok(Self { object, oid: item.oid, survey })
    }
}

/// The place where two pieces of a node meet, and all levels below with them.
struct Seam<'s, 'o> {
    above: &'s Object<'o>,
    /// The first step of the piece on the right, which begins a piece of each level below.
    step: &'s [u8],
    /// The first step of the piece on the left.
    from: &'s [u8],
    /// The piece behind the one on the right.
    to: Option<&'s NodeChild<'s>>,
}

impl Seam<'_, '_> {
    /// Checks the seam on every level. Returns whether no other piece was looked at than the two.
    fn check<S: Source>(&self, source: &S, left: &SeamPiece<'_>, right: &SeamPiece<'_>) -> Result<bool, S::Error> {
        self.check_spine(source, left, Direction::Reverse)?;
        self.check_spine(source, right, Direction::Forward)?;
        let mut alone = true;
        for level in 1..view(&left.object)?.level + 1 {
            alone &= self.check_window(source, level)?;
        }
        Ok(alone)
    }

    /// Goes down the edge of a piece at the seam: the last pieces on its left, or the first ones on its right.
    fn check_spine<S: Source>(&self, source: &S, piece: &SeamPiece<'_>, edge: Direction) -> Result<(), S::Error> {
        let (mut object, mut oid, mut survey) = (piece.object.clone(), piece.oid, piece.survey);
        loop {
            let node = view(&object)?;
            let hash = level_hash(node.level, self.step);
            let within = |low| match edge {
                Direction::Forward => low < hash,
                // The leftmost of equal hashes counts as the smallest.
                Direction::Reverse => low <= hash,
            };
            if survey.low.is_some_and(within) {
                return Err(misfit(Kind::Node, oid, "the cut beside it belongs within it").into());
            }
            let last = node.len().saturating_sub(1);
            if edge == Direction::Reverse && node.step(last).map_err(bad(Kind::Node))? >= self.step {
                return Err(misfit(Kind::Node, oid, "it reaches beyond the piece behind it").into());
            }
            if node.level == 0 {
                return Ok(());
            }
            let next = if edge == Direction::Reverse { last } else { 0 };
            oid = node.child(next).map_err(bad(Kind::Node))?.oid;
            object = load_child(source, &object, next)?;
            survey = view(&object)?.survey().map_err(bad(Kind::Node))?;
        }
    }

    /// Checks the pieces around the seam that the items of one level name. Returns whether all are below the two.
    fn check_window<S: Source>(&self, source: &S, level: u8) -> Result<bool, S::Error> {
        let mut right = LevelCursor::new(source, self.above.clone(), level);
        right.seek(self.step)?;
        let mut left = right.clone();
        let mut window = SeamWindow::default();
        let mut alone = window.gather(&mut left, Direction::Reverse)? && *step_of(&left)? >= *self.from;
        window.weight = 0;
        window.push(&right, Direction::Forward)?;
        alone &= window.gather(&mut right, Direction::Forward)?;
        if let Some(to) = self.to {
            alone &= *step_of(&right)? < *to.step;
        }
        check_starts(window.tokens.make_contiguous(), true, true)?;
        Ok(alone)
    }
}

fn step_of<'c, S: Source>(cursor: &'c LevelCursor<'_, S>) -> Result<&'c [u8], FormatError> {
    cursor.node()?.step(cursor.index()).map_err(bad(Kind::Node))
}

/// Neighbouring items of a level above the leaves, as far as a cut can depend on them.
#[derive(Default)]
pub(super) struct SeamWindow {
    tokens: VecDeque<Token>,
    /// The weight of what was gathered in the current direction.
    weight: u64,
}

impl SeamWindow {
    /// Goes on until what was gathered is heavier than the bound, the item where the cursor stands being in already.
    /// Returns whether it came so far before the end.
    fn gather<S: Source>(&mut self, cursor: &mut LevelCursor<'_, S>, direction: Direction) -> Result<bool, S::Error> {
        while self.weight <= WEIGHT_MAX {
            if !cursor.step(direction)? {
                return Ok(false);
            }
            self.push(cursor, direction)?;
        }
        Ok(true)
    }

    /// Adds the item where the cursor stands.
    fn push<S: Source>(&mut self, cursor: &LevelCursor<'_, S>, direction: Direction) -> Result<(), FormatError> {
        let node = cursor.node()?;
        let child = node.child(cursor.index()).map_err(bad(Kind::Node))?;
        if child.weight == 0 {
            return Err(misfit(Kind::Node, child.oid, "its weight is not the one above it"));
        }
        let token = Token { hash: level_hash(node.level - 1, child.step), weight: child.weight };
        self.weight = self.weight.saturating_add(child.weight);
        match direction {
            Direction::Forward => self.tokens.push_back(token),
            Direction::Reverse => self.tokens.push_front(token),
        }
        Ok(())
    }
}
