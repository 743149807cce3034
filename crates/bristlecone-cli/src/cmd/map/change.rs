//! `cone map set` and `cone map del`: single entries.

use std::{collections::HashSet, ffi::OsString, io::Read, os::unix::ffi::OsStrExt};

use bristlecone::VALUE_BYTES_MAX;
use clap::Args;

use super::{
    form::{FormArgs, Forms},
    place::{AnyMap, WriteArgs, open_to_write},
};
use crate::{
    cmd::Context,
    failure::{Failure, Result},
    output::{Fields, fields},
    stdin,
    text::count,
};

/// Set the value of a key
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map set apple red
  cone map set apple red --path fruit -m \"An apple\"
  cone map set photo - < photo.jpg             the value from standard input
  cone map set 00000001 cafe --keys hex --values hex
  cone -r fruit map set 'a%00b' red            %XX stands for any byte of a key
  cone map set temperature -- -5

In a store this is one commit, in an Okra map one transaction.")]
pub(super) struct SetArgs {
    /// Which key
    #[arg(value_name = "KEY")]
    key: OsString,
    /// The value: from standard input if it is - or left out
    #[arg(value_name = "VALUE")]
    value: Option<OsString>,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    write: WriteArgs,
}

/// Remove keys with their values
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map del apple
  cone map del apple plum --path fruit -m \"No more fruit\"

All are removed in one commit, or in one transaction of an Okra map. Exit code 1 if one of them is not there: nothing is
removed then.")]
pub(super) struct DelArgs {
    /// Which keys
    #[arg(value_name = "KEY", required = true)]
    words: Vec<OsString>,
    #[command(flatten)]
    forms: FormArgs,
    #[command(flatten)]
    write: WriteArgs,
}

pub(super) fn set(args: &SetArgs, context: &mut Context) -> Result<()> {
    let mut map = open_to_write(&context.globals, &args.write)?;
    let forms = args.forms.of(map.is_index());
    let key = forms.key(&args.key)?;
    let value = match args.value.as_deref() {
        Some(word) if word != "-" => forms.value(word.as_bytes())?,
        _ => forms.value(&standard_input()?)?,
    };
    map.check(&key, Some(&value))?;
    let shown = forms.show_key(&key);
    let mut all = match &mut map {
        AnyMap::Native(map) => {
            let done =
                map.commit(&args.write, &format!("Set {shown}"), &mut |map| Ok(map.insert(&key, &value[..])?))?;
            done.tell(&mut context.out, &format!("set {shown}"))?;
            done.fields(&map.opened)
        }
        AnyMap::Okra(map) => {
            let mut writer = map.write()?;
            let changes = writer.entries()?.get(&key)? != Some(&value);
            writer.insert(&key, &value)?;
            let root = writer.commit()?.hash;
            context.out.made(if changes { format!("set {shown}") } else { "nothing changed".to_owned() })?;
            fields! { "root": root.to_string(), "changed": changes }
        }
    };
    forms.put_key(&mut all, "key", &key);
    all.insert("bytes".to_owned(), value.len().into());
    context.out.document(all)
}

pub(super) fn del(args: &DelArgs, context: &mut Context) -> Result<()> {
    let mut map = open_to_write(&context.globals, &args.write)?;
    let forms = args.forms.of(map.is_index());
    let mut keys: Vec<Vec<u8>> = args.words.iter().map(|word| forms.key(word)).collect::<Result<_>>()?;
    // One that is named twice is one.
    let mut known = HashSet::new();
    keys.retain(|key| known.insert(key.clone()));
    keys.iter().try_for_each(|key| map.check(key, None))?;
    let what = match &keys[..] {
        [key] => forms.show_key(key),
        keys => count(keys.len() as u64, "key", "keys"),
    };
    let mut all = match &mut map {
        AnyMap::Native(map) => {
            let done = map.commit(&args.write, &format!("Remove {what}"), &mut |map| {
                keys.iter().try_for_each(|key| {
                    if !map.contains(key)? {
                        return Err(absent(forms, key));
                    }
                    Ok(())
                })?;
                keys.iter().try_for_each(|key| Ok(map.remove(key)?))
            })?;
            done.tell(&mut context.out, &format!("removed {what}"))?;
            done.fields(&map.opened)
        }
        AnyMap::Okra(map) => {
            let mut writer = map.write()?;
            for key in &keys {
                if writer.entries()?.get(key)?.is_none() {
                    return Err(absent(forms, key));
                }
            }
            keys.iter().try_for_each(|key| writer.remove(key))?;
            let root = writer.commit()?.hash;
            context.out.made(format!("removed {what}"))?;
            fields! { "root": root.to_string(), "changed": true }
        }
    };
    all.insert("keys".to_owned(), described(forms, &keys));
    context.out.document(all)
}

/// Says that there is no such key.
pub(super) fn absent(forms: Forms, key: &[u8]) -> Failure {
    let shown = forms.show_key(key);
    Failure::negative(format!("there is no key \"{shown}\" in the map; `cone map list` shows those there are"))
}

/// Returns keys as a JSON list.
fn described(forms: Forms, keys: &[Vec<u8>]) -> serde_json::Value {
    let each = keys.iter().map(|key| {
        let mut all = Fields::new();
        forms.put_key(&mut all, "key", key);
        serde_json::Value::Object(all)
    });
    each.collect::<Vec<_>>().into()
}

/// Reads a value from standard input, up to its end.
fn standard_input() -> Result<Vec<u8>> {
    let mut input = stdin::open()?;
    let mut value = Vec::new();
    let read = (&mut input).take(VALUE_BYTES_MAX + 1).read_to_end(&mut value);
    read.map_err(|error| Failure::file("read", "standard input", &error))?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        return Err(Failure::too_large("standard input", None));
    }
    Ok(value)
}
