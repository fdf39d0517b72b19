use super::*;
use crate::schema::Schema;
use crate::value::Atom;
use serde_json::json;

pub(crate) fn counter() -> impl FnMut() -> Uuid {
    let mut next = 0u128;
    move || {
        next += 1;
        Uuid::from_u128(next)
    }
}

fn schema() -> Schema {
    let set_of = |table: &str, kind: &str, min: u32| json!({"type": {"key": {"type": "uuid", "refTable": table, "refType": kind}, "min": min, "max": "unlimited"}});
    Schema::from_json(&json!({"name": "d", "version": "1.0.0", "tables": {
        "root": {"isRoot": true, "maxRows": 2, "indexes": [["name"]], "columns": {
            "name": {"type": "string", "mutable": false},
            "number": {"type": {"key": {"type": "integer", "maxInteger": 100}}},
            "children": set_of("child", "strong", 0),
            "queues": {"type": {"key": "integer", "value": {"type": "uuid", "refTable": "child", "refType": "strong"},
                "min": 0, "max": "unlimited"}},
            "friends": set_of("child", "weak", 0)}},
        "child": {"columns": {"name": {"type": "string"}, "child": set_of("child", "strong", 0)}},
        "needy": {"isRoot": true, "columns": {"friend": set_of("child", "weak", 1)}}}}))
    .unwrap()
}

struct TestDatabase {
    db: Database,
    fresh: Box<dyn FnMut() -> Uuid>,
}

impl TestDatabase {
    fn new() -> TestDatabase {
        TestDatabase { db: Database::new(Arc::new(schema()), Uuid::nil()), fresh: Box::new(counter()) }
    }

    fn run(&mut self, operations: Json) -> Json {
        self.run_after(0, operations).expect("not blocked")
    }

    fn run_after(&mut self, elapsed_ms: i64, operations: Json) -> Option<Json> {
        let mut params = vec![json!("d")];
        params.extend(operations.as_array().cloned().unwrap_or_default());
        let context = Context { elapsed_ms, owns_lock: &|name| name == "mine", ..Context::default() };
        match execute(&self.db, &Parameters::Tree(Json::Array(params)), &context, &mut self.fresh) {
            Outcome::Ready(prepared) => {
                self.db.apply(prepared.commit, Uuid::from_u128(999));
                Some(Json::Array(prepared.results))
            }
            Outcome::Failed(results) => Some(Json::Array(results)),
            Outcome::Blocked { .. } => None,
        }
    }

    fn count(&self, table: &str) -> usize {
        self.db.rows(table).map_or(0, |rows| rows.size())
    }

    /// Returns the error tag and details of the last result.
    fn fails(&mut self, operations: Json) -> (String, String) {
        let results = self.run(operations);
        let last = results
            .as_array()
            .and_then(|r| r.iter().rev().find(|r| !r.is_null()))
            .cloned()
            .unwrap_or_default();
        let text = |name: &str| last.get(name).and_then(Json::as_str).unwrap_or_default().to_owned();
        (text("error"), text("details"))
    }
}

fn insert(table: &str, name: &str, row: Json) -> Json {
    json!({"op": "insert", "table": table, "uuid-name": name, "row": row})
}

#[test]
fn a_failure_undoes_everything() {
    let mut database = TestDatabase::new();
    let results = database.run(json!([insert("root", "a", json!({"name": "a"})), {"op": "abort"}, {"op": "comment", "comment": "x"}]));
    assert_eq!(results[1], json!({"error": "aborted", "details": "aborted by request"}));
    assert!(results[2].is_null());
    assert_eq!(database.count("root"), 0);
}

#[test]
fn rows_live_while_referred_to() {
    let mut database = TestDatabase::new();
    let child = |n: &str| json!(["named-uuid", n]);
    database.run(json!([
        insert("child", "x", json!({"name": "x", "child": child("y")})),
        insert("child", "y", json!({"name": "y"})),
        insert("child", "stray", json!({"name": "stray"})),
        insert("root", "r", json!({"name": "r", "children": child("x"), "friends": child("y")})),
    ]));
    assert_eq!((database.count("root"), database.count("child")), (1, 2));
    let (tag, details) =
        database.fails(json!([{"op": "delete", "table": "child", "where": [["name", "==", "y"]]}]));
    assert_eq!(tag, "referential integrity violation");
    assert!(
        details.starts_with("cannot delete child row ")
            && details.ends_with(" because of 1 remaining reference(s)")
    );
    database.run(json!([{"op": "update", "table": "root", "where": [], "row": {"children": ["set", []]}}]));
    assert_eq!(database.count("child"), 0);
    let rows = database.run(json!([{"op": "select", "table": "root", "where": [], "columns": ["friends"]}]));
    assert_eq!(rows[0]["rows"], json!([{"friends": ["set", []]}]));
}

#[test]
fn pairs_of_a_map_may_refer_to_the_same_row() {
    let mut database = TestDatabase::new();
    let named = json!(["named-uuid", "x"]);
    database.run(json!([
        insert("child", "x", json!({"name": "x"})),
        insert("root", "r", json!({"name": "r", "queues": ["map", [[0, named], [1, named], [2, named]]]})),
        insert("root", "s", json!({"name": "s", "children": named})),
    ]));
    let mutate = |mutator: &str, value: Json| {
        json!([{"op": "mutate", "table": "root", "where": [["name", "==", "r"]],
            "mutations": [["queues", mutator, value]]}])
    };
    let remaining = |database: &mut TestDatabase| {
        database.fails(json!([{"op": "delete", "table": "child", "where": [["name", "==", "x"]]}])).1
    };
    assert!(remaining(&mut database).ends_with(" because of 4 remaining reference(s)"));
    database.run(mutate("delete", json!(["set", [0, 1]])));
    assert!(remaining(&mut database).ends_with(" because of 2 remaining reference(s)"));
    let rows = database.run(json!([{"op": "select", "table": "child", "where": [], "columns": ["_uuid"]}]));
    database.run(mutate("insert", json!(["map", [[7, rows[0]["rows"][0]["_uuid"]]]])));
    assert!(remaining(&mut database).ends_with(" because of 3 remaining reference(s)"));
    database.run(json!([{"op": "delete", "table": "root", "where": [["name", "==", "r"]]}]));
    assert!(remaining(&mut database).ends_with(" because of 1 remaining reference(s)"));
    assert_eq!(database.count("child"), 1, "the other row keeps it");
    database.run(json!([{"op": "delete", "table": "root", "where": []}]));
    assert_eq!(database.count("child"), 0, "nothing keeps it any more");
}

#[test]
fn dangling_references_are_refused() {
    let mut database = TestDatabase::new();
    let (tag, details) =
        database.fails(json!([insert("root", "r", json!({"name": "r", "children": ["named-uuid", "no"]}))]));
    assert_eq!(tag, "referential integrity violation");
    assert!(details.starts_with("Table root column children row ") && details.ends_with(" in table child."));
    let (tag, details) = database.fails(json!([insert("needy", "n", json!({}))]));
    assert_eq!(tag, "constraint violation");
    assert!(details.starts_with("Weak reference column \"friend\" in \"needy\" row "));
}

#[test]
fn indexes_and_limits() {
    let mut database = TestDatabase::new();
    database.run(json!([insert("root", "a", json!({"name": "a"}))]));
    let (_, details) = database.fails(json!([insert("root", "b", json!({"name": "a", "number": 1}))]));
    assert!(details.starts_with(
        "Transaction causes multiple rows in \"root\" table to have identical values (a) for index on column \"name\".  First row, with UUID "
    ));
    assert!(details.contains("was inserted by this transaction.  Second row, with UUID "), "{details}");
    let (_, details) = database
        .fails(json!([insert("root", "b", json!({"name": "b"})), insert("root", "c", json!({"name": "c"}))]));
    assert_eq!(
        details,
        "transaction causes \"root\" table to contain 3 rows, greater than the schema-defined limit of 2 row(s)"
    );
    database.run(
        json!([{"op": "delete", "table": "root", "where": []}, insert("root", "b", json!({"name": "a"}))]),
    );
    assert_eq!(database.count("root"), 1);
}

#[test]
fn forms_and_constraints() {
    let mut database = TestDatabase::new();
    database.run(json!([insert("root", "a", json!({"name": "a", "number": 3}))]));
    let row = |op: Json| json!([op]);
    let cases = [
        (json!({"op": "x"}), "syntax error", "Parsing ovsdb operation 1 of 1 failed: No operation \"x\""),
        (
            json!({"op": "select", "table": "no", "where": []}),
            "syntax error",
            "Parsing ovsdb operation 1 of 1 failed: No table named no.",
        ),
        (
            json!({"op": "update", "table": "root", "where": [], "row": {"name": "b"}}),
            "constraint violation",
            "Cannot update immutable column name in table root.",
        ),
        (
            json!({"op": "mutate", "table": "root", "where": [], "mutations": [["number", "/=", 0]]}),
            "domain error",
            "Division by zero.",
        ),
        (
            json!({"op": "mutate", "table": "root", "where": [], "mutations": [["number", "+=", i64::MAX]]}),
            "range error",
            "Result of \"+=\" operation is out of range.",
        ),
        (
            json!({"op": "mutate", "table": "root", "where": [], "mutations": [["number", "*=", 50]]}),
            "constraint violation",
            "150 is greater than maximum allowed value 100",
        ),
        (json!({"op": "assert", "lock": "yours"}), "not owner", "Asserted lock yours not held."),
        (
            json!({"op": "select", "table": "root", "where": [["name", "<", "a"]]}),
            "syntax error",
            "Type mismatch: \"<\" operator may not be applied to column name of type string.",
        ),
    ];
    for (operation, tag, details) in cases {
        assert_eq!(database.fails(row(operation)), (tag.to_owned(), details.to_owned()));
    }
    assert_eq!(database.run(json!([{"op": "assert", "lock": "mine"}])), json!([{}]));
    let (tag, _) = database.fails(json!([insert("child", "c", json!({})), insert("child", "c", json!({}))]));
    assert_eq!(tag, "duplicate uuid-name");
}

#[test]
fn waiting() {
    let mut database = TestDatabase::new();
    let wait = |timeout: Json| {
        let mut op = json!({"op": "wait", "table": "root", "where": [], "columns": ["name"], "until": "==", "rows": [{"name": "a"}]});
        if let Json::Object(op) = &mut op {
            op.extend((!timeout.is_null()).then(|| ("timeout".to_owned(), timeout)));
        }
        json!([op])
    };
    assert_eq!(database.fails(wait(json!(0))), ("timed out".into(), "\"where\" clause test failed".into()));
    assert_eq!(database.run_after(0, wait(json!(5))), None);
    let late = database.run_after(7, wait(json!(5))).unwrap();
    assert_eq!(late[0]["details"], json!("\"wait\" timed out after 7 ms"));
    assert_eq!(database.run_after(1_000_000, wait(Json::Null)), None);
    database.run(json!([insert("root", "a", json!({"name": "a"}))]));
    assert_eq!(database.run(wait(Json::Null)), json!([{}]));
}

#[test]
fn mutations_of_sets_by_element() {
    let mut database = TestDatabase::new();
    database.run(json!([
        insert("root", "r", json!({"name": "r"})),
        insert("child", "x", json!({"name": "x"})),
        {"op": "mutate", "table": "root", "where": [["name", "==", "r"]], "mutations": [["children", "insert", ["named-uuid", "x"]]]}
    ]));
    assert_eq!(database.count("child"), 1);
    let child = *database.db.rows("child").unwrap().keys().next().unwrap();
    database.run(json!([{"op": "mutate", "table": "root", "where": [], "mutations": [["children", "delete", Atom::Uuid(child).to_json()]]}]));
    assert_eq!(database.count("child"), 0);
}

#[test]
fn operations_change_the_same_copy_of_a_row() {
    let mut database = TestDatabase::new();
    let uuid = |n: u128| json!(["uuid", Uuid::from_u128(n).to_string()]);
    database.run(json!([
        {"op": "insert", "table": "child", "uuid": Uuid::from_u128(7001).to_string(), "row": {"name": "a"}},
        {"op": "insert", "table": "root", "row": {"name": "r", "children": uuid(7001)}}]));
    let (table, schema) =
        (database.db.schema().table_index("root").unwrap(), Arc::clone(database.db.schema()));
    let children = schema.tables[table].column_index("children").unwrap();
    let id = (table, *database.db.rows("root").unwrap().keys().next().unwrap());
    let mut draft = Draft::new(&schema, database.db.tables());
    let more = [7002, 7003].map(|n| Datum::set([Uuid::from_u128(n)]));
    let places = more.each_ref().map(|datum| {
        let insert = |row: &mut Row| {
            row.field_mut(children).insert_all(datum);
            Ok(())
        };
        draft.change(id, insert).unwrap();
        Arc::as_ptr(draft.get(id).unwrap().shared(children))
    });
    assert_eq!(places[0], places[1]);
    assert_eq!(draft.get(id).unwrap().field(children).len(), 3);
    // The original database is unchanged.
    assert_eq!(draft.touched[&id].as_ref().unwrap().field(children).len(), 1);
}

#[test]
fn an_abandoned_transaction_ends_between_two_mutations() {
    let mut database = TestDatabase::new();
    database.run(json!([{"op": "insert", "table": "root", "row": {"name": "r"}}]));
    let mutations = vec![json!(["number", "+=", 1]); 5];
    let params = json!(["d", {"op": "mutate", "table": "root", "where": [], "mutations": mutations}]);
    let asked = std::cell::Cell::new(0);
    let is_abandoned = || asked.replace(asked.get() + 1) >= 3;
    let context = Context { is_abandoned: &is_abandoned, ..Context::default() };
    let outcome = execute(&database.db, &Parameters::Tree(params), &context, &mut database.fresh);
    let Outcome::Failed(results) = outcome else { panic!("it went on") };
    assert_eq!((results[0]["error"].as_str(), asked.get()), (Some("canceled"), 4));
}

#[test]
fn long_values_are_counted_and_shorten_the_history() {
    let mut database = TestDatabase::new();
    database.run(json!([{"op": "insert", "table": "root", "row": {"name": "r"}}]));
    let child = |n: usize| json!(["named-uuid", format!("c{n}")]);
    let of = |numbers: std::ops::Range<usize>| {
        let children = json!(["set", numbers.clone().map(child).collect::<Vec<_>>()]);
        let mut operations: Vec<Json> =
            numbers.map(|n| insert("child", &format!("c{n}"), json!({"name": "c"}))).collect();
        let change = json!([["children", "insert", children]]);
        operations.push(json!({"op": "mutate", "table": "root", "where": [], "mutations": change}));
        Json::Array(operations)
    };
    let root = database.db.schema().table_index("root").unwrap();
    database.run(of(0..6400));
    assert_eq!(database.db.tables()[root].long_value_units(), 100);
    // Each change contains the old 100 units and the new ones.
    (0..100).for_each(|n| _ = database.run(of(n..n + 1)));
    assert!((80..100).contains(&database.db.history_len()), "{}", database.db.history_len());
    database.run(json!([{"op": "update", "table": "root", "where": [], "row": {"children": ["set", []]}}]));
    assert_eq!(database.db.tables()[root].long_value_units(), 0);
}

/// A database with a root row and 200 child rows.
fn with_children() -> TestDatabase {
    let mut database = TestDatabase::new();
    let name = |n: usize| format!("c{n}");
    let children: Vec<Json> = (0..200).map(|n| json!(["named-uuid", name(n)])).collect();
    let mut operations: Vec<Json> =
        (0..200).map(|n| insert("child", &name(n), json!({"name": "c".repeat(n)}))).collect();
    operations.push(insert("root", "r", json!({"name": "r", "children": ["set", children]})));
    database.run(Json::Array(operations));
    assert_eq!(database.count("child"), 200);
    database
}

/// Executes operations in a context. Returns the results.
fn run_in(database: &mut TestDatabase, context: &Context, operations: &[Json]) -> Vec<Json> {
    let params = [&[json!("d")], operations].concat();
    match execute(&database.db, &Parameters::Tree(params.into()), context, &mut database.fresh) {
        Outcome::Ready(prepared) => prepared.results,
        Outcome::Failed(results) => results,
        Outcome::Blocked { .. } => panic!("blocked"),
    }
}

/// Executes operations with a limit of selected memory. Returns the results and the selected memory.
fn run_limited(
    database: &mut TestDatabase,
    max_selected_memory: usize,
    operations: &[Json],
) -> (Vec<Json>, usize) {
    let context = Context { max_selected_memory, ..Context::default() };
    (run_in(database, &context, operations), context.selected.get())
}

#[test]
fn a_long_value_in_many_rows_exceeds_the_limit() {
    let mut database = with_children();
    let text = "x".repeat(1000);
    let update = |at: Json| json!({"op": "update", "table": "child", "where": at, "row": {"name": text}});
    let run = |database: &mut TestDatabase, max_copied_memory, operations: &[Json]| {
        let context = Context { max_copied_memory, ..Context::default() };
        run_in(database, &context, operations)
    };
    // 199 of the 200 rows have a copy.
    assert_eq!(run(&mut database, 199 * 1100, &[update(json!([]))])[0]["count"], 200);
    let twice = run(&mut database, 199 * 1100, &[update(json!([])), update(json!([]))]);
    assert_eq!((&twice[0]["count"], &twice[1]["error"]), (&json!(200), &json!("resources exhausted")));
    let mutation = json!(["child", "insert", ["uuid", Uuid::from_u128(1).to_string()]]);
    let mutate = json!({"op": "mutate", "table": "child", "where": [], "mutations": [mutation]});
    assert_eq!(run(&mut database, 10_000, &[mutate])[0]["error"], "resources exhausted");
    // One row has no copy.
    assert_eq!(run(&mut database, 0, &[update(json!([["name", "==", "c"]]))])[0]["count"], 1);
}

#[test]
fn many_selects_of_a_table_exceed_the_limit() {
    let mut database = with_children();
    let select = |table: &str| json!({"op": "select", "table": table, "where": []});
    // The complete database once is always allowed.
    let dump = ["root", "child", "needy"].map(select);
    let (results, all) = run_limited(&mut database, 0, &dump);
    assert_eq!(results[1]["rows"].as_array().unwrap().len(), 200);
    assert_eq!(all, database.db.json_memory());
    let rows: usize =
        results.iter().flat_map(|r| r["rows"].as_array().unwrap()).map(crate::json::memory).sum();
    assert_eq!(all, rows);

    let mut many = vec![json!({"op": "delete", "table": "root", "where": []})];
    many.resize(1001, select("child"));
    let (results, selected) = run_limited(&mut database, all, &many);
    let failed = results.iter().position(|r| r.get("error").is_some()).unwrap();
    assert_eq!(results[failed]["error"], "resources exhausted");
    assert_eq!((results.len(), failed, results[failed + 1].is_null()), (1001, 3, true));
    // It ends at the first row that exceeds the limit, and not after its operation.
    assert!((2 * all..2 * all + 3000).contains(&selected), "{selected} {all}");
    assert_eq!(database.count("root"), 1);
}

#[test]
fn one_select_exceeds_the_limit() {
    let mut database = with_children();
    let update = json!({"op": "update", "table": "child", "where": [], "row": {"name": "x".repeat(100_000)}});
    let select = json!({"op": "select", "table": "child", "where": [], "columns": ["_uuid", "name"]});
    let max = 3_000_000;
    let (results, selected) = run_limited(&mut database, max, &[update, select]);
    assert_eq!((&results[0]["count"], &results[1]["error"]), (&json!(200), &json!("resources exhausted")));
    assert!((max..max + database.db.json_memory() + 101_000).contains(&selected), "{selected}");
}
