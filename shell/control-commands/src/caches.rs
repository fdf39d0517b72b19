//! `dpif/show-caches`: the flow cache of each worker, its memory pages, and the cost of megaflow look-ups.
//!
//! Sluice's own command. Whether the kernel provided huge pages is read from `/proc/self/smaps`.

use datapath::CacheView;
use ovsdb::Json;
use poll_threads::WorkerInfo;
use serde_json::json;
use switch::{Backer, Switch};
use units::CoreId;
use unixctl::{Format, Reply};

pub(crate) fn show(switch: &Switch, format: Format) -> Reply {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let all = switch.datapaths.all();
    match format {
        Format::Text => Reply::Text(all.map(|backer| datapath(backer, &smaps)).collect()),
        Format::Json => Reply::Json(all.map(|backer| (backer.name(), object(backer, &smaps))).collect()),
    }
}

fn worker_infos(backer: &Backer) -> Vec<WorkerInfo> {
    let mut infos = backer.workers.infos();
    infos.sort_by_key(|p| p.core);
    infos
}

fn object(backer: &Backer, smaps: &str) -> Json {
    let thread = |info: WorkerInfo| {
        let cache = backer.datapath.worker_cache(info.id);
        json!({
            "core": (info.core != CoreId::UNPINNED).then_some(info.core.0),
            "numa": info.numa,
            "entries": cache.entries,
            "bytes": cache.bytes,
            "huge-kilobytes": huge_kb(smaps, cache.address),
        })
    };
    let threads: Vec<Json> = worker_infos(backer).into_iter().map(thread).collect();
    let probes = backer.datapath.probes();
    json!({
        "flow-cache": backer.datapath.flow_cache().kind.name(),
        "megaflows": probes.megaflows,
        "subtables": backer.datapath.subtables().1,
        "slots-mean": probes.mean(),
        "slots-most": probes.longest,
        "threads": threads,
    })
}

fn datapath(backer: &Backer, smaps: &str) -> String {
    let choice = backer.datapath.flow_cache();
    let mut text = format!("{}: {}\n", backer.name(), choice.kind.name());
    let probes = backer.datapath.probes();
    text += &format!(
        "  megaflows: {} in {} subtables, found after {:.2} slots on average and {} at most\n",
        probes.megaflows,
        backer.datapath.subtables().1,
        probes.mean(),
        probes.longest
    );
    for info in worker_infos(backer) {
        let who = match info.core {
            CoreId::UNPINNED => "main thread".to_owned(),
            CoreId(core) => format!("pmd thread numa_id {} core_id {core}", info.numa),
        };
        text += &format!("  {who}: {}\n", line(&backer.datapath.worker_cache(info.id), smaps));
    }
    text
}

fn line(cache: &CacheView, smaps: &str) -> String {
    let huge = match huge_kb(smaps, cache.address) {
        0 => "ordinary pages".to_owned(),
        kb => format!("{kb} kB of huge pages"),
    };
    format!("{} entries, {} kB, {huge}", cache.entries, cache.bytes / 1024)
}

/// Kilobytes of transparent huge pages in the memory mapping that contains the address.
fn huge_kb(smaps: &str, address: u64) -> u64 {
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((from, to)) = range(line) {
            inside = (from..to).contains(&address);
        } else if inside && let Some(rest) = line.strip_prefix("AnonHugePages:") {
            return rest.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0);
        }
    }
    0
}

/// Parses the address range in a line such as `7f0000000000-7f0000400000 rw-p ...`.
fn range(line: &str) -> Option<(u64, u64)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \nSize: 4096 kB\nAnonHugePages:      2048 kB\n\
                         7f0000400000-7f0000500000 rw-p 00000000 00:00 0 \nSize: 1024 kB\nAnonHugePages:         0 kB\n";

    #[test]
    fn huge_pages_of_the_mapping_are_shown() {
        let cache = CacheView { entries: 1 << 20, bytes: 4 << 20, address: 0x7f00_0020_0000, table: 4 << 20 };
        assert_eq!(line(&cache, SMAPS), "1048576 entries, 4096 kB, 2048 kB of huge pages");
        let in_ordinary_pages = CacheView { address: 0x7f00_0040_0000, ..cache };
        assert_eq!(line(&in_ordinary_pages, SMAPS), "1048576 entries, 4096 kB, ordinary pages");
        assert_eq!((huge_kb(SMAPS, 7), huge_kb("", 7)), (0, 0));
    }
}
