//! The commands: names, arguments, and the functions that run them.

use super::context::{Context, Fail, print};
use super::{dump, files, monitor, options, server, server_commands};
use crate::call::Call;
use crate::page::{CommandEntry, Names, Page};
use crate::suggest;
use std::path::Path;

type Run = fn(&Context, &[String]) -> Result<(), Fail>;

struct Command {
    name: &'static str,
    usage: &'static str,
    args: (usize, usize),
    run: Run,
    text: &'static str,
}

const fn command(
    name: &'static str,
    usage: &'static str,
    args: (usize, usize),
    run: Run,
    text: &'static str,
) -> Command {
    Command { name, usage, args, run, text }
}

const UNLIMITED: usize = usize::MAX;

/// Commands for servers. The argument limits do not include the server and the database in front.
const SERVER_COMMANDS: &[Command] = &[
    command("list-dbs", "[SERVER]", (0, 0), server_commands::list_dbs, "lists the databases"),
    command(
        "get-schema",
        "[SERVER] [DATABASE]",
        (0, 0),
        server_commands::get_schema,
        "prints the schema as JSON",
    ),
    command(
        "get-schema-version",
        "[SERVER] [DATABASE]",
        (0, 0),
        server_commands::get_schema_version,
        "prints the schema's version",
    ),
    command(
        "get-schema-cksum",
        "[SERVER] [DATABASE]",
        (0, 0),
        server_commands::get_schema_cksum,
        "prints the schema's checksum",
    ),
    command("list-tables", "[SERVER] [DATABASE]", (0, 0), server_commands::list_tables, "lists the tables"),
    command(
        "list-columns",
        "[SERVER] [DATABASE] [TABLE]",
        (0, 1),
        server_commands::list_columns,
        "lists the columns of a table, or of all, with their types",
    ),
    command(
        "transact",
        "[SERVER] TRANSACTION",
        (1, 1),
        server_commands::transact,
        "executes a transaction (JSON)",
    ),
    command(
        "query",
        "[SERVER] TRANSACTION",
        (1, 1),
        server_commands::query,
        "executes a transaction and rolls it back",
    ),
    command(
        "monitor",
        "[SERVER] [DATABASE] TABLE [COLUMN,...]... | ALL",
        (1, UNLIMITED),
        monitor::monitor,
        "prints rows and their changes; !initial, !insert, !delete, !modify among the columns exclude such changes",
    ),
    command(
        "monitor-cond",
        "[SERVER] [DATABASE] CONDITION TABLE [COLUMN,...]...",
        (2, 3),
        monitor::monitor_cond,
        "like monitor, for rows that meet a condition",
    ),
    command(
        "monitor-cond-since",
        "[SERVER] [DATABASE] [LASTID] CONDITION TABLE [COLUMN,...]...",
        (2, 4),
        monitor::monitor_cond_since,
        "like monitor-cond, starting after the transaction with the given ID",
    ),
    command(
        "dump",
        "[SERVER] [DATABASE] [TABLE [COLUMN]...]",
        (0, UNLIMITED),
        dump::dump,
        "prints the contents of tables",
    ),
    command(
        "backup",
        "[SERVER] [DATABASE] > FILE",
        (0, 0),
        dump::backup,
        "writes the database as a database file",
    ),
    command(
        "restore",
        "[SERVER] [DATABASE] < FILE",
        (0, 0),
        dump::restore,
        "replaces the contents of the database by those of a backup",
    ),
    command(
        "wait",
        "[SERVER] DATABASE added|connected|removed",
        (2, 2),
        server_commands::wait,
        "waits until the server has added the database, connected it to its cluster, or removed it",
    ),
    command(
        "lock",
        "[SERVER] LOCK",
        (1, 1),
        server_commands::lock,
        "requests a lock, holds it, and prints its notifications",
    ),
    command("steal", "[SERVER] LOCK", (1, 1), server_commands::steal, "takes a lock from its present owner"),
    command("unlock", "[SERVER] LOCK", (1, 1), server_commands::unlock, "releases a lock"),
    command(
        "convert",
        "[SERVER] SCHEMA",
        (1, 1),
        server_commands::convert,
        "converts the server's database to the schema in a file",
    ),
    command(
        "needs-conversion",
        "[SERVER] SCHEMA",
        (1, 1),
        server_commands::needs_conversion,
        "prints whether the server's database has another schema than the file (yes or no)",
    ),
    command("help", "", (0, UNLIMITED), help, "prints the commands and options"),
];

/// Commands for files.
const FILE_COMMANDS: &[Command] = &[
    command("create", "[FILE [SCHEMA]]", (0, 2), files::create, "creates a database file"),
    command("compact", "[FILE [TARGET]]", (0, 2), files::compact, "rewrites the file without its history"),
    command("convert", "[FILE [SCHEMA [TARGET]]]", (0, 3), files::convert, "converts the file to a schema"),
    command(
        "needs-conversion",
        "[FILE [SCHEMA]]",
        (0, 2),
        files::needs_conversion,
        "prints whether the file has another schema (yes or no)",
    ),
    command("db-name", "[FILE]", (0, 1), files::db_name, "prints the name of the database in a file"),
    command("db-version", "[FILE]", (0, 1), files::db_version, "prints the version of its schema"),
    command("db-cksum", "[FILE]", (0, 1), files::db_cksum, "prints the checksum of its schema"),
    command(
        "db-is-clustered",
        "FILE",
        (1, 1),
        files::db_is_clustered,
        "exits with 0 if the file belongs to a cluster",
    ),
    command(
        "db-is-standalone",
        "FILE",
        (1, 1),
        files::db_is_standalone,
        "exits with 0 if the file does not belong to a cluster",
    ),
    command("schema-name", "[SCHEMA]", (0, 1), files::schema_name, "prints the name of a schema"),
    command("schema-version", "[SCHEMA]", (0, 1), files::schema_version, "prints its version"),
    command("schema-cksum", "[SCHEMA]", (0, 1), files::schema_cksum, "prints its checksum"),
    command(
        "compare-versions",
        "A OPERATOR B",
        (3, 3),
        files::compare_versions,
        "succeeds if the relation (<, <=, ==, >=, >, !=) of two versions of schemas holds",
    ),
    command(
        "query",
        "[FILE] TRANSACTION",
        (1, 2),
        files::query,
        "executes a transaction on a file without changing the file",
    ),
    command("transact", "[FILE] TRANSACTION", (1, 2), files::transact, "executes a transaction on a file"),
    command(
        "show-log",
        "[FILE]",
        (0, 1),
        files::show_log,
        "prints a file's history; with -m rows, with -mm columns too",
    ),
    command("help", "", (0, UNLIMITED), help, "prints the commands and options"),
];

/// Runs the command that the arguments name.
pub fn run(mut cx: Context, call: &Call, args: &[String]) -> Result<(), Fail> {
    if cx.options.help {
        return help(&cx, &[]);
    }
    if cx.options.version {
        return print(&format!("{}\n", crate::common::version(call, NAMES.other_names)));
    }
    let (name, args) = args.split_first().ok_or("missing command name; use --help for help")?;
    let find = |list: &'static [Command]| list.iter().find(|c| c.name == name);
    let uses_file_commands = match (call.compat, call.name.as_str()) {
        (true, "ovsdb-tool") => true,
        (true, _) => false,
        (false, _) => {
            let file = args.first().is_some_and(|arg| !server::is_remote(arg) && Path::new(arg).is_file());
            // `convert` and `needs-conversion` with only a schema are for a server; with a database file and
            // a schema they are for the file.
            let is_database_file = file && (args.len() > 1 || !name.contains("conver"));
            find(SERVER_COMMANDS).is_none() || is_database_file && find(FILE_COMMANDS).is_some()
        }
    };
    let command = find(if uses_file_commands { FILE_COMMANDS } else { SERVER_COMMANDS });
    let command = command.ok_or_else(|| {
        let hint = suggest::hint(name, SERVER_COMMANDS.iter().chain(FILE_COMMANDS).map(|c| c.name));
        format!("unknown command '{name}'{hint}; use --help for help")
    })?;
    let (min, max) = command.args;
    if uses_file_commands && args.len() < min {
        return Err(format!("'{name}' command requires at least {min} arguments").into());
    }
    // A server and a database may precede the command's own arguments.
    let max_total = if uses_file_commands { max } else { max.saturating_add(2) };
    if args.len() < min || args.len() > max_total {
        return Err(match uses_file_commands {
            true => format!("'{name}' command takes at most {max} arguments"),
            false => format!("invalid syntax for '{name}' (use --help for help)"),
        }
        .into());
    }
    cx.command = (command.name, command.args.1);
    (command.run)(&cx, args)
}

fn help(cx: &Context, _: &[String]) -> Result<(), Fail> {
    print(&page().help(&cx.name))
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "db", other_names: &["ovsdb-client", "ovsdb-tool"] };

/// The help page of the tool.
pub fn page() -> Page {
    let entry = |c: &Command| CommandEntry { name: c.name.into(), usage: c.usage.into(), text: c.text };
    Page {
        names: NAMES,
        title: "sends requests to a database server, and works on database files",
        synopsis: "[OPTION...] COMMAND [ARG...]",
        commands: SERVER_COMMANDS
            .iter()
            .chain(FILE_COMMANDS)
            .filter(|c| c.name != "help")
            .map(entry)
            .collect(),
        options: options::all().into_iter().chain([crate::common::JSON]).collect(),
        notes: vec![
            (
                "Servers",
                "A server is unix:FILE, tcp:HOST[:PORT] or ssl:HOST[:PORT], or several of these separated by commas; with \
                 punix:FILE, ptcp:[PORT][:HOST] and pssl:[PORT][:HOST] the tool listens for the server's connection. The \
                 default server is that of this machine (unix:db.sock in the run directory), the default database Open_vSwitch."
                    .into(),
            ),
            (
                "Files",
                "The default FILE is conf.db of this machine, the default SCHEMA that of Open vSwitch. A command that exists for \
                 servers and for files works on a file if its first argument names a database file. No server may use a file \
                 while a command changes it. Files of clusters are not supported."
                    .into(),
            ),
        ],
    }
}
