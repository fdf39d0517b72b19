//! The `options` column of a `dpdk` port, read as Open vSwitch reads it: invalid values count as absent.

use dpdk::ethdev::{FlowControl, Info, Limits};
use settings::Setting;
use settings::options::{
    DPDK_LSC_INTERRUPT, DPDK_N_RXQ, FLOW_CTRL_AUTONEG, N_RXQ_DESC, N_TXQ_DESC, RX_FLOW_CTRL, TX_FLOW_CTRL,
};
use std::collections::BTreeMap;

/// Settings that can only be changed while the device is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub devargs: String,
    pub n_rxq: u16,
    pub n_txq: u16,
    pub n_rxq_desc: u16,
    pub n_txq_desc: u16,
    pub mtu: u16,
    pub link_interrupt: bool,
}

/// The valid options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub n_rxq: u16,
    pub n_rxq_desc: u16,
    pub n_txq_desc: u16,
    /// `None`: use the interrupt if the device supports it.
    pub link_interrupt: Option<bool>,
    /// `None`: not set.
    pub flow_control: Option<FlowControl>,
    /// Log messages about values that were adjusted.
    pub notes: Vec<String>,
}

impl Options {
    /// Reads the options of port `name`, within the limits of its device.
    pub fn read(name: &str, options: &BTreeMap<String, String>, info: &Info) -> Options {
        let mut notes = Vec::new();
        let mut descriptors = |setting: Setting, way: &str, limits: Limits| {
            let asked = setting.number(options);
            let given = length(asked, setting.number(&BTreeMap::new()), limits);
            if asked != i64::from(given) {
                notes.push(format!(
                    "{name}: Unable to set the number of {way} descriptors to {asked}. Adjusted to {given}."
                ));
            }
            given
        };
        let n_rxq_desc = descriptors(N_RXQ_DESC, "rx", info.rx_desc);
        let n_txq_desc = descriptors(N_TXQ_DESC, "tx", info.tx_desc);
        let [rx, tx, autoneg] =
            [RX_FLOW_CTRL, TX_FLOW_CTRL, FLOW_CTRL_AUTONEG].map(|setting| setting.opt_flag(options));
        let flow_control = FlowControl {
            rx: rx.unwrap_or(false),
            tx: tx.unwrap_or(false),
            autoneg: autoneg.unwrap_or(false),
        };
        Options {
            n_rxq: DPDK_N_RXQ.number(options) as u16,
            n_rxq_desc,
            n_txq_desc,
            link_interrupt: DPDK_LSC_INTERRUPT.opt_flag(options),
            flow_control: (rx.or(tx).or(autoneg).is_some()).then_some(flow_control),
            notes,
        }
    }
}

/// The number of descriptors of a queue: a power of two, within the device's limits.
fn length(asked: i64, default: i64, limits: Limits) -> u16 {
    let is_power = asked > 0 && asked.count_ones() == 1;
    let length = if is_power { asked.min(1 << 31) } else { default };
    let align = i64::from(limits.align.max(1));
    let aligned = (length + align - 1) / align * align;
    aligned.min(i64::from(limits.max)).max(i64::from(limits.min)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)], max: u16) -> Options {
        let options = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let limits = Limits { max, min: 64, align: 1 };
        Options::read("p", &options, &Info { rx_desc: limits, tx_desc: limits, ..Info::default() })
    }

    #[test]
    fn lengths_are_powers_of_two_within_bounds() {
        assert_eq!(read(&[("n_rxq_desc", "32768")], u16::MAX).n_rxq_desc, 32768);
        assert_eq!(read(&[("n_rxq_desc", "32768")], 4096).n_rxq_desc, 4096);
        let odd = read(&[("n_txq_desc", "1000"), ("n_rxq_desc", "16")], 4096);
        assert_eq!((odd.n_txq_desc, odd.n_rxq_desc), (2048, 64));
        assert_eq!(odd.notes[1], "p: Unable to set the number of tx descriptors to 1000. Adjusted to 2048.");
        for bad in ["", "x", "-5", "0", "99999999999999999999", "4611686018427387904"] {
            let length = read(&[("n_rxq_desc", bad)], 4096).n_rxq_desc;
            assert!(length == 2048 || length == 4096, "{bad}");
        }
    }

    #[test]
    fn invalid_values_count_as_absent() {
        let plain = read(&[("n_rxq", "-3"), ("colour", "red")], 4096);
        assert_eq!((plain.n_rxq, plain.flow_control, plain.link_interrupt), (1, None, None));
        let rich = read(&[("n_rxq", "4"), ("rx-flow-ctrl", "true"), ("dpdk-lsc-interrupt", "false")], 4096);
        assert_eq!((rich.n_rxq, rich.link_interrupt), (4, Some(false)));
        assert_eq!(rich.flow_control, Some(FlowControl { rx: true, ..FlowControl::default() }));
    }
}
