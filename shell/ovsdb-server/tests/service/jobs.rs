//! Long requests: they must not change the order of replies, nor delay other clients.

use crate::common::{Client, Scratch, listen, open};
use ovsdb::schema::open_vswitch;
use ovsdb::{Json, Message};
use ovsdb_server::{Handle, Limits, Readable, Server};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use units::Millis;

fn serve(scratch: &Scratch) -> (Handle, PathBuf) {
    let socket = scratch.path("db.sock");
    let mut server = open(&scratch.path("conf.db"), Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    (server.spawn().unwrap(), socket)
}

/// A transaction that inserts this many rows.
fn inserts(rows: usize) -> Json {
    let mut params = vec![json!("Open_vSwitch")];
    params.extend(
        (0..rows).map(|i| json!({"op": "insert", "table": "QoS", "row": {"type": format!("t{i:06}")}})),
    );
    Json::Array(params)
}

fn row(answer: &Json, at: usize) -> &Json {
    &answer[at]["uuid"][1]
}

#[test]
fn requests_of_a_client_are_carried_out_in_their_order_whatever_a_job_does() {
    const ROWS: usize = 8000;
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut watcher = Client::connect(&socket);
    watcher.call("monitor", json!(["Open_vSwitch", "w", {"QoS": {"columns": ["type"]}}])).unwrap();
    let mut client = Client::connect(&socket);
    let sent = [
        client.send("transact", inserts(ROWS)),
        client.send(
            "transact",
            json!(["Open_vSwitch", {"op": "delete", "table": "QoS", "where": [["type", "==", "t000001"]]}]),
        ),
        client.send("monitor", json!(["Open_vSwitch", "m", {"QoS": {"columns": ["type"]}}])),
        client.send(
            "transact",
            json!(["Open_vSwitch", {"op": "insert", "table": "QoS", "row": {"type": "last"}}]),
        ),
        client.send("get_schema", json!(["Open_vSwitch"])),
    ];
    let mut answers = Vec::new();
    let mut updates = Vec::new();
    while answers.len() < sent.len() {
        match client.receive().expect("the server hung up") {
            Message::Reply { result, id } => answers.push((id, result, updates.len())),
            Message::Notify { method, params } => updates.push((method, params)),
            other => panic!("{other}"),
        }
    }
    let order: Vec<&Json> = answers.iter().map(|(id, ..)| id).collect();
    assert_eq!(order, sent.map(|id| json!(id)).iter().collect::<Vec<_>>());
    assert_eq!(answers[0].1.as_array().unwrap().len(), ROWS);
    assert_eq!(answers[1].1, json!([{"count": 1}]));
    assert_eq!(answers[2].1["QoS"].as_object().unwrap().len(), ROWS - 1);
    // The update contains only the row inserted after the monitor was added, and arrives before the reply of
    // its transaction.
    assert_eq!((updates.len(), answers[3].2), (1, 1));
    let told = updates[0].1[1]["QoS"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(json!(told[0]), *row(&answers[3].1, 0));
    // Another client gets all rows. No update contains only a part of a transaction.
    let mut rows = std::collections::BTreeSet::new();
    while rows.len() < ROWS {
        let Some(Message::Notify { params, .. }) = watcher.receive() else { panic!() };
        for (uuid, change) in params[1]["QoS"].as_object().unwrap() {
            if change["new"].is_null() {
                assert!(rows.remove(uuid))
            } else {
                assert!(rows.insert(uuid.clone()))
            }
        }
    }
    let mut after = Client::connect(&socket);
    assert_eq!(after.kinds().len(), ROWS);
}

#[test]
fn a_probe_that_comes_together_with_a_long_request_does_not_wait_for_it() {
    let scratch = Scratch::new();
    let socket = scratch.path("db.sock");
    let mut server = open(&scratch.path("conf.db"), Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    server.run(&Readable::default(), Millis(0));
    let (mut long, mut other) = (Client::connect(&socket), Client::connect(&socket));
    // The message has many operations but is short, so it is not parsed by a job.
    let mut params = vec![json!("Open_vSwitch")];
    params.extend(std::iter::repeat_n(json!({"op": "comment", "comment": ""}), 1000));
    let slow = long.send("transact", Json::Array(params));
    let asked = other.send("echo", json!([1]));
    // One turn reads both requests; the result of the job is processed in a later turn.
    server.run(&Readable::default(), Millis(0));
    assert!(server.is_busy());
    other.stream.set_nonblocking(true).unwrap();
    assert_eq!(other.answer(asked), Ok(json!([1])));
    while server.is_busy() {
        server.run(&Readable::default(), Millis(0));
    }
    assert_eq!(long.answer(slow).unwrap().as_array().unwrap().len(), 1000);
}

#[test]
fn a_transaction_that_fails_in_a_job_leaves_nothing() {
    let scratch = Scratch::new();
    let (handle, socket) = serve(&scratch);
    let mut client = Client::connect(&socket);
    let mut params = inserts(3000);
    params.as_array_mut().unwrap().push(json!({"op": "abort"}));
    let answer = client.call("transact", params).unwrap();
    assert_eq!((answer.as_array().unwrap().len(), &answer[3000]["error"]), (3001, &json!("aborted")));
    assert_eq!(client.kinds().len(), 0);
    // A transaction that has started is finished and stored when the server ends.
    client.call("transact", inserts(3000)).unwrap();
    drop(handle);
    let server = open(&scratch.path("conf.db"), None).unwrap();
    drop(server);
    let mut server = open(&scratch.path("conf.db"), None).unwrap();
    listen(&mut server, &socket);
    let _handle = server.spawn().unwrap();
    assert_eq!(Client::connect(&socket).kinds().len(), 3000);
}

#[test]
fn a_client_that_disconnects_during_its_job_loses_its_locks() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut gone = Client::connect(&socket);
    gone.call("lock", json!(["l"])).unwrap();
    let mut next_owner = Client::connect(&socket);
    assert_eq!(next_owner.call("lock", json!(["l"])), Ok(json!({"locked": false})));
    gone.send("transact", inserts(8000));
    drop(gone);
    let Some(Message::Notify { method, .. }) = next_owner.receive() else { panic!() };
    assert_eq!(method, "locked");
    // The transaction was executed completely or not at all.
    assert!([0, 8000].contains(&next_owner.kinds().len()));
}

#[test]
fn a_long_transaction_of_a_client_that_has_gone_is_dropped() {
    let scratch = Scratch::new();
    let (_handle, socket) = serve(&scratch);
    let mut other = Client::connect(&socket);
    let mut gone = Client::connect(&socket);
    gone.send("transact", inserts(60_000));
    drop(gone);
    // The server has received the request of `gone` before this one.
    assert_eq!(other.kinds().len(), 0);
    // A client that only ends its sending direction still gets the reply.
    let mut waits = Client::connect(&socket);
    let sent = waits.send("transact", inserts(20_000));
    waits.stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(waits.answer(sent).unwrap().as_array().unwrap().len(), 20_000);
    assert_eq!(other.kinds().len(), 20_000);
}

#[test]
fn limits_of_a_remote_do_not_affect_other_remotes() {
    let scratch = Scratch::new();
    let path = scratch.path("conf.db");
    let limits = Limits { operations: 10, sessions: 3, bytes: 100_000, values: 2000 };
    let mut server = Server::new(path.parent().unwrap(), limits);
    server.add_database(&path, Some(&open_vswitch())).unwrap();
    let (one, two) = (scratch.path("one.sock"), scratch.path("two.sock"));
    listen(&mut server, &one);
    listen(&mut server, &two);
    let _handle = server.spawn().unwrap();
    let mut client = Client::connect(&one);
    let error = client.call("transact", inserts(11)).unwrap_err();
    assert_eq!(error["error"], "resources exhausted");
    assert_eq!(client.call("transact", inserts(10)).unwrap().as_array().unwrap().len(), 10);
    let mut noisy = Client::connect(&one);
    noisy.send("echo", Json::Array(vec![json!(0); 2000]));
    assert_eq!(noisy.receive(), None);
    let mut long = Client::connect(&one);
    long.stream.write_all(format!("[\"{}", "x".repeat(100_100)).as_bytes()).unwrap();
    assert_eq!(long.receive(), None);
    // A remote with its maximum number of clients accepts no more; another remote does.
    let mut others: Vec<Client> = (0..2).map(|_| Client::connect(&one)).collect();
    others.iter_mut().for_each(|other| assert!(other.call("echo", json!([])).is_ok()));
    let mut waits = Client::connect(&one);
    let asked = waits.send("echo", json!([]));
    assert!(Client::connect(&two).call("echo", json!([])).is_ok());
    waits.stream.set_nonblocking(true).unwrap();
    assert!(std::io::Read::read(&mut waits.stream, &mut [0; 10]).is_err());
    waits.stream.set_nonblocking(false).unwrap();
    drop(others.pop());
    assert!(waits.answer(asked).is_ok());
}
