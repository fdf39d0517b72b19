//! `fdb/*`: the learning table of a bridge.

use crate::answer::{Answer, unknown};
use ::bridge::{MacEntry, MacStats, MacTable};
use ctl::names;
use flow::Mac;
use flow::text::{NoNames, port_text};
use ovsdb::Json;
use switch::Switch;
use units::OfPort;
use unixctl::{Format, Reply};

const NO_BRIDGE: &str = "no such bridge";

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String], format: Format) -> Answer {
    match (name, args) {
        (names::FDB_SHOW, [bridge]) => show(switch, bridge, format).into(),
        (names::FDB_ADD, [bridge, port, vlan, mac]) => add(switch, bridge, port, number(vlan), mac).into(),
        (names::FDB_DEL, [bridge, vlan, mac]) => del(switch, bridge, number(vlan), mac).into(),
        (names::FDB_FLUSH, _) => flush(switch, args.first()).into(),
        (names::FDB_STATS_SHOW, [bridge]) => stats_show(switch, bridge).into(),
        (names::FDB_STATS_CLEAR, _) => stats_clear(switch, args.first()).into(),
        _ => unknown(name),
    }
}

/// Parses the number at the beginning of a text; 0 if there is none.
fn number(text: &str) -> u16 {
    let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse::<u64>().map_or(0, |n| n as u16)
}

fn show(switch: &mut Switch, name: &str, format: Format) -> Result<Reply, String> {
    let now = switch.clock.now();
    let bridge = switch.bridges.get(name).ok_or(NO_BRIDGE)?;
    // Collect statistics first, because packets that megaflows forwarded refresh the entries of their stations.
    if let Some(backer) = switch.datapaths.of_bridge(bridge) {
        backer.datapath.maintain(now);
    }
    let table = bridge.macs.lock();
    let rows = table.iter().filter_map(|e| Some((*e, bridge.first_port_of(e.port)?, table.age(e, now))));
    Ok(match format {
        Format::Text => {
            let lines: String = rows.map(|(e, port, age)| line(&e, port, age)).collect();
            Reply::Text(format!(" port  VLAN  MAC                Age\n{lines}"))
        }
        Format::Json => Reply::Json(rows.map(|(e, port, age)| object(&e, port, age)).collect()),
    })
}

fn line(e: &MacEntry, port: OfPort, age: Option<i64>) -> String {
    let age = age.map_or("static".to_owned(), |age| format!("{age:3}"));
    format!("{:>5}  {:4}  {}  {age}\n", port_text(port, &NoNames), e.vlan, e.mac)
}

fn object(e: &MacEntry, port: OfPort, age: Option<i64>) -> Json {
    let age = age.map_or(("static", Json::from(true)), |age| ("age", Json::from(age)));
    [("port", Json::from(port.0)), ("vlan", Json::from(e.vlan)), ("mac", Json::from(e.mac.to_string())), age]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn parse_mac(text: &str) -> Result<Mac, String> {
    flow::text::address::parse_mac(text).ok_or_else(|| "bad MAC address".to_owned())
}

/// Changes the learning table of a bridge, and records the change so that affected megaflows are revalidated.
fn change<T>(switch: &Switch, name: &str, change: impl FnOnce(&mut MacTable) -> T) -> Result<T, String> {
    let bridge = switch.bridges.get(name).ok_or(NO_BRIDGE)?;
    Ok(match switch.datapaths.of_bridge(bridge) {
        Some(backer) => bridge.macs.change(&backer.shared.live, change),
        None => change(&mut bridge.macs.lock()),
    })
}

fn add(switch: &mut Switch, name: &str, port: &str, vlan: u16, mac: &str) -> Result<String, String> {
    let bridge = switch.bridges.get_mut(name).ok_or(NO_BRIDGE)?;
    let mac = parse_mac(mac)?;
    let port = bridge.port_named(port);
    let row = port.map(|p| p.port_row.clone());
    let row = row.ok_or("software error, odp port is present but no ofp port")?;
    let id = bridge.bundle_id(&row);
    let known = bridge.macs.lock().get(vlan, mac).copied();
    let mut text = String::new();
    if let Some(e) = known
        && (e.port != id || !e.is_static())
        && let Some(old) = bridge.first_port_of(e.port)
    {
        let how = if e.is_static() { "static" } else { "dynamic" };
        let old = port_text(old, &NoNames);
        text = format!("Overriding already existing {how} entry on {old}\n");
    }
    change(switch, name, |table| table.add_static(vlan, mac, id))?;
    Ok(text)
}

fn del(switch: &Switch, name: &str, vlan: u16, mac: &str) -> Result<String, String> {
    switch.bridges.get(name).ok_or(NO_BRIDGE)?;
    let mac = parse_mac(mac)?;
    match change(switch, name, |table| table.del_static(vlan, mac))? {
        true => Ok(String::new()),
        false => Err("could not find static mac entry\n".to_owned()),
    }
}

/// The bridges to which a command applies: the named one, or all.
fn selected_bridges(switch: &Switch, name: Option<&String>) -> Result<Vec<String>, String> {
    match name {
        Some(name) if !switch.bridges.contains_key(name) => Err(NO_BRIDGE.to_owned()),
        Some(name) => Ok(vec![name.clone()]),
        None => Ok(switch.bridges.keys().cloned().collect()),
    }
}

fn flush(switch: &Switch, name: Option<&String>) -> Result<String, String> {
    for name in selected_bridges(switch, name)? {
        change(switch, &name, MacTable::flush)?;
    }
    Ok("table successfully flushed".to_owned())
}

fn stats_clear(switch: &mut Switch, name: Option<&String>) -> Result<String, String> {
    for name in selected_bridges(switch, name)? {
        if let Some(bridge) = switch.bridges.get(&name) {
            bridge.macs.lock().clear_stats();
        }
    }
    Ok("statistics successfully cleared".to_owned())
}

fn stats_show(switch: &mut Switch, name: &str) -> Result<String, String> {
    let table = switch.bridges.get(name).ok_or(NO_BRIDGE)?.macs.lock();
    Ok(stats_text(name, (table.len(), table.size(), table.static_count()), table.stats()))
}

fn stats_text(bridge: &str, (now, max, statics): (usize, usize, usize), s: MacStats) -> String {
    let lines = [
        ("Current/maximum MAC entries in the table:", format!("{now}/{max}")),
        ("Current static MAC entries in the table :", statics.to_string()),
        ("Total number of learned MAC entries     :", s.learned.to_string()),
        ("Total number of expired MAC entries     :", s.expired.to_string()),
        ("Total number of evicted MAC entries     :", s.evicted.to_string()),
        ("Total number of port moved MAC entries  :", s.moved.to_string()),
    ];
    let lines: String = lines.iter().map(|(title, n)| format!("  {title} {n}\n")).collect();
    format!("Statistics for bridge \"{bridge}\":\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::bridge::{BundleId, MacObservation};
    use units::Millis;

    #[test]
    fn entries_as_scripts_read_them() {
        let mut table = MacTable::default();
        let mac = Mac([0x50, 0x54, 0, 0, 0, 5]);
        let observation = MacObservation { mac, vlan: 9, port: BundleId(0), grat_arp: false, bond: false };
        table.update(&observation, Millis(1000));
        let e = table.iter().next().copied().unwrap();
        let age = table.age(&e, Millis(4000));
        assert_eq!(line(&e, OfPort(1), age), "    1     9  50:54:00:00:00:05    3\n");
        assert_eq!(line(&e, OfPort::LOCAL, None), "LOCAL     9  50:54:00:00:00:05  static\n");
        let json = object(&e, OfPort(1), None);
        assert_eq!(
            ovsdb::json::sorted_string(&json),
            r#"{"mac":"50:54:00:00:00:05","port":1,"static":true,"vlan":9}"#
        );
    }

    #[test]
    fn numbers_are_parsed_up_to_the_first_other_character() {
        assert_eq!((number("12x"), number("x"), number(" 7"), number("")), (12, 0, 7, 0));
    }
}
