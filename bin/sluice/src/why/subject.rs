//! The packets to explain: a flow or a 5-tuple from the command line, and the packets of the opposite direction.

use std::net::{IpAddr, Ipv4Addr};

/// Transport protocols by name, each with its name in flows over IPv6.
const PROTOCOLS: [(&str, &str); 4] = [("tcp", "tcp6"), ("udp", "udp6"), ("sctp", "sctp6"), ("icmp", "icmp6")];

/// The match of the packets and the match of their answers, in the syntax of flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub flow: String,
    pub answers: String,
}

/// The requests (ARP or neighbour discovery) for the hardware address of the destination, which a sender sends before it sends packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requests {
    pub subject: Subject,
    /// The IP address whose hardware address is requested.
    pub target: String,
    /// `ARP` or `neighbour discovery`.
    pub protocol: &'static str,
}

impl Subject {
    /// Parses the arguments: a flow, or `PROTOCOL SOURCE[:PORT] DESTINATION[:PORT]`.
    pub fn parse(words: &[String]) -> Result<Subject, String> {
        match words {
            [flow] => Ok(Subject { flow: flow.clone(), answers: reversed(flow) }),
            [protocol, from, to] => Subject::of_tuple(protocol, from, to),
            _ => {
                let problem = if words.is_empty() { "missing argument" } else { "wrong number of arguments" };
                Err(format!(
                    "{problem}: FLOW, as in tcp,nw_dst=10.0.0.2,tp_dst=80, or PROTOCOL SOURCE[:PORT] DESTINATION[:PORT], \
                     as in tcp 10.0.0.1 10.0.0.2:80"
                ))
            }
        }
    }

    fn of_tuple(protocol: &str, from: &str, to: &str) -> Result<Subject, String> {
        let (from, to) = (parse_endpoint(from)?, parse_endpoint(to)?);
        if protocol == "arp" && from.1.or(to.1).is_none() {
            return arp(&from.0.to_string(), &to.0.to_string());
        }
        let known = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
        let (v4, v6) = known.ok_or_else(|| format!("{protocol}: none of tcp, udp, sctp, icmp and arp"))?;
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

    /// The requests that a sender sends before the packets of this flow; `None` if the flow does not contain both IP addresses.
    pub fn requests(&self) -> Option<Requests> {
        let value = |name: &str| {
            let mut fields = self.flow.split(',').filter_map(|field| field.split_once('='));
            fields.find(|(field, _)| *field == name).map(|(_, value)| value)
        };
        let address = |name| value(name).filter(|text| text.parse::<IpAddr>().is_ok());
        if let Some((from, to)) = address("nw_src").zip(address("nw_dst")) {
            // Unicast requests only confirm an address that the sender knows, so match broadcast requests.
            let mut subject = arp(from, to).ok()?;
            subject.flow += ",dl_dst=ff:ff:ff:ff:ff:ff";
            return Some(Requests { subject, target: to.to_owned(), protocol: "ARP" });
        }
        let (from, to) = address("ipv6_src").zip(address("ipv6_dst"))?;
        let subject = Subject {
            flow: format!("icmp6,icmp_type=135,ipv6_src={from},ipv6_dst=ff02::/16,nd_target={to}"),
            answers: format!("icmp6,icmp_type=136,ipv6_dst={from},nd_target={to}"),
        };
        Some(Requests { subject, target: to.to_owned(), protocol: "neighbour discovery" })
    }
}

/// ARP requests of the IP address `from` for the address `to`, and their answers.
fn arp(from: &str, to: &str) -> Result<Subject, String> {
    match [from, to].iter().all(|end| end.parse::<Ipv4Addr>().is_ok()) {
        true => Ok(Subject {
            flow: format!("arp,arp_spa={from},arp_tpa={to}"),
            answers: format!("arp,arp_spa={to},arp_tpa={from}"),
        }),
        false => Err("ARP is for addresses of IPv4".to_owned()),
    }
}

/// `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`.
fn parse_endpoint(text: &str) -> Result<(IpAddr, Option<u16>), String> {
    let wrong = || format!("{text}: not ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT");
    if let Ok(address) = text.trim_start_matches('[').trim_end_matches(']').parse() {
        return Ok((address, None));
    }
    let socket: std::net::SocketAddr = text.parse().map_err(|_| wrong())?;
    Ok((socket.ip(), Some(socket.port())))
}

/// The match of the opposite direction: sources and destinations are swapped. Type and code of ICMP messages, the operation of
/// ARP and the ingress port are left out, because they differ in the opposite direction.
fn reversed(flow: &str) -> String {
    let is_shared = |name: &str| !name.starts_with("icmp") && !matches!(name, "in_port" | "arp_op");
    let fields =
        flow.split(',').filter(|field| field.split_once('=').is_none_or(|(name, _)| is_shared(name)));
    let swapped = fields.map(|field| match field.split_once('=') {
        Some(("arp_spa", value)) => format!("arp_tpa={value}"),
        Some(("arp_tpa", value)) => format!("arp_spa={value}"),
        Some(("arp_sha", value)) => format!("arp_tha={value}"),
        Some(("arp_tha", value)) => format!("arp_sha={value}"),
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
    fn answers_have_no_field_that_differs_in_them() {
        assert_eq!(
            reversed("arp,in_port=1,arp_op=1,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,arp_sha=02:00:00:00:00:01"),
            "arp,arp_tpa=10.0.0.1,arp_spa=10.0.0.2,arp_tha=02:00:00:00:00:01"
        );
        assert_eq!(reversed("icmp,icmp_type=8,dl_src=02:00:00:00:00:01"), "icmp,dl_dst=02:00:00:00:00:01");
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
        assert_eq!(
            parse("arp 10.0.0.1 10.0.0.2"),
            pair("arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2", "arp,arp_spa=10.0.0.2,arp_tpa=10.0.0.1")
        );
        for wrong in [
            "gre 10.0.0.1 10.0.0.2",
            "tcp 10.0.0.1 ::1",
            "icmp 10.0.0.1:7 10.0.0.2",
            "tcp x 10.0.0.1",
            "a b",
            "arp ::1 ::2",
            "arp 1.1.1.1:5 1.1.1.2",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_come_before_packets_of_two_addresses() {
        let of = |flow: &str| {
            let subject = Subject { flow: flow.to_owned(), answers: String::new() };
            subject.requests().map(|r| (r.subject.flow, r.target))
        };
        let found = of("tcp,nw_src=10.0.0.1,nw_dst=10.0.0.2,tp_dst=80").unwrap();
        assert_eq!(
            found,
            (
                "arp,arp_spa=10.0.0.1,arp_tpa=10.0.0.2,dl_dst=ff:ff:ff:ff:ff:ff".to_owned(),
                "10.0.0.2".to_owned()
            )
        );
        let found = of("udp6,ipv6_src=::1,ipv6_dst=::2").unwrap();
        assert_eq!(found.0, "icmp6,icmp_type=135,ipv6_src=::1,ipv6_dst=ff02::/16,nd_target=::2");
        for none in
            ["tcp", "ip,nw_src=10.0.0.1", "ip,nw_src=10.0.0.0/8,nw_dst=10.0.0.2", "arp,arp_spa=1.1.1.1"]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
