//! Popped: a queue of decapsulated packets, which are then processed as packets received on the tunnel port.
//!
//! They pass through the path in batches of their own, directly after the batch that contained them. The fields of
//! the outer headers are kept in a separate array: only words that megaflows of the tunnel port match are written
//! into keys.

use crate::packet::{Meta, Rare};
use crate::port::{Frame, FrameBatch};
use classifier::megaflow::convert::{options_of_tlv, tlv_of_options, tunnel_words};
use classifier::megaflow::{BATCH, Column, Options, TUNNEL_AT, TUNNEL_WORDS, Words, bits};
use flow::{Tlv, Tunnel};
use std::collections::VecDeque;

/// Outer headers of all packets of a batch, or of none.
#[derive(Default)]
pub(crate) struct OuterHeaders {
    /// Only the first `len` elements are valid; the others are overwritten before use.
    tunnels: Vec<Tunnel>,
    len: usize,
}

impl OuterHeaders {
    fn new() -> OuterHeaders {
        OuterHeaders { tunnels: vec![Tunnel::default(); BATCH], len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `n` headers and returns them. They contain stale values: the caller must overwrite them.
    pub(crate) fn grow(&mut self, n: usize) -> &mut [Tunnel] {
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

    /// Swaps the headers of packets `from` and `to`.
    pub(crate) fn swap(&mut self, from: usize, to: usize) {
        if from < self.len && to < self.len {
            self.tunnels.swap(from, to);
        }
    }

    /// Writes outer header fields into the columns of keys that `words` selects.
    pub(crate) fn fill(&self, columns: &mut [Column], words: Words) {
        for at in bits(words & TUNNEL_WORDS) {
            let Some(column) = columns.get_mut(at) else { return };
            for (place, tunnel) in column.iter_mut().zip(self.tunnels()) {
                *place = tunnel_words(tunnel)[at - TUNNEL_AT];
            }
        }
    }
}

/// Metadata that all packets of a popped batch share.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct PoppedMeta {
    /// The tunnel port.
    pub(crate) port: u32,
    pub(crate) packet_type: u32,
    pub(crate) pkt_mark: u32,
    pub(crate) skb_priority: u32,
    pub(crate) passes: u8,
    pub(crate) vlan_limit: u8,
}

impl PoppedMeta {
    /// Returns the metadata of packets that are received on a tunnel port, from the metadata of the outer packets.
    pub(crate) fn new(port: u32, outer: &Meta) -> PoppedMeta {
        PoppedMeta {
            port,
            packet_type: 0,
            pkt_mark: outer.pkt_mark,
            skb_priority: outer.skb_priority,
            passes: outer.passes + 1,
            vlan_limit: outer.vlan_limit,
        }
    }

    pub(crate) fn meta(self) -> Meta {
        let PoppedMeta { port, packet_type, pkt_mark, skb_priority, passes, vlan_limit } = self;
        Meta { packet_type, pkt_mark, skb_priority, passes, vlan_limit, ..Meta::received(port) }
    }
}

/// Decapsulated packets that are processed together.
pub(crate) struct PoppedBatch {
    pub(crate) popped_meta: PoppedMeta,
    pub(crate) frames: FrameBatch,
    pub(crate) outers: OuterHeaders,
    /// Options of the outer headers. Shorter than the batch if the last packets have none.
    pub(crate) options: Vec<Option<Box<Options>>>,
}

impl PoppedBatch {
    /// Removes the outer header of packet `i`, and its options; those of the packets after it move up.
    pub(crate) fn remove_header(&mut self, i: usize) {
        self.outers.remove(i);
        if i < self.options.len() {
            self.options.remove(i);
        }
    }
}

/// Popped batches that wait to be processed, in order.
#[derive(Default)]
pub(crate) struct PoppedBatches {
    waiting: VecDeque<PoppedBatch>,
    /// Empty batches, kept to avoid allocations.
    free: Vec<PoppedBatch>,
}

impl PoppedBatches {
    /// Removes and returns the last batch, if it has the same metadata and space for `more` packets; otherwise
    /// returns an empty batch.
    pub(crate) fn take_for_append(&mut self, popped_meta: PoppedMeta, more: usize) -> PoppedBatch {
        let fits =
            |last: &mut PoppedBatch| last.popped_meta == popped_meta && last.frames.len() + more <= BATCH;
        self.waiting.pop_back_if(fits).unwrap_or_else(|| self.empty(popped_meta))
    }

    /// Adds a batch to the queue. An empty batch is recycled instead.
    pub(crate) fn push_batch(&mut self, batch: PoppedBatch) {
        if batch.frames.is_empty() { self.recycle(batch) } else { self.waiting.push_back(batch) }
    }

    /// Adds a packet to the last batch, or to a new one.
    pub(crate) fn push_packet(
        &mut self,
        popped_meta: PoppedMeta,
        frame: Frame,
        tunnel: &Tunnel,
        options: Option<&Tlv>,
    ) {
        let mut batch = self.take_for_append(popped_meta, 1);
        let PoppedBatch { frames, outers, options: all, .. } = &mut batch;
        if let Some(options) = options {
            all.resize_with(frames.len(), || None);
            all.push(Some(options_of_tlv(options)));
        }
        frames.push(frame);
        outers.grow(1).fill(*tunnel);
        self.push_batch(batch);
    }

    fn empty(&mut self, popped_meta: PoppedMeta) -> PoppedBatch {
        let memory = self.free.pop().unwrap_or_else(|| PoppedBatch {
            popped_meta,
            frames: Vec::with_capacity(BATCH),
            outers: OuterHeaders::new(),
            options: Vec::new(),
        });
        PoppedBatch { popped_meta, ..memory }
    }

    /// Returns whether no batches wait.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The tunnel port of the next batch.
    pub(crate) fn first_port(&self) -> Option<u32> {
        self.waiting.front().map(|batch| batch.popped_meta.port)
    }

    pub(crate) fn next(&mut self) -> Option<PoppedBatch> {
        self.waiting.pop_front()
    }

    /// Keeps the memory of an emptied batch for reuse.
    pub(crate) fn recycle(&mut self, batch: PoppedBatch) {
        debug_assert!(batch.frames.is_empty() && batch.outers.is_empty() && batch.options.is_empty());
        self.free.push(batch);
    }
}
