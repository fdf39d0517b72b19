//! The daemon. Called as `sluiced`, it serves its own database unless `--db` names another one. Called as `ovs-vswitchd`, it
//! replaces that program. Called as `ovsdb-server`, it is only the database server.

mod embedded;
mod man;
mod options;

use control_commands::{Commands, explain_flow, trace};
use ctl::OfferedBy;
use observe::{MetricsServer, Question};
use options::Arguments;
use runtime::daemon::{Alias, DaemonArgs, remove_stale};
use runtime::program::{self, Program, Texts};
use runtime::spinning::Spinning;
use runtime::{Dirs, Module, WaitSet};
use std::process::ExitCode;
use switch::{Options, Switch};
use unixctl::{Reply, Server};

static LOG: Module = Module::new("vswitchd");

/// The allocator is mimalloc, because millions of megaflows and rules are allocated by some threads and freed by others.
#[global_allocator]
static HEAP: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let argv: Vec<String> = std::env::args_os().map(|a| a.to_string_lossy().into_owned()).collect();
    if let Some(code) = switch::dpdk_start::run_if_child(&argv) {
        return code;
    }
    let dirs = Dirs::from_env(argv.first().map_or("sluiced", String::as_str));
    if dirs.progname == "ovsdb-server" {
        return ovsdb_server::program::main(&argv, &dirs);
    }
    if argv.get(1).is_some_and(|arg| arg == "--man") {
        print!("{}", man::page(&options::usage(&Dirs::defaults("sluiced"))));
        return ExitCode::SUCCESS;
    }
    program::end(&dirs, run(&argv, &dirs))
}

fn run(argv: &[String], dirs: &Dirs) -> Result<ExitCode, String> {
    let texts = Texts { usage: options::usage, version: options::version };
    let Some(mut program) = program::start(argv, dirs, texts, |rest| {
        let arguments = Arguments::parse(rest, dirs)?;
        let kept_capabilities = arguments.kept_capabilities;
        Ok((arguments, kept_capabilities))
    })?
    else {
        return Ok(ExitCode::SUCCESS);
    };
    if !program.options.options.dummy_mode() {
        runtime::log::start_writer();
    }
    // The database is stopped after the switch, so that the last writes of the switch are stored.
    let database = match program.options.embedded {
        true => Some(embedded::start(dirs, program.options.limits)?),
        false => None,
    };
    let options = std::mem::take(&mut program.options.options);
    let control = bind_control_socket(&program.args, dirs, &options)?;
    let switch = Switch::new(options, program.clock.clone(), program.poll.waker())?;
    let alias = link_compat_name(dirs, &program, &control);
    let observe = MetricsServer::start(dirs, program.poll.waker())
        .map_err(|e| format!("metrics: {}", runtime::error_text(&e)))?;
    let code = serve(switch, control, observe, &mut program);
    drop(alias);
    if let Some(database) = database {
        database.stop();
    }
    Ok(code)
}

/// Binds the control socket: the path of `--unixctl`, or the path that `ovs-appctl` expects.
fn bind_control_socket(args: &DaemonArgs, dirs: &Dirs, options: &Options) -> Result<Server, String> {
    let mut by = OfferedBy::SWITCH;
    by.set(OfferedBy::SWITCH_WITH_DUMMIES, options.dummy_mode());
    by.set(OfferedBy::SWITCH_WITH_PANIC, options.panics);
    let names: Vec<&str> = ctl::offered_by(by).collect();
    let version = options::version(dirs);
    let path = match args.unixctl.as_deref() {
        Some("none") => return Ok(Server::without_socket(&version, &names)),
        Some(path) => dirs.in_run(path),
        None => dirs.in_run(&format!("{}.{}.ctl", dirs.progname, std::process::id())),
    };
    Server::bind(&path, &version, &names).map_err(|e| {
        format!("could not listen for control connections on {}: {}", path.display(), runtime::error_text(&e))
    })
}

/// Makes this daemon reachable under the name `ovs-vswitchd`, for `ovs-appctl` without `-t` and for scripts.
/// Returns `None` if this daemon has that name or no pid file, or if the links cannot be made (for example because an `ovs-vswitchd`
/// runs in the same directory).
fn link_compat_name(dirs: &Dirs, program: &Program<Arguments>, control: &Server) -> Option<Alias> {
    const COMPAT_NAME: &str = "ovs-vswitchd";
    if dirs.progname == COMPAT_NAME {
        return None;
    }
    remove_stale(&dirs.run, &dirs.progname, COMPAT_NAME, control.path());
    let pidfile = program.daemon.pidfile()?;
    Alias::take(&dirs.run, COMPAT_NAME, pidfile.path(), control.path())
        .inspect_err(|why| {
            let name = &dirs.progname;
            runtime::warn!(LOG, "ovs-appctl needs \"-t {name}\" to find this switch: {why}");
        })
        .ok()
}

fn serve(
    mut switch: Switch,
    mut control: Server,
    mut observe: MetricsServer,
    program: &mut Program<Arguments>,
) -> ExitCode {
    let mut announced = false;
    let mut commands = Commands::default();
    let mut spinning = Spinning::default();
    loop {
        let turn = switch.run();
        if turn.dpdk_came_up {
            control.offer(ctl::offered_by(OfferedBy::SWITCH_WITH_DPDK));
        }
        commands.run(&mut switch, &mut control);
        observe.run(&mut switch);
        // At most one question per turn, because a trace may take milliseconds.
        if let Some(pending) = observe.next_question() {
            let result = match &pending.question {
                Question::Trace(args) => trace(&mut switch, args).map(ovsdb::Json::from),
                Question::Why { port, flow } => explain_flow(&mut switch, port.as_deref(), flow),
            };
            pending.answer(result);
            program.poll.waker().wake();
        }
        switch.end_turn();
        if !announced && switch.is_up() {
            announced = true;
            program.daemon.ready();
        }
        if let Some(cleanup) = commands.exiting() {
            switch.close(cleanup);
            for id in commands.take_exits() {
                control.reply(id, Ok(Reply::Text(String::new())));
            }
            return ExitCode::SUCCESS;
        }
        if let Some(signal) = program.signals.received() {
            runtime::info!(LOG, "ending on signal {signal}");
            switch.close(false);
            return ExitCode::SUCCESS;
        }
        let sockets = switch.owned_sockets();
        let mut set = WaitSet::new();
        sockets.iter().for_each(|sockets| sockets.wait(&mut set, program.clock.now()));
        switch.wait(&mut set);
        commands.wait(&mut set);
        control.wait(&mut set);
        observe.wait(&mut set);
        program.signals.wait(&mut set);
        if turn.barrier_answered {
            spinning.prepare(&mut set);
        }
        let ready = program.poll.block(set);
        spinning.record_sleep(&ready);
        control.record_sleep(&ready);
        sockets.into_iter().for_each(|sockets| sockets.record_sleep(&ready));
    }
}
