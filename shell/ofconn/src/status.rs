//! State of controllers for the database.

use crate::command::ConnId;
use crate::conn_settings::is_passive;
use crate::connections::Connections;
use crate::packet_limit::PacketKind;
use crate::sockets::Sockets;
use openflow::session::Role;
use std::collections::BTreeMap;
use units::Millis;

/// The state of a controller in the form of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerStatus {
    /// The target as configured.
    pub target: String,
    /// `is_connected`
    pub is_connected: bool,
    /// `role`; `None` while the controller is not connected.
    pub role: Option<Role>,
    /// `status`
    pub status: BTreeMap<String, String>,
}

impl ControllerStatus {
    /// The role as the database spells it.
    pub fn role_name(&self) -> Option<&'static str> {
        match self.role? {
            Role::NoChange => None,
            Role::Equal => Some("other"),
            Role::Primary => Some("master"),
            Role::Secondary => Some("slave"),
        }
    }
}

impl Connections {
    /// The controllers that the switch connects to, with their state. Controllers that connect to the switch have no state in the database.
    pub fn status(&mut self, now: Millis) -> Vec<ControllerStatus> {
        if !self.has_controllers() {
            return Vec::new();
        }
        let without_role = self.socket_access.call(move |sockets| sockets.status(now)).unwrap_or_default();
        let of_session = |id: &ConnId| self.sessions.get(id).filter(|s| !s.queues.has_ended).map(|s| s.role);
        let with_role = |(id, status): (Option<ConnId>, _)| ControllerStatus {
            role: id.as_ref().and_then(of_session),
            ..status
        };
        without_role.into_iter().map(with_role).collect()
    }
}

impl Sockets {
    /// The state of the controllers that the switch connects to, without their role. The id is `None` if the target cannot be used.
    fn status(&self, now: Millis) -> Vec<(Option<ConnId>, ControllerStatus)> {
        let controllers = self.conns.iter().filter(|(_, c)| c.is_active());
        controllers
            .map(|(id, c)| {
                let r = &c.reconnect;
                let mut status = BTreeMap::new();
                let mut put = |key: &str, value: Option<String>| {
                    if let Some(v) = value {
                        status.insert(key.to_owned(), v);
                    }
                };
                put("last_error", r.last_error().map(str::to_owned));
                put("state", Some(r.state().name().to_owned()));
                put("sec_since_connect", r.sec_since_connect(now).map(|s| s.to_string()));
                put("sec_since_disconnect", r.sec_since_disconnect(now).map(|s| s.to_string()));
                for kind in PacketKind::ALL {
                    let (counts, limited) = c.packet_limit.counts(kind);
                    let key = |what: &str| format!("packet-in-{}-{what}", kind.name());
                    if limited {
                        put(&key("backlog"), Some(counts.backlog.to_string()));
                        put(&key("bypassed"), Some(counts.bypassed.to_string()));
                        put(&key("queued"), Some(counts.queued.to_string()));
                    }
                    // Open vSwitch sets this key only if a rate is configured. Drops without a rate are reported here, too.
                    put(&key("dropped"), (limited || counts.dropped > 0).then(|| counts.dropped.to_string()));
                }
                let (target, is_connected) = (c.settings.target.clone(), r.is_connected());
                (Some(*id), ControllerStatus { target, is_connected, role: None, status })
            })
            .chain(
                self.unusable()
                    .filter(|(target, _)| !is_passive(target))
                    .map(|(target, why)| (None, unusable(target, why))),
            )
            .collect()
    }
}

/// The state of a controller with a target that cannot be used. Open vSwitch reports the reason under the same key.
fn unusable(target: &str, why: &str) -> ControllerStatus {
    let pairs = [("last_error", why), ("state", "VOID")];
    let status = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    ControllerStatus { target: target.to_owned(), is_connected: false, role: None, status }
}
