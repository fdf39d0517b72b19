//! The `set` action: the fields of one header with a mask.
//!
//! The text form is `set(x(..))` if the mask is all ones, and `set(x(field=value/mask))` otherwise; one type represents both.

use flow::{Mac, Nsh, Tunnel};

/// A value and a mask of the bits that are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masked<T> {
    /// The value to write.
    pub value: T,
    /// The bits that are written.
    pub mask: T,
}

impl<T> Masked<T> {
    /// `value` under `mask`.
    pub fn new(value: T, mask: T) -> Masked<T> {
        Masked { value, mask }
    }
}

/// A write to the fields of one header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetField {
    /// `skb_priority`: the QoS queue.
    Priority(Masked<u32>),
    /// `pkt_mark`.
    Mark(Masked<u32>),
    /// Ethernet addresses.
    Eth(Masked<EthKey>),
    /// IPv4 header; checksums are updated.
    Ipv4(Masked<Ipv4Key>),
    /// IPv6 header; checksums are updated.
    Ipv6(Box<Masked<Ipv6Key>>),
    /// TCP ports.
    Tcp(Masked<PortsKey>),
    /// UDP ports.
    Udp(Masked<PortsKey>),
    /// SCTP ports.
    Sctp(Masked<PortsKey>),
    /// ICMP type and code.
    Icmp(Masked<IcmpKey>),
    /// ICMPv6 type and code.
    Icmpv6(Masked<IcmpKey>),
    /// ARP.
    Arp(Masked<ArpKey>),
    /// Neighbour discovery target and addresses.
    Nd(Box<Masked<NdKey>>),
    /// Neighbour discovery reserved word and option type.
    NdExt(Masked<NdExtKey>),
    /// The outermost MPLS label stack entry.
    Mpls(Masked<u32>),
    /// Network service header (NSH); the metadata type and the next protocol are printed, but never written.
    Nsh(Box<Masked<Nsh>>),
    /// The outer header for the next output to a tunnel.
    Tunnel(Box<SetTunnel>),
}

/// Ethernet addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct EthKey {
    pub src: Mac,
    pub dst: Mac,
}

/// Fields of the IPv4 header; `proto` and `frag` are printed, but never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ipv4Key {
    pub src: u32,
    pub dst: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub frag: u8,
}

/// Fields of the IPv6 header; `proto` and `frag` are printed, but never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Ipv6Key {
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub label: u32,
    pub proto: u8,
    pub tclass: u8,
    pub hlimit: u8,
    pub frag: u8,
}

/// Ports of TCP, UDP or SCTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PortsKey {
    pub src: u16,
    pub dst: u16,
}

/// ICMP type and code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct IcmpKey {
    pub icmp_type: u8,
    pub code: u8,
}

/// Fields of an ARP packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ArpKey {
    pub sip: u32,
    pub tip: u32,
    pub op: u16,
    pub sha: Mac,
    pub tha: Mac,
}

/// Fields of a neighbour solicitation or advertisement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NdKey {
    pub target: [u8; 16],
    pub sll: Mac,
    pub tll: Mac,
}

/// Reserved word and option type of neighbour discovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NdExtKey {
    pub reserved: u32,
    pub options_type: u8,
}

/// `set(tunnel(..))`: the fields of an outer header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetTunnel {
    /// The values of the fields.
    pub key: Tunnel,
    /// Geneve options, as encoded in the header.
    pub geneve_options: Vec<u8>,
}
