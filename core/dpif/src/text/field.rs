//! Prints the fields in one part of a key, such as `src=1.2.3.4/255.0.0.0,ttl=64`.

use flow::Mac;
use flow::text::address::{self, ipv6_addr};
use flow::text::hex;
use std::net::Ipv4Addr;

/// Collects fields. Without a mask all fields are exact; with a mask, fields that are not matched are left out unless
/// the text is verbose.
pub(super) struct Fields {
    pub(super) verbose: bool,
    pub(super) masked: bool,
    parts: Vec<String>,
}

/// A value and its mask.
pub(super) type Pair<T> = (T, T);

impl Fields {
    pub(super) fn new(verbose: bool, masked: bool) -> Fields {
        Fields { verbose, masked, parts: Vec::new() }
    }

    pub(super) fn push(&mut self, text: String) {
        self.parts.push(text);
    }

    pub(super) fn finish(self) -> String {
        self.parts.join(",")
    }

    fn is_shown(&self, mask_is_empty: bool) -> bool {
        self.verbose || !self.masked || !mask_is_empty
    }

    fn push_field(&mut self, name: &str, value: String, mask: u64, full: u64) {
        if !self.is_shown(mask == 0) {
            return;
        }
        let mask = if self.masked && mask != full { format!("/{}", hex(mask.into())) } else { String::new() };
        self.parts.push(format!("{name}={value}{mask}"));
    }

    pub(super) fn dec8(&mut self, name: &str, (value, mask): Pair<u8>) {
        self.push_field(name, value.to_string(), mask.into(), 0xff);
    }

    pub(super) fn hex8(&mut self, name: &str, (value, mask): Pair<u8>) {
        self.push_field(name, hex(value.into()), mask.into(), 0xff);
    }

    pub(super) fn dec16(&mut self, name: &str, (value, mask): Pair<u16>) {
        self.push_field(name, value.to_string(), mask.into(), 0xffff);
    }

    pub(super) fn hex16(&mut self, name: &str, (value, mask): Pair<u16>) {
        self.push_field(name, hex(value.into()), mask.into(), 0xffff);
    }

    pub(super) fn hex32(&mut self, name: &str, (value, mask): Pair<u32>) {
        self.push_field(name, hex(value.into()), mask.into(), 0xffff_ffff);
    }

    pub(super) fn label(&mut self, name: &str, (value, mask): Pair<u32>) {
        let full = if mask & 0xf_ffff == 0xf_ffff { mask } else { 0xf_ffff };
        self.push_field(name, hex(value.into()), mask.into(), full.into());
    }

    /// Writes `tun_id`: always with `0x`, and only if the text is verbose or the mask matches it.
    pub(super) fn tun_id(&mut self, (value, mask): Pair<u64>) {
        if self.verbose || self.masked && mask != 0 {
            let partial = self.masked && mask != u64::MAX;
            let mask = if partial { format!("/{}", hex(mask.into())) } else { String::new() };
            self.parts.push(format!("tun_id={value:#x}{mask}"));
        }
    }

    pub(super) fn mac(&mut self, name: &str, (value, mask): Pair<Mac>) {
        if self.is_shown(mask == Mac::default()) {
            let mask = if self.masked { mask } else { Mac::BROADCAST };
            self.parts.push(format!("{name}={}", address::mac(value, mask)));
        }
    }

    pub(super) fn ipv4(&mut self, name: &str, (value, mask): Pair<u32>) {
        if self.is_shown(mask == 0) {
            let partial = self.masked && mask != u32::MAX;
            let mask = if partial { format!("/{}", Ipv4Addr::from(mask)) } else { String::new() };
            self.parts.push(format!("{name}={}{mask}", Ipv4Addr::from(value)));
        }
    }

    pub(super) fn ipv6(&mut self, name: &str, (value, mask): Pair<[u8; 16]>) {
        if self.is_shown(mask == [0; 16]) {
            let partial = self.masked && mask != [0xff; 16];
            let text = |a: [u8; 16]| ipv6_addr(u128::from_be_bytes(a));
            let mask = if partial { format!("/{}", text(mask)) } else { String::new() };
            self.parts.push(format!("{name}={}{mask}", text(value)));
        }
    }

    /// Writes `frag`; the fragment bits are matched exactly or not at all.
    pub(super) fn frag(&mut self, (value, mask): Pair<u8>) {
        if !self.masked || mask != 0 {
            let text = match (value & flow::flow::frag::ANY != 0, value & flow::flow::frag::LATER != 0) {
                (false, _) => "no",
                (true, false) => "first",
                (true, true) => "later",
            };
            self.parts.push(format!("frag={text}"));
        }
    }
}
