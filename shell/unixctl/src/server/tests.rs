//! The server over real sockets.

use super::*;
use crate::Client;
use serde_json::json;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

fn server() -> Server {
    Server::without_socket("sluiced (Open vSwitch) 3.7.1", &["fdb/show", "exit"])
}

fn raw(server: &mut Server) -> Stream {
    let (ours, theirs) = Stream::pair().unwrap();
    server.adopt(theirs);
    ours
}

fn received(stream: &mut Stream) -> String {
    let mut buf = [0; 65536];
    match stream.read(&mut buf) {
        Ok(n) => String::from_utf8_lossy(&buf[..n]).into_owned(),
        Err(e) => format!("{:?}", e.kind()),
    }
}

/// Sends a request, runs the server once, and returns the reply.
fn ask(server: &mut Server, stream: &mut Stream, method: &str, params: serde_json::Value) -> String {
    let request = json!({"id": 0, "method": method, "params": params}).to_string();
    stream.write_all(request.as_bytes()).unwrap();
    for request in server.run() {
        assert_eq!(request.method, "fdb/show");
        server.reply(request.id, Ok(format!("table of {}\n", request.args[0]).into()));
    }
    received(stream)
}

#[test]
fn own_commands_and_refusals() {
    let mut s = server();
    let mut c = raw(&mut s);
    assert_eq!(
        ask(&mut s, &mut c, "version", json!([])),
        r#"{"error":null,"id":0,"result":"sluiced (Open vSwitch) 3.7.1\n"}"#
    );
    assert!(ask(&mut s, &mut c, "list-commands", json!([])).contains("fdb/show                bridge"));
    assert_eq!(
        ask(&mut s, &mut c, "fdb/show", json!([])),
        r#"{"error":"\"fdb/show\" command requires at least 1 arguments\n","id":0,"result":null}"#
    );
    assert!(ask(&mut s, &mut c, "fdb/show", json!([1])).contains("has non-string argument"));
    assert!(ask(&mut s, &mut c, "vlog/list", json!([])).contains("is not a valid command"));
    assert!(ask(&mut s, &mut c, "fdb/show", json!(["br0"])).contains(r#""table of br0\n""#));
}

#[test]
fn json_is_chosen_per_connection() {
    let mut s = server();
    let (mut c, mut other) = (raw(&mut s), raw(&mut s));
    assert!(ask(&mut s, &mut c, "set-options", json!(["--format", "xml"])).contains("invalid value xml"));
    assert_eq!(
        ask(&mut s, &mut c, "set-options", json!(["--format", "json"])),
        r#"{"error":null,"id":0,"result":{"reply":"","reply-format":"plain"}}"#
    );
    assert!(
        ask(&mut s, &mut c, "list-commands", json!([]))
            .contains(r#""result":{"exit":"[--cleanup]","fdb/show":"bridge""#)
    );
    assert!(ask(&mut s, &mut c, "nosuch", json!([])).contains(r#"{"error":"\"nosuch\" is not"#));
    assert!(ask(&mut s, &mut other, "version", json!([])).contains(r#""result":"sluiced"#));
}

#[test]
fn answers_may_be_late_but_stay_in_order() {
    let mut s = server();
    let mut c = raw(&mut s);
    for (id, method) in [(1, "exit"), (2, "version")] {
        let text = json!({"id": id, "method": method, "params": []}).to_string();
        c.write_all(text.as_bytes()).unwrap();
    }
    let requests = s.run();
    assert_eq!((requests.len(), requests[0].method.as_str()), (1, "exit"));
    assert!(s.run().is_empty());
    assert_eq!(received(&mut c), "WouldBlock");
    s.reply(requests[0].id, Err("no".into()));
    s.reply(requests[0].id, Err("twice".into()));
    assert_eq!(received(&mut c), r#"{"error":"no\n","id":1,"result":null}"#);
    s.run();
    assert!(received(&mut c).starts_with(r#"{"error":null,"id":2,"result":"sluiced"#));
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let mut s = server();
    let mut good = raw(&mut s);
    for garbage in [
        "hello",
        "{]",
        "[1]",
        r#"{"id":null,"method":"version","params":[]}"#,
        r#"{"id":1,"method":"x","params":{}}"#,
    ] {
        let mut bad = raw(&mut s);
        bad.write_all(garbage.as_bytes()).unwrap();
        assert!(s.run().is_empty());
        assert_eq!(received(&mut bad), "", "{garbage}");
    }
    let (mut gone, requests) = (raw(&mut s), json!({"id": 0, "method": "exit", "params": []}).to_string());
    gone.write_all(requests.as_bytes()).unwrap();
    let requests = s.run();
    drop(gone);
    s.reply(requests[0].id, Ok("".into()));
    s.run();
    assert!(ask(&mut s, &mut good, "version", json!([])).contains("result"));
    assert_eq!(s.conns.len(), 1);
}

#[test]
fn client_and_server_over_a_file() {
    let dir = std::env::temp_dir().join(format!("unixctl-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("x.ctl");
    let mut s = Server::bind(&path, "v", &["fdb/show"]).unwrap();
    let large = "x".repeat(3 << 20);
    let (reply, at) = (large.clone(), path.clone());
    let client = std::thread::spawn(move || {
        let mut c = Client::connect(&at, Some(Duration::from_secs(20))).unwrap();
        assert_eq!(c.call("version", &[]).unwrap(), Ok(json!("v\n")));
        assert_eq!(c.call("fdb/show", &["br0".into()]).unwrap(), Ok(json!(format!("{large}\n"))));
    });
    let l = runtime::PollLoop::new(runtime::Clock::new()).unwrap();
    while !client.is_finished() {
        for r in s.run() {
            s.reply(r.id, Ok(reply.as_str().into()));
        }
        let mut set = WaitSet::new();
        set.deadline(units::Millis(l.clock().now().0 + 20));
        s.wait(&mut set);
        l.block(set);
    }
    client.join().unwrap();
    drop(s);
    assert!(!path.exists());
    assert_eq!(Client::connect(&path, None).err().unwrap().kind(), ErrorKind::NotFound);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn the_client_gives_up_when_time_is_up() {
    let (ours, mut theirs) = Stream::pair().unwrap();
    let soon = Some(Instant::now() + Duration::from_millis(30));
    let mut c = Client::from_stream(transport::BlockingStream::over(ours, soon));
    assert_eq!(c.call("version", &[]).unwrap_err().kind(), ErrorKind::TimedOut);
    assert!(received(&mut theirs).contains("version"));
}

/// A long answer arrives completely in both formats. Other clients are served while its reader waits. Only a small part of the
/// answer is generated in advance.
#[test]
fn a_long_answer_is_made_while_it_is_read() {
    let mut s = server();
    for (format, start, end) in [
        ("text", "\"line 0\\n", "line 19999\\n\"}"),
        ("json", "{\"reply\":\"line 0\\n", "\"reply-format\":\"plain\"}}"),
    ] {
        let (mut slow, mut other) = (raw(&mut s), raw(&mut s));
        ask(&mut s, &mut slow, "set-options", json!(["--format", format]));
        slow.write_all(json!({"id": 7, "method": "fdb/show", "params": ["br0"]}).to_string().as_bytes())
            .unwrap();
        let made = std::rc::Rc::new(std::cell::Cell::new(0));
        let (count, mut next) = (made.clone(), 0..20_000);
        let text = LongText::new(move |text| {
            next.by_ref().take(100).for_each(|n| *text += &format!("line {n}\n"));
            count.set(next.start);
            next.start < next.end
        });
        let requests = s.run();
        s.reply_long(requests[0].id, text);
        for _ in 0..1000 {
            s.run();
        }
        assert!(made.get() < 20_000, "all of it was made for a client that does not read");
        assert!(ask(&mut s, &mut other, "version", json!([])).contains("3.7.1"));
        let (mut got, mut buf) = (Vec::new(), [0; 65536]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !got.ends_with(end.as_bytes()) && Instant::now() < deadline {
            s.run();
            if let Ok(n) = slow.read(&mut buf) {
                got.extend_from_slice(&buf[..n]);
            }
        }
        let got = String::from_utf8(got).unwrap();
        assert!(got.contains(start) && got.ends_with(end), "{}", got.len());
        let parsed: serde_json::Value = serde_json::from_str(&got).unwrap();
        let result = if format == "text" { &parsed["result"] } else { &parsed["result"]["reply"] };
        assert_eq!((&parsed["id"], result.as_str().unwrap().lines().count()), (&json!(7), 20_000));
    }
}
