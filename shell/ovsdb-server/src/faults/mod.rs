//! Tests that the served content is always what was confirmed to clients, whatever the disk does.
//!
//! Random transactions, compactions and conversions are applied to a database on a [`FaultyDisk`] and to a model, which
//! stores all states of the database. If a call fails, the client must get an error, and the database in memory must be
//! unchanged. After a kill the database must be in its last state; after a power failure in a state that is at least as
//! new as the last one that was confirmed with `durable`. A refused transaction may be in the file if the process ended
//! before its record could be cut off, but only completely, and after all confirmed transactions. All events are
//! determined by a seed.

mod disk;

use crate::batch::ServedDatabase;
use crate::file::DatabaseFile;
use differential::rng::Rng;
use disk::{FaultyDisk, ManualSyncer};
use ovsdb::transaction::{self, Context, Outcome};
use ovsdb::{Database, Json, Schema, Uuid};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The content of a database, with the version of its schema.
type Content = BTreeMap<String, Vec<Json>>;

const SESSION: u64 = 1;
/// Minimum length for automatic compaction, in bytes; small, so that it happens often.
const COMPACT_MIN_LEN: u64 = 3000;

fn schema(version: u64) -> Schema {
    let mut columns = json!({"name": {"type": "string"},
        "set": {"type": {"key": "integer", "min": 0, "max": "unlimited"}},
        "map": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}}});
    if version % 2 == 1 {
        columns["more"] = json!({"type": "integer"});
    }
    let tables = json!({"T": {"columns": columns, "isRoot": true}});
    Schema::from_json(&json!({"name": "D", "version": format!("1.{version}.0"), "tables": tables})).unwrap()
}

fn content(db: &Database) -> Content {
    let mut all = Content::from([("version".into(), vec![db.schema().version.as_str().into()])]);
    for (table, schema) in db.tables().iter().zip(&db.schema().tables) {
        for row in table.rows().values() {
            let fields = (2..schema.columns.len()).map(|column| row.field(column).to_json()).collect();
            all.insert(row.uuid().to_string(), fields);
        }
    }
    all
}

/// The states that may be found after a restart.
struct Model {
    /// All states; the last one is the present one.
    states: Vec<Content>,
    /// Index of the oldest state that may be found after a power failure.
    durable: usize,
    /// States with refused transactions, since the last durable state.
    refused: Vec<Content>,
    /// How many of the last `refused` states may follow the present state in the file: those refused since the present
    /// state was confirmed.
    trailing: usize,
}

impl Model {
    fn present(&self) -> &Content {
        self.states.last().unwrap()
    }

    fn add_confirmed(&mut self, states: Vec<Content>, durable: bool) {
        self.states.extend(states);
        self.trailing = 0;
        if durable {
            self.durable = self.states.len() - 1;
            self.refused.clear();
        }
    }

    fn add_refused(&mut self, states: Vec<Content>) {
        self.trailing += states.len();
        self.refused.extend(states);
    }

    /// Checks and adopts the state that was found after a restart.
    fn check_found_state(&mut self, found: Content, power_was_lost: bool) -> Result<(), String> {
        let trailing = self.refused.iter().rev().take(self.trailing);
        let ok = match power_was_lost {
            true => self.states[self.durable..].iter().chain(&self.refused).any(|s| *s == found),
            false => self.states.last().into_iter().chain(trailing).any(|s| *s == found),
        };
        if !ok {
            let (states, from) = (&self.states, self.durable);
            return Err(format!(
                "power lost: {power_was_lost}, found {found:?}\nafter {states:?}\nof them durable: {from}"
            ));
        }
        if power_was_lost {
            *self = Model { states: vec![found], durable: 0, refused: Vec::new(), trailing: 0 };
        } else {
            self.add_confirmed(vec![found], false);
        }
        Ok(())
    }
}

struct Run {
    rng: Rng,
    disk: FaultyDisk,
    syncer: ManualSyncer,
    path: PathBuf,
    served: ServedDatabase,
    model: Model,
    version: u64,
    next_id: u64,
}

fn open(
    disk: &FaultyDisk,
    syncer: &ManualSyncer,
    path: &Path,
    schema: Option<&Schema>,
) -> Option<ServedDatabase> {
    let (disk, syncer) = (Arc::new(disk.clone()), Box::new(syncer.clone()));
    let (file, db) = DatabaseFile::open_on(disk, syncer, path, schema, COMPACT_MIN_LEN).ok()?;
    Some(ServedDatabase::new(db, Some(file)))
}

impl Run {
    fn new(seed: u64, folder: &Path) -> Run {
        let (disk, syncer) = (FaultyDisk::new(seed), ManualSyncer::default());
        let path = folder.join("x.db");
        let served = open(&disk, &syncer, &path, Some(&schema(0))).unwrap();
        let model = Model { states: vec![content(&served.db)], durable: 0, refused: Vec::new(), trailing: 0 };
        Run { rng: Rng::new(!seed), disk, syncer, path, served, model, version: 0, next_id: 0 }
    }

    fn operation(&mut self) -> Json {
        let (n, other) = (self.rng.below(6), self.rng.below(6));
        let name = format!("row{n}");
        let key = format!("k{other}");
        let text = "x".repeat(self.rng.below(900) as usize);
        match self.rng.below(5) {
            0 | 1 => json!({"op": "insert", "table": "T", "row": {"name": name, "set": ["set", [n, n + 1]]}}),
            2 => json!({"op": "mutate", "table": "T", "where": [["name", "==", name]],
                "mutations": [["set", "insert", ["set", [other]]], ["set", "delete", n], ["map", "delete", key],
                    ["map", "insert", ["map", [[key, text]]]]]}),
            3 => {
                json!({"op": "update", "table": "T", "where": [["name", "==", name]], "row": {"set": other}})
            }
            _ => json!({"op": "delete", "table": "T", "where": [["name", "==", name]]}),
        }
    }

    fn fresh_uuid(&mut self) -> Uuid {
        self.next_id += 1;
        Uuid::from_u128(u128::from(self.next_id))
    }

    /// Executes a few transactions in one batch.
    fn transact(&mut self, durable: bool) {
        let before = self.model.present().clone();
        assert_eq!(content(&self.served.db), before);
        let mut states = Vec::new();
        for _ in 0..self.rng.between(1, 3) {
            let mut params = vec![json!("D")];
            params.extend((0..self.rng.between(1, 4)).map(|_| self.operation()).collect::<Vec<_>>());
            if durable {
                params.push(json!({"op": "commit", "durable": true}));
            }
            let context = Context::default();
            let outcome = transaction::execute(
                &self.served.db.clone(),
                &ovsdb::Parameters::Tree(params.into()),
                &context,
                &mut || self.fresh_uuid(),
            );
            let Outcome::Ready(prepared) = outcome else { panic!("does not fit the schema") };
            self.served.add(SESSION, Json::Null, *prepared);
            states.push(content(&self.served.db));
        }
        let pending = self.served.store();
        let refused = |results: &[Json]| results.last().is_some_and(|r| r["error"] == "I/O error");
        let count = pending.iter().filter(|p| refused(&p.results)).count();
        if count == 0 && pending.iter().all(|p| p.changes.is_none()) {
            // Nothing was written, so nothing was synced or cut off either.
            return self.model.states.extend(states);
        }
        if count == 0 {
            return self.model.add_confirmed(states, durable);
        }
        assert_eq!(count, pending.len(), "a batch is stored as a whole");
        assert_eq!(content(&self.served.db), before, "what was refused is not served");
        self.model.add_refused(states);
    }

    fn convert(&mut self) {
        self.version += 1;
        if self.served.convert(Arc::new(schema(self.version))).is_ok() {
            self.model.add_confirmed(vec![content(&self.served.db)], false);
        }
    }

    /// Ends the process and opens the file in the next one.
    fn restart(&mut self, power_is_lost: bool) -> Result<(), String> {
        // The next process cannot know that a sync failed, and only rewriting the file would repair this: treat it as a
        // power failure.
        let power_is_lost = power_is_lost || self.disk.returns_lost_content(&self.path);
        self.disk.kill();
        self.served = ServedDatabase::new(Database::new(Arc::new(schema(0)), Uuid::nil()), None);
        self.syncer = ManualSyncer::default();
        self.disk.restart(power_is_lost);
        let opened = open(&self.disk, &self.syncer, &self.path, None).or_else(|| {
            self.disk.fail(0);
            self.disk.set_capacity(usize::MAX);
            open(&self.disk, &self.syncer, &self.path, None)
        });
        self.served = opened.ok_or("cannot be opened")?;
        self.model.check_found_state(content(&self.served.db), power_is_lost)
    }

    fn step(&mut self) -> Result<(), String> {
        match self.rng.below(20) {
            0..14 => {
                let durable = self.rng.chance(30);
                self.transact(durable);
            }
            14 | 15 => self.served.compact(),
            16 => self.convert(),
            17 => {
                let percent = self.rng.pick(&[0, 0, 3, 20, 50]);
                self.disk.fail(percent);
                let capacity = self.rng.below(20_000) as usize;
                self.disk.set_capacity(if self.rng.chance(20) { capacity } else { usize::MAX });
            }
            18 => self.restart(false)?,
            _ => self.restart(true)?,
        }
        if self.rng.chance(40) {
            self.syncer.run_once();
        }
        self.served.replace_file_if_rewritten();
        Ok(())
    }

    /// Checks that everything works again without faults.
    fn end(&mut self) -> Result<(), String> {
        self.disk.fail(0);
        self.disk.set_capacity(usize::MAX);
        let before = self.model.states.len();
        self.transact(true);
        if self.model.states.len() == before {
            return Err("refused without a fault".to_owned());
        }
        self.restart(true)
    }
}

/// Creates a directory for the lock file. Also turns the log off, which thousands of simulated faults would fill.
fn scratch() -> PathBuf {
    _ = runtime::log::command("vlog/set", &["off".to_owned()]);
    let folder = std::env::temp_dir().join(format!("ovsdb-faults-{}-{}", std::process::id(), Uuid::new_v4()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn faults_lose_nothing_that_was_answered() {
    let folder = scratch();
    let long = std::env::var_os("TEST_LONG").is_some();
    for seed in 0..if long { 10_000 } else { 40 } {
        let mut run = Run::new(seed, &folder);
        for step in 0..120 {
            run.step().unwrap_or_else(|why| panic!("seed {seed}, step {step}: {why}"));
        }
        run.end().unwrap_or_else(|why| panic!("seed {seed}, end: {why}"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_disk_may_be_full_at_any_byte() {
    let folder = scratch();
    let long = std::env::var_os("TEST_LONG").is_some();
    for capacity in (0..2500).step_by(if long { 1 } else { 17 }) {
        let mut run = Run::new(7, &folder);
        run.disk.set_capacity(capacity);
        for turn in 0..4 {
            run.transact(turn % 2 == 0);
        }
        run.restart(capacity % 2 == 0)
            .and_then(|()| run.end())
            .unwrap_or_else(|why| panic!("{capacity} bytes: {why}"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}
