//! A datagram that is being filled with samples.

use crate::write::Write;
use std::net::IpAddr;

/// Maximum length: with the headers of IP and UDP it fits in an Ethernet frame.
pub(super) const DATAGRAM_MAX: usize = 1400;
/// Maximum length of a sample: half of a datagram.
const SAMPLE_MAX: usize = DATAGRAM_MAX / 2;
/// The version of sFlow.
const VERSION: u32 = 5;

pub(super) struct Datagram {
    /// What every datagram begins with: version, address and number of the agent.
    head: Vec<u8>,
    /// Samples with their headers.
    body: Vec<u8>,
    samples: u32,
    sent: u32,
}

/// Bytes between the head and the samples: sequence number, uptime, number of samples.
const COUNTS: usize = 12;
/// Kind and length of a sample.
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

    /// Adds a sample; if it might not fit, the datagram ends before it. Returns false if it fits in no datagram.
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

    /// Ends the datagram, if it has a sample.
    pub(super) fn end(&mut self, uptime: u32, out: &mut Vec<Vec<u8>>) {
        if self.samples == 0 {
            return;
        }
        self.sent = self.sent.wrapping_add(1);
        let mut whole = Vec::with_capacity(self.head.len() + COUNTS + self.body.len());
        whole.bytes(&self.head);
        whole.u32(self.sent);
        whole.u32(uptime);
        whole.u32(std::mem::take(&mut self.samples));
        whole.bytes(&self.body);
        self.body.clear();
        out.push(whole);
    }
}
