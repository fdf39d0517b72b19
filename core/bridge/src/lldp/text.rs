//! The replies of `autoattach/*` (those of Open vSwitch) and of `lldp/show`.

use super::auto_attach::SystemId;
use super::message::{Id, Message, capability, hex};
use super::session::Session;
use std::fmt::Write as _;
use units::Millis;

/// An identity of a system as Open vSwitch prints it: the bytes of its own structure on a little-endian machine, in which the kind of the
/// connection (3 bits) and the reserved bits (10) that follow the MAC address are numbers of two bytes.
fn system_id(&[a, b, c, d, e, f, high, low, rest @ ..]: &SystemId) -> String {
    let word = u16::from_be_bytes([high, low]);
    let (connection, reserved) = ((word >> 13).to_le_bytes(), (word & 0x03ff).to_le_bytes());
    hex(&[[a, b, c, d, e, f].as_slice(), &connection, &reserved, &rest].concat())
}

/// The names of capabilities; `none` if there are none.
fn capabilities(bits: u16) -> String {
    let named = capability::NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 != 0);
    let names: Vec<&str> = named.map(|(_, name)| *name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The kind of an identifier of a chassis (table 8-2).
fn chassis_kind(id: &Id) -> &'static str {
    match id.subtype {
        1 => "component",
        2 => "interface alias",
        3 => "port component",
        4 => "mac",
        5 => "network address",
        6 => "interface name",
        _ => "local",
    }
}

/// The kind of an identifier of a port (table 8-3).
fn port_kind(id: &Id) -> &'static str {
    match id.subtype {
        1 => "interface alias",
        2 => "port component",
        3 => "mac",
        4 => "network address",
        5 => "interface name",
        6 => "agent circuit",
        _ => "local",
    }
}

impl Session {
    /// The counters (`autoattach/statistics`), without the line with the port's name.
    pub fn statistics(&self) -> String {
        let counters = &self.counters;
        let rows = [
            ("tx", counters.tx),
            ("rx", counters.rx),
            ("rx discarded", counters.rx_discarded),
            ("rx unrecognized", counters.rx_unrecognized),
            ("ageout", counters.aged_out),
            ("insert", counters.inserted),
            ("delete", counters.deleted),
            ("drop", counters.dropped),
        ];
        rows.iter().map(|(name, count)| format!("  {name} cnt: {count}\n")).collect()
    }

    /// The servers of auto-attach among the neighbours (`autoattach/status`), without the line with the port's name.
    pub fn servers(&self) -> String {
        let mut text = String::new();
        for Message { chassis, element, system_description, .. } in self.neighbours.iter().map(|n| &n.message)
        {
            let Some(element) = element.filter(|element| element.system != SystemId::default()) else {
                continue;
            };
            // A neighbour chooses the text, so control characters are escaped.
            let description = match system_description.as_str() {
                "" => "<None>".to_owned(),
                text => text.escape_debug().to_string(),
            };
            let (id, system) = (hex(&chassis.bytes), system_id(&element.system));
            let _ = writeln!(text, "  Auto Attach Primary Server Id: {id}");
            let _ = writeln!(text, "  Auto Attach Primary Server Descr: {description}");
            let _ = writeln!(text, "  Auto Attach Primary Server System Id: {system}");
        }
        text
    }

    /// The requested services and the servers' decisions (`autoattach/show-isid`), without the line with the port's name.
    pub fn services(&self) -> String {
        let mut text = format!("{:<8} {:<4} {:<11} {:<8}\n", "I-SID", "VLAN", "Source", "Status");
        text += "-------- ---- ----------- --------\n";
        for (isid, vlan) in &self.announcement.mappings {
            let status = self.decisions.get(isid).map_or("Pending", |status| status.name());
            let _ = writeln!(text, "{isid:<8} {vlan:<4} {:<11} {status:<11}", "Switch");
        }
        text
    }

    /// The neighbours (`lldp/show`), without the line with the port's name.
    pub fn show(&self, now: Millis) -> String {
        let next = self.next_tx.unwrap_or_default().since(now).0;
        let mut text =
            format!("  next message: {}\n  neighbours: {}\n", seconds(next), self.neighbours.iter().count());
        for neighbour in self.neighbours.iter() {
            let message = &neighbour.message;
            let (chassis, port) = (&message.chassis, &message.port);
            let _ = writeln!(text, "  chassis: {chassis} ({})", chassis_kind(chassis));
            let _ = writeln!(text, "    port: {port} ({})", port_kind(port));
            let _ = writeln!(text, "    expires in: {}", seconds(neighbour.expires.since(now).0));
            let texts = [
                ("port description", &message.port_description),
                ("system name", &message.system_name),
                ("system description", &message.system_description),
            ];
            for (what, value) in texts.into_iter().filter(|(_, value)| !value.is_empty()) {
                let _ = writeln!(text, "    {what}: {}", value.escape_debug());
            }
            if let Some((can_be, is)) = message.capabilities {
                let (can_be, is) = (capabilities(can_be), capabilities(is));
                let _ = writeln!(text, "    capabilities: {can_be} (enabled: {is})");
            }
            for address in &message.addresses {
                let _ = writeln!(text, "    management address: {address}");
            }
        }
        text
    }
}

/// A time in milliseconds as text in seconds.
fn seconds(millis: u64) -> String {
    format!("{}.{} s", millis / 1000, millis % 1000 / 100)
}
