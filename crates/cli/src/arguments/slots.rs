//! The arguments of `leafseal slot`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use leafseal_custody::Custodian;

use super::AnswerFormat;

/// `leafseal slot`.
#[derive(Debug, Subcommand)]
pub(crate) enum SlotCommand {
    /// List the ways in which the keystore can be opened
    #[command(after_help = "Example:\n  leafseal slot list")]
    #[command(mut_arg("json", |it| it.help(
        "Print one line of JSON: an array of the slots with id, kind, key, date, and whether each is safe against quantum computers"
    )))]
    List {
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
    /// Add a way to open the keystore; running engines go on
    #[command(after_help = "\
Each slot opens the keystore alone. Shares are printed before the slot is stored, and are of no use if the command fails. \
Try a new one before you remove another: with --set keystore.unseal_file=FILE for a passphrase or \
shares, and with --set keystore.root_key_file=FILE for a root key. The keys of services and devices \
(--transit, --aws-kms, --pkcs11, --tpm2) are tried when the slot is added, and whenever their settings are there.

Examples:
  leafseal slot add --root-key-file recovery.key
  leafseal slot add --passphrase -
  leafseal slot add --shares 2/3
  leafseal slot add --transit
  leafseal slot add --aws-kms
  leafseal slot add --pkcs11
  leafseal slot add --tpm2
  leafseal slot add --passphrase - --replace 3f9c0a1b2c3d4e5f")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: id, kind and key of the slot; the shares, if there are any")))]
    Add(SlotAddArguments),
    /// Remove a slot; another one must open, and the last one stays
    #[command(after_help = "\
The command opens another slot first, with what the settings name: the root key, keystore.unseal_file, or a key of [transit] or [aws_kms]. \
A slot that nobody can open would otherwise be all that is left.

An earlier copy of the keystore can still be opened by what opened the slot. If someone may have both, replace the root, too: \
leafseal slot rotate-root --compromised.

Example:
  leafseal slot remove 3f9c0a1b2c3d4e5f
  leafseal slot remove 3f9c0a1b2c3d4e5f --set keystore.unseal_file=two-shares")]
    Remove {
        /// Id of the slot, as leafseal slot list shows it
        id: String,
        /// Remove it although no other slot was opened: you know one that opens
        #[arg(long)]
        others_untested: bool,
    },
    /// Put the keystore under a new root, which every slot opens; no passphrase and no share is needed
    #[command(after_help = "\
Every private key is encrypted again, in one transaction. Running engines follow by a link in the database. The command removes it after \
--link-seconds. Engines that were stopped open their slot when they start.

--compromised is for a root that others may have. There is no link, because they could follow it, too. Engines ask their key file or key \
service again; those that were opened by a passphrase or shares must be unsealed again (leafseal unseal) or restarted. The secret that \
signs client-side tokens is replaced: tokens from before no longer work. This keystore takes no key versions back from escrow that were \
exported under the former root, or one before it (leafseal keys import): export them again.

The holder of the former root and a copy of the keystore also has the keys of slots and apps, which --compromised does not replace. Add \
each slot again with leafseal slot add --replace, under a new key of the key service or a new passphrase. Rotate each app with leafseal \
keys rotate, then disable its older versions.

Examples:
  leafseal slot rotate-root
  leafseal slot rotate-root --compromised")]
    #[command(mut_arg("json", |it| it.help("Print one line of JSON: the id of the new root, its number, and how many keys were sealed")))]
    RotateRoot {
        /// Write no link to the new root
        #[arg(long)]
        compromised: bool,
        /// For how long running engines may follow
        #[arg(long, value_name = "SECONDS", default_value_t = 30, conflicts_with = "compromised")]
        link_seconds: u64,
        /// The form.
        #[command(flatten)]
        form: AnswerFormat,
    },
}

/// `leafseal slot add`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("kind").required(true)))]
pub(crate) struct SlotAddArguments {
    /// A root key in a file, created if it does not exist
    #[arg(long, value_name = "FILE", group = "kind")]
    pub root_key_file: Option<PathBuf>,
    /// A passphrase of 12 bytes or more in a private file; - reads it from the terminal or standard input
    #[arg(long, value_name = "FILE", group = "kind")]
    pub passphrase: Option<PathBuf>,
    /// Shares, which are printed once: N of M open the keystore
    #[arg(long, value_name = "N/M", group = "kind")]
    pub shares: Option<String>,
    /// The key of the Transit secrets engine that the settings of [transit] name
    #[arg(long, group = "kind")]
    pub transit: bool,
    /// The key of AWS KMS that the settings of [aws_kms] name
    #[arg(long, group = "kind")]
    pub aws_kms: bool,
    /// The key in the hardware security module that the settings of [pkcs11] name
    #[arg(long, group = "kind")]
    pub pkcs11: bool,
    /// The TPM of this machine, which the settings of [tpm2] name
    #[arg(long, group = "kind")]
    pub tpm2: bool,
    /// Memory that each guess of the passphrase takes
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "passphrase", value_parser = clap::value_parser!(u32).range(1..=2048))]
    pub argon2_memory: u32,
    /// Remove this slot in the same transaction
    #[arg(long, value_name = "ID")]
    pub replace: Option<String>,
    /// The form.
    #[command(flatten)]
    pub form: AnswerFormat,
}

impl SlotAddArguments {
    /// The service or device that is to keep the slot.
    pub(crate) fn custodian(&self) -> Option<Custodian> {
        let chosen = [
            (self.tpm2, Custodian::Tpm2),
            (self.pkcs11, Custodian::Pkcs11),
            (self.transit, Custodian::Transit),
            (self.aws_kms, Custodian::AwsKms),
        ];
        chosen.into_iter().find_map(|(is_chosen, custodian)| is_chosen.then_some(custodian))
    }
}
