//! Ports that were removed from a bridge, and may be why packets do not come or do not arrive.

use super::explain::Explanation;
use super::facts::Facts;
use super::watch::Seen;
use ovsdb::Json;

/// A port that was removed longer ago is not named.
const RECENT_SECONDS: u64 = 600;
/// Ports that are named without a sign that the packets have to do with them.
const NAMED_MAX: usize = 3;

/// Adds sentences about removed ports; `reply` is that of `ofproto/why removed`. If an address of the packets was on such a port, or
/// their rule sends them to its number, this is the conclusion.
pub fn add(facts: &Facts, reply: &Json, to: &mut Explanation) {
    let ports = reply["removed"].as_array().into_iter().flatten();
    let recent = ports.filter(|port| port["seconds"].as_u64().is_some_and(|n| n <= RECENT_SECONDS));
    let (known, others): (Vec<&Json>, Vec<&Json>) = recent.partition(|port| relation(facts, port).is_some());
    for port in known {
        let sentence = format!("{}{}", removal(port), relation(facts, port).unwrap_or_default());
        to.conclusion = format!("{sentence} {}", to.conclusion);
        to.sentences.push(sentence);
    }
    let both = [("The packets", &facts.there), ("The answers", &facts.back)];
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

/// What the packets have to do with a removed port: the end of a sentence.
fn relation(facts: &Facts, port: &Json) -> Option<String> {
    let stations: Vec<&str> =
        port["stations"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let to = [&facts.there, &facts.back]
        .into_iter()
        .filter_map(destination)
        .find(|mac| stations.contains(&mac.as_str()));
    if let Some(mac) = to {
        return Some(format!("; {mac}, to which packets are sent, was there."));
    }
    let number = port["ofport"].as_u64()?;
    let rules =
        [&facts.why_there, &facts.why_back].into_iter().flatten().filter_map(|why| why["rule"].as_str());
    rules
        .into_iter()
        .any(|rule| outputs_to(rule, number))
        .then(|| format!("; the rule sends packets to its number, {number}."))
}

/// The destination's hardware address of the first packet of a direction.
fn destination(seen: &Seen) -> Option<String> {
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
    use super::super::watch::First;
    use super::*;
    use serde_json::json;

    fn told(facts: &Facts) -> Explanation {
        let port = |name: &str, ofport: u16, seconds: u64, stations: &[&str]| json!({"bridge": "br0", "name": name, "ofport": ofport, "seconds": seconds, "stations": stations});
        let reply = json!({"removed": [port("p2", 2, 12, &["02:00:00:00:00:02"]), port("p9", 9, 700, &["02:00:00:00:00:09"])]});
        let mut explanation = Explanation { sentences: Vec::new(), conclusion: "The end.".to_owned() };
        add(facts, &reply, &mut explanation);
        explanation
    }

    fn seen(bytes: &[u8]) -> Seen {
        let first =
            First { datapath: "dp".to_owned(), port: "p1".to_owned(), bytes: bytes.to_vec(), megaflow: None };
        Seen { counts: [(("p1".to_owned(), "rx".to_owned()), 1)].into(), first: Some(first), is_part: false }
    }

    #[test]
    fn removed_ports_are_named() {
        let there = seen(&[2, 0, 0, 0, 0, 2]);
        let facts = Facts { there: there.clone(), back: there.clone(), ..Facts::default() };
        let known = "Port p2 was removed from bridge br0 12 s ago; 02:00:00:00:00:02, to which packets are sent, was there.";
        assert_eq!(
            (told(&facts).conclusion, told(&facts).sentences),
            (format!("{known} The end."), vec![known.to_owned()])
        );
        let why = json!({"rule": "0. in_port=1, priority 32768\n    output:2\n"});
        let there = seen(&[2, 0, 0, 0, 0, 9]);
        let facts =
            Facts { there: there.clone(), back: there.clone(), why_there: Some(why), ..Facts::default() };
        assert!(told(&facts).conclusion.starts_with(
            "Port p2 was removed from bridge br0 12 s ago; the rule sends packets to its number, 2."
        ));
        let facts = Facts { there: there.clone(), back: there, ..Facts::default() };
        assert_eq!((told(&facts).conclusion.as_str(), told(&facts).sentences.len()), ("The end.", 0));
        let nothing = "Port p2 was removed from bridge br0 12 s ago. The packets may have come from there.";
        assert_eq!(told(&Facts::default()).sentences, [nothing]);
        assert!(!outputs_to("actions=output:20", 2) && outputs_to("actions=output:20,output:2", 2));
    }
}
