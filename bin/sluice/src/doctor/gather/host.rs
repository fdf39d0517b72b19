//! Reads the facts about processors and memory from `/proc` and `/sys`, and finds the tool that edits the boot loader's
//! configuration.

use crate::doctor::facts::{BootTool, Cores, HugePages, Memory};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// The content of a small file, trimmed.
pub fn read_trimmed(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The names of the entries of a directory.
fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.file_name().into_string().ok()).collect()
}

/// The numbers of the directory entries `<prefix><number>`.
fn numbered(folder: impl AsRef<Path>, prefix: &str) -> Vec<u32> {
    names(folder).iter().filter_map(|n| n.strip_prefix(prefix)?.parse().ok()).collect()
}

/// Parses a list of CPUs: `0-2,5`.
fn list(text: &str) -> BTreeSet<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse::<u32>().ok()?.min(65_535))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The processors.
pub fn cores() -> Cores {
    let online = read_trimmed(format!("{CPUS}/online")).map(|text| list(&text)).unwrap_or_default();
    let mut cores = Cores { online: online.iter().map(|core| (*core, 0)).collect(), ..Cores::default() };
    for node in numbered(NODES, "node") {
        let of_node =
            read_trimmed(format!("{NODES}/node{node}/cpulist")).map(|text| list(&text)).unwrap_or_default();
        for core in of_node {
            cores.online.entry(core).and_modify(|numa| *numa = node);
        }
    }
    cores.isolated = read_trimmed(format!("{CPUS}/isolated")).map(|text| list(&text)).unwrap_or_default();
    let mut governors: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for core in online {
        if let Some(name) = read_trimmed(format!("{CPUS}/cpu{core}/cpufreq/scaling_governor")) {
            governors.entry(name).or_default().insert(core);
        }
    }
    cores.governors = governors;
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags =
        info.lines().find(|l| l.starts_with("flags")).map(|l| l.split_whitespace().collect::<Vec<_>>());
    cores.invariant_tsc = flags.map(|f| f.contains(&"constant_tsc") && f.contains(&"nonstop_tsc"));
    cores.clocksource = read_trimmed("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    cores
}

/// The huge pages of one NUMA node.
fn huge_of(folder: &Path, numa: u32) -> Vec<HugePages> {
    let pages = |name: &String| {
        let kilobytes = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let number = |file| read_trimmed(folder.join(name).join(file))?.parse().ok();
        Some(HugePages { kilobytes, numa, total: number("nr_hugepages")?, free: number("free_hugepages")? })
    };
    names(folder).iter().filter_map(pages).filter(|p| p.total > 0).collect()
}

fn huge() -> Vec<HugePages> {
    let nodes = numbered(NODES, "node");
    if nodes.is_empty() {
        return huge_of(Path::new("/sys/kernel/mm/hugepages"), 0);
    }
    let of_node = |n: u32| huge_of(Path::new(&format!("{NODES}/node{n}/hugepages")), n);
    nodes.into_iter().flat_map(of_node).collect()
}

/// Reads the memory facts. The limit of locked memory is that of the switch's process, or of this process if no switch runs.
pub fn memory(switch: Option<u32>) -> Memory {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mount = |l: &str| {
        let mut words = l.split(' ').skip(1);
        let place = words.next()?;
        (words.next()? == "hugetlbfs").then(|| place.to_owned())
    };
    let process = switch.map_or("self".to_owned(), |pid| pid.to_string());
    let kilobytes = |info: &str, name: &str| -> Option<u64> {
        let rest = info.lines().find_map(|l| l.strip_prefix(name))?;
        rest.trim().trim_end_matches("kB").trim().parse().ok()
    };
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let swap = kilobytes(&info, "SwapTotal:").zip(kilobytes(&info, "SwapFree:"));
    let transparent = read_trimmed("/sys/kernel/mm/transparent_hugepage/enabled");
    let chosen = |text: String| Some(text.split_once('[')?.1.split_once(']')?.0.to_owned());
    Memory {
        huge: huge(),
        mounts: mounts.lines().filter_map(mount).collect(),
        memlock: fs::read_to_string(format!("/proc/{process}/limits")).ok().and_then(|text| memlock(&text)),
        swap_used: swap.map_or(0, |(total, free)| total.saturating_sub(free)),
        transparent: transparent.and_then(chosen),
    }
}

/// The soft limit of `Max locked memory`, in bytes.
fn memlock(limits: &str) -> Option<u64> {
    let rest = limits.lines().find_map(|l| l.strip_prefix("Max locked memory"))?;
    match rest.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The tool that edits the boot loader's configuration on this host.
pub fn boot() -> BootTool {
    let has = |name: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|folder| Path::new(folder).join(name).exists())
    };
    match () {
        () if has("grubby") => BootTool::Grubby,
        () if has("update-grub") => BootTool::UpdateGrub,
        () => BootTool::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_limits() {
        assert_eq!(list("0-2,5"), BTreeSet::from([0, 1, 2, 5]));
        assert!(list("").is_empty() && list("x-,9-1").is_empty());
        let line = "Max locked memory         8388608              unlimited            bytes";
        assert_eq!(memlock(line), Some(8 << 20));
        assert_eq!(memlock("Max locked memory   unlimited  unlimited bytes"), Some(u64::MAX));
        assert_eq!(memlock(""), None);
    }

    #[test]
    fn this_host_has_cores() {
        assert!(!cores().online.is_empty());
    }
}
