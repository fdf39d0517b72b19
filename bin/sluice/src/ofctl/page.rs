//! All that there is to say about the tool.

use super::commands::COMMANDS;
use super::options;
use crate::page::{Line, Names, Page};

/// What each command does.
const SENTENCES: &[(&str, &str)] = &[
    ("show", "prints what the switch can do, and its ports"),
    ("monitor", "prints packets and notices that come to a controller, as they come"),
    ("snoop", "prints what a bridge and its controllers say to each other"),
    ("dump-desc", "prints who made the switch"),
    ("dump-tables", "prints the counters of flow tables"),
    ("dump-table-features", "prints what each flow table can do"),
    ("dump-table-desc", "prints how flow tables are configured"),
    ("dump-flows", "prints flows, all or those that match"),
    ("dump-aggregate", "prints the sums of flows' counters"),
    ("queue-stats", "prints the counters of queues"),
    ("queue-get-config", "prints how queues are configured"),
    ("add-flow", "adds a flow"),
    ("add-flows", "adds the flows in a file, or standard input (-)"),
    ("mod-flows", "changes the actions of flows that match"),
    ("del-flows", "deletes flows, all or those that match"),
    ("replace-flows", "makes the flows those in a file, with as few changes as possible"),
    ("diff-flows", "prints how the flows of two switches or files differ"),
    ("add-meter", "adds a meter"),
    ("mod-meter", "changes a meter"),
    ("del-meter", "deletes a meter"),
    ("del-meters", "deletes meters, all or one"),
    ("dump-meter", "prints a meter"),
    ("dump-meters", "prints meters"),
    ("meter-stats", "prints the counters of meters"),
    ("meter-features", "prints what meters can do"),
    ("packet-out", "sends a packet through actions"),
    ("dump-ports", "prints the counters of ports"),
    ("dump-ports-desc", "prints what the ports are"),
    ("mod-port", "changes a port: up, down, flood, no-flood, forward, no-forward, packet-in, ..."),
    ("mod-table", "changes what a flow table does with packets that match nothing"),
    ("get-frags", "prints what happens to IP fragments"),
    ("set-frags", "sets it: normal, drop, reassemble or nx-match"),
    ("probe", "succeeds if the switch answers"),
    ("ping", "measures how fast the switch answers"),
    ("add-group", "adds a group"),
    ("add-groups", "adds the groups in a file"),
    ("mod-group", "changes a group"),
    ("del-groups", "deletes groups"),
    ("insert-buckets", "adds buckets to a group"),
    ("remove-buckets", "removes buckets from a group"),
    ("dump-groups", "prints groups"),
    ("dump-group-stats", "prints the counters of groups"),
    ("dump-group-features", "prints what groups can do"),
    ("bundle", "carries out the changes in a file, all or none"),
    ("add-tlv-map", "gives tunnel options fields"),
    ("del-tlv-map", "takes them away, all or those named"),
    ("dump-tlv-map", "prints which tunnel options have fields"),
    ("ct-flush-zone", "forgets the tracked connections of a zone"),
    ("ct-flush", "forgets tracked connections, all or those that match"),
    ("dump-ipfix-bridge", "prints what a bridge has exported by IPFIX"),
    ("dump-ipfix-flow", "prints what flows have exported by IPFIX"),
    ("benchmark", "measures how fast the switch answers many messages"),
    ("ofp-parse", "prints the OpenFlow messages in a file"),
    ("ofp-parse-pcap", "prints the OpenFlow messages in a capture of TCP"),
    ("help", "prints this text"),
    ("list-commands", "lists the commands"),
    ("parse-flow", "prints a flow as it is understood"),
    ("parse-flows", "prints the flows of a file as they are understood"),
    ("parse-group", "prints a group as it is understood"),
    ("ofp-print", "prints an OpenFlow message given in hexadecimal digits"),
];

/// What it is called.
pub const NAMES: Names = Names { tool: "ofctl", peers: &["ovs-ofctl"] };

/// The page.
pub fn page() -> Page {
    let commands = COMMANDS.iter().map(|c| Line {
        name: c.name.into(),
        usage: c.arguments.into(),
        text: SENTENCES.iter().find(|(name, _)| *name == c.name).map_or("", |(_, text)| *text),
    });
    Page {
        names: NAMES,
        title: "asks an OpenFlow switch, or tells it what to do",
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
