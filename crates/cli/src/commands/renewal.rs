//! `certs renew`: new certificates and keys in place of those that expire soon, for the same names and with the same permissions.
//!
//! A grant accepts a client's old certificate for a while, so that neither the client nor an engine has to load anything at a certain
//! moment. Grants change first, then the command waits until engines have noticed, and then it writes the files: a client never comes with
//! a certificate that an engine does not know yet. If the command is killed in between, the old files are good, and it can run again.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafseal_engine::admin::{ClientName, Keystore};
use leafseal_net::tls::{CertificateAuthority, CertificateInspection, Issued, Validity, inspect};
use leafseal_net::utc;
use leafseal_server::issue_client;
use serde_json::{Value, json};

use crate::arguments::AnswerFormat;
use crate::certificates::{authority, client_certificates, read_certificate, write_issued};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome, Exit};
use crate::note::note;
use crate::output::{print, print_json};

/// The name of the server's certificate.
const SERVER: &str = "server";
const SECONDS_PER_DAY: u64 = 86_400;
/// How long to wait until every engine has noticed a changed grant, which takes it a second.
const NOTICE_TIME: Duration = Duration::from_secs(3);

/// What to renew, and how.
pub(super) struct RenewalRequest<'a> {
    /// These, at once; none means what expires soon.
    pub names: &'a [String],
    /// Days before its end from which a certificate is renewed.
    pub within: u32,
    /// Days that new ones are valid.
    pub days: u32,
    /// Days for which old ones of clients are accepted.
    pub overlap: u32,
}

/// A new certificate that is not written yet.
struct PreparedRenewal {
    name: String,
    issued: Issued,
    /// Whether a grant was changed for it.
    is_granted: bool,
}

/// A certificate that was renewed.
struct RenewedCertificate {
    name: String,
    certificate: PathBuf,
    key: PathBuf,
    not_after: u64,
}

/// Renews, and prints what was renewed.
pub(super) fn run(context: &RunContext, request: &RenewalRequest<'_>, form: AnswerFormat) -> CommandOutcome {
    let folder = context.certificates();
    let renewal = CertificateRenewal {
        authority: authority(&folder)?,
        folder: &folder,
        context,
        request,
        now: SystemTime::now(),
    };
    let (prepared, failure) = match request.names.is_empty() {
        true => renewal.prepare_due()?,
        false => (renewal.prepare_named()?, None),
    };
    if prepared.iter().any(|one| one.is_granted) {
        std::thread::sleep(NOTICE_TIME);
    }
    let renewed = prepared.iter().map(|one| renewal.write(one)).collect::<CommandOutcome<Vec<_>>>()?;
    show(&renewed, request, form)?;
    failure.map_or(Ok(()), Err)
}

fn show(renewed: &[RenewedCertificate], request: &RenewalRequest<'_>, form: AnswerFormat) -> CommandOutcome {
    if form.json {
        return print_json(&json!(renewed.iter().map(RenewedCertificate::json).collect::<Vec<_>>()));
    }
    let within = request.within;
    match renewed.len() {
        0 => print(&format!("nothing to renew: no certificate of this authority expires within {within} days\n")),
        _ => print(&renewed.iter().map(RenewedCertificate::text).collect::<String>()),
    }
}

impl RenewedCertificate {
    fn text(&self) -> String {
        format!("{}  until {}\n", self.certificate.display(), utc(self.not_after))
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name,
            "certificate": self.certificate.display().to_string(),
            "key": self.key.display().to_string(),
            "not_after": self.not_after,
        })
    }
}

struct CertificateRenewal<'a> {
    authority: CertificateAuthority,
    folder: &'a Path,
    context: &'a RunContext,
    request: &'a RenewalRequest<'a>,
    now: SystemTime,
}

impl CertificateRenewal<'_> {
    fn prepare_named(&self) -> CommandOutcome<Vec<PreparedRenewal>> {
        self.request.names.iter().map(|name| self.prepare(name, &self.read(name)?)).collect()
    }

    /// What expires soon. What cannot be renewed is named, and does not stop the rest.
    fn prepare_due(&self) -> CommandOutcome<(Vec<PreparedRenewal>, Option<CommandFailure>)> {
        let mut names = client_certificates(self.folder)?;
        names.extend(self.folder.join("server.key").exists().then(|| SERVER.to_owned()));
        let (mut prepared, mut failed) = (Vec::new(), Vec::new());
        for name in names {
            let outcome = self.read(&name).and_then(|old| match old.days_left(self.now) {
                days if days >= u64::from(self.request.within) => Ok(None),
                _ => self.prepare(&name, &old).map(Some),
            });
            match outcome {
                Ok(one) => prepared.extend(one),
                Err(failure) => failed.push(failure),
            }
        }
        for failure in &failed {
            note(format_args!("not renewed: {failure}"));
        }
        // Certificates of others, and of clients without a grant, are no failure of a timer.
        let serious = failed.into_iter().find(|failure| failure.exit != Exit::Usage);
        Ok((prepared, serious))
    }

    fn read(&self, name: &str) -> CommandOutcome<CertificateInspection> {
        read_certificate(&self.folder.join(format!("{name}.pem")))
    }

    /// Issues a new certificate, and lets the client's grant accept it.
    fn prepare(&self, name: &str, old: &CertificateInspection) -> CommandOutcome<PreparedRenewal> {
        let file = self.folder.join(format!("{name}.pem"));
        let pem = std::fs::read(&file).map_err(|error| CommandFailure::reading(&file, &error))?;
        if !self.authority.has_issued(&pem) {
            let message = format!("{}: it was not issued by {}", file.display(), self.folder.join("ca.pem").display());
            return Err(CommandFailure::usage(message).advise("renew it where it was issued"));
        }
        let validity = Validity { now: self.now, days: self.request.days };
        let (issued, is_granted) = match name {
            SERVER => (self.authority.issue_server(&old.names, validity)?, false),
            client => {
                let client = ClientName::parse(client)?;
                let issued = issue_client(&self.authority, client.as_str(), validity)?;
                let sha256 = inspect(&issued.certificate_pem)?[0].sha256;
                self.accept(&*self.context.store()?, &client, old, sha256)?;
                (issued, true)
            }
        };
        Ok(PreparedRenewal { name: name.to_owned(), issued, is_granted })
    }

    fn write(&self, prepared: &PreparedRenewal) -> CommandOutcome<RenewedCertificate> {
        let (certificate, key) = write_issued(self.folder, &prepared.name, &prepared.issued)?;
        let not_after = read_certificate(&certificate)?.not_after;
        Ok(RenewedCertificate { name: prepared.name.clone(), certificate, key, not_after })
    }

    /// Lets the client's grant accept its new certificate beside the old one.
    fn accept(
        &self,
        store: &dyn Keystore,
        client: &ClientName,
        old: &CertificateInspection,
        sha256: [u8; 32],
    ) -> CommandOutcome {
        let now = self.now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let issue = "give it a new grant with leafseal certs issue";
        let refused = |reason: &str| Err(CommandFailure::usage(format!("client {client}: {reason}")).advise(issue));
        match store.client(client)? {
            None => return refused("it has no grant"),
            Some(grant) if grant.disabled => return refused("it was revoked"),
            // Whoever has an older certificate must not get a good one in its place.
            Some(grant) if !grant.accepts(&old.sha256, now) => {
                return refused("the certificate in the folder is not the one of its grant");
            }
            Some(_) => {}
        }
        let old_until = (now + u64::from(self.request.overlap) * SECONDS_PER_DAY).min(old.not_after.max(now));
        store.renew_client(client, sha256, old_until)?;
        Ok(())
    }
}
