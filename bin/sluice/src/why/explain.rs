//! Explains a flow: sentences about the facts, and a conclusion. This code reads nothing from the switch.

use super::conclusion::conclude;
use super::facts::Facts;
use super::sentences::{connections, direction, logical_names, megaflow, recent_drop, tables, trouble};

/// The explanation of a flow: sentences, and the conclusion.
pub struct Explanation {
    pub sentences: Vec<String>,
    pub conclusion: String,
}

/// The explanation of these facts.
pub fn explain(facts: &Facts) -> Explanation {
    let mut out = Vec::new();
    let (noun, what) = match (&facts.requests, facts.is_synthetic) {
        (Some(_), _) => ("Requests", "the requests"),
        (None, true) => ("Packets", "a packet made from the flow"),
        (None, false) => ("Packets", "the packets"),
    };
    if facts.requests.is_some() {
        out.push(format!("Packets: no packet was seen at any port in {} s.", facts.seconds));
    }
    direction(&mut out, noun, &facts.forward, facts.seconds);
    direction(&mut out, "Answers", &facts.reverse, facts.seconds);
    let mut troubles = Vec::new();
    for (why, what) in [(&facts.why_forward, what), (&facts.why_reverse, "the answers")] {
        let Some(why) = why else { continue };
        tables(&mut out, what, why);
        connections(&mut out, why);
        troubles.extend(trouble(&why["port"], false));
        let outputs = why["outputs"].as_array().into_iter().flatten();
        troubles.extend(outputs.flat_map(|port| trouble(port, true)));
    }
    logical_names(&mut out, facts);
    facts.megaflow.iter().for_each(|m| megaflow(&mut out, m));
    out.extend(facts.recent.iter().chain(&facts.recent_reverse).map(recent_drop));
    troubles.sort();
    troubles.dedup();
    let conclusion = match &facts.requests {
        None => conclude(facts, "Packets", &troubles),
        Some(requests) => format!(
            "The sender does not know the hardware address of {}: it asks by {}. {}",
            requests.target,
            requests.protocol,
            conclude(facts, "Requests", &troubles)
        ),
    };
    out.extend(troubles);
    Explanation { sentences: out, conclusion }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Megaflow, new_drops};
    use super::super::subject::Subject;
    use super::super::watch::DirectionCapture;
    use super::*;
    use ovsdb::Json;
    use serde_json::json;

    fn seen(counts: &[(&str, &str, u64)]) -> DirectionCapture {
        let counts =
            counts.iter().map(|(port, place, n)| ((port.to_string(), place.to_string()), *n)).collect();
        DirectionCapture { counts, ..DirectionCapture::default() }
    }

    fn facts(there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]) -> Facts {
        Facts {
            flow: "icmp".into(),
            seconds: 2.0,
            forward: seen(there),
            reverse: seen(back),
            ..Facts::default()
        }
    }

    #[test]
    fn each_outcome_has_a_conclusion() {
        let of =
            |there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]| explain(&facts(there, back)).conclusion;
        assert!(of(&[], &[]).starts_with("No such packet reaches the switch now"));
        let dropped = of(&[("p1", "rx", 3), ("p1", "drop_action_of_pipeline", 3)], &[]);
        assert!(
            dropped.starts_with(
                "Packets are dropped at port p1: drop_action_of_pipeline. The OpenFlow tables send"
            ),
            "{dropped}"
        );
        let through = [("p1", "rx", 3), ("p2", "tx", 3)];
        assert!(of(&through, &[]).contains("by port p2; no answer comes back"));
        let answers = of(&through, &[("p2", "rx", 3), ("p1", "datapath_drop_tx_mtu_exceeded", 3)]);
        assert!(
            answers.starts_with(
                "Packets pass, but answers are dropped at port p1: datapath_drop_tx_mtu_exceeded."
            ),
            "{answers}"
        );
        assert_eq!(of(&through, &[("p2", "rx", 1), ("p1", "tx", 1)]), "Packets and answers pass the switch.");
        assert!(of(&through, &[("p2", "rx", 1)]).ends_with("answers come in and none leaves."));
        assert!(of(&[("p1", "rx", 1)], &[]).starts_with("Packets come in and none leaves"));
    }

    #[test]
    fn the_cause_is_in_the_conclusion() {
        let drops = [("p2", "rx", 3), ("p2", "drop_action_of_pipeline", 3)];
        let recent = json!({ "port": "p2", "direction": "received", "reason": "drop_action_of_pipeline",
            "flow": "ct_state=inv|trk,tcp",
            "decided-by": { "bridge": "br0", "rule": "table_id=1, actions=drop", "drops-now": true } });
        let through = [("p1", "rx", 3), ("p2", "tx", 3)];
        let line = explain(&Facts { recent_reverse: vec![recent], ..facts(&through, &drops) }).conclusion;
        assert!(line.contains("The rule, bridge br0: table_id=1, actions=drop"), "{line}");
        assert!(line.contains("invalid (ct_state=inv|trk)"), "{line}");
        let few = [("p1", "rx", 9), ("p2", "tx", 9), ("br0", "datapath_drop_tx_failed", 1)];
        let line = explain(&facts(&few, &through)).conclusion;
        assert_eq!(
            line,
            "Packets and answers pass the switch. 1 packet dropped at port br0: datapath_drop_tx_failed."
        );
        // A flooded packet is also dropped at a port that is down.
        let flooded =
            [("p1", "rx", 3), ("br0", "tx", 3), ("p2", "tx", 3), ("br0", "datapath_drop_tx_failed", 3)];
        let why = json!({ "outputs": [{ "name": "br0", "up": false }, { "name": "p2", "link": false }],
            "rule": "actions=NORMAL", "port": { "name": "p1" }, "vlan": 10,
            "vlan-of-port": "access port of VLAN 10", "vlan-ports": ["br0"],
            "other-vlan-ports": [{ "name": "p3", "vlan": "access port of VLAN 20" }] });
        let line = explain(&Facts { why_forward: Some(why.clone()), ..facts(&flooded, &[]) }).conclusion;
        assert!(line.contains("no answer comes back"), "{line}");
        let vlan = "no answer comes back. Port p1 is an access port of VLAN 10,";
        assert!(line.contains(vlan), "{line}");
        let end = "Look at what is behind ports br0, p2. Port br0 is down. Port p2 has no link.";
        assert!(line.ends_with(end), "{line}");
        let only = [("p1", "rx", 3), ("br0", "tx", 3), ("br0", "datapath_drop_tx_failed", 3)];
        let line = explain(&Facts { why_forward: Some(why), ..facts(&only, &[]) }).conclusion;
        let wanted = "Port p1 is an access port of VLAN 10, so they are in VLAN 10; so is br0, but not p3 \
                      (access port of VLAN 20).";
        assert!(line.contains(wanted), "{line}");
    }

    #[test]
    fn packets_that_leave_in_a_tunnel_are_not_lost() {
        let port = |n: u64| json!([{ "name": "eth1", "number": 2, "mtu": 1500, "dropped": { "datapath_drop_tx_mtu_exceeded": n } }]);
        let why = json!({ "port": { "name": "p1" }, "tunnels": ["vx0"], "outputs": port(3) });
        let of = |back: &[(&str, &str, u64)], after: u64| {
            let outer_drops = new_drops(&port(3), &port(after));
            explain(&Facts { why_forward: Some(why.clone()), outer_drops, ..facts(&[("p1", "rx", 5)], back) })
                .conclusion
        };
        let start = "Packets leave in a tunnel, port vx0, by port eth1";
        assert_eq!(of(&[("p1", "tx", 5)], 3), format!("{start}, and answers pass the switch."));
        assert!(of(&[], 3).starts_with(&format!("{start}; no answer comes back.")));
        let lost = of(&[], 8);
        assert!(
            lost.starts_with(&format!(
                "{start}. Within one second, 5 packets were dropped at port eth1: datapath_drop_tx_mtu_exceeded."
            )),
            "{lost}"
        );
        assert!(
            lost.contains("The MTU of port eth1 is 1500 bytes, including the tunnel's headers."),
            "{lost}"
        );
        assert_eq!(new_drops(&Json::Null, &Json::Null), []);
    }

    #[test]
    fn why_no_packet_enters_or_leaves_a_tunnel() {
        let told = |reason: &str, why: Json, recent: Vec<Json>| {
            let seen = facts(&[("p1", "rx", 3), ("p1", reason, 3)], &[]);
            explain(&Facts { why_forward: Some(why), recent, ..seen }).conclusion
        };
        let why = json!({ "trace": " -> neighbor cache miss for 192.0.2.7 on bridge br-ext, sending ARP request\n" });
        let line = told("drop_action_tunnel_neigh_cache_miss", why.clone(), Vec::new());
        assert!(
            line.contains("The switch asks for 192.0.2.7 on bridge br-ext, and gets no answer."),
            "{line}"
        );
        let line = told("drop_action_of_pipeline", why.clone(), Vec::new());
        assert!(!line.contains("asks for"), "{line}");
        let line = told("drop_action_tunnel_routing_failed", json!({}), Vec::new());
        assert!(line.contains("ovs/route/show"), "{line}");
        let lost = json!({ "port": "p1", "direction": "received", "reason": "drop_action_of_pipeline",
            "problem": "no OpenFlow tunnel port for this packet, which came from 192.0.2.1 to 192.0.2.2 with key 100" });
        let line = told("drop_action_of_pipeline", json!({}), vec![lost]);
        assert!(line.contains("with key 100. Compare with remote_ip"), "{line}");
    }

    #[test]
    fn an_mtu_is_named_if_the_first_packet_was_shorter() {
        let drops = [("p1", "rx", 4), ("p2", "tx", 2), ("p2", "datapath_drop_tx_mtu_exceeded", 2)];
        let why =
            json!({ "outputs": [{ "name": "p2", "mtu": 700, "too-long": false }], "port": { "name": "p1" } });
        let line = explain(&Facts { why_forward: Some(why), ..facts(&drops, &[]) }).conclusion;
        assert!(line.ends_with("The MTU of port p2 is 700 bytes."), "{line}");
    }

    #[test]
    fn requests_for_a_hardware_address_come_first() {
        let subject =
            Subject { flow: "icmp,nw_src=10.0.0.1,nw_dst=10.0.0.2".to_owned(), answers: String::new() };
        let of = |there: &[(&str, &str, u64)], back: &[(&str, &str, u64)]| {
            explain(&Facts { requests: subject.requests(), ..facts(there, back) })
        };
        let told = of(&[("p1", "rx", 2), ("p1", "drop_action_of_pipeline", 2)], &[]);
        let start = "The sender does not know the hardware address of 10.0.0.2: it asks by ARP. Requests are dropped at port p1:";
        assert!(told.conclusion.starts_with(start), "{}", told.conclusion);
        assert!(told.sentences[0].starts_with("Packets: no packet was seen"), "{:?}", told.sentences);
        assert!(told.sentences[1].starts_with("Requests: in 2 s 2 packets came in"), "{:?}", told.sentences);
        let unanswered = of(&[("p1", "rx", 2), ("p2", "tx", 2)], &[]).conclusion;
        assert!(
            unanswered.contains("The switch sends the requests by port p2; no answer comes back."),
            "{unanswered}"
        );
    }

    #[test]
    fn sentences_name_rules_ports_and_connections() {
        let port = json!({ "name": "p2", "up": false, "link-changes": 9, "mtu": 700, "too-long": true });
        let why = json!({
            "port": { "name": "p1", "up": true, "link": false }, "bridge": "br0", "drops": false, "rule": "actions=output:2",
            "outputs": [port], "tunnels": ["vxlan0"], "ct-state": "est|trk", "connections": ["tcp,orig=(...)"],
        });
        let megaflow = Megaflow { ufid: "17".into(), actions: "2".into(), before: 3, after: Some(5) };
        let facts = Facts {
            why_forward: Some(why),
            megaflow: Some(megaflow),
            ..facts(&[("p1", "rx", 1), ("p2", "tx", 1)], &[])
        };
        let all = explain(&facts).sentences.join("\n");
        for wanted in [
            "Packets: in 2 s 1 packet came in by port p1, 1 packet left by port p2.",
            "Answers: no packet was seen",
            "The tables send the packets by port p2. The last rule, bridge br0: actions=output:2",
            "They leave in a tunnel, port vxlan0",
            "their state there is est|trk",
            "Connection: tcp,orig=(...)",
            "counted 2 packets in the last second (ufid 17, actions: 2)",
            "Port p1 has no link.",
            "Port p2 is down.",
            "The link of port p2 has changed 9 times.",
            "longer than the MTU of port p2, 700 bytes",
        ] {
            assert!(all.contains(wanted), "{wanted}\n{all}");
        }
    }
}
