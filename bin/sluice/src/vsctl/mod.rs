//! `sluice vsctl` (`ovs-vsctl`): reads and changes the configuration database.
//!
//! All commands of one call form one transaction. They run on a copy of the database. If values on which they depend have
//! changed meanwhile, the server refuses the transaction, and all commands run again on the newer copy. Then the tool
//! waits until the switch reports (in `cur_cfg`) that it has applied the change. Exit status: 0 success, 1 failure,
//! 2 the bridge does not exist (`br-exists`), 65 the switch could not set up a new interface.
//!
//! * [`commands`]: the table of commands; [`command_line`], [`syntax`]: parse a call.
//! * [`schema_names`]: the tables and columns that commands may name; [`lookup`]: finds a row by its name.
//! * [`read_rows`], [`change_rows`]: commands on rows of any table; [`bridges`], [`ports`] and others: commands of one table.
//! * [`model`]: the tree of bridges, ports and interfaces; [`bridge_names`]: finds a bridge in the tree, and names in use.
//! * [`context`], [`transaction`]: the state of a run, and the changes that it has made.

mod bridge_names;
mod bridges;
mod change_rows;
mod command_line;
mod commands;
mod condition;
pub mod connection;
mod context;
mod controllers;
mod log;
mod lookup;
mod model;
mod options;
mod page;
mod ports;
mod read_rows;
mod schema_names;
mod show;
mod switch;
mod syntax;
mod transaction;
mod zones;

use crate::call::Call;
use crate::notation::Symbols;
use crate::{common, remote};
pub use page::{NAMES, page};

use command_line::{CommandLineError, Task};
use connection::{Connection, ConnectionError};
use context::{CommandOutput, CommandStop, Context, NeededColumns};
use log::{OVSDB_IDL, VSCTL};
use options::Options;
use ovsdb::Uuid;
use ovsdb::json::sorted_string;
use ovsdb::replica::TransactionResult;
use runtime::{Clock, Dirs};
use schema_names::ROOT;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;
use transaction::{Request, Transaction, refusal};

/// Exit status if the switch has read the change but could not apply it (`EX_DATAERR`).
const EXIT_NOT_SET_UP: u8 = 65;

/// Why the tool ends early.
enum ToolEnd {
    Fatal(String),
    Exit(u8),
    TimeOut,
}

impl From<String> for ToolEnd {
    fn from(text: String) -> ToolEnd {
        ToolEnd::Fatal(text)
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let mut dirs = Dirs::from_env(&call.argv0);
    dirs.progname.clone_from(&call.name);
    runtime::log::init(&call.name, &Clock::new());
    // Unlike other tools, vsctl logs its calls to the system's log.
    if let Err(why) = runtime::log::set("console:warn") {
        eprintln!("{}: {why}", call.name);
    }
    let options = match command_line::parse(call, &dirs) {
        Ok(Task::Run(options)) => options,
        Ok(Task::Print(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(CommandLineError::Usage(text)) => {
            eprintln!("{}: {text}", call.argv0);
            return ExitCode::FAILURE;
        }
        Err(CommandLineError::Fatal(text)) => {
            eprintln!("{}: {text}", call.name);
            return ExitCode::FAILURE;
        }
    };
    match run(call, &options, &dirs) {
        Ok(code) => code,
        Err(ToolEnd::Exit(status)) => ExitCode::from(status),
        Err(ToolEnd::Fatal(text)) => {
            eprintln!("{}: {text}", call.name);
            ExitCode::FAILURE
        }
        Err(ToolEnd::TimeOut) => crate::alarm::expire(),
    }
}

fn run(call: &Call, options: &Options, dirs: &Dirs) -> Result<ExitCode, ToolEnd> {
    let words = std::iter::once(call.argv0.as_str()).chain(call.args.iter().map(String::as_str));
    let line = syntax::quote(words);
    match options.commands.iter().any(|command| command.syntax.writes()) {
        true => runtime::info!(VSCTL, "Called as {line}"),
        false => runtime::debug!(VSCTL, "Called as {line}"),
    }
    let comment = format!("{} (invoked by {}): {line}", call.name, invoker());
    let mut needs = NeededColumns::default();
    needs.columns(ROOT, options.wait.then_some("cur_cfg"));
    for command in &options.commands {
        (command.syntax.prepare)(command, &mut needs)?;
    }
    let deadline = options.timeout.map(|timeout| Instant::now() + timeout);
    let mut connection = Connection::new(&options.db, dirs, needs.config(), deadline);
    // With a passive target, the tool waits for a connection without limit, as with `--retry`.
    connection.persistent = options.retry || options.db.split(',').any(remote::is_passive);
    let broken = |broken| match broken {
        ConnectionError::TimeOut => ToolEnd::TimeOut,
        ConnectionError::Connection(why) => {
            let hint = common::hint_about(&why, "; is the switch running, and OVS_RUNDIR its directory?");
            ToolEnd::Fatal(format!("{}: database connection failed ({why}){hint}", options.db))
        }
    };
    let mut seen = 0;
    let done = loop {
        connection.wait_for_change(seen).map_err(broken)?;
        seen = connection.replica.seqno();
        let Some(command_results) = run_commands(&connection, options, &comment)? else { continue };
        match commit(&mut connection, options, &command_results.request).map_err(broken)? {
            TransactionResult::Success(results) => {
                check_counter(&command_results.request, &results)?;
                break finish(command_results, &results);
            }
            TransactionResult::Failed(error) if options.dry_run && error.tag == "aborted" => {
                break finish(command_results, &[]);
            }
            TransactionResult::Failed(error) => {
                let text = refusal(&error);
                runtime::warn!(OVSDB_IDL, "{text}");
                return Err(text.into());
            }
            TransactionResult::NotLocked => return Err("database not locked".to_owned().into()),
            TransactionResult::TryAgain | TransactionResult::Unknown => {}
        }
    };
    print(options, done.outputs);
    // The server may restart while the switch applies the change, so reconnect.
    connection.persistent = true;
    let Some(wanted) = done.next_cfg else { return Ok(ExitCode::SUCCESS) };
    while !connection.replica.rows(ROOT).any(|root| root.int("cur_cfg") >= wanted) {
        connection.wait_for_change(connection.replica.seqno()).map_err(broken)?;
    }
    Ok(report_interfaces(call, dirs, &connection, &done.interfaces))
}

/// The first word of the command line of the parent process.
fn invoker() -> String {
    let parent = std::os::unix::process::parent_id();
    let line = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
    let word = line.split(|c| matches!(c, 0 | b'\n')).next().unwrap_or_default();
    String::from_utf8_lossy(word).into_owned()
}

/// The result of the commands on one state of the database.
struct CommandResults {
    outputs: Vec<CommandOutput>,
    interfaces: Vec<Uuid>,
    request: Request,
}

/// Runs the commands. `None`: a command waits for a change of the database.
fn run_commands(
    connection: &Connection<'_>,
    options: &Options,
    comment: &str,
) -> Result<Option<CommandResults>, ToolEnd> {
    let mut ctx = Context::new(Transaction::new(&connection.replica));
    let mut outputs = Vec::new();
    for (at, command) in options.commands.iter().enumerate() {
        ctx.begin(at + 1 == options.commands.len());
        match (command.syntax.run)(&mut ctx, command) {
            Ok(output) => outputs.push(output),
            Err(CommandStop::Again) => return Ok(None),
            Err(CommandStop::Exit(status)) => return Err(ToolEnd::Exit(status)),
            Err(CommandStop::Fatal(text)) => return Err(ToolEnd::Fatal(text)),
        }
    }
    check_symbols(&ctx.symbols)?;
    let request = ctx.tx.request(options.wait.then_some(ctx.root), comment, options.dry_run);
    Ok(Some(CommandResults { outputs, interfaces: ctx.new_interfaces, request }))
}

/// Checks that every symbol names a row, and that each new row has a reference, without which the server would delete it.
fn check_symbols(symbols: &Symbols) -> Result<(), String> {
    for (name, symbol) in &symbols.0 {
        if !symbol.created {
            return Err(format!(
                "row id \"{name}\" is referenced but never created (e.g. with \"-- --id={name} create ...\")"
            ));
        }
        match (symbol.strong, symbol.weak) {
            (true, _) => {}
            (false, false) => runtime::warn!(
                VSCTL,
                "row id \"{name}\" was created but no reference to it was inserted, so it will not actually appear in the database"
            ),
            (false, true) => runtime::warn!(
                VSCTL,
                "row id \"{name}\" was created but only a weak reference to it was inserted, so it will not actually appear in the database"
            ),
        }
    }
    Ok(())
}

fn commit(
    connection: &mut Connection<'_>,
    options: &Options,
    request: &Request,
) -> Result<TransactionResult, ConnectionError> {
    if !request.changes {
        return Ok(TransactionResult::Success(Vec::new()));
    }
    let result = connection.transact(&request.operations)?;
    // After a loss of the connection it is not known whether the server has executed the transaction.
    match result {
        TransactionResult::Unknown if !options.retry => {
            Err(ConnectionError::Connection("End of file".into()))
        }
        result => Ok(result),
    }
}

/// Checks that the transaction has increased `next_cfg`. It has not if the root row no longer exists.
fn check_counter(request: &Request, results: &[ovsdb::Json]) -> Result<(), String> {
    let Some(increase) = request.counter.and_then(|at| results.get(at.checked_sub(1)?)) else {
        return Ok(());
    };
    match increase.get("count").and_then(ovsdb::Json::as_i64) {
        Some(1) => Ok(()),
        count => {
            let count = count.unwrap_or(0);
            runtime::warn!(OVSDB_IDL, "\"mutate\" reply \"count\" is {count} instead of 1");
            Err("transaction error: no error details available".to_owned())
        }
    }
}

/// The result of a successful transaction.
struct TransactionOutcome {
    outputs: Vec<CommandOutput>,
    interfaces: Vec<Uuid>,
    /// The value of `cur_cfg` to wait for.
    next_cfg: Option<i64>,
}

fn finish(command_results: CommandResults, results: &[ovsdb::Json]) -> TransactionOutcome {
    let CommandResults { outputs, interfaces, request } = command_results;
    let success = TransactionResult::Success(results.to_vec());
    let inserted: BTreeMap<Uuid, Uuid> =
        request.insertions.iter().filter_map(|(row, at)| Some((*row, success.inserted(*at)?))).collect();
    let real = |row: Uuid| inserted.get(&row).copied().unwrap_or(row);
    let counter = request.counter.and_then(|at| results.get(at));
    let next_cfg = counter.and_then(|r| r.get("rows")?.get(0)?.get("next_cfg")?.as_i64());
    let outputs = outputs.into_iter().map(|output| match output {
        CommandOutput::Row(row) => CommandOutput::word(&real(row).to_string()),
        other => other,
    });
    TransactionOutcome {
        outputs: outputs.collect(),
        interfaces: interfaces.into_iter().map(real).collect(),
        next_cfg,
    }
}

fn print(options: &Options, outputs: Vec<CommandOutput>) {
    let mut out = String::new();
    let mut first = true;
    for output in outputs {
        match output {
            CommandOutput::Table(table) => {
                out.push_str(&table.render(&options.style, first));
                first = false;
            }
            // Each output is printed as a JSON value on its own line.
            CommandOutput::Value(_, json) if options.json => out.push_str(&(sorted_string(&json) + "\n")),
            CommandOutput::Text(text) | CommandOutput::Value(text, _) if options.oneline => {
                let line = text.strip_suffix('\n').unwrap_or(&text);
                out.push_str(&line.replace('\\', "\\\\").replace('\n', "\\n"));
                out.push('\n');
            }
            CommandOutput::Text(text) | CommandOutput::Value(text, _) => out.push_str(&text),
            CommandOutput::Row(row) => out.push_str(&format!("{row}\n")),
        }
    }
    // Ignore errors: the reader may have closed the pipe.
    let mut stdout = std::io::stdout();
    let _ = stdout.write_all(out.as_bytes()).and_then(|()| stdout.flush());
}

/// Reports new interfaces that the switch could not set up.
fn report_interfaces(call: &Call, dirs: &Dirs, connection: &Connection<'_>, rows: &[Uuid]) -> ExitCode {
    let mut failed = false;
    // The message refers to the daemon's log, whose file is named after the daemon.
    let daemon = if call.compat { "ovs-vswitchd" } else { "sluiced" };
    let new = rows.iter().filter_map(|row| connection.replica.row("Interface", *row));
    for iface in new.filter(|iface| iface.opt_int("ofport").unwrap_or(-1) == -1) {
        let why = iface.opt_str("error").filter(|e| !e.is_empty()).map(|e| format!(": {e}"));
        eprintln!(
            "{}: Error detected while setting up '{}'{}.  See {daemon} log for details.",
            call.name,
            iface.str("name"),
            why.unwrap_or_default()
        );
        failed = true;
    }
    if !failed {
        return ExitCode::SUCCESS;
    }
    eprintln!("{}: The default log directory is \"{}\".", call.name, dirs.log.display());
    ExitCode::from(EXIT_NOT_SET_UP)
}
