//! A minimal daemon: detaches, writes its pid file, and serves a control socket.

use runtime::daemon::{Capabilities, DaemonArgs, start};
use runtime::log::Module;
use runtime::signals::Signals;
use runtime::{Clock, Dirs, PollLoop, WaitSet, Warp};
use unixctl::{RequestId, Server};

static LOG: Module = Module::new("daemon");
const OFFERED: [&str; 8] =
    ["exit", "panic", "vlog/list", "vlog/set", "vlog/reopen", "coverage/show", "time/stop", "time/warp"];

fn main() {
    let argv: Vec<String> = std::env::args().collect();
    let dirs = Dirs::from_env(argv.first().map_or("daemon", String::as_str));
    if let Err(e) = run(argv.get(1..).unwrap_or_default(), &dirs) {
        eprintln!("{}: {e}", dirs.progname);
        std::process::exit(1);
    }
}

fn run(args: &[String], dirs: &Dirs) -> Result<(), String> {
    let clock = Clock::new();
    runtime::log::init(&dirs.progname, &clock);
    let args = DaemonArgs::parse(args, dirs)?;
    args.apply_log()?;
    runtime::log::log_panics();
    let mut daemon = start(&args, Capabilities::empty())?;
    runtime::log::start_writer();
    let text = |e: std::io::Error| runtime::error_text(&e);
    let signals = Signals::install().map_err(text)?;
    let events = PollLoop::new(clock.clone()).map_err(text)?;
    let path = dirs.in_run(&format!("{}.{}.ctl", dirs.progname, std::process::id()));
    let version = runtime::version_text(&dirs.progname);
    let mut server = Server::bind(&path, &version, &OFFERED)
        .map_err(|e| format!("{}: could not initialize control socket ({})", path.display(), text(e)))?;
    daemon.ready();
    runtime::info!(LOG, "up");
    let mut warp: Option<(RequestId, Warp)> = None;
    let mut exiting = false;
    while !exiting && signals.received().is_none() {
        for request in server.run() {
            let answer = match request.method.as_str() {
                "exit" => {
                    exiting = true;
                    Ok(String::new())
                }
                "panic" => {
                    runtime::ordered_panic::order(request.args.first().map_or("", String::as_str));
                    Ok(String::new())
                }
                "time/stop" => {
                    clock.stop();
                    Ok(String::new())
                }
                "time/warp" => match Warp::parse(&request.args) {
                    Ok(w) => {
                        warp = Some((request.id, w));
                        continue;
                    }
                    Err(e) => Err(e.to_string()),
                },
                "coverage/show" => Ok(runtime::coverage::show()),
                name => runtime::log::command(name, &request.args).unwrap_or(Err("no such command".into())),
            };
            server.reply(request.id, answer.map(Into::into));
        }
        if let Some((id, w)) = &mut warp
            && w.step(&clock)
        {
            server.reply(*id, Ok("warped\n".into()));
            warp = None;
        }
        runtime::ordered_panic::panic_if_ordered();
        let mut set = WaitSet::new();
        server.wait(&mut set);
        signals.wait(&mut set);
        if warp.is_some() || exiting {
            set.wake_now();
        }
        events.block(set);
    }
    runtime::info!(LOG, "down");
    runtime::log::flush();
    drop((server, daemon));
    signals.received().map_or(Ok(()), |signal| Signals::die(signal))
}
