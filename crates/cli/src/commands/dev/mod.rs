//! `dev`: a local engine for development, with its API and a relay. Creates what is missing in the folder, and keeps what exists.

mod ports;
mod relay;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use leafseal_engine::Engine;
use leafseal_engine::admin::{AcceptedSchemes, AppName, Apps, ClientName, Keystore, NewKeys, Operation, Roles};
use leafseal_net::tls::LEAF_DAYS;
use leafseal_server::Server;

use crate::arguments::DevArguments;
use crate::certificates::read_certificate;
use crate::commands::certs::{Grant, Pinning, init, issue, local_names, present_names, union};
use crate::commands::serve::{Reloader, addresses, until_stopped};
use crate::config::LogSettings;
use crate::context::RunContext;
use crate::descriptors;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::identity::IdentityFiles;
use crate::log;
use crate::output::{print, print_json};
use ports::Ports;
use relay::DevRelay;

/// The client that `dev` creates.
const CLIENT: &str = "dev";
/// Certificates with fewer days left are renewed.
const DAYS_LEFT_MIN: u64 = 1;

/// `leafseal dev`.
pub(super) fn run(context: &RunContext, arguments: &DevArguments) -> CommandOutcome {
    let app = AppName::parse(&arguments.app)?;
    let ports = Ports::chosen(context, arguments);
    // Before anything is created: a user who sees a conflict can just start again.
    ports.check()?;
    let store = context.store_or_new()?;
    if store.app_summary(&app)?.is_none() {
        store.create_app(&app, NewKeys::generated())?;
    }
    make_certificates(context)?;
    let (certificate, key) = make_client(context, &*store, &app)?;
    let folder = context.certificates();
    let authority = folder.join("ca.pem");
    let mut settings = context.config().server.clone();
    let files = dev_files;
    files(context).remove_abandoned(context);
    let identity = files(context).read()?;
    settings.tls = identity.tls;
    settings.address = ports.engine;
    settings.operator.address = ports.operator;
    settings.api.address = ports.api;
    settings.api.identity = identity.api;
    if !context.loaded().is_set("server.drain_delay") {
        // There is no load balancer that needs time to switch.
        settings.drain_delay = Duration::ZERO;
    }
    let relay_information = settings.api.relay.clone();
    if !arguments.no_relay {
        // A user who runs their own relay with the folder's engine has configured it.
        relay_information.set(match super::relay::information(context) {
            Some(information) => Some(information),
            None => Some(relay::information(context)?),
        });
    }
    let limit = descriptors::raise();
    let beside = if arguments.no_relay { 0 } else { relay::descriptors(limit) };
    let warning = descriptors::fit_engine(&mut settings, beside, limit).map_err(CommandFailure::usage)?;
    log::start(quiet_unless_asked(context));
    warning.iter().for_each(|warning| tracing::warn!("{warning}"));
    let engine = Engine::new(store, context.config().engine.clone());
    let ready = |server: &Server| {
        server.watch_certificates(identity.certificates);
        let start = |ports| DevRelay::start(context, server.local_addr(), app.as_str(), ports, limit);
        let relay = ports.relay.map(start).transpose()?;
        let ready = Ready { server, relay: relay.as_ref(), app: &app, authority, certificate, key };
        if arguments.form.json { print_json(&ready.json()) } else { print(&ready.text(context)) }?;
        Ok(relay)
    };
    until_stopped(
        engine,
        settings,
        ready,
        &Reloader { context, relay_information, files, level: |context| quiet_unless_asked(context).level },
    )
}

/// The certificates that `dev` creates, with the configured settings.
fn dev_files(context: &RunContext) -> IdentityFiles {
    let [chain, key, authorities] =
        ["server.pem", "server.key", "ca.pem"].map(|name| context.certificates().join(name));
    let api = Some((chain.clone(), key.clone()));
    IdentityFiles { chain, key, authorities, api, ..IdentityFiles::configured(context, true) }
}

/// During development only problems are logged, unless a log level is set.
fn quiet_unless_asked(context: &RunContext) -> LogSettings {
    let log = context.config().log;
    if context.loaded().is_set("log.level") { log } else { LogSettings { level: tracing::Level::WARN, ..log } }
}

fn make_certificates(context: &RunContext) -> CommandOutcome {
    let folder = context.certificates();
    if is_fresh(&folder.join("server.pem"))? && folder.join("server.key").exists() && folder.join("ca.pem").exists() {
        return Ok(());
    }
    let names = union(present_names(&folder)?, local_names());
    init(&folder, &names, LEAF_DAYS).map(|_| ())
}

fn is_fresh(path: &Path) -> CommandOutcome<bool> {
    Ok(path.exists() && read_certificate(path)?.days_left(SystemTime::now()) >= DAYS_LEFT_MIN)
}

/// Ensures that the client `dev` has a valid certificate and a grant that covers the app.
fn make_client(context: &RunContext, store: &dyn Keystore, app: &AppName) -> CommandOutcome<(PathBuf, PathBuf)> {
    let folder = context.certificates();
    let name = ClientName::parse(CLIENT).expect("a name by its rule");
    let (certificate, key) = (folder.join("dev.pem"), folder.join("dev.key"));
    let grant = store.client(&name)?;
    let operations = BTreeSet::from([Operation::Encrypt, Operation::Decrypt]);
    let covers = |operation| grant.as_ref().is_some_and(|grant| grant.allows(operation, app));
    let is_granted = operations.iter().all(|&operation| covers(operation));
    if is_granted && key.exists() && is_fresh(&certificate)? {
        let pinned = grant.as_ref().and_then(|grant| grant.certificate_sha256);
        if pinned.is_none_or(|pinned| read_certificate(&certificate).is_ok_and(|found| found.sha256 == pinned)) {
            return Ok((certificate, key));
        }
    }
    let apps = match grant.map(|grant| grant.apps) {
        Some(Apps::All) => Apps::All,
        Some(Apps::Only(mut apps)) => {
            apps.insert(app.clone());
            Apps::Only(apps)
        }
        None => Apps::Only(BTreeSet::from([app.clone()])),
    };
    let grant = Grant { apps, operations, roles: Roles::Any, accept: AcceptedSchemes::ALL, pinning: Pinning::ThisOne };
    issue(context, store, &name, grant, LEAF_DAYS)
}

/// The information that clients of the engine need.
struct Ready<'a> {
    server: &'a Server,
    relay: Option<&'a DevRelay>,
    app: &'a AppName,
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Ready<'_> {
    fn json(&self) -> serde_json::Value {
        let path = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string();
        let mut reported = addresses(self.server);
        reported["app"] = self.app.as_str().into();
        if let Some(relay) = self.relay {
            reported["relay"] = relay.json();
        }
        let files = [("ca", &self.authority), ("certificate", &self.certificate), ("key", &self.key)];
        files.into_iter().for_each(|(name, file)| reported[name] = path(file).into());
        reported
    }

    fn text(&self, context: &RunContext) -> String {
        let (address, app, folder) = (self.server.local_addr(), self.app, context.folder().display());
        let operator = self.server.operator_addr();
        let metrics = operator.map_or_else(String::new, |operator| format!("metrics      http://{operator}/metrics\n"));
        let folder_of_keys = context.folder().display();
        let api = self.server.api_addr().map_or_else(String::new, |api| {
            let ca = self.authority.display();
            format!(
                "Over HTTPS:\n\n  \
                 KEY=$(leafseal --dir {folder_of_keys} api-keys create {app} --allow encrypt,decrypt,inspect,client-side-tokens)\n  \
                 curl --cacert {ca} -u {app}:$KEY --json '{{\"card\": \"4111\"}}' https://{api}/encrypt\n  \
                 curl --cacert {ca} -H 'x-evervault-app-id: {app}' https://{api}/keys\n\n"
            )
        });
        let relay = self.relay.map_or_else(String::new, |relay| {
            relay.text(self.app.as_str(), &self.authority, &context.certificates(), self.server.api_addr())
        });
        format!(
            "The engine listens on {address}. Stop it with Ctrl-C. In another terminal:\n\n  \
             leafseal --dir {folder} encrypt --app {app} --connect {address} --select '$.card.number' FILE.json\n  \
             leafseal --dir {folder} info --connect {address}\n\n{api}{relay}\
             app          {app}\nauthority    {}\ncertificate  {}\nkey          {}\n{metrics}",
            self.authority.display(),
            self.certificate.display(),
            self.key.display()
        )
    }
}
