//! Arguments of `audit`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{AnswerFormat, time};

/// `leafseal audit`.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Verify an audit log: signatures, every record and every file, and that nothing was cut off or replaced
    Verify(VerifyLogArguments),
    /// Print the records of audit logs, each checked, in the order of their times
    Show(ShowLogArguments),
    /// Write the records of audit logs for other systems, each checked, as JSON Lines
    Export(ExportLogArguments),
    /// Write a proof that one record is in an audit log
    Prove(ProveRecordArguments),
    /// Check a proof of one record, and print the record
    Check(CheckProofArguments),
    /// Remove old records of an audit log, with a signed statement from which one on the log still is
    Prune(PruneLogArguments),
}

/// Which log.
#[derive(Debug, Args)]
pub(crate) struct LogPlace {
    /// Folder of a log: it has a file "checkpoint"
    #[arg(value_name = "FOLDER", required = true)]
    pub folders: Vec<PathBuf>,
    /// Public key of the log, as the engine prints it in its own log when it starts; without one, the key comes from the keystore
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Origin that each log must have, the first part of its key, such as leafseal/…/engine-0/1/3f9c0a1b2c3d4e5f. Without one, and without
    /// --key, the folder must have the name that its engine gives it
    #[arg(long, value_name = "ORIGIN")]
    pub origin: Option<String>,
}

/// `leafseal audit verify`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal audit verify audit/engine-0-1-3f9c0a1b2c3d4e5f
  leafseal audit verify audit/engine-0-1-3f9c0a1b2c3d4e5f --kept checkpoint-of-monday --key leafseal/…+7c5d2f10+AX…

A checkpoint that was kept where the log's host could not change it shows that the log was not cut off or replaced since.
Exit code 1: the log is not what it was, or has removed so many records that a kept checkpoint is too old to be compared.")]
#[command(mut_arg("json", |it| it.help("Print a line of JSON for each log: its origin, the records by kind, and the faults")))]
pub(crate) struct VerifyLogArguments {
    #[command(flatten)]
    pub place: LogPlace,
    /// Checkpoint that was kept elsewhere, a copy of the log's file \"checkpoint\"; may be repeated
    #[arg(long, value_name = "FILE")]
    pub kept: Vec<PathBuf>,
    /// Number of the first record that must be there; if not given, the first that the log's signed statement does not name as pruned
    #[arg(long, value_name = "N")]
    pub minimum: Option<u64>,
    /// Public key of a witness that cosigns the log; may be repeated
    #[arg(long, value_name = "KEY")]
    pub witness: Vec<String>,
    /// How many of the witnesses must have cosigned one checkpoint; all of them if not given
    #[arg(long, value_name = "N", requires = "witness")]
    pub witnesses_min: Option<usize>,
    /// How long ago they must have cosigned it at the latest, such as 15m: an older checkpoint does not show the newest records. Engines
    /// ask their witnesses every 5 minutes, also if there are no new records
    #[arg(long, value_name = "DURATION", requires = "witness", value_parser = time)]
    pub witnessed_within: Option<Duration>,
    #[command(flatten)]
    pub form: AnswerFormat,
}

/// `leafseal audit show`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal audit show audit/engine-0-1-3f9c0a1b2c3d4e5f --from 2026-11-28T09:00:00Z --to 2026-11-28T10:00:00Z --client shop
  leafseal audit show audit/* --app acme --outcome forbidden")]
pub(crate) struct ShowLogArguments {
    #[command(flatten)]
    pub place: LogPlace,
    #[command(flatten)]
    pub filter: RecordFilter,
}

/// Which records.
#[derive(Debug, Args)]
pub(crate) struct RecordFilter {
    /// Records from this time on, such as 2026-11-28T09:00:00Z
    #[arg(long, value_name = "TIME")]
    pub from: Option<String>,
    /// Records before this time
    #[arg(long, value_name = "TIME")]
    pub to: Option<String>,
    /// Records of this client
    #[arg(long, value_name = "NAME")]
    pub client: Option<String>,
    /// Records about this app
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// Records with this outcome: ok, or an error code
    #[arg(long, value_name = "CODE")]
    pub outcome: Option<String>,
    /// Records of this kind, such as request, refusal or pruned
    #[arg(long, value_name = "KIND")]
    pub kind: Option<String>,
}

/// `leafseal audit export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal audit export audit/* --format ocsf --from 2026-11-28T09:00:00Z > records.jsonl
  leafseal audit export audit/engine-0-1-3f9c0a1b2c3d4e5f --format ecs --follow | filebeat -e

Each line has the log's origin, the record's number and its exact bytes, so that the record can be proved.")]
pub(crate) struct ExportLogArguments {
    #[command(flatten)]
    pub place: LogPlace,
    /// Form of a line: the record as it is, OCSF 1.8.0, or ECS 9.1.0
    #[arg(long, value_enum)]
    pub format: RecordFormat,
    #[command(flatten)]
    pub filter: RecordFilter,
    /// Go on with new records as they are signed, until interrupted
    #[arg(long)]
    pub follow: bool,
}

/// The form of an exported record.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RecordFormat {
    /// The record as it is, with the log's origin and the record's number and hash
    Json,
    /// Open Cybersecurity Schema Framework 1.8.0
    Ocsf,
    /// Elastic Common Schema 9.1.0
    Ecs,
}

/// `leafseal audit prove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafseal audit prove audit/engine-0-1-3f9c0a1b2c3d4e5f 1234 > record.tlog-proof

The proof has the record, the hashes that lead from it to the root, and the signed checkpoint (C2SP tlog-proof). Whoever has the log's key
checks it with `audit check`, without the log.")]
pub(crate) struct ProveRecordArguments {
    /// Folder of a log: it has a file "checkpoint"
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Number of the record, as `audit export` writes it
    #[arg(value_name = "INDEX")]
    pub index: u64,
    /// Public key of the log; without one, the key comes from the keystore
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// `leafseal audit check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  leafseal audit check record.tlog-proof --key leafseal/…+7c5d2f10+AX…

Exit code 1: the record is not in the log.")]
pub(crate) struct CheckProofArguments {
    /// Proof that `audit prove` has written
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Public key of the log, from a trustworthy place
    #[arg(long, value_name = "KEY")]
    pub key: String,
}

/// `leafseal audit prune`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  leafseal audit prune audit/engine-0-1-3f9c0a1b2c3d4e5f --before 2026-01-01T00:00:00Z
  leafseal audit prune audit/engine-0-1-3f9c0a1b2c3d4e5f --keep 1000000

The engine must not run, since a log has one writer. An engine that runs prunes its log itself with audit.retention_days.
Records are removed in bundles of 256. The statement is signed with the log's key, from the keystore.")]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct PruneLogArguments {
    /// Folder of a log: it has a file "checkpoint"
    #[arg(value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Remove records from before this time, such as 2026-11-28T09:00:00Z
    #[arg(long, value_name = "TIME", group = "which")]
    pub before: Option<String>,
    /// Remove all but this number of newest records
    #[arg(long, value_name = "N", group = "which")]
    pub keep: Option<u64>,
}
