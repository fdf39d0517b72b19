//! Decides whether a DPDK device supports a mode of receive buffers, only from what its driver reports.

use dpdk::ethdev::Info;
use rxpool::Mode;

/// The reason to refuse `mode`; `None`: the device supports it.
///
/// One driver reports shared rx queues (`mlx5`, for representors). The switch does not implement them (`share_group` at queue set-up,
/// and the source port of each packet in `mbuf.port`), because no such device is available to test the code.
pub(super) fn refusal(mode: Mode, info: &Info) -> Option<String> {
    let driver = &info.driver_name;
    match mode {
        Mode::None => None,
        Mode::Basic if !info.shares_rx_queues => {
            Some(format!("driver {driver} does not announce shared rx queues (RTE_ETH_DEV_CAPA_RXQ_SHARE)"))
        }
        Mode::Basic => {
            Some(format!("driver {driver} announces shared rx queues, but Sluice does not use those of DPDK"))
        }
        Mode::Spp => Some(format!(
            "driver {driver} keeps its rings full, and DPDK has no call to post fewer buffers; options:n_rxq_desc sets their \
             length"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_refused_with_its_reason() {
        let of = |mode, shares_rx_queues| {
            refusal(mode, &Info { driver_name: "net_x".into(), shares_rx_queues, ..Info::default() })
        };
        for announced in [false, true] {
            assert_eq!(of(Mode::None, announced), None);
            assert!(of(Mode::Spp, announced).unwrap().contains("net_x keeps its rings full"));
        }
        assert!(of(Mode::Basic, false).unwrap().contains("net_x does not announce shared rx queues"));
        assert!(of(Mode::Basic, true).unwrap().contains("net_x announces shared rx queues"));
    }
}
