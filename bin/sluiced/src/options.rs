//! The options of this daemon, in addition to the options that all daemons have.

use netdev::open::DummyLevel;
use ovsdb_server::Limits;
use runtime::Dirs;
use runtime::daemon::{Capabilities, DaemonArgs};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use switch::Options;
use transport::tls;

/// The parsed command line.
pub struct Arguments {
    /// The options of the switch.
    pub options: Options,
    /// Whether the daemon serves its own database.
    pub embedded: bool,
    /// Limits for clients of the daemon's own database.
    pub limits: Limits,
    /// The capabilities to keep with `--user`: those for devices of the kernel, and with `--hw-rawio-access`
    /// raw I/O, which DPDK needs.
    pub kept_capabilities: Capabilities,
}

impl Arguments {
    /// Parses the arguments that `DaemonArgs` has not parsed.
    pub fn parse(rest: &[String], dirs: &Dirs) -> Result<Arguments, String> {
        let socket = format!("unix:{}", dirs.in_run("db.sock").display());
        let is_sluice_name = dirs.progname != "ovs-vswitchd";
        let mut options = Options {
            rundir: dirs.run.clone(),
            progname: dirs.progname.clone(),
            writes_versions: is_sluice_name,
            seed: RandomState::new().build_hasher().finish(),
            ..Options::default()
        };
        let mut kept_capabilities =
            Capabilities::NET_ADMIN | Capabilities::NET_RAW | Capabilities::NET_BROADCAST;
        let mut remote = None;
        let mut limits = Limits::default();
        let mut args = rest.iter();
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (arg.as_str(), None),
            };
            match (name, value) {
                ("--enable-dummy", value) => options.dummy = dummy_level(value)?,
                ("--disable-system", None) => options.disable_system = true,
                ("--disable-system-route", None) => options.disable_system_route = true,
                ("--hw-rawio-access", None) => kept_capabilities |= Capabilities::SYS_RAWIO,
                ("--dummy-handlers", None) => options.dummy_handlers = true,
                ("--enable-panic", None) => options.panics = true,
                ("--dummy-numa", value) => {
                    let list = value.or_else(|| args.next().map(String::as_str));
                    let text = list.ok_or("option '--dummy-numa' requires an argument")?;
                    let bad = || format!("--dummy-numa: '{text}' is not a list of NUMA nodes");
                    options.topology = Some(switch::options::topology(text).ok_or_else(bad)?);
                }
                (name, value) if let Some(long) = tls::option(name) => {
                    let value = value.or_else(|| args.next().map(String::as_str));
                    let value = value.ok_or_else(|| format!("option '{name}' requires an argument"))?;
                    if !options.tls.set(long, value) {
                        eprintln!("{long} has no effect in this version of Sluice");
                    }
                }
                ("--ovsdb-limits", Some(value)) if is_sluice_name => {
                    limits = Limits::parse(value).map_err(|text| format!("{name}: {text}"))?;
                }
                ("--db", Some(value)) if is_sluice_name => remote = Some(value.to_owned()),
                (name, _) if name.starts_with('-') && name.len() > 1 => {
                    return Err(format!("unrecognized option '{name}'\nuse --help for help"));
                }
                _ if remote.is_none() => remote = Some(arg.clone()),
                _ => return Err("at most one non-option argument accepted; use --help for usage".to_owned()),
            }
        }
        let embedded = is_sluice_name && remote.is_none();
        options.database = remote.unwrap_or(socket);
        Ok(Arguments { options, embedded, limits, kept_capabilities })
    }
}

fn dummy_level(value: Option<&str>) -> Result<DummyLevel, String> {
    match value {
        None => Ok(DummyLevel::On),
        Some("override") => Ok(DummyLevel::OverrideAll),
        Some("system") => Ok(DummyLevel::OverrideSystem),
        Some(other) => Err(format!("--enable-dummy takes 'override' or 'system', not '{other}'")),
    }
}

/// `--version`
pub fn version(dirs: &Dirs) -> String {
    if dirs.progname.starts_with("ovs-") {
        runtime::version_text(&dirs.progname)
    } else {
        format!(
            "{} (Sluice) {}, as {}",
            dirs.progname,
            env!("CARGO_PKG_VERSION"),
            runtime::version_text("ovs-vswitchd")
        )
    }
}

/// `--help`
pub fn usage(dirs: &Dirs) -> String {
    let name = &dirs.progname;
    let database = if name == "ovs-vswitchd" {
        format!(
            "usage: {name} [OPTIONS] [DATABASE]\nwhere DATABASE is a socket on which ovsdb-server is listening\n      \
             (default: \"unix:{}\").\n",
            dirs.in_run("db.sock").display()
        )
    } else {
        format!(
            "usage: {name} [OPTIONS]\nServes its own database in {} on unix:{}, unless --db=DATABASE names another one\n\
             --ovsdb-limits=NAME=NUMBER[,...] limits the clients of its own database:\n\
             bytes and values of a message, operations of a transaction, sessions of a remote\n",
            dirs.db.join("conf.db").display(),
            dirs.in_run("db.sock").display()
        )
    };
    format!(
        "{name}: userspace virtual switch\n{database}{}\nOther options:\n  \
         --enable-dummy[=override|system]  dummy devices and virtual time, for tests\n  \
         --disable-system        no devices of the kernel\n  \
         --disable-system-route  tunnels do not use the system's routes\n  \
         --hw-rawio-access       with --user: keeps the right to raw access to devices (CAP_SYS_RAWIO)\n  \
         --dummy-numa=LIST       the NUMA node of each core, as 0,0,1,1, for tests\n  \
         --dummy-handlers        handler threads translate misses of dummy datapaths, too\n  \
         --enable-panic          offers the command 'panic THREAD', for tests\n  \
         -p, --private-key=FILE  file with private key\n  \
         -c, --certificate=FILE  file with certificate for private key\n  \
         -C, --ca-cert=FILE      file with peer CA certificate\n  \
         --bootstrap-ca-cert=FILE  file with peer CA certificate to read or create\n  \
         -h, --help              display this help message\n  \
         -V, --version           display version information\n  \
         --man                   print this as a manual page\n",
        DaemonArgs::usage(dirs)
    )
}
