//! Changes of files on a simulated disk, as an input says them.

use bristlecone::storage::{OpenMode, Storage, write_all_at};
use bristlecone_testkit::sim::SimStorage;

use crate::input::Input;

/// No file grows beyond this.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Writes a file, with its folders.
pub(crate) fn write(disk: &SimStorage, name: &str, bytes: &[u8]) {
    if let Some((dir, _)) = name.rsplit_once('/') {
        // Where a file is in the place of a folder, what was to be below it is nowhere.
        let _ = disk.create_dir(dir);
    }
    if let Ok(file) = disk.open(name, OpenMode::Create) {
        file.set_len(0).and_then(|()| write_all_at(&*file, bytes, 0)).expect("a simulated disk takes what is written");
    }
}

/// Makes up to 64 changes of files, as many as the first byte says. Each is a byte that says which change, a byte that says of which
/// file, and what the change needs. `names`: files that can be made besides those that are there.
pub(crate) fn apply(disk: &SimStorage, input: &mut Input<'_>, names: &[&str]) {
    apply_to(disk, input, names, &|_| true);
}

/// As [`apply`], of files whose names are such alone.
pub(crate) fn apply_to(disk: &SimStorage, input: &mut Input<'_>, names: &[&str], is_such: &dyn Fn(&str) -> bool) {
    for _ in 0..input.byte() % 65 {
        let (change, which) = (input.byte(), usize::from(input.byte()));
        let mut files: Vec<String> =
            disk.files().into_iter().map(|(name, _)| name).filter(|name| is_such(name)).collect();
        if change % 8 >= 6 {
            files.extend(names.iter().map(ToString::to_string));
        }
        let Some(name) = files.get(which % files.len().max(1)) else { continue };
        let mut bytes = disk.contents(name).unwrap_or_default();
        let at = input.below(bytes.len() + 1);
        match change % 8 {
            0 => overwrite(&mut bytes, at, input.short_run()),
            1 => bytes.truncate(at),
            2 => bytes.extend_from_slice(input.short_run()),
            3 => flip(&mut bytes, at, input.byte()),
            // Numbers are where lengths and offsets are.
            4 => overwrite(&mut bytes, at & !3, &(input.word() as u32).to_le_bytes()),
            5 => {
                let from = input.below(bytes.len() + 1);
                let part = bytes[from..].iter().copied().take(input.word()).collect::<Vec<u8>>();
                overwrite(&mut bytes, at, &part);
            }
            6 => bytes = input.run().to_vec(),
            _ => {
                let _ = disk.remove(name);
                continue;
            }
        }
        bytes.truncate(FILE_BYTES_MAX);
        write(disk, name, &bytes);
    }
}

fn overwrite(bytes: &mut Vec<u8>, at: usize, with: &[u8]) {
    let end = (at + with.len()).max(bytes.len());
    bytes.resize(end, 0);
    bytes[at..at + with.len()].copy_from_slice(with);
}

fn flip(bytes: &mut [u8], at: usize, mask: u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= mask;
    }
}
