//! `odp-execute/action-impl-*`: the implementation of actions. Sluice has one implementation, which adapts to the processor. It can be selected by
//! the name `scalar`; the other names of Open vSwitch are not listed and are refused.

use ctl::names;

const SCALAR: &str = "scalar";

pub(crate) fn execute(name: &str, args: &[String]) -> Option<Result<String, String>> {
    Some(match name {
        names::ODP_EXECUTE_ACTION_IMPL_SHOW => {
            Ok(format!("Available Actions implementations:\n  {SCALAR} (available: Yes, active: Yes)\n"))
        }
        names::ODP_EXECUTE_ACTION_IMPL_SET => set(args.first().map_or("", String::as_str)),
        _ => return None,
    })
}

fn set(implementation: &str) -> Result<String, String> {
    match implementation {
        SCALAR => Ok(format!("Action implementation set to {SCALAR}.\n")),
        other => Err(format!("Error: unknown action implementation, {other}, specified!\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_implementations_are_refused() {
        assert_eq!(set("scalar").as_deref(), Ok("Action implementation set to scalar.\n"));
        assert_eq!(
            set("avx512"),
            Err("Error: unknown action implementation, avx512, specified!\n".to_owned())
        );
    }
}
