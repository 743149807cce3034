//! Where tests keep files whose answers do not depend on a disk.

use std::path::{Path, PathBuf};

/// So much must be free in memory.
const FREE_MIN: u64 = 4 << 30;

/// Returns a folder in which tests make folders of their own: one in memory where the system has it and 4 GiB are free there, and
/// the usual one for temporary files otherwise. On a disk they wait
/// for syncs. `BRISTLECONE_ON_DISK` makes it the usual one.
#[must_use]
pub fn scratch_parent() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let wanted = std::env::var_os("BRISTLECONE_ON_DISK").is_none();
    if wanted && free_bytes(memory) >= FREE_MIN { memory.to_owned() } else { std::env::temp_dir() }
}

/// Returns how many bytes a caller may write to a file system; 0 if that is not told.
fn free_bytes(dir: &Path) -> u64 {
    rustix::fs::statvfs(dir).map_or(0, |is| is.f_bavail.saturating_mul(is.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_there_whatever_the_system_has() {
        assert!(scratch_parent().is_dir());
        assert_eq!(free_bytes(Path::new("/nowhere")), 0);
        assert!(free_bytes(&std::env::temp_dir()) > 0);
    }
}
