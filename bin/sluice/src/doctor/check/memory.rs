//! Checks of huge pages, locked memory and swap.

use crate::doctor::facts::{Facts, HugePages, Memory};
use crate::doctor::finding::{Finding, Level};
use std::collections::BTreeSet;

/// Huge page memory in bytes below which DPDK has memory for one or two ports only.
const HUGE_MEMORY_MIN: u64 = 512 << 20;
/// Limit of locked memory in bytes below which AF_XDP rings and device memory do not fit.
const MEMLOCK_MIN: u64 = 64 << 20;

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let memory = &facts.memory;
    let dpdk = facts.wants_dpdk() || facts.interfaces.iter().any(|i| i.is_dpdk());
    if dpdk && !without_huge(facts) {
        huge(facts, found);
    }
    if facts.polls() {
        locked(facts, memory, found);
        swap_and_transparent(memory, found);
    }
}

/// Whether the user configured DPDK without huge pages.
fn without_huge(facts: &Facts) -> bool {
    let extra = settings::root::DPDK_EXTRA.word(&facts.other_config);
    extra.split_whitespace().any(|word| word == "--no-huge")
}

const fn bytes(pages: &HugePages, count: u64) -> u64 {
    pages.kilobytes.saturating_mul(1024).saturating_mul(count)
}

fn huge(facts: &Facts, found: &mut Vec<Finding>) {
    let memory = &facts.memory;
    let total: u64 = memory.huge.iter().map(|h| bytes(h, h.total)).sum();
    let free: u64 = memory.huge.iter().map(|h| bytes(h, h.free)).sum();
    let megabytes = |bytes: u64| bytes >> 20;
    if total == 0 {
        let text = "there are no huge pages: DPDK falls back to ordinary memory, which is slower and which guests \
                    cannot share";
        return found.push(Finding::new(Level::Warning, "hugepages", text, "sysctl -w vm.nr_hugepages=1024"));
    }
    // If the switch runs, it has already allocated its memory or has logged that the allocation failed.
    if free < HUGE_MEMORY_MIN && !facts.is_running() {
        let size = memory.huge.iter().map(|h| h.kilobytes).min().unwrap_or(2048);
        let now: u64 = memory.huge.iter().filter(|h| h.kilobytes == size).map(|h| h.total).sum();
        let more = (HUGE_MEMORY_MIN - free).div_ceil(size.max(1) * 1024);
        let file = format!("/sys/kernel/mm/hugepages/hugepages-{size}kB/nr_hugepages");
        found.push(Finding::new(
            Level::Warning,
            "hugepages",
            format!("only {} MB of huge pages are free of {} MB", megabytes(free), megabytes(total)),
            format!("echo {} > {file}", now + more),
        ));
    }
    nodes(facts, found);
    if memory.mounts.is_empty() && facts.interfaces.iter().any(|i| i.kind.starts_with("dpdkvhostuser")) {
        found.push(Finding::new(
            Level::Advice,
            "hugepage-mount",
            "no hugetlbfs is mounted: the switch does not need one, but guests that share their memory do",
            "mkdir -p /dev/hugepages && mount -t hugetlbfs none /dev/hugepages",
        ));
    }
}

/// Reports NUMA nodes that have DPDK devices but no huge pages, because buffers should be on the node of the device.
fn nodes(facts: &Facts, found: &mut Vec<Finding>) {
    let devices: BTreeSet<u32> =
        facts.interfaces.iter().filter(|i| i.is_dpdk()).filter_map(|i| i.numa).collect();
    for node in devices {
        let here = facts.memory.huge.iter().filter(|h| h.numa == node);
        if here.map(|h| h.total).sum::<u64>() == 0 {
            found.push(Finding::new(
                Level::Warning,
                "hugepages-node",
                format!("NUMA node {node} has DPDK devices but no huge pages"),
                format!(
                    "echo 512 > /sys/devices/system/node/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
                ),
            ));
        }
    }
}

fn locked(facts: &Facts, memory: &Memory, found: &mut Vec<Finding>) {
    let needed = facts.interfaces.iter().any(|i| i.kind.starts_with("afxdp") || i.pci.is_some());
    let Some(limit) = memory.memlock.filter(|limit| needed && *limit < MEMLOCK_MIN) else { return };
    let fix = match facts.pid() {
        Some(pid) => format!("prlimit --pid {pid} --memlock=unlimited"),
        None => "ulimit -l unlimited".to_owned(),
    };
    let text = format!("at most {} kB of memory may be locked, but devices need more", limit >> 10);
    found.push(Finding::new(Level::Warning, "memlock", text, fix));
}

fn swap_and_transparent(memory: &Memory, found: &mut Vec<Finding>) {
    if memory.swap_used > 0 {
        found.push(Finding::new(
            Level::Advice,
            "swap",
            format!(
                "{} MB are swapped out: a PMD thread that waits for swapped memory loses packets",
                memory.swap_used >> 10
            ),
            "swapoff -a",
        ));
    }
    if memory.transparent.as_deref() == Some("always") {
        found.push(Finding::new(
            Level::Advice,
            "transparent-hugepages",
            "transparent huge pages are enabled for all programs: merging pages stops threads for a moment",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ));
    }
}
