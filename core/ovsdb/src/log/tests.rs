use super::*;
use crate::Operation;
use crate::operation::RowId;
use crate::schema::open_vswitch;
use crate::transaction::apply_own;
use proptest::prelude::*;

fn file_of(bodies: &[Json]) -> Vec<u8> {
    bodies.iter().flat_map(record).collect()
}

#[test]
fn length_and_hash_cover_the_newline() {
    // The record is `{}` and a newline, three bytes.
    assert_eq!(
        record(&serde_json::json!({})),
        b"OVSDB JSON 3 5f36b2ea290645ee34d943220a14b54ee5ea5be5\n{}\n"
    );
}

#[test]
fn the_length_of_a_snapshot_is_estimated() {
    let mut db = Database::new(open_vswitch(), Uuid::nil());
    for rows in [0, 10, 5000] {
        let inserts: Vec<Operation> =
            (0..rows).map(|i| Operation::insert("QoS", "").set("type", format!("type {i:05}"))).collect();
        let commit = apply_own(&db, &inserts, &mut Uuid::new_v4).unwrap();
        db.apply(commit, Uuid::new_v4());
        let (exact, estimated) = (snapshot(&db, 0).len() as f64, estimated_len(&db) as f64);
        assert!((0.9..1.1).contains(&(estimated / exact)), "{rows} rows: {estimated} of {exact}");
    }
}

#[test]
fn a_cut_anywhere_in_the_last_record_leaves_the_others() {
    let bodies = [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})];
    let file = file_of(&bodies);
    let first = record(&bodies[0]).len();
    for cut in first..file.len() {
        let records = read(&file[..cut]).unwrap();
        assert_eq!((records.good_len, records.records.len()), (first, 1), "cut at {cut}");
        // The dropped records are reported.
        assert_eq!(records.tail_fault.is_some(), cut > first, "cut at {cut}");
    }
    assert_eq!(read(&file).unwrap().tail_fault, None);
    let mut zeros = file.clone();
    zeros.truncate(first + 20);
    zeros.extend([0; 100]);
    let zeros = read(&zeros).unwrap();
    assert!(zeros.good_len == first && zeros.tail_fault.is_some());
    // The length exceeds the file.
    let long =
        [&file[..first], b"OVSDB JSON 99999999 0000000000000000000000000000000000000000\n{}\n"].concat();
    let long = read(&long).unwrap();
    assert!(long.good_len == first && long.tail_fault.is_some());
}

#[test]
fn a_block_that_was_never_written_ends_the_file() {
    let bodies = [1, 2, 3].map(|n| serde_json::json!({"a": n, "text": "x".repeat(50)}));
    let (file, first) = (file_of(&bodies), record(&bodies[0]).len());
    let second = first..first + record(&bodies[1]).len();
    for hole in
        [second.start..second.start + 20, second.end - 30..second.end, second.end - 30..second.end + 30]
    {
        let mut broken = file.clone();
        broken[hole.clone()].fill(0);
        let records = read(&broken).unwrap();
        assert_eq!((records.good_len, records.records.len()), (first, 1), "{hole:?}");
        assert!(records.tail_fault.is_some());
    }
}

#[test]
fn damage_before_the_end_is_an_error() {
    let bodies = [serde_json::json!({"a": "0123456789"}), serde_json::json!({"b": 2})];
    let file = file_of(&bodies);
    let first = record(&bodies[0]).len();
    for at in 0..first {
        let mut broken = file.clone();
        broken[at] ^= 1;
        assert!(read(&broken).is_err(), "flipped at {at}");
    }
    assert_eq!(read(b"OVSDB CLUSTER 1 x\n").unwrap_err(), LogError::Clustered);
    assert_eq!(read(b"SQLite format 3").unwrap_err(), LogError::Foreign);
}

#[test]
fn written_records_replay() {
    let mut next = 0u128;
    let mut fresh = || {
        next += 1;
        Uuid::from_u128(next)
    };
    let mut db = Database::new(open_vswitch(), Uuid::nil());
    let mut copy = db.clone();
    let steps = [
        vec![Operation::insert("Open_vSwitch", ""), Operation::insert("QoS", "").set("type", "linux-htb")],
        vec![
            Operation::insert("Bridge", "b").set("name", "br0"),
            Operation::update_where("Open_vSwitch", serde_json::json!([])).set("bridges", RowId::name("b")),
        ],
        vec![Operation::delete_where("QoS", serde_json::json!([]))],
        vec![
            Operation::update_where("Bridge", serde_json::json!([]))
                .set("other_config", Datum::map([("a", "b")])),
        ],
    ];
    for step in steps {
        let commit = apply_own(&db, &step, &mut fresh).unwrap();
        let body = transaction_text(db.schema(), &commit.changes, 1, "why").unwrap();
        let body = serde_json::from_str(&body).unwrap();
        db.apply(commit, Uuid::nil());
        let commit = replay(&copy, &body, &mut fresh).unwrap();
        copy.apply(commit, Uuid::nil());
    }
    let content = |db: &Database| {
        let rows = db.tables().iter().flat_map(|t| t.rows().values());
        rows.map(|row| (row.uuid(), row.content().to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(content(&db), content(&copy));
    let records = read(&snapshot(&db, 1)).unwrap().records;
    let fresh_db = Database::new(open_vswitch(), Uuid::nil());
    let mut again = fresh_db.clone();
    again.apply(replay(&fresh_db, &records[1].1, &mut fresh).unwrap(), Uuid::nil());
    assert_eq!(content(&db), content(&again));
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
        let mut file = if head { b"OVSDB JSON ".to_vec() } else { Vec::new() };
        file.extend(bytes);
        let _ = read(&file);
    }
}
