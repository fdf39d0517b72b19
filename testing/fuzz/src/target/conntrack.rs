//! Connection tracking: for any packets at any times, limits are kept, and the numbers of connections agree with the table.

use conntrack::{Action, Conntrack, Filter, Helper, Metadata, Nat, Packet, Side};
use flow::compose::compose;
use flow::flow::ct_state::{DST_NAT, ESTABLISHED, INVALID, NEW, SRC_NAT, TRACKED};
use flow::{Flow, Mac};
use packet::ether::ethertype;
use packet::ipproto;
use std::net::IpAddr;
use units::Millis;

const STEP: usize = 16;
/// Maximum number of steps. It is small, because the whole table is checked after each step.
const STEPS_MAX: usize = 200;
const ETHERNET: usize = 14;
const ZONES: u16 = 4;
const PROTOCOLS: [u8; 5] = [ipproto::TCP, ipproto::UDP, ipproto::ICMP, ipproto::ICMPV6, ipproto::SCTP];
/// Longer than the timeout of any connection.
const LONG: Millis = Millis::from_secs(48 * 60 * 60);

pub fn run(data: &[u8]) {
    let ct = Conntrack::new(1);
    let mut now = Millis(1);
    ct.sweep(now);
    for bytes in data.chunks_exact(STEP).take(STEPS_MAX) {
        let step = Step(bytes);
        now = now + step.pause();
        match bytes[0] % 16 {
            0 => ct.set_max(step.number()),
            1 => drop(ct.set_limit(step.zone_or_all(), step.number())),
            2 => drop(ct.remove_limit(step.zone_or_all())),
            3 => ct.sweep(now),
            4 => flush(&ct, step.zone_or_all()),
            5 => ct.set_strict(step.number() != 0),
            _ => receive(&ct, &step, now),
        }
        audit(&ct, now);
    }
    let end = now + LONG;
    ct.sweep(end);
    assert_eq!((ct.count(), zones().map(|z| ct.limit(Some(z)).count).sum()), (0, 0), "all are over");
    assert_eq!(ct.dump_expected(None), [], "what expired connections announced is not expected");
}

fn zones() -> impl Iterator<Item = u16> {
    0..ZONES
}

/// The bytes that determine the next step.
struct Step<'a>(&'a [u8]);

impl Step<'_> {
    fn bit(&self, byte: usize, bit: u8) -> bool {
        self.0[byte] >> bit & 1 != 0
    }

    /// The pause before the step, from zero to more than a day.
    fn pause(&self) -> Millis {
        Millis((1 << (self.0[1] % 28)) >> 1)
    }

    fn number(&self) -> u32 {
        u32::from(self.0[3] % 8)
    }

    fn zone(&self) -> u16 {
        u16::from(self.0[2]) % ZONES
    }

    fn zone_or_all(&self) -> Option<u16> {
        self.bit(2, 2).then(|| self.zone())
    }

    fn action(&self) -> Action {
        let (mark, label) = (self.0[6].into(), self.0[7].into());
        Action {
            zone: self.zone(),
            commit: self.bit(2, 2),
            force: self.bit(2, 3),
            mark: self.bit(2, 4).then_some((mark, 0xff)),
            label: self.bit(2, 5).then_some(([0, label], [0, 0xff])),
            nat: self.bit(8, 0).then(|| self.nat()),
            timeout: u16::from(self.0[8] >> 7),
            helper: [None, None, Some(Helper::Ftp), Some(Helper::Tftp)][usize::from(self.0[11] & 3)],
        }
    }

    /// Returns a translation to few addresses and ports, so that all are soon in use.
    fn nat(&self) -> Nat {
        let address = |n: u8| match self.is_v6() {
            true => IpAddr::from(u128::from(n).to_be_bytes()),
            false => IpAddr::from(u32::from(n).to_be_bytes()),
        };
        let low = self.0[9] % 8;
        let port = u16::from(self.0[10] % 8);
        Nat {
            side: [None, Some(Side::Source), Some(Side::Destination), Some(Side::Source)]
                [usize::from(self.0[8] >> 1 & 3)],
            addresses: self.bit(8, 3).then(|| (address(low), address(low + self.0[9] / 128))),
            ports: self.bit(8, 4).then_some((port, port + u16::from(self.0[10] / 64))),
            persistent: self.bit(8, 5),
            random: self.bit(8, 6),
        }
    }

    /// Returns the hosts and ports of source and destination. They are few, so that packets often belong to the same connection.
    fn ends(&self) -> [(u8, u16); 2] {
        let two = |shift: u8| self.0[4] >> shift & 3;
        let ends = [(two(0), two(2).into()), (two(4), two(6).into())];
        if self.bit(3, 7) { [ends[1], ends[0]] } else { ends }
    }

    fn is_v6(&self) -> bool {
        self.bit(3, 6)
    }

    fn flow(&self, proto: u8, [src, dst]: [(u8, u16); 2]) -> Flow {
        let mut flow = Flow {
            dl_dst: Mac([2; 6]),
            dl_type: if self.is_v6() { ethertype::IPV6 } else { ethertype::IPV4 },
            nw_proto: proto,
            nw_ttl: 64,
            nw_src: src.0.into(),
            nw_dst: dst.0.into(),
            tp_src: src.1,
            tp_dst: dst.1,
            tcp_flags: self.0[5].into(),
            ..Flow::ZERO
        };
        (flow.ipv6_src[15], flow.ipv6_dst[15]) = (src.0, dst.0);
        if matches!(proto, ipproto::ICMP | ipproto::ICMPV6) {
            (flow.tp_src, flow.tp_dst) = (self.0[5].into(), 0);
        }
        flow
    }

    /// Returns a packet without its Ethernet header. An ICMP packet may be an error about a packet of the other direction.
    fn packet(&self) -> Vec<u8> {
        let [src, dst] = self.ends();
        let proto = PROTOCOLS.get(usize::from(self.0[3] % 8)).copied().unwrap_or(self.0[3]);
        let about = compose(&self.flow(ipproto::UDP, [dst, src]), &[]);
        let announces = format!("PORT 0,0,0,{},0,{}\r\n", src.0, self.0[12]);
        let payload = match (self.bit(2, 6), self.bit(11, 2)) {
            (true, _) => &about[ETHERNET..],
            (false, true) => announces.as_bytes(),
            (false, false) => &[0; 8],
        };
        let mut l3 = compose(&self.flow(proto, [src, dst]), payload)[ETHERNET..].to_vec();
        let sequence = if self.is_v6() { 44 } else { 24 };
        if let Some(numbers) = l3.get_mut(sequence..sequence + 8).filter(|_| proto == ipproto::TCP) {
            numbers.copy_from_slice(&self.0[6..14]);
        }
        l3.iter_mut().skip(self.0[14].into()).take(1).for_each(|b| *b ^= self.0[15]);
        l3
    }
}

/// Tracks a packet as flow tables often do: first without changes, then with a commit or a write to its connection.
fn receive(ct: &Conntrack, step: &Step<'_>, now: Millis) {
    let l3 = step.packet();
    let ethertype = if step.is_v6() { ethertype::IPV6 } else { ethertype::IPV4 };
    let packet = Packet {
        ethertype,
        l3: &l3,
        sums: if step.bit(2, 7) { conntrack::UNVERIFIED } else { conntrack::VERIFIED },
    };
    let mut meta = Metadata::default();
    track(ct, &packet, &mut meta, &Action { zone: step.zone(), ..Action::default() }, now);
    track(ct, &packet, &mut meta, &step.action(), now);
}

fn track(ct: &Conntrack, packet: &Packet<'_>, meta: &mut Metadata, action: &Action, now: Millis) {
    let (before, zone_before) = (ct.count(), ct.limit(Some(action.zone)));
    let translation = ct.track(packet, meta, action, now);
    if let Some(control) = &meta.control {
        let inspected = ct.inspect(control, packet);
        assert!(inspected.edit.is_none_or(|edit| edit.range.end <= packet.l3.len()));
    }
    let zone = ct.limit(Some(action.zone));
    assert!(ct.count() <= before.max(ct.max()) && ct.count() <= before + u32::from(action.commit));
    assert!(zone.count <= zone_before.count.max(zone.limit), "{zone:?} after {zone_before:?}");
    assert!(meta.state & TRACKED != 0 && meta.zone == action.zone);
    assert!(meta.state & INVALID == 0 || meta.state & (NEW | ESTABLISHED) == 0, "{meta:?}");
    let written = action.mark.is_none_or(|(value, mask)| meta.mark & mask == value);
    assert!(!meta.earlier.has_connection() || written, "{meta:?} after {action:?}");
    let there = || ct.dump(Some(action.zone), now).iter().any(|e| e.mark == meta.mark);
    assert!(!meta.earlier.has_connection() || there(), "{meta:?}");
    assert!(
        translation.is_none() || action.nat.is_some() && meta.state & (SRC_NAT | DST_NAT) != 0,
        "{meta:?}"
    );
}

fn flush(ct: &Conntrack, zone: Option<u16>) {
    let before = ct.count();
    assert_eq!(ct.flush(zone, &Filter::default()) as u32, before - ct.count());
    assert!(zone.is_some() || ct.count() == 0);
}

/// Checks that every connection is counted once and listed once.
fn audit(ct: &Conntrack, now: Millis) {
    assert_eq!(ct.shard_lens().iter().sum::<usize>(), ct.count() as usize);
    assert!(zones().map(|z| ct.limit(Some(z)).count).sum::<u32>() <= ct.count());
    let there = ct.dump(None, now);
    assert!(there.len() <= ct.count() as usize);
    for (n, entry) in there.iter().enumerate() {
        assert!(entry.left > Millis(0) && entry.left < LONG);
        assert!(!entry.text(true, true).is_empty());
        let others = &there[n + 1..];
        assert!(
            !others.iter().any(|o| [entry.original, entry.reply].contains(&o.original)),
            "{entry:?} twice"
        );
    }
}
