//! Text of dependencies and changes, for the log.

use super::{Dependencies, Dependency, DependencyChange};
use crate::BridgeId;
use flow::text::NoNames;
use flow::{Match, Tlv};

/// Gives the name of a bridge.
pub type BridgeName<'a> = &'a dyn Fn(BridgeId) -> String;

impl Dependencies {
    /// Prints the dependencies, in order.
    pub fn text(&self, bridge_name: BridgeName<'_>) -> String {
        let parts: Vec<String> = self.list.iter().map(|d| d.text(bridge_name)).collect();
        if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
    }
}

impl Dependency {
    fn text(&self, bridge_name: BridgeName<'_>) -> String {
        match self {
            Dependency::Table { bridge, table, in_port, metadata, .. } => {
                let metadata =
                    if *metadata == 0 { String::new() } else { format!(" metadata {metadata:#x}") };
                format!("table {table} of {} for port {in_port}{metadata}", bridge_name(*bridge))
            }
            Dependency::LearnLimit { bridge, table } => {
                format!("learned flows of table {table} of {}", bridge_name(*bridge))
            }
            Dependency::Group { bridge, group } => format!("group {group} of {}", bridge_name(*bridge)),
            Dependency::Stations { bridge, .. } => format!("learned addresses of {}", bridge_name(*bridge)),
            Dependency::PortState { bridge, port: None } => {
                format!("states of the ports of {}", bridge_name(*bridge))
            }
            Dependency::PortState { bridge, port: Some(port) } => {
                format!("state of port {port} of {}", bridge_name(*bridge))
            }
            Dependency::Multicast { bridge, .. } => format!("multicast groups of {}", bridge_name(*bridge)),
            Dependency::Routes => "routes".to_owned(),
            Dependency::Addresses => "addresses of the host".to_owned(),
            Dependency::Neighbour { ip } => format!("neighbour {ip}"),
        }
    }
}

impl DependencyChange {
    /// Prints a change.
    pub fn text(&self, bridge_name: BridgeName<'_>) -> String {
        match self {
            DependencyChange::Rule { bridge, table, matching } => {
                let (value, mask) = (matching.expand_flow(), matching.mask().expand());
                // Fields of tunnel options have names only within their bridge.
                let mut matching = Match::new(&value, &flow::Flow { tlv: Tlv::NONE, ..mask });
                matching.flow.tlv = Tlv::NONE;
                let matching = matching.text(&NoNames);
                let matching = if matching.is_empty() { "every packet" } else { &matching };
                format!("a flow of table {table} of {} for {matching}", bridge_name(*bridge))
            }
            DependencyChange::Group { bridge, group } => format!("group {group} of {}", bridge_name(*bridge)),
            DependencyChange::Station { bridge, mac } => format!("address {mac} of {}", bridge_name(*bridge)),
            DependencyChange::Stations { bridge } => format!("addresses of {}", bridge_name(*bridge)),
            DependencyChange::PortState { bridge, port } => {
                format!("state of port {port} of {}", bridge_name(*bridge))
            }
            DependencyChange::MulticastGroup { bridge, group } => {
                format!("multicast group {} of {}", group.to_canonical(), bridge_name(*bridge))
            }
            DependencyChange::MulticastRouters { bridge } => {
                format!("router ports of {}", bridge_name(*bridge))
            }
            DependencyChange::Routes => "routes".to_owned(),
            DependencyChange::Addresses => "addresses of the host".to_owned(),
            DependencyChange::Neighbour { ip } => format!("neighbour {ip}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Words;
    use super::*;
    use classifier::of::SparseMatch;
    use cpu::KeyedHash64;
    use flow::{Flow, Mac};

    #[test]
    fn words_of_the_log() {
        let (bridge, changed) = (BridgeId(7), Words([0; 2]));
        let name = |id: BridgeId| format!("br{}", id.0);
        let (chain, mut dependencies) = (KeyedHash64::new(0), Dependencies::default());
        assert_eq!(dependencies.text(&name), "nothing");
        dependencies
            .push(&chain, Dependency::Table { bridge, table: 3, in_port: 2, metadata: 0x10, changed });
        dependencies.push(&chain, Dependency::LearnLimit { bridge, table: 4 });
        dependencies.push(&chain, Dependency::Group { bridge, group: 5 });
        dependencies.push(&chain, Dependency::Stations { bridge, changed });
        dependencies.push(&chain, Dependency::Multicast { bridge, changed });
        assert_eq!(
            dependencies.text(&name),
            "table 3 of br7 for port 2 metadata 0x10, learned flows of table 4 of br7, group 5 of br7, \
             learned addresses of br7, multicast groups of br7"
        );
        let value = Flow { dl_type: 0x0800, nw_dst: 0x0a00_0001, ..Flow::ZERO };
        let mask = Flow { dl_type: 0xffff, nw_dst: u32::MAX, ..Flow::ZERO };
        let rule = |matching| DependencyChange::Rule { bridge, table: 0, matching }.text(&name);
        assert_eq!(rule(SparseMatch::new(&value, &mask)), "a flow of table 0 of br7 for ip,nw_dst=10.0.0.1");
        assert_eq!(
            rule(SparseMatch::new(&Flow::ZERO, &Flow::ZERO)),
            "a flow of table 0 of br7 for every packet"
        );
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        assert_eq!(DependencyChange::Station { bridge, mac }.text(&name), "address 02:00:00:00:00:01 of br7");
        let group = std::net::Ipv4Addr::new(239, 1, 1, 1).to_ipv6_mapped();
        assert_eq!(
            DependencyChange::MulticastGroup { bridge, group }.text(&name),
            "multicast group 239.1.1.1 of br7"
        );
        assert_eq!(DependencyChange::MulticastRouters { bridge }.text(&name), "router ports of br7");
    }
}
