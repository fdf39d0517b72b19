//! An address with a prefix length.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network: an address and a prefix length. The address bits after `len` are 0, except in a prefix made by [`Prefix::of_interface`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    addr: IpAddr,
    len: u8,
}

/// Number of bits of an address of this family.
fn width(addr: IpAddr) -> u8 {
    if addr.is_ipv4() { 32 } else { 128 }
}

/// The address with the bits after `len` cleared.
fn masked(addr: IpAddr, len: u8) -> IpAddr {
    match addr {
        IpAddr::V4(a) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
            Ipv4Addr::from_bits(a.to_bits() & mask).into()
        }
        IpAddr::V6(a) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0);
            Ipv6Addr::from_bits(a.to_bits() & mask).into()
        }
    }
}

#[allow(clippy::len_without_is_empty, reason = "`len` is a number of bits")]
impl Prefix {
    /// The network of `len` bits that contains an address. `len` is limited to the number of bits of the
    /// address.
    pub fn new(addr: IpAddr, len: u8) -> Prefix {
        let len = len.min(width(addr));
        Prefix { addr: masked(addr, len), len }
    }

    /// The address of an interface, with the length of its network.
    pub fn of_interface(addr: IpAddr, len: u8) -> Prefix {
        Prefix { addr, len: len.min(width(addr)) }
    }

    /// The prefix that contains only this address.
    pub fn host(addr: IpAddr) -> Prefix {
        Prefix { addr, len: width(addr) }
    }

    /// The address.
    pub fn addr(&self) -> IpAddr {
        self.addr
    }

    /// Length of the prefix in bits.
    pub fn len(&self) -> u8 {
        self.len
    }

    /// Returns whether the prefix contains every address of its family.
    pub fn matches_all(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the address is IPv4.
    pub fn is_ipv4(&self) -> bool {
        self.addr.is_ipv4()
    }

    /// Returns whether the prefix is a single address.
    pub fn is_host(&self) -> bool {
        self.len == width(self.addr)
    }

    /// Returns whether the network contains the address.
    pub fn contains(&self, addr: IpAddr) -> bool {
        addr.is_ipv4() == self.is_ipv4() && masked(addr, self.len) == masked(self.addr, self.len)
    }

    /// Parses an address, an address with a length, or an IPv4 address with a mask that is a prefix.
    pub fn parse(text: &str) -> Option<Prefix> {
        let (addr, rest) = text.split_once('/').map_or((text, None), |(a, r)| (a, Some(r)));
        let addr: IpAddr = addr.parse().ok()?;
        let Some(rest) = rest else { return Some(Prefix::host(addr)) };
        if let (true, Ok(mask)) = (addr.is_ipv4(), rest.parse::<Ipv4Addr>()) {
            let bits = mask.to_bits();
            let is_prefix = bits.leading_ones() + bits.trailing_zeros() >= 32;
            return is_prefix.then(|| Prefix::new(addr, bits.leading_ones() as u8));
        }
        let len: u8 = rest.parse().ok()?;
        (len <= width(addr)).then(|| Prefix::new(addr, len))
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.len)
    }
}
