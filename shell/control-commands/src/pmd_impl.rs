//! Commands that select the implementation of a stage. Sluice has one implementation of each stage, which adapts to the
//! processor. It can be selected by its name in Open vSwitch; all other names are refused.

use ctl::names;
use runtime::Module;

static LOG: Module = Module::new("dpif_netdev");

/// The name of the only DPIF implementation.
const DPIF: &str = "dpif_scalar";
/// The name of the only parser implementation.
const PARSER: &str = "scalar";

pub(crate) fn execute(name: &str, args: &[String], cores: &[u32]) -> Option<Result<String, String>> {
    Some(match name {
        names::DPIF_NETDEV_DPIF_IMPL_GET => {
            Ok(format!("Available DPIF implementations:\n  {DPIF} (pmds: {})\n", list(cores)))
        }
        names::DPIF_NETDEV_DPIF_IMPL_SET => set_dpif(args),
        names::DPIF_NETDEV_MINIFLOW_PARSER_GET => Ok(format!(
            "Available MFEX implementations:\n  {PARSER} (available: True pmds: {})\n",
            list(cores)
        )),
        names::DPIF_NETDEV_MINIFLOW_PARSER_SET => set_parser(args, cores),
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
        other => Err(refused(format!(
            "DPIF implementation not available: Unknown DPIF implementation {}.\n",
            other.unwrap_or_default()
        ))),
    }
}

/// Handles the arguments `[-pmd CORE] NAME`. `cores`: the cores of PMD threads.
fn set_parser(args: &[String], cores: &[u32]) -> Result<String, String> {
    let fail = |text: String| Err(refused(format!("Error: {text}")));
    let (core, rest) = match args {
        [option, core, rest @ ..] if option == "-pmd" => match core.parse::<u32>() {
            Ok(core) => (Some(core), rest),
            Err(_) => {
                return fail(format!(
                    "miniflow extract parser not changed, PMD thread passed is not valid: '{core}'. Pass a valid pmd \
                     thread ID.\n"
                ));
            }
        },
        [option] if option == "-pmd" => {
            return fail("-pmd option requires a thread id argument.\n".to_owned());
        }
        _ => (None, args),
    };
    match (rest, core) {
        ([], _) => fail(
            "no miniflow extract name provided. Output of miniflow-parser-get shows implementation list.\n"
                .to_owned(),
        ),
        ([_, more, ..], _) => fail(format!("unknown argument {more}.\n")),
        ([name], _) if name != PARSER => fail(format!("unknown miniflow extract implementation {name}.")),
        (_, Some(core)) if !cores.contains(&core) => fail(format!(
            "miniflow extract parser not changed, PMD thread {core} not in use, pass a valid pmd thread ID.\n"
        )),
        (_, Some(core)) => {
            Ok(format!("Miniflow extract implementation set to {PARSER}, on pmd thread {core}.\n"))
        }
        _ => Ok(format!("Miniflow extract implementation set to {PARSER}.\n")),
    }
}

/// Logs the error and returns it.
fn refused(text: String) -> String {
    runtime::err!(LOG, "{}", text.trim_end());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, args: &[&str]) -> Result<String, String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        execute(&format!("dpif-netdev/{name}"), &args, &[1, 3]).unwrap()
    }

    #[test]
    fn existing_implementations_can_be_selected() {
        assert_eq!(
            run("dpif-impl-set", &["dpif_scalar"]).unwrap(),
            "DPIF implementation set to dpif_scalar.\n"
        );
        assert!(run("dpif-impl-get", &[]).unwrap().ends_with("  dpif_scalar (pmds: 1,3)\n"));
        assert!(run("miniflow-parser-set", &["-pmd", "1", "scalar"]).is_ok());
    }

    #[test]
    fn other_implementations_are_refused() {
        assert!(run("dpif-impl-set", &["dpif_avx512"]).is_err());
        let parser = |args| run("miniflow-parser-set", args).unwrap_err();
        assert!(parser(&["study"]).contains("unknown miniflow extract implementation study"));
        assert!(parser(&["scalar", "1"]).contains("unknown argument 1."));
        assert!(parser(&["-pmd"]).contains("requires a thread id"));
        assert!(parser(&["-pmd", "zero", "scalar"]).contains("not valid: 'zero'"));
        assert!(parser(&["-pmd", "1"]).contains("no miniflow extract name"));
        assert!(parser(&["-pmd", "9", "scalar"]).contains("PMD thread 9 not in use"));
    }
}
