//! Settings of memory pools and vhost-user sockets from `Open_vSwitch.other_config`, read once when DPDK starts.
//!
//! Names and meaning are those of Open vSwitch (ovs-vswitchd.conf.db(5)).

use crate::log::{Level, Note};
use settings::root::{
    PER_PORT_MEMORY, SHARED_MEMPOOL_CONFIG, USERSPACE_TSO_ENABLE, VHOST_BACKEND, VHOST_IOMMU_SUPPORT,
    VHOST_POSTCOPY_SUPPORT, VHOST_SOCK_DIR,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Maximum length of a file name in Linux (`NAME_MAX`).
const NAME_MAX: usize = 255;
/// Limit of the number of pools that are read from the database, higher than any machine needs, so that memory is bounded.
const POOLS_MAX: usize = 1024;

/// The configuration of a pool that ports with this MTU or a smaller one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedPool {
    /// The MTU in bytes as configured, before rounding to a buffer size.
    pub mtu: u32,
    /// The NUMA node; `None` for all.
    pub numa: Option<u32>,
}

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Directory of the sockets of `dpdkvhostuser` ports (`vhost-sock-dir`, below the run directory).
    pub vhost_sock_dir: PathBuf,
    /// `vhost-iommu-support`
    pub vhost_iommu: bool,
    /// `vhost-postcopy-support`
    pub vhost_postcopy: bool,
    /// Whether DPDK's library serves the guests (`vhost-backend`).
    pub vhost_library: bool,
    /// `per-port-memory`
    pub per_port_memory: bool,
    /// Inverse of `userspace-tso-enable`: devices do not segment TCP and UDP, because without this offload their drivers may send
    /// small packets faster.
    pub segment_in_software: bool,
    /// `shared-mempool-config`, in the order of the setting.
    pub shared_pools: Vec<SharedPool>,
}

/// Settings of the ports of guests that the switch serves itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestSettings {
    /// Directory of the sockets of `dpdkvhostuser` ports.
    pub sock_dir: PathBuf,
    /// Whether guests of `dpdkvhostuserclient` ports are offered an IOMMU.
    pub iommu: bool,
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings that DPDK was started with; the defaults if it was not started.
pub fn settings() -> &'static Settings {
    static DEFAULT: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get().unwrap_or_else(|| DEFAULT.get_or_init(Settings::default))
}

/// Sets the settings. Further calls do nothing.
pub(crate) fn set_settings(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

impl Settings {
    /// The settings that also apply to guests that the switch serves itself.
    pub fn guests(&self) -> GuestSettings {
        GuestSettings { sock_dir: self.vhost_sock_dir.clone(), iommu: self.vhost_iommu }
    }

    /// Reads `other_config`. An invalid setting keeps its default and is reported in the notes.
    pub fn read(config: &BTreeMap<String, String>, rundir: &Path) -> (Settings, Vec<Note>) {
        let mut notes = Vec::new();
        let mut note = |level, text| notes.push(Note { level, text });
        let word = |on| if on { "enabled" } else { "disabled" };

        let per_port_memory = PER_PORT_MEMORY.flag_of(config);
        note(Level::Info, format!("Per port memory for DPDK devices {}.", word(per_port_memory)));
        let (vhost_sock_dir, messages) = sock_dir(VHOST_SOCK_DIR.get(config), rundir);
        messages.into_iter().for_each(|(level, text)| note(level, text));
        let vhost_iommu = VHOST_IOMMU_SUPPORT.flag_of(config);
        note(Level::Info, format!("IOMMU support for vhost-user-client {}.", word(vhost_iommu)));
        let vhost_postcopy = VHOST_POSTCOPY_SUPPORT.flag_of(config);
        note(Level::Info, format!("POSTCOPY support for vhost-user-client {}.", word(vhost_postcopy)));
        // Only the library supports post-copy, so this setting selects the library, unless `vhost-backend` is set.
        let vhost_library = match VHOST_BACKEND.get(config) {
            None => vhost_postcopy,
            Some(_) => VHOST_BACKEND.word(config) == "dpdk",
        };
        if vhost_library {
            note(Level::Info, "Guests are served by DPDK's vhost library.".to_owned());
        } else {
            without_library(config).into_iter().for_each(|text| note(Level::Warning, text));
        }
        let text = SHARED_MEMPOOL_CONFIG.word(config);
        let shared_pools = match shared_pools(text) {
            Ok(pools) => pools,
            Err(what) => {
                note(Level::Warning, format!("Invalid user configured shared mempool {what}."));
                note(Level::Warning, "User configured shared mempools will not be used.".to_owned());
                Vec::new()
            }
        };
        for pool in &shared_pools {
            let numa = pool.numa.map_or("ALL".to_owned(), |n| n.to_string());
            let text = format!("User configured shared mempool set for: MTU {}, NUMA {numa}.", pool.mtu);
            note(Level::Info, text);
        }
        let segment_in_software = !USERSPACE_TSO_ENABLE.flag_of(config);
        if segment_in_software {
            note(Level::Info, "TCP and UDP are not segmented by DPDK devices.".to_owned());
        }
        let settings = Settings {
            vhost_sock_dir,
            vhost_iommu,
            vhost_postcopy,
            vhost_library,
            per_port_memory,
            segment_in_software,
            shared_pools,
        };
        (settings, notes)
    }
}

/// The settings of guests while DPDK is not used, and messages for the log.
pub fn guests_without_dpdk(config: &BTreeMap<String, String>, rundir: &Path) -> (GuestSettings, Vec<String>) {
    let (sock_dir, messages) = sock_dir(VHOST_SOCK_DIR.get(config), rundir);
    let messages = messages.into_iter().filter(|(level, _)| *level <= Level::Warning).map(|(_, text)| text);
    let settings = GuestSettings { sock_dir, iommu: VHOST_IOMMU_SUPPORT.flag_of(config) };
    (settings, messages.chain(without_library(config)).collect())
}

/// The log message about a setting that has no effect without DPDK's library.
fn without_library(config: &BTreeMap<String, String>) -> Option<String> {
    let name = VHOST_POSTCOPY_SUPPORT.name();
    let is_set = VHOST_POSTCOPY_SUPPORT.flag_of(config);
    is_set.then(|| format!("{name} has no effect: DPDK's vhost library is not used."))
}

/// The directory that `vhost-sock-dir` selects, and messages for the log.
fn sock_dir(asked: Option<&str>, rundir: &Path) -> (PathBuf, Vec<(Level, String)>) {
    let Some(asked) = asked.filter(|a| a.len() <= NAME_MAX) else {
        let text = format!("No vhost-sock-dir provided - defaulting to {}", rundir.display());
        return (rundir.to_owned(), vec![(Level::Info, text)]);
    };
    let mut messages = vec![(Level::Info, format!("User-provided vhost-sock-dir in use: {asked}"))];
    if asked.contains("..") {
        let (below, instead) = (rundir.display(), rundir.display());
        messages.push((
            Level::Error,
            format!(
                "vhost-user sock directory request '{below}/{asked}' has invalid characters '..' - \
                 using {instead} instead."
            ),
        ));
        return (rundir.to_owned(), messages);
    }
    // The directory is below the run directory, even if the setting starts with a slash.
    let dir = rundir.join(asked.trim_start_matches('/'));
    if !dir.exists() {
        let text = format!("vhost-user sock directory '{}' does not exist.", dir.display());
        messages.push((Level::Error, text));
    }
    (dir, messages)
}

/// Parses `<mtu>[:<node>],…`. The error names the invalid part.
fn shared_pools(text: &str) -> Result<Vec<SharedPool>, &'static str> {
    let mut pools = Vec::new();
    for part in text.split(|c: char| c == ',' || c.is_whitespace()).filter(|p| !p.is_empty()) {
        let (mtu, numa) = match part.split_once([':', '=']) {
            Some((mtu, numa)) => (mtu, Some(numa.parse().map_err(|_| "NUMA")?)),
            None => (part, None),
        };
        let mtu = mtu.parse().ok().filter(|mtu| *mtu <= 65535).ok_or("MTU")?;
        if pools.len() == POOLS_MAX {
            return Err("list");
        }
        pools.push(SharedPool { mtu, numa });
    }
    Ok(pools)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<Note>) {
        let config = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Settings::read(&config, Path::new("/run/x"))
    }

    #[test]
    fn defaults_share_memory_and_use_the_run_directory() {
        let (s, notes) = read(&[]);
        assert_eq!(s, Settings { vhost_sock_dir: "/run/x".into(), ..Settings::default() });
        assert!(notes.iter().all(|n| n.level == Level::Info));
    }

    #[test]
    fn devices_segment_unless_told_otherwise() {
        let told = |value| read(&[("userspace-tso-enable", value)]).0.segment_in_software;
        assert_eq!([told("true"), told("nonsense"), told("false")], [false, false, true]);
    }

    #[test]
    fn the_library_serves_guests_that_need_it() {
        let library = |pairs: &[(&str, &str)]| read(pairs).0.vhost_library;
        let (iommu, postcopy) = (("vhost-iommu-support", "true"), ("vhost-postcopy-support", "true"));
        assert!(!library(&[]) && !library(&[iommu]) && library(&[postcopy]) && library(&[iommu, postcopy]));
        assert!(library(&[("vhost-backend", "dpdk")]) && !library(&[("vhost-backend", "own"), postcopy]));
        let (_, notes) = read(&[("vhost-backend", "own"), postcopy]);
        assert!(notes.iter().any(|n| n.level == Level::Warning && n.text.contains("no effect")));
        assert!(read(&[iommu]).1.iter().all(|n| n.level == Level::Info));
        let iommu_without_dpdk = |value: &str| {
            let config = BTreeMap::from([("vhost-iommu-support".to_owned(), value.to_owned())]);
            guests_without_dpdk(&config, Path::new("/run/x")).0.iommu
        };
        assert!(
            read(&[iommu]).0.guests().iommu && iommu_without_dpdk("true") && !iommu_without_dpdk("false")
        );
    }

    #[test]
    fn sockets_stay_below_the_run_directory() {
        assert_eq!(read(&[("vhost-sock-dir", "../up")]).0.vhost_sock_dir, Path::new("/run/x"));
        assert_eq!(read(&[("vhost-sock-dir", "/socks")]).0.vhost_sock_dir, Path::new("/run/x/socks"));
    }

    #[test]
    fn pools_by_mtu_and_node() {
        let (s, _) = read(&[("shared-mempool-config", "9000,1500:1, 6000:0"), ("per-port-memory", "true")]);
        assert!(s.per_port_memory);
        let pool = |mtu, numa| SharedPool { mtu, numa };
        assert_eq!(s.shared_pools, [pool(9000, None), pool(1500, Some(1)), pool(6000, Some(0))]);
        for bad in ["x", "-1", "1500:-1", "1500,99999999999", "1500:x"] {
            let (s, notes) = read(&[("shared-mempool-config", bad)]);
            assert!(s.shared_pools.is_empty(), "{bad}");
            assert_eq!(notes.iter().filter(|n| n.level == Level::Warning).count(), 2);
        }
    }
}
