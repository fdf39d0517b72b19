//! The loop: wait, accept, read, execute, store, answer.

use crate::batch::Served;
use crate::file::{DatabaseFile, OpenError};
use crate::listener::{Listener, UnixSocket, bind_tcp};
use crate::session::{Session, SessionId};
use ovsdb::{Database, LockTable, Operation, Schema, Uuid, schema, transaction};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Most clients at a time; further ones wait in the listener's queue.
const MAX_SESSIONS: usize = 1000;

/// How long nobody is let in after that failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// A database server.
pub struct Server {
    pub(crate) databases: BTreeMap<String, Served>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) locks: LockTable<SessionId>,
    pub(crate) id: Uuid,
    listeners: Vec<Box<dyn Listener>>,
    next_session: SessionId,
    /// When to accept again, after the system had no file descriptor to spare.
    accept_again: Option<Instant>,
    /// The generations that waiting transactions have last seen.
    seen: u64,
}

enum Command {
    Listen(Box<dyn Listener>),
    Stop,
}

/// A server that runs in a thread of its own; dropping the handle stops it.
pub struct Handle {
    commands: Sender<Command>,
    waker: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Opens the database at `path`, creating it with `schema_if_absent` if there is none.
    pub fn open(path: &Path, schema_if_absent: Option<&Schema>) -> Result<Server, OpenError> {
        let (file, db) = DatabaseFile::open(path, schema_if_absent)?;
        let mut server = Server {
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locks: LockTable::new(),
            id: Uuid::new_v4(),
            listeners: Vec::new(),
            next_session: 0,
            accept_again: None,
            seen: 0,
        };
        let about = describe(&db);
        server.databases.insert(db.schema().name.clone(), Served::new(db, Some(file)));
        server.databases.insert(about.schema().name.clone(), Served::new(about, None));
        Ok(server)
    }

    /// The schema of the database in the file.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.databases.values().find(|served| !served.is_reserved()).map(|served| served.db.schema())
    }

    /// Listens on a Unix socket.
    pub fn listen_unix(&mut self, path: &Path) -> io::Result<()> {
        self.listeners.push(Box::new(UnixSocket::bind(path)?));
        Ok(())
    }

    /// Listens on a TCP address; the answer is the one in use, also when the port was 0.
    pub fn listen_tcp(&mut self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = bind_tcp(address)?;
        let address = TcpListener::local_addr(&listener)?;
        self.listeners.push(Box::new(listener));
        Ok(address)
    }

    /// Serves in a new thread.
    pub fn spawn(self) -> io::Result<Handle> {
        let (waker, wakened) = UnixStream::pair()?;
        wakened.set_nonblocking(true)?;
        let (commands, orders) = channel();
        let thread =
            std::thread::Builder::new().name("ovsdb".into()).spawn(move || self.serve(&wakened, &orders))?;
        Ok(Handle { commands, waker, thread: Some(thread) })
    }

    /// Serves in this thread for ever.
    pub fn run(self) -> io::Result<()> {
        let (_waker, wakened) = UnixStream::pair()?;
        wakened.set_nonblocking(true)?;
        let (_commands, orders) = channel();
        self.serve(&wakened, &orders);
        Ok(())
    }

    fn serve(mut self, wakened: &UnixStream, orders: &Receiver<Command>) {
        loop {
            let ready = self.wait(wakened);
            // The bytes only wake; what there is to do is in the channel.
            while (&*wakened).read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
            while let Ok(order) = orders.try_recv() {
                match order {
                    Command::Listen(listener) => self.listeners.push(listener),
                    Command::Stop => return,
                }
            }
            self.accept();
            for id in ready {
                self.read(id);
            }
            self.answer();
            self.retry_blocked();
            self.sessions.values_mut().for_each(Session::flush);
            self.drop_closed();
        }
    }

    /// Sleeps until something happens; the answer lists the sessions that sent something.
    fn wait(&self, wakened: &UnixStream) -> Vec<SessionId> {
        let mut fds = vec![PollFd::new(wakened, PollFlags::IN)];
        let full = self.sessions.len() >= MAX_SESSIONS || self.accept_again.is_some();
        let listen = if full { PollFlags::empty() } else { PollFlags::IN };
        fds.extend(self.listeners.iter().map(|listener| PollFd::new(listener, listen)));
        let first_session = fds.len();
        for session in self.sessions.values() {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, session.wants_input());
            flags.set(PollFlags::OUT, session.has_output());
            fds.push(PollFd::new(&session.stream, flags));
        }
        let deadlines = self.sessions.values().flat_map(|s| s.blocked.iter().filter_map(|b| b.deadline));
        // One more millisecond, so that the deadline is past when the time is read.
        let timeout = deadlines
            .chain(self.accept_again)
            .min()
            .map(|at| at.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        if poll(&mut fds, timeout.as_ref()).is_err() {
            return Vec::new();
        }
        let heard = |fd: &PollFd| fd.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        let sessions = fds.iter().skip(first_session).zip(self.sessions.keys());
        sessions.filter(|(fd, _)| heard(fd)).map(|(_, id)| *id).collect()
    }

    fn accept(&mut self) {
        self.accept_again = self.accept_again.filter(|at| *at > Instant::now());
        if self.accept_again.is_some() {
            return;
        }
        for listener in &self.listeners {
            while self.sessions.len() < MAX_SESSIONS {
                match listener.accept() {
                    Ok(stream) => {
                        self.next_session += 1;
                        self.sessions.insert(self.next_session, Session::new(stream));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // The client still knocks, so polling for it would not sleep.
                        self.accept_again = Some(Instant::now() + ACCEPT_PAUSE);
                        break;
                    }
                }
            }
        }
    }

    fn read(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let messages = session.receive();
        // What came before the end of the stream is still heard; what comes after a message that ends it is not.
        let ended = session.closed;
        for message in messages {
            self.handle(id, message);
            if !ended && self.sessions.get(&id).is_none_or(|s| s.closed) {
                return;
            }
        }
    }

    /// Tries waiting transactions again: all when a database changed, else those that give up.
    fn retry_blocked(&mut self) {
        loop {
            let generation = self.databases.values().map(|served| served.generation).sum();
            let changed = std::mem::replace(&mut self.seen, generation) != generation;
            let now = Instant::now();
            let mut due = Vec::new();
            for (id, session) in &mut self.sessions {
                let (ripe, rest) = std::mem::take(&mut session.blocked)
                    .into_iter()
                    .partition(|b| changed || b.deadline.is_some_and(|at| at <= now));
                session.blocked = rest;
                due.extend(Vec::into_iter(ripe).map(|blocked| (*id, blocked)));
            }
            if due.is_empty() {
                return;
            }
            for (id, blocked) in due {
                self.transact(id, blocked.id, blocked.params, blocked.since);
            }
            self.answer();
        }
    }

    fn drop_closed(&mut self) {
        let closed: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| s.closed).map(|(id, _)| *id).collect();
        for id in closed {
            self.sessions.remove(&id);
            for (lock, heir) in self.locks.end_session(id) {
                self.notify_lock(heir, "locked", &lock);
            }
        }
    }
}

impl Handle {
    /// Listens on one more Unix socket.
    pub fn listen_unix(&self, path: &Path) -> io::Result<()> {
        self.order(Command::Listen(Box::new(UnixSocket::bind(path)?)));
        Ok(())
    }

    /// Listens on one more TCP address; the answer is the one in use.
    pub fn listen_tcp(&self, address: SocketAddr) -> io::Result<SocketAddr> {
        let listener = bind_tcp(address)?;
        let address = TcpListener::local_addr(&listener)?;
        self.order(Command::Listen(Box::new(listener)));
        Ok(address)
    }

    /// Stops serving and closes the file.
    pub fn stop(self) {
        drop(self);
    }

    fn order(&self, command: Command) {
        // A server that has ended needs neither the order nor the wake-up.
        if self.commands.send(command).is_ok() {
            _ = (&self.waker).write(&[0]);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.order(Command::Stop);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The `_Server` database for `db`.
fn describe(db: &Database) -> Database {
    let mut about = Database::new(schema::server(), Uuid::new_v4());
    for schema in [db.schema(), about.schema().clone().as_ref()].map(Schema::to_json) {
        let name = schema.get("name").cloned().unwrap_or_default();
        let row = Operation::insert("Database", "")
            .set("name", name)
            .set("model", "standalone")
            .set("connected", true)
            .set("leader", true)
            .set("schema", schema.to_string());
        if let Ok(commit) = transaction::apply_own(&about, &[row], &mut Uuid::new_v4) {
            about.apply(commit, Uuid::new_v4());
        }
    }
    about
}
