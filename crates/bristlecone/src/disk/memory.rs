//! How much memory may show files unless a caller says so.

use std::{path::Path, sync::OnceLock};

/// What maps may always show: enough for the machines that have little.
pub(super) const MAP_BYTES_MIN: u64 = 192 << 20;
/// Of what the process may use, maps may show a share of this.
const MAP_SHARE: u64 = 4;
/// Where Linux shows control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Returns how many bytes of memory may show files by default.
///
/// Such pages are no memory that a program has to itself: the system takes them back first. But a page that is let go
/// of while it is in use is mapped and its records are checked again, so that a budget below what a store uses costs more than it
/// saves: with 192 MiB, a store of 130 MB that commits and collects at once did two thirds of its work.
pub(super) fn map_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let group = std::fs::read_to_string("/proc/self/cgroup").ok();
        let limit = group.and_then(|text| group_limit(Path::new(GROUPS), &text));
        share(machine_bytes().into_iter().chain(limit).min())
    })
}

/// Returns what maps may show of so many bytes; `None`: unknown.
fn share(bytes: Option<u64>) -> u64 {
    bytes.map_or(0, |bytes| bytes / MAP_SHARE).max(MAP_BYTES_MIN)
}

/// Returns the memory of this machine.
#[cfg(target_os = "linux")]
#[allow(clippy::useless_conversion, reason = "systems of 32 bits count in fewer")]
fn machine_bytes() -> Option<u64> {
    let info = rustix::system::sysinfo();
    u64::from(info.totalram).checked_mul(u64::from(info.mem_unit))
}

#[cfg(not(target_os = "linux"))]
const fn machine_bytes() -> Option<u64> {
    None
}

/// Returns the least limit of a control group and those above it; `text` is `/proc/self/cgroup`. `None` where there is none.
///
/// `0::/a/b` is a group of version 2, and `4:memory:/a/b` one of version 1. A container may see its own group as the root of all.
fn group_limit(root: &Path, text: &str) -> Option<u64> {
    let limits = text.lines().filter_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            some if some.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        let group = root.join(group.trim_start_matches('/'));
        let groups = group.ancestors().take_while(|group| group.starts_with(&root));
        groups.filter_map(|group| std::fs::read_to_string(group.join(file)).ok()?.trim().parse().ok()).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn maps_may_show_a_quarter_of_memory_and_never_less_than_was_always_allowed() {
        assert_eq!(share(Some(8 << 30)), 2 << 30);
        assert_eq!((share(Some(1 << 28)), share(Some(0)), share(None)), (MAP_BYTES_MIN, MAP_BYTES_MIN, MAP_BYTES_MIN));
        assert!(map_bytes() >= MAP_BYTES_MIN);
        if let Some(bytes) = machine_bytes() {
            assert!(map_bytes() <= share(Some(bytes)), "{} of {bytes}", map_bytes());
        }
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_above_counts() {
        let dir = tempfile::tempdir().unwrap();
        let limit = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(dir.path().join(group)).unwrap();
            fs::write(dir.path().join(group).join(file), text).unwrap();
        };
        let found = |text: &str| group_limit(dir.path(), text);
        limit("", "memory.max", "max\n");
        limit("a", "memory.max", "5000\n");
        limit("a/b", "memory.max", "7000\n");
        limit("a/c", "memory.max", "3000\n");
        assert_eq!(found("0::/a/b\n"), Some(5000));
        assert_eq!(found("0::/a/c\n"), Some(3000));
        assert_eq!(found("0::/elsewhere\n"), None);
        assert_eq!((found("0::/\n"), found(""), found("nonsense\n0:\n")), (None, None, None));
        // Of version 1, beside one of version 2 that has no limit.
        limit("memory/d", "memory.limit_in_bytes", "4000\n");
        assert_eq!(found("4:cpu,memory:/d\n3:pids:/a/c\n0::/\n"), Some(4000));
    }
}
