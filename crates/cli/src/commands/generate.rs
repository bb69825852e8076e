//! `generate`: writes man pages and shell completions, generated from the definition of the command line; release packages install them.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::arguments::{Arguments, GenerateArguments};
use crate::context::make_folder;
use crate::failure::{CommandFailure, CommandOutcome};

/// The name of the program, its man pages and its completions.
const PROGRAM: &str = "leafseal";
/// The folder of man pages below the output folder; section 1 is for commands.
const MAN_FOLDER: &str = "man/man1";
/// The folder of completions below the output folder.
const COMPLETIONS_FOLDER: &str = "completions";
/// Shells that completions are generated for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// `leafseal generate`.
pub(super) fn run(arguments: &GenerateArguments) -> CommandOutcome {
    let (man, completions) = (arguments.folder.join(MAN_FOLDER), arguments.folder.join(COMPLETIONS_FOLDER));
    let failed = |folder: &Path, error: std::io::Error| CommandFailure::writing(folder.display(), &error);
    make_folder(&man)?;
    clap_mangen::generate_to(Arguments::command(), &man).map_err(|error| failed(&man, error))?;
    make_folder(&completions)?;
    for shell in SHELLS {
        clap_complete::generate_to(shell, &mut Arguments::command(), PROGRAM, &completions)
            .map_err(|error| failed(&completions, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// The names of the man pages of `command` and its visible subcommands.
    fn pages(command: &Command, prefix: &str) -> Vec<String> {
        let name = if prefix.is_empty() { PROGRAM.to_owned() } else { format!("{prefix}-{}", command.get_name()) };
        let visible = command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
        let below: Vec<String> = visible.flat_map(|sub| pages(sub, &name)).collect();
        std::iter::once(name).chain(below).collect()
    }

    #[test]
    fn every_command_has_a_man_page() {
        let folder = tempfile::tempdir().expect("folder");
        run(&GenerateArguments { folder: folder.path().to_owned() }).expect("generated");
        let expected = pages(&Arguments::command(), "");
        assert!(expected.contains(&"leafseal-keys-create".to_owned()), "{expected:?}");
        for name in &expected {
            let page = std::fs::read_to_string(folder.path().join(MAN_FOLDER).join(format!("{name}.1"))).expect(name);
            for part in [".TH ", ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS"] {
                assert!(page.contains(part), "{name}.1 has no {part}");
            }
        }
        let written = std::fs::read_dir(folder.path().join(MAN_FOLDER)).expect("folder").count();
        assert_eq!(written, expected.len(), "hidden commands have no page");
    }

    #[test]
    fn completions_of_each_shell_contain_commands_and_flags() {
        let folder = tempfile::tempdir().expect("folder");
        run(&GenerateArguments { folder: folder.path().to_owned() }).expect("generated");
        for file in ["leafseal.bash", "_leafseal", "leafseal.fish"] {
            let text = std::fs::read_to_string(folder.path().join(COMPLETIONS_FOLDER).join(file)).expect(file);
            assert!(text.contains("rewrap") && text.contains("port-base"), "{file}");
        }
    }
}
