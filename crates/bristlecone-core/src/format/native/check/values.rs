//! Values that are objects: their length, and for large ones where they are cut and how the pieces are listed.

use super::{
    super::contents::{self, List, WHOLE_BYTES_MAX, kind_of},
    CheckSource, ahead, broken, facts, misfit,
};
use crate::{Checked, FormatError, Kind, ObjRef, Object, Oid, Source};

const BODY: &str = "its length is not the one above it";

/// Checks that a contents object is no longer than one may be.
pub(super) fn check_whole_size(object: &Object<'_>) -> Result<(), FormatError> {
    match object.body().len() > WHOLE_BYTES_MAX {
        true => Err(broken(Kind::Contents, "a value of more than 256 KiB is not cut into pieces")),
        false => Ok(()),
    }
}

/// Checks that there is a whole value at `at`, of `bytes` bytes where the caller says so.
pub(super) fn check_value<S: Source>(source: &S, at: &ObjRef, bytes: Option<u64>) -> Result<(), S::Error> {
    let kind = bytes.map_or(Kind::Pieces, kind_of);
    let object = source.read(kind, at)?;
    let found = match object.kind() {
        Kind::Pieces => {
            let list = contents::list(&object)?;
            check_whole(&list, |reason| misfit(kind, at.oid, reason))?;
            list.bytes()
        }
        _ => object.body().len() as u64,
    };
    if object.kind() != kind || bytes.is_some_and(|bytes| bytes != found) {
        return Err(misfit(kind, at.oid, BODY).into());
    }
    Ok(())
}

/// Checks that a list is that of a whole value.
fn check_whole(list: &List, wrong: impl Fn(&'static str) -> FormatError) -> Result<(), FormatError> {
    if list.pieces.len() < 2 {
        return Err(wrong("a value of one piece has a list above it"));
    }
    match list.bytes() > WHOLE_BYTES_MAX as u64 {
        true => Ok(()),
        false => Err(wrong("a value of 256 KiB or less is cut into pieces")),
    }
}

/// Checks a list with the pieces or lists that it names. Whether the last of them may end where it does is checked with the
/// list above, unless this is a whole value.
pub(super) fn check<S: Source>(
    source: &CheckSource<'_, '_, S>,
    object: &Object<'_>,
    whole: bool,
    checked: &mut Checked,
) -> Result<(), S::Error> {
    let list = contents::list(object)?;
    if whole {
        check_whole(&list, |reason| broken(Kind::Pieces, reason))?;
    }
    let last = list.pieces.len() - 1;
    for (index, (bytes, oid)) in list.pieces.iter().enumerate() {
        if index < last && contents::ends_list(index + 1, oid) {
            return Err(broken(Kind::Pieces, "it goes on beyond the end of a list").into());
        }
        let known = facts::with_piece(&list, index, |place, fact| checked.knows(place, fact));
        if !known {
            source.expect_once(|| ahead::of_list(object, &list, index, checked));
            check_child(source, &list, &ObjRef::new(*oid, object.child(index)), *bytes, index < last)?;
            facts::with_piece(&list, index, |place, fact| checked.learn(place, fact));
        }
    }
    Ok(())
}

/// Checks what a list names: a piece of `bytes` bytes, or a list of pieces with as many together; `ended` if there is more
/// of the value behind it.
fn check_child<S: Source>(source: &S, list: &List, at: &ObjRef, bytes: u64, ended: bool) -> Result<(), S::Error> {
    if list.level == 0 {
        return check_piece(source, at, Some(bytes), ended);
    }
    let wrong = |oid: Oid, reason| misfit(Kind::Pieces, oid, reason);
    let (mut at, mut above, mut bytes) = (*at, list.level, Some(bytes));
    // Down the last lists, each of which ends with the value that is behind them.
    loop {
        let object = source.read(Kind::Pieces, &at)?;
        let below = contents::list(&object)?;
        if below.level + 1 != above {
            return Err(wrong(at.oid, "it is not one level below its parent").into());
        }
        if bytes.take().is_some_and(|bytes| bytes != below.bytes()) {
            return Err(wrong(at.oid, BODY).into());
        }
        if !ended {
            return Ok(());
        }
        let count = below.pieces.len();
        let Some((_, last)) = below.pieces.last().filter(|(_, oid)| contents::ends_list(count, oid)) else {
            return Err(wrong(at.oid, "it ends before the end of a list").into());
        };
        let last = ObjRef::new(*last, object.child(count - 1));
        if below.level == 0 {
            return check_piece(source, &last, None, true);
        }
        (at, above) = (last, below.level);
    }
}

/// Checks that a piece of a value is cut where it should be.
fn check_piece<S: Source>(source: &S, at: &ObjRef, bytes: Option<u64>, ended: bool) -> Result<(), S::Error> {
    let object = source.read(Kind::Contents, at)?;
    let (body, wrong) = (object.body(), |reason| misfit(Kind::Contents, at.oid, reason));
    if object.kind() != Kind::Contents || bytes.is_some_and(|bytes| bytes != body.len() as u64) {
        return Err(wrong(BODY).into());
    }
    let cut = contents::cut(body);
    if cut.bytes != body.len() {
        return Err(wrong("a cut of the value belongs within it").into());
    }
    if ended && !cut.ends {
        return Err(wrong("it ends where no cut of the value belongs").into());
    }
    Ok(())
}
