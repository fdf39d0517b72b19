//! The headers that packets have before an action, as far as the encoding of the action depends on them.
//!
//! Versions of OpenFlow encode some actions differently. An action of 1.0 that sets a VLAN adds a tag if there is none; later
//! versions have separate actions to push a tag and to set the VLAN. One action of 1.0 sets the port of any protocol; later versions
//! have a field for each protocol.

use crate::action::Action;
use flow::{FieldId, Match, VLAN_CFI};

/// The headers that all packets of a flow have.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Headers {
    /// Whether the packets have a VLAN tag.
    pub has_tag: bool,
    is_ip: bool,
    /// The IP protocol; 0 if it is not known.
    protocol: u8,
}

impl Headers {
    /// The headers of packets that match `matching`.
    pub fn of(matching: &Match) -> Headers {
        let flow = &matching.flow;
        let is_ip = matches!(flow.network_type(), 0x0800 | 0x86dd);
        Headers { has_tag: flow.vlans[0].tci & VLAN_CFI != 0, is_ip, protocol: flow.nw_proto }
    }

    /// Updates the headers to those after an action.
    pub fn change(&mut self, action: &Action) {
        match action {
            Action::SetVlanVid { .. } | Action::SetVlanPcp { .. } | Action::PushVlan(_) => {
                self.has_tag = true
            }
            Action::StripVlan { .. } => self.has_tag = false,
            Action::SetField { field: FieldId::VlanTci, value, .. } => {
                self.has_tag = *value as u16 & VLAN_CFI != 0
            }
            // The protocol after a label is not known.
            Action::PushMpls(_) => self.protocol = 0,
            Action::Encap(encap) if encap.packet_type != 0 || !self.is_ip => self.protocol = 0,
            _ => {}
        }
    }

    /// The field of the source port.
    pub fn source_port(self) -> Option<FieldId> {
        self.port([FieldId::TcpSrc, FieldId::UdpSrc, FieldId::SctpSrc])
    }

    /// The field of the destination port.
    pub fn destination_port(self) -> Option<FieldId> {
        self.port([FieldId::TcpDst, FieldId::UdpDst, FieldId::SctpDst])
    }

    fn port(self, [tcp, udp, sctp]: [FieldId; 3]) -> Option<FieldId> {
        match self.protocol {
            6 => Some(tcp),
            17 => Some(udp),
            132 => Some(sctp),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Context, instructions, put_actions, put_instructions};
    use crate::flow_mod::FlowCommand;
    use crate::text::{NoNames, actions_text, parse_flow_mod};
    use crate::version::Version;

    /// The actions of a flow as a client of this version lists them.
    fn listed(flow: &str, version: Version) -> String {
        let flow = parse_flow_mod(flow, FlowCommand::Add, &NoNames).unwrap().flow;
        let mut bytes = Vec::new();
        put_instructions(&mut bytes, &flow.actions, &flow.matching, version);
        actions_text(&instructions(&bytes, Context::new(version, false)).unwrap(), &NoNames)
    }

    /// What Open vSwitch 3.1 lists for flows that a client of OpenFlow 1.0 added.
    #[test]
    fn ports_are_listed_by_the_protocol_of_the_match() {
        for (matching, protocol) in [
            ("tcp", Some("tcp")),
            ("udp", Some("udp")),
            ("sctp", Some("sctp")),
            ("tcp6", Some("tcp")),
            ("tcp,ip_frag=later", Some("tcp")),
            // ARP opcode 6: a flow stores the ARP opcode and the IP protocol in the same field.
            ("arp,arp_op=6", Some("tcp")),
            ("icmp", None),
            ("ip", None),
            ("", None),
        ] {
            let flow = format!("{matching} actions=mod_tp_src:1,mod_tp_dst:2,output:3");
            for version in Version::ALL {
                let wanted = match protocol.filter(|_| version >= Version::V12) {
                    Some(name) => format!("set_field:1->{name}_src,set_field:2->{name}_dst,output:3"),
                    None => "mod_tp_src:1,mod_tp_dst:2,output:3".to_owned(),
                };
                assert_eq!(listed(&flow, version), wanted, "{matching} {version:?}");
            }
        }
    }

    #[test]
    fn actions_before_tell_the_headers_of_those_within_and_after() {
        let clone = "udp6 actions=mod_tp_src:1,clone(mod_tp_dst:2,mod_vlan_vid:3,output:1)";
        assert_eq!(
            listed(clone, Version::V11),
            "mod_tp_src:1,clone(mod_tp_dst:2,push_vlan:0x8100,set_vlan_vid:3,output:1)"
        );
        assert_eq!(
            listed(clone, Version::V15),
            "set_field:1->udp_src,clone(set_field:2->udp_dst,push_vlan:0x8100,set_field:4099->vlan_vid,output:1)"
        );
        let tagged =
            "dl_vlan=5 actions=mod_vlan_vid:3,clone(mod_vlan_pcp:5,output:2),strip_vlan,mod_vlan_pcp:6";
        assert_eq!(
            listed(tagged, Version::V11),
            "set_vlan_vid:3,clone(set_vlan_pcp:5,output:2),pop_vlan,push_vlan:0x8100,set_vlan_pcp:6"
        );
        let label = "tcp actions=push_mpls:0x8847,pop_mpls:0x0800,mod_tp_dst:2";
        assert_eq!(listed(label, Version::V13), "push_mpls:0x8847,pop_mpls:0x0800,mod_tp_dst:2");
    }

    #[test]
    fn a_load_of_part_of_a_byte_has_a_mask() {
        let entry = |flow: &str| {
            let flow = parse_flow_mod(flow, FlowCommand::Add, &NoNames).unwrap().flow;
            let mut bytes = Vec::new();
            put_actions(&mut bytes, &flow.actions, Version::V15);
            // After type and length of the action, and class and field of the entry: has-mask, length, value, mask.
            (bytes[6] & 1, bytes[7], bytes[8], bytes[9])
        };
        assert_eq!(entry("ip actions=load:2->NXM_NX_IP_ECN[]"), (1, 2, 2, 3));
        assert_eq!(entry("ip actions=load:9->NXM_NX_IP_TTL[]"), (0, 1, 9, 0));
    }
}
