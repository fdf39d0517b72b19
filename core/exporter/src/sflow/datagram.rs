//! A datagram that is being filled with samples.

use crate::write::WriteBigEndian;
use std::net::IpAddr;

/// Maximum length in bytes: with IP and UDP headers the datagram fits in an Ethernet frame.
pub(super) const DATAGRAM_MAX: usize = 1400;
/// Maximum length of a sample in bytes: half of a datagram.
const SAMPLE_MAX: usize = DATAGRAM_MAX / 2;
/// The version of sFlow.
const VERSION: u32 = 5;

/// The incomplete datagram of an agent.
pub(super) struct Datagram {
    /// The beginning of every datagram: version, address and number of the agent.
    head: Vec<u8>,
    /// The samples, each with its header.
    body: Vec<u8>,
    /// Number of samples in `body`.
    samples: u32,
    /// Sequence number of the last complete datagram.
    sent: u32,
}

/// Bytes between the head and the samples: sequence number, uptime, number of samples.
const COUNTS: usize = 12;
/// Bytes of a sample's header: kind and length.
const SAMPLE_HEADER: usize = 8;

impl Datagram {
    pub(super) fn new(address: IpAddr, agent: u32) -> Datagram {
        let mut head = Vec::new();
        head.u32(VERSION);
        match address {
            IpAddr::V4(a) => {
                head.u32(1);
                head.bytes(&a.octets());
            }
            IpAddr::V6(a) => {
                head.u32(2);
                head.bytes(&a.octets());
            }
        }
        head.u32(agent);
        Datagram { head, body: Vec::new(), samples: 0, sent: 0 }
    }

    /// Adds a sample; if there is not enough space for it, first completes the datagram. Returns false if the sample is too
    /// long for any datagram.
    pub(super) fn add(&mut self, kind: u32, sample: &[u8], uptime: u32, out: &mut Vec<Vec<u8>>) -> bool {
        let len = SAMPLE_HEADER + sample.len();
        if len > SAMPLE_MAX {
            return false;
        }
        if self.head.len() + COUNTS + self.body.len() + len >= DATAGRAM_MAX {
            self.end(uptime, out);
        }
        self.samples += 1;
        self.body.u32(kind);
        self.body.u32(sample.len() as u32);
        self.body.bytes(sample);
        true
    }

    /// Completes the datagram if it has a sample, and appends it to `out`.
    pub(super) fn end(&mut self, uptime: u32, out: &mut Vec<Vec<u8>>) {
        if self.samples == 0 {
            return;
        }
        self.sent = self.sent.wrapping_add(1);
        let mut datagram = Vec::with_capacity(self.head.len() + COUNTS + self.body.len());
        datagram.bytes(&self.head);
        datagram.u32(self.sent);
        datagram.u32(uptime);
        datagram.u32(std::mem::take(&mut self.samples));
        datagram.bytes(&self.body);
        self.body.clear();
        out.push(datagram);
    }
}
