//! Whom `flock` keeps out: that depends on the file system.

use std::path::Path;

use crate::storage::Reach;

/// Returns the reach of locks on files in the folder `dir`.
pub(super) fn of(dir: &Path) -> Reach {
    let Ok(found) = rustix::fs::statfs(dir) else { return Reach::Unknown };
    of_file_system(dir, &found)
}

#[cfg(target_os = "linux")]
fn of_file_system(dir: &Path, found: &rustix::fs::StatFs) -> Reach {
    /// File systems that one machine alone has mounted, by the numbers that `statfs(2)` lists: bcachefs, btrfs, eCryptfs,
    /// exFAT, ext2 to ext4, F2FS, FAT, HFS+, JFS, NILFS, NTFS, overlayfs, ramfs, ReiserFS, tmpfs, UDF, XFS, ZFS.
    const LOCAL: [u64; 18] = [
        0xca45_1a4e,
        0x9123_683e,
        0xf15f,
        0x2011_bab0,
        0xef53,
        0xf2f5_2010,
        0x4d44,
        0x482b,
        0x3153_464a,
        0x3434,
        0x7366_746e,
        0x794c_7630,
        0x8584_58f6,
        0x5265_4973,
        0x0102_1994,
        0x1501_3346,
        0x5846_5342,
        0x2fc1_2fc1,
    ];
    const NFS: u64 = 0x6969;
    // The kernel's numbers have 32 bits; some systems extend their sign.
    match found.f_type as u64 & 0xffff_ffff {
        kind if LOCAL.contains(&kind) => Reach::Local,
        NFS => {
            let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            match rustix::fs::stat(dir) {
                Ok(stat)
                    if carries_locks(&mounts, (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev))) =>
                {
                    Reach::Shared
                }
                _ => Reach::Unknown,
            }
        }
        _ => Reach::Unknown,
    }
}

#[cfg(target_vendor = "apple")]
fn of_file_system(_: &Path, found: &rustix::fs::StatFs) -> Reach {
    if found.f_flags & libc::MNT_LOCAL as u32 == 0 { Reach::Unknown } else { Reach::Local }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn of_file_system(_: &Path, _: &rustix::fs::StatFs) -> Reach {
    Reach::Unknown
}

/// Whether `/proc/self/mountinfo` says that NFS brings the locks of this device to its server. The kernel names the locks
/// that stay on this machine: `local_lock=none`, `flock`, `posix` or `all`.
///
/// A line: `36 35 0:45 / /mnt rw - nfs4 server:/export rw,vers=4.2,local_lock=none`.
#[cfg(target_os = "linux")]
fn carries_locks(mounts: &str, (major, minor): (u32, u32)) -> bool {
    let device = format!("{major}:{minor}");
    let of_device = mounts.lines().filter(|line| line.split(' ').nth(2) == Some(&device));
    let mut options = of_device.filter_map(|line| line.rsplit(' ').next()).peekable();
    options.peek().is_some() && options.all(|options| options.split(',').any(|option| option == "local_lock=none"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_mount_says_whether_locks_come_to_the_server() {
        let line = |device: &str, lock: &str| {
            format!(
                "36 35 {device} / /mnt/a rw,relatime shared:1 - nfs4 host:/x rw,vers=4.2,local_lock={lock},addr=1.2.3.4\n"
            )
        };
        let mounts = [line("0:45", "none"), line("0:46", "flock"), line("0:47", "none"), line("0:47", "all")].concat();
        assert!(carries_locks(&mounts, (0, 45)));
        for minor in [46, 47, 48] {
            assert!(!carries_locks(&mounts, (0, minor)), "0:{minor}");
        }
    }

    #[test]
    fn a_file_system_without_files_of_a_disk_is_none_that_is_known() {
        assert_eq!(of(Path::new("/proc")), Reach::Unknown);
        assert_eq!(of(Path::new("/nowhere at all")), Reach::Unknown);
    }
}
