//! The control socket: for any input of a client, each reply is JSON and there are no more replies than requests.

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
    let mut server = Server::none("fuzz", &OFFERED);
    server.adopt(daemon);
    let Ok(()) = client.write_all(data) else { return };
    let mut answers = Splitter::new(Limits::of_bytes(1 << 20));
    // One request is executed per iteration, and each takes bytes of the input.
    for _ in 0..=data.len() {
        let requests = server.run();
        for request in &requests {
            assert!(OFFERED.contains(&request.method.as_str()));
            let command = ctl::find(&request.method).expect("one of those offered");
            assert!((command.min_args..=command.max_args).contains(&request.args.len()));
            server.reply(request.id, Ok(Reply::from(request.args.join(" "))));
        }
        let (read, open) = receive(&mut client, &mut answers);
        if !open || (requests.is_empty() && !read) {
            break;
        }
    }
    while let Some(answer) = answers.next_value().expect("answers are JSON") {
        assert!(answer.get("id").is_some_and(|id| *id != Json::Null), "{answer}");
    }
}

/// Receives replies; returns whether there were any, and whether the server still listens.
fn receive(client: &mut Stream, answers: &mut Splitter) -> (bool, bool) {
    let (mut piece, mut read) = ([0; 16384], false);
    loop {
        match client.read(&mut piece) {
            Ok(0) => return (read, false),
            Ok(n) => {
                answers.push(&piece[..n]);
                read = true;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return (read, e.kind() == ErrorKind::WouldBlock),
        }
    }
}
