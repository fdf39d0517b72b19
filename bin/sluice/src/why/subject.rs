//! The packets that are asked about: a flow, or a 5-tuple, and the packets of the opposite direction.

use std::net::IpAddr;

/// Transport protocols by name, each with its name in flows over IPv6.
const PROTOCOLS: [(&str, &str); 4] = [("tcp", "tcp6"), ("udp", "udp6"), ("sctp", "sctp6"), ("icmp", "icmp6")];

/// A match in the syntax of flows, and that of the answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub flow: String,
    pub answers: String,
}

impl Subject {
    /// From the arguments: a flow, or `PROTOCOL SOURCE[:PORT] DESTINATION[:PORT]`.
    pub fn parse(words: &[String]) -> Result<Subject, String> {
        match words {
            [flow] => Ok(Subject { flow: flow.clone(), answers: reversed(flow) }),
            [protocol, from, to] => Subject::of_tuple(protocol, from, to),
            _ => Err("which packets? a flow, as in tcp,nw_dst=10.0.0.2,tp_dst=80, or PROTOCOL SOURCE[:PORT] DESTINATION[:PORT], as in \
                      tcp 10.0.0.1 10.0.0.2:80"
                .to_owned()),
        }
    }

    fn of_tuple(protocol: &str, from: &str, to: &str) -> Result<Subject, String> {
        let known = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
        let (v4, v6) = known.ok_or_else(|| format!("{protocol}: none of tcp, udp, sctp and icmp"))?;
        let (from, to) = (end(from)?, end(to)?);
        if from.0.is_ipv4() != to.0.is_ipv4() {
            return Err("one address is of IPv4, the other of IPv6".to_owned());
        }
        let (name, address) = if from.0.is_ipv4() { (v4, "nw") } else { (v6, "ipv6") };
        let mut flow = format!("{name},{address}_src={},{address}_dst={}", from.0, to.0);
        for (field, port) in [("tp_src", from.1), ("tp_dst", to.1)] {
            match port {
                Some(_) if *v4 == "icmp" => return Err("icmp has no ports".to_owned()),
                Some(port) => flow += &format!(",{field}={port}"),
                None => {}
            }
        }
        let answers = reversed(&flow);
        Ok(Subject { flow, answers })
    }
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
fn end(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let wrong = || format!("{text}: not ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT");
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok((address, None));
    }
    let socket: std::net::SocketAddr = text.parse().map_err(|_| wrong())?;
    Ok((socket.ip(), Some(socket.port())))
}

/// The match of the opposite direction: sources and destinations change places. The type of ICMP messages differs there, so it is
/// left out, and so is the port, because answers arrive elsewhere.
fn reversed(flow: &str) -> String {
    let fields = flow.split(',').filter(|field| !field.starts_with("icmp") || !field.contains('='));
    let swapped = fields.map(|field| match field.split_once('=') {
        Some((name, value)) if name.ends_with("_src") => format!("{}_dst={value}", &name[..name.len() - 4]),
        Some((name, value)) if name.ends_with("_dst") => format!("{}_src={value}", &name[..name.len() - 4]),
        _ => field.to_owned(),
    });
    swapped.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(String, String), String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Subject::parse(&words).map(|s| (s.flow, s.answers))
    }

    #[test]
    fn flows_and_tuples() {
        let pair = |a: &str, b: &str| Ok((a.to_owned(), b.to_owned()));
        assert_eq!(
            parse("tcp 10.0.0.1 10.0.0.2:80"),
            pair(
                "tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80",
                "tcp,nw_dst=10.0.0.1,nw_src=10.0.0.2,tp_src=80"
            )
        );
        assert_eq!(
            parse("udp [::1]:5 ::2"),
            pair("udp6,ipv6_src=::1,ipv6_dst=::2,tp_src=5", "udp6,ipv6_dst=::1,ipv6_src=::2,tp_dst=5")
        );
        assert_eq!(
            parse("icmp,icmp_type=8,nw_src=1.2.3.4"),
            pair("icmp,icmp_type=8,nw_src=1.2.3.4", "icmp,nw_dst=1.2.3.4")
        );
        for wrong in
            ["gre 10.0.0.1 10.0.0.2", "tcp 10.0.0.1 ::1", "icmp 10.0.0.1:7 10.0.0.2", "tcp x 10.0.0.1", "a b"]
        {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
