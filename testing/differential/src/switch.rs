//! One switch under test: a private stock ovsdb-server and an `ovs-vswitchd` (the stock one or ours) with dummy devices, in a run
//! directory of its own. Clients are the stock ones; appctl's commands go over one connection that stays open.

use std::fs;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The ports of br0 that packets enter by.
pub const PORTS: [u16; 6] = [1, 2, 3, 4, 5, 6];

/// Every dummy port: those of br0, then those of br1.
pub const ALL_PORTS: [u16; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// What the two bridges are: br0 gets the random table, br1 learns; one pair of patch ports joins them.
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

/// What a client says of a busy machine is no answer.
const QUIET: [&str; 2] = ["-vtimeval:off", "-vcoverage:off"];

/// Where the programs of the stock switch are.
#[derive(Debug, Clone)]
pub struct Stock {
    /// A built source tree; without one the programs of the path.
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

/// A running switch; its processes end and its directory goes when it is dropped.
#[derive(Debug)]
pub struct Switch {
    /// "stock" or "ours".
    pub name: &'static str,
    dir: PathBuf,
    stock: Stock,
    processes: Vec<Child>,
    appctl: UnixStream,
    seen: Vec<u64>,
}

impl Switch {
    /// Starts a switch of `daemon` (the stock one without) and makes the bridges.
    pub fn start(name: &'static str, stock: &Stock, daemon: Option<&Path>) -> io::Result<Switch> {
        let dir = std::env::temp_dir().join(format!("differential-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir)?;
        let mut processes = Vec::new();
        let command = |program: &Path| {
            let mut c = Command::new(program);
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
                    "--enable-dummy=override",
                    "--disable-system",
                    "--log-file=switch.log",
                    "-vdbg",
                    "-vconsole:off",
                    "-vfile:warn",
                ])
                .arg(format!("--unixctl={}", ctl.display()))
                .arg(format!("unix:{}", socket.display()))
                .spawn()?,
        );
        wait(&ctl)?;
        let appctl = UnixStream::connect(&ctl)?;
        appctl.set_read_timeout(Some(Duration::from_secs(20)))?;
        let mut switch =
            Switch { name, dir, stock: stock.clone(), processes, appctl, seen: vec![24; ALL_PORTS.len()] };
        switch.make_bridges()?;
        Ok(switch)
    }

    fn make_bridges(&mut self) -> io::Result<()> {
        // The stock switch answers `revalidator/wait` after its next sweep: let that be soon.
        self.vsctl("--no-wait init -- set open . other_config:max-revalidator=100")?;
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
        for (here, there) in [(0, 1), (1, 0)] {
            self.vsctl(&format!(
                "add-port br{here} patch{here} -- set interface patch{here} type=patch ofport_request=10 options:peer=patch{there}"
            ))?;
        }
        Ok(())
    }

    /// Runs a client; again where it was turned away, as a client is that a busy machine makes late.
    fn client(&self, program: &str, args: &[&str], input: Option<&str>) -> io::Result<(bool, String)> {
        for _ in 0..5 {
            let answer = self.client_once(program, args, input)?;
            if !answer.1.contains("(End of file)") && !answer.1.contains("(Broken pipe)") {
                return Ok(answer);
            }
        }
        Err(io::Error::other(format!("{}: {program} is turned away each time", self.name)))
    }

    fn client_once(&self, program: &str, args: &[&str], input: Option<&str>) -> io::Result<(bool, String)> {
        let mut child = Command::new(self.stock.program(program))
            .args(args)
            .current_dir(&self.dir)
            .env("OVS_RUNDIR", &self.dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(text.as_bytes())?;
        }
        let output = child.wait_with_output()?;
        let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        Ok((output.status.success(), text.replace(&*self.dir.to_string_lossy(), "<rundir>")))
    }

    fn vsctl(&self, args: &str) -> io::Result<()> {
        let db = format!("--db=unix:{}/db.sock", self.dir.display());
        let mut words = vec!["--timeout=60", &db];
        words.extend(args.split_whitespace());
        match self.client("ovs-vsctl", &words, None)? {
            (true, _) => Ok(()),
            (false, text) => Err(io::Error::other(format!("{}: ovs-vsctl {args}: {text}", self.name))),
        }
    }

    /// Gives br0 the flows of a bundle; the text is what the client says, empty when all is well.
    pub fn bundle(&self, text: &str) -> io::Result<(bool, String)> {
        self.client(
            "ovs-ofctl",
            &["-OOpenFlow15", "--timeout=60", QUIET[0], QUIET[1], "bundle", "br0", "-"],
            Some(text),
        )
    }

    /// The flows of br0 with their counters.
    pub fn dump_flows(&self) -> io::Result<String> {
        Ok(self
            .client(
                "ovs-ofctl",
                &["-OOpenFlow15", "--timeout=60", QUIET[0], QUIET[1], "dump-flows", "br0"],
                None,
            )?
            .1)
    }

    /// An appctl command; the reply's text, or the error's.
    pub fn ctl(&mut self, command: &str, args: &[&str]) -> io::Result<String> {
        let request = json!({"id": 0, "method": command, "params": args});
        self.appctl.write_all(request.to_string().as_bytes())?;
        let mut replies =
            serde_json::Deserializer::from_reader(BufReader::new(&self.appctl)).into_iter::<Value>();
        let reply = replies
            .next()
            .ok_or_else(|| io::Error::other(format!("{}: no reply to {command}", self.name)))??;
        let text = reply["result"].as_str().or(reply["error"].as_str()).unwrap_or_default();
        Ok(text.to_owned())
    }

    /// How many lookups the datapath has made.
    pub fn lookups(&mut self) -> io::Result<u64> {
        let text = self.ctl("dpctl/show", &[])?;
        let line = text.lines().find(|l| l.trim_start().starts_with("lookups:")).unwrap_or_default();
        let count = |word: &str| {
            line.split(word).nth(1).and_then(|r| r.split(' ').next()).and_then(|n| n.parse::<u64>().ok())
        };
        Ok(count("hit:").unwrap_or(0) + count("missed:").unwrap_or(0))
    }

    /// What left by the ports since the last call, as `PORT HEX` lines in each port's order.
    pub fn outputs(&mut self) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        for (n, port) in ALL_PORTS.iter().enumerate() {
            let bytes = fs::read(self.dir.join(format!("p{port}.pcap"))).unwrap_or_default();
            let mut at = self.seen[n] as usize;
            while let Some(head) = bytes.get(at + 8..at + 12) {
                let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
                let Some(frame) = bytes.get(at + 16..at + 16 + length) else { break };
                let hex: String = frame.iter().map(|b| format!("{b:02x}")).collect();
                lines.push(format!("p{port} {hex}"));
                at += 16 + length;
            }
            self.seen[n] = at as u64;
        }
        Ok(lines)
    }

    /// Whether every process still runs.
    pub fn alive(&mut self) -> bool {
        self.processes.iter_mut().all(|p| matches!(p.try_wait(), Ok(None)))
    }

    /// What the daemon logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("switch.log")).unwrap_or_default()
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().rev() {
            // A child that has ended already needs nothing more than to be waited for.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.dir);
    }
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
