//! What the actions of a megaflow do with a packet, as far as samples report it.

use flow::{Flow, Tunnel};
use units::PortNo;

/// Maximum number of label stack entries that samples report.
const LABELS_MAX: usize = 3;
/// The bottom-of-stack bit of a label stack entry, which is set in the last entry.
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
    /// IP protocol of the outer header; 0: it follows from the kind of the output port.
    pub protocol: u8,
}

/// What the actions of a megaflow do with a packet, as samples report it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Egress {
    /// The packet is sent.
    pub is_sent: bool,
    /// The port of the last output.
    pub port: Option<PortNo>,
    /// The tunnel of the last output to a tunnel.
    pub(crate) tunnel: Option<OutTunnel>,
    /// Number of tunnel headers that are added.
    pub(crate) tunnels: u32,
    /// A tunnel header is removed.
    pub(crate) decapsulated: bool,
    /// The changes of the label stack, in order.
    pub(crate) labels: Vec<LabelChange>,
}

impl Egress {
    /// The tunnel to which the packet is sent; `None` if there is none or more than one.
    pub fn tunnel(&self) -> Option<OutTunnel> {
        self.tunnel.filter(|_| self.tunnels == 1 && !self.decapsulated)
    }

    /// The label stack of the sent packet, the outermost entry first. `flow`: the fields of the received packet. `None` if the
    /// stack has more entries than samples report, or fewer than the actions remove.
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
