//! `relay`: runs the HTTP relay until it is stopped; reloads its file on SIGHUP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use leafseal_engine::admin::remove_abandoned_in;
use leafseal_relay::policy::route::HostPattern;
use leafseal_relay::{AccessLog, Configuration, Relay, RelayError};
use leafseal_server::{RelayDestination, RelayInformation};
use serde_json::json;
use tokio::time::interval;

use crate::access_log::LineWriter;
use crate::allocator;
use crate::arguments::RelayArguments;
use crate::context::RunContext;
use crate::descriptors;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::identity::EXPIRY_PERIOD;
use crate::log;
use crate::output::print_json;
use crate::signals::{self, ReceivedSignal, StopSignals};
use crate::watched::WatchedFiles;

/// The configuration's name in the folder.
pub(super) const RELAY_FILE: &str = "relay.toml";
/// Maximum size of such a file in bytes.
const FILE_SIZE_MAX: u64 = 4 << 20;
/// Interval at which SDKs poll the destinations.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// `leafseal relay`.
pub(super) fn run(context: &RunContext, arguments: &RelayArguments) -> CommandOutcome {
    let file = arguments.file.clone().unwrap_or_else(|| context.folder().join(RELAY_FILE));
    let configuration = read(&file)?;
    remove_abandoned_in(&context.certificates());
    allocator::set_wiping(configuration.process.wipe_buffers || context.config().memory.wipe_buffers);
    log::start(context.config().log);
    let configuration = fitted(configuration)?;
    warn(&configuration, &file);
    let size_max = configuration.process.access_log_size_max;
    let access_log = Arc::new(LineWriter::start(&arguments.access_log, context.config().log.format, size_max)?);
    signals::runtime()?.block_on(async {
        let (mut hangups, mut signals) = (signals::hangups()?, StopSignals::listen()?);
        let log = Arc::<LineWriter>::clone(&access_log) as Arc<dyn AccessLog>;
        let reload_check = configuration.process.reload_check;
        let reloads_configuration = configuration.process.reload_configuration;
        let mut watched = WatchedFiles::new(reload_check, watched_files(&configuration, context, &file));
        let relay = Relay::start(configuration, context.folder(), Some(log))?;
        if arguments.form.json {
            print_json(&addresses(&relay))?;
        }
        relay.log_expiring();
        let mut expiry = interval(EXPIRY_PERIOD);
        let ending = loop {
            tokio::select! {
                _ = hangups.recv() => {
                    access_log.reopen();
                    watched.mark();
                    reload(&relay, context, &file, &mut watched);
                }
                () = watched.changed() => match reloads_configuration {
                    true => reload(&relay, context, &file, &mut watched),
                    false => reload_files(&relay, &mut watched),
                },
                _ = expiry.tick() => relay.log_expiring(),
                ending = signals.next() => break ending,
            }
        };
        if ending == ReceivedSignal::Terminate {
            signals.next_within(relay.begin_shutdown()).await;
        }
        let mut stopping = tokio::task::spawn_blocking(move || relay.shutdown());
        let left = tokio::select! {
            left = &mut stopping => left,
            _ = signals.next() => return Err(at_once()),
        };
        match left {
            Ok(Ok(0)) => Ok(()),
            Ok(Ok(left)) => {
                Err(CommandFailure::failed(format!("{left} connections did not finish within relay.drain_timeout")))
            }
            Ok(Err(error)) => Err(CommandFailure::internal(format!("the shutdown failed: {error}"))),
            Err(error) => Err(CommandFailure::internal(format!("the shutdown failed: {error}"))),
        }
    })
}

/// Reads and validates the file.
///
/// # Errors
/// All its problems, one per line.
pub(super) fn read(file: &Path) -> CommandOutcome<Configuration> {
    match examine(file)? {
        (Some(configuration), problems) if problems.is_empty() => Ok(configuration),
        (_, problems) => Err(CommandFailure::usage(problems.join("\n"))),
    }
}

/// The readable part of the file, and its problems, each with the file's name.
///
/// # Errors
/// If the file cannot be read or is too large.
pub(super) fn examine(file: &Path) -> CommandOutcome<(Option<Configuration>, Vec<String>)> {
    let reading = |error: std::io::Error| {
        CommandFailure::reading(file, &error)
            .advise("name another with --file; docs/relay-settings.md describes its format")
    };
    let size = std::fs::metadata(file).map_err(reading)?.len();
    if size > FILE_SIZE_MAX {
        return Err(CommandFailure::usage(format!(
            "{}: a relay configuration must be at most {FILE_SIZE_MAX} bytes",
            file.display()
        )));
    }
    let text = std::fs::read_to_string(file).map_err(reading)?;
    let (configuration, problems) = Configuration::examine(&text);
    let problems = problems.iter().map(|problem| format!("{}:{problem}", file.display())).collect();
    Ok((configuration, problems))
}

/// The API's information for SDKs about the outbound relay in DIR/relay.toml, if there is one. The relay itself reports errors of the file:
/// here they are only logged.
pub(super) fn information(context: &RunContext) -> Option<RelayInformation> {
    let file = context.folder().join(RELAY_FILE);
    if !file.exists() {
        return None;
    }
    let configuration = match read(&file) {
        Ok(configuration) => configuration,
        Err(failure) => {
            tracing::warn!(%failure, "the API announces no relay: the relay's configuration is unusable");
            return None;
        }
    };
    let outbound = configuration.outbound.first()?;
    let hosts = outbound.destinations.iter().flat_map(|destination| &destination.hosts);
    let reported = |(index, host): (usize, &HostPattern)| RelayDestination {
        id: format!("{}-{index}", outbound.name),
        domain: host.to_string(),
    };
    let destinations = hosts.enumerate().map(reported).collect();
    let certificate = context.path(&outbound.authority.certificate);
    let ca_pem = match std::fs::read(&certificate) {
        Ok(pem) => Some(pem),
        Err(error) => {
            tracing::warn!(file = %certificate.display(), %error, "the API omits the relay's authority: its certificate cannot be read");
            None
        }
    };
    Some(RelayInformation { destinations, ca_pem, poll_interval: POLL_INTERVAL })
}

/// The addresses of a running relay.
pub(super) fn addresses(relay: &Relay) -> serde_json::Value {
    let mut reported = json!({ "operator": relay.operator_address().to_string() });
    for address in relay.addresses() {
        reported[&*address.listener] = address.address.to_string().into();
    }
    reported
}

/// Reduces limits to fit the descriptor limit.
fn fitted(mut configuration: Configuration) -> CommandOutcome<Configuration> {
    let warning = descriptors::fit_relay(&mut configuration, descriptors::raise()).map_err(CommandFailure::usage)?;
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    Ok(configuration)
}

/// The files whose change triggers a reload.
fn watched_files(configuration: &Configuration, context: &RunContext, file: &Path) -> Vec<PathBuf> {
    let mut files = leafseal_relay::files(configuration, context.folder());
    if configuration.process.reload_configuration {
        files.extend([file.to_owned(), context.config_file()]);
    }
    files
}

fn reload(relay: &Relay, context: &RunContext, file: &Path, watched: &mut WatchedFiles) {
    let outcome = read(file).and_then(|configuration| {
        warn(&configuration, file);
        let fresh = context.reloaded()?;
        let files = watched_files(&configuration, context, file);
        relay.reload(fitted(configuration)?)?;
        log::set_level(fresh.config().log.level);
        watched.set(files);
        relay.log_expiring();
        Ok(())
    });
    match outcome {
        Ok(()) => tracing::info!(file = %file.display(), "relay reloaded: configuration and certificates"),
        Err(failure) => {
            watched.retry();
            tracing::error!(%failure, "relay not reloaded: the previous configuration stays in use");
        }
    }
}

/// Loads certificates and keys again, with the configuration in use.
fn reload_files(relay: &Relay, watched: &mut WatchedFiles) {
    match relay.reload_files() {
        Ok(()) => {
            relay.log_expiring();
            tracing::info!("relay reloaded: certificates");
        }
        Err(error) => {
            watched.retry();
            tracing::error!(%error, "relay not reloaded: the previous certificates stay in use");
        }
    }
}

/// Warns of settings that are valid but probably unintended.
fn warn(configuration: &Configuration, file: &Path) {
    for warning in &configuration.warnings {
        tracing::warn!(file = %file.display(), line = warning.line, "{}", warning.message);
    }
}

fn at_once() -> CommandFailure {
    CommandFailure::failed("another signal came during the shutdown: requests in flight were abandoned")
}

impl From<RelayError> for CommandFailure {
    fn from(error: RelayError) -> Self {
        match &error {
            RelayError::Listen { address, error } => {
                let message = format!("cannot listen at {address}: {}", crate::failure::plain(error));
                Self::unreachable(message).advise("choose another address, or stop the program that uses it")
            }
            RelayError::File { path, error } => Self::reading(path, error),
            RelayError::Engine(error) => Self::from(error.clone()).at("section [engine]"),
            RelayError::Thread(_) => CommandFailure::internal(error.to_string()),
            _ => Self::usage(error.to_string()),
        }
    }
}
