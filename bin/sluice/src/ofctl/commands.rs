//! The commands: names, arguments, and the functions that run them.

use super::context::{Context, Fail, fail, print};
use super::{change, diff, extensions, groups, meters, monitor, parse, ports, query, recorded, tables};

type Run = fn(&mut Context, &[String]) -> Result<(), Fail>;

/// A command.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    min: usize,
    max: usize,
    changes: bool,
    run: Run,
}

const ANY: usize = usize::MAX;

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
        (2, ANY),
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
    reads("ofp-parse", "file", (1, 1), recorded::messages),
    reads("ofp-parse-pcap", "pcap [port...]", (1, ANY), recorded::capture),
    reads("help", "", (0, ANY), help),
    reads("list-commands", "", (0, ANY), list),
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
    print(&super::page().help(&cx.progname))
}

fn list(_: &mut Context, _: &[String]) -> Result<(), Fail> {
    let lines: String = COMMANDS.iter().map(|c| format!("  {:<23} {}\n", c.name, c.arguments)).collect();
    print(&format!("The available commands are:\n{lines}"))
}
