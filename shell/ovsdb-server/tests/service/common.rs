//! A scratch directory, a simple client, and the example server as a child process.

use ovsdb::schema::open_vswitch;
use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Schema, Splitter};
use ovsdb_server::{AddError, RemoteOptions, Server};
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A directory for one test, which is removed at the end of the test.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("ovsdb-server-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server of the database at `path`, which is created with `schema` if it is missing.
pub fn open(path: &Path, schema: Option<&Schema>) -> Result<Server, AddError> {
    let mut server = Server::new(path.parent().unwrap(), ovsdb_server::Limits::default());
    server.add_database(path, schema).map(|_| server)
}

/// Listens at a Unix socket.
pub fn listen(server: &mut Server, socket: &Path) {
    let remote = format!("punix:{}", socket.display());
    let options = RemoteOptions::default_for(&remote);
    server.remotes_mut().insert(remote, options);
}

/// A client that sends one request at a time.
pub struct Client {
    pub stream: UnixStream,
    splitter: Splitter,
    next_id: u64,
    /// Notifications that arrived while waiting for a reply.
    pub notified: Vec<(String, Json)>,
}

impl Client {
    pub fn connect(path: &Path) -> Client {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client {
            stream,
            splitter: Splitter::new(Limits::of_bytes(64 << 20)),
            next_id: 0,
            notified: Vec::new(),
        }
    }

    pub fn send(&mut self, method: &str, params: Json) -> u64 {
        self.next_id += 1;
        let message = Message::request(method, params, self.next_id);
        self.stream.write_all(message.to_string().as_bytes()).unwrap();
        self.next_id
    }

    /// The next message; `None` if the server closes the connection.
    pub fn receive(&mut self) -> Option<Message> {
        loop {
            if let Some(json) = self.splitter.next_value().unwrap() {
                return Some(Message::from_json(json).unwrap());
            }
            let mut buffer = [0; 4096];
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(len) => self.splitter.push(&buffer[..len]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    /// The reply to request `wanted`.
    pub fn answer(&mut self, wanted: u64) -> Result<Json, Json> {
        loop {
            match self.receive().expect("an answer") {
                Message::Reply { result, id } if id == json!(wanted) => return Ok(result),
                Message::Error { error, id } if id == json!(wanted) => return Err(error),
                Message::Notify { method, params } => self.notified.push((method, params)),
                other => panic!("unexpected {other}"),
            }
        }
    }

    pub fn call(&mut self, method: &str, params: Json) -> Result<Json, Json> {
        let id = self.send(method, params);
        self.answer(id)
    }

    pub fn transact(&mut self, operations: Json) -> Json {
        let mut params = vec![json!("Open_vSwitch")];
        params.extend(operations.as_array().cloned().unwrap_or_default());
        self.call("transact", Json::Array(params)).unwrap()
    }

    /// Inserts a QoS row of the given type; returns the first result.
    pub fn insert(&mut self, kind: &str) -> Json {
        let results = self.transact(json!([{"op": "insert", "table": "QoS", "row": {"type": kind}}]));
        results.as_array().and_then(|r| r.last()).cloned().unwrap_or_default()
    }

    /// The types of all QoS rows, sorted.
    pub fn kinds(&mut self) -> Vec<String> {
        let select =
            json!([{"op": "select", "table": "QoS", "where": [], "columns": ["type"], "sort": ["type"]}]);
        let rows = self.transact(select)[0]["rows"].clone();
        rows.as_array()
            .into_iter()
            .flatten()
            .map(|r| r["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

/// The example server as a child process.
pub struct Process(Child);

impl Process {
    /// Starts the server in a shell that runs `limits` first, and waits until it accepts clients. Creates the database if it does not exist.
    pub fn start(limits: &str, database: &Path, socket: &Path) -> Process {
        drop(open(database, Some(&open_vswitch())).unwrap());
        let tests = std::env::current_exe().unwrap();
        let program = tests.parent().and_then(Path::parent).unwrap().join("examples/serve");
        let child = Command::new("sh")
            .args(["-c", &format!("{limits} exec \"$@\""), "sh"])
            .arg(program)
            .args(["--unixctl=none", "-vconsole:off"])
            .arg(database)
            .arg(format!("--remote=punix:{}", socket.display()))
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while UnixStream::connect(socket).is_err() {
            assert!(Instant::now() < deadline, "the server does not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
        Process(child)
    }

    /// Kills the server.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}
