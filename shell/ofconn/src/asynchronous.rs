//! Subscriptions of a connection to asynchronous messages (OpenFlow 1.3.5 §6.1.2, §A.3.10).

use openflow::Version;
use openflow::packet_io::PacketInReason::{self, *};
use openflow::session::{AsyncConfig, Role};

/// A kind of asynchronous message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncKind {
    /// A packet for the controller.
    PacketIn,
    /// A port was added, removed or changed.
    PortStatus,
    /// A flow was removed.
    FlowRemoved,
    /// The role changed.
    RoleStatus,
    /// A table's vacancy changed.
    TableStatus,
    /// Another controller's request.
    RequestForward,
}

const KINDS: usize = 6;

/// A bit mask of subscribed reasons for each kind of message. The first row is for the roles equal and primary, the second for secondary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsyncMasks([[u32; KINDS]; 2]);

impl AsyncMasks {
    /// No messages.
    pub const NONE: AsyncMasks = AsyncMasks([[0; KINDS]; 2]);

    /// The default subscriptions of an OpenFlow version.
    pub fn default_for(version: Version) -> AsyncMasks {
        let bits = |reasons: &[PacketInReason]| reasons.iter().fold(0, |mask, r| mask | 1u32 << *r as u8);
        // `ActionSet`, `Group` and `PacketOut` exist since OpenFlow 1.4; in older versions the reason of these packet-ins is "action".
        let mut packet_in = bits(&[NoMatch, Action, ActionSet, Group, PacketOut, ExplicitMiss]);
        if version <= Version::V12 {
            // From 1.3 a table without a table-miss flow drops (OpenFlow 1.3.5 §5.4).
            packet_in |= bits(&[ImplicitMiss]);
        }
        let all_ports = 0b111;
        // From the lowest bit: idle timeout, hard timeout, delete; from 1.3 group delete; from 1.4 meter delete and eviction.
        let removed = match version {
            Version::V10 | Version::V11 | Version::V12 => 0b00_0111,
            Version::V13 => 0b00_1111,
            Version::V14 | Version::V15 => 0b11_1111,
        };
        let primary = [packet_in, all_ports, removed, 0, 0, 0];
        let secondary = [0, all_ports, 0, 0, 0, 0];
        AsyncMasks([primary, secondary])
    }

    /// Whether a connection in this role subscribed to messages of this kind and reason.
    pub fn wants(&self, role: Role, kind: AsyncKind, reason: u8) -> bool {
        let row = usize::from(role == Role::Secondary);
        reason < 32 && self.0[row][kind as usize] & 1 << reason != 0
    }

    /// Enables or disables a reason for connections that are not secondary.
    pub fn set(&mut self, kind: AsyncKind, reason: u8, on: bool) {
        let bit = 1u32.checked_shl(u32::from(reason)).unwrap_or(0);
        let mask = &mut self.0[0][kind as usize];
        *mask = if on { *mask | bit } else { *mask & !bit };
    }

    /// Applies a `SET_ASYNC` message; masks of kinds that the message does not contain stay as they are. A subscription to misses
    /// includes packets of table-miss flows, and before 1.3 packets that match no flow. Before 1.4, a subscription to actions includes
    /// action sets, groups and packet-outs, which have no reason of their own in those versions.
    pub fn apply(&mut self, config: &AsyncConfig, version: Version) {
        let misses = if version < Version::V13 { 0b1100_0000 } else { 0b0100_0000 };
        let actions = if version < Version::V14 { 0b11_1000 } else { 0 };
        for (kind, pair) in columns(config).into_iter().enumerate() {
            for (row, value) in pair.into_iter().enumerate() {
                if let Some(v) = value {
                    let implied = |reason: PacketInReason, others: u32| {
                        if v & 1 << reason as u8 != 0 { others } else { 0 }
                    };
                    let more = match kind == AsyncKind::PacketIn as usize {
                        true => implied(NoMatch, misses) | implied(Action, actions),
                        false => 0,
                    };
                    self.0[row][kind] = v | more;
                }
            }
        }
    }

    /// The content of a `GET_ASYNC` reply, limited to the reasons that the version has.
    pub fn to_config(self, version: Version) -> AsyncConfig {
        let packet_in_reasons = if version >= Version::V14 { 0b11_1111 } else { 0b111 };
        let pair = |kind: AsyncKind| {
            let shown = if kind == AsyncKind::PacketIn { packet_in_reasons } else { u32::MAX };
            [0, 1].map(|row: usize| Some(self.0[row][kind as usize] & shown))
        };
        AsyncConfig {
            packet_in: pair(AsyncKind::PacketIn),
            port_status: pair(AsyncKind::PortStatus),
            flow_removed: pair(AsyncKind::FlowRemoved),
            role_status: pair(AsyncKind::RoleStatus),
            table_status: pair(AsyncKind::TableStatus),
            request_forward: pair(AsyncKind::RequestForward),
        }
    }
}

/// The columns of a message in the order of [`AsyncKind`].
fn columns(c: &AsyncConfig) -> [[Option<u32>; 2]; KINDS] {
    [c.packet_in, c.port_status, c.flow_removed, c.role_status, c.table_status, c.request_forward]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secondary_gets_port_status_only() {
        let m = AsyncMasks::default_for(Version::V13);
        assert!(m.wants(Role::Equal, AsyncKind::PacketIn, 0));
        assert!(!m.wants(Role::Equal, AsyncKind::PacketIn, 2));
        assert!(!m.wants(Role::Secondary, AsyncKind::PacketIn, 0));
        assert!(m.wants(Role::Secondary, AsyncKind::PortStatus, 2));
    }

    #[test]
    fn a_message_changes_what_it_mentions() {
        let mut m = AsyncMasks::default_for(Version::V13);
        m.apply(&AsyncConfig { packet_in: [Some(1 << 2), None], ..AsyncConfig::default() }, Version::V13);
        assert!(
            m.wants(Role::Equal, AsyncKind::PacketIn, 2) && !m.wants(Role::Equal, AsyncKind::PacketIn, 0)
        );
        assert!(m.wants(Role::Equal, AsyncKind::FlowRemoved, 1));
        assert_eq!(m.to_config(Version::V13).packet_in, [Some(4), Some(0)]);
    }
}
