//! The control socket: for any input of a client, each reply is JSON and has the id of a request.

use ovsdb::stream::Limits;
use ovsdb::{Json, Splitter};
use std::io::{ErrorKind, Read, Write};
use std::sync::Once;
use transport::Stream;
use unixctl::{Reply, Server};

const LEN_MAX: usize = 4096;
const OFFERED: [&str; 4] = ["dpctl/show", "ofproto/trace", "fdb/add", "vlog/set"];

pub fn run(data: &[u8]) {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| runtime::log::set("ANY:ANY:off").expect("the level is known"));
    let Some((mut client, daemon)) = Stream::pair().ok().filter(|_| data.len() <= LEN_MAX) else { return };
    let mut server = Server::without_socket("fuzz", &OFFERED);
    server.adopt(daemon);
    let Ok(()) = client.write_all(data) else { return };
    let mut replies = Splitter::new(Limits::of_bytes(1 << 20));
    // There are fewer requests than bytes.
    for _ in 0..=data.len() {
        let requests = server.run();
        for request in &requests {
            assert!(OFFERED.contains(&request.method.as_str()));
            let command = ctl::find(&request.method).expect("one of those offered");
            assert!((command.min_args..=command.max_args).contains(&request.args.len()));
            server.reply(request.id, Ok(Reply::from(request.args.join(" "))));
        }
        let (read, open) = receive(&mut client, &mut replies);
        if !open || (requests.is_empty() && !read) {
            break;
        }
    }
    while let Some(answer) = replies.next_value().expect("answers are JSON") {
        assert!(answer.get("id").is_some_and(|id| *id != Json::Null), "{answer}");
    }
}

/// Receives replies. Returns whether there were any, and whether the connection is still open.
fn receive(client: &mut Stream, replies: &mut Splitter) -> (bool, bool) {
    let (mut piece, mut read) = ([0; 16384], false);
    loop {
        match client.read(&mut piece) {
            Ok(0) => return (read, false),
            Ok(n) => {
                replies.push(&piece[..n]);
                read = true;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return (read, e.kind() == ErrorKind::WouldBlock),
        }
    }
}
