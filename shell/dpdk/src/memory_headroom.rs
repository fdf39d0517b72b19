//! Memory headroom: how much memory DPDK's environment has left, asked before a pool is created.
//!
//! DPDK allocates a pool piece by piece, and frees the pieces if they do not suffice. Meanwhile the heap is empty, and a guest that
//! connects just then is rejected. So a large pool is only tried if the headroom suffices.
//!
//! The environment has the memory that it took at its start. With `--no-huge` or `--legacy-mem` it stays with that; otherwise it
//! takes free huge pages of the kernel, up to `--socket-limit`.

use crate::args;
use dpdk_sys as sys;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use units::NumaId;

/// Bytes that a pool leaves to other users: the rings of the largest guest (128 pairs of queues of 1,024 descriptors) take 16 MiB.
pub(crate) const RESERVE: u64 = 32 << 20;

/// How far the environment may grow, in bytes by node; a node that is not listed has no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    None,
    UpTo(Vec<u64>),
}

static GROWTH: OnceLock<Growth> = OnceLock::new();

/// Records the arguments that the environment was started with.
pub(crate) fn note(words: &[String]) {
    let _ = GROWTH.set(Growth::of(words));
}

impl Growth {
    fn of(words: &[String]) -> Growth {
        if words.iter().any(|w| w == "--no-huge" || w == "--legacy-mem") {
            return Growth::None;
        }
        let limits = args::values(words, "--socket-limit").last().unwrap_or_default();
        // Zero or text that is no number means no limit.
        let megabytes = limits.split(',').map(|n| n.trim().parse::<u64>().unwrap_or(0));
        Growth::UpTo(megabytes.map(|n| if n == 0 { u64::MAX } else { n.saturating_mul(1 << 20) }).collect())
    }

    /// The headroom of a heap of `total` bytes with `free` bytes free, while the kernel has `pages` bytes of free huge pages.
    fn left(&self, node: usize, total: u64, free: u64, pages: u64) -> u64 {
        let more = match self {
            Growth::None => 0,
            Growth::UpTo(limits) => {
                limits.get(node).copied().unwrap_or(u64::MAX).saturating_sub(total).min(pages)
            }
        };
        free.saturating_add(more)
    }
}

/// The headroom of a node's heap in bytes, not necessarily in one piece. An estimate: other processes take huge pages, too.
pub(crate) fn left(numa: NumaId) -> u64 {
    // SAFETY: all zeros are valid for this structure of numbers.
    let mut stats: sys::rte_malloc_socket_stats = unsafe { std::mem::zeroed() };
    // SAFETY: the facts are written to `stats`; for a node without a heap the call fails and leaves `stats` alone.
    unsafe { sys::rte_malloc_get_socket_stats(numa.0 as i32, &mut stats) };
    let growth = GROWTH.get().unwrap_or(&Growth::None);
    let pages = if *growth == Growth::None { 0 } else { free_pages(numa) };
    growth.left(numa.0 as usize, stats.heap_totalsz_bytes as u64, stats.heap_freesz_bytes as u64, pages)
}

/// Bytes of free huge pages of this node, with those that the kernel may allocate by overcommit.
fn free_pages(numa: NumaId) -> u64 {
    let of_node = format!("/sys/devices/system/node/node{}/hugepages", numa.0);
    let of_all = "/sys/kernel/mm/hugepages";
    let folder = if Path::new(&of_node).exists() { of_node.as_str() } else { of_all };
    let Ok(sizes) = fs::read_dir(folder) else { return 0 };
    let bytes = |size: fs::DirEntry| {
        let name = size.file_name();
        let kilobytes: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let beyond = number(of_all, &name, "nr_overcommit_hugepages").unwrap_or(0);
        let beyond = beyond.saturating_sub(number(of_all, &name, "surplus_hugepages").unwrap_or(0));
        let pages = number(folder, &name, "free_hugepages")?.saturating_add(beyond);
        Some(pages.saturating_mul(kilobytes << 10))
    };
    sizes.filter_map(Result::ok).filter_map(bytes).fold(0, u64::saturating_add)
}

fn number(folder: &str, size: &std::ffi::OsStr, file: &str) -> Option<u64> {
    fs::read_to_string(Path::new(folder).join(size).join(file)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(line: &str) -> Growth {
        Growth::of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_limit_how_far_it_grows() {
        for fixed in ["x --no-huge -m 1024", "x -m 512 --legacy-mem"] {
            assert_eq!(growth(fixed).left(0, 100, 60, 1000), 60, "{fixed}");
        }
        assert_eq!(growth("x --in-memory").left(0, 100, 60, 1000), 1060);
        let limited = growth("x --socket-limit 1,0 --in-memory");
        assert_eq!(limited.left(0, (1 << 20) - 400, 60, 1000), 460);
        assert_eq!(limited.left(0, 2 << 20, 60, 1000), 60);
        assert_eq!(limited.left(1, 2 << 20, 60, 1000), 1060);
        assert_eq!(limited.left(2, 2 << 20, 60, 1000), 1060);
        assert_eq!(growth("x --socket-limit=1").left(0, 2 << 20, 60, 1000), 60);
    }
}
