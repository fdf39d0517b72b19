//! Chooses the server and the database of a command, from its arguments and from the list of databases of the server.

use super::context::{Context, Fail};
use super::rpc::Rpc;
use ovsdb::{Json, Schema};
use serde_json::json;

/// A connection for a command, and its arguments without server and database.
pub struct Session<'a> {
    /// The connection.
    pub rpc: Rpc,
    /// The database, if the command needs one.
    pub database: String,
    /// The remaining arguments.
    pub args: &'a [String],
}

impl<'a> Session<'a> {
    /// Returns an error if too many arguments remain.
    fn checked(self, cx: &Context) -> Result<Session<'a>, Fail> {
        let (command, max) = cx.command;
        if self.args.len() > max {
            return Err(format!("invalid syntax for '{command}' (use --help for help)").into());
        }
        Ok(self)
    }
}

/// Returns whether an argument has the form of a server's address.
pub fn is_remote(arg: &str) -> bool {
    arg.starts_with(|c: char| c.is_ascii_alphabetic()) && arg.contains(':')
}

/// Splits off the server that `args` begin with; default: the server of this machine.
fn split_server<'a>(cx: &Context, args: &'a [String], min: usize) -> (String, &'a [String]) {
    match args.split_first() {
        Some((first, rest)) if args.len() > min && is_remote(first) => (first.clone(), rest),
        _ => (format!("unix:{}", cx.dirs.in_run("db.sock").display()), args),
    }
}

/// Connects to the server for a command with at least `min` arguments of its own.
pub fn connect<'a>(cx: &Context, args: &'a [String], min: usize) -> Result<Session<'a>, Fail> {
    let (server, args) = split_server(cx, args, min);
    let rpc = if server.contains(',') {
        connect_to_first(cx, &server, None)?
    } else {
        Rpc::open(&server, &cx.dirs)?
    };
    Session { rpc, database: String::new(), args }.checked(cx)
}

/// Connects to the server for a command whose database is known to be `database`.
pub fn connect_for<'a>(
    cx: &Context,
    args: &'a [String],
    min: usize,
    database: &str,
) -> Result<Session<'a>, Fail> {
    let (server, args) = split_server(cx, args, min);
    let rpc = match server.contains(',') {
        true => connect_to_first(cx, &server, Some(database))?,
        false => Rpc::open(&server, &cx.dirs)?,
    };
    Session { rpc, database: database.to_owned(), args }.checked(cx)
}

/// Connects to the server for a command on a database, which is an argument or can be deduced from the server's databases.
pub fn connect_to_database<'a>(cx: &Context, args: &'a [String], min: usize) -> Result<Session<'a>, Fail> {
    let (server, rest) = split_server(cx, args, min);
    let named = rest.split_first().filter(|_| rest.len() > min);
    if server.contains(',') {
        // With several servers the database must be an argument, because the servers may have different databases.
        let (database, rest) = named.ok_or("database name is required with multiple remotes")?;
        let rpc = connect_to_first(cx, &server, Some(database))?;
        return Session { rpc, database: database.clone(), args: rest }.checked(cx);
    }
    let mut rpc = Rpc::open(&server, &cx.dirs)?;
    let all = databases(&mut rpc)?;
    if let Some((database, rest)) = named.filter(|(name, _)| all.contains(name)) {
        return Session { rpc, database: database.clone(), args: rest }.checked(cx);
    }
    let mut public = all.iter().filter(|name| !name.starts_with('_'));
    let database = match (all.iter().find(|name| *name == "Open_vSwitch"), public.next(), public.next()) {
        (Some(ours), ..) => ours.clone(),
        (None, Some(only), None) => only.clone(),
        _ => return Err("could not find a default database, please specify a database name".into()),
    };
    Session { rpc, database, args: rest }.checked(cx)
}

/// The names of the databases of a server, sorted.
pub fn databases(rpc: &mut Rpc) -> Result<Vec<String>, Fail> {
    let answer = rpc.ask("list_dbs", json!([]))?;
    let list = answer.as_array().ok_or("list_dbs response is not array")?;
    let mut names = Vec::new();
    for (at, name) in list.iter().enumerate() {
        let name = name.as_str().ok_or_else(|| format!("list_dbs response {at} is not string"))?;
        names.push(name.to_owned());
    }
    names.sort();
    Ok(names)
}

/// Connects to the first of several servers that answers. If `database` is given, the server must
/// also serve it: as a standalone database, or connected to its cluster and, unless `--no-leader-only` is
/// given, as its leader. `cid:` items name no server and are skipped.
fn connect_to_first(cx: &Context, servers: &str, database: Option<&str>) -> Result<Rpc, Fail> {
    for server in servers.split(',').map(str::trim).filter(|s| !s.starts_with("cid:")) {
        let Ok(mut rpc) = Rpc::open(server, &cx.dirs) else { continue };
        let Some(database) = database else { return Ok(rpc) };
        let Some(row) = describe(&mut rpc, database) else { continue };
        let holds = |column: &str| row.get(column).and_then(Json::as_bool).unwrap_or(false);
        let alone = row.get("model").and_then(Json::as_str) == Some("standalone");
        if alone || holds("connected") && (holds("leader") || !cx.options.leader_only) {
            return Ok(rpc);
        }
    }
    Err("no servers were available".into())
}

/// The row of the database in the server's `_Server` database.
pub fn describe(rpc: &mut Rpc, database: &str) -> Option<Json> {
    let select = json!({"op": "select", "table": "Database", "where": [["name", "==", database]]});
    let answer = rpc.ask("transact", json!(["_Server", select])).ok()?;
    answer.get(0)?.get("rows")?.get(0).cloned()
}

/// The schema of the database.
pub fn schema(rpc: &mut Rpc, database: &str) -> Result<Schema, Fail> {
    let answer = rpc.ask("get_schema", json!([database]))?;
    Ok(Schema::from_json(&answer)?)
}

/// Requests that the server does not close the connection when its databases change.
pub fn set_change_aware(cx: &Context, rpc: &mut Rpc) -> Result<(), Fail> {
    if cx.options.change_aware == Some(false) {
        return Ok(());
    }
    let name = rpc.name.clone();
    match rpc.call("set_db_change_aware", json!([true])) {
        Err(e) => Err(format!("{name}: error setting db_change_aware ({})", runtime::error_text(&e)).into()),
        Ok(Err(error)) if cx.options.change_aware == Some(true) => {
            Err(format!("{name}: set_db_change_aware failed ({error})").into())
        }
        Ok(_) => Ok(()),
    }
}

/// Returns an error unless all operations of a transaction succeeded.
pub fn check_results(answer: &Json) -> Result<(), Fail> {
    let results = answer.as_array().ok_or("result is not array")?;
    for result in results {
        let object = result.as_object().ok_or("result array element is not object")?;
        if object.contains_key("error") {
            let text = ovsdb::json::sorted_string(result);
            return Err(format!("server returned error reply: {text}").into());
        }
    }
    Ok(())
}
