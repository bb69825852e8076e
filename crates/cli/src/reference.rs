//! `docs/cli.md`: the help of every command. Compiled for its test alone, which holds the file against this text.

use clap::{Command, CommandFactory};

use crate::arguments::Arguments;

/// The text before the commands.
const HEAD: &str = "# Commands

Generated from the program: `leafseal COMMAND --help` prints the same. Options of all commands (folder, configuration, overrides) appear
only under `leafseal`. [configuration.md](configuration.md) has the settings, the environment variables and the
[exit codes](configuration.md#exit-codes); [vectors/cli](../vectors/cli/README.md) has sessions with their output.
";
/// Characters in a line.
const WIDTH: usize = 110;

fn markdown() -> String {
    let mut program = Arguments::command().term_width(WIDTH).mut_args(|argument| argument.hide_env_values(true));
    program.build();
    let mut out = HEAD.to_owned();
    append(&mut out, &program.clone());
    for command in program.get_subcommands() {
        append_with_subcommands(&mut out, command);
    }
    out
}

fn append_with_subcommands(out: &mut String, command: &Command) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    append(
        out,
        &command.clone().mut_args(|argument| if argument.is_global_set() { argument.hide(true) } else { argument }),
    );
    for command in command.get_subcommands() {
        append_with_subcommands(out, command);
    }
}

fn append(out: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command.clone().render_long_help().to_string();
    out.push_str(&format!("\n## {name}\n\n```text\n"));
    for line in help.trim().lines() {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push_str("```\n");
}

/// `UPDATE=1 cargo test -p leafseal-cli reference` regenerates the file.
#[test]
fn the_documentation_has_the_help_of_every_command() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let expected = markdown();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == expected, "docs/cli.md is not what the program prints: run this test with UPDATE=1");
}
