//! The help page of the tool.

use super::commands::COMMANDS;
use super::options;
use crate::page::{Line, Names, Page};

/// What each command does.
const SENTENCES: &[(&str, &str)] = &[
    ("show", "prints the features of a switch, and its ports"),
    ("monitor", "prints the messages that the switch sends to a controller, as they arrive"),
    ("snoop", "prints the messages between a bridge and its controllers"),
    ("dump-desc", "prints manufacturer, hardware, software and serial number of a switch"),
    ("dump-tables", "prints the counters of flow tables"),
    ("dump-table-features", "prints the features of flow tables"),
    ("dump-table-desc", "prints the configuration of flow tables"),
    ("dump-flows", "prints flows, all or those that match"),
    ("dump-aggregate", "prints the sums of flows' counters"),
    ("queue-stats", "prints the counters of queues"),
    ("queue-get-config", "prints the configuration of queues"),
    ("add-flow", "adds a flow"),
    ("add-flows", "adds the flows in a file, or standard input (-)"),
    ("mod-flows", "changes the actions of flows that match"),
    ("del-flows", "deletes flows, all or those that match"),
    ("replace-flows", "replaces all flows by those in a file, with as few changes as possible"),
    ("diff-flows", "prints how the flows of two switches or files differ"),
    ("add-meter", "adds a meter"),
    ("mod-meter", "changes a meter"),
    ("del-meter", "deletes a meter"),
    ("del-meters", "deletes meters, all or one"),
    ("dump-meter", "prints a meter"),
    ("dump-meters", "prints meters"),
    ("meter-stats", "prints the counters of meters"),
    ("meter-features", "prints the features of meters"),
    ("packet-out", "sends a packet through actions"),
    ("dump-ports", "prints the counters of ports"),
    ("dump-ports-desc", "prints the descriptions of ports"),
    ("mod-port", "changes a port: up, down, flood, no-flood, forward, no-forward, packet-in, ..."),
    ("mod-table", "changes what a flow table does with packets that match nothing"),
    ("get-frags", "prints the handling of IP fragments"),
    ("set-frags", "sets the handling of IP fragments: normal, drop, reassemble or nx-match"),
    ("probe", "exits with 0 if the switch answers"),
    ("ping", "measures the time until the switch answers"),
    ("add-group", "adds a group"),
    ("add-groups", "adds the groups in a file"),
    ("mod-group", "changes a group"),
    ("del-groups", "deletes groups"),
    ("insert-buckets", "adds buckets to a group"),
    ("remove-buckets", "removes buckets from a group"),
    ("dump-groups", "prints groups"),
    ("dump-group-stats", "prints the counters of groups"),
    ("dump-group-features", "prints the features of groups"),
    ("bundle", "applies the flow and group changes in a file, all or none"),
    ("add-tlv-map", "maps tunnel options to fields"),
    ("del-tlv-map", "removes mappings of tunnel options, all or those given"),
    ("dump-tlv-map", "prints the mappings of tunnel options to fields"),
    ("ct-flush-zone", "removes the tracked connections of a zone"),
    ("ct-flush", "removes tracked connections, all or those that match"),
    ("dump-ipfix-bridge", "prints the IPFIX statistics of a bridge"),
    ("dump-ipfix-flow", "prints the IPFIX statistics of flows"),
    ("benchmark", "measures the rate at which the switch answers messages"),
    ("ofp-parse", "prints the OpenFlow messages in a file"),
    ("ofp-parse-pcap", "prints the OpenFlow messages in a capture of TCP"),
    ("help", "prints this text"),
    ("list-commands", "lists the commands"),
    ("parse-flow", "parses a flow and prints it"),
    ("parse-flows", "parses the flows in a file and prints them"),
    ("parse-group", "parses a group and prints it"),
    ("ofp-print", "prints an OpenFlow message given in hexadecimal digits"),
];

/// The names of the tool.
pub const NAMES: Names = Names { tool: "ofctl", peers: &["ovs-ofctl"] };

/// The help page.
pub fn page() -> Page {
    let commands = COMMANDS.iter().map(|c| Line {
        name: c.name.into(),
        usage: c.arguments.into(),
        text: SENTENCES.iter().find(|(name, _)| *name == c.name).map_or("", |(_, text)| *text),
    });
    Page {
        names: NAMES,
        title: "shows and controls an OpenFlow switch",
        synopsis: "[OPTION...] COMMAND [ARG...]",
        commands: commands.collect(),
        options: options::all(false),
        notes: vec![
            (
                "Switches",
                "A switch is the name of a bridge here, unix:FILE, tcp:IP[:PORT] or ssl:IP[:PORT]. OpenFlow 1.0 is spoken unless -O \
                 says otherwise; meters, groups and some actions need OpenFlow13 or later."
                    .into(),
            ),
            (
                "Flows",
                "A flow is matches and actions with commas between:\n  \
                 add-flow br0 \"table=0,priority=100,ip,nw_dst=10.0.0.0/8,actions=output:2\""
                    .into(),
            ),
        ],
    }
}
