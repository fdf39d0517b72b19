//! Timeouts of connections without packets, by state. The times are those of Open vSwitch's datapath, unless the
//! connection has a timeout policy.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};
use units::Millis;

/// The state on which the timeout of a connection depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeout {
    /// TCP: only the initiator has sent a segment.
    TcpFirst,
    /// TCP: both endpoints have sent a segment, and the handshake is not complete.
    TcpOpening,
    /// TCP: established.
    TcpEstablished,
    /// TCP: one endpoint has closed.
    TcpClosing,
    /// TCP: both endpoints have closed, and one has not received the acknowledgement yet.
    TcpFinWait,
    /// TCP: closed.
    TcpClosed,
    /// UDP and similar: one packet.
    OtherFirst,
    /// UDP and similar: several packets in one direction.
    OtherSingle,
    /// UDP and similar: packets in both directions.
    OtherMultiple,
    /// ICMP: a request.
    IcmpFirst,
    /// ICMP: a request and a reply.
    IcmpReply,
}

/// Number of [`Timeout`]s.
const TIMEOUTS: usize = 11;

/// Timeouts, in seconds, of the connections that are committed with this policy. A timeout that the policy does not set has its default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeoutPolicy([u32; TIMEOUTS]);

impl Default for TimeoutPolicy {
    fn default() -> TimeoutPolicy {
        TimeoutPolicy([30, 30, 24 * 60 * 60, 15 * 60, 45, 30, 60, 60, 30, 60, 30])
    }
}

impl TimeoutPolicy {
    /// Makes a policy from timeouts in seconds, in the order of the variants of `Timeout`. TCP: after the first packet, opening,
    /// established, closing, both endpoints closing, closed. UDP and similar: after the first packet, packets in one direction, packets in
    /// both. ICMP: after a request, after a reply. `None`: the default.
    pub fn new(seconds: [Option<u32>; TIMEOUTS]) -> TimeoutPolicy {
        let mut policy = TimeoutPolicy::default();
        for (own, wanted) in policy.0.iter_mut().zip(seconds) {
            *own = wanted.unwrap_or(*own);
        }
        policy
    }

    fn after(&self, timeout: Timeout, now: Millis) -> Millis {
        now + Millis::from_secs(self.0[timeout as usize].into())
    }
}

impl Timeout {
    /// The time at which the connection expires without a timeout policy, if no packet arrives after `now`.
    #[inline(always)]
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

/// The timeout policies by number.
///
/// **Threads**: workers read the policies of connections that have one; the control half writes them.
#[derive(Debug, Default)]
pub(crate) struct Policies(RwLock<BTreeMap<u16, TimeoutPolicy>>);

impl Policies {
    /// The time at which a connection with this policy expires, if no packet arrives after `now`. 0 and unknown policy numbers mean no
    /// policy.
    #[inline(always)]
    pub(crate) fn after(&self, policy: u16, timeout: Timeout, now: Millis) -> Millis {
        if policy == 0 { timeout.after(now) } else { self.after_of(policy, timeout, now) }
    }

    #[cold]
    fn after_of(&self, policy: u16, timeout: Timeout, now: Millis) -> Millis {
        let policies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        policies.get(&policy).map_or_else(|| timeout.after(now), |p| p.after(timeout, now))
    }

    /// Sets or (`None`) removes a policy. Connections with this policy use the new timeouts from their next
    /// packet on.
    pub(crate) fn set(&self, number: u16, policy: Option<TimeoutPolicy>) {
        let mut policies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match policy {
            Some(policy) => policies.insert(number, policy),
            None => policies.remove(&number),
        };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_sets_nothing_is_as_none() {
        let all = [
            Timeout::TcpFirst,
            Timeout::TcpOpening,
            Timeout::TcpEstablished,
            Timeout::TcpClosing,
            Timeout::TcpFinWait,
            Timeout::TcpClosed,
            Timeout::OtherFirst,
            Timeout::OtherSingle,
            Timeout::OtherMultiple,
            Timeout::IcmpFirst,
            Timeout::IcmpReply,
        ];
        let policies = Policies::default();
        policies.set(3, Some(TimeoutPolicy::default()));
        for timeout in all {
            let without = policies.after(0, timeout, Millis(5));
            assert_eq!(
                [policies.after(3, timeout, Millis(5)), policies.after(9, timeout, Millis(5))],
                [without; 2]
            );
        }
        let mut seconds = [None; TIMEOUTS];
        seconds[Timeout::OtherMultiple as usize] = Some(7);
        policies.set(3, Some(TimeoutPolicy::new(seconds)));
        assert_eq!(policies.after(3, Timeout::OtherMultiple, Millis(0)), Millis(7000));
        policies.set(3, None);
        assert_eq!(policies.after(3, Timeout::OtherMultiple, Millis(0)), Millis(30_000));
    }
}
