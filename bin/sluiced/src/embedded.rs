//! The database that the daemon serves itself: one file, one socket and what table Manager asks for, a thread of its own.

use ovsdb_server::{Handle, Limits, RemoteOptions, Server};
use runtime::Dirs;

/// Where `ovs-vsctl set-manager` puts more remotes.
const MANAGERS: &str = "db:Open_vSwitch,Open_vSwitch,manager_options";

/// Opens `<dbdir>/conf.db`, making it if there is none, and serves it on `<rundir>/db.sock`.
pub fn start(dirs: &Dirs, limits: Limits) -> Result<Handle, String> {
    let path = dirs.db.join("conf.db");
    let schema = ovsdb::schema::open_vswitch();
    let mut server = Server::new(&dirs.run, limits);
    server.add_database(&path, Some(&schema)).map_err(|e| format!("cannot open the database: {e}"))?;
    let socket = dirs.in_run("db.sock");
    let name = format!("punix:{}", socket.display());
    for remote in [name.clone(), MANAGERS.to_owned()] {
        let options = RemoteOptions::default_for(&remote);
        server.remotes_mut().insert(remote, options);
    }
    let handle =
        server.spawn().map_err(|e| format!("cannot serve the database: {}", runtime::error_text(&e)))?;
    // Without it the switch would wait for its database, or follow another's that has the socket.
    match handle.refused(&name) {
        None => Ok(handle),
        Some(why) => Err(format!("cannot listen on {}: {why}", socket.display())),
    }
}
