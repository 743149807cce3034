//! Where stores are made and removed again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    BenchError,
    error::Result,
    machine::{filesystem, is_memory},
};

/// The folder in which stores are made; removed at the end.
pub(crate) struct Scratch {
    pub(crate) dir: PathBuf,
}

impl Scratch {
    /// Makes it in `above`, or where [`default_dir`] says.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub(crate) fn new(above: Option<&Path>) -> Result<Self> {
        let above = above.map_or_else(default_dir, Path::to_owned);
        fs::create_dir_all(&above).map_err(BenchError::io(&above))?;
        if let Some(kind) = filesystem(&above).filter(|kind| is_memory(kind)) {
            say!(
                "warning: {} is a {kind}, which is memory: durable figures mean nothing here; use --dir",
                above.display()
            );
        }
        let dir = above.join(format!("bristlecone-bench-{}", std::process::id()));
        fs::create_dir(&dir).map_err(BenchError::io(&dir))?;
        spread(&dir);
        Ok(Self { dir })
    }
}

/// Has ext4 begin each folder in `dir` in a part of the disk of its own, as it does below the root (`chattr +T`). Without a
/// journal it looks, for minutes, at every file that was removed in a part before it makes another one there: each row
/// would be measured in what the rows before it removed. Other file systems have no such flag, and no such need.
fn spread(dir: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        let Ok(folder) = fs::File::open(dir) else { return };
        let _ = ioctl_getflags(&folder).and_then(|flags| ioctl_setflags(&folder, flags | IFlags::TOPDIR));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = dir;
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays behind under a name that says what it is.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the folder `target` here, where a build has made one, or else the system's temporary folder.
pub(crate) fn default_dir() -> PathBuf {
    let target = Path::new("target");
    if target.is_dir() { target.join("bench") } else { std::env::temp_dir() }
}
