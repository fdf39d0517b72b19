//! Rates of `linux-htb` and `linux-hfsc` in bytes per second. Source: ovs-vswitchd.conf.db(5), tables QoS and Queue.

use config::qos::unsigned;
use netdev::device::Facts;
use std::collections::BTreeMap;

/// The key-value pairs of a row's `other_config`.
pub(super) type Map = BTreeMap<String, String>;

/// Assumed speed, in bit/s, of a kernel device that reports no speed.
const KERNEL_SPEED_DEFAULT: u64 = 10_000_000_000;
/// Assumed speed, in bit/s, of a port that has no kernel device and reports no speed: higher than the speed of any guest or
/// driver, so that it does not limit the queues.
const DATAPATH_SPEED_DEFAULT: u64 = 400_000_000_000;
/// The smallest burst is the MTU plus this number of bytes for headers.
const HEADERS: u64 = 64;

/// Facts about a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Device {
    /// The rate of all queues together, in bytes per second, if none is configured.
    pub(super) speed: u64,
    /// MTU in bytes.
    pub(super) mtu: u32,
}

impl Device {
    /// A device whose QoS the kernel applies.
    pub(super) fn in_kernel(facts: Option<&Facts>) -> Device {
        Device::new(facts, KERNEL_SPEED_DEFAULT)
    }

    /// A device whose QoS the datapath applies.
    pub(super) fn in_datapath(facts: Option<&Facts>) -> Device {
        Device::new(facts, DATAPATH_SPEED_DEFAULT)
    }

    /// `default_bits`: the speed of a device that reports no speed, in bit/s.
    fn new(facts: Option<&Facts>, default_bits: u64) -> Device {
        let mbps = facts.and_then(|f| f.modes.speed_mbps).filter(|mbps| *mbps != 0);
        let bits = match mbps {
            Some(mbps) => u64::from(mbps) * 1_000_000,
            None => default_bits,
        };
        Device { speed: bits / 8, mtu: facts.map_or(1500, |f| f.mtu) }
    }
}

/// The rate of a port in bytes per second: `max-rate`, else the device's speed.
pub(super) fn port_rate(settings: &Map, device: Device) -> u64 {
    match unsigned(settings, "max-rate") / 8 {
        0 => device.speed,
        rate => rate,
    }
}

/// Settings of a queue of `linux-htb`: rates in bytes per second, burst in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Htb {
    pub(super) min: u64,
    pub(super) max: u64,
    pub(super) burst: u64,
    pub(super) priority: u32,
}

impl Htb {
    /// Reads the settings of a queue. Rates are at least one MTU per second, and at most `port`, the rate of the port.
    pub(super) fn read(settings: &Map, port: u64, device: Device) -> Htb {
        let mtu = u64::from(device.mtu);
        let min = (unsigned(settings, "min-rate") / 8).max(mtu).min(port);
        let max = match unsigned(settings, "max-rate") {
            0 => port,
            bits => bits / 8,
        };
        Htb {
            min,
            max: max.max(min).min(port),
            burst: (unsigned(settings, "burst") / 8).max(mtu + HEADERS),
            priority: unsigned(settings, "priority").try_into().unwrap_or(u32::MAX),
        }
    }

    /// The text for `qos/show`.
    pub(super) fn details(&self) -> openflow_service::Details {
        let mut details = vec![("min-rate", bits(self.min))];
        if self.min != self.max {
            details.push(("max-rate", bits(self.max)));
        }
        details.push(("burst", bits(self.burst)));
        if self.priority != 0 {
            details.push(("priority", self.priority.to_string()));
        }
        details
    }
}

/// Minimum and maximum rate of a queue of `linux-hfsc`.
pub(super) fn hfsc(settings: &Map, port: u64) -> (u64, u64) {
    let min = (unsigned(settings, "min-rate") / 8).max(1).min(port);
    let max = if settings.contains_key("max-rate") { unsigned(settings, "max-rate") / 8 } else { port };
    (min, max.max(min).min(port))
}

/// Formats a rate, given in bytes per second, in bit/s.
pub(super) fn bits(bytes: u64) -> String {
    (u128::from(bytes) * 8).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn rates_are_held_between_an_mtu_and_the_port() {
        let device = Device { speed: 1000, mtu: 1500 };
        assert_eq!(port_rate(&map(&[]), device), 1000);
        assert_eq!(port_rate(&map(&[("max-rate", "80000000")]), device), 10_000_000);
        let read = |pairs: &[(&str, &str)]| Htb::read(&map(pairs), 10_000_000, device);
        assert_eq!(read(&[]), Htb { min: 1500, max: 10_000_000, burst: 1564, priority: 0 });
        let all = [("min-rate", "800000"), ("max-rate", "400000"), ("burst", "80000"), ("priority", "3")];
        assert_eq!(read(&all), Htb { min: 100_000, max: 100_000, burst: 10_000, priority: 3 });
        let text: Vec<String> = read(&all).details().into_iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(text.join(" "), "min-rate=800000 burst=80000 priority=3");
        assert_eq!(read(&[("min-rate", "1600000000")]).min, 10_000_000);
        assert_eq!(hfsc(&map(&[]), 5000), (1, 5000));
        assert_eq!(hfsc(&map(&[("min-rate", "8000"), ("max-rate", "80")]), 5000), (1000, 1000));
    }
}
