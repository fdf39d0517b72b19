//! Compiles operations to rewrites.
//!
//! Each operation is applied to the [`Expected`] header. Packet bytes that the operation depends on become
//! comparisons; bytes that differ at the end of the run become written words and checksum updates.

use super::expected::{ADDRESSES, Byte, Expected, HEADER};
use crate::program::{Op, Program, Summary};
use dpif::{ArpKey, DpAction, Ipv4Key, Ipv6Key, Masked, PortsKey, SetField};
use flow::{Flow, VLAN_CFI};
use packet::ether::ethertype;
use packet::{Icmp, Tcp, Udp, ipproto};
use std::sync::Arc;

impl Program {
    /// Compiles the actions of a megaflow. `flow` is the flow of one of its packets, `mask` its wildcards.
    pub fn compile_for(actions: &[DpAction], flow: &Flow, mask: &Flow) -> Program {
        let program = Program::compile(actions);
        match program.summary {
            Summary::Other | Summary::ByLength => program.with_rewrites(Expected::of(flow, mask)),
            _ => program,
        }
    }

    /// Returns the same program with rewrites for packets of the expected layout.
    fn with_rewrites(self, expected: Option<Expected>) -> Program {
        if expected.is_none() {
            return self;
        }
        Program::new(with_rewrites(self.ops, expected))
    }
}

/// Returns the operations with a rewrite in front of every run of edits that a rewrite can replace, also in nested
/// programs.
fn with_rewrites(ops: Vec<Op>, mut expected: Option<Expected>) -> Vec<Op> {
    let mut out = Vec::with_capacity(ops.len() + 1);
    let mut ops = ops.into_iter().peekable();
    let mut run_ops = Vec::new();
    while let Some(op) = ops.next() {
        match (&mut expected, op) {
            (Some(before), op) if op.is_edit() => {
                let mut run = Run::begin(before);
                run_ops.push(op);
                while let Some(op) = ops.next_if(Op::is_edit) {
                    run_ops.push(op);
                }
                let known = run_ops.iter().take_while(|op| run.edit(before, op).is_some()).count();
                let rewrite = run.finish(before, known);
                out.extend(rewrite.map(|rewrite| Op::Rewrite(Arc::new(rewrite))));
                if known != run_ops.len() {
                    expected = None;
                }
                out.append(&mut run_ops);
            }
            (Some(tracked), op @ Op::Ct(_)) => {
                if matches!(&op, Op::Ct(track) if track.nat.is_some()) {
                    tracked.apply_nat();
                }
                out.push(op);
            }
            (_, op @ Op::TunnelPush(_)) => {
                // The following operations apply to the outer header.
                expected = None;
                out.push(op);
            }
            (_, op) => out.push(nested(op, &expected)),
        }
    }
    out
}

/// Compiles nested programs. Each starts with the header that is expected at its place in the program.
fn nested(op: Op, expected: &Option<Expected>) -> Op {
    let side = |program: Box<Program>| Box::new(program.with_rewrites(expected.clone()));
    match op {
        Op::Clone(inner) => Op::Clone(side(inner)),
        Op::Sample(share, inner) => Op::Sample(share, side(inner)),
        Op::CheckLen(max, longer, rest) => Op::CheckLen(max, side(longer), side(rest)),
        op => op,
    }
}

/// Returns the offset of the checksum in a transport header, and the minimum length of the header.
pub(super) fn checksum_of(proto: u8) -> Option<(usize, usize)> {
    match proto {
        ipproto::TCP => Some((16, Tcp::LEN)),
        ipproto::UDP => Some((6, Udp::LEN)),
        ipproto::ICMP | ipproto::ICMPV6 => Some((2, Icmp::LEN)),
        _ => None,
    }
}

/// A run of edits that is being compiled.
pub(super) struct Run {
    /// The compared bits: mask and value for each byte of the packet before the run.
    pub(super) compared: [(u8, u8); HEADER + 8],
    /// The expected header before the run.
    pub(super) before: Vec<Byte>,
    pub(super) min_len: usize,
    /// The checksum of the IPv4 header changes.
    pub(super) ip_sum: bool,
    /// Whether the checksum of the transport header changes (`Some`), and if so, whether addresses that it covers
    /// change.
    pub(super) l4_sum: Option<bool>,
    /// Minimum length of the transport header, and whether the TCP data offset must be checked.
    pub(super) lengths: Option<(usize, bool)>,
    /// The edits are right also for frames with unfinished offloads.
    pub(super) allows_offload_state: bool,
}

impl Run {
    fn begin(e: &mut Expected) -> Run {
        e.begin();
        Run {
            compared: [(0, 0); HEADER + 8],
            before: e.bytes.clone(),
            min_len: 0,
            ip_sum: false,
            l4_sum: None,
            lengths: None,
            allows_offload_state: true,
        }
    }

    pub(super) fn grown(&self, e: &Expected) -> isize {
        e.bytes.len() as isize - self.before.len() as isize
    }

    /// Requires that the packet extends at least to offset `end` of the header as it is now.
    fn require_length(&mut self, e: &Expected, end: usize) {
        let before = end as isize - self.grown(e);
        self.min_len = self.min_len.max(before.max(0) as usize);
    }

    /// Requires that these bits of the packet are as expected.
    fn require_bits(&mut self, e: &Expected, at: usize, mask: &[u8]) {
        for (byte, mask) in e.bytes[at..].iter().zip(mask) {
            if let Some(from) = byte.from {
                let (bits, value) = &mut self.compared[usize::from(from)];
                *bits |= mask & byte.keep;
                *value |= byte.bits & mask & byte.keep;
            }
        }
    }

    /// Returns the offset of the network header, and requires the bytes that determine it.
    fn l3(&mut self, e: &Expected) -> Option<usize> {
        e.dl_type?;
        (0..=e.tags).for_each(|tag| self.require_bits(e, ADDRESSES + 4 * tag, &[0xff; 2]));
        self.require_length(e, e.l3());
        Some(e.l3())
    }

    fn l3_of(&mut self, e: &Expected, dl_type: impl Fn(u16) -> bool) -> Option<usize> {
        dl_type(e.dl_type?).then(|| self.l3(e)).flatten()
    }

    /// Applies one edit. Returns `None` and changes nothing if a rewrite cannot express the edit.
    fn edit(&mut self, e: &mut Expected, op: &Op) -> Option<()> {
        match op {
            Op::Set(field) => self.set(e, field),
            &Op::PushVlan { tpid, tci } => {
                if !ethertype::is_vlan(tpid) {
                    return None;
                }
                let (t, c) = (tpid.to_be_bytes(), (tci & !VLAN_CFI).to_be_bytes());
                self.require_length(e, ADDRESSES + 2);
                e.insert(ADDRESSES, [t[0], t[1], c[0], c[1]])?;
                e.tags += 1;
                Some(())
            }
            Op::PopVlan => {
                e.tags.checked_sub(1)?;
                self.require_bits(e, ADDRESSES, &[0xff; 2]);
                self.require_length(e, ADDRESSES + 6);
                e.remove(ADDRESSES);
                e.tags -= 1;
                Some(())
            }
            &Op::PushMpls { ethertype, lse } => {
                if !ethertype::is_mpls(ethertype) {
                    return None;
                }
                let at = self.l3(e)?;
                self.allows_offload_state = false;
                e.insert(at, lse.to_be_bytes())?;
                self.set_type(e, ethertype);
                Some(())
            }
            &Op::PopMpls { ethertype } => self.pop_mpls(e, ethertype),
            _ => None,
        }
    }

    fn set_type(&mut self, e: &mut Expected, ethertype: u16) {
        e.write(e.l3() - 2, &ethertype.to_be_bytes(), &[0xff; 2]);
        e.dl_type = Some(ethertype);
    }

    fn pop_mpls(&mut self, e: &mut Expected, ethertype: u16) -> Option<()> {
        if ethertype < ethertype::MIN || ethertype::is_vlan(ethertype) {
            return None;
        }
        // The next header is the network header that is known to follow the label, or an unknown one.
        let next = e.l3() + 4;
        let same = e.ip == Some(next);
        if !same && (self.ip_sum || self.l4_sum.is_some()) {
            return None;
        }
        let at = self.l3_of(e, ethertype::is_mpls)?;
        self.require_length(e, next);
        e.remove(at);
        self.set_type(e, ethertype);
        let header = match ethertype {
            ethertype::IPV4 => 20,
            ethertype::IPV6 => 40,
            _ => return Some(()),
        };
        e.ip = Some(at);
        e.transport = e.transport.filter(|t| same && t.at == at + header);
        Some(())
    }

    fn set(&mut self, e: &mut Expected, field: &SetField) -> Option<()> {
        match field {
            SetField::Eth(m) => {
                self.require_length(e, ADDRESSES);
                e.write(0, &m.value.dst.0, &m.mask.dst.0);
                e.write(6, &m.value.src.0, &m.mask.src.0);
            }
            SetField::Mpls(m) => {
                let at = self.l3_of(e, ethertype::is_mpls)?;
                self.require_length(e, at + 4);
                e.write(at, &m.value.to_be_bytes(), &m.mask.to_be_bytes());
            }
            SetField::Ipv4(m) => self.set_ipv4(e, m)?,
            SetField::Ipv6(m) => self.set_ipv6(e, m)?,
            SetField::Arp(m) => self.set_arp(e, m)?,
            SetField::Tcp(m) => self.set_ports(e, ipproto::TCP, m)?,
            SetField::Udp(m) => self.set_ports(e, ipproto::UDP, m)?,
            SetField::Icmp(m) => {
                let word = |k: &dpif::IcmpKey| [k.icmp_type, k.code];
                self.set_transport(e, ipproto::ICMP, &word(&m.value), &word(&m.mask))?;
            }
            SetField::Icmpv6(m) => {
                let word = |k: &dpif::IcmpKey| [k.icmp_type, k.code];
                self.set_transport(e, ipproto::ICMPV6, &word(&m.value), &word(&m.mask))?;
            }
            _ => return None,
        }
        Some(())
    }

    fn set_ipv4(&mut self, e: &mut Expected, m: &Masked<Ipv4Key>) -> Option<()> {
        let (v, k) = (&m.value, &m.mask);
        let moves = k.src | k.dst != 0;
        if e.dl_type != Some(ethertype::IPV4) || (moves && e.transport.is_none()) {
            return None;
        }
        let ip = self.l3(e)?;
        self.require_length(e, ip + 20);
        if moves {
            self.addresses(e);
        }
        self.ip_sum = true;
        e.write(ip + 12, &v.src.to_be_bytes(), &k.src.to_be_bytes());
        e.write(ip + 16, &v.dst.to_be_bytes(), &k.dst.to_be_bytes());
        e.write(ip + 1, &[v.tos], &[k.tos]);
        e.write(ip + 8, &[v.ttl], &[k.ttl]);
        Some(())
    }

    fn set_ipv6(&mut self, e: &mut Expected, m: &Masked<Ipv6Key>) -> Option<()> {
        let (v, k) = (&m.value, &m.mask);
        let moves = k.src != [0; 16] || k.dst != [0; 16];
        if e.dl_type != Some(ethertype::IPV6) || (moves && e.transport.is_none()) {
            return None;
        }
        let ip = self.l3(e)?;
        self.require_length(e, ip + 40);
        if moves {
            self.addresses(e);
        }
        let word = |label: u32, tclass: u8| (label & 0xf_ffff | u32::from(tclass) << 20).to_be_bytes();
        e.write(ip, &word(v.label, v.tclass), &word(k.label, k.tclass));
        e.write(ip + 7, &[v.hlimit], &[k.hlimit]);
        e.write(ip + 8, &v.src, &k.src);
        e.write(ip + 24, &v.dst, &k.dst);
        Some(())
    }

    /// Records that addresses change, which some transport checksums cover.
    fn addresses(&mut self, e: &Expected) {
        let (Some(ip), Some(transport)) = (e.ip, e.transport) else { return };
        self.rely_on_proto(e, ip);
        if transport.proto != ipproto::ICMP
            && let Some((_, header)) = checksum_of(transport.proto)
        {
            self.rely_on_transport(e, ip, header, false);
            self.l4_sum = Some(true);
        }
    }

    fn rely_on_proto(&mut self, e: &Expected, ip: usize) {
        let at = if e.dl_type == Some(ethertype::IPV6) { 6 } else { 9 };
        self.require_bits(e, ip + at, &[0xff]);
    }

    /// Requires that the transport header is where it is expected, and has at least `header` bytes.
    fn rely_on_transport(&mut self, e: &Expected, ip: usize, header: usize, tcp: bool) {
        self.rely_on_proto(e, ip);
        if e.dl_type == Some(ethertype::IPV4) {
            self.require_bits(e, ip, &[0xff]);
            // Requires that the packet is not a later fragment (RFC 791 §3.1).
            self.require_bits(e, ip + 6, &[0x1f, 0xff]);
        }
        let (least, asked) = self.lengths.unwrap_or_default();
        self.lengths = Some((least.max(header), asked || tcp));
        self.allows_offload_state = false;
    }

    fn set_ports(&mut self, e: &mut Expected, proto: u8, m: &Masked<PortsKey>) -> Option<()> {
        let bytes = |k: &PortsKey| (u32::from(k.src) << 16 | u32::from(k.dst)).to_be_bytes();
        self.set_transport(e, proto, &bytes(&m.value), &bytes(&m.mask))
    }

    /// Writes the first bytes of the transport header.
    fn set_transport(&mut self, e: &mut Expected, proto: u8, value: &[u8], mask: &[u8]) -> Option<()> {
        let transport = e.transport.filter(|t| t.proto == proto)?;
        let ip = self.l3_of(e, |t| matches!(t, ethertype::IPV4 | ethertype::IPV6))?;
        let (_, header) = checksum_of(proto)?;
        self.rely_on_transport(e, ip, header, proto == ipproto::TCP);
        self.l4_sum.get_or_insert(false);
        e.write(transport.at, value, mask);
        Some(())
    }

    fn set_arp(&mut self, e: &mut Expected, m: &Masked<ArpKey>) -> Option<()> {
        let at = self.l3_of(e, ethertype::is_arp)?;
        self.require_length(e, at + 28);
        let (v, k) = (&m.value, &m.mask);
        e.write(at + 6, &v.op.to_be_bytes(), &k.op.to_be_bytes());
        e.write(at + 8, &v.sha.0, &k.sha.0);
        e.write(at + 14, &v.sip.to_be_bytes(), &k.sip.to_be_bytes());
        e.write(at + 18, &v.tha.0, &k.tha.0);
        e.write(at + 24, &v.tip.to_be_bytes(), &k.tip.to_be_bytes());
        Some(())
    }
}
