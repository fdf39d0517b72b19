//! Devices of ports: PCI, drivers, directories of sockets.

use super::host::read_trimmed;
use crate::doctor::facts::{Drivers, Interface, Pci};
use runtime::Dirs;
use settings::options::{DPDK_DEVARGS, VHOST_SERVER_PATH};
use settings::root::VHOST_SOCK_DIR;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The state of kernel modules and device files that drivers in user space need.
pub fn drivers() -> Drivers {
    let noiommu = read_trimmed("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    let groups = std::fs::read_dir("/sys/kernel/iommu_groups");
    Drivers {
        vfio_pci: Path::new("/sys/bus/pci/drivers/vfio-pci").exists(),
        iommu: groups.is_ok_and(|mut groups| groups.next().is_some()),
        unsafe_noiommu: noiommu.is_some_and(|v| v == "Y" || v == "1"),
        tun: Path::new("/dev/net/tun").exists(),
    }
}

/// The name of the driver that is bound to a device: the target of the sysfs link `driver`.
fn driver(device: &Path) -> Option<String> {
    let driver = std::fs::read_link(device.join("driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

/// The PCI address at the beginning of the device arguments, with its domain.
fn pci_address(devargs: &str) -> Option<String> {
    let first = devargs.split(',').next()?;
    let full = if first.matches(':').count() == 1 { format!("0000:{first}") } else { first.to_owned() };
    let (bus, function) = full.split_once('.')?;
    let hex = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = bus.split(':').collect();
    let ok = matches!(parts[..], [domain, bus, device] if hex(domain, 4) && hex(bus, 2) && hex(device, 2));
    (ok && hex(function, 1)).then_some(full)
}

/// Sets the host's information about a port's device.
pub fn fill_facts(
    interface: &mut Interface,
    options: &BTreeMap<String, String>,
    config: &BTreeMap<String, String>,
    dirs: &Dirs,
) {
    let numa = |device: &Path| read_trimmed(device.join("numa_node"))?.parse().ok();
    match interface.kind.as_str() {
        "dpdk" => {
            let Some(address) = DPDK_DEVARGS.get(options).and_then(pci_address) else { return };
            let device = PathBuf::from("/sys/bus/pci/devices").join(&address);
            interface.numa = numa(&device);
            interface.pci = Some(Pci { address, exists: device.exists(), driver: driver(&device) });
        }
        "dpdkvhostuserclient" => {
            let path = VHOST_SERVER_PATH.get(options).filter(|p| !p.is_empty());
            interface.missing_folder = path.and_then(|p| missing(Path::new(p).parent()?));
        }
        "dpdkvhostuser" => {
            let below = VHOST_SOCK_DIR.get(config).unwrap_or_default().trim_start_matches('/');
            interface.missing_folder = missing(&dirs.run.join(below));
        }
        "afxdp" | "afxdp-nonpmd" => {
            let device = Path::new("/sys/class/net").join(&interface.name);
            interface.numa = numa(&device.join("device"));
            (interface.driver, interface.tx_checksum_offload) = ethtool(&interface.name);
        }
        "" | "system" => interface.answers_arp = answers_arp(&interface.name),
        _ => {}
    }
}

/// Returns whether the kernel answers ARP requests on this device for any address of the host.
fn answers_arp(name: &str) -> bool {
    const UP: u32 = 1;
    const NOARP: u32 = 0x80;
    let flags = read_trimmed(Path::new("/sys/class/net").join(name).join("flags"));
    let flags = flags.and_then(|f| u32::from_str_radix(f.strip_prefix("0x")?, 16).ok());
    let ignores = |of: &str| {
        let value = read_trimmed(Path::new("/proc/sys/net/ipv4/conf").join(of).join("arp_ignore"));
        value.is_none_or(|v| v != "0")
    };
    flags.is_some_and(|f| f & (UP | NOARP) == UP) && !ignores(name) && !ignores("all")
}

fn missing(folder: &Path) -> Option<String> {
    (!folder.as_os_str().is_empty() && !folder.exists()).then(|| folder.display().to_string())
}

/// Returns the driver, and whether checksum offload is enabled; `None` if `ethtool` does not report it.
fn ethtool(name: &str) -> (Option<String>, Option<bool>) {
    if name.starts_with('-') {
        return (None, None);
    }
    let ask = |option: &str| {
        let out = Command::new("ethtool").args([option, name]).output().ok()?;
        out.status.success().then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let value = |text: &str, key: &str| {
        text.lines().find_map(|l| Some(l.trim().strip_prefix(key)?.trim().to_owned()))
    };
    let driver = ask("-i").and_then(|text| value(&text, "driver:"));
    let checksums = ask("-k").and_then(|text| value(&text, "tx-checksumming:"));
    (driver, checksums.map(|v| v.starts_with("on")))
}

#[cfg(test)]
mod tests {
    use super::pci_address;

    #[test]
    fn addresses() {
        assert_eq!(pci_address("01:00.0,x=1").as_deref(), Some("0000:01:00.0"));
        assert_eq!(pci_address("0001:0a:1f.7").as_deref(), Some("0001:0a:1f.7"));
        for other in ["net_null0", "", "class=eth,mac=00:11:22:33:44:55", "../../x:00.0"] {
            assert_eq!(pci_address(other), None, "{other}");
        }
    }
}
