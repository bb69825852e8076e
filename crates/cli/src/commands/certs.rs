//! `certs`: the authority, the server's certificate, clients' certificates and their grants.
//!
//! Files are in DIR/certs: `ca.pem`, `server.pem` and one `CLIENT.pem` for each client, each with its `.key` beside it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use leafseal_engine::admin::{
    AcceptedSchemes, AppName, Apps, ClientGrant, ClientName, Keystore, NewClient, Operation, ReplacedCertificate,
    RoleName, Roles,
};
use leafseal_net::tls::{CertificateAuthority, CertificateError, CertificateInspection, ServerName, Validity, inspect};
use leafseal_server::issue_client;
use serde_json::{Value, json};

use super::renewal::{self, RenewalRequest};
use crate::accepted;
use crate::arguments::{Allowed, AnswerFormat, CertsCommand};
use crate::certificates::{
    authority, certificate_files, is_reserved, read_certificate, write_issued, write_key, write_pem,
};
use crate::context::{RunContext, make_folder};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;
use crate::output::{print, print_json};
use leafseal_net::utc;

/// `leafseal certs`.
pub(super) fn run(context: &RunContext, command: CertsCommand) -> CommandOutcome {
    match command {
        CertsCommand::Init { name, ip, only, days } => {
            let folder = context.certificates();
            let names = server_names(&folder, &name, &ip, only)?;
            let made = init(&folder, &names, days)?;
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            note(format_args!("server.pem is issued for {}", names.join(", ")));
            print(&made.iter().map(|path| format!("{}\n", path.display())).collect::<String>())
        }
        CertsCommand::Issue { client, app, all_apps, allow, role, accept, days, unpinned, form } => {
            let name = client_name(&client)?;
            let grant = Grant {
                apps: if all_apps { Apps::All } else { Apps::Only(parsed(&app, AppName::parse)?) },
                operations: allow.into_iter().map(operation).collect(),
                roles: if role.is_empty() { Roles::Any } else { Roles::Only(parsed(&role, RoleName::parse)?) },
                accept: accept.unwrap_or_default(),
                pinning: if unpinned { Pinning::AnyOfTheName } else { Pinning::ThisOne },
            };
            let (certificate, key) = issue(context, &*store(context)?, &name, grant, days)?;
            if form.json {
                return print_json(&json!({ "client": client, "certificate": path(&certificate), "key": path(&key) }));
            }
            print(&format!("{}\n{}\n", certificate.display(), key.display()))
        }
        CertsCommand::Renew { name, within, days, overlap, form } => {
            renewal::run(context, &RenewalRequest { names: &name, within, days, overlap }, form)
        }
        CertsCommand::RelayCa => {
            let (certificate, key) = relay_authority(&context.certificates())?;
            print(&format!("{}\n{}\n", certificate.display(), key.display()))
        }
        CertsCommand::List { form } => list(context, form),
        CertsCommand::Revoke { client } => {
            context.store()?.disable_client(&ClientName::parse(&client)?)?;
            print(&format!("revoked {client}: running engines refuse it within seconds\n"))
        }
    }
}

fn store(context: &RunContext) -> CommandOutcome<Box<dyn Keystore>> {
    context.store()
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

fn parsed<T: Ord, E: Into<CommandFailure>>(
    texts: &[String],
    parse: impl Fn(&str) -> Result<T, E>,
) -> CommandOutcome<BTreeSet<T>> {
    texts.iter().map(|text| parse(text).map_err(Into::into)).collect()
}

fn operation(allowed: Allowed) -> Operation {
    match allowed {
        Allowed::Encrypt => Operation::Encrypt,
        Allowed::Decrypt => Operation::Decrypt,
    }
}

/// Parses a client name that does not conflict with our own files.
fn client_name(text: &str) -> CommandOutcome<ClientName> {
    if is_reserved(text) {
        return Err(CommandFailure::usage(format!(
            "{text} is a reserved name: a client must not be named ca, server or relay-ca"
        )));
    }
    Ok(ClientName::parse(text)?)
}

/// The names of the server's certificate: the existing ones plus `names` and `addresses`; with `only`, just the new ones. This machine's
/// names if there are none.
fn server_names(folder: &Path, names: &[String], addresses: &[IpAddr], only: bool) -> CommandOutcome<Vec<ServerName>> {
    let present = if only { Vec::new() } else { present_names(folder)? };
    let names = names.iter().map(|name| ServerName::parse(name));
    let added = names.chain(addresses.iter().map(|&address| ServerName::Ip(address)));
    let all = union(present, added);
    Ok(if all.is_empty() { local_names() } else { all })
}

/// The names in the existing server certificate; empty if there is none.
pub(super) fn present_names(folder: &Path) -> CommandOutcome<Vec<ServerName>> {
    let file = folder.join("server.pem");
    if !file.exists() {
        return Ok(Vec::new());
    }
    let inspection = read_certificate(&file);
    Ok(inspection
        .map_err(|failure| failure.advise("add --only to replace it with one for the given names only"))?
        .names)
}

/// `names` and those of `added` that it does not contain.
pub(super) fn union(mut names: Vec<ServerName>, added: impl IntoIterator<Item = ServerName>) -> Vec<ServerName> {
    for name in added {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The names of the local machine.
pub(super) fn local_names() -> Vec<ServerName> {
    ["localhost", "127.0.0.1", "::1"].map(ServerName::parse).into()
}

/// Creates the authority if it is missing and a server certificate; returns the paths of what was created.
///
/// Keeps an existing authority, so that the certificates it has signed stay valid.
pub(super) fn init(folder: &Path, names: &[ServerName], days: u32) -> CommandOutcome<Vec<PathBuf>> {
    make_folder(folder)?;
    let now = SystemTime::now();
    let mut made = Vec::new();
    let (ca_path, ca_key_path) = (folder.join("ca.pem"), folder.join("ca.key"));
    let authority = if ca_path.exists() || ca_key_path.exists() {
        authority(folder)?
    } else {
        let authority = CertificateAuthority::create("Leafseal CA", Validity::of_authority(now))?;
        // The key first: a certificate without one would look like an authority that lost it.
        write_key(&ca_key_path, &authority.private_key_pem()?)?;
        write_pem(&ca_path, &authority.certificate_pem()?)?;
        made.extend([ca_path, ca_key_path]);
        authority
    };
    let issued = authority.issue_server(names, Validity { now, days })?;
    let paths = write_issued(folder, "server", &issued)?;
    made.extend([paths.0, paths.1]);
    Ok(made)
}

/// The outbound relay's authority for destinations, created if missing; returns the paths of certificate and key. It is separate from the
/// engine's authority: clients that trust it let the relay read their traffic, but have no access to the engine.
pub(super) fn relay_authority(folder: &Path) -> CommandOutcome<(PathBuf, PathBuf)> {
    make_folder(folder)?;
    let (certificate, key) = (folder.join("relay-ca.pem"), folder.join("relay-ca.key"));
    if !certificate.exists() || !key.exists() {
        let authority = CertificateAuthority::create("Leafseal relay CA", Validity::of_authority(SystemTime::now()))?;
        write_key(&key, &authority.private_key_pem()?)?;
        write_pem(&certificate, &authority.certificate_pem()?)?;
    }
    Ok((certificate, key))
}

/// Which of a client's certificates are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinning {
    /// Only the newest one.
    ThisOne,
    /// Every certificate with the name that the authority signs.
    AnyOfTheName,
}

/// The permissions to grant to a client.
pub(super) struct Grant {
    /// The apps.
    pub apps: Apps,
    /// The operations.
    pub operations: BTreeSet<Operation>,
    /// The roles.
    pub roles: Roles,
    /// The envelopes that are decrypted.
    pub accept: AcceptedSchemes,
    /// The certificates.
    pub pinning: Pinning,
}

/// Issues a certificate for a client and stores its grant; returns the paths of certificate and key.
pub(super) fn issue(
    context: &RunContext,
    store: &dyn Keystore,
    name: &ClientName,
    grant: Grant,
    days: u32,
) -> CommandOutcome<(PathBuf, PathBuf)> {
    let folder = context.certificates();
    let issued = issue_client(&authority(&folder)?, name.as_str(), Validity { now: SystemTime::now(), days })?;
    let first = inspect(&issued.certificate_pem)?.into_iter().next();
    let certificate_sha256 = match grant.pinning {
        Pinning::ThisOne => first.map(|certificate| certificate.sha256),
        Pinning::AnyOfTheName => None,
    };
    let Grant { apps, operations, roles, accept, pinning: _ } = grant;
    let client = NewClient { name: name.clone(), apps, operations, roles, accept, certificate_sha256 };
    // The grant first: an unknown app is reported before any file is touched.
    let stored = store.put_client(&client)?;
    if stored.disabled {
        store.enable_client(name)?;
        note(format_args!("client {name} was revoked and has permissions again"));
    }
    write_issued(&folder, name.as_str(), &issued)
}

fn list(context: &RunContext, form: AnswerFormat) -> CommandOutcome {
    let (folder, now) = (context.certificates(), SystemTime::now());
    let mut files = Vec::new();
    for name in certificate_files(&folder)? {
        files.push((folder.join(format!("{name}.pem")), read_certificate(&folder.join(format!("{name}.pem")))?));
    }
    let grants = context.store()?.list_clients()?;
    if form.json {
        let files: Vec<Value> = files.iter().map(|(path, inspection)| certificate_json(path, inspection)).collect();
        let clients: Vec<Value> = grants.iter().map(grant_json).collect();
        return print_json(&json!({ "certificates": files, "clients": clients }));
    }
    let mut out = String::new();
    for (path, inspection) in &files {
        let state = if inspection.is_valid_at(now) { "until" } else { "NOT VALID, until" };
        let days = inspection.days_left(now);
        out.push_str(&format!("{}  {state} {}  {days} days\n", path.display(), utc(inspection.not_after)));
    }
    for grant in &grants {
        let (operations, state) = (operations(grant).join(","), if grant.disabled { "  revoked" } else { "" });
        let (apps, roles) = (apps(grant).join(","), roles(grant).join(","));
        let accept = accepted::suffix(grant.accept);
        out.push_str(&format!("client {}  {operations}  apps {apps}  roles {roles}{accept}{state}\n", grant.name));
    }
    print(&out)
}

fn certificate_json(file: &Path, inspection: &CertificateInspection) -> Value {
    json!({
        "file": path(file),
        "name": inspection.common_name,
        "not_before": inspection.not_before,
        "not_after": inspection.not_after,
        "sha256": hex::encode(inspection.sha256),
    })
}

fn grant_json(grant: &ClientGrant) -> Value {
    let replaced =
        |it: &ReplacedCertificate| json!({ "sha256": hex::encode(it.sha256), "accepted_until": it.accepted_until });
    let replaced: Vec<Value> = grant.replaced_certificates.iter().map(replaced).collect();
    json!({
        "client": grant.name.as_str(),
        "allow": operations(grant),
        "apps": apps(grant),
        "roles": roles(grant),
        "accept": accepted::words(grant.accept),
        "certificate_sha256": grant.certificate_sha256.map(hex::encode),
        "replaced_certificates": replaced,
        "revoked": grant.disabled,
        "created_at": grant.created_at,
    })
}

fn operations(grant: &ClientGrant) -> Vec<&'static str> {
    grant.operations.iter().map(|operation| operation.as_str()).collect()
}

fn apps(grant: &ClientGrant) -> Vec<&str> {
    match &grant.apps {
        Apps::All => vec!["*"],
        Apps::Only(apps) => apps.iter().map(AppName::as_str).collect(),
    }
}

fn roles(grant: &ClientGrant) -> Vec<&str> {
    match &grant.roles {
        Roles::Any => vec!["*"],
        Roles::Only(roles) => roles.iter().map(RoleName::as_str).collect(),
    }
}

impl From<CertificateError> for CommandFailure {
    fn from(error: CertificateError) -> Self {
        Self::usage(error.to_string())
    }
}
