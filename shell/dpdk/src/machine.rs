//! Facts about the machine that the environment's start depends on, read from Linux.

use crate::args::Machine;
use std::fs;

/// Limit of core numbers, higher than that of any kernel, so that memory is bounded.
const CORES_MAX: u32 = 1 << 16;

impl Machine {
    /// Reads the facts. `allowed`: the cores of the calling thread.
    pub fn read() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/thread-self/status");
        let allowed = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap_or_default();
        Machine {
            cores: cores(&read("/sys/devices/system/cpu/online")),
            allowed: cores(allowed),
            has_huge_pages: has_huge_pages(),
        }
    }
}

/// Parses a list such as `0-3,8`.
fn cores(list: &str) -> Vec<u32> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n < CORES_MAX);
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|n| n..=n),
    };
    list.split(',').filter_map(range).flatten().collect()
}

/// Whether any huge page, of any size, is free.
fn has_huge_pages() -> bool {
    let Ok(sizes) = fs::read_dir("/sys/kernel/mm/hugepages") else { return false };
    let free = |size: fs::DirEntry| {
        let text = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    sizes.filter_map(Result::ok).any(|size| free(size).is_some_and(|n| n > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(cores("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(cores("\t7"), [7]);
        assert!(cores("").is_empty() && cores("x-y").is_empty() && cores("0-99999999").is_empty());
    }
}
