//! What the actions of a megaflow do with a packet, as far as samples of the packet report it.

use flow::{Flow, Tunnel};
use units::PortNo;

/// Levels of label stack entries that are reported.
const LABELS_MAX: usize = 3;
/// The bit of a label stack entry that marks the last one.
const BOTTOM: u32 = 0x100;

/// A change of the label stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LabelChange {
    Push(u32),
    Pop,
}

/// The tunnel to which a packet is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutTunnel {
    /// The outer header.
    pub outer: Tunnel,
    /// Its IP protocol; 0: that of the output port's kind.
    pub protocol: u8,
}

/// What the actions of a megaflow do with a packet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Egress {
    /// The packet is sent.
    pub outputs: bool,
    /// The port to which it is sent last.
    pub port: Option<PortNo>,
    pub(crate) tunnel: Option<OutTunnel>,
    /// Headers of tunnels that are added.
    pub(crate) tunnels: u32,
    /// A header is removed.
    pub(crate) unwrapped: bool,
    pub(crate) labels: Vec<LabelChange>,
}

impl Egress {
    /// The tunnel to which the packet is sent, if it is exactly one.
    pub fn tunnel(&self) -> Option<OutTunnel> {
        self.tunnel.filter(|_| self.tunnels == 1 && !self.unwrapped)
    }

    /// The label stack with which a packet is sent, the outermost entry first; `None`: it has more entries than are reported, or
    /// fewer than the actions remove.
    pub fn labels(&self, flow: &Flow) -> Option<Vec<u32>> {
        let mut stack = Vec::new();
        if matches!(flow.dl_type, 0x8847 | 0x8848) {
            let depth =
                flow.mpls_lse.iter().position(|lse| lse & BOTTOM != 0).map_or(LABELS_MAX, |at| at + 1);
            stack.extend(flow.mpls_lse.iter().take(depth).rev());
        }
        for change in &self.labels {
            match change {
                LabelChange::Push(_) if stack.len() >= LABELS_MAX => return None,
                LabelChange::Push(lse) => stack.push(*lse),
                LabelChange::Pop => drop(stack.pop()?),
            }
        }
        stack.reverse();
        Some(stack)
    }
}
