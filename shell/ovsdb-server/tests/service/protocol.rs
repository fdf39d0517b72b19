//! The protocol as clients see it: monitors, waits, locks, and misbehaving clients.

use crate::common::{Client, Scratch, listen, open};
use ovsdb::Message;
use ovsdb::schema::open_vswitch;
use ovsdb_server::Handle;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

fn serve(scratch: &Scratch) -> (Handle, PathBuf) {
    let socket = scratch.path("db.sock");
    let mut server = open(&scratch.path("conf.db"), Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    (server.spawn().unwrap(), socket)
}

#[test]
fn introspection() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut client = Client::connect(&socket);
    assert_eq!(client.call("list_dbs", json!([])), Ok(json!(["Open_vSwitch", "_Server"])));
    assert_eq!(client.call("get_schema", json!(["Open_vSwitch"])), Ok(open_vswitch().to_json()));
    assert_eq!(client.call("echo", json!([1, "x"])), Ok(json!([1, "x"])));
    assert_eq!(client.call("nonsense", json!([])), Err(json!("unknown method")));
    let error = client.call("get_schema", json!(["no"])).unwrap_err();
    let expected = json!({"error": "unknown database", "details": "get_schema request specifies unknown database no", "syntax": "[\"no\"]"});
    assert_eq!(error, expected);
    let denied = client
        .call("transact", json!(["_Server", {"op": "delete", "table": "Database", "where": []}]))
        .unwrap();
    assert_eq!(denied[0]["error"], "not allowed");
    let error = client.call("convert", json!(["_Server", {"name": "_Server", "tables": {}}])).unwrap_err();
    assert_eq!(error["error"], "not allowed");
}

#[test]
fn an_update_comes_before_the_answer_that_caused_it() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut client = Client::connect(&socket);
    let request = json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type"]}}]);
    assert_eq!(client.call("monitor_cond", request), Ok(json!({})));
    client.insert("a");
    assert_eq!(client.notified.len(), 1);
    assert_eq!(client.notified[0].0, "update2");
    assert_eq!(client.call("monitor_cancel", json!(["m"])), Ok(json!({})));
    assert_eq!(client.call("monitor_cancel", json!(["m"])), Err(json!("unknown monitor")));
    client.insert("b");
    assert_eq!(client.notified.len(), 1);
}

#[test]
fn waits_end_by_change_time_or_cancellation() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let (mut waiter, mut other) = (Client::connect(&socket), Client::connect(&socket));
    let wait = |kind: &str, timeout: u32| {
        json!(["Open_vSwitch", {"op": "wait", "timeout": timeout, "table": "QoS", "where": [["type", "==", kind]],
               "columns": ["type"], "until": "==", "rows": [{"type": kind}]}])
    };
    let (first, second, third) = (
        waiter.send("transact", wait("a", 60_000)),
        waiter.send("transact", wait("b", 60_000)),
        waiter.send("transact", wait("c", 30)),
    );
    let late = waiter.answer(third).unwrap();
    assert_eq!(late[0]["error"], "timed out");
    other.insert("a");
    assert_eq!(waiter.answer(first), Ok(json!([{}])));
    let cancel = Message::notify("cancel", json!([second]));
    waiter.stream.write_all(cancel.to_string().as_bytes()).unwrap();
    assert_eq!(waiter.answer(second), Err(json!("canceled")));
}

#[test]
fn locks_pass_from_session_to_session() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let (mut a, mut b) = (Client::connect(&socket), Client::connect(&socket));
    assert_eq!(a.call("lock", json!(["l"])), Ok(json!({"locked": true})));
    assert_eq!(b.call("lock", json!(["l"])), Ok(json!({"locked": false})));
    assert_eq!(b.transact(json!([{"op": "assert", "lock": "l"}]))[0]["error"], "not owner");
    drop(a);
    assert!(matches!(b.receive(), Some(Message::Notify { method, .. }) if method == "locked"));
    assert_eq!(b.transact(json!([{"op": "assert", "lock": "l"}])), json!([{}]));
    let mut c = Client::connect(&socket);
    assert_eq!(c.call("steal", json!(["l"])), Ok(json!({"locked": true})));
    assert!(matches!(b.receive(), Some(Message::Notify { method, .. }) if method == "stolen"));
}

#[test]
fn a_client_that_talks_nonsense_loses_only_itself() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut good = Client::connect(&socket);
    for nonsense in ["]", "{\"a\":}", "[1]", &"[".repeat(5000)] {
        let mut bad = Client::connect(&socket);
        bad.stream.write_all(nonsense.as_bytes()).unwrap();
        assert_eq!(bad.receive(), None);
    }
    assert!(good.insert("a").get("uuid").is_some());
}

#[test]
fn locks_of_a_session_are_limited() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let (mut a, mut b) = (Client::connect(&socket), Client::connect(&socket));
    for at in 0..1000 {
        assert_eq!(a.call("lock", json!([format!("l{at}")])), Ok(json!({"locked": true})));
    }
    let error = a.call("lock", json!(["more"])).unwrap_err();
    assert_eq!(
        error,
        json!({"error": "resources exhausted", "details": "the session has requested 1000 locks"})
    );
    assert_eq!(a.call("unlock", json!(["l0"])), Ok(json!({})));
    assert_eq!(a.call("lock", json!(["more"])), Ok(json!({"locked": true})));
    assert_eq!(b.call("lock", json!(["x".repeat(1024)])), Ok(json!({"locked": true})));
    let error = b.call("lock", json!(["x".repeat(1025)])).unwrap_err();
    assert_eq!(error["error"], "resources exhausted");
    assert_eq!(error["details"], "lock: the name of a lock may have at most 1024 bytes");
}
