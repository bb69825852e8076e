//! Arguments of `encrypt`, `decrypt`, `rewrap` and `inspect` that are options of the protocol: they follow from the declarations there.

use std::marker::PhantomData;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use leafseal_client::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, Field, InspectOptions, OptionInfo,
    OptionKind, OptionValue, OwnedOptions, RewrapOptions, Surface,
};

/// Options whose effect in a command differs from that in a request, with their help.
const OTHER_HELP: [(Field, &str); 2] = [
    (
        Field::Keying,
        "How often to create an ephemeral key [default: engine.keying; if that is not set, session for JSON Lines]",
    ),
    (
        Field::OnFailure,
        "Action for an envelope that fails to decrypt; the first failures are listed on standard error [default: \
         fail]",
    ),
];

/// A command's options of the protocol.
pub(crate) trait OptionSource {
    /// For documents.
    const OPTIONS: &'static [OptionInfo];
    /// Those that apply to a file, too.
    const OF_FILES: &'static [OptionInfo];
}

impl OptionSource for EncryptOptions<'static> {
    const OPTIONS: &'static [OptionInfo] = Self::OPTIONS;
    const OF_FILES: &'static [OptionInfo] = EncryptFileOptions::OPTIONS;
}

impl OptionSource for DecryptOptions<'static> {
    const OPTIONS: &'static [OptionInfo] = Self::OPTIONS;
    const OF_FILES: &'static [OptionInfo] = DecryptFileOptions::OPTIONS;
}

/// `rewrap` has no argument `--file`, which its options could exclude.
impl OptionSource for RewrapOptions<'static> {
    const OPTIONS: &'static [OptionInfo] = Self::OPTIONS;
    const OF_FILES: &'static [OptionInfo] = Self::OPTIONS;
}

/// Nor has `inspect`. A context is of no use without an app.
impl OptionSource for InspectOptions<'static> {
    const OPTIONS: &'static [OptionInfo] = Self::OPTIONS;
    const OF_FILES: &'static [OptionInfo] = Self::OPTIONS;
}

/// The arguments that follow from the options of `S`.
#[derive(Debug)]
pub(crate) struct OptionArguments<S> {
    /// The options that are set.
    pub given: OwnedOptions,
    source: PhantomData<S>,
}

impl<S: OptionSource> Args for OptionArguments<S> {
    fn augment_args(command: Command) -> Command {
        offered::<S>().fold(command, |command, option| command.arg(argument::<S>(option)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<S: OptionSource> FromArgMatches for OptionArguments<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut arguments = Self { given: OwnedOptions::default(), source: PhantomData };
        arguments.update_from_arg_matches(matches).map(|()| arguments)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for option in offered::<S>() {
            let name = option.field.as_str();
            let value = match option.kind {
                OptionKind::Flag => Ok(matches.get_flag(name).then_some(OptionValue::Flag(true))),
                OptionKind::Number => {
                    matches.try_get_one::<u32>(name).map(|number| number.copied().map(OptionValue::Number))
                }
                OptionKind::Text | OptionKind::Word(_) | OptionKind::Words(_) => {
                    matches.try_get_one::<String>(name).map(|text| text.map(|text| OptionValue::Text(text)))
                }
            };
            let value = value.map_err(|error| Error::raw(ErrorKind::InvalidValue, error))?;
            value.map(|value| self.given.insert(option.field, value));
        }
        Ok(())
    }
}

fn offered<S: OptionSource>() -> impl Iterator<Item = &'static OptionInfo> {
    S::OPTIONS.iter().filter(|option| option.surfaces.contains(&Surface::Cli))
}

fn argument<S: OptionSource>(option: &'static OptionInfo) -> Arg {
    let name = option.field.as_str();
    let argument = Arg::new(name).long(name.replace('_', "-")).value_name(name.to_ascii_uppercase()).help(help(option));
    let argument = match option.kind {
        OptionKind::Flag => argument.action(ArgAction::SetTrue),
        OptionKind::Number => argument.value_parser(value_parser!(u32).range(1..)),
        OptionKind::Text => argument,
        OptionKind::Words(list) => argument.value_parser(move |text: &str| match list.has_set(text) {
            true => Ok(text.to_owned()),
            false => Err(format!("must be {}, each at most once, separated by commas", list.joined("", ", ", " or "))),
        }),
        OptionKind::Word(list) => {
            let words = list.words.iter();
            let words =
                words.map(|(word, about)| PossibleValue::new(*word).help(about.trim_end_matches('.').to_owned()));
            argument.value_parser(PossibleValuesParser::new(words))
        }
    };
    let is_of_files = S::OF_FILES.iter().any(|other| other.field == option.field);
    if is_of_files { argument } else { argument.conflicts_with("file") }
}

/// The meaning in the style of a command line. Where a setting of the engine is the default, it has the option's name.
fn help(option: &OptionInfo) -> String {
    if let Some((_, help)) = OTHER_HELP.iter().find(|(field, _)| *field == option.field) {
        return (*help).to_owned();
    }
    let summary = option.summary().replace('`', "");
    let summary = summary.trim_end_matches('.');
    match summary.split_once(". Default: ") {
        Some((what, "the engine's setting")) => format!("{what} [default: engine.{}]", option.field),
        Some((what, default)) => format!("{what} [default: {default}]"),
        None => summary.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<S: OptionSource>(line: &[&str]) -> Result<OwnedOptions, Error> {
        let command =
            OptionArguments::<S>::augment_args(Command::new("test")).arg(Arg::new("file").long("file").num_args(0));
        let matches = command.try_get_matches_from([&["test"], line].concat())?;
        OptionArguments::<S>::from_arg_matches(&matches).map(|arguments| arguments.given)
    }

    /// Checks that each option is read from an argument of its name, and that those that do not apply to files exclude `--file`.
    fn check_all<S: OptionSource>() {
        assert_eq!(parsed::<S>(&[]).expect("nothing is required"), OwnedOptions::default());
        for option in offered::<S>() {
            let flag = format!("--{}", option.field.as_str().replace('_', "-"));
            let (line, expected) = match option.kind {
                OptionKind::Flag => (vec![&*flag], OptionValue::Flag(true)),
                OptionKind::Number => (vec![&*flag, "7"], OptionValue::Number(7)),
                OptionKind::Text => (vec![&*flag, "pci"], OptionValue::Text("pci")),
                OptionKind::Word(list) | OptionKind::Words(list) => {
                    let (word, _) = list.words.last().expect("a word");
                    (vec![&*flag, word], OptionValue::Text(word))
                }
            };
            let given = parsed::<S>(&line).expect("the option exists");
            assert_eq!(given.iter().collect::<Vec<_>>(), [(option.field, expected)], "{option:?}");
            let is_of_files = S::OF_FILES.iter().any(|other| other.field == option.field);
            assert_eq!(parsed::<S>(&[&line[..], &["--file"]].concat()).is_ok(), is_of_files, "{option:?}");
            if matches!(option.kind, OptionKind::Word(_) | OptionKind::Words(_) | OptionKind::Number) {
                assert!(parsed::<S>(&[&*flag, "0"]).is_err(), "{option:?}");
            }
        }
    }

    #[test]
    fn each_option_is_an_argument_of_its_name() {
        check_all::<EncryptOptions<'static>>();
        check_all::<DecryptOptions<'static>>();
        check_all::<RewrapOptions<'static>>();
    }
}
