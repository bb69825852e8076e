//! `serve`: the engine behind its listener until it is told to stop.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use fieldseal_engine::Engine;
use fieldseal_server::{
    EngineService, RelayTold, Server, ServerIdentity, ServerSettings, ShutdownReport, StartError, TlsSettings,
};
use serde_json::json;

use crate::arguments::ServeArguments;
use crate::config::{KEYS, Key};
use crate::context::Context;
use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::output::print_json;
use crate::signals::{self, Signals};

/// `fieldseal serve`.
pub fn run(context: &Context, arguments: &ServeArguments) -> Outcome {
    let engine = context.engine()?;
    let certificates = &context.config().certificates;
    let [chain, key, authorities] =
        [&certificates.certificate, &certificates.private_key, &certificates.client_authorities]
            .map(|configured| context.path(configured));
    let mut settings = context.config().server.clone();
    settings.tls = tls(&chain, &key, &authorities)?;
    settings.address = arguments.address.unwrap_or(settings.address);
    settings.operator.address = operator_address(context, settings.address);
    settings.api.address = arguments.api.or(settings.api.address);
    if settings.api.address.is_some() {
        settings.api.identity = Some(api_identity(
            &context.path(&certificates.api_certificate),
            &context.path(&certificates.api_private_key),
        )?);
    }
    let warning = descriptors::fit_engine(&mut settings, 0, descriptors::raise()).map_err(Failure::usage)?;
    log::start(context.config().log);
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    context.config().warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    let told = settings.api.relay.clone();
    told.tell(super::relay::information(context));
    let ready = |server: &Server| if arguments.form.json { print_json(&addresses(server)) } else { Ok(()) };
    until_stopped(engine, settings, ready, || tell_anew(context, &told))
}

/// What the API tells of the relay is read anew, as the relay itself does it. Where the file cannot be read the old holds.
pub fn tell_anew(context: &Context, told: &RelayTold) {
    if let Some(information) = super::relay::information(context) {
        told.tell(Some(information));
        tracing::info!("the API tells what the relay's file says now");
    }
}

/// Where the operator port of a listener at `listener` shall be: whoever lets the system choose one port has no use for a fixed
/// other one, unless the configuration names it.
pub fn operator_address(context: &Context, listener: SocketAddr) -> Option<SocketAddr> {
    let configured = context.config().server.operator.address;
    let is_free = listener.port() == 0 && !context.loaded().is_set("operator.address");
    configured.map(|address| if is_free { SocketAddr::new(address.ip(), 0) } else { address })
}

/// Where a running engine is reached: `address`, and `operator` where it has that port.
pub fn addresses(server: &Server) -> serde_json::Value {
    let mut addresses = json!({ "address": server.local_addr().to_string() });
    if let Some(operator) = server.operator_addr() {
        addresses["operator"] = operator.to_string().into();
    }
    if let Some(api) = server.api_addr() {
        addresses["api"] = api.to_string().into();
    }
    addresses
}

/// Reads what the listener presents and whom it believes.
pub fn tls(chain: &Path, key: &Path, authorities: &Path) -> Outcome<TlsSettings> {
    TlsSettings::from_files(chain, key, authorities).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => {
                "fieldseal certs init makes certificates; server.certificate, server.private_key and \
                                    server.client_authorities name others"
            }
            _ => "it must be readable for whoever runs the engine",
        };
        Failure::usage(crate::failure::plain(&error)).advise(advice)
    })
}

/// Keys whose values a running engine does not take up and that are no longer what it runs with.
fn changed_keys(running: &Context, fresh: &Context) -> Vec<&'static str> {
    let value = |key: &Key, context: &Context| key.kind.write(&(key.get)(context.config()));
    let fixed = KEYS.iter().filter(|key| !RELOADABLE.contains(&key.name));
    fixed.filter(|key| value(key, running) != value(key, fresh)).map(|key| key.name).collect()
}

/// Serves, says so by `ready`, and ends in good order on SIGINT or SIGTERM; on a second one, at once.
/// What `ready` returns lives as long as it serves; `hangup` is called at each SIGHUP.
pub fn until_stopped<R>(
    engine: Engine,
    settings: ServerSettings,
    ready: impl FnOnce(&Server) -> Outcome<R>,
    hangup: impl Fn(),
) -> Outcome {
    let runtime = signals::runtime()?;
    let service = EngineService::new(engine, settings.limits, settings.limits.frame_size_max)
        .with_failure_lines(settings.refusal_lines_max);
    let (mut signals, mut hangups) = {
        let _context = runtime.enter();
        (Signals::listen()?, signals::hangups()?)
    };
    let server = Server::start(settings, Arc::new(service)).map_err(Failure::from)?;
    let beside = ready(&server)?;
    runtime.block_on(async {
        loop {
            tokio::select! {
                () = signals.next() => break,
                _ = hangups.recv() => hangup(),
            }
        }
    });
    drop(beside);
    let mut stopping = runtime.spawn_blocking(move || server.shutdown());
    let report = runtime.block_on(async {
        tokio::select! {
            report = &mut stopping => Some(report),
            () = signals.next() => None,
        }
    });
    // The thread of a shutdown that is not waited for ends with the process.
    runtime.shutdown_background();
    match report {
        Some(Ok(ShutdownReport { requests_abandoned: 0, .. })) => Ok(()),
        Some(Ok(ShutdownReport { requests_abandoned, .. })) => Err(Failure::failed(format!(
            "{requests_abandoned} requests were not finished within server.drain_timeout and were told so"
        ))),
        Some(Err(error)) => Err(Failure::internal(format!("the shutdown failed: {error}"))),
        None => Err(Failure::failed("a second signal came during the shutdown: requests in work were not waited for")),
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::Listen { setting, address, error } => {
                let advice = match error.kind() {
                    ErrorKind::AddrInUse => {
                        format!("another program has that port; choose another with {setting} or a flag")
                    }
                    ErrorKind::PermissionDenied => "ports below 1024 need a privilege; choose another".to_owned(),
                    ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
                    _ => format!("choose another with {setting}"),
                };
                let message = format!("cannot listen on {address}: {}", crate::failure::plain(error));
                Self::unreachable(message).advise(advice)
            }
            StartError::Settings(_) | StartError::Tls(_) | StartError::Api(_) | StartError::ApiIdentity(_) => {
                Self::usage(error.to_string())
            }
            StartError::Threads(_) => Failure::internal(error.to_string()),
        }
    }
}
