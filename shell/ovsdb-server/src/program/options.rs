//! The options of this program, in addition to those of all daemons.

use crate::limits::Limits;
use crate::remotes::{RemoteNames, RemoteOptions};
use crate::tls_names::TlsNames;
use runtime::Dirs;
use runtime::daemon::DaemonArgs;
use std::path::PathBuf;
use transport::tls;

/// The error text for commands and options about replication.
pub const NO_REPLICATION: &str =
    "replication, relays and clusters are not supported by this version of Sluice";

/// The parsed command line.
#[derive(Debug, Default)]
pub struct Options {
    /// The database files.
    pub databases: Vec<PathBuf>,
    /// `--remote`
    pub remotes: RemoteNames,
    /// `--run`
    pub run: Option<String>,
    /// `--config-file`
    pub config_file: Option<PathBuf>,
    /// `--private-key` and the other TLS options.
    pub tls: TlsNames,
    /// `--ovsdb-limits`
    pub limits: Limits,
}

/// Options with an argument, except those for TLS.
const WITH_ARGUMENT: [&str; 6] =
    ["--ovsdb-limits", "--remote", "--run", "--sync-from", "--sync-exclude-tables", "--config-file"];

impl Options {
    /// Parses the arguments that are not options of all daemons (`DaemonArgs`).
    pub fn parse(rest: &[String], dirs: &Dirs) -> Result<Options, String> {
        let mut options = Options::default();
        let mut no_databases = false;
        let mut only_files = false;
        let mut args = rest.iter();
        while let Some(arg) = args.next() {
            if only_files || !arg.starts_with('-') || arg == "-" {
                options.databases.push(arg.into());
                continue;
            }
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (arg.as_str(), None),
            };
            let glued = arg.get(..2).filter(|_| !arg.starts_with("--"));
            let known =
                |name: &str| tls::option(name).or_else(|| WITH_ARGUMENT.into_iter().find(|o| *o == name));
            if let Some(long) = known(name).or_else(|| known(glued?)) {
                let rest_of_short = arg.get(2..).filter(|rest| glued.is_some() && !rest.is_empty());
                let value = rest_of_short.or(value).or_else(|| args.next().map(String::as_str));
                options.set(long, value.ok_or_else(|| format!("option '{name}' requires an argument"))?)?;
                continue;
            }
            match (name, value) {
                ("--", None) => only_files = true,
                ("--no-dbs", None) => no_databases = true,
                // Ignored: this server always writes differences, and always stores the data after a conversion. All
                // supported versions can read both.
                ("--disable-file-column-diff" | "--disable-file-no-data-conversion", None) => {}
                // The server is always active.
                ("--active", None) => {}
                ("--record" | "--replay", _) => {
                    return Err(format!("{name}: streams cannot be recorded and replayed"));
                }
                _ => return Err(format!("unrecognized option '{name}'\nuse --help for help")),
            }
        }
        if options.config_file.is_some() && !options.remotes.is_empty() {
            return Err("--config-file is mutually exclusive with --remote".to_owned());
        }
        if options.config_file.is_some() && !options.databases.is_empty() {
            return Err("Databases should be specified in a config file".to_owned());
        }
        if options.databases.is_empty() && !no_databases && options.config_file.is_none() {
            options.databases.push(dirs.db.join("conf.db"));
        }
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "--remote" => _ = self.remotes.insert(value.to_owned(), RemoteOptions::default_for(value)),
            "--ovsdb-limits" => {
                self.limits = Limits::parse(value).map_err(|text| format!("{name}: {text}"))?;
            }
            "--run" => self.run = Some(value.to_owned()),
            "--config-file" => {
                let absolute = std::path::absolute(value).map_err(|e| runtime::error_text(&e))?;
                self.config_file = Some(absolute);
            }
            "--sync-from" | "--sync-exclude-tables" => {
                return Err(format!("{name}: {NO_REPLICATION}"));
            }
            _ if self.tls.set(name, value) => {}
            _ => eprintln!("{name} has no effect in this version of Sluice"),
        }
        Ok(())
    }
}

/// `--help`
pub fn usage(dirs: &Dirs) -> String {
    let name = &dirs.progname;
    format!(
        "{name}: Open vSwitch database server\nusage: {name} [OPTIONS] [DATABASE...]\nwhere each DATABASE is a database file \
         in ovsdb format.\nThe default DATABASE, if none is given, is\n{}.\n\nJSON-RPC options (may be specified any number \
         of times):\n  --remote=REMOTE         connect or listen to REMOTE\nREMOTE is unix:FILE, tcp:IP:PORT, ssl:IP:PORT, \
         punix:FILE, ptcp:[PORT][:IP],\npssl:[PORT][:IP] or db:DATABASE,TABLE,COLUMN\n\nTLS options (each FILE may be \
         db:DATABASE,TABLE,COLUMN):\n  -p, --private-key=FILE  file with private key\n  -c, --certificate=FILE  file with \
         certificate for private key\n  -C, --ca-cert=FILE      file with peer CA certificate\n  --bootstrap-ca-cert=FILE  \
         file with peer CA certificate to read or create\n  --ssl-protocols=PROTOS, --ssl-ciphers=CIPHERS, \
         --ssl-ciphersuites=SUITES\n                          in the syntax of OpenSSL: a selection of those available\n{}\nOther options:\n  \
         --ovsdb-limits=NAME=NUMBER[,...]  limits per client: bytes and\n                          JSON values of a message, operations of a \
         transaction;\n                          sessions of a remote\n  --run COMMAND           run COMMAND as \
         subprocess then exit\n  --unixctl=SOCKET         override default control socket name\n  --config-file=FILE      \
         read remotes and databases from FILE\n  --no-dbs                do not use the default database\n  -h, \
         --help              display this help message\n  -V, --version           display version information\n",
        dirs.db.join("conf.db").display(),
        DaemonArgs::usage(dirs)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args, &Dirs::from_env("ovsdb-server"))
    }

    #[test]
    fn options_in_all_their_forms() {
        let o = parse("--remote=punix:a --remote db:d,t,c -pkey -c cert --ca-cert=ca x.db --no-dbs y.db")
            .unwrap();
        assert_eq!(o.databases, ["x.db", "y.db"].map(PathBuf::from));
        assert_eq!(o.remotes.keys().collect::<Vec<_>>(), ["db:d,t,c", "punix:a"]);
        assert_eq!([o.tls.private_key, o.tls.certificate, o.tls.ca_cert], ["key", "cert", "ca"]);
        assert!(parse("--no-dbs").unwrap().databases.is_empty());
        assert_eq!(parse("").unwrap().databases.len(), 1);
    }

    #[test]
    fn unsupported_options_are_errors() {
        for line in
            ["--sync-from=tcp:1.2.3.4", "--record", "--bogus", "--remote", "--config-file=x --remote=punix:a"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
