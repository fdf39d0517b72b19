//! A simulated disk in memory that fails like a real disk, and loses data at a power failure.
//!
//! Every file has two contents: the one that reads return (the kernel's cache) and the one on disk; the writes that are
//! not on disk yet are listed. A failed sync loses some of these writes, while reads still return them, and the next sync
//! succeeds nevertheless, as on Linux. File names also have a present state and a state on disk.

use crate::disk::{BackgroundTask, Disk, DiskFile};
use crate::syncer::DeferredSync;
use differential::rng::Rng;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Length of a sector in bytes: each sector of an interrupted write is on disk or not.
const SECTOR: usize = 512;

/// A change of a file that may not be on disk.
enum Unsynced {
    Write(usize, Vec<u8>),
    SetLen(usize),
}

#[derive(Default)]
struct Inode {
    content: Vec<u8>,
    on_disk: Vec<u8>,
    unsynced: Vec<Unsynced>,
    /// A sync has failed: some of the content that reads return will never be on disk.
    lost: bool,
}

/// A change of a file name that may not be on disk.
enum Renamed {
    To(PathBuf, usize),
    Away(PathBuf),
}

struct State {
    rng: Rng,
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    names_on_disk: BTreeMap<PathBuf, usize>,
    renamed: Vec<Renamed>,
    fail_percent: u64,
    capacity: usize,
    /// The process was killed: operations have no effect.
    dead: bool,
}

/// The disk; clones share it.
#[derive(Clone)]
pub struct FaultyDisk(Arc<Mutex<State>>);

struct FaultyFile {
    disk: FaultyDisk,
    inode: usize,
}

fn write_into(content: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    let end = offset + bytes.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(bytes);
}

impl Inode {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        write_into(&mut self.content, offset, bytes);
        self.unsynced.push(Unsynced::Write(offset, bytes.to_vec()));
    }

    /// Applies the first `count` unsynced changes to the content on disk, and some sectors of the write after them.
    fn sync_to_disk(&mut self, count: usize, rng: &mut Rng) {
        for (at, change) in self.unsynced.drain(..).take(count + 1).enumerate() {
            match change {
                Unsynced::SetLen(len) if at < count => self.on_disk.resize(len, 0),
                Unsynced::SetLen(_) => {}
                Unsynced::Write(offset, bytes) if at < count => write_into(&mut self.on_disk, offset, &bytes),
                Unsynced::Write(offset, bytes) => {
                    let bytes = &bytes[..rng.below(bytes.len() as u64 + 1) as usize];
                    for (number, sector) in bytes.chunks(SECTOR).enumerate() {
                        let zeros = vec![0; sector.len()];
                        let sector = if rng.chance(50) { sector } else { &zeros };
                        write_into(&mut self.on_disk, offset + number * SECTOR, sector);
                    }
                }
            }
        }
    }
}

impl State {
    fn used(&self) -> usize {
        self.names.values().map(|inode| self.inodes[*inode].content.len()).sum()
    }

    fn fail_randomly(&mut self) -> io::Result<()> {
        let dead = self.dead;
        if dead || self.rng.chance(self.fail_percent) {
            return Err(rustix::io::Errno::IO.into());
        }
        Ok(())
    }

    fn lookup(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| rustix::io::Errno::NOENT.into())
    }

    fn write(&mut self, inode: usize, bytes: &[u8], offset: usize) -> io::Result<()> {
        if self.dead {
            return self.fail_randomly();
        }
        let grows = (offset + bytes.len()).saturating_sub(self.inodes[inode].content.len());
        let bytes_free = self.capacity.saturating_sub(self.used());
        let fits = bytes.len() - grows.saturating_sub(bytes_free).min(bytes.len());
        let failed = self.fail_randomly();
        let len = if failed.is_err() { self.rng.below(fits as u64 + 1) as usize } else { fits };
        self.inodes[inode].write(offset, &bytes[..len]);
        failed?;
        if fits < bytes.len() { Err(rustix::io::Errno::NOSPC.into()) } else { Ok(()) }
    }

    fn sync(&mut self, inode: usize) -> io::Result<()> {
        let failed = self.fail_randomly();
        if self.dead {
            return failed;
        }
        let State { inodes, rng, .. } = self;
        let file = &mut inodes[inode];
        let all = file.unsynced.len();
        if failed.is_err() {
            file.lost = true;
            file.sync_to_disk(rng.below(all as u64 + 1) as usize, rng);
            return failed;
        }
        file.sync_to_disk(all, rng);
        Ok(())
    }
}

impl FaultyDisk {
    /// An empty disk without faults.
    pub fn new(seed: u64) -> FaultyDisk {
        FaultyDisk(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            inodes: Vec::new(),
            names: BTreeMap::new(),
            names_on_disk: BTreeMap::new(),
            renamed: Vec::new(),
            fail_percent: 0,
            capacity: usize::MAX,
            dead: false,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the percentage of calls that fail from now on.
    pub fn fail(&self, percent: u64) {
        self.state().fail_percent = percent;
    }

    /// Sets the capacity in bytes.
    pub fn set_capacity(&self, bytes: usize) {
        self.state().capacity = bytes;
    }

    /// Simulates the end of the process: all operations fail and have no effect until [`FaultyDisk::restart`].
    pub fn kill(&self) {
        self.state().dead = true;
    }

    /// Enables the disk for the next process. `power_was_lost`: only the content on disk is left.
    pub fn restart(&self, power_was_lost: bool) {
        let mut state = self.state();
        state.dead = false;
        if !power_was_lost {
            return;
        }
        let State { inodes, names, names_on_disk, renamed, rng, .. } = &mut *state;
        for inode in inodes.iter_mut() {
            let kept = rng.below(inode.unsynced.len() as u64 + 1) as usize;
            inode.sync_to_disk(kept, rng);
            inode.content = inode.on_disk.clone();
            inode.lost = false;
        }
        let kept = rng.below(renamed.len() as u64 + 1) as usize;
        apply_names(names_on_disk, renamed.drain(..).take(kept));
        *names = names_on_disk.clone();
    }

    /// Returns whether reads return content that will never be on disk.
    pub fn returns_lost_content(&self, path: &Path) -> bool {
        let state = self.state();
        state.lookup(path).is_ok_and(|inode| state.inodes[inode].lost)
    }
}

fn apply_names(names: &mut BTreeMap<PathBuf, usize>, renamed: impl Iterator<Item = Renamed>) {
    for renamed in renamed {
        match renamed {
            Renamed::To(path, inode) => _ = names.insert(path, inode),
            Renamed::Away(path) => _ = names.remove(&path),
        }
    }
}

impl DiskFile for FaultyFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.disk.state().write(self.inode, bytes, offset as usize)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        state.fail_randomly()?;
        let inode = &mut state.inodes[self.inode];
        inode.content.resize(len as usize, 0);
        inode.unsynced.push(Unsynced::SetLen(len as usize));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.state().sync(self.inode)
    }
}

impl Disk for FaultyDisk {
    fn exists(&self, path: &Path) -> bool {
        self.state().lookup(path).is_ok()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.state();
        state.fail_randomly()?;
        let inode = state.lookup(path)?;
        Ok(state.inodes[inode].content.clone())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.fail_randomly()?;
        let inode = state.lookup(path)?;
        Ok(Arc::new(FaultyFile { disk: self.clone(), inode }))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.state();
        state.fail_randomly()?;
        let inode = state.lookup(path).unwrap_or_else(|_| {
            state.inodes.push(Inode::default());
            let inode = state.inodes.len() - 1;
            state.names.insert(path.to_owned(), inode);
            state.renamed.push(Renamed::To(path.to_owned(), inode));
            inode
        });
        state.inodes[inode].content.clear();
        state.inodes[inode].unsynced.push(Unsynced::SetLen(0));
        Ok(Arc::new(FaultyFile { disk: self.clone(), inode }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.fail_randomly()?;
        let inode = state.lookup(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), inode);
        state.renamed.push(Renamed::Away(from.to_owned()));
        state.renamed.push(Renamed::To(to.to_owned(), inode));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.fail_randomly()?;
        state.lookup(path)?;
        state.names.remove(path);
        state.renamed.push(Renamed::Away(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, _: &Path) -> io::Result<()> {
        let mut state = self.state();
        state.fail_randomly()?;
        let State { names_on_disk, renamed, .. } = &mut *state;
        apply_names(names_on_disk, renamed.drain(..));
        Ok(())
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        path.to_owned()
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn BackgroundTask>> {
        self.state().fail_randomly()?;
        Ok(Box::new(Task { disk: self.clone(), work: Mutex::new(Some(work)) }))
    }
}

/// A background task that runs when it is waited for, or in one of several calls of `is_finished`.
struct Task {
    disk: FaultyDisk,
    work: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl BackgroundTask for Task {
    fn is_finished(&self) -> bool {
        let due = self.disk.state().rng.chance(30);
        let work = self.work.lock().ok().and_then(|mut work| if due { work.take() } else { None });
        if let Some(work) = work {
            work();
        }
        self.work.lock().is_ok_and(|work| work.is_none())
    }

    fn wait(self: Box<Self>) {
        if let Some(work) = self.work.into_inner().ok().flatten() {
            work();
        }
    }
}

/// The file that waits for a sync, and whether a sync failed.
type SyncState = (Option<Arc<dyn DiskFile>>, bool);

/// Syncs when a test calls `run_once`; clones share their state.
#[derive(Clone, Default)]
pub struct ManualSyncer(Arc<Mutex<SyncState>>);

impl ManualSyncer {
    /// Does one round of the sync thread.
    pub fn run_once(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.take().is_some_and(|file| file.sync().is_err()) {
            state.1 = true;
        }
    }
}

impl DeferredSync for ManualSyncer {
    fn request_sync(&self, file: &Arc<dyn DiskFile>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 = Some(Arc::clone(file));
    }

    fn take_failure(&self) -> bool {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).1)
    }
}
