//! Lists the fields of a match in the order in which Open vSwitch encodes them. The order is visible to controllers and
//! tests.
//!
//! A match uses few of about 150 fields. The fields are divided into groups; a group is skipped if the match's mask has
//! no bit in the group's words.

use crate::version::Version;
use flow::{FieldId as F, Match, VLAN_CFI};
use std::sync::LazyLock;

/// Consecutive fields, and the words of a flow that contain them.
struct FieldGroup {
    fields: &'static [F],
    words: LazyLock<u128>,
}

macro_rules! groups {
    ($($name:ident: $($field:ident)*;)*) => {$(
        static $name: FieldGroup = FieldGroup {
            fields: &[$(F::$field),*],
            words: LazyLock::new(|| words(&[$(F::$field),*])),
        };
    )*};
}

groups! {
    NONE: ;
    FIRST: DpHash RecircId ConjId;
    IN_PORT: InPort ActsetOutput EthSrc EthDst EthType;
    IN_PORT_OXM: InPortOxm ActsetOutput EthSrc EthDst EthType;
    TCI: VlanTci;
    VID: VlanVid;
    VID_AND_PCP: VlanVid VlanPcp;
    MPLS: MplsTc MplsBos MplsTtl MplsLabel;
    ARP: ArpOp ArpSpa ArpTpa ArpSha ArpTha;
    IPV4: Ipv4Src Ipv4Dst IpFrag IpDscp IpEcn IpTtl IpProto;
    IPV4_OXM: Ipv4Src Ipv4Dst IpFrag IpDscpShifted IpEcn IpTtl IpProto;
    IPV6: Ipv6Src Ipv6Dst IpFrag IpDscp IpEcn IpTtl Ipv6Label IpProto;
    IPV6_OXM: Ipv6Src Ipv6Dst IpFrag IpDscpShifted IpEcn IpTtl Ipv6Label IpProto;
    TCP: TcpSrc TcpDst TcpFlags;
    UDP: UdpSrc UdpDst;
    SCTP: SctpSrc SctpDst;
    ICMP: Icmpv4Type Icmpv4Code;
    ICMPV6: Icmpv6Type Icmpv6Code;
    SOLICITATION: NdReserved NdTarget NdOptionsType NdSll;
    ADVERTISEMENT: NdReserved NdTarget NdOptionsType NdTll;
    TUNNEL: TunId TunFlags TunSrc TunDst TunIpv6Src TunIpv6Dst TunGbpId TunGbpFlags TunErspanIdx TunErspanVer
        TunErspanDir TunErspanHwid TunGtpuFlags TunGtpuMsgtype;
    NSH: NshFlags NshTtl NshMdtype NshNp NshSpi NshSi NshC1 NshC2 NshC3 NshC4;
    REGS: Reg0 Reg1 Reg2 Reg3 Reg4 Reg5 Reg6 Reg7 Reg8 Reg9 Reg10 Reg11 Reg12 Reg13 Reg14 Reg15 Reg16 Reg17 Reg18 Reg19
        Reg20 Reg21 Reg22 Reg23 Reg24 Reg25 Reg26 Reg27 Reg28 Reg29 Reg30 Reg31;
    XREGS: Xreg0 Xreg1 Xreg2 Xreg3 Xreg4 Xreg5 Xreg6 Xreg7 Xreg8 Xreg9 Xreg10 Xreg11 Xreg12 Xreg13 Xreg14 Xreg15;
    CT: PktMark CtState CtZone CtMark CtLabel CtNwSrc CtIpv6Src CtNwDst CtIpv6Dst CtNwProto CtTpSrc CtTpDst;
    METADATA: Metadata;
}

/// The words of these fields. VLAN fields have no words here: their group is always visited.
fn words(fields: &[F]) -> u128 {
    fields.iter().fold(0, |all, field| all | field.words().unwrap_or(u128::MAX))
}

/// The groups whose fields this match can have: the groups before the fields of tunnel options, and the groups after them.
fn groups(m: &Match, version: u8) -> ([&'static FieldGroup; 7], [&'static FieldGroup; 4]) {
    let pick = |nxm, oxm| if version == 0 { nxm } else { oxm };
    // Without the CFI bit there is no tag, and so no priority.
    let tagged = m.flow.vlans[0].tci & VLAN_CFI != 0;
    let network = match m.flow.network_type() {
        0x8847 | 0x8848 => &MPLS,
        0x0800 => pick(&IPV4, &IPV4_OXM),
        0x86dd => pick(&IPV6, &IPV6_OXM),
        0x0806 | 0x8035 => &ARP,
        _ => &NONE,
    };
    let (transport, neighbor) = transport(m);
    let port = pick(&IN_PORT, &IN_PORT_OXM);
    let tag = pick(&TCI, if tagged { &VID_AND_PCP } else { &VID });
    let regs = if version < Version::V15.wire() { &REGS } else { &XREGS };
    ([&FIRST, port, tag, network, transport, neighbor, &TUNNEL], [&NSH, regs, &CT, &METADATA])
}

/// The group of the transport protocol, and the group of the fields that follow it.
fn transport(m: &Match) -> (&'static FieldGroup, &'static FieldGroup) {
    match (m.flow.network_type(), m.flow.nw_proto) {
        (0x0800 | 0x86dd, 6) => (&TCP, &NONE),
        (0x0800 | 0x86dd, 17) => (&UDP, &NONE),
        (0x0800 | 0x86dd, 132) => (&SCTP, &NONE),
        (0x0800, 1) => (&ICMP, &NONE),
        (0x86dd, 58) => (&ICMPV6, neighbor_discovery(m)),
        _ => (&NONE, &NONE),
    }
}

/// The group of neighbour discovery. A match on the ICMPv6 type without the code can contain the target, too: an unmatched code is 0 here.
fn neighbor_discovery(m: &Match) -> &'static FieldGroup {
    match (m.flow.tp_src, m.flow.tp_dst) {
        (135, 0) => &SOLICITATION,
        (136, 0) => &ADVERTISEMENT,
        _ => &NONE,
    }
}

/// Calls `f` for each field in the match, fields of tunnel options included; `version` 0 is NXM.
pub(super) fn for_each_matched(m: &Match, version: u8, mut f: impl FnMut(F)) {
    let matched = m.words();
    let (first, last) = groups(m, version);
    first.into_iter().for_each(|group| group.for_each_field(m, matched, &mut f));
    m.tlvs().filter_map(|t| F::tun_metadata(t.index)).for_each(&mut f);
    last.into_iter().for_each(|group| group.for_each_field(m, matched, &mut f));
}

impl FieldGroup {
    fn for_each_field(&self, m: &Match, matched: u128, f: &mut impl FnMut(F)) {
        if *self.words & matched == 0 {
            return;
        }
        let looked_at = |field: &F| field.words().is_none_or(|words| words & matched != 0);
        let fields = self.fields.iter().copied().filter(looked_at);
        fields.filter(|field| m.get(*field).1 != 0).for_each(f);
    }
}
