//! Changes while the server runs (schemas, remotes), and clients that read slowly.

use crate::common::{Client, Scratch, listen, open};
use ovsdb::schema::open_vswitch;
use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use ovsdb_server::{Handle, RemoteOptions};
use serde_json::json;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MANAGERS: &str = "db:Open_vSwitch,Open_vSwitch,manager_options";

fn serve(scratch: &Scratch) -> (Handle, PathBuf) {
    let socket = scratch.path("db.sock");
    let mut server = open(&scratch.path("conf.db"), Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    server.remotes_mut().insert(MANAGERS.to_owned(), RemoteOptions::default_for(MANAGERS));
    (server.spawn().unwrap(), socket)
}

/// The schema without one of its columns.
fn smaller() -> Json {
    let mut schema = open_vswitch().to_json();
    schema["tables"]["QoS"]["columns"].as_object_mut().unwrap().remove("external_ids");
    schema
}

#[test]
fn a_conversion_keeps_the_rows_and_notifies_change_aware_clients() {
    let scratch = Scratch::new();
    let (handle, socket) = serve(&scratch);
    let (mut aware, mut unaware) = (Client::connect(&socket), Client::connect(&socket));
    let mut caller = Client::connect(&socket);
    assert_eq!(aware.call("set_db_change_aware", json!([true])), Ok(json!({})));
    for client in [&mut aware, &mut unaware] {
        let request = json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type"]}}]);
        client.call("monitor", request).unwrap();
    }
    caller.insert("a");
    let foreign = caller.call("convert", json!(["Open_vSwitch", {"name": "x", "tables": {}}])).unwrap_err();
    assert_eq!(foreign["error"], "invalid parameters");
    assert_eq!(caller.call("convert", json!(["Open_vSwitch", smaller()])), Ok(json!({})));
    assert_eq!(caller.call("get_schema", json!(["Open_vSwitch"])), Ok(smaller()));
    assert_eq!(caller.kinds(), ["a"]);
    let cancelled = |client: &mut Client| loop {
        match client.receive() {
            Some(Message::Notify { method, params }) if method == "monitor_canceled" => break Some(params),
            Some(_) => {}
            None => break None,
        }
    };
    assert_eq!(cancelled(&mut aware), Some(json!(["m"])));
    assert_eq!(cancelled(&mut unaware), None);
    caller.insert("b");
    handle.stop();
    let mut server = open(&scratch.path("conf.db"), None).unwrap();
    listen(&mut server, &socket);
    let _handle = server.spawn().unwrap();
    let mut client = Client::connect(&socket);
    assert_eq!(client.kinds(), ["a", "b"]);
    assert_eq!(client.call("get_schema", json!(["Open_vSwitch"])), Ok(smaller()));
}

fn appears(socket: &Path, wanted: bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while UnixStream::connect(socket).is_ok() != wanted {
        assert!(Instant::now() < deadline, "{} does not become {wanted}", socket.display());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn managers_are_remotes() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut client = Client::connect(&socket);
    let second = scratch.path("second.sock");
    let target = format!("punix:{}", second.display());
    client.transact(json!([
        {"op": "insert", "table": "Manager", "row": {"target": target}, "uuid-name": "m"},
        {"op": "insert", "table": "Open_vSwitch", "row": {"manager_options": ["named-uuid", "m"]}}]));
    appears(&second, true);
    let _guest = Client::connect(&second);
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let rows = client.transact(json!([
            {"op": "select", "table": "Manager", "where": [], "columns": ["is_connected", "status"]}]));
        let row = &rows[0]["rows"][0];
        if row["is_connected"] == true {
            assert!(row["status"].to_string().contains("ACTIVE"), "{row}");
            break;
        }
        assert!(Instant::now() < deadline, "{row}");
        std::thread::sleep(Duration::from_millis(50));
    }
    client.transact(json!([
        {"op": "update", "table": "Open_vSwitch", "where": [], "row": {"manager_options": ["set", []]}}]));
    appears(&second, false);
}

#[test]
fn silent_clients_are_probed_and_given_up_and_readers_cannot_write() {
    let scratch = Scratch::new();
    let socket = scratch.path("db.sock");
    let mut server = open(&scratch.path("conf.db"), Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    let quick = scratch.path("quick.sock");
    let name = format!("punix:{}", quick.display());
    let options =
        RemoteOptions { probe_interval_ms: 200, read_only: true, ..RemoteOptions::default_for(&name) };
    server.remotes_mut().insert(name, options);
    let _handle = server.spawn().unwrap();
    let mut silent = Client::connect(&quick);
    let denied = silent.transact(json!([{"op": "insert", "table": "QoS", "row": {"type": "a"}}]));
    assert_eq!(denied[0]["error"], "not allowed");
    assert!(matches!(silent.receive(), Some(Message::Request { method, .. }) if method == "echo"));
    assert_eq!(silent.receive(), None);
}

/// Reads updates until none arrives for some time.
fn updates(stream: &mut UnixStream) -> Vec<Json> {
    let mut splitter = Splitter::new(Limits::of_bytes(64 << 20));
    let mut buffer = vec![0; 1 << 16];
    let mut found = Vec::new();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    while let Ok(len) = stream.read(&mut buffer) {
        splitter.push(&buffer[..len]);
        while let Some(json) = splitter.next_value().unwrap() {
            found.push(json);
        }
    }
    found
}

#[test]
fn a_client_that_does_not_read_gets_the_sum_of_what_it_missed() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let (mut slow, mut other) = (Client::connect(&socket), Client::connect(&socket));
    slow.call("monitor", json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type", "external_ids"]}}]))
        .unwrap();
    let big = "x".repeat(100_000);
    let row =
        json!({"op": "insert", "table": "QoS", "row": {"type": "a", "external_ids": ["map", [["n", big]]]}});
    other.transact(json!([row]));
    let rounds = 60;
    for n in 0..rounds {
        let value = format!("{n}{big}");
        other.transact(json!([{"op": "update", "table": "QoS", "where": [],
                               "row": {"external_ids": ["map", [["n", value]]]}}]));
    }
    let told = updates(&mut slow.stream);
    assert!(told.len() < rounds, "{} updates", told.len());
    let last = told.last().unwrap()["params"][1].to_string();
    assert!(last.contains(&format!("\"{}xxx", rounds - 1)), "not the last state");
}
