//! `mdb/*`: multicast snooping of a bridge.

use crate::answer::{Answer, unknown};
use ::bridge::GroupTable;
use ::bridge::snooping::Membership;
use ctl::names;
use flow::text::{NoNames, port_text};
use openflow_service::Bridge;
use ovsdb::Json;
use switch::Switch;
use units::OfPort;
use unixctl::{Format, Reply};

const NO_BRIDGE: &str = "no such bridge";
const DISABLED: &str = "multicast snooping is disabled";

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String], format: Format) -> Answer {
    match (name, args) {
        (names::MDB_SHOW, [bridge]) => show(switch, bridge, format).into(),
        (names::MDB_FLUSH, []) => flush_all(switch).into(),
        (names::MDB_FLUSH, [bridge]) => flush(switch, bridge).into(),
        _ => unknown(name),
    }
}

/// The bridge with a name, if multicast snooping is enabled there.
fn snooping<'a>(switch: &'a Switch, name: &str) -> Result<&'a Bridge, String> {
    let bridge = switch.bridges.get(name).ok_or(NO_BRIDGE)?;
    match bridge.config.snooping {
        Some(_) => Ok(bridge),
        None => Err(DISABLED.to_owned()),
    }
}

fn show(switch: &Switch, name: &str, format: Format) -> Result<Reply, String> {
    let now = switch.clock.now();
    let bridge = snooping(switch, name)?;
    let table = bridge.multicast_groups.lock();
    let rows = table.iter(now).filter_map(|m| Some((m, bridge.first_port_of(m.port)?)));
    Ok(match format {
        Format::Text => {
            let lines: String = rows.map(|(m, port)| line(&m, port)).collect();
            Reply::Text(format!(" port  VLAN  protocol  GROUP                Age\n{lines}"))
        }
        Format::Json => Reply::Json(rows.map(|(m, port)| object(&m, port)).collect()),
    })
}

fn line(m: &Membership, port: OfPort) -> String {
    let (port, vlan, age) = (port_text(port, &NoNames), m.vlan, m.age);
    match m.group {
        Some((group, protocol)) => {
            let (group, protocol) = (group.to_canonical(), protocol.name());
            format!("{port:>5}  {vlan:4}  {protocol:<8}  {group}         {age:3}\n")
        }
        None => format!("{port:>5}  {vlan:4}  {:<8}  querier             {age:3}\n", "UNKNOWN"),
    }
}

fn object(m: &Membership, port: OfPort) -> Json {
    let what = match m.group {
        Some((group, protocol)) => vec![
            ("group", Json::from(group.to_canonical().to_string())),
            ("protocol", Json::from(protocol.name().to_owned())),
        ],
        None => vec![("querier", Json::from(true))],
    };
    [("port", Json::from(port.0)), ("vlan", Json::from(m.vlan)), ("age", Json::from(m.age))]
        .into_iter()
        .chain(what)
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn flush(switch: &Switch, name: &str) -> Result<String, String> {
    let bridge = snooping(switch, name)?;
    match switch.datapaths.of_bridge(bridge) {
        Some(backer) => bridge.multicast_groups.change(&backer.shared.live, bridge.id, GroupTable::flush),
        None => bridge.multicast_groups.lock().flush(),
    }
    Ok("table successfully flushed".to_owned())
}

fn flush_all(switch: &Switch) -> Result<String, String> {
    for name in switch.bridges.keys() {
        match flush(switch, name) {
            Err(why) if why != DISABLED => return Err(why),
            _ => {}
        }
    }
    Ok("table successfully flushed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::bridge::BundleId;
    use ::bridge::snooping::message::Protocol;
    use std::net::Ipv4Addr;

    #[test]
    fn lines_as_scripts_read_them() {
        let group = Some((Ipv4Addr::new(224, 1, 1, 1).to_ipv6_mapped(), Protocol::IgmpV1));
        let member = Membership { port: BundleId(1), vlan: 5, group, age: 12 };
        assert_eq!(line(&member, OfPort(1)), "    1     5  IGMPv1    224.1.1.1          12\n");
        let router = Membership { group: None, ..member };
        assert_eq!(line(&router, OfPort::LOCAL), "LOCAL     5  UNKNOWN   querier              12\n");
        assert_eq!(
            ovsdb::json::sorted_string(&object(&member, OfPort(1))),
            r#"{"age":12,"group":"224.1.1.1","port":1,"protocol":"IGMPv1","vlan":5}"#
        );
    }
}
