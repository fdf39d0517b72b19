//! How long a connection stays without a packet, by how far it has got. The times are those of Open vSwitch's datapath.

use units::Millis;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// TCP: only the first end has spoken.
    TcpFirst,
    /// Both have, and not yet agreed.
    TcpOpening,
    /// Data goes.
    TcpEstablished,
    /// One end has closed.
    TcpClosing,
    /// Both have, one of them without an answer.
    TcpFinWait,
    /// It is over.
    TcpClosed,
    /// UDP and the like: one packet.
    OtherFirst,
    /// More than one, in one direction.
    OtherSingle,
    /// In both directions.
    OtherMultiple,
    /// ICMP: a request.
    IcmpFirst,
    /// And an answer.
    IcmpReply,
}

impl Timeout {
    /// When it is over, if nothing comes after `now`.
    pub(crate) fn after(self, now: Millis) -> Millis {
        let seconds = match self {
            Timeout::TcpFirst | Timeout::TcpOpening | Timeout::TcpClosed => 30,
            Timeout::TcpEstablished => 24 * 60 * 60,
            Timeout::TcpClosing => 15 * 60,
            Timeout::TcpFinWait => 45,
            Timeout::OtherFirst | Timeout::OtherSingle | Timeout::IcmpFirst => 60,
            Timeout::OtherMultiple | Timeout::IcmpReply => 30,
        };
        now + Millis::from_secs(seconds)
    }
}
