//! Derives an [`Egress`], which samples report, from the actions of a megaflow.

use crate::action::{DpAction, TunnelPush};
use crate::sampled_egress::{Egress, LabelChange, OutTunnel};
use crate::set_field::SetField;
use flow::Tunnel;

impl Egress {
    /// What these actions do with a packet.
    pub fn of(actions: &[DpAction]) -> Egress {
        let mut egress = Egress::default();
        egress.add_actions(actions);
        egress.is_sent = outputs(actions);
        egress
    }

    fn add_actions(&mut self, actions: &[DpAction]) {
        for action in actions {
            match action {
                DpAction::Output(port) => self.port = Some(*port),
                DpAction::TunnelPop(_) => self.decapsulated = true,
                DpAction::TunnelPush(push) => {
                    self.tunnels += 1;
                    self.port = Some(push.out_port);
                    self.tunnel = pushed_header(push);
                }
                DpAction::Set(SetField::Tunnel(set)) => {
                    self.tunnels += 1;
                    self.tunnel = Some(OutTunnel { outer: set.key, protocol: 0 });
                }
                DpAction::PushMpls { lse, .. } => self.labels.push(LabelChange::Push(*lse)),
                DpAction::PopMpls { .. } => self.labels.push(LabelChange::Pop),
                DpAction::Clone(list) => self.add_actions(list),
                _ => {}
            }
        }
    }
}

/// Whether the actions send packets. The actions of a `sample` count only if it samples every packet.
fn outputs(actions: &[DpAction]) -> bool {
    actions.iter().any(|action| match action {
        DpAction::Output(_) | DpAction::LbOutput(_) => true,
        DpAction::Clone(list) => outputs(list),
        DpAction::Sample(sample) => sample.probability == u32::MAX && outputs(&sample.actions),
        _ => false,
    })
}

/// The tunnel fields of a precomputed outer header; `None` if it is not IPv4.
fn pushed_header(push: &TunnelPush) -> Option<OutTunnel> {
    let bytes = &*push.header.0;
    let u8_at = |at: usize| bytes.get(at).copied();
    let u16_at = |at: usize| Some(u16::from_be_bytes([u8_at(at)?, u8_at(at + 1)?]));
    let u32_at = |at: usize| Some(u32::from(u16_at(at)?) << 16 | u32::from(u16_at(at + 2)?));
    if u16_at(12)? != 0x0800 {
        return None;
    }
    let (protocol, payload_at) = (u8_at(23)?, 34);
    let mut outer = Tunnel {
        ip_src: u32_at(26)?,
        ip_dst: u32_at(30)?,
        ip_tos: u8_at(15)?,
        ip_ttl: u8_at(22)?,
        ..Tunnel::default()
    };
    match protocol {
        // UDP: VXLAN and Geneve have the network identifier at the same offset.
        17 => {
            (outer.tp_src, outer.tp_dst) = (u16_at(payload_at)?, u16_at(payload_at + 2)?);
            outer.tun_id = u64::from(u32_at(payload_at + 12)? >> 8);
        }
        // GRE: the key follows the checksum, if both are present (RFC 2890).
        47 => {
            let flags = u16_at(payload_at)?;
            let key = payload_at + if flags & 0x8000 != 0 { 8 } else { 4 };
            if flags & 0x2000 != 0 {
                outer.tun_id = u64::from(u32_at(key)?);
            }
        }
        _ => {}
    }
    Some(OutTunnel { outer, protocol })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::TunnelHeader;
    use crate::text::parse_actions;
    use flow::Flow;
    use units::PortNo;

    fn egress(text: &str) -> Egress {
        Egress::of(&parse_actions(text, &crate::text::NoNames).unwrap())
    }

    #[test]
    fn packets_are_sent_by_some_actions() {
        for (text, sent) in [
            ("drop", false),
            ("userspace(pid=0,ipfix(output_port=4294967295)),ct(zone=1),recirc(0x1)", false),
            ("2", true),
            ("lb_output(1)", true),
            ("clone(pop_vlan,3)", true),
            ("sample(sample=50.0%,actions(3))", false),
            ("sample(sample=100.0%,actions(3))", true),
            ("check_pkt_len(size=200,gt(4),le(3))", false),
        ] {
            assert_eq!(egress(text).is_sent, sent, "{text}");
        }
    }

    /// Adds an outer header of IPv4 with this protocol and destination port.
    fn pushed(nw_proto: u8, tp_dst: u16, above: &[u8]) -> DpAction {
        let outer = Flow {
            dl_type: 0x0800,
            nw_src: 0x0101_0258,
            nw_dst: 0x0101_025c,
            nw_proto,
            nw_tos: 4,
            nw_ttl: 64,
            tp_dst,
            ..Flow::ZERO
        };
        let mut header = TunnelHeader(flow::compose::compose(&outer, &[]));
        header.0.extend(above);
        let (tunnel_port, out_port) = (PortNo(4), PortNo(100));
        DpAction::TunnelPush(Box::new(TunnelPush { tunnel_port, out_port, tunnel_type: 3, header }))
    }

    #[test]
    fn one_tunnel_is_reported() {
        let set = "set(tunnel(tun_id=0x1c8,src=2.2.2.2,dst=1.1.1.1,tos=0x1,ttl=64,flags(df|key)))";
        let tunnel = egress(&format!("{set},3")).tunnel().unwrap();
        assert_eq!((tunnel.protocol, tunnel.outer.tun_id, tunnel.outer.ip_tos), (0, 0x1c8, 1));
        assert_eq!(egress(&format!("{set},3,{set},4")).tunnel(), None);
        assert_eq!(egress("tnl_pop(4)").tunnel(), None);
        // GRE with a key, and VXLAN.
        let gre = pushed(47, 0, &[0x20, 0, 0x65, 0x58, 0, 0, 1, 0xc8]);
        let seen = Egress::of(&[DpAction::Clone(vec![gre, DpAction::Output(PortNo(1))])]);
        let tunnel = seen.tunnel().unwrap();
        assert_eq!(
            (tunnel.protocol, tunnel.outer.ip_src, tunnel.outer.ip_dst),
            (47, 0x0101_0258, 0x0101_025c)
        );
        assert_eq!((tunnel.outer.tun_id, seen.port), (0x1c8, Some(PortNo(1))));
        let vxlan = pushed(17, 4789, &[8, 0, 0, 0, 0, 0, 0x7b, 0]);
        let tunnel = Egress::of(&[vxlan]).tunnel().unwrap();
        assert_eq!((tunnel.outer.tun_id, tunnel.outer.tp_dst, tunnel.outer.ip_tos), (0x7b, 4789, 4));
    }

    #[test]
    fn labels_are_those_of_the_packet_that_is_sent() {
        let tagged = Flow { dl_type: 0x8847, mpls_lse: [0xb740, 0, 0], ..Flow::ZERO };
        let push = "push_mpls(label=789,tc=4,ttl=32,bos=0,eth_type=0x8847),2";
        assert_eq!(egress(push).labels(&tagged), Some(vec![0x31_5820, 0xb740]));
        assert_eq!(egress(push).labels(&Flow::ZERO), Some(vec![0x31_5820]));
        let pop = "pop_mpls(eth_type=0x800),2";
        assert_eq!(egress(pop).labels(&tagged), Some(vec![]));
        assert_eq!(egress(pop).labels(&Flow::ZERO), None);
        let more = format!("{push},{push},{push},{push}");
        assert_eq!(egress(&more).labels(&Flow::ZERO), None);
    }
}
