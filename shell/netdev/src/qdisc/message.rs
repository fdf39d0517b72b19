//! Netlink messages about disciplines and classes.

use super::kinds::{HfscClass, HtbClass};
use super::psched::Psched;

pub(super) const RTM_NEWQDISC: u16 = 36;
pub(super) const RTM_DELQDISC: u16 = 37;
pub(super) const RTM_NEWTCLASS: u16 = 40;
pub(super) const RTM_DELTCLASS: u16 = 41;
pub(super) const RTM_GETTCLASS: u16 = 42;

const REQUEST: u16 = 1;
const ACK: u16 = 4;
/// The requester receives the new state as a reply. Without this flag, only listeners for changes receive it.
pub(super) const ECHO: u16 = 8;
pub(super) const EXCLUSIVE: u16 = 0x200;
pub(super) const CREATE: u16 = 0x400;

const HEADER: usize = 16;
/// Bytes of `struct tcmsg`, before the attributes.
pub(super) const TCMSG: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

const HTB_PARMS: u16 = 1;
const HTB_INIT: u16 = 2;
const HTB_CEIL_TABLE: u16 = 3;
const HTB_RATE_TABLE: u16 = 4;
const HTB_RATE64: u16 = 6;
const HTB_CEIL64: u16 = 7;
/// Quotient of a class's rate and its HTB quantum, if the quantum is at least an MTU.
const RATE_TO_QUANTUM: u32 = 10;
/// The class of packets without a QoS queue: the first queue.
const DEFAULT_CLASS: u32 = 1;
/// Bytes of the shortest frame.
const SHORTEST: u32 = 60;
/// Bytes of an Ethernet header and a VLAN tag.
const ETHERNET: u32 = 18;

/// A message under construction.
pub(super) struct Request(Vec<u8>);

impl Request {
    /// A message about a class or discipline: interface index, handle, parent.
    pub(super) fn new(kind: u16, flags: u16, (ifindex, handle, parent): (u32, u32, u32)) -> Request {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        // A command needs an acknowledgement; a query has a reply anyway.
        let ack = if kind == RTM_GETTCLASS { 0 } else { ACK };
        bytes.extend((flags | REQUEST | ack).to_ne_bytes());
        bytes.extend(1u32.to_ne_bytes()); // sequence
        bytes.extend([0; 4]); // port: set by the kernel
        debug_assert_eq!(bytes.len(), HEADER);
        bytes.extend([0; 4]); // family and padding
        [ifindex, handle, parent, 0].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        Request(bytes)
    }

    /// Sets the length and returns the message.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }

    fn put(&mut self, kind: u16, value: &[u8]) {
        crate::rtnl::put_attribute(&mut self.0, kind, value);
    }

    fn kind(&mut self, name: &str) {
        let mut name = name.as_bytes().to_vec();
        name.push(0);
        self.put(TCA_KIND, &name);
    }

    /// Adds options that consist of attributes, which `fill` adds.
    fn options(&mut self, fill: impl FnOnce(&mut Request)) {
        let start = self.0.len();
        self.0.extend([0; 4]);
        fill(self);
        let len = (self.0.len() - start) as u16;
        self.0[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.0[start + 2..start + 4].copy_from_slice(&TCA_OPTIONS.to_ne_bytes());
    }

    /// Adds a discipline whose options are one structure of 32-bit numbers.
    pub(super) fn plain(&mut self, name: &str, options: &[u32]) {
        self.kind(name);
        self.put(TCA_OPTIONS, &words(options));
    }

    /// Adds a discipline whose options are attributes of one 32-bit number each.
    pub(super) fn nested(&mut self, name: &str, options: &[(u16, u32)]) {
        self.kind(name);
        self.options(|o| options.iter().for_each(|(kind, value)| o.put(*kind, &value.to_ne_bytes())));
    }

    pub(super) fn htb(&mut self) {
        self.kind("htb");
        // Version, quotient of rate and quantum, default class, and two fields that the kernel fills in.
        let init = words(&[3, RATE_TO_QUANTUM, DEFAULT_CLASS, 0, 0]);
        self.options(|o| o.put(HTB_INIT, &init));
    }

    pub(super) fn hfsc(&mut self) {
        self.kind("hfsc");
        self.put(TCA_OPTIONS, &(DEFAULT_CLASS as u16).to_ne_bytes());
    }

    pub(super) fn htb_class(&mut self, class: &HtbClass, psched: Psched) {
        let HtbClass { min, max, burst, priority, mtu } = *class;
        let mut parms = rate_spec(min, mtu);
        parms.extend(rate_spec(max, mtu));
        let quantum = if min / u64::from(RATE_TO_QUANTUM) < u64::from(mtu) { mtu } else { 0 };
        let bursts = [psched.burst(min, burst, mtu), psched.burst(max, burst, mtu)];
        parms.extend(words(&[bursts[0], bursts[1], quantum, 0, priority]));
        self.kind("htb");
        self.options(|o| {
            for (kind, rate) in [(HTB_RATE64, min), (HTB_CEIL64, max)] {
                if rate > u64::from(u32::MAX) {
                    o.put(kind, &rate.to_ne_bytes());
                }
            }
            o.put(HTB_PARMS, &parms);
            o.put(HTB_RATE_TABLE, &rate_table(min, mtu, psched));
            o.put(HTB_CEIL_TABLE, &rate_table(max, mtu, psched));
        });
    }

    pub(super) fn hfsc_class(&mut self, class: &HfscClass) {
        // A straight line through 0: slope of the first part, its length, slope of the second part.
        let curve = |rate| words(&[0, 0, rate]);
        let curves = [(1, class.min), (2, class.min), (3, class.max)];
        self.kind("hfsc");
        self.options(|o| curves.iter().for_each(|(kind, rate)| o.put(*kind, &curve(*rate))));
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The number of bits by which a packet length is shifted right to get the index of one of 256 cells in a rate table.
fn cell_log(mtu: u32) -> u8 {
    let longest = u64::from(mtu) + u64::from(ETHERNET);
    (0..32).find(|log| longest >> log < 256).unwrap_or(31)
}

/// `struct tc_ratespec`.
fn rate_spec(rate: u64, mtu: u32) -> Vec<u8> {
    let mut bytes = vec![cell_log(mtu), 0, 0, 0, 0, 0];
    bytes.extend((SHORTEST as u16).to_ne_bytes());
    bytes.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
    bytes
}

/// The transmission times in ticks of packets of 256 lengths. Kernels before 3.10 use the table; later ones only check that it is present.
fn rate_table(rate: u64, mtu: u32, psched: Psched) -> Vec<u8> {
    let log = cell_log(mtu);
    let cell = |i: u64| psched.ticks_of_bytes(((i + 1) << log).max(SHORTEST.into()), rate);
    (0..256).flat_map(|i| cell(i).to_ne_bytes()).collect()
}
