//! Shell completion scripts for tools, commands and options, generated from the help pages.

use crate::page::Page;
use std::fmt::Write;

/// The script for a shell, or an error that lists the shells.
pub fn script(shell: &str, overview: &Page, tools: &[Page]) -> Result<String, String> {
    match shell {
        "bash" => Ok(bash(overview, tools)),
        "zsh" => Ok(zsh(overview, tools)),
        "fish" => Ok(fish(overview, tools)),
        "" => Err("missing argument SHELL (bash, zsh, fish)".into()),
        other => Err(format!("no completion for \"{other}\" (there is: bash, zsh, fish)")),
    }
}

fn names(page: &Page) -> String {
    let names: Vec<&str> = page.commands.iter().map(|c| c.name.as_str()).collect();
    names.join(" ")
}

fn options(page: &Page) -> String {
    let options: Vec<String> =
        page.options.iter().filter(|o| !o.text.is_empty()).map(|o| format!("--{}", o.name)).collect();
    options.join(" ")
}

/// The script for bash. After a command of any tool it offers bridges, and files if there is a bridge: many commands have a bridge as
/// argument.
fn bash(overview: &Page, tools: &[Page]) -> String {
    let mut cases = String::new();
    for page in tools {
        let _ = writeln!(
            cases,
            "        {}) commands=\"{}\"; options=\"{}\" ;;",
            page.names.tool,
            names(page),
            options(page)
        );
    }
    let names_of_tools: Vec<&str> = tools.iter().map(|p| p.names.tool).collect();
    format!(
        "# Completion of sluice for bash: eval \"$(sluice completion bash)\"
_sluice() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} tool=${{COMP_WORDS[1]}} commands= options= i bridges=
    COMPREPLY=()
    if (( COMP_CWORD == 1 )); then
        COMPREPLY=($(compgen -W \"{all}\" -- \"$word\"))
        return
    fi
    case $tool in
        help|man) commands=\"{tools}\" ;;
        completion) commands=\"bash zsh fish\" ;;
{cases}    esac
    for (( i = 2; i < COMP_CWORD; i++ )); do
        if [[ \" $commands \" == *\" ${{COMP_WORDS[i]}} \"* ]]; then
            bridges=$(sluice vsctl --timeout=2 list-br 2>/dev/null)
            commands=
        fi
    done
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))
    else
        COMPREPLY=($(compgen -W \"$commands $bridges\" -- \"$word\"))
        [[ $bridges ]] && COMPREPLY+=($(compgen -f -- \"$word\"))
    fi
}}
complete -F _sluice sluice
",
        all = names(overview),
        tools = names_of_tools.join(" "),
    )
}

/// Replaces characters that have a special meaning within single quotes of a shell, or within `NAME:TEXT` of zsh.
fn plain(text: &str) -> String {
    text.replace('\'', "").replace(['[', '('], "(").replace([']', ')'], ")").replace(':', ",")
}

fn zsh(overview: &Page, tools: &[Page]) -> String {
    let described = |page: &Page| -> String {
        let lines = page.commands.iter().map(|c| format!("            '{}:{}'\n", c.name, plain(c.text)));
        lines.collect()
    };
    let mut cases = String::new();
    for page in tools {
        let options: String = page
            .options
            .iter()
            .filter(|o| !o.text.is_empty())
            .map(|o| format!("            '--{}:{}'\n", o.name, plain(o.text)))
            .collect();
        let _ = write!(
            cases,
            "        {})\n            commands=(\n{}            )\n            options=(\n{options}            ) ;;\n",
            page.names.tool,
            described(page)
        );
    }
    format!(
        "#compdef sluice
# Completion of sluice for zsh: a file _sluice in a directory of $fpath
_sluice() {{
    local -a tools commands options
    tools=(
{}    )
    if (( CURRENT == 2 )); then
        _describe tool tools
        return
    fi
    case $words[2] in
        help|man) commands=($tools) ;;
        completion) commands=(bash zsh fish) ;;
{cases}    esac
    if [[ $words[CURRENT] == -* ]]; then
        _describe option options
    else
        _describe command commands
        _files
    fi
}}
_sluice \"$@\"
",
        described(overview)
    )
}

fn fish(overview: &Page, tools: &[Page]) -> String {
    let mut out = String::from(
        "# Completion of sluice for fish: ~/.config/fish/completions/sluice.fish\ncomplete -c sluice -f\n",
    );
    for c in &overview.commands {
        let _ =
            writeln!(out, "complete -c sluice -n __fish_use_subcommand -a {} -d '{}'", c.name, plain(c.text));
    }
    for page in tools {
        let seen = format!("'__fish_seen_subcommand_from {}'", page.names.tool);
        for c in &page.commands {
            let _ = writeln!(out, "complete -c sluice -n {seen} -a {} -d '{}'", c.name, plain(c.text));
        }
        for o in page.options.iter().filter(|o| !o.text.is_empty()) {
            let short = o.short.map(|letter| format!(" -s {letter}")).unwrap_or_default();
            let value = if o.takes == crate::getopt::Takes::Value { " -r" } else { "" };
            let text = plain(o.text);
            let _ = writeln!(out, "complete -c sluice -n {seen} -l {}{short}{value} -d '{text}'", o.name);
        }
    }
    let _ =
        writeln!(out, "complete -c sluice -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'");
    out
}
