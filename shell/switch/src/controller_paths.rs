//! Checks which Unix sockets a row of table `Controller` may name.
//!
//! Users who may write to the database may have no rights on this machine. So a controller's target must not connect to
//! sockets of other programs, nor create files elsewhere. The switch may connect to sockets in the run directory, and
//! listen at sockets in the run directory whose name begins with the bridge's name.

use std::path::Path;

/// Why a target is refused; `None` if it is allowed.
pub(crate) fn refused(bridge: &str, target: &str, rundir: &Path) -> Option<String> {
    let rundir = rundir.display();
    let mgmt =
        format!("\"unix:{rundir}/{bridge}.mgmt\" (which is always available without special configuration).");
    if target.starts_with("unix:") {
        let allowed = format!("unix:{rundir}/");
        let inside = rest_after(target, &allowed).is_some_and(|rest| !rest.contains(".."));
        (target.contains('/') && !inside).then(|| {
            format!(
                "Not connecting to socket controller \"{target}\" due to possibility for remote exploit.  Instead, \
                 specify socket in permitted directory \"{allowed}\" or connect to {mgmt}"
            )
        })
    } else if target.starts_with("punix:") {
        let allowed = format!("punix:{rundir}/{bridge}.");
        let inside = rest_after(target, &allowed).is_some_and(|rest| !rest.contains('/'));
        (!inside).then(|| {
            format!(
                "Not adding Unix domain socket controller \"{target}\" due to possibility of overwriting local files. \
                 Instead, specify path in permitted format \"{allowed}*\" or connect to {mgmt}"
            )
        })
    } else {
        None
    }
}

/// The rest of a target after the allowed prefix; `None` if the target has another prefix. Repeated slashes count as
/// one.
fn rest_after(target: &str, allowed: &str) -> Option<String> {
    let single = |text: &str| {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            if c != '/' || !out.ends_with('/') {
                out.push(c);
            }
        }
        out
    };
    single(target).strip_prefix(&single(allowed)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_our_own() {
        let check = |target: &str| refused("br0", target, Path::new("/run/x")).is_none();
        assert!(check("tcp:1.2.3.4") && check("ptcp:6653"));
        assert!(check("unix:/run/x/any") && check("unix:/run//x/any") && check("unix:any"));
        assert!(!check("unix:/run/y/any") && !check("unix:/run/x/../any"));
        assert!(check("punix:/run/x/br0.void"));
        assert!(!check("punix:/run/x/br0.void/../file") && !check("punix:/run/x/br1.void"));
        assert!(!check("punix:file"));
    }
}
