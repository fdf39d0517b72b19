//! The commands that choose between implementations of a stage. There is one of each, which picks what the processor can
//! do by itself: it can be asked for by the name that it has in Open vSwitch, and nothing else can.

/// The only implementations.
const DPIF: &str = "dpif_scalar";
const PARSER: &str = "scalar";

pub(super) fn execute(name: &str, args: &[String], cores: &[u32]) -> Option<Result<String, String>> {
    Some(match name {
        "dpif-netdev/dpif-impl-get" => {
            Ok(format!("Available DPIF implementations:\n  {DPIF} (pmds: {})\n", list(cores)))
        }
        "dpif-netdev/dpif-impl-set" => set_dpif(args),
        "dpif-netdev/miniflow-parser-get" => Ok(format!(
            "Available MFEX implementations:\n  {PARSER} (available: True pmds: {})\n",
            list(cores)
        )),
        "dpif-netdev/miniflow-parser-set" => set_parser(args),
        _ => return None,
    })
}

fn list(cores: &[u32]) -> String {
    let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
    if cores.is_empty() { "none".to_owned() } else { cores.join(",") }
}

fn set_dpif(args: &[String]) -> Result<String, String> {
    match args.first().map(String::as_str) {
        Some(DPIF) => Ok(format!("DPIF implementation set to {DPIF}.\n")),
        other => Err(format!(
            "DPIF implementation not available: Unknown DPIF implementation {}.\n",
            other.unwrap_or_default()
        )),
    }
}

fn set_parser(args: &[String]) -> Result<String, String> {
    let name = match args {
        [option, _, name, ..] if option == "-pmd" => name,
        [name, ..] => name,
        [] => return Err("Error: no miniflow extract name provided.\n".to_owned()),
    };
    match name.as_str() {
        PARSER => Ok(format!("Miniflow extract implementation set to {PARSER}.\n")),
        _ => Err(format!("Error: unknown miniflow extract implementation {name}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, args: &[&str]) -> Result<String, String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        execute(&format!("dpif-netdev/{name}"), &args, &[1, 3]).unwrap()
    }

    #[test]
    fn what_there_is_can_be_asked_for() {
        assert_eq!(
            run("dpif-impl-set", &["dpif_scalar"]).unwrap(),
            "DPIF implementation set to dpif_scalar.\n"
        );
        assert!(run("dpif-impl-get", &[]).unwrap().ends_with("  dpif_scalar (pmds: 1,3)\n"));
        assert!(run("miniflow-parser-set", &["-pmd", "1", "scalar"]).is_ok());
    }

    #[test]
    fn what_there_is_not_is_refused() {
        assert!(run("dpif-impl-set", &["dpif_avx512"]).is_err());
        assert!(run("miniflow-parser-set", &["study"]).is_err());
    }
}
