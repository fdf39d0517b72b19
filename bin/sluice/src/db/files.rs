//! Commands for files: databases and schemas.

use super::context::{Context, Fail, print};
use super::{arguments, show_log};
use ovsdb::log::{self, LogError};
use ovsdb::transaction::{self, Outcome};
use ovsdb::{Database, Json, Schema, Uuid};
use ovsdb_server::{DatabaseFile, OpenError, now_ms};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type CommandResult = Result<(), Fail>;

impl From<OpenError> for Fail {
    fn from(error: OpenError) -> Fail {
        match error {
            OpenError::Io { path, cause } => {
                let (path, why) = (path.display(), runtime::error_text(&cause));
                Fail::Message(format!("I/O error: {path}: open failed ({why})"))
            }
            other => Fail::Message(other.to_string()),
        }
    }
}

/// The database file that an argument names; default: `conf.db` of this machine.
fn database(cx: &Context, args: &[String], at: usize) -> PathBuf {
    args.get(at).map_or_else(|| cx.dirs.db.join("conf.db"), PathBuf::from)
}

/// The schema that an argument names; default: the schema of Open vSwitch, which is built into the program.
fn schema_of(args: &[String], at: usize) -> Result<Schema, Fail> {
    args.get(at).map_or_else(
        || Ok(ovsdb::schema::open_vswitch().as_ref().clone()),
        |path| arguments::schema(Path::new(path)),
    )
}

/// `create`
pub fn create(cx: &Context, args: &[String]) -> CommandResult {
    let path = database(cx, args, 0);
    let schema = schema_of(args, 1)?;
    if path.exists() {
        return Err(format!("I/O error: {}: create failed (File exists)", path.display()).into());
    }
    DatabaseFile::open(&path, Some(&schema))?;
    Ok(())
}

/// `compact`
pub fn compact(cx: &Context, args: &[String]) -> CommandResult {
    rewrite(&database(cx, args, 0), args.get(1).map(Path::new), Ok)
}

/// `convert`
pub fn convert(cx: &Context, args: &[String]) -> CommandResult {
    let schema = Arc::new(schema_of(args, 1)?);
    rewrite(&database(cx, args, 0), args.get(2).map(Path::new), |db| {
        Ok(ovsdb::convert::convert(&db, schema, &mut Uuid::new_v4)?)
    })
}

/// Rewrites a database after `change`, in place or to another file.
fn rewrite(
    from: &Path,
    to: Option<&Path>,
    change: impl FnOnce(Database) -> Result<Database, Fail>,
) -> CommandResult {
    let failed = |path: &Path, e: std::io::Error| {
        Fail::Message(format!("I/O error: {}: write failed ({})", path.display(), runtime::error_text(&e)))
    };
    match to {
        None => {
            if !from.exists() {
                return Err(
                    OpenError::Io { path: from.to_owned(), cause: rustix::io::Errno::NOENT.into() }.into()
                );
            }
            let (mut file, db) = DatabaseFile::open(from, None)?;
            file.rewrite(&change(db)?).map_err(|e| failed(from, e))
        }
        Some(to) => {
            let db = change(ovsdb_server::read(from)?)?;
            let (mut file, _) = DatabaseFile::open(to, Some(db.schema()))?;
            file.rewrite(&db).map_err(|e| failed(to, e))
        }
    }
}

/// `needs-conversion`
pub fn needs_conversion(cx: &Context, args: &[String]) -> CommandResult {
    let stored = ovsdb_server::read(&database(cx, args, 0))?;
    print(if **stored.schema() == schema_of(args, 1)? { "no\n" } else { "yes\n" })
}

fn print_schema_field(cx: &Context, args: &[String], what: fn(&Schema) -> &str) -> CommandResult {
    let db = ovsdb_server::read(&database(cx, args, 0))?;
    print(&format!("{}\n", what(db.schema())))
}

/// `db-name`
pub fn db_name(cx: &Context, args: &[String]) -> CommandResult {
    print_schema_field(cx, args, |s| &s.name)
}

/// `db-version`
pub fn db_version(cx: &Context, args: &[String]) -> CommandResult {
    print_schema_field(cx, args, |s| &s.version)
}

/// `db-cksum`
pub fn db_cksum(cx: &Context, args: &[String]) -> CommandResult {
    print_schema_field(cx, args, |s| &s.cksum)
}

/// `schema-name`
pub fn schema_name(_: &Context, args: &[String]) -> CommandResult {
    print(&(schema_of(args, 0)?.name + "\n"))
}

/// `schema-version`
pub fn schema_version(_: &Context, args: &[String]) -> CommandResult {
    print(&(schema_of(args, 0)?.version + "\n"))
}

/// `schema-cksum`
pub fn schema_cksum(_: &Context, args: &[String]) -> CommandResult {
    print(&(schema_of(args, 0)?.cksum + "\n"))
}

/// Returns whether a file belongs to a cluster.
fn clustered(cx: &Context, args: &[String]) -> Result<bool, Fail> {
    let path = database(cx, args, 0);
    let bytes = std::fs::read(&path).map_err(|cause| OpenError::Io { path: path.clone(), cause })?;
    match log::read(&bytes) {
        Ok(_) => Ok(false),
        Err(LogError::Clustered) => Ok(true),
        Err(cause) => Err(OpenError::Log { path, cause }.into()),
    }
}

/// `db-is-clustered`
pub fn db_is_clustered(cx: &Context, args: &[String]) -> CommandResult {
    if clustered(cx, args)? { Ok(()) } else { Err(Fail::Exit(2)) }
}

/// `db-is-standalone`
pub fn db_is_standalone(cx: &Context, args: &[String]) -> CommandResult {
    if clustered(cx, args)? { Err(Fail::Exit(2)) } else { Ok(()) }
}

/// `compare-versions`
pub fn compare_versions(_: &Context, args: &[String]) -> CommandResult {
    let [a, operator, b] = args else { return Ok(()) };
    let version = |text: &String| -> Result<[u32; 3], Fail> {
        let parts: Vec<u32> = text.split('.').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
        let wrong = || format!("{text}: not an OVSDB version number in format x.y.z");
        Ok(parts.try_into().map_err(|_| wrong())?)
    };
    let order = version(a)?.cmp(&version(b)?);
    let holds = match operator.as_str() {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        "==" => order.is_eq(),
        ">=" => order.is_ge(),
        ">" => order.is_gt(),
        "!=" => order.is_ne(),
        _ => return Err(format!("{operator}: not a relational operator").into()),
    };
    if holds { Ok(()) } else { Err(Fail::Exit(2)) }
}

/// `query`
pub fn query(cx: &Context, args: &[String]) -> CommandResult {
    let request = arguments::json(args.last().map_or("", String::as_str))?;
    let path = if args.len() > 1 { database(cx, args, 0) } else { database(cx, &[], 0) };
    let db = ovsdb_server::read(&path)?;
    match execute(&db, &request) {
        Outcome::Ready(prepared) => print(&cx.json(&prepared.results.into())),
        other => print_failure(cx, &db, &request, other),
    }
}

/// `transact`
pub fn transact(cx: &Context, args: &[String]) -> CommandResult {
    let request = arguments::json(args.last().map_or("", String::as_str))?;
    let path = if args.len() > 1 { database(cx, args, 0) } else { database(cx, &[], 0) };
    let (mut file, db) = DatabaseFile::open(&path, None)?;
    let prepared = match execute(&db, &request) {
        Outcome::Ready(prepared) => prepared,
        other => return print_failure(cx, &db, &request, other),
    };
    if let Some(body) =
        log::transaction_text(db.schema(), &prepared.commit.changes, now_ms(), &prepared.comment)
    {
        // The record is on disk before the result is printed. `db` is the database without this record.
        let durable = true;
        file.append(&log::record_of_text(&body), durable, &db).map_err(|e| {
            format!("I/O error: {}: write failed ({})", path.display(), runtime::error_text(&e))
        })?;
    }
    print(&cx.json(&prepared.results.into()))
}

fn execute(db: &Database, request: &Json) -> Outcome {
    let request = ovsdb::Parameters::Tree(request.clone());
    transaction::execute(db, &request, &ovsdb::Context::default(), &mut Uuid::new_v4)
}

/// Prints the results of a failed transaction. A transaction whose `wait` condition does not hold returns an error.
fn print_failure(cx: &Context, db: &Database, request: &Json, outcome: Outcome) -> CommandResult {
    match outcome {
        Outcome::Failed(results) => {
            // If the request is not a transaction on this database, the result is a single error and not a list.
            let is_single_error = request.get(0).and_then(Json::as_str) != Some(&db.schema().name);
            let answer = Json::Array(results);
            print(&cx.json(answer.get(0).filter(|_| is_single_error).unwrap_or(&answer)))
        }
        // A `wait` operation has failed. This process does not read the file again, so waiting would not help.
        _ => Err("the transaction waits for a condition that cannot become true".into()),
    }
}

/// `show-log`
pub fn show_log(cx: &Context, args: &[String]) -> CommandResult {
    let path = database(cx, args, 0);
    let bytes = std::fs::read(&path).map_err(|cause| OpenError::Io { path: path.clone(), cause })?;
    let records = log::read(&bytes).map_err(|cause| OpenError::Log { path, cause })?;
    print(&show_log::text(&records, cx.options.more)?)
}
