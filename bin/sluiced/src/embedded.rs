//! The embedded database server. It serves one database file on a Unix socket and on the remotes of table Manager, in its own thread.

use ovsdb_server::{Handle, Limits, RemoteOptions, Server};
use runtime::Dirs;

/// The name of the remotes that `ovs-vsctl set-manager` configures.
const MANAGERS: &str = "db:Open_vSwitch,Open_vSwitch,manager_options";

/// Opens or creates `<dbdir>/conf.db`, and serves it on `<rundir>/db.sock`.
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
    // Return an error now. Otherwise the switch would wait for its database, or use the database of another server on the same
    // socket.
    match handle.refused(&name) {
        None => Ok(handle),
        Some(why) => Err(format!("cannot listen on {}: {why}", socket.display())),
    }
}
