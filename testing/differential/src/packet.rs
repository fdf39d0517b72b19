//! Random packets: Ethernet with and without VLAN tags, ARP, IPv4 and IPv6 (with fragments and options), TCP, UDP, SCTP, ICMP,
//! neighbour discovery, MPLS and NSH. Checksums are correct; lengths are sometimes wrong.

use crate::checksum::{fold, sum};
use crate::pools::{IPS, PORTS, VLANS, ip6, mac};
use crate::rng::Rng;
use crate::tunnels::{self, UNDERLAY};

/// A packet and its ingress port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The OpenFlow port, which is also the number in the device's name.
    pub port: u16,
    /// The frame.
    pub bytes: Vec<u8>,
}

impl Packet {
    /// Creates a random packet that is received on one of `ports`.
    pub fn random(rng: &mut Rng, ports: &[u16]) -> Packet {
        Packet { port: rng.pick(ports), bytes: frame(rng) }
    }

    /// Returns the packet with one random change, after which it may match other flows.
    pub fn changed(&self, rng: &mut Rng, ports: &[u16]) -> Packet {
        let mut other = self.clone();
        match rng.below(4) {
            0 => other.port = rng.pick(ports),
            1 => other.bytes[6..12].copy_from_slice(&mac(rng)),
            2 => other.bytes[..6].copy_from_slice(&mac(rng)),
            // The changed byte may make the frame malformed.
            _ => {
                let at = rng.between(14, (self.bytes.len() as u64 - 1).min(60)) as usize;
                other.bytes[at] ^= 1 << rng.below(8);
            }
        }
        other
    }

    /// Returns whether the type is that of MPLS, but the frame ends before the end of the last label.
    pub fn lacks_label(&self) -> bool {
        let mut at = 12;
        let kind = |at: usize| self.bytes.get(at..at + 2).unwrap_or_default();
        while matches!(kind(at), [0x81, 0] | [0x88, 0xa8]) {
            at += 4;
        }
        if !matches!(kind(at), [0x88, 0x47 | 0x48]) {
            return false;
        }
        // The lowest bit of a label's third byte is set in the last label.
        while self.bytes.get(at + 4).is_some_and(|byte| byte & 1 == 0) && at + 6 <= self.bytes.len() {
            at += 4;
        }
        self.bytes.len() < at + 6
    }

    /// The bridge of the ingress port.
    pub fn bridge(&self) -> &'static str {
        if self.port == UNDERLAY { tunnels::BRIDGE } else { "br0" }
    }

    /// The frame in hexadecimal.
    pub fn hex(&self) -> String {
        self.bytes.iter().map(|b| format!("{b:02x}")).collect()
    }
}

fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut f = Vec::with_capacity(128);
    f.extend(mac(rng));
    f.extend(mac(rng));
    let tags = rng.pick(&[0, 0, 0, 1, 1, 2]);
    for n in 0..tags {
        f.extend(if tags == 2 && n == 0 && rng.chance(20) { [0x88, 0xa8] } else { [0x81, 0] });
        f.extend((rng.pick(&VLANS) | (rng.pick(&[0, 0, 3, 5]) << 13)).to_be_bytes());
    }
    let (ethertype, payload) = match rng.below(23) {
        20 => (0x894f, nsh(rng)),
        21 => (0x0800, big(rng)),
        22 => {
            // An 802.3 frame with LLC and SNAP headers, which contain the type.
            let inner = ipv4(rng);
            let mut p = vec![0xaa, 0xaa, 3, 0, 0, 0, 8, 0];
            p.extend(inner);
            (p.len() as u16, p)
        }
        0..2 => (0x0806, arp(rng)),
        2..11 => (0x0800, ipv4(rng)),
        11..17 => (0x86dd, ipv6(rng)),
        17 => (0x8847, mpls(rng)),
        18 => (0x1234, vec![0xaa; 46]),
        _ => (0x8035, arp(rng)),
    };
    // Many ARP packets are broadcasts, which NORMAL treats differently.
    if ethertype == 0x0806 && rng.chance(50) {
        f[..6].fill(0xff);
    }
    f.extend(u16::to_be_bytes(ethertype));
    f.extend(payload);
    if f.len() < 60 {
        f.resize(60, 0);
    }
    if rng.chance(2) {
        f.truncate(rng.between(16, f.len() as u64) as usize);
    }
    f
}

fn arp(rng: &mut Rng) -> Vec<u8> {
    let mut p = vec![0, 1, 8, 0, 6, 4, 0, rng.pick(&[1, 2, 1, 2, 3])];
    p.extend(mac(rng));
    p.extend(rng.pick(&IPS));
    p.extend(mac(rng));
    p.extend(rng.pick(&IPS));
    p
}

/// A random IPv4 packet that may be much longer than its headers.
fn big(rng: &mut Rng) -> Vec<u8> {
    let mut p = ipv4(rng);
    p.resize(p.len() + rng.pick(&[1, 200, 700]) as usize, 0x5a);
    p
}

/// A random network service header: of type 1 with its four context headers, or of type 2 with or without options.
fn nsh(rng: &mut Rng) -> Vec<u8> {
    let kind = rng.pick(&[1, 1, 2]);
    let words: u16 = if kind == 1 { 6 } else { rng.pick(&[2, 4]) };
    let next = rng.pick(&[1, 1, 2, 3, 4]);
    let ttl: u16 = rng.pick(&[63, 63, 1, 62]);
    let mut p = (ttl << 6 | words).to_be_bytes().to_vec();
    p.extend([kind, next]);
    p.extend((rng.between(1, 4) as u32 * 256 + rng.pick(&[255, 1, 254])).to_be_bytes());
    for n in 2..words {
        p.extend(if kind == 1 {
            [0, 0, 0, rng.pick(&[1, 0x11, 0])]
        } else {
            [0x10, 0, 10 + n as u8 - 2, 4 * (n as u8 & 1)]
        });
    }
    match next {
        2 => p.extend(ipv6(rng)),
        3 => {
            p.extend(mac(rng));
            p.extend(mac(rng));
            p.extend([8, 0]);
            p.extend(ipv4(rng));
        }
        _ => p.extend(ipv4(rng)),
    }
    p
}

fn mpls(rng: &mut Rng) -> Vec<u8> {
    let depth = rng.between(1, 3);
    let mut p = Vec::new();
    for n in 1..=depth {
        let bottom = u32::from(n == depth);
        let label: u32 = rng.pick(&[16, 17, 100]);
        p.extend((label << 12 | rng.pick(&[0, 3]) << 9 | bottom << 8 | rng.pick(&[64, 1, 2])).to_be_bytes());
    }
    p.extend(ipv4(rng));
    p
}

fn ipv4(rng: &mut Rng) -> Vec<u8> {
    let (src, dst) = (rng.pick(&IPS), rng.pick(&IPS));
    let protocol = rng.pick(&[6, 6, 6, 17, 17, 1, 132, 47]);
    // Mostly complete packets, and first and later fragments.
    let fragment: u16 = rng.pick(&[0, 0, 0, 0, 0, 0, 0x4000, 0x4000, 0x2000, 0x2010, 0x0010]);
    let pseudo = sum(&src) + sum(&dst) + u32::from(protocol);
    let payload = l4(rng, protocol, pseudo);
    let options = if rng.chance(5) { 4 } else { 0 };
    let length = (20 + options + payload.len()) as u16;
    let mut p = vec![0x45 + (options / 4) as u8, rng.pick(&[0, 0, 0x10, 0xb8, 3])];
    p.extend(length.to_be_bytes());
    p.extend([0x12, 0x34]);
    p.extend(fragment.to_be_bytes());
    p.extend([rng.pick(&[64, 64, 255, 2, 1]), protocol, 0, 0]);
    p.extend(src);
    p.extend(dst);
    p.extend(&[1, 1, 1, 1][..options]);
    let check = fold(sum(&p));
    p[10..12].copy_from_slice(&check);
    p.extend(payload);
    p
}

fn ipv6(rng: &mut Rng) -> Vec<u8> {
    let (src, dst) = (ip6(rng), ip6(rng));
    let protocol = rng.pick(&[6, 6, 17, 58, 58, 58, 132, 59]);
    let payload = l4(rng, protocol, sum(&src) + sum(&dst) + u32::from(protocol));
    let fragment: Option<u16> =
        rng.pick(&[None, None, None, None, None, Some(1), Some(0x11), Some(0x10), Some(0)]);
    let length = payload.len() + if fragment.is_some() { 8 } else { 0 };
    let head: u32 = 6 << 28 | rng.pick(&[0, 0, 0x10, 0xb8]) << 20 | rng.pick(&[0, 0, 5]);
    let mut p = head.to_be_bytes().to_vec();
    p.extend((length as u16).to_be_bytes());
    p.extend([if fragment.is_some() { 44 } else { protocol }, rng.pick(&[64, 64, 255, 1])]);
    p.extend(src);
    p.extend(dst);
    if let Some(offset) = fragment {
        p.extend([protocol, 0]);
        p.extend(offset.to_be_bytes());
        p.extend([0, 0, 0, 7]);
    }
    p.extend(payload);
    p
}

/// A random transport header and its payload, with the correct checksum. `pseudo`: the sum of the pseudo header without the length.
fn l4(rng: &mut Rng, protocol: u8, pseudo: u32) -> Vec<u8> {
    let mut p = Vec::new();
    let check_at = match protocol {
        6 => {
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend([
                0,
                0,
                0,
                1,
                0,
                0,
                0,
                2,
                0x50,
                rng.pick(&[2, 0x12, 0x10, 0x11, 0x18, 4]),
                0xff,
                0,
                0,
                0,
                0,
                0,
            ]);
            p.extend(*b"data");
            16
        }
        17 => {
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend([0, 12, 0, 0]);
            p.extend(*b"data");
            if rng.chance(10) { 0 } else { 6 }
        }
        132 => {
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend(rng.pick(&PORTS).to_be_bytes());
            p.extend([0, 0, 0, 1, 0, 0, 0, 0]);
            0
        }
        1 => {
            p.extend([rng.pick(&[8, 0, 3, 11]), rng.pick(&[0, 0, 1]), 0, 0, 0, 1, 0, 1]);
            let check = fold(sum(&p));
            p[2..4].copy_from_slice(&check);
            0
        }
        58 => {
            neighbour_or_echo(rng, &mut p);
            2
        }
        _ => {
            p.extend([0; 16]);
            0
        }
    };
    if check_at != 0 {
        let check = fold(sum(&p) + pseudo + p.len() as u32);
        p[check_at..check_at + 2].copy_from_slice(&check);
    }
    p
}

fn neighbour_or_echo(rng: &mut Rng, p: &mut Vec<u8>) {
    let kind = rng.pick(&[128, 129, 135, 136, 135, 136]);
    p.extend([kind, 0, 0, 0, 0, 0, 0, 0]);
    if kind >= 135 {
        p.extend(ip6(rng));
        if rng.chance(70) {
            p.extend([kind - 134, 1]);
            p.extend(mac(rng));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_frames_with_right_checksums() {
        let mut rng = Rng::new(1);
        for _ in 0..500 {
            let packet = Packet::random(&mut rng, &[1, 2]);
            assert!(packet.bytes.len() >= 16 && packet.hex().len() == 2 * packet.bytes.len());
            assert_eq!(packet.changed(&mut rng, &[1]).bytes.len(), packet.bytes.len());
        }
        let lacks = |rest: &[u8]| Packet { port: 1, bytes: [&[0; 12], rest].concat() }.lacks_label();
        assert!(lacks(&[0x88, 0x47, 0, 6, 0x46, 1, 1]) && !lacks(&[0x88, 0x47, 0, 6, 0x46, 1, 0, 1, 1, 1]));
        assert!(lacks(&[0x88, 0x47, 0, 1, 6]) && lacks(&[0x81, 0, 0, 1, 0x88, 0x48]));
        assert!(!lacks(&[0x88, 0x47, 0, 1, 7, 64]) && !lacks(&[8, 0]) && !lacks(&[0x81]));
        let header = std::iter::repeat_with(|| ipv4(&mut rng)).find(|p| p[0] == 0x45).unwrap_or_default();
        assert_eq!(fold(sum(&header[..20])), [0, 0], "an IPv4 header with its checksum sums to nothing");
    }
}
