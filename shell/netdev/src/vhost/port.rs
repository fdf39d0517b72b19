//! A vhost-user port as a `Netdev`.

use super::back_end::{BackEnd, Source, uses_library};
use super::counters::PairCounters;
use super::path;
use super::queues::{PortShared, VhostRx, VhostTx};
use super::report;
use crate::charged::Accounts;
use crate::device::{Facts, Netdev, QosPlace, RxHandle};
use crate::error::NetdevError;
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use crate::stats::Stats;
use dpdk::mempool::{Mempool, MempoolRequest};
use dpdk::settings::GuestSettings;
use packet::queue::TxQueue;
use settings::options::{TX_RETRIES_MAX, VHOST_SERVER_PATH};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Once};
use units::{NumaId, QueueId};
use vhost::Notify;
use vhost::log::{self, Level};
use vhost::path::{Role, SocketError};

const MTU: u32 = 1500;
/// Valid MTUs, as of a `dpdk` port.
const MTUS: std::ops::RangeInclusive<u32> = 68..=9702;
/// Number of descriptors of each queue, from which the size of a pool of DPDK is computed.
const DESCRIPTORS: u32 = 2048;

/// The configuration that only a restart changes: the number of queue pairs, and the pool for their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RestartConfig {
    pairs: usize,
    numa: u32,
    mtu: u32,
}

/// A vhost-user port.
pub struct Vhost {
    name: String,
    role: Role,
    /// Called when a guest connects, disconnects, or enables or disables rings.
    notify: Notify,
    /// Guests are offered an IOMMU.
    iommu: bool,
    /// The socket; `None`: no path is configured.
    socket: Option<BackEnd>,
    shared: Arc<PortShared>,
    pool: Option<Mempool>,
    /// The configuration since the last restart. Node and MTU are those of `pool`.
    config: RestartConfig,
    /// The configuration of the last restart, if it failed. It is not tried again before the guest or the settings change.
    failed_config: Option<RestartConfig>,
    queues_taken: bool,
    pool_accounts: Accounts,
    /// Charging of receive buffers was configured after the queues were taken, so a restart is needed.
    accounts_changed: bool,
    next_sender: AtomicUsize,
    /// Number of changes of the port itself; [`change_seq`](Netdev::change_seq) adds those of the socket.
    seq: u64,
}

impl Vhost {
    /// Opens port `name`. The socket of a client port is opened later, by its options.
    pub fn open(
        name: &str,
        kind: &str,
        notify: &Notify,
        guests: &GuestSettings,
    ) -> Result<Vhost, NetdevError> {
        let role = if kind == "dpdkvhostuserclient" { Role::Client } else { Role::Server };
        let socket = match role {
            Role::Client => None,
            Role::Server => Some(listen(name, &guests.sock_dir, notify.clone())?),
        };
        let shared = PortShared {
            mtu: AtomicU32::new(MTU),
            retries_max: AtomicU32::new(retries(&BTreeMap::new())),
            up: AtomicBool::new(true),
            rx_counters: PairCounters::default(),
            tx_counters: PairCounters::default(),
        };
        Ok(Vhost {
            name: name.to_owned(),
            role,
            notify: notify.clone(),
            iommu: guests.iommu,
            socket,
            shared: Arc::new(shared),
            pool: None,
            config: RestartConfig { pairs: 1, numa: 0, mtu: MTU },
            failed_config: None,
            queues_taken: false,
            pool_accounts: Accounts::default(),
            accounts_changed: false,
            next_sender: AtomicUsize::new(0),
            seq: 1,
        })
    }

    fn mtu(&self) -> u32 {
        self.shared.mtu.load(Ordering::Relaxed)
    }

    /// Whether the port has all that a guest needs: with DPDK's library, also a pool for its packets.
    fn is_ready_for_guest(&self) -> bool {
        self.pool.is_some() || !self.socket.as_ref().is_some_and(BackEnd::needs_pool)
    }

    fn connected(&self) -> bool {
        self.socket.as_ref().is_some_and(BackEnd::is_connected)
    }

    /// The configuration that the guest and the settings require. The MTU matters only for a pool: without a pool, a new MTU needs no restart,
    /// which would lose packets that are parked or being sent to the guest.
    fn wanted_config(&self) -> RestartConfig {
        let socket = self.socket.as_ref();
        let needs_pool = socket.is_some_and(BackEnd::needs_pool);
        RestartConfig {
            pairs: socket.map_or(1, |s| s.state().pairs()),
            numa: socket.and_then(BackEnd::numa).unwrap_or(self.config.numa),
            mtu: if needs_pool { self.mtu() } else { self.config.mtu },
        }
    }

    /// Connects to the guest at another path; `None`: to no guest.
    fn set_path(&mut self, wanted: Option<&str>) -> Result<(), NetdevError> {
        if self.socket.as_ref().map(BackEnd::path) == wanted {
            return Ok(());
        }
        self.seq += self.socket.take().map_or(0, |s| s.state().seq()) + 1;
        // Queues that are in use belong to the old socket: `set_options` makes the caller replace them.
        self.pool = None;
        self.failed_config = None;
        let Some(wanted) = wanted else { return Ok(()) };
        path::check_client_path(wanted)?;
        let failed = |e: SocketError| {
            let what = format!("vhost-user device setup failure for device {wanted}: {e}");
            NetdevError::plain(&what)
        };
        let socket = BackEnd::open(wanted, Role::Client, self.iommu, self.notify.clone());
        self.socket = Some(socket.map_err(failed)?);
        let message = format!(
            "vHost User device '{}' created in 'client' mode, using client socket '{wanted}'",
            self.name
        );
        log::say(Level::Info, &message);
        if let Some(dir) = path::missing_directory(wanted) {
            let what = format!("{}: directory '{dir}' of vhost-server-path does not exist yet", self.name);
            return Err(NetdevError::plain(&what));
        }
        Ok(())
    }
}

/// Opens the socket of a server port, on which the switch listens.
fn listen(name: &str, sock_dir: &Path, notify: Notify) -> Result<BackEnd, NetdevError> {
    if name.contains(['/', '\\']) {
        return Err(NetdevError::open(name, NetdevError::INVALID));
    }
    let at = sock_dir.join(name);
    let at = at.to_str().ok_or_else(|| NetdevError::open(name, NetdevError::INVALID))?;
    let refused =
        |what: String| NetdevError::plain(&format!("could not open network device {name} ({what})"));
    warn_deprecated();
    path::remove_stale_socket(at).map_err(|e| refused(e.to_string()))?;
    let socket = BackEnd::open(at, Role::Server, false, notify)
        .map_err(|e| refused(format!("vhost-user socket {at}: {e}")))?;
    log::say(Level::Info, &format!("Socket {at} created for vhost-user port {name}"));
    Ok(socket)
}

/// Logs once, in Open vSwitch's words, that server ports are deprecated: their guests must restart when the switch restarts.
fn warn_deprecated() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::say(
            Level::Warning,
            "dpdkvhostuser ports are considered deprecated;  please migrate to dpdkvhostuserclient ports.",
        );
    });
}

/// The value of `tx-retries-max`. A value that is not a number within the setting's range counts as absent.
fn retries(options: &BTreeMap<String, String>) -> u32 {
    TX_RETRIES_MAX.number(options) as u32
}

impl Netdev for Vhost {
    fn name(&self) -> &str {
        &self.name
    }
    fn kind(&self) -> &str {
        match self.role {
            Role::Client => "dpdkvhostuserclient",
            Role::Server => "dpdkvhostuser",
        }
    }
    fn is_pmd(&self) -> bool {
        true
    }
    fn n_rxq(&self) -> usize {
        self.config.pairs
    }
    fn n_txq(&self) -> usize {
        self.config.pairs
    }
    fn numa_id(&self) -> NumaId {
        NumaId(self.config.numa)
    }
    fn mempool_info(&self) -> Option<String> {
        let pool = self.pool.as_ref().map(Mempool::info).unwrap_or_default();
        self.socket.as_ref().map_or_else(uses_library, BackEnd::needs_pool).then_some(pool)
    }
    fn rxq_enabled(&self, queue: QueueId) -> bool {
        // Without a guest, queue 0 is shown as enabled, as in Open vSwitch.
        match &self.socket {
            Some(socket) if socket.is_connected() => socket.state().guest_sends(usize::from(queue.0)),
            _ => queue.0 == 0,
        }
    }
    fn needs_periodic_check(&self) -> bool {
        true
    }
    fn needs_restart(&self) -> bool {
        let wanted_config = self.wanted_config();
        let changed = if self.connected() {
            !self.is_ready_for_guest() || wanted_config != self.config
        } else {
            wanted_config.pairs != self.config.pairs
        };
        self.accounts_changed || changed && self.failed_config != Some(wanted_config)
    }
    fn restart(&mut self) -> Result<(), NetdevError> {
        let wanted_config = self.wanted_config();
        self.queues_taken = false;
        self.accounts_changed = false;
        self.seq += 1;
        let needs_pool = self.socket.as_ref().is_some_and(BackEnd::needs_pool);
        if needs_pool && self.connected() && (self.pool.is_none() || wanted_config != self.config) {
            let pairs = wanted_config.pairs as u32;
            let request = MempoolRequest {
                port: self.name.clone(),
                mtu: wanted_config.mtu,
                numa: NumaId(wanted_config.numa),
                n_rxq: pairs,
                n_rxq_desc: DESCRIPTORS,
                n_txq: pairs,
                n_txq_desc: DESCRIPTORS,
            };
            self.pool = None;
            let made = Mempool::request(&request).map_err(|e| NetdevError::plain(&e.to_string()));
            self.failed_config = made.as_ref().err().map(|_| wanted_config);
            self.pool = Some(made?);
        }
        self.config = wanted_config;
        if let Some(socket) = &mut self.socket {
            socket.distribute_senders(wanted_config.pairs);
        }
        Ok(())
    }
    fn qos_place(&self) -> QosPlace {
        QosPlace::Datapath
    }
    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        if std::mem::replace(&mut self.queues_taken, true) {
            return Vec::new();
        }
        self.pool_accounts.clear();
        let mut pool_accounts = std::mem::take(&mut self.pool_accounts);
        let mut give = |pair| {
            let source = self.socket.as_ref().and_then(|socket| socket.receiver(pair, self.pool.as_ref()));
            let (shared, counters) = (self.shared.clone(), self.shared.rx_counters.new_counters(pair));
            let handle = Source::handle(source, |source| Box::new(VhostRx { source, shared, counters }));
            RxHandle { queue: pool_accounts.wrap(handle.queue), ..handle }
        };
        let queues = (0..self.config.pairs).map(&mut give).collect();
        self.pool_accounts = pool_accounts;
        queues
    }
    fn tx_queue(&self) -> Box<dyn TxQueue> {
        let slot = self.next_sender.fetch_add(1, Ordering::Relaxed);
        let sender = self.socket.as_ref().map(|s| s.sender(slot));
        let counters = (0, self.shared.tx_counters.new_counters(0));
        Box::new(VhostTx { sender, shared: self.shared.clone(), counters })
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let pairs = self.config.pairs;
        let client = self.role == Role::Client && self.socket.is_some();
        let stuck = self.socket.as_ref().is_some_and(|s| s.state().is_stuck());
        let ready = self.connected() && self.is_ready_for_guest() && !stuck;
        let path = self.socket.as_ref().map(|s| s.path().to_owned());
        let guest = self.socket.as_mut().and_then(BackEnd::guest);
        Ok(Facts {
            ifindex: None,
            mac: [0; 6],
            mtu: self.mtu(),
            admin_up: self.shared.up.load(Ordering::Relaxed),
            link_up: ready,
            link_resets: self.socket.as_ref().map_or(0, |s| s.state().changes()),
            tx_offloads: report::tx_offloads(guest.as_ref()),
            out_of_service_reason: stuck
                .then(|| "out of service: a worker is blocked in the guest's rings".to_owned()),
            status: report::status(client, path.as_deref(), guest.as_ref(), pairs),
            ..Facts::default()
        })
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        let (rx, tx) = (self.shared.rx_counters.by_pair(), self.shared.tx_counters.by_pair());
        Ok(report::stats(self.connected(), &rx, &tx))
    }
    fn set_mtu(&mut self, mtu: u32) -> Result<(), NetdevError> {
        if !MTUS.contains(&mtu) {
            let what = format!("{}: setting the MTU failed", self.name);
            return Err(NetdevError::other(&what, NetdevError::INVALID));
        }
        if self.mtu() != mtu {
            self.shared.mtu.store(mtu, Ordering::Relaxed);
            self.seq += 1;
        }
        Ok(())
    }
    fn set_mac(&mut self, _mac: [u8; 6]) -> Result<(), NetdevError> {
        Ok(())
    }
    fn set_admin(&mut self, up: bool) -> Result<(), NetdevError> {
        if self.shared.up.swap(up, Ordering::Relaxed) != up {
            self.seq += 1;
        }
        Ok(())
    }
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError> {
        if self.role == Role::Server {
            return Ok(false);
        }
        self.shared.retries_max.store(retries(options), Ordering::Relaxed);
        let before = self.seq;
        let done = self.set_path(VHOST_SERVER_PATH.get(options));
        // The queues of the previous path do not work any more.
        let replaced = self.seq != before && self.queues_taken;
        if replaced {
            self.config.pairs = 1;
            self.queues_taken = false;
        }
        done.map(|()| replaced)
    }
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        wanted.check(&self.name, "a guest has rings of its own")?;
        // The change takes effect with a restart, which is needed if queues are in use.
        self.accounts_changed |= self.pool_accounts.set(wanted) && self.queues_taken;
        Ok(false)
    }
    fn rx_buffer_usage(&self) -> Vec<QueueUse> {
        self.pool_accounts.usage()
    }
    fn options(&self) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut put = |key: &str, value: String| options.insert(key.to_owned(), value);
        put("configured_rx_queues", self.config.pairs.to_string());
        put("configured_tx_queues", self.config.pairs.to_string());
        put("requested_rx_queues", self.wanted_config().pairs.to_string());
        put("requested_tx_queues", self.wanted_config().pairs.to_string());
        put("mtu", self.mtu().to_string());
        let retries = self.shared.retries_max.load(Ordering::Relaxed);
        if retries != self::retries(&BTreeMap::new()) {
            put("tx-retries-max", retries.to_string());
        }
        if let (Role::Client, Some(socket)) = (self.role, &self.socket) {
            put("vhost-server-path", socket.path().to_owned());
        }
        options
    }
    fn change_seq(&self) -> u64 {
        self.seq + self.socket.as_ref().map_or(0, |s| s.state().seq())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_bounded() {
        let of = |v: &str| retries(&BTreeMap::from([("tx-retries-max".to_owned(), v.to_owned())]));
        assert_eq!([of("0"), of("32"), of("33"), of("-1"), of("x")], [0, 32, 8, 8, 8]);
        assert_eq!(retries(&BTreeMap::new()), 8);
    }
}
