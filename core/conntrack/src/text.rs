//! Text form of connections: the output of `dpctl/dump-conntrack`.

use crate::dump::ConnectionSnapshot;
use crate::helper::ExpectedConnection;
use crate::key::{Key, is_icmp};
use crate::tcp::{Scale, TcpEndpoint, TcpState};
use packet::ipproto;
use std::fmt;
use std::fmt::Write as _;

impl TcpState {
    /// All states in the order of their numbers.
    pub const ALL: [TcpState; 11] = [
        TcpState::Closed,
        TcpState::Listen,
        TcpState::SynSent,
        TcpState::SynRecv,
        TcpState::Established,
        TcpState::CloseWait,
        TcpState::FinWait1,
        TcpState::Closing,
        TcpState::LastAck,
        TcpState::FinWait2,
        TcpState::TimeWait,
    ];

    /// The name of the state in dumps.
    pub fn name(self) -> &'static str {
        match self {
            TcpState::Closed => "CLOSED",
            TcpState::Listen => "LISTEN",
            TcpState::SynSent => "SYN_SENT",
            TcpState::SynRecv => "SYN_RECV",
            TcpState::Established => "ESTABLISHED",
            TcpState::CloseWait => "CLOSE_WAIT",
            TcpState::FinWait1 => "FIN_WAIT_1",
            TcpState::Closing => "CLOSING",
            TcpState::LastAck => "LAST_ACK",
            TcpState::FinWait2 => "FIN_WAIT_2",
            TcpState::TimeWait => "TIME_WAIT",
        }
    }
}

/// The name of an IP protocol, or its number.
struct Protocol(u8);

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            ipproto::ICMP => "icmp",
            ipproto::ICMPV6 => "icmpv6",
            ipproto::TCP => "tcp",
            ipproto::UDP => "udp",
            ipproto::SCTP => "sctp",
            136 => "udplite",
            33 => "dccp",
            ipproto::IGMP => "igmp",
            other => return write!(f, "{other}"),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "src={},dst={}", self.src(), self.dst())?;
        if is_icmp(self.proto()) {
            let (id, kind, code) = self.icmp();
            return write!(f, ",id={id},type={kind},code={code}");
        }
        let (src, dst) = self.ports();
        write!(f, ",sport={src},dport={dst}")
    }
}

impl ConnectionSnapshot {
    /// One line, without line end. `verbose`: includes less common fields. `statistics`: includes the time until the connection expires.
    pub fn text(&self, verbose: bool, statistics: bool) -> String {
        let ConnectionSnapshot { original, reply, mark, label, .. } = self;
        let mut text = format!("{},orig=({original}),reply=({reply})", Protocol(original.proto()));
        let mut put = |condition: bool, part: fmt::Arguments<'_>| {
            if condition {
                let _ = text.write_fmt(part);
            }
        };
        put(verbose, format_args!(",id=0"));
        put(original.zone() != 0, format_args!(",zone={}", original.zone()));
        put(verbose, format_args!(",status=0"));
        put(statistics, format_args!(",timeout={}", self.left.0 / 1000));
        put(*mark != 0, format_args!(",mark={mark}"));
        put(*label != 0, format_args!(",labels={label:#x}"));
        if let Some(state) = self.tcp_state() {
            match &self.tcp {
                Some(endpoints) if verbose => {
                    put(true, format_args!(",protoinfo=({})", endpoints_text(endpoints)))
                }
                _ => put(true, format_args!(",protoinfo=(state={})", state.name())),
            }
        }
        if let Some(helper) = self.helper {
            let _ = write!(text, ",helper={}", helper.name());
        }
        text
    }
}

impl fmt::Display for ExpectedConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ExpectedConnection { key, parent, mark, label } = self;
        write!(f, "{},orig=({key})", Protocol(key.proto()))?;
        if key.zone() != 0 {
            write!(f, ",zone={}", key.zone())?;
        }
        if *mark != 0 {
            write!(f, ",mark={mark}")?;
        }
        if *label != [0; 2] {
            write!(f, ",labels={:#x}", crate::dump::u128_of(*label))?;
        }
        write!(f, ",parent=({parent})")
    }
}

fn endpoints_text([a, b]: &[TcpEndpoint; 2]) -> String {
    let mut text = format!("state_orig={},state_reply={}", a.state.name(), b.state.name());
    let (own, other) = (a.shift(), b.shift());
    if own != 0 || other != 0 {
        let _ = write!(text, ",wscale_orig={own},wscale_reply={other}");
    }
    let flags = |p: &TcpEndpoint| match p.scale {
        Scale::None => "0",
        Scale::By(_) => "WINDOW_SCALE",
        Scale::Unknown => "BE_LIBERAL",
    };
    let _ = write!(text, ",flags_orig={},flags_reply={}", flags(a), flags(b));
    text
}
