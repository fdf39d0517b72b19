//! The counters of a port, with their keys in the database.

/// Counters of a port. `None`: this type of port does not have the counter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Stats {
    pub rx_packets: Option<u64>,
    pub tx_packets: Option<u64>,
    pub rx_bytes: Option<u64>,
    pub tx_bytes: Option<u64>,
    pub rx_dropped: Option<u64>,
    pub tx_dropped: Option<u64>,
    pub rx_errors: Option<u64>,
    pub tx_errors: Option<u64>,
    pub rx_frame_errors: Option<u64>,
    pub rx_over_errors: Option<u64>,
    pub rx_crc_errors: Option<u64>,
    pub rx_missed_errors: Option<u64>,
    pub collisions: Option<u64>,
    pub multicast: Option<u64>,
    /// Counters that only this type of port has.
    pub custom: Vec<(String, u64)>,
}

impl Stats {
    /// The key-value pairs of the `statistics` column of `Interface`.
    pub fn pairs(&self) -> Vec<(String, u64)> {
        [
            ("rx_packets", self.rx_packets),
            ("tx_packets", self.tx_packets),
            ("rx_bytes", self.rx_bytes),
            ("tx_bytes", self.tx_bytes),
            ("rx_dropped", self.rx_dropped),
            ("tx_dropped", self.tx_dropped),
            ("rx_errors", self.rx_errors),
            ("tx_errors", self.tx_errors),
            ("rx_frame_err", self.rx_frame_errors),
            ("rx_over_err", self.rx_over_errors),
            ("rx_crc_err", self.rx_crc_errors),
            ("rx_missed_errors", self.rx_missed_errors),
            ("collisions", self.collisions),
            ("rx_multicast_packets", self.multicast),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .chain(self.custom.iter().cloned())
        .collect()
    }

    /// Adds packets that policers and shapers dropped in front of the device.
    pub fn add_qos(&mut self, received: u64, sent: u64) {
        let keys = [("ovs_rx_qos_drops", received), ("ovs_tx_qos_drops", sent)];
        for (key, dropped) in keys {
            if let Some((_, n)) = self.custom.iter_mut().find(|(known, _)| known == key) {
                *n += dropped;
            }
        }
        for (total, dropped) in [(&mut self.rx_dropped, received), (&mut self.tx_dropped, sent)] {
            if dropped != 0 {
                *total = Some(total.unwrap_or(0) + dropped);
            }
        }
    }

    /// The counters of a tap device from the switch's point of view: packets that the host transmits are received by the
    /// switch.
    ///
    /// Errors that only a physical receiver can detect (such as CRC errors) are 0, because there is no wire.
    pub fn seen_from_the_switch(self) -> Stats {
        Stats {
            rx_packets: self.tx_packets,
            tx_packets: self.rx_packets,
            rx_bytes: self.tx_bytes,
            tx_bytes: self.rx_bytes,
            rx_dropped: self.tx_dropped,
            tx_dropped: self.rx_dropped,
            rx_errors: self.tx_errors,
            tx_errors: self.rx_errors,
            rx_frame_errors: Some(0),
            rx_over_errors: Some(0),
            rx_crc_errors: Some(0),
            rx_missed_errors: Some(0),
            collisions: self.collisions,
            multicast: self.multicast,
            custom: self.custom,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_the_swapped_view() {
        let stats =
            Stats { rx_packets: Some(3), tx_packets: Some(5), rx_crc_errors: Some(1), ..Stats::default() };
        let pairs = stats.clone().pairs();
        assert_eq!(pairs[0], ("rx_packets".to_owned(), 3));
        assert_eq!(pairs[2], ("rx_crc_err".to_owned(), 1));
        let mut policed = Stats { custom: vec![("ovs_rx_qos_drops".to_owned(), 0)], ..stats.clone() };
        policed.add_qos(4, 0);
        assert_eq!((policed.rx_dropped, policed.tx_dropped, policed.custom[0].1), (Some(4), None, 4));
        let swapped = stats.seen_from_the_switch();
        assert_eq!((swapped.rx_packets, swapped.tx_packets), (Some(5), Some(3)));
    }
}
