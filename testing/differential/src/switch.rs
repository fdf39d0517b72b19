//! A running switch: an `ovs-vswitchd` (the stock one or Sluice's) with dummy devices, and a stock ovsdb-server, in a separate
//! run directory. Clients are those of the stock switch, except that appctl commands use connections that stay open.
//!
//! The kernel ends the processes when this program ends for any reason. The next run removes directories that are left.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::actions::METER;
use crate::tunnels;
use serde_json::de::IoRead;
use serde_json::{Deserializer, StreamDeserializer, Value, json};

/// The ports of br0 on which packets are received.
pub const PORTS: [u16; 6] = [1, 2, 3, 4, 5, 6];

/// All dummy ports: those of br0, those of br1, and that of the underlay of tunnels.
pub const ALL_PORTS: [u16; 9] = [1, 2, 3, 4, 5, 6, 7, 8, tunnels::UNDERLAY];

/// The ports of the two bridges, and their options. br0 gets the random table, br1 learns addresses. A pair of patch ports
/// connects them.
const SETUP: &[(&str, &str)] = &[
    ("br0", "p1"),
    ("br0", "p2 tag=10"),
    ("br0", "p3 trunks=10,20"),
    ("br0", "p4 tag=10 trunks=20 vlan_mode=native-tagged"),
    ("br0", "p5 tag=20 vlan_mode=native-untagged"),
    ("br0", "p6 tag=20"),
    ("br1", "p7"),
    ("br1", "p8 tag=10"),
];

/// Disables log messages that only depend on how busy the machine is.
const QUIET: [&str; 2] = ["-vtimeval:off", "-vcoverage:off"];

/// Time limit for a reply. It is long, because programs run slowly on a busy machine.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(60);

/// The programs of the stock switch.
#[derive(Debug, Clone)]
pub struct Stock {
    /// A built source tree; `None`: the installed programs.
    pub tree: Option<PathBuf>,
}

impl Stock {
    fn program(&self, name: &str) -> PathBuf {
        let folder = match name {
            "ovs-vswitchd" => "vswitchd",
            "ovsdb-server" | "ovsdb-tool" => "ovsdb",
            _ => "utilities",
        };
        let installed = || {
            [Path::new("/usr/sbin"), Path::new("/usr/bin")]
                .map(|d| d.join(name))
                .into_iter()
                .find(|p| p.exists())
        };
        match &self.tree {
            Some(tree) => tree.join(folder).join(name),
            None => installed().unwrap_or_else(|| name.into()),
        }
    }

    fn schema(&self) -> PathBuf {
        match &self.tree {
            Some(tree) => tree.join("vswitchd/vswitch.ovsschema"),
            None => "/usr/share/openvswitch/vswitch.ovsschema".into(),
        }
    }
}

/// The replies of a connection, in the order of the requests.
type Replies = StreamDeserializer<'static, IoRead<BufReader<UnixStream>>, Value>;

/// A running switch; dropping it ends its processes and removes its directory.
pub struct Switch {
    /// "stock" or "ours".
    pub name: &'static str,
    dir: PathBuf,
    stock: Stock,
    processes: Vec<Child>,
    appctl: UnixStream,
    replies: Replies,
    /// Another connection, for a reply that takes long. The switch reads it first.
    slow_appctl: UnixStream,
    /// For each of `ALL_PORTS`: the offset in its pcap file up to which `outputs` has read it, in bytes.
    read_until: Vec<u64>,
    /// Whether a command got no reply within the time limit.
    timed_out: bool,
}

/// A running client.
#[derive(Debug)]
pub struct Running<'a> {
    args: &'a [&'a str],
    input: &'a str,
    child: Child,
}

impl Switch {
    /// Starts a switch with this daemon (by default the stock one), and adds the bridges and optionally the tunnels.
    pub fn start(
        name: &'static str,
        stock: &Stock,
        daemon: Option<&Path>,
        tunnels: bool,
    ) -> io::Result<Switch> {
        remove_abandoned()?;
        static STARTED: AtomicU64 = AtomicU64::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("differential-{}-{number}-{name}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let mut processes = Vec::new();
        let command = |program: &Path| {
            let mut c = Command::new("setpriv");
            c.args(["--pdeathsig", "KILL"]).arg(program);
            for variable in ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"] {
                c.env(variable, &dir);
            }
            c.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir(&dir);
            c
        };
        command(&stock.program("ovsdb-tool"))
            .arg("create")
            .arg(dir.join("conf.db"))
            .arg(stock.schema())
            .status()?;
        let socket = dir.join("db.sock");
        processes.push(
            command(&stock.program("ovsdb-server"))
                .arg(dir.join("conf.db"))
                .arg(format!("--remote=punix:{}", socket.display()))
                .arg("--unixctl=db.ctl")
                .spawn()?,
        );
        wait(&socket)?;
        let daemon = daemon.map_or_else(|| stock.program("ovs-vswitchd"), Path::to_path_buf);
        let ctl = dir.join("switch.ctl");
        processes.push(
            command(&daemon)
                .args([
                    // With `override`, the stock switch would also replace tunnels by dummies.
                    if tunnels { "--enable-dummy" } else { "--enable-dummy=override" },
                    "--disable-system",
                    "--log-file=switch.log",
                    "-vsyslog:off",
                    "-vconsole:off",
                    "-vfile:warn",
                ])
                .arg(format!("--unixctl={}", ctl.display()))
                .arg(format!("unix:{}", socket.display()))
                .spawn()?,
        );
        wait(&ctl)?;
        let (slow_appctl, appctl) = (UnixStream::connect(&ctl)?, UnixStream::connect(&ctl)?);
        appctl.set_read_timeout(Some(REPLY_TIMEOUT))?;
        slow_appctl.set_read_timeout(Some(Duration::from_millis(1)))?;
        let replies = replies(appctl.try_clone()?);
        let read_until = vec![24; ALL_PORTS.len()];
        let mut switch = Switch {
            name,
            dir,
            stock: stock.clone(),
            processes,
            appctl,
            replies,
            slow_appctl,
            read_until,
            timed_out: false,
        };
        switch.make_bridges()?;
        if tunnels {
            switch.make_tunnels()?;
        }
        Ok(switch)
    }

    fn make_tunnels(&mut self) -> io::Result<()> {
        let pcap = self.dir.join(format!("p{}.pcap", tunnels::UNDERLAY));
        for command in tunnels::configuration(&pcap.to_string_lossy()) {
            self.vsctl(&command)?;
        }
        for (command, args) in tunnels::underlay() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            self.ctl(command, &args)?;
        }
        let bridge = format!("unix:{}/{}.mgmt", self.dir.display(), tunnels::BRIDGE);
        let (true, _) = self.ofctl_result(self.ofctl(&["add-flows", &bridge, "-"], tunnels::FLOWS)?)? else {
            return Err(io::Error::other(format!("{}: no flows for the underlay", self.name)));
        };
        Ok(())
    }

    fn make_bridges(&mut self) -> io::Result<()> {
        // The stock switch replies to `revalidator/wait` after its next revalidation round, so rounds should be frequent. But
        // if a round took longer than half of the interval on a busy machine, it would delete megaflows instead of
        // revalidating them.
        self.vsctl(
            "--no-wait init -- set open . other_config:max-revalidator=100 other_config:min-revalidate-pps=0",
        )?;
        for (n, bridge) in ["br0", "br1"].iter().enumerate() {
            let mode = if n == 0 { "secure" } else { "standalone" };
            self.vsctl(&format!(
                "add-br {bridge} -- set bridge {bridge} datapath_type=dummy fail-mode={mode} \
                 protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15 \
                 other-config:datapath-id={:016x} other-config:hwaddr=aa:55:aa:55:00:0{n}",
                n + 1
            ))?;
        }
        for (bridge, words) in SETUP {
            let port = words.split(' ').next().unwrap_or_default();
            let pcap = self.dir.join(format!("{port}.pcap"));
            self.vsctl(&format!(
                "add-port {bridge} {words} -- set interface {port} type=dummy ofport_request={} options:tx_pcap={}",
                &port[1..],
                pcap.display()
            ))?;
        }
        let bridge = format!("unix:{}/br0.mgmt", self.dir.display());
        let band = format!("meter={METER},pktps,bands=type=drop,rate=1000000");
        let options = "{class=0xffff,type=0,len=4}->tun_metadata0,{class=0xffff,type=1,len=8}->tun_metadata1";
        for args in [["add-meter", &bridge, &band], ["add-tlv-map", &bridge, options]] {
            let (true, _) = self.ofctl_result(self.ofctl(&args, "")?)? else {
                return Err(io::Error::other(format!("{}: {args:?} fails", self.name)));
            };
        }
        for (here, there) in [(0, 1), (1, 0)] {
            self.vsctl(&format!(
                "add-port br{here} patch{here} -- set interface patch{here} type=patch ofport_request=10 options:peer=patch{there}"
            ))?;
        }
        Ok(())
    }

    /// Starts a client.
    fn start_client(&self, program: &str, args: &[&str], input: &str) -> io::Result<Child> {
        let mut child = Command::new(self.stock.program(program))
            .args(args)
            .current_dir(&self.dir)
            .env("OVS_RUNDIR", &self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        Ok(child)
    }

    /// Waits for a client; returns whether it succeeded, and its output.
    fn end_client(&self, child: Child) -> io::Result<(bool, String)> {
        let output = child.wait_with_output()?;
        let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        Ok((output.status.success(), text.replace(&*self.dir.to_string_lossy(), "<rundir>")))
    }

    fn vsctl(&self, args: &str) -> io::Result<()> {
        let db = format!("--db=unix:{}/db.sock", self.dir.display());
        let mut words = vec!["--timeout=60", &db];
        words.extend(args.split_whitespace());
        match self.end_client(self.start_client("ovs-vsctl", &words, "")?)? {
            (true, _) => Ok(()),
            (false, text) => Err(io::Error::other(format!("{}: ovs-vsctl {args}: {text}", self.name))),
        }
    }

    /// Starts `ovs-ofctl` for OpenFlow 1.5.
    pub fn ofctl<'a>(&self, args: &'a [&'a str], input: &'a str) -> io::Result<Running<'a>> {
        // Without `--no-names`, each client would first request the names of 254 tables, which takes longer than its own
        // request.
        let words = [&["-OOpenFlow15", "--no-names", "--timeout=60", QUIET[0], QUIET[1]][..], args].concat();
        Ok(Running { args, input, child: self.start_client("ovs-ofctl", &words, input)? })
    }

    /// Waits for a client. Returns whether it succeeded, and its output. If the switch closes the client's connection, which
    /// happens on a busy machine, it starts the client again.
    pub fn ofctl_result(&self, mut running: Running<'_>) -> io::Result<(bool, String)> {
        for _ in 0..5 {
            let answer = self.end_client(running.child)?;
            if !answer.1.contains("(End of file)") && !answer.1.contains("(Broken pipe)") {
                return Ok(answer);
            }
            running = self.ofctl(running.args, running.input)?;
        }
        Err(io::Error::other(format!("{}: the switch closes each connection of ovs-ofctl", self.name)))
    }

    /// Sends an appctl command.
    pub fn request(&mut self, command: &str, args: &[&str]) -> io::Result<()> {
        request(&mut self.appctl, command, args)
    }

    /// Waits for the next reply, and returns its text or that of its error.
    pub fn reply(&mut self) -> io::Result<String> {
        text(self.replies.next(), self.name).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => {
                self.timed_out = true;
                io::Error::other(format!("{}: no reply within {REPLY_TIMEOUT:?}", self.name))
            }
            _ => e,
        })
    }

    /// Returns whether a command got no reply within the time limit.
    pub fn has_timed_out(&self) -> bool {
        self.timed_out
    }

    /// Executes an appctl command and returns the reply.
    pub fn ctl(&mut self, command: &str, args: &[&str]) -> io::Result<String> {
        self.request(command, args)?;
        self.reply()
    }

    /// Sends a command whose reply takes long. It uses another connection.
    pub fn request_slow(&mut self, command: &str, args: &[&str]) -> io::Result<()> {
        request(&mut self.slow_appctl, command, args)
    }

    /// Returns whether the reply to `request_slow` has arrived.
    pub fn has_slow_reply(&mut self) -> io::Result<bool> {
        match text(replies(self.slow_appctl.try_clone()?).next(), self.name) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            answer => answer.map(|_| true),
        }
    }

    /// Returns the frames sent since the last call as lines `PORT HEX`; those of each port are in the order in which they were
    /// sent.
    pub fn outputs(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for (n, port) in ALL_PORTS.iter().enumerate() {
            let Ok(mut file) = File::open(self.dir.join(format!("p{port}.pcap"))) else { continue };
            file.seek(SeekFrom::Start(self.read_until[n]))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            let mut at = 0;
            while let Some(head) = bytes.get(at + 8..at + 12) {
                let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let Some(frame) = bytes.get(at + 16..at + 16 + length) else { break };
                let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
                lines.push(format!("p{port} {hex}"));
                at += 16 + length;
            }
            self.read_until[n] += at as u64;
        }
        Ok(lines)
    }

    /// Returns whether all processes are running.
    fn is_running(&mut self) -> bool {
        self.processes.iter_mut().all(|p| matches!(p.try_wait(), Ok(None)))
    }

    /// Returns the daemon's log if a process has ended. If a reply is missing (`is_reply_missing`), it waits some time for the end of a
    /// process, because a process stops replying before it ends.
    pub fn ended(&mut self, is_reply_missing: bool) -> Option<String> {
        let deadline =
            Instant::now() + if is_reply_missing { Duration::from_secs(5) } else { Duration::ZERO };
        while self.is_running() {
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(fs::read_to_string(self.dir.join("switch.log")).unwrap_or_default())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // `kill` fails if the process has ended.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn request(stream: &mut UnixStream, command: &str, args: &[&str]) -> io::Result<()> {
    let request = json!({"id": 0, "method": command, "params": args});
    stream.write_all(request.to_string().as_bytes())
}

fn replies(stream: UnixStream) -> Replies {
    Deserializer::from_reader(BufReader::new(stream)).into_iter()
}

fn text(reply: Option<serde_json::Result<Value>>, name: &str) -> io::Result<String> {
    let reply = reply.ok_or_else(|| io::Error::other(format!("{name}: no reply")))??;
    Ok(reply["result"].as_str().or(reply["error"].as_str()).unwrap_or_default().to_owned())
}

/// Removes the directories of earlier runs whose process no longer exists.
fn remove_abandoned() -> io::Result<()> {
    for entry in fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix("differential-")?.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            match fs::remove_dir_all(entry.path()) {
                // Another process has removed it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

fn wait(path: &Path) -> io::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while UnixStream::connect(path).is_err() {
        if Instant::now() > deadline {
            return Err(io::Error::other(format!("{} does not appear", path.display())));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
