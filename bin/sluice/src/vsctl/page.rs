//! The help page of the tool.

use super::commands::COMMANDS;
use super::options;
use super::schema_names;
use crate::page::{CommandEntry, Names, Page};

/// What each command does.
const SENTENCES: &[(&str, &str)] = &[
    ("init", "creates the root row of the configuration if it is missing"),
    ("comment", "writes its arguments to the database's log"),
    ("show", "prints bridges, ports, interfaces, controllers and managers as a tree"),
    (
        "emer-reset",
        "takes back what controllers may have set up: managers, controllers, fail modes, mirrors, QoS",
    ),
    ("add-br", "adds a bridge; with PARENT a fake bridge for a VLAN of PARENT"),
    ("del-br", "deletes a bridge with its ports"),
    ("list-br", "lists the bridges"),
    ("br-exists", "exits with 0 if the bridge exists, else with 2"),
    ("br-to-vlan", "prints the VLAN of a fake bridge, 0 for a real bridge"),
    ("br-to-parent", "prints the parent of a fake bridge, or the bridge itself"),
    ("br-set-external-id", "sets an external ID of a bridge; without VALUE removes it"),
    ("br-get-external-id", "prints an external ID of a bridge, or all"),
    ("list-ports", "lists the ports of a bridge except its local port"),
    ("add-port", "adds a port with one interface of the same name, and sets columns of the port"),
    ("del-port", "deletes a port"),
    ("port-to-br", "prints the bridge of a port"),
    ("add-bond", "adds a port of several interfaces"),
    ("add-bond-iface", "adds an interface to a bond"),
    ("del-bond-iface", "removes an interface from a bond"),
    ("list-ifaces", "lists the interfaces of a bridge except its local one"),
    ("iface-to-br", "prints the bridge of an interface"),
    ("get-controller", "prints the controllers of a bridge"),
    ("del-controller", "removes the controllers of a bridge"),
    ("set-controller", "sets the OpenFlow controllers of a bridge"),
    ("get-fail-mode", "prints the fail mode of a bridge: its behaviour without controllers"),
    ("del-fail-mode", "removes the setting, so that the default fail mode applies"),
    ("set-fail-mode", "sets the fail mode: standalone (learns by itself) or secure (keeps its flows)"),
    ("get-manager", "prints the managers of the database"),
    ("del-manager", "removes the managers of the database"),
    ("set-manager", "sets the managers of the database"),
    ("get-ssl", "prints the files of keys and certificates"),
    ("del-ssl", "removes the TLS configuration"),
    (
        "set-ssl",
        "sets private key, certificate and authorities for TLS; --bootstrap learns a missing authority",
    ),
    ("add-aa-mapping", "maps an I-SID to a VLAN for auto-attach"),
    ("del-aa-mapping", "removes a mapping of an I-SID to a VLAN"),
    ("get-aa-mapping", "prints the auto-attach mappings of a bridge"),
    ("add-zone-tp", "sets the timeout policy of a connection tracking zone: DATAPATH zone=ID POLICY=SECS..."),
    ("del-zone-tp", "removes the timeout policy of a zone: DATAPATH zone=ID"),
    ("list-zone-tp", "lists the timeout policies of a datapath"),
    ("list-dp-cap", "lists the capabilities of a datapath"),
    (
        "set-zone-limit",
        "limits the connections in a zone, or in each by default: DATAPATH zone=ID|default LIMIT",
    ),
    ("del-zone-limit", "removes the limit of a zone, or the default limit: DATAPATH zone=ID|default"),
    ("list-zone-limits", "lists the zone limits of a datapath"),
    ("get", "prints columns of a row, or single keys of them"),
    ("list", "prints rows of a table"),
    ("find", "prints the rows that meet all conditions"),
    ("set", "sets columns of a row, or single keys of them"),
    ("add", "adds values, or pairs, to a column"),
    ("remove", "removes values, keys or pairs from a column"),
    ("clear", "empties columns"),
    ("create", "adds a row and prints its UUID; --id=@NAME names it for other commands of the same call"),
    ("destroy", "deletes rows"),
    ("wait-until", "waits until the row exists and meets all conditions"),
];

/// The names of the tool.
pub const NAMES: Names = Names { tool: "vsctl", other_names: &["ovs-vsctl"] };

/// The help page.
pub fn page() -> Page {
    let commands = COMMANDS.iter().map(|c| {
        let options: String = c
            .options
            .iter()
            .map(|o| format!("[{}] ", if o.ends_with('=') { format!("{o}VALUE") } else { (*o).to_owned() }))
            .collect();
        let arguments: Vec<String> = c.usage.split_whitespace().map(argument).collect();
        let text = SENTENCES.iter().find(|(name, _)| *name == c.name).map_or("", |(_, text)| *text);
        // On a command line, options precede the command. Here they follow the command, so that the names of commands form a
        // column.
        CommandEntry {
            name: c.name.into(),
            usage: format!("{options}{}", arguments.join(" ")).trim_end().into(),
            text,
        }
    });
    Page {
        names: NAMES,
        title: "reads and changes the configuration of the switch",
        synopsis: "[OPTION...] [--] [OPTION...] COMMAND [ARG...] [-- [OPTION...] COMMAND [ARG...]]...",
        commands: commands.collect(),
        options: options::all().into_iter().chain([crate::common::JSON]).collect(),
        notes: vec![
            (
                "Commands in one call",
                "All commands of a call, separated by --, are one transaction: all or nothing. The options of a command precede \
                 it, after the --. Then the tool waits until the switch has applied the change.\n  \
                 add-br br0 -- add-port br0 eth1 tag=5 -- set Interface eth1 mtu_request=9000"
                    .into(),
            ),
            ("Names of rows", format!("The names of rows, by table:\n{}", row_names())),
        ],
    }
}

/// An argument as `--help` shows it, converted from the notation of `ovs-vsctl --commands`: `!X` is required, `?X` is optional, `+X` is one
/// or more, `*X` is any number; in `COLUMN?:KEY` the key is optional.
fn argument(word: &str) -> String {
    let kind = word.chars().next().unwrap_or_default();
    let name = word.trim_start_matches(['!', '+', '*', '?']).replace("?:", "[:]").replace('?', "");
    match kind {
        '?' => format!("[{name}]"),
        '+' => format!("{name}..."),
        '*' => format!("[{name}]..."),
        _ => name,
    }
}

/// The ways to name rows of each table.
fn row_names() -> String {
    let mut out = String::new();
    for table in &schema_names::schema().tables {
        out.push_str(&format!("  {}: UUID", table.name));
        if table.max_rows == 1 {
            out.push_str(", \".\"");
        }
        match schema_names::row_name(&table.name) {
            Some(name) if name.reference.is_some() => {
                out.push_str(&format!(", {} of its {}", name.column, name.table))
            }
            Some(name) => out.push_str(&format!(", {}", name.column)),
            None => {}
        }
        out.push('\n');
    }
    out
}
