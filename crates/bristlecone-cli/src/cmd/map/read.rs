//! `cone map get` and `cone map list`: one entry, and entries in the order of their keys.

use std::{ffi::OsString, ops::Bound};

use bristlecone::{Listing, escape, to_hex};
use bristlecone_lmdb::okra::OkraSnapshot;
use clap::Args;

use super::{
    change::absent,
    form::{Form, FormArgs, Forms},
    place::{AnyMap, NativeMap, ReadArgs, open_to_read},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result},
    output::{Output, fields},
};

/// Read the value of a key
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map get apple                   the value, as a line of text
  cone map get photo --values raw      its bytes, and nothing else
  cone map get apple --at HEAD~3       as it was three commits before
  cone -r fruit map get 00ff --keys hex

Exit code 1 if there is no such key.")]
pub(super) struct GetArgs {
    /// Which key
    #[arg(value_name = "KEY")]
    key: OsString,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

/// List the entries in the order of their keys
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map list                            key and value, with a tab between
  cone map list --prefix 2026- -n 10       the first ten whose keys begin so
  cone map list --reverse -n 1             the last one
  cone map list --from b --to d --count    how many keys lie between; a native map does not list them for that
  cone map list --keys hex --only-keys

In lines, a value that is not UTF-8 or has control characters is shown with %XX. With -o json all is exact.")]
pub(super) struct ListArgs {
    /// Only keys from this one on
    #[arg(long, value_name = "KEY")]
    from: Option<OsString>,
    /// Only keys before this one
    #[arg(long, value_name = "KEY")]
    to: Option<OsString>,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY")]
    prefix: Option<OsString>,
    /// From the last to the first
    #[arg(long)]
    reverse: bool,
    /// At most this many [default: all]
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<usize>,
    /// How many there are, and nothing else
    #[arg(long, conflicts_with_all = ["limit", "reverse", "only_keys"])]
    count: bool,
    /// Without values
    #[arg(long)]
    only_keys: bool,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    read: ReadArgs,
}

pub(super) fn get(args: &GetArgs, context: &mut Context) -> Result<()> {
    let map = open_to_read(&context.globals, &args.read)?;
    let forms = args.forms.of(map.is_index());
    let key = forms.key(&args.key)?;
    map.check(&key, None)?;
    match &map {
        AnyMap::Native(native) => {
            let map = native.map_at(args.read.at.as_ref())?;
            let value = map.get(&key)?.ok_or_else(|| absent(forms, &key))?;
            write_value(forms, &key, &value, &mut context.out)
        }
        AnyMap::Okra(map) => {
            let snapshot = map.read()?;
            let value = snapshot.get(&key)?.ok_or_else(|| absent(forms, &key))?;
            write_value(forms, &key, value, &mut context.out)
        }
    }
}

fn write_value(forms: Forms, key: &[u8], value: &[u8], out: &mut Output) -> Result<()> {
    if out.json() {
        let mut all = fields! {};
        forms.put_key(&mut all, "key", key);
        all.insert("bytes".to_owned(), value.len().into());
        forms.put_value(&mut all, "value", value);
        return out.document(all);
    }
    match forms.values {
        Form::Raw => out.bytes(value),
        Form::Hex => out.line(to_hex(value)),
        Form::Text => match std::str::from_utf8(value) {
            Ok(text) => out.line(text),
            Err(_) => out.line(escape(value)),
        },
    }
}

/// The keys that are listed.
struct Bounds {
    from: Option<Vec<u8>>,
    /// This key and those behind it are not listed.
    to: Option<Vec<u8>>,
}

impl Bounds {
    fn of(args: &ListArgs, forms: Forms) -> Result<Self> {
        let key = |word: &Option<OsString>| word.as_deref().map(|word| forms.key(word)).transpose();
        let (mut from, mut to) = (key(&args.from)?, key(&args.to)?);
        if let Some(prefix) = key(&args.prefix)? {
            if let Some(behind) = behind_prefix(&prefix) {
                to = Some(to.map_or_else(|| behind.clone(), |to| to.min(behind.clone())));
            }
            from = from.max(Some(prefix));
        }
        Ok(Self { from, to })
    }

    /// Whether no key can lie within.
    fn is_empty(&self) -> bool {
        matches!((&self.from, &self.to), (from, Some(to)) if from.as_ref().is_some_and(|from| from >= to) || to.is_empty())
    }

    fn as_pair(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        let from = self.from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        (from, self.to.as_deref().map_or(Bound::Unbounded, Bound::Excluded))
    }
}

/// Returns the first key behind all that begin with `prefix`; `None` if there are none behind.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut behind = prefix[..=last].to_vec();
    behind[last] += 1;
    Some(behind)
}

pub(super) fn list(args: &ListArgs, context: &mut Context) -> Result<()> {
    let map = open_to_read(&context.globals, &args.read)?;
    let forms = args.forms.of(map.is_index());
    let bounds = Bounds::of(args, forms)?;
    [&bounds.from, &bounds.to]
        .into_iter()
        .flatten()
        .filter(|key| !key.is_empty())
        .try_for_each(|key| map.check(key, None))?;
    if args.count {
        let count = if bounds.is_empty() { 0 } else { count(&map, args, &bounds)? };
        context.out.line(count)?;
        return context.out.document(fields! { "count": count });
    }
    context.out.begin(&fields! {}, "entries")?;
    if !bounds.is_empty() {
        match &map {
            AnyMap::Native(map) => list_native(map, args, forms, &bounds, &mut context.out)?,
            AnyMap::Okra(map) => list_okra(&map.read()?, args, forms, &bounds, &mut context.out)?,
        }
    }
    context.out.end(&fields! {})
}

fn count(map: &AnyMap, args: &ListArgs, bounds: &Bounds) -> Result<u64> {
    match map {
        AnyMap::Native(map) => Ok(map.map_at(args.read.at.as_ref())?.count::<&[u8]>(bounds.as_pair())?),
        AnyMap::Okra(map) => {
            let snapshot = map.read()?;
            let mut entries = snapshot.range::<&[u8]>(bounds.as_pair())?;
            entries.try_fold(0, |count, entry| entry.map(|_| count + 1).map_err(Failure::from))
        }
    }
}

fn list_native(map: &NativeMap, args: &ListArgs, forms: Forms, bounds: &Bounds, out: &mut Output) -> Result<()> {
    let map = map.map_at(args.read.at.as_ref())?;
    let mut listing = Listing::new().range::<&[u8]>(bounds.as_pair());
    if let Some(limit) = args.limit {
        listing = listing.limit(limit);
    }
    if args.reverse {
        listing = listing.reverse();
    }
    for entry in map.tree().list_with("", &listing)? {
        let entry = entry?;
        let key = entry.step();
        if args.only_keys {
            write_entry(forms, key, None, out)?;
        } else {
            let value = entry.contents()?.ok_or_else(|| bristlecone::Error::NotAValue { key: forms.show_key(key) })?;
            write_entry(forms, key, Some(&value), out)?;
        }
    }
    Ok(())
}

fn list_okra(
    snapshot: &OkraSnapshot<'_>,
    args: &ListArgs,
    forms: Forms,
    bounds: &Bounds,
    out: &mut Output,
) -> Result<()> {
    let mut entries = snapshot.range::<&[u8]>(bounds.as_pair())?;
    for _ in 0..args.limit.unwrap_or(usize::MAX) {
        let entry = if args.reverse { entries.next_back() } else { entries.next() };
        let Some((key, value)) = entry.transpose()? else { break };
        write_entry(forms, key, (!args.only_keys).then_some(value), out)?;
    }
    Ok(())
}

fn write_entry(forms: Forms, key: &[u8], value: Option<&[u8]>, out: &mut Output) -> Result<()> {
    if !out.json() {
        return forms.line(out, "", key, value.as_slice());
    }
    let mut item = fields! {};
    forms.put_key(&mut item, "key", key);
    if let Some(value) = value {
        forms.put_value(&mut item, "value", value);
    }
    out.item(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        assert_eq!(behind_prefix(b"ab").as_deref(), Some(&b"ac"[..]));
        assert_eq!(behind_prefix(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!([behind_prefix(b""), behind_prefix(b"\xff")], [None, None]);
    }
}
