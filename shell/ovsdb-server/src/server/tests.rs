//! Tests of limits that a test outside of the crate could only reach with much memory.

use super::*;
use ovsdb::schema::open_vswitch;
use ovsdb::{Json, Message};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A server with its socket, whose turns the test runs.
struct TestServer {
    server: Server,
    dir: PathBuf,
}

impl TestServer {
    fn new(name: &str) -> TestServer {
        let dir = std::env::temp_dir().join(format!("ovsdb-server-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let mut server = Server::new(&dir, Limits::default());
        server.add_database(&dir.join("conf.db"), Some(&open_vswitch())).unwrap();
        let remote = format!("punix:{}", dir.join("db.sock").display());
        let options = crate::RemoteOptions::default_for(&remote);
        server.remotes_mut().insert(remote, options);
        let mut server = TestServer { server, dir };
        server.turn();
        server
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.dir.join("db.sock")).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    /// Runs one turn that reads all clients.
    fn turn(&mut self) {
        let sessions = self.server.conns.keys().copied().collect();
        self.server.run(&Readable { sessions, clients_waiting: true }, Millis(0));
    }

    /// Sends a request, running turns while the socket's buffer is full.
    fn send(&mut self, stream: &mut UnixStream, id: u64, params: Json) {
        let text = Message::request("transact", params, id).to_string();
        self.send_text(stream, text.as_bytes());
    }

    fn send_text(&mut self, stream: &mut UnixStream, mut text: &[u8]) {
        while !text.is_empty() {
            match stream.write(text) {
                Ok(len) => text = &text[len..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
            self.turn();
        }
    }

    /// Runs turns until `condition` holds.
    fn run_until(&mut self, condition: impl Fn(&Server) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.server.jobs.any_running() || !condition(&self.server) {
            assert!(Instant::now() < deadline, "the condition never holds");
            self.turn();
        }
    }

    /// The next reply, as text and tree; `None` if the server has closed the connection.
    fn reply(&mut self, stream: &mut UnixStream) -> Option<(usize, Json)> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut text = Vec::new();
        loop {
            assert!(Instant::now() < deadline, "no reply");
            self.turn();
            let mut buffer = [0; 65536];
            match stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => text.extend(&buffer[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => return None,
            }
            if let Ok(json) = serde_json::from_slice(&text) {
                return Some((text.len(), json));
            }
        }
    }

    fn is_open(&mut self, stream: &mut UnixStream) -> bool {
        self.turn();
        let result = stream.read(&mut [0; 1]);
        matches!(result, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// A transaction that waits for a row that is never inserted, and has a comment of this length.
fn wait_forever(len: usize) -> Json {
    json!(["Open_vSwitch", {"op": "wait", "table": "QoS", "where": [["type", "==", "never"]],
        "columns": ["type"], "until": "==", "rows": [{"type": "never"}]},
        {"op": "comment", "comment": "x".repeat(len)}])
}

#[test]
fn the_client_with_the_largest_blocked_transactions_is_disconnected() {
    let mut test = TestServer::new("blocked");
    let [mut waiter, mut second, mut hoarder, mut unfinished] = [(); 4].map(|()| test.connect());
    test.send(&mut waiter, 1, wait_forever(0));
    test.send(&mut second, 1, wait_forever(60_000));
    (1..=20).for_each(|id| test.send(&mut hoarder, id, wait_forever(10_000 * id as usize)));
    test.send_text(&mut unfinished, format!("[\"{}", "x".repeat(100_000)).as_bytes());
    let blocked = |server: &Server| server.core.sessions.values().map(|s| s.blocked.len()).sum::<usize>();
    test.run_until(|server| {
        blocked(server) == 22 && server.conns.values().all(|c| c.input_len() % 100_002 == 0)
    });
    let memory: usize = test.server.conns.values().map(|c| c.blocked_memory).sum();
    // A text may have unused capacity, as long as itself.
    assert!((2_160_000..4_400_000).contains(&memory), "{memory}");

    // Without the hoarder, 60,000 bytes are blocked, and 100,002 bytes are unfinished.
    test.server.limit_input(memory + 200_000);
    assert!([&mut waiter, &mut second, &mut hoarder, &mut unfinished].map(|c| test.is_open(c)) == [true; 4]);
    test.server.limit_input(memory);
    assert_eq!(test.reply(&mut hoarder), None);
    assert!([&mut waiter, &mut second, &mut unfinished].map(|c| test.is_open(c)) == [true; 3]);
    assert_eq!(blocked(&test.server), 2);
    // The unfinished message takes more than the blocked transactions now.
    test.server.limit_input(100_000);
    assert_eq!(test.reply(&mut unfinished), None);
    assert!([&mut waiter, &mut second].map(|c| test.is_open(c)) == [true; 2]);
    test.server.limit_input(50_000);
    assert_eq!(test.reply(&mut second), None);
    assert!(test.is_open(&mut waiter));
}

/// Operations that insert 100 rows with 1,000 bytes each.
fn rows() -> Vec<Json> {
    (0..100)
        .map(|n| json!({"op": "insert", "table": "QoS", "row": {"type": format!("{n}{}", "x".repeat(1000))}}))
        .collect()
}

#[test]
fn a_transaction_that_selects_too_much_is_rolled_back() {
    let mut test = TestServer::new("selected");
    let mut client = test.connect();
    let select = json!({"op": "select", "table": "QoS", "where": []});
    let params = [vec![json!("Open_vSwitch")], rows(), vec![select.clone(); 100]].concat();
    test.send(&mut client, 1, params.into());
    let (len, reply) = test.reply(&mut client).unwrap();
    assert!(len < 1_200_000, "{len}");
    let errors: Vec<&Json> =
        reply["result"].as_array().unwrap().iter().filter_map(|r| r.get("error")).collect();
    assert_eq!(errors, [&json!("resources exhausted")]);
    test.send(&mut client, 2, json!(["Open_vSwitch", select]));
    assert_eq!(test.reply(&mut client).unwrap().1["result"], json!([{"rows": []}]));
}

#[test]
fn a_batch_is_stored_when_its_results_are_large() {
    let mut test = TestServer::new("batch");
    let mut client = test.connect();
    test.send(&mut client, 1, [vec![json!("Open_vSwitch")], rows()].concat().into());
    test.reply(&mut client).unwrap();
    let core = &mut test.server.core;
    let session = *core.sessions.keys().next().unwrap();
    let pending: Vec<usize> = (0..20)
        .map(|id| {
            let params = json!(["Open_vSwitch", {"op": "select", "table": "QoS", "where": []}]);
            let message = Message::Request { method: "transact".into(), params, id: id.into() };
            core.handle(session, ClientMessage::Message(message));
            core.databases["Open_vSwitch"].selected
        })
        .collect();
    assert!(pending.iter().all(|memory| *memory <= 1 << 20), "{pending:?}");
    assert!(pending.contains(&0) && core.sessions[&session].output.len() > 1, "{pending:?}");
}

/// A chain: waits until the only row of QoS has type `t<at>`, then sets it to `t<at + 1>`.
fn link(at: usize) -> Json {
    json!(["Open_vSwitch", {"op": "wait", "table": "QoS", "where": [], "columns": ["type"], "until": "==",
        "rows": [{"type": format!("t{at}")}]},
        {"op": "update", "table": "QoS", "where": [], "row": {"type": format!("t{}", at + 1)}}])
}

fn insert(table: &str, row: Json) -> Json {
    json!(["Open_vSwitch", {"op": "insert", "table": table, "row": row}])
}

fn blocked(server: &Server) -> usize {
    server.core.sessions.values().map(|s| s.blocked.len()).sum()
}

/// The replies that are available now.
fn available(stream: &mut UnixStream) -> Vec<Json> {
    let (mut text, mut buffer) = (Vec::new(), [0; 65536]);
    while let Ok(len) = stream.read(&mut buffer) {
        assert!(len > 0, "disconnected");
        text.extend(&buffer[..len]);
    }
    serde_json::Deserializer::from_slice(&text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn blocked_transactions_that_unblock_each_other_do_not_stop_the_server() {
    const LINKS: usize = 300;
    let mut test = TestServer::new("chain");
    let [mut chain, mut other] = [(); 2].map(|()| test.connect());
    (1..=LINKS).rev().for_each(|at| test.send(&mut chain, at as u64, link(at)));
    test.run_until(|server| blocked(server) == LINKS);
    test.send(&mut other, 1, insert("QoS", json!({"type": "t1"})));
    // The first round executes at most one link, because they are in reverse order; a round follows each turn.
    test.run_until(|server| blocked(server) < LINKS);
    assert!(blocked(&test.server) >= LINKS - 1, "{}", blocked(&test.server));
    assert!(test.server.core().may_retry());
    let before = blocked(&test.server);
    let echo = Message::request("echo", json!([5]), 2).to_string();
    test.send_text(&mut other, echo.as_bytes());
    let replies = available(&mut other);
    assert_eq!(replies.iter().map(|r| r["id"].clone()).collect::<Vec<_>>(), [json!(1), json!(2)]);
    assert!(blocked(&test.server) + 2 >= before);
    // In the end all succeed, each after the previous one.
    let mut replies = Vec::new();
    while replies.len() < LINKS {
        test.turn();
        replies.extend(available(&mut chain).iter().map(|r| r["id"].clone()));
    }
    assert_eq!(replies, (1..=LINKS).map(|at| json!(at)).collect::<Vec<_>>());
}

#[test]
fn retries_of_expensive_waits_do_not_delay_other_clients() {
    const WAITS: usize = 200;
    let mut test = TestServer::new("expensive");
    let [mut waiter, mut second, mut other] = [(); 3].map(|()| test.connect());
    let row = json!({"op": "insert", "table": "Queue", "row": {"dscp": 1}});
    test.send(&mut other, 1, [vec![json!("Open_vSwitch")], vec![row; 400]].concat().into());
    test.reply(&mut other).unwrap();
    let wait = |dscp: &[u64], condition: Json| {
        let rows: Vec<Json> = dscp.iter().map(|dscp| json!({"dscp": dscp})).collect();
        json!(["Open_vSwitch", {"op": "wait", "table": "Queue", "where": condition, "columns": ["dscp"],
            "until": "==", "rows": rows}])
    };
    (1..=WAITS).for_each(|id| test.send(&mut waiter, id as u64, wait(&[5], json!([]))));
    test.send(&mut second, 7, wait(&[2], json!([["dscp", "==", 2]])));
    test.run_until(|server| blocked(server) == WAITS + 1);
    test.run_until(|server| !server.core.may_retry());
    // A change of another table retries nothing.
    test.send(&mut other, 2, insert("QoS", json!({"type": "x"})));
    test.reply(&mut other).unwrap();
    assert!(!test.server.core().may_retry());

    test.send(&mut other, 3, insert("Queue", json!({"dscp": 2})));
    while available(&mut other).is_empty() {
        test.turn();
    }
    let due = |core: &mut Core| {
        let version = core.databases["Open_vSwitch"].version();
        core.sessions.values().flat_map(|s| s.blocked.values()).filter(|b| b.version < version).count()
    };
    let left = due(test.server.core());
    assert!(left > WAITS / 2, "{left}");
    // The sessions take turns, so the second client does not wait for all retries of the first.
    for _ in 0..2 {
        test.turn();
        test.server.core();
    }
    test.server.take_output();
    assert_eq!(available(&mut second), [json!({"id": 7, "result": [{}], "error": null})]);
    assert!(due(test.server.core()) > 0);
    test.run_until(|server| !server.core.may_retry());
    assert_eq!((due(test.server.core()), blocked(&test.server)), (0, WAITS));
}

/// The error in the reply to a transaction, with its details.
fn error_of(reply: &Json) -> (&str, &str) {
    let error = reply["result"].as_array().into_iter().flatten().find(|r| r.get("error").is_some()).unwrap();
    (error["error"].as_str().unwrap(), error["details"].as_str().unwrap())
}

#[test]
fn blocked_transactions_are_limited() {
    let mut test = TestServer::new("many");
    let [mut one, mut two, mut three] = [(); 3].map(|()| test.connect());
    (1..=1001).for_each(|id| test.send(&mut one, id, wait_forever(0)));
    let reply = test.reply(&mut one).unwrap().1;
    assert_eq!((&reply["id"], &reply["result"][1]), (&json!(1001), &Json::Null));
    assert_eq!(error_of(&reply), ("resources exhausted", "the session has 1000 blocked transactions"));
    (1..=1000).for_each(|id| test.send(&mut two, id, wait_forever(0)));
    test.send(&mut three, 1, wait_forever(0));
    let reply = test.reply(&mut three).unwrap().1;
    assert_eq!(error_of(&reply), ("resources exhausted", "the server has 2000 blocked transactions"));
    // A retry is not a new blocked transaction.
    test.send(&mut three, 2, insert("QoS", json!({"type": "x"})));
    test.reply(&mut three).unwrap();
    test.run_until(|server| !server.core.may_retry());
    assert_eq!(blocked(&test.server), 2000);

    let blocked = test.server.core.sessions.values_mut().flat_map(|s| s.blocked.values_mut());
    blocked.for_each(|b| b.request.spent = Duration::from_secs(if b.request.number == 9 { 10 } else { 0 }));
    test.send(&mut three, 3, insert("QoS", json!({"type": "x"})));
    let reply = test.reply(&mut two).unwrap().1;
    assert_eq!(reply["id"], json!(9));
    let text = "retries of the blocked transaction took more than 10 s";
    assert_eq!(error_of(&reply), ("resources exhausted", text));
}

#[test]
fn conditions_of_a_session_are_limited() {
    let mut test = TestServer::new("conditions");
    let mut client = test.connect();
    let monitor = |id: u64, clauses: Vec<Json>| {
        let params = json!(["Open_vSwitch", id, {"Queue": {"where": clauses}}]);
        Message::request("monitor_cond", params, id).to_string()
    };
    let not = |count: usize| (0..count).map(|at| json!(["dscp", "!=", at % 60])).collect::<Vec<_>>();
    test.send_text(&mut client, monitor(1, not(700)).as_bytes());
    assert_eq!(test.reply(&mut client).unwrap().1["error"], Json::Null);
    test.send_text(&mut client, monitor(2, not(301)).as_bytes());
    let reply = test.reply(&mut client).unwrap().1;
    let text = "conditions have 301 values to compare with each row, but 300 are left";
    assert_eq!(
        (&reply["error"]["error"], &reply["error"]["details"]),
        (&json!("resources exhausted"), &json!(text))
    );
    let change = Message::request("monitor_cond_change", json!([1, 1, {"Queue": [{"where": not(1)}]}]), 3);
    test.send_text(&mut client, change.to_string().as_bytes());
    assert_eq!(test.reply(&mut client).unwrap().1["error"], Json::Null);
    test.send_text(&mut client, monitor(2, not(301)).as_bytes());
    assert_eq!(test.reply(&mut client).unwrap().1["error"], Json::Null);
    // Clauses with "==" are limited only by their memory.
    let equal =
        (0..20_000).map(|at| json!(["external_ids", "==", ["map", [[format!("{at}"), "v"]]]])).collect();
    test.send_text(&mut client, monitor(4, equal).as_bytes());
    assert_eq!(test.reply(&mut client).unwrap().1["error"], Json::Null);
    let session = test.server.core.sessions.values().next().unwrap();
    let left = session.conditions_left();
    assert!(left.memory < (64 << 20) - 20_000 * 100 && left.compared == 1000 - 302, "{left:?}");
}

#[test]
fn blocked_transactions_are_retried_between_jobs() {
    let mut test = TestServer::new("between");
    let [mut waiter, mut busy] = [(); 2].map(|()| test.connect());
    test.send(&mut waiter, 1, link(1));
    test.run_until(|server| blocked(server) == 1);
    // Both requests need a job, and the second is pending when the first job ends.
    let comments = vec![json!({"op": "comment", "comment": ""}); 600];
    let params = |insert: Json| Json::from([insert.as_array().unwrap().clone(), comments.clone()].concat());
    let write = |stream: &mut UnixStream, id: u64, params: Json| {
        stream.write_all(Message::request("transact", params, id).to_string().as_bytes()).unwrap();
    };
    write(&mut busy, 1, params(insert("QoS", json!({"type": "t1"}))));
    test.turn();
    assert!(test.server.is_busy() && test.server.retries_skipped);
    write(&mut busy, 2, params(json!(["Open_vSwitch"])));
    // The job has ended when the core is here. The next turn reads the second request.
    test.server.core();
    test.turn();
    test.server.core();
    assert_eq!(blocked(&test.server), 0);
    assert_eq!(available(&mut waiter).len(), 1);
}

#[test]
fn a_job_decides_conditions_by_clauses_and_rows() {
    let mut test = TestServer::new("decision");
    let mut client = test.connect();
    test.send(&mut client, 1, [vec![json!("Open_vSwitch")], rows()].concat().into());
    test.reply(&mut client).unwrap();
    let clauses = |count| json!({"QoS": [{"where": vec![json!(["type", "!=", "x"]); count]}]});
    let mut needs_job = |method: &str, params: Json| {
        let text = Message::request(method, params, 2).to_string();
        let started = test.server.jobs.any_running();
        test.send_text(&mut client, text.as_bytes());
        let needed = test.server.is_busy();
        assert!(!started && test.reply(&mut client).unwrap().1["result"].is_object());
        needed
    };
    assert!(!needs_job("monitor_cond", json!(["Open_vSwitch", "m", clauses(900)])));
    // 900 old and 200 new clauses, and 100 rows.
    assert!(needs_job("monitor_cond_change", json!(["m", "m", clauses(200)])));
    assert!(!needs_job("monitor_cond_change", json!(["m", "m", clauses(700)])));
}

#[test]
fn transactions_that_one_change_unblocks_are_answered_in_their_order() {
    let mut test = TestServer::new("order");
    let [mut waiter, mut other] = [(); 2].map(|()| test.connect());
    let wait = |table: &str, column: &str, value: Json| {
        json!(["Open_vSwitch", {"op": "wait", "table": table, "where": [[column, "==", value]],
            "columns": [column], "until": "==", "rows": [{column: value}]}])
    };
    test.send(&mut waiter, 1, wait("QoS", "type", json!("a")));
    test.send(&mut waiter, 2, wait("Queue", "dscp", json!(2)));
    test.send(&mut waiter, 3, wait("QoS", "type", json!("a")));
    test.run_until(|server| blocked(server) == 3);
    // Retries only the second.
    test.send(&mut other, 1, insert("Queue", json!({"dscp": 1})));
    test.reply(&mut other).unwrap();
    test.run_until(|server| !server.core.may_retry());
    let both = json!(["Open_vSwitch", {"op": "insert", "table": "Queue", "row": {"dscp": 2}},
        {"op": "insert", "table": "QoS", "row": {"type": "a"}}]);
    test.send(&mut other, 2, both);
    test.run_until(|server| blocked(server) == 0);
    test.turn();
    let replies: Vec<Json> = available(&mut waiter).iter().map(|r| r["id"].clone()).collect();
    assert_eq!(replies, [json!(1), json!(2), json!(3)]);
}
