//! The daemon. Called `sluiced` it serves its own database unless told to follow another; called `ovs-vswitchd` it takes
//! the place of that program, and called `ovsdb-server` it is the database server alone.

mod embedded;
mod options;

use options::Arguments;
use runtime::daemon::{self, DaemonArgs};
use runtime::signals::Signals;
use runtime::{Clock, Dirs, Module, PollLoop, WaitSet};
use std::process::ExitCode;
use switch::Switch;
use switch::commands::{all_offered, take_exits};
use unixctl::{Reply, Server};

static LOG: Module = Module::new("vswitchd");

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    if let Some(code) = switch::dpdk_start::run_if_child(&argv) {
        return code;
    }
    let dirs = Dirs::from_env(argv.first().map_or("sluiced", String::as_str));
    if dirs.progname == "ovsdb-server" {
        return ovsdb_server::program::main(&argv, &dirs);
    }
    match run(&argv, &dirs) {
        Ok(code) => code,
        Err(text) => {
            eprintln!("{}: {text}", dirs.progname);
            ExitCode::FAILURE
        }
    }
}

fn run(argv: &[String], dirs: &Dirs) -> Result<ExitCode, String> {
    let daemon_args = DaemonArgs::parse(argv.get(1..).unwrap_or_default(), dirs)?;
    if daemon_args.help {
        print!("{}", options::usage(dirs));
        return Ok(ExitCode::SUCCESS);
    }
    if daemon_args.version {
        println!("{}", options::version(dirs));
        return Ok(ExitCode::SUCCESS);
    }
    let arguments = Arguments::parse(&daemon_args.rest, dirs)?;
    let clock = Clock::new();
    runtime::log::init(&dirs.progname, &clock);
    daemon_args.apply_log()?;
    let mut daemon = daemon::start(&daemon_args)?;
    let signals = Signals::install().map_err(|e| runtime::error_text(&e))?;
    // The database outlives the switch: what it writes last is stored.
    let database = match arguments.embedded {
        true => Some(embedded::start(dirs)?),
        false => None,
    };
    let control = control_socket(&daemon_args, dirs, arguments.options.dummy_mode())?;
    let poll = PollLoop::new(clock.clone()).map_err(|e| runtime::error_text(&e))?;
    let switch = Switch::new(arguments.options, clock, poll.waker())?;
    let code = serve(switch, control, &poll, &signals, &mut daemon);
    if let Some(database) = database {
        database.stop();
    }
    Ok(code)
}

/// `--unixctl`, or the place where `ovs-appctl` looks.
fn control_socket(args: &DaemonArgs, dirs: &Dirs, dummies: bool) -> Result<Server, String> {
    let names = all_offered(dummies);
    let version = options::version(dirs);
    let path = match args.unixctl.as_deref() {
        Some("none") => return Ok(Server::none(&version, &names)),
        Some(path) => dirs.in_run(path),
        None => dirs.in_run(&format!("{}.{}.ctl", dirs.progname, std::process::id())),
    };
    Server::bind(&path, &version, &names).map_err(|e| {
        format!("could not listen for control connections on {}: {}", path.display(), runtime::error_text(&e))
    })
}

fn serve(
    mut switch: Switch,
    mut control: Server,
    poll: &PollLoop,
    signals: &Signals,
    daemon: &mut daemon::Daemon,
) -> ExitCode {
    let mut announced = false;
    loop {
        switch.run(&mut control);
        if !announced && switch.is_up() {
            announced = true;
            daemon.ready();
        }
        if let Some(cleanup) = switch.exiting {
            switch.close(cleanup);
            for id in take_exits(&mut switch) {
                control.reply(id, Ok(Reply::Text(String::new())));
            }
            return ExitCode::SUCCESS;
        }
        if let Some(signal) = signals.received() {
            runtime::info!(LOG, "ending on signal {signal}");
            switch.close(false);
            return ExitCode::SUCCESS;
        }
        let mut set = WaitSet::new();
        switch.wait(&mut set);
        control.wait(&mut set);
        signals.wait(&mut set);
        poll.block(set);
    }
}
