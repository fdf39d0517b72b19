//! Serves a database: `serve DATABASE [punix:PATH | ptcp:ADDRESS:PORT]...`.
//!
//! A database that does not exist is created with the Open_vSwitch schema.

use ovsdb_server::Server;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: serve DATABASE REMOTE...")?;
    let mut server = Server::open(Path::new(&path), Some(&ovsdb::schema::open_vswitch()))?;
    for remote in args {
        match remote.split_once(':') {
            Some(("punix", path)) => server.listen_unix(Path::new(path))?,
            Some(("ptcp", address)) => println!("listening on {}", server.listen_tcp(address.parse()?)?),
            _ => return Err(format!("{remote}: unknown kind of remote").into()),
        }
    }
    println!("ready");
    server.run()?;
    Ok(())
}
