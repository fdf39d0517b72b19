//! Reads column `bfd` of an interface.

use bridge::bfd::Settings;
use settings::Setting;
use settings::interface::{
    BFD_CHECK_TNL_KEY, BFD_CPATH_DOWN, BFD_DECAY_MIN_RX, BFD_DST_IP, BFD_ENABLE, BFD_FORWARDING_IF_RX,
    BFD_LOCAL_DST_MAC, BFD_LOCAL_SRC_MAC, BFD_MIN_RX, BFD_MIN_TX, BFD_MULT, BFD_OAM, BFD_REMOTE_DST_MAC,
    BFD_SRC_IP,
};
use std::collections::BTreeMap;
use units::Millis;

type Row = BTreeMap<String, String>;

/// The settings, and the texts of errors in them. `None`: no session is configured.
pub(super) fn read(row: &Row) -> Option<(Settings, Vec<String>)> {
    if !BFD_ENABLE.flag_of(row) {
        return None;
    }
    let millis = |setting: Setting| Millis(setting.number(row).unsigned_abs());
    let mut settings = Settings {
        min_rx: millis(BFD_MIN_RX),
        min_tx: millis(BFD_MIN_TX),
        decay_min_rx: millis(BFD_DECAY_MIN_RX),
        mult: u8::try_from(BFD_MULT.number(row)).unwrap_or(u8::MAX),
        forwarding_if_rx: BFD_FORWARDING_IF_RX.flag_of(row),
        cpath_down: BFD_CPATH_DOWN.flag_of(row),
        oam: BFD_OAM.flag_of(row),
        ..Settings::default()
    };
    let mut wrong = Vec::new();
    let mut mac = |setting: Setting| {
        let text = setting.get(row).filter(|text| !text.is_empty())?;
        let mac = flow::text::address::parse_mac(text);
        if mac.is_none() {
            wrong.push(format!("\"{text}\" is not a valid Ethernet address"));
        }
        // All zeros mean no address.
        mac.filter(|mac| *mac != flow::Mac::default())
    };
    settings.local_src = mac(BFD_LOCAL_SRC_MAC);
    settings.local_dst = mac(BFD_LOCAL_DST_MAC);
    settings.filter.eth_dst = mac(BFD_REMOTE_DST_MAC);
    settings.filter.check_tnl_key = BFD_CHECK_TNL_KEY.flag_of(row);
    for (setting, place) in [(BFD_SRC_IP, &mut settings.filter.ip), (BFD_DST_IP, &mut settings.ip_dst)] {
        let Some(text) = setting.get(row).filter(|text| !text.is_empty()) else { continue };
        match text.parse() {
            Ok(ip) => *place = ip,
            Err(_) => wrong.push(format!("\"{text}\" is not a valid IP address")),
        }
    }
    Some((settings, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> Row {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn a_row_that_enables_nothing_has_no_session() {
        assert_eq!(read(&row(&[])), None);
        assert_eq!(read(&row(&[("min_tx", "5"), ("enable", "false")])), None);
        assert_eq!(read(&row(&[("enable", "true")])), Some((Settings::default(), Vec::new())));
    }

    #[test]
    fn invalid_values_are_reported_and_the_default_applies() {
        let (settings, wrong) = read(&row(&[
            ("enable", "true"),
            ("min_tx", "0"),
            ("min_rx", "50"),
            ("mult", "256"),
            ("bfd_src_ip", "10.0.0.256"),
            ("bfd_dst_ip", "10.0.0.2"),
            ("bfd_local_src_mac", "x"),
            ("bfd_remote_dst_mac", "02:00:00:00:00:01"),
        ]))
        .unwrap();
        assert_eq!((settings.min_tx, settings.min_rx, settings.mult), (Millis(1), Millis(50), 3));
        assert_eq!(settings.filter.ip, bridge::bfd::DEFAULT_SOURCE);
        assert_eq!(settings.ip_dst.octets(), [10, 0, 0, 2]);
        assert_eq!(
            (settings.local_src, settings.filter.eth_dst),
            (None, Some(flow::Mac([2, 0, 0, 0, 0, 1])))
        );
        assert_eq!(
            wrong,
            ["\"x\" is not a valid Ethernet address", "\"10.0.0.256\" is not a valid IP address"]
        );
    }
}
