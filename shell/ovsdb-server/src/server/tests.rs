//! Tests of limits that a test outside of the crate could only reach with much memory.

use super::*;
use ovsdb::schema::open_vswitch;
use ovsdb::{Json, Message};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// A server with its socket, whose iterations are called by the test.
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

    /// Runs one iteration that reads all clients.
    fn turn(&mut self) {
        let sessions = self.server.conns.keys().copied().collect();
        self.server.run(&Readable { sessions, clients_waiting: true }, Millis(0));
    }

    /// Sends a request, running iterations while the socket's buffer is full.
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

    /// Runs iterations until `condition` holds.
    fn run_until(&mut self, condition: impl Fn(&Server) -> bool) {
        let patience = Instant::now() + Duration::from_secs(60);
        while self.server.jobs.any_running() || !condition(&self.server) {
            assert!(Instant::now() < patience, "the condition never holds");
            self.turn();
        }
    }

    /// The next reply, as text and tree; `None` if the server has closed the connection.
    fn reply(&mut self, stream: &mut UnixStream) -> Option<(usize, Json)> {
        let patience = Instant::now() + Duration::from_secs(60);
        let mut text = Vec::new();
        loop {
            assert!(Instant::now() < patience, "no reply");
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
