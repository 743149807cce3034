//! For which users files and folders are made: their modes, as Git's `core.sharedRepository` has them.

use std::{
    fs::{self, File, Metadata, Permissions},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
};

/// For which users files and folders are made.
///
/// Source: Git's documentation, git-config, "core.sharedRepository".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// For those that the process's mask of modes allows.
    #[default]
    Mask,
    /// The group may read and write too, whatever the mask says.
    Group,
    /// The group may read and write, and all users may read.
    Everybody,
    /// Files have this mode, whatever the mask says; folders may be entered by those who may read.
    Mode(u32),
}

impl Sharing {
    /// Gives a file the mode that it should have.
    pub(super) fn apply_to_file(self, file: &File) -> io::Result<()> {
        if self == Self::Mask {
            return Ok(());
        }
        apply(&file.metadata()?, |mode| self.of_file(mode), |mode| file.set_permissions(mode))
    }

    /// Gives a folder the mode that it should have.
    pub(super) fn apply_to_folder(self, dir: &Path) -> io::Result<()> {
        if self == Self::Mask {
            return Ok(());
        }
        apply(&fs::metadata(dir)?, |mode| self.of_folder(mode), |mode| fs::set_permissions(dir, mode))
    }

    /// Returns the mode of a file that was made with `mode`: a sealed one stays sealed.
    fn of_file(self, mode: u32) -> u32 {
        let (mut granted, replaced) = match self {
            Self::Mask => return mode,
            Self::Group => (0o660, 0),
            Self::Everybody => (0o664, 0),
            Self::Mode(wanted) => (wanted & 0o666, 0o777),
        };
        if mode & 0o200 == 0 {
            granted &= !0o222;
        }
        if mode & 0o100 != 0 {
            granted |= entering(granted);
        }
        mode & !replaced | granted
    }

    /// Returns the mode of a folder that was made with `mode`. What is made in it belongs to its group where the group
    /// has any leave.
    fn of_folder(self, mode: u32) -> u32 {
        if self == Self::Mask {
            return mode;
        }
        let mode = self.of_file(mode);
        let mode = mode | entering(mode);
        if mode & 0o060 == 0 { mode } else { mode | 0o2000 }
    }
}

/// Returns the bits to enter for all that have the bits to read.
const fn entering(mode: u32) -> u32 {
    (mode & 0o444) >> 2
}

/// Changes a mode if need be. Only the owner can: files of other users stay as they are.
fn apply(found: &Metadata, wanted: impl Fn(u32) -> u32, set: impl Fn(Permissions) -> io::Result<()>) -> io::Result<()> {
    let mode = found.permissions().mode() & 0o7777;
    let wanted = wanted(mode);
    if mode == wanted {
        return Ok(());
    }
    match set(Permissions::from_mode(wanted)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        done => done,
    }
}

#[cfg(test)]
mod tests {
    use super::Sharing::{Everybody, Group, Mask, Mode};

    #[test]
    fn modes_are_widened_or_replaced() {
        for (sharing, file, sealed, folder) in [
            (Mask, 0o600, 0o400, 0o700),
            (Group, 0o660, 0o440, 0o2770),
            (Everybody, 0o664, 0o444, 0o2775),
            (Mode(0o640), 0o640, 0o440, 0o2750),
            (Mode(0o600), 0o600, 0o400, 0o700),
        ] {
            assert_eq!(
                (sharing.of_file(0o600), sharing.of_file(0o400), sharing.of_folder(0o700)),
                (file, sealed, folder)
            );
        }
        assert_eq!((Mode(0o640).of_file(0o644), Mode(0o640).of_folder(0o755)), (0o640, 0o2750));
    }
}
