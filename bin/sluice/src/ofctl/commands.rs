//! The commands: names, arguments, the functions that run them, and descriptions.

use super::context::Context;
use super::fail::{Fail, fail, print};
use super::{
    change, diff, extensions, groups, meters, monitor, options, parse, ports, query, recorded, tables,
};
use crate::page::{CommandEntry, Names, Page};

type Run = fn(&mut Context, &[String]) -> Result<(), Fail>;

/// A command.
pub struct Command {
    /// The name of the command.
    pub name: &'static str,
    /// The arguments, as the help page shows them.
    pub arguments: &'static str,
    min: usize,
    max: usize,
    /// Whether `--read-only` refuses the command. As in ovs-ofctl, it also refuses `diff-flows`,
    /// `ofp-print` and `parse-*`, which change nothing.
    changes: bool,
    run: Run,
}

const UNLIMITED: usize = usize::MAX;

const fn reads(name: &'static str, arguments: &'static str, (min, max): (usize, usize), run: Run) -> Command {
    Command { name, arguments, min, max, changes: false, run }
}

const fn changes(
    name: &'static str,
    arguments: &'static str,
    (min, max): (usize, usize),
    run: Run,
) -> Command {
    Command { name, arguments, min, max, changes: true, run }
}

/// All commands.
pub const COMMANDS: &[Command] = &[
    reads("show", "switch", (1, 1), query::show),
    reads("monitor", "switch [misslen] [invalid_ttl] [watch:[...]]", (1, 3), monitor::monitor),
    reads("snoop", "switch", (1, 1), monitor::snoop),
    reads("dump-desc", "switch", (1, 1), query::desc),
    reads("dump-tables", "switch", (1, 1), query::tables),
    reads("dump-table-features", "switch", (1, 1), query::table_features),
    reads("dump-table-desc", "switch", (1, 1), query::table_desc),
    reads("dump-flows", "switch", (1, 2), query::flows),
    reads("dump-aggregate", "switch", (1, 2), query::aggregate),
    reads("queue-stats", "switch [port [queue]]", (1, 3), query::queue_stats),
    reads("queue-get-config", "switch [port [queue]]", (1, 3), query::queue_config),
    changes("add-flow", "switch flow", (2, 2), change::add_flow),
    changes("add-flows", "switch file", (2, 2), change::add_flows),
    changes("mod-flows", "switch flow", (2, 2), change::mod_flows),
    changes("del-flows", "switch [flow]", (1, 2), change::del_flows),
    changes("replace-flows", "switch file", (2, 2), diff::replace),
    changes("diff-flows", "source1 source2", (2, 2), diff::diff),
    changes("add-meter", "switch meter", (2, 2), meters::add),
    changes("mod-meter", "switch meter", (2, 2), meters::modify),
    changes("del-meter", "switch meter", (1, 2), meters::delete),
    changes("del-meters", "switch [meter]", (1, 2), meters::delete),
    reads("dump-meter", "switch meter", (1, 2), meters::dump),
    reads("dump-meters", "switch", (1, 2), meters::dump),
    reads("meter-stats", "switch [meter]", (1, 2), meters::stats),
    reads("meter-features", "switch", (1, 1), meters::features),
    changes(
        "packet-out",
        "switch \"in_port=<port> packet=<hex data> actions=...\"",
        (2, UNLIMITED),
        change::packet_out,
    ),
    reads("dump-ports", "switch [port]", (1, 2), ports::stats),
    reads("dump-ports-desc", "switch [port]", (1, 2), ports::desc),
    changes("mod-port", "switch iface act", (3, 3), ports::modify),
    changes("mod-table", "switch mod", (3, 3), tables::modify),
    reads("get-frags", "switch", (1, 1), tables::get_frags),
    changes("set-frags", "switch frag_mode", (2, 2), tables::set_frags),
    reads("probe", "target", (1, 1), query::probe),
    reads("ping", "target [n]", (1, 2), query::ping),
    changes("add-group", "switch group", (1, 2), groups::add),
    changes("add-groups", "switch file", (2, 2), groups::add_file),
    changes("mod-group", "switch group", (1, 2), groups::modify),
    changes("del-groups", "switch [group]", (1, 2), groups::delete),
    changes("insert-buckets", "switch [group]", (1, 2), groups::insert_buckets),
    changes("remove-buckets", "switch [group]", (1, 2), groups::remove_buckets),
    reads("dump-groups", "switch [group]", (1, 2), groups::dump),
    reads("dump-group-stats", "switch [group]", (1, 2), groups::stats),
    reads("dump-group-features", "switch", (1, 1), groups::features),
    changes("bundle", "switch file", (2, 2), groups::bundle),
    changes("add-tlv-map", "switch map", (2, 2), extensions::add_tlv),
    changes("del-tlv-map", "switch [map]", (1, 2), extensions::delete_tlv),
    reads("dump-tlv-map", "switch", (1, 1), extensions::dump_tlv),
    changes("ct-flush-zone", "switch zone", (2, 2), extensions::ct_flush_zone),
    changes(
        "ct-flush",
        "switch [zone=N] [mark=M] [labels=L] [ct_orig_tuple [ct_reply_tuple]]",
        (1, 6),
        extensions::ct_flush,
    ),
    reads("dump-ipfix-bridge", "switch", (1, 1), extensions::ipfix_bridge),
    reads("dump-ipfix-flow", "switch", (1, 1), extensions::ipfix_flow),
    reads("benchmark", "target n count", (3, 3), query::benchmark),
    reads("ofp-parse", "file", (1, 1), recorded::print_messages),
    reads("ofp-parse-pcap", "pcap [port...]", (1, UNLIMITED), recorded::print_capture),
    reads("help", "", (0, UNLIMITED), help),
    reads("list-commands", "", (0, UNLIMITED), list),
    changes("parse-flow", "", (1, 1), parse::flow),
    changes("parse-flows", "", (1, 1), parse::flows),
    changes("parse-group", "", (1, 1), parse::group),
    changes("ofp-print", "", (1, 2), parse::ofp_print),
];

/// Runs the command that the arguments name.
pub fn run(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let Some((name, args)) = args.split_first() else {
        return fail("missing command name; use --help for help");
    };
    let Some(command) = COMMANDS.iter().find(|c| c.name == name) else {
        let hint = crate::suggest::hint(name, COMMANDS.iter().map(|c| c.name));
        return fail(format!("unknown command '{name}'{hint}; use --help for help"));
    };
    if args.len() < command.min {
        return fail(format!("'{name}' command requires at least {} arguments", command.min));
    }
    if args.len() > command.max {
        return fail(format!("'{name}' command takes at most {} arguments", command.max));
    }
    if command.changes && cx.settings.read_only {
        return fail(format!("'{name}' command does not work in read only mode"));
    }
    if cx.settings.json {
        return super::json::run(cx, command.name, args);
    }
    (command.run)(cx, args)
}

fn help(cx: &mut Context, _: &[String]) -> Result<(), Fail> {
    print(&page().help(&cx.progname))
}

fn list(_: &mut Context, _: &[String]) -> Result<(), Fail> {
    let lines: String = COMMANDS.iter().map(|c| format!("  {:<23} {}\n", c.name, c.arguments)).collect();
    print(&format!("The available commands are:\n{lines}"))
}

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
pub const NAMES: Names = Names { tool: "ofctl", other_names: &["ovs-ofctl"] };

/// The help page of the tool.
pub fn page() -> Page {
    let commands = COMMANDS.iter().map(|c| CommandEntry {
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
