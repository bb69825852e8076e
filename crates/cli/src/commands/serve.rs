//! `serve`: runs the engine with its listener until it is stopped.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use leafseal_config::Setting;
use leafseal_engine::Engine;
use leafseal_server::{FailureLogger, Server, ServerSettings, SharedRelayInformation, ShutdownReport, StartError};
use leafseal_service::EngineService;
use serde_json::json;
use tokio::time::interval;
use tracing::Level;

use crate::arguments::ServeArguments;
use crate::config::{CliConfiguration, KEYS};
use crate::context::RunContext;
use crate::descriptors;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::identity::{EXPIRY_PERIOD, IdentityFiles};
use crate::log;
use crate::output::print_json;
use crate::signals::{self, ReceivedSignal, StopSignals};
use crate::watched::WatchedFiles;

/// `leafseal serve`.
pub(super) fn run(context: &RunContext, arguments: &ServeArguments) -> CommandOutcome {
    log::start(context.config().log);
    let engine = if arguments.sealed { context.engine_or_sealed()? } else { context.engine()? };
    let mut settings = context.config().server.clone();
    settings.address = arguments.address.unwrap_or(settings.address);
    settings.operator.address = operator_address(context, settings.address);
    settings.api.address = arguments.api.or(settings.api.address);
    let has_api = settings.api.address.is_some();
    let files = |context: &RunContext| IdentityFiles::configured(context, has_api);
    files(context).remove_abandoned(context);
    let identity = files(context).read()?;
    settings.tls = identity.tls;
    settings.api.identity = identity.api;
    let warning = descriptors::fit_engine(&mut settings, 0, descriptors::raise()).map_err(CommandFailure::usage)?;
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    context.config().warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let relay_information = settings.api.relay.clone();
    relay_information.set(super::relay::information(context));
    let ready = |server: &Server| {
        server.watch_certificates(identity.certificates);
        if arguments.form.json { print_json(&addresses(server)) } else { Ok(()) }
    };
    let reloader = Reloader { context, relay_information, files, level: |context| context.config().log.level };
    until_stopped(engine, settings, ready, &reloader)
}

/// The parts of a running engine that a reload changes.
pub(super) struct Reloader<'c, F> {
    /// The folder and configuration that it runs with.
    pub context: &'c RunContext,
    /// The API's information about a relay.
    pub relay_information: SharedRelayInformation,
    /// Its certificates and keys under a configuration.
    pub files: F,
    /// The log level of a configuration.
    pub level: fn(&RunContext) -> Level,
}

impl<F: Fn(&RunContext) -> IdentityFiles> Reloader<'_, F> {
    /// Loads certificates and keys again, with the settings that were loaded last; logs the result.
    fn reload_files(&self, server: &Server, watched: &mut WatchedFiles, loaded: &RunContext) {
        match self.try_reload_files(server, loaded) {
            Ok(()) => tracing::info!("engine reloaded: certificates"),
            Err(failure) => {
                watched.retry();
                tracing::error!(%failure, "engine not reloaded: the previous certificates stay in use");
            }
        }
    }

    fn try_reload_files(&self, server: &Server, loaded: &RunContext) -> CommandOutcome {
        let identity = (self.files)(loaded).read()?;
        server.reload(&identity.tls, identity.api.as_ref())?;
        server.watch_certificates(identity.certificates);
        Ok(())
    }

    /// Reloads the configuration and the certificates; logs the result.
    fn reload(&self, server: &Server, watched: &mut WatchedFiles, loaded: &mut Option<RunContext>) {
        match self.try_reload(server) {
            Ok(fresh) => {
                watched.set(self.watched(&fresh));
                *loaded = Some(fresh);
                tracing::info!("engine reloaded: certificates and settings");
            }
            Err(failure) => {
                watched.retry();
                tracing::error!(%failure, "engine not reloaded: the previous certificates and settings stay in use");
            }
        }
    }

    fn try_reload(&self, server: &Server) -> CommandOutcome<RunContext> {
        let running = self.context;
        let fresh = running.reloaded()?;
        self.try_reload_files(server, &fresh)?;
        log::set_level((self.level)(&fresh));
        if let Some(information) = super::relay::information(&fresh) {
            self.relay_information.set(Some(information));
        }
        let keys = changed_keys(running, &fresh).join(",");
        if !keys.is_empty() {
            tracing::warn!(keys, "configuration keys have changed: applying them requires a restart");
        }
        Ok(fresh)
    }

    /// Whether a changed file of the configuration triggers a reload.
    fn reloads_configuration(&self) -> bool {
        self.context.config().files.reload_configuration
    }

    /// The files whose change triggers a reload.
    fn watched(&self, context: &RunContext) -> Vec<PathBuf> {
        let mut files = (self.files)(context).paths();
        if self.reloads_configuration() {
            files.extend([context.config_file(), context.folder().join(super::relay::RELAY_FILE)]);
        }
        files
    }
}

/// The address of the operator port for a listener at `listener`: if the system chooses the listener's port, it chooses the
/// operator port too, unless the configuration sets it.
pub(super) fn operator_address(context: &RunContext, listener: SocketAddr) -> Option<SocketAddr> {
    let configured = context.config().server.operator.address;
    let is_free = listener.port() == 0 && !context.loaded().is_set("operator.address");
    configured.map(|address| if is_free { SocketAddr::new(address.ip(), 0) } else { address })
}

/// The addresses of a running engine: `address`, and `operator` if that port is enabled.
pub(super) fn addresses(server: &Server) -> serde_json::Value {
    let mut addresses = json!({ "address": server.local_addr().to_string() });
    if let Some(operator) = server.operator_addr() {
        addresses["operator"] = operator.to_string().into();
    }
    if let Some(api) = server.api_addr() {
        addresses["api"] = api.to_string().into();
    }
    addresses
}

/// Keys that a running engine reloads: the log level, the files that are read again, and how their listeners use them.
const RELOADABLE: [&str; 19] = [
    "log.level",
    "server.certificate",
    "server.private_key",
    "server.private_key_batching",
    "server.private_key_batch_delay",
    "server.client_authorities",
    "server.session_lifetime",
    "server.session_ticket_keys",
    "server.tls_groups",
    "server.tls_require",
    "server.verified_chains_max",
    "server.verified_chains_age",
    "api.certificate",
    "api.private_key",
    "api.private_key_batching",
    "api.private_key_batch_delay",
    "api.session_lifetime",
    "api.tls_groups",
    "api.tls_require",
];

/// Keys that have changed since the start and require a restart.
fn changed_keys(running: &RunContext, fresh: &RunContext) -> Vec<&'static str> {
    let fixed = KEYS.iter().filter(|key| !RELOADABLE.contains(&key.name()));
    let has_changed = |key: &&Setting<CliConfiguration>| key.get(running.config()) != key.get(fresh.config());
    fixed.filter(has_changed).map(Setting::name).collect()
}

/// Serves, calls `ready`, and shuts down gracefully on SIGTERM, after `server.drain_delay`, or SIGINT, without it. A further signal skips
/// the rest of the delay, or else the wait for requests in flight. The value of `ready` is kept while it serves. Reloads on SIGHUP, and on
/// changes of its files if so configured.
pub(super) fn until_stopped<R>(
    engine: Engine,
    mut settings: ServerSettings,
    ready: impl FnOnce(&Server) -> CommandOutcome<R>,
    reloader: &Reloader<'_, impl Fn(&RunContext) -> IdentityFiles>,
) -> CommandOutcome {
    let runtime = signals::runtime()?;
    settings.audit.folder = settings.audit.folder.map(|folder| reloader.context.path(&folder));
    let service = EngineService::new(engine, settings.limits, settings.limits.frame_size_max)
        .unsealed_by(settings.unseal_rules())
        .observed_by(Arc::new(FailureLogger::new(settings.refusal_lines_max)));
    let (mut signals, mut hangups) = {
        let _context = runtime.enter();
        (StopSignals::listen()?, signals::hangups()?)
    };
    let server = Server::start(settings, Arc::new(service)).map_err(CommandFailure::from)?;
    let beside = ready(&server)?;
    let ending = runtime.block_on(async {
        let mut watched =
            WatchedFiles::new(reloader.context.config().files.reload_check, reloader.watched(reloader.context));
        let (mut expiry, mut loaded) = (interval(EXPIRY_PERIOD), None);
        loop {
            tokio::select! {
                ending = signals.next() => break ending,
                _ = hangups.recv() => {
                    watched.mark();
                    reloader.reload(&server, &mut watched, &mut loaded);
                }
                () = watched.changed() => match reloader.reloads_configuration() {
                    true => reloader.reload(&server, &mut watched, &mut loaded),
                    false => reloader.reload_files(&server, &mut watched, loaded.as_ref().unwrap_or(reloader.context)),
                },
                _ = expiry.tick() => server.log_expiring(),
            }
        }
    });
    if ending == ReceivedSignal::Terminate {
        runtime.block_on(signals.next_within(server.begin_shutdown()));
    }
    drop(beside);
    let mut stopping = runtime.spawn_blocking(move || server.shutdown());
    let report = runtime.block_on(async {
        tokio::select! {
            report = &mut stopping => Some(report),
            _ = signals.next() => None,
        }
    });
    // The thread of a shutdown that is not awaited ends with the process.
    runtime.shutdown_background();
    match report {
        Some(Ok(ShutdownReport { requests_abandoned: 0, .. })) => Ok(()),
        Some(Ok(ShutdownReport { requests_abandoned, .. })) => Err(CommandFailure::failed(format!(
            "{requests_abandoned} requests did not finish within server.drain_timeout and were answered with an error"
        ))),
        Some(Err(error)) => Err(CommandFailure::internal(format!("the shutdown failed: {error}"))),
        None => {
            Err(CommandFailure::failed("another signal came during the shutdown: requests in flight were abandoned"))
        }
    }
}

impl From<StartError> for CommandFailure {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::Listen { setting, address, error } => {
                let advice = match error.kind() {
                    ErrorKind::AddrInUse => {
                        format!("another program uses that port; choose another with {setting} or a flag")
                    }
                    ErrorKind::PermissionDenied => "ports below 1024 require a privilege; choose another".to_owned(),
                    ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
                    _ => format!("choose another with {setting}"),
                };
                let message = format!("cannot listen on {address}: {}", crate::failure::plain(error));
                Self::unreachable(message).advise(advice)
            }
            StartError::Settings(_) | StartError::Tls(_) | StartError::Api(_) | StartError::ApiIdentity(_) => {
                Self::usage(error.to_string())
            }
            StartError::Peer(_) | StartError::Audit(_) => Self::failed(error.to_string()),
            StartError::Threads(_) => CommandFailure::internal(error.to_string()),
        }
    }
}
