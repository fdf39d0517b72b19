//! The actions `multipath` and `bundle`, which select one of several links.

use crate::hash;
use crate::walk::Walk;
use openflow::action::{Bundle, BundleAlgorithm, Multipath, MultipathAlgorithm};
use std::cmp::Reverse;
use units::OfPort;

impl Walk<'_> {
    pub(crate) fn multipath(&mut self, mp: &Multipath) {
        let hash = hash::of_fields(&self.out.flow, mp.fields, u32::from(mp.basis));
        let link = choose_link(hash, mp.algorithm, u32::from(mp.max_link) + 1, mp.arg);
        hash::unwildcard(&self.out.flow, &mut self.out.mask, mp.fields);
        self.write(mp.dst, u128::from(link));
        self.report_subfield(mp.dst);
    }

    pub(crate) fn bundle_action(&mut self, b: &Bundle, last: bool, in_bucket: bool) {
        let up = |port: OfPort| match port {
            OfPort::IN_PORT | OfPort::TABLE | OfPort::NORMAL | OfPort::FLOOD | OfPort::ALL | OfPort::NONE => {
                true
            }
            OfPort::CONTROLLER => false,
            _ => self.bridge.port(port).is_some_and(|p| p.is_live),
        };
        let members = b.members.iter().copied().enumerate().filter(|(_, p)| up(*p));
        let chosen = match b.algorithm {
            BundleAlgorithm::ActiveBackup => members.map(|(_, p)| p).next(),
            BundleAlgorithm::Hrw => {
                let hash = hash::of_fields(&self.out.flow, b.fields, u32::from(b.basis));
                members.max_by_key(|(i, _)| (hash::of_two(*i as u32, hash), Reverse(*i))).map(|(_, p)| p)
            }
        };
        if b.algorithm == BundleAlgorithm::Hrw && b.members.len() > 1 {
            hash::unwildcard(&self.out.flow, &mut self.out.mask, b.fields);
        }
        let port = chosen.unwrap_or(OfPort::NONE);
        match b.dst {
            Some(dst) => {
                self.write(dst, u128::from(port.0));
                self.report_subfield(dst);
            }
            None => self.output(port, 0, last, in_bucket),
        }
    }
}

/// Selects one of `n` links by a hash (RFC 2992 and similar algorithms). `arg` is the parameter of `iter_hash`. As in Open vSwitch, HRW
/// with more than 64 links hashes repeatedly instead of once for each link.
fn choose_link(hash: u32, algorithm: MultipathAlgorithm, n: u32, arg: u32) -> u32 {
    match algorithm {
        MultipathAlgorithm::ModuloN => hash % n,
        MultipathAlgorithm::HashThreshold if n == 1 => 0,
        MultipathAlgorithm::HashThreshold => hash / (u32::MAX / n + 1),
        MultipathAlgorithm::Hrw if n <= 64 => {
            (0..n).max_by_key(|l| (hash::of_two(hash, *l), n - l)).unwrap_or_default()
        }
        MultipathAlgorithm::Hrw => iterated(hash, n, 0),
        MultipathAlgorithm::IterHash => iterated(hash, n, arg),
    }
}

/// Hashes repeatedly until the hash modulo `modulo` is the number of a link.
fn iterated(hash: u32, n: u32, modulo: u32) -> u32 {
    let modulo = if modulo < n || modulo / 2 > n { n.next_power_of_two() } else { modulo };
    // Each try succeeds with probability 1/2 or more, so 256 failures happen only with a broken hash.
    (0..256).map(|i| hash::of_two(hash, i) % modulo).find(|l| *l < n).unwrap_or(hash % n)
}
