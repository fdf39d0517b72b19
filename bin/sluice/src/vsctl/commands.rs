//! The commands: their names, options and arguments, and how a command line splits into
//! them at `--`.

use super::syntax::{Command, Prepare, Run, Syntax};
use super::{bridges, change_rows, controllers, ports, read_rows, show, switch, zones};
use crate::suggest;
use std::collections::BTreeMap;

const UNLIMITED: usize = i32::MAX as usize;

const fn command(
    name: &'static str,
    args: (usize, usize),
    usage: &'static str,
    options: &'static [&'static str],
    prepare: Prepare,
    run: Run,
) -> Syntax {
    Syntax { name, args, usage, options, prepare, run }
}

const MAY_EXIST: &[&str] = &["--may-exist"];
const IF_EXISTS: &[&str] = &["--if-exists"];
const INACTIVITY_PROBE: &[&str] = &["--inactivity-probe="];

/// All commands.
pub static COMMANDS: &[Syntax] = &[
    command("init", (0, 0), "", &[], switch::prepare_nothing, switch::nothing),
    command("comment", (0, UNLIMITED), "*ARG", &[], switch::prepare_nothing, switch::nothing),
    command("show", (0, 0), "", &["--filter="], show::prepare, show::show),
    command("emer-reset", (0, 0), "", &[], switch::prepare_emer_reset, switch::emer_reset),
    command("add-br", (1, 3), "!NEW-BRIDGE ?PARENT ?NEW-VLAN", MAY_EXIST, bridges::prepare, bridges::add),
    command("del-br", (1, 1), "!BRIDGE", IF_EXISTS, bridges::prepare, bridges::del),
    command("list-br", (0, 0), "", &["--real", "--fake"], bridges::prepare, bridges::list),
    command("br-exists", (1, 1), "!BRIDGE", &[], bridges::prepare, bridges::exists),
    command("br-to-vlan", (1, 1), "!BRIDGE", &[], bridges::prepare, bridges::to_vlan),
    command("br-to-parent", (1, 1), "!BRIDGE", &[], bridges::prepare, bridges::to_parent),
    command(
        "br-set-external-id",
        (2, 3),
        "!BRIDGE !KEY ?VALUE",
        &[],
        bridges::prepare_external_ids,
        bridges::set_external_id,
    ),
    command(
        "br-get-external-id",
        (1, 2),
        "!BRIDGE ?KEY",
        &[],
        bridges::prepare_external_ids,
        bridges::get_external_id,
    ),
    command("list-ports", (1, 1), "!BRIDGE", &[], bridges::prepare, ports::list),
    command(
        "add-port",
        (2, UNLIMITED),
        "!BRIDGE !NEW-PORT *COLUMN?:KEY=VALUE",
        MAY_EXIST,
        bridges::prepare,
        ports::add,
    ),
    command(
        "del-port",
        (1, 2),
        "?BRIDGE !PORT|IFACE",
        &["--if-exists", "--with-iface"],
        bridges::prepare,
        ports::del,
    ),
    command("port-to-br", (1, 1), "!PORT", &[], bridges::prepare, ports::to_bridge),
    command(
        "add-bond",
        (4, UNLIMITED),
        "!BRIDGE !BOND +IFACE *COLUMN?:KEY=VALUE",
        &["--may-exist", "--fake-iface"],
        bridges::prepare,
        ports::add_bond,
    ),
    command("add-bond-iface", (2, 2), "!BOND !IFACE", MAY_EXIST, bridges::prepare, ports::add_bond_iface),
    command("del-bond-iface", (1, 2), "?BOND !IFACE", IF_EXISTS, bridges::prepare, ports::del_bond_iface),
    command("list-ifaces", (1, 1), "!BRIDGE", &[], bridges::prepare, ports::list_ifaces),
    command("iface-to-br", (1, 1), "!IFACE", &[], bridges::prepare, ports::iface_to_bridge),
    command("get-controller", (1, 1), "!BRIDGE", &[], controllers::prepare, controllers::get),
    command("del-controller", (1, 1), "!BRIDGE", &[], controllers::prepare, controllers::del),
    command(
        "set-controller",
        (1, UNLIMITED),
        "!BRIDGE +TARGET",
        INACTIVITY_PROBE,
        controllers::prepare,
        controllers::set,
    ),
    command("get-fail-mode", (1, 1), "!BRIDGE", &[], bridges::prepare, controllers::get_fail_mode),
    command("del-fail-mode", (1, 1), "!BRIDGE", &[], bridges::prepare, controllers::del_fail_mode),
    command("set-fail-mode", (2, 2), "!BRIDGE !MODE", &[], bridges::prepare, controllers::set_fail_mode),
    command("get-manager", (0, 0), "", &[], controllers::prepare_managers, controllers::get_managers),
    command("del-manager", (0, 0), "", &[], controllers::prepare_managers, controllers::del_managers),
    command(
        "set-manager",
        (1, UNLIMITED),
        "+TARGET",
        INACTIVITY_PROBE,
        controllers::prepare_managers,
        controllers::set_managers,
    ),
    command("get-ssl", (0, 0), "", &[], switch::prepare_ssl, switch::get_ssl),
    command("del-ssl", (0, 0), "", &[], switch::prepare_ssl, switch::del_ssl),
    command(
        "set-ssl",
        (3, 3),
        "!PRIVATE-KEY !CERTIFICATE !CA-CERT",
        &["--bootstrap"],
        switch::prepare_ssl,
        switch::set_ssl,
    ),
    command(
        "add-aa-mapping",
        (3, 3),
        "!BRIDGE !ARG !ARG",
        &[],
        switch::prepare_mappings,
        switch::add_mapping,
    ),
    command(
        "del-aa-mapping",
        (3, 3),
        "!BRIDGE !ARG !ARG",
        &[],
        switch::prepare_mappings,
        switch::del_mapping,
    ),
    command("get-aa-mapping", (1, 1), "!BRIDGE", &[], switch::prepare_mappings, switch::get_mappings),
    command("add-zone-tp", (3, UNLIMITED), "", MAY_EXIST, zones::prepare, zones::add_policy),
    command("del-zone-tp", (2, 2), "", IF_EXISTS, zones::prepare, zones::del_policy),
    command("list-zone-tp", (1, 1), "", &[], zones::prepare, zones::list_policies),
    command("list-dp-cap", (1, 1), "", &[], zones::prepare_capabilities, zones::list_capabilities),
    command("set-zone-limit", (3, 3), "!ARG !ARG !ARG", &[], zones::prepare, zones::set_limit),
    command("del-zone-limit", (2, 2), "!ARG !ARG", IF_EXISTS, zones::prepare, zones::del_limit),
    command("list-zone-limits", (1, 1), "!ARG", &[], zones::prepare, zones::list_limits),
    command(
        "get",
        (2, UNLIMITED),
        "!TABLE !RECORD *COLUMN?:KEY",
        &["--if-exists", "--id="],
        read_rows::prepare_get,
        read_rows::get,
    ),
    command(
        "list",
        (1, UNLIMITED),
        "!TABLE *RECORD",
        &["--if-exists", "--columns="],
        read_rows::prepare_list,
        read_rows::list,
    ),
    command(
        "find",
        (1, UNLIMITED),
        "!TABLE *COLUMN?:KEY=VALUE",
        &["--columns="],
        read_rows::prepare_find,
        read_rows::find,
    ),
    command(
        "set",
        (3, UNLIMITED),
        "!TABLE !RECORD +COLUMN?:KEY=VALUE",
        IF_EXISTS,
        change_rows::prepare_set,
        change_rows::set,
    ),
    command(
        "add",
        (4, UNLIMITED),
        "!TABLE !RECORD !COLUMN +?KEY=VALUE",
        IF_EXISTS,
        change_rows::prepare_add_or_remove,
        change_rows::add,
    ),
    command(
        "remove",
        (4, UNLIMITED),
        "!TABLE !RECORD !COLUMN +KEY|VALUE|KEY=VALUE",
        IF_EXISTS,
        change_rows::prepare_add_or_remove,
        change_rows::remove,
    ),
    command(
        "clear",
        (3, UNLIMITED),
        "!TABLE !RECORD +COLUMN",
        IF_EXISTS,
        change_rows::prepare_clear,
        change_rows::clear,
    ),
    command(
        "create",
        (2, UNLIMITED),
        "!TABLE +COLUMN?:KEY=VALUE",
        &["--id="],
        change_rows::prepare_create,
        change_rows::create,
    ),
    command(
        "destroy",
        (1, UNLIMITED),
        "!TABLE *RECORD",
        &["--if-exists", "--all"],
        change_rows::prepare_destroy,
        change_rows::destroy,
    ),
    command(
        "wait-until",
        (2, UNLIMITED),
        "!TABLE !RECORD *COLUMN?:KEY=VALUE",
        &[],
        read_rows::prepare_wait,
        read_rows::wait_until,
    ),
];

/// Splits a command line into commands; `first` are options given before the first `--`.
pub fn parse(args: &[String], first: Vec<(String, Option<String>)>) -> Result<Vec<Command>, String> {
    let missing = || "missing command name (use --help for help)".to_owned();
    let mut options = first;
    let mut commands = Vec::new();
    for part in args.split(|arg| arg == "--") {
        if !part.is_empty() {
            commands.push(parse_one(part, std::mem::take(&mut options))?);
        } else if !options.is_empty() {
            return Err(missing());
        }
    }
    if commands.is_empty() { Err(missing()) } else { Ok(commands) }
}

fn parse_one(words: &[String], given: Vec<(String, Option<String>)>) -> Result<Command, String> {
    let mut options: BTreeMap<String, Option<String>> = given.into_iter().collect();
    let mut words = words.iter();
    let name = loop {
        let word = words.next().ok_or("missing command name (use --help for help)")?;
        if !word.starts_with('-') {
            break word;
        }
        let (key, value) = match word.split_once('=') {
            Some((key, value)) => (key, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        if options.insert(key.to_owned(), value).is_some() {
            return Err(format!("'{word}' option specified multiple times"));
        }
    };
    let syntax = COMMANDS.iter().find(|c| c.name == name);
    let syntax = syntax.ok_or_else(|| {
        let hint = suggest::hint(name, COMMANDS.iter().map(|c| c.name));
        format!("unknown command '{name}'{hint}; use --help for help")
    })?;
    options.iter().try_for_each(|(key, value)| check_option(syntax, key, value.is_some()))?;
    let args: Vec<String> = words.cloned().collect();
    check_count(syntax, &args)?;
    Ok(Command { syntax, options, args })
}

fn check_option(syntax: &Syntax, key: &str, valued: bool) -> Result<(), String> {
    let name = syntax.name;
    let known = syntax.options.iter().find(|o| o.trim_end_matches('=') == key);
    let known = known.ok_or_else(|| format!("'{name}' command has no '{key}' option"))?;
    match (known.ends_with('='), valued) {
        (true, false) => Err(format!("missing argument to '{key}' option on '{name}' command")),
        (false, true) => Err(format!("'{key}' option on '{name}' does not accept an argument")),
        _ => Ok(()),
    }
}

fn check_count(syntax: &Syntax, args: &[String]) -> Result<(), String> {
    let (name, (min, max)) = (syntax.name, syntax.args);
    if args.len() < min {
        return Err(format!("'{name}' command requires at least {min} arguments"));
    }
    if args.len() <= max {
        return Ok(());
    }
    let hint = match args.iter().any(|arg| arg.starts_with('-')) {
        true => " (note that options must precede command names and follow a \"--\" argument)",
        false => "",
    };
    Err(format!("'{name}' command takes at most {max} arguments{hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match parse(&args, Vec::new()) {
            Ok(commands) => commands.iter().map(Command::line).collect::<Vec<_>>().join("; "),
            Err(e) => e,
        }
    }

    #[test]
    fn chains() {
        assert_eq!(
            shown("-- --may-exist add-br a -- --id=@x get Bridge a"),
            "--may-exist add-br a; --id get Bridge a"
        );
        assert_eq!(shown("-- --"), "missing command name (use --help for help)");
    }

    #[test]
    fn complaints() {
        assert_eq!(shown("foo"), "unknown command 'foo'; use --help for help");
        assert_eq!(shown("--x add-br a"), "'add-br' command has no '--x' option");
        assert_eq!(shown("--id get Bridge a"), "missing argument to '--id' option on 'get' command");
        assert_eq!(
            shown("--may-exist=1 add-br a"),
            "'--may-exist' option on 'add-br' does not accept an argument"
        );
        assert_eq!(shown("add-br"), "'add-br' command requires at least 1 arguments");
        assert_eq!(shown("list-br a"), "'list-br' command takes at most 0 arguments");
        assert_eq!(
            shown("del-br a --if-exists"),
            "'del-br' command takes at most 1 arguments (note that options must precede command names and follow a \"--\" argument)"
        );
        assert_eq!(shown("--a --a x"), "'--a' option specified multiple times");
    }

    #[test]
    fn writers() {
        let writes = |name| COMMANDS.iter().find(|c| c.name == name).is_some_and(Syntax::writes);
        assert!(["init", "set", "del-port", "create", "br-set-external-id"].into_iter().all(writes));
        assert!(!["get-ssl", "port-to-br", "br-to-vlan", "list-dp-cap", "br-exists"].into_iter().any(writes));
    }
}
