//! Ports that were removed from a bridge, which may be the reason why packets are not received or do not arrive.

use super::explain::Explanation;
use super::facts::Facts;
use super::watch::DirectionCapture;
use ovsdb::Json;

/// Ports that were removed longer ago than this are not named.
const RECENT_SECONDS: u64 = 600;
/// Maximum number of ports that are named although no fact relates the packets to them.
const NAMED_MAX: usize = 3;

/// Adds sentences about removed ports; `reply` is the reply of `ofproto/why removed`. If an address of the packets was learned on such a
/// port, or the rule of the packets outputs to the port's number, the sentence about the port precedes the conclusion.
pub fn add(facts: &Facts, reply: &Json, to: &mut Explanation) {
    let ports = reply["removed"].as_array().into_iter().flatten();
    let recent = ports.filter(|port| port["seconds"].as_u64().is_some_and(|n| n <= RECENT_SECONDS));
    let (related, others): (Vec<&Json>, Vec<&Json>) =
        recent.partition(|port| relation(facts, port).is_some());
    for port in related {
        let sentence = format!("{}{}", removal(port), relation(facts, port).unwrap_or_default());
        to.conclusion = format!("{sentence} {}", to.conclusion);
        to.sentences.push(sentence);
    }
    let both = [("The packets", &facts.forward), ("The answers", &facts.reverse)];
    let missing = both.iter().find(|(_, seen)| seen.counts.is_empty());
    if let Some((what, _)) = missing {
        let says = |port: &&Json| format!("{}. {what} may have come from there.", removal(port));
        to.sentences.extend(others.iter().take(NAMED_MAX).map(says));
    }
}

fn removal(port: &Json) -> String {
    let word = |key: &str| port[key].as_str().unwrap_or("");
    format!("Port {} was removed from bridge {} {} s ago", word("name"), word("bridge"), port["seconds"])
}

/// How the packets relate to a removed port, as the end of a sentence; `None` if no fact relates them.
fn relation(facts: &Facts, port: &Json) -> Option<String> {
    let stations: Vec<&str> =
        port["stations"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let to = [&facts.forward, &facts.reverse]
        .into_iter()
        .filter_map(destination)
        .find(|mac| stations.contains(&mac.as_str()));
    if let Some(mac) = to {
        return Some(format!("; {mac}, to which packets are sent, was there."));
    }
    let number = port["ofport"].as_u64()?;
    let rules =
        [&facts.why_forward, &facts.why_reverse].into_iter().flatten().filter_map(|why| why["rule"].as_str());
    rules
        .into_iter()
        .any(|rule| outputs_to(rule, number))
        .then(|| format!("; the rule sends packets to its number, {number}."))
}

/// The destination hardware address of the first packet of a direction.
fn destination(seen: &DirectionCapture) -> Option<String> {
    Some(flow::Mac(*seen.first.as_ref()?.bytes.first_chunk()?).to_string())
}

/// Whether a rule's text has an output to this number.
fn outputs_to(rule: &str, number: u64) -> bool {
    let output = format!("output:{number}");
    rule.match_indices(&output)
        .any(|(at, _)| !rule[at + output.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::super::watch::FirstPacket;
    use super::*;
    use serde_json::json;

    fn told(facts: &Facts) -> Explanation {
        let port = |name: &str, ofport: u16, seconds: u64, stations: &[&str]| json!({"bridge": "br0", "name": name, "ofport": ofport, "seconds": seconds, "stations": stations});
        let reply = json!({"removed": [port("p2", 2, 12, &["02:00:00:00:00:02"]), port("p9", 9, 700, &["02:00:00:00:00:09"])]});
        let mut explanation = Explanation { sentences: Vec::new(), conclusion: "The end.".to_owned() };
        add(facts, &reply, &mut explanation);
        explanation
    }

    fn seen(bytes: &[u8]) -> DirectionCapture {
        let first = FirstPacket {
            datapath: "dp".to_owned(),
            port: "p1".to_owned(),
            bytes: bytes.to_vec(),
            megaflow: None,
        };
        DirectionCapture {
            counts: [(("p1".to_owned(), "rx".to_owned()), 1)].into(),
            first: Some(first),
            is_incomplete: false,
        }
    }

    #[test]
    fn removed_ports_are_named() {
        let there = seen(&[2, 0, 0, 0, 0, 2]);
        let facts = Facts { forward: there.clone(), reverse: there.clone(), ..Facts::default() };
        let known = "Port p2 was removed from bridge br0 12 s ago; 02:00:00:00:00:02, to which packets are sent, was there.";
        assert_eq!(
            (told(&facts).conclusion, told(&facts).sentences),
            (format!("{known} The end."), vec![known.to_owned()])
        );
        let why = json!({"rule": "0. in_port=1, priority 32768\n    output:2\n"});
        let there = seen(&[2, 0, 0, 0, 0, 9]);
        let facts = Facts {
            forward: there.clone(),
            reverse: there.clone(),
            why_forward: Some(why),
            ..Facts::default()
        };
        assert!(told(&facts).conclusion.starts_with(
            "Port p2 was removed from bridge br0 12 s ago; the rule sends packets to its number, 2."
        ));
        let facts = Facts { forward: there.clone(), reverse: there, ..Facts::default() };
        assert_eq!((told(&facts).conclusion.as_str(), told(&facts).sentences.len()), ("The end.", 0));
        let nothing = "Port p2 was removed from bridge br0 12 s ago. The packets may have come from there.";
        assert_eq!(told(&Facts::default()).sentences, [nothing]);
        assert!(!outputs_to("actions=output:20", 2) && outputs_to("actions=output:20,output:2", 2));
    }
}
