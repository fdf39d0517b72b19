//! Decapsulated packets on their way into the path on the tunnel port.
//!
//! They pass through the path in batches of their own, directly after the batch that contained them. The
//! fields of the outer headers stay beside the packets: only the words that megaflows of the tunnel port
//! match are written into keys.

use crate::packet::{Meta, Rare};
use crate::port::{Frame, FrameBatch};
use classifier::megaflow::convert::{options_of_tlv, tlv_of_options, tunnel_words};
use classifier::megaflow::{BATCH, Column, Options, TUNNEL_AT, TUNNEL_WORDS, Words, bits};
use flow::{Tlv, Tunnel};
use std::collections::VecDeque;

/// Outer headers of the packets of a batch, or none.
#[derive(Default)]
pub(crate) struct Outers {
    /// Those behind the first `len` are of no packet, and are overwritten before they are used again.
    tunnels: Vec<Tunnel>,
    len: usize,
}

impl Outers {
    fn new() -> Outers {
        Outers { tunnels: vec![Tunnel::default(); BATCH], len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds headers for `n` more packets; returns those to be filled, which have values of earlier packets.
    pub(crate) fn more(&mut self, n: usize) -> &mut [Tunnel] {
        let at = self.len;
        self.len += n;
        if self.tunnels.len() < self.len {
            self.tunnels.resize(self.len, Tunnel::default());
        }
        &mut self.tunnels[at..at + n]
    }

    /// Removes the header of packet `i`; the headers after it move up.
    pub(crate) fn remove(&mut self, i: usize) {
        if i < self.len {
            self.tunnels[i..self.len].rotate_left(1);
            self.len -= 1;
        }
    }

    fn tunnels(&self) -> &[Tunnel] {
        &self.tunnels[..self.len]
    }

    /// The outer header of packet `i`.
    pub(crate) fn get(&self, i: usize) -> Option<&Tunnel> {
        self.tunnels().get(i)
    }

    /// Returns the rare metadata of packet `i`.
    pub(crate) fn rare(&self, i: usize, options: &[Option<Box<Options>>]) -> Option<Box<Rare>> {
        let options = options.get(i).and_then(|o| o.as_deref()).map(|o| Box::new(tlv_of_options(o)));
        let &tunnel = self.get(i)?;
        Some(Box::new(Rare { tunnel, options, ..Rare::default() }))
    }

    /// Moves the header of packet `from` to place `to`.
    pub(crate) fn move_to(&mut self, from: usize, to: usize) {
        if from < self.len && to < self.len {
            self.tunnels.swap(from, to);
        }
    }

    /// Fills the columns of those of `words` that contain outer header fields.
    pub(crate) fn fill(&self, columns: &mut [Column], words: Words) {
        for at in bits(words & TUNNEL_WORDS) {
            let Some(column) = columns.get_mut(at) else { return };
            for (place, tunnel) in column.iter_mut().zip(self.tunnels()) {
                *place = tunnel_words(tunnel)[at - TUNNEL_AT];
            }
        }
    }
}

/// What the packets of a batch have in common.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Arrival {
    /// The tunnel port.
    pub(crate) port: u32,
    pub(crate) packet_type: u32,
    pub(crate) pkt_mark: u32,
    pub(crate) skb_priority: u32,
    pub(crate) passes: u8,
    pub(crate) vlan_limit: u8,
}

impl Arrival {
    /// For packets received on a tunnel port with this outer metadata.
    pub(crate) fn new(port: u32, outer: &Meta) -> Arrival {
        Arrival {
            port,
            packet_type: 0,
            pkt_mark: outer.pkt_mark,
            skb_priority: outer.skb_priority,
            passes: outer.passes + 1,
            vlan_limit: outer.vlan_limit,
        }
    }

    pub(crate) fn meta(self) -> Meta {
        let Arrival { port, packet_type, pkt_mark, skb_priority, passes, vlan_limit } = self;
        Meta { packet_type, pkt_mark, skb_priority, passes, vlan_limit, ..Meta::received(port) }
    }
}

/// Packets that pass through the path together.
pub(crate) struct Arrived {
    pub(crate) arrival: Arrival,
    pub(crate) frames: FrameBatch,
    pub(crate) outers: Outers,
    /// Options of the outer headers; shorter than the batch if the last packets have none.
    pub(crate) options: Vec<Option<Box<Options>>>,
}

impl Arrived {
    /// Removes the outer header of packet `i`, and its options; those of the packets after it move up.
    pub(crate) fn remove_header(&mut self, i: usize) {
        self.outers.remove(i);
        if i < self.options.len() {
            self.options.remove(i);
        }
    }
}

/// Batches that wait for their pass, in order.
#[derive(Default)]
pub(crate) struct PoppedBatches {
    waiting: VecDeque<Arrived>,
    /// Empty batches, kept for their memory.
    free: Vec<Arrived>,
}

impl PoppedBatches {
    /// Takes the last batch, if `more` packets can be added to it, or an empty one.
    pub(crate) fn open(&mut self, arrival: Arrival, more: usize) -> Arrived {
        let fits = |last: &mut Arrived| last.arrival == arrival && last.frames.len() + more <= BATCH;
        self.waiting.pop_back_if(fits).unwrap_or_else(|| self.empty(arrival))
    }

    /// Adds a batch.
    pub(crate) fn put(&mut self, batch: Arrived) {
        if batch.frames.is_empty() { self.give_back(batch) } else { self.waiting.push_back(batch) }
    }

    /// Adds a packet.
    pub(crate) fn push(&mut self, arrival: Arrival, frame: Frame, tunnel: &Tunnel, options: Option<&Tlv>) {
        let mut batch = self.open(arrival, 1);
        let Arrived { frames, outers, options: all, .. } = &mut batch;
        if let Some(options) = options {
            all.resize_with(frames.len(), || None);
            all.push(Some(options_of_tlv(options)));
        }
        frames.push(frame);
        outers.more(1).fill(*tunnel);
        self.put(batch);
    }

    fn empty(&mut self, arrival: Arrival) -> Arrived {
        let memory = self.free.pop().unwrap_or_else(|| Arrived {
            arrival,
            frames: Vec::with_capacity(BATCH),
            outers: Outers::new(),
            options: Vec::new(),
        });
        Arrived { arrival, ..memory }
    }

    /// Returns whether no packets wait.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The tunnel port of the next batch.
    pub(crate) fn first_port(&self) -> Option<u32> {
        self.waiting.front().map(|batch| batch.arrival.port)
    }

    pub(crate) fn next(&mut self) -> Option<Arrived> {
        self.waiting.pop_front()
    }

    /// Takes back an emptied batch for reuse.
    pub(crate) fn give_back(&mut self, batch: Arrived) {
        debug_assert!(batch.frames.is_empty() && batch.outers.is_empty() && batch.options.is_empty());
        self.free.push(batch);
    }
}
