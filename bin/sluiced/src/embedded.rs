//! The database that the daemon serves itself: one file, one socket, a thread of its own.

use ovsdb_server::{Handle, Server};
use runtime::Dirs;

/// Opens `<dbdir>/conf.db`, making it if there is none, and serves it on `<rundir>/db.sock`.
pub fn start(dirs: &Dirs) -> Result<Handle, String> {
    let path = dirs.db.join("conf.db");
    let schema = ovsdb::schema::open_vswitch();
    let mut server =
        Server::open(&path, Some(&schema)).map_err(|e| format!("cannot open the database {e}"))?;
    let socket = dirs.in_run("db.sock");
    server
        .listen_unix(&socket)
        .map_err(|e| format!("cannot listen on {}: {}", socket.display(), runtime::error_text(&e)))?;
    server.spawn().map_err(|e| format!("cannot serve the database: {}", runtime::error_text(&e)))
}
