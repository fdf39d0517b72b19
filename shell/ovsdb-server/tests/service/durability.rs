//! Confirmed changes are kept; changes that cannot be stored are refused; damaged files are reported.

use crate::common::{Client, Process, Scratch, listen, open};
use ovsdb::schema::open_vswitch;
use ovsdb_server::{AddError, OpenError};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Makes a database with three rows, and stops the server.
fn filled(scratch: &Scratch) -> std::path::PathBuf {
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let mut server = open(&path, Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    let handle = server.spawn().unwrap();
    let mut client = Client::connect(&socket);
    ["a", "b", "c"].into_iter().for_each(|kind| _ = client.insert(kind));
    handle.stop();
    path
}

fn kinds(scratch: &Scratch, path: &Path) -> Vec<String> {
    let socket = scratch.path("again.sock");
    let mut server = open(path, None).unwrap();
    listen(&mut server, &socket);
    let _handle = server.spawn().unwrap();
    Client::connect(&socket).kinds()
}

#[test]
fn a_killed_server_loses_nothing_that_it_answered() {
    let scratch = Scratch::new();
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let mut expected = Vec::new();
    for round in 0..3 {
        let process = Process::start("", &path, &socket);
        let mut client = Client::connect(&socket);
        assert_eq!(client.kinds(), expected);
        for number in 0..5 {
            let kind = format!("{round}-{number}");
            assert!(client.insert(&kind).get("uuid").is_some());
            expected.push(kind);
        }
        process.kill();
    }
    assert_eq!(kinds(&scratch, &path), expected);
}

#[test]
fn a_file_that_may_not_grow_refuses_changes_and_stays_whole() {
    let scratch = Scratch::new();
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let process = Process::start("trap '' XFSZ; ulimit -f 60;", &path, &socket);
    let mut client = Client::connect(&socket);
    let mut expected = Vec::new();
    let refusal = loop {
        let kind = format!("{:03}{}", expected.len(), "x".repeat(1000));
        let result = client.insert(&kind);
        if result.get("error").is_some() {
            break result;
        }
        expected.push(kind);
        assert!(expected.len() < 500, "the limit has no effect");
    };
    assert_eq!(refusal["error"], "I/O error");
    assert!(!expected.is_empty());
    assert_eq!(client.kinds(), expected);
    assert!(client.insert("small").get("uuid").is_some());
    expected.push("small".into());
    process.kill();
    assert_eq!(kinds(&scratch, &path), expected);
}

#[test]
fn a_torn_last_record_is_cut_off() {
    let scratch = Scratch::new();
    let path = filled(&scratch);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 7]).unwrap();
    assert_eq!(kinds(&scratch, &path), ["a", "b"]);
    let repaired = fs::read(&path).unwrap();
    assert!(bytes.starts_with(&repaired) && repaired.len() < bytes.len() - 7);
}

#[test]
fn damage_is_reported_and_the_file_left_alone() {
    let scratch = Scratch::new();
    let path = filled(&scratch);
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() - bytes.len() / 50 - 300;
    bytes[middle] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let error = open(&path, None).err().unwrap();
    assert!(matches!(error, AddError::Open(OpenError::Log { .. })), "{error}");
    assert!(error.to_string().contains("is damaged"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
}

#[test]
fn other_files_are_refused() {
    let scratch = Scratch::new();
    let path = scratch.path("x.db");
    for (content, words) in
        [("OVSDB CLUSTER 5 aa\n{}\n", "clustered"), ("hello", "not a database file"), ("", "no schema")]
    {
        fs::write(&path, content).unwrap();
        let error = open(&path, Some(&open_vswitch())).err().unwrap().to_string();
        assert!(error.contains(words), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn two_servers_do_not_share_a_file() {
    let scratch = Scratch::new();
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let process = Process::start("", &path, &socket);
    let error = open(&path, None).err().unwrap().to_string();
    assert!(error.contains("locked"), "{error}");
    process.kill();
    let first = open(&path, None).unwrap();
    assert!(open(&path, None).is_err());
    drop(first);
    assert!(open(&path, None).is_ok());
}

#[test]
fn transactions_sent_together_are_answered_in_order() {
    let scratch = Scratch::new();
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let mut server = open(&path, Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    let _handle = server.spawn().unwrap();
    let mut client = Client::connect(&socket);
    let ids: Vec<u64> = (0..200)
        .map(|n| {
            let op = if n % 5 == 4 {
                json!({"op": "abort"})
            } else {
                json!({"op": "insert", "table": "Queue", "row": {}})
            };
            client.send("transact", json!(["Open_vSwitch", op]))
        })
        .collect();
    for id in ids {
        assert!(client.answer(id).is_ok());
    }
    let count = client.transact(json!([{"op": "mutate", "table": "Queue", "where": [], "mutations": []}]));
    assert_eq!(count[0]["count"], 160);
}

#[test]
fn a_file_that_grew_long_is_rewritten_and_goes_on() {
    let scratch = Scratch::new();
    let (path, socket) = (scratch.path("conf.db"), scratch.path("db.sock"));
    let mut server = open(&path, Some(&open_vswitch())).unwrap();
    listen(&mut server, &socket);
    let handle = server.spawn().unwrap();
    let mut client = Client::connect(&socket);
    client.insert("a");
    for round in 0..12 {
        let text = format!("{round}{}", "x".repeat(1 << 20));
        let update = json!({"op": "update", "table": "QoS", "where": [["type", "==", "a"]],
            "row": {"other_config": ["map", [["k", text]]]}});
        assert_eq!(client.transact(json!([update]))[0]["count"], 1);
    }
    client.insert("b");
    // The new file is written in the background, and discarded if the server ends first.
    let deadline = Instant::now() + Duration::from_secs(20);
    while fs::metadata(&path).unwrap().len() >= 10 << 20 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    handle.stop();
    assert!(fs::metadata(&path).unwrap().len() < 10 << 20);
    assert_eq!(kinds(&scratch, &path), ["a", "b"]);
}
