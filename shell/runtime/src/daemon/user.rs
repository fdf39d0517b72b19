//! `--user`: the daemon changes its user, and keeps only the capabilities that it needs.
//!
//! The process that does the work changes its user before it starts its first thread and creates its pidfile, because the
//! kernel changes the user of one thread only, and later threads inherit it. A monitor process does not change its user:
//! otherwise it could not start the next daemon. Programs that the daemon starts inherit the capabilities, because before
//! DPDK is started, a child process tests whether DPDK works.

use super::log::text;
use rustix::process::{Gid, Uid, geteuid, getgid, getuid};
use rustix::thread::{self, CapabilitySet, CapabilitySets};
use std::path::Path;

/// Capabilities of every daemon: to lock memory, and to listen on ports below 1024.
const DAEMON_CAPABILITIES: CapabilitySet = CapabilitySet::IPC_LOCK.union(CapabilitySet::NET_BIND_SERVICE);
/// Number of bits in the kernel's capability sets.
const CAPABILITIES: u32 = 64;

/// The user and group to change to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) uid: Uid,
    pub(super) gid: Gid,
}

impl User {
    /// Parses `USER`, `USER:GROUP` or `:GROUP`; the error is for standard error.
    pub(super) fn parse(spec: &str) -> Result<User, String> {
        if !geteuid().is_root() || !getuid().is_root() {
            return Err("only root can use --user option".to_owned());
        }
        let read = |path: &str| std::fs::read_to_string(path).map_err(|e| format!("{path}: {}", text(e)));
        find_user(spec, &read("/etc/passwd")?, &read("/etc/group")?)
    }

    /// Changes to this user; keeps the capabilities `keeps` and those of every daemon.
    pub(super) fn switch_to(self, keeps: CapabilitySet, log: Option<&Path>) -> Result<(), String> {
        let failed = |what: &str, e: rustix::io::Errno| format!("--user: {what} ({})", text(e));
        if std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count) != 1 {
            return Err("--user: the process has threads already".to_owned());
        }
        if let Some(log) = log {
            // The daemon opens the log file again as the new user when the file is rotated.
            let _ = rustix::fs::chown(log, Some(self.uid), Some(self.gid));
        }
        let has = thread::capabilities(None).map_err(|e| failed("cannot read capabilities", e))?;
        let keeps = (keeps | DAEMON_CAPABILITIES) & has.permitted;
        // Only capabilities in the bounding set can become inheritable, so the inheritable set is changed before the
        // bounding set is reduced.
        thread::set_capabilities(None, CapabilitySets { inheritable: keeps, ..has })
            .map_err(|e| failed("cannot hand capabilities on", e))?;
        // Removes all capabilities from the bounding set, so that no child can gain others. The kernel refuses the first
        // number that is no capability.
        for number in 0..CAPABILITIES {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if thread::remove_capability_from_bounding_set(capability).is_err() {
                break;
            }
        }
        thread::set_keep_capabilities(true).map_err(|e| failed("cannot keep capabilities", e))?;
        thread::set_thread_groups(&[]).map_err(|e| failed("cannot leave the supplementary groups", e))?;
        thread::set_thread_res_gid(self.gid, self.gid, self.gid)
            .map_err(|e| failed("cannot change group", e))?;
        thread::set_thread_res_uid(self.uid, self.uid, self.uid)
            .map_err(|e| failed("cannot change user", e))?;
        let sets = CapabilitySets { effective: keeps, permitted: keeps, inheritable: keeps };
        thread::set_capabilities(None, sets).map_err(|e| failed("cannot set capabilities", e))?;
        for capability in keeps.iter() {
            thread::configure_capability_in_ambient_set(capability, true)
                .map_err(|e| failed("cannot hand capabilities on", e))?;
        }
        match (getuid(), geteuid(), getgid()) == (self.uid, self.uid, self.gid) {
            true => Ok(()),
            false => Err("--user: the user did not change".to_owned()),
        }
    }
}

/// The fields of the line that begins with this name, in a file with colon-separated fields.
fn entry<'a>(file: &'a str, name: &str) -> Option<Vec<&'a str>> {
    file.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|parts| parts.first() == Some(&name))
}

fn number(parts: &[&str], at: usize) -> Option<u32> {
    parts.get(at)?.parse().ok()
}

/// Finds user and group in the texts of `/etc/passwd` and `/etc/group`. If the group is not the user's primary group, the
/// user must be a member of it.
fn find_user(spec: &str, passwd: &str, group: &str) -> Result<User, String> {
    let (name, group_name) =
        spec.split_once(':').map_or((spec, ""), |(user, group)| (user.trim(), group.trim()));
    // Without a name, the user remains root.
    let name = if name.is_empty() { "root" } else { name.trim() };
    let user = entry(passwd, name).and_then(|parts| number(&parts, 2).zip(number(&parts, 3)));
    let (uid, primary) = user.ok_or_else(|| format!("user {name} not found, aborting."))?;
    let gid = match group_name {
        "" => primary,
        group_name => {
            let parts = entry(group, group_name);
            let gid = parts.as_ref().and_then(|parts| number(parts, 2));
            let gid = gid.ok_or_else(|| format!("group {group_name} not found, aborting."))?;
            let members = parts.as_ref().and_then(|p| p.get(3)).copied().unwrap_or_default();
            if gid != primary && !members.split(',').any(|member| member == name) {
                return Err(format!(
                    "Invalid --user option {spec} (user {name} is not in group {group_name}), aborting."
                ));
            }
            gid
        }
    };
    Ok(User { uid: Uid::from_raw(uid), gid: Gid::from_raw(gid) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_groups() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\novs:x:107:113::/:/bin/false\nbad:x:a:b::/:\n";
        let group = "root:x:0:\novs:x:113:\nhuge:x:114:nobody,ovs\nother:x:115:\n";
        let parsed = |spec| find_user(spec, passwd, group).map(|u| (u.uid.as_raw(), u.gid.as_raw()));
        assert_eq!(parsed("ovs"), Ok((107, 113)));
        assert_eq!(parsed("ovs:"), Ok((107, 113)));
        assert_eq!(parsed("ovs:ovs"), Ok((107, 113)));
        assert_eq!(parsed("ovs:huge"), Ok((107, 114)));
        assert_eq!(parsed(":root"), Ok((0, 0)));
        let refused = "Invalid --user option ovs:other (user ovs is not in group other), aborting.";
        assert_eq!(parsed("ovs:other"), Err(refused.to_owned()));
        assert_eq!(parsed("nobody"), Err("user nobody not found, aborting.".to_owned()));
        assert_eq!(parsed("bad"), Err("user bad not found, aborting.".to_owned()));
        assert_eq!(parsed("ovs:none"), Err("group none not found, aborting.".to_owned()));
    }
}
