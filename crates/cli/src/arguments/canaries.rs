//! The arguments of `leafseal canaries`.

use clap::{Args, Subcommand};

use super::{AnswerFormat, SchemeName};

/// `leafseal canaries`.
#[derive(Debug, Subcommand)]
pub(crate) enum CanariesCommand {
    /// Make an envelope whose decryption raises an alarm, and print it
    #[command(after_help = "\
Put it where nobody has a reason to decrypt it: a row of a customer that does not exist. It looks and decrypts like any other. An engine \
that opens it marks the request in its audit log, adds a record of kind canary, logs a warning and counts it.

Examples:
  leafseal canaries add acme
  leafseal canaries add acme --scheme symmetric --role pci --text 4111111111111111")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: id, scheme and envelope")))]
    Add(AddCanaryArguments),
    /// List the canaries of an app; their envelopes and texts are not kept
    #[command(after_help = "Example:\n  leafseal canaries list acme")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: an array of the canaries with id, scheme and date")))]
    List {
        /// The app
        #[arg(value_name = "APP")]
        app: String,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Forget a canary: its envelope is one like others from then on
    #[command(after_help = "Example:\n  leafseal canaries remove acme 3f9c0a1b2c3d4e5f")]
    Remove {
        /// The app
        #[arg(value_name = "APP")]
        app: String,
        /// Id of the canary, as leafseal canaries list shows it
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// `leafseal canaries add`.
#[derive(Debug, Args)]
pub(crate) struct AddCanaryArguments {
    /// The app
    #[arg(value_name = "APP")]
    pub app: String,
    /// The text in the envelope [default: a random number of 16 digits that passes for one of a card]
    #[arg(long, value_name = "TEXT")]
    pub text: Option<String>,
    /// How the envelope is sealed [default: engine.scheme]
    #[arg(long, value_enum, value_name = "SCHEME")]
    pub scheme: Option<SchemeName>,
    /// Data role to write into the envelope
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Context that a symmetric envelope is bound to, as the values beside which it is to lie
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// The form.
    #[command(flatten)]
    pub form: AnswerFormat,
}
