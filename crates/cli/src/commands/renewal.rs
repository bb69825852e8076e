//! `certs renew`: new certificates and keys in place of those that expire soon, for the same names and with the same permissions.
//!
//! A grant accepts a client's old certificate for a while, so that neither the client nor an engine has to load anything at a certain
//! moment. The new pair is first written to a draft beside the files (`.NAME.next`), then grants change, then the command waits until
//! engines have noticed, and then it writes the files: a client never comes with a certificate that an engine does not know yet. If the
//! command fails or is killed in between, the old files are good, and the next run goes on with the draft: no grant has a certificate that
//! nobody has.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leafseal_engine::admin::{ClientGrant, ClientName, Keystore};
use leafseal_net::tls::{CertificateAuthority, CertificateInspection, Issued, Validity, inspect};
use leafseal_net::utc;
use leafseal_server::issue_client;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use crate::arguments::AnswerFormat;
use crate::certificates::{authority, client_certificates, read_certificate, write_issued, write_key};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome, Exit};
use crate::note::note;
use crate::output::{print, print_json};

/// The name of the server's certificate.
const SERVER: &str = "server";
const SECONDS_PER_DAY: u64 = 86_400;
/// How long to wait until every engine has noticed a changed grant, which takes it a second.
const NOTICE_TIME: Duration = Duration::from_secs(3);
/// The timer renews in at most this part of the life of new certificates, whatever `--within` says: a new one would else be due at once.
const DUE_PART: u32 = 3;

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
                days if days >= u64::from(self.within()) => Ok(None),
                _ => self.prepare_later_end(&name, &old).map(Some),
            });
            match outcome {
                Ok(one) => prepared.extend(one),
                Err(failure) => failed.push(failure),
            }
        }
        for failure in &failed {
            note(format_args!("not renewed: {failure}"));
        }
        // Clients without a grant are no failure of a timer; what nobody can renew here is.
        let serious = failed.into_iter().find(|failure| failure.exit != Exit::Usage);
        Ok((prepared, serious))
    }

    /// Days before its end from which a certificate is due.
    fn within(&self) -> u32 {
        self.request.within.min(self.request.days.div_ceil(DUE_PART))
    }

    /// The same as [`Self::prepare`], unless the new certificate would end no later than the old one, as in the authority's last days.
    fn prepare_later_end(&self, name: &str, old: &CertificateInspection) -> CommandOutcome<PreparedRenewal> {
        let of_authority = read_certificate(&self.folder.join("ca.pem"))?.not_after;
        if old.not_after >= of_authority {
            let message = format!("{name}: its authority ends at {}, no later than the certificate", utc(of_authority));
            return Err(CommandFailure::failed(message).advise("make a new authority and issue from it"));
        }
        self.prepare(name, old)
    }

    fn draft(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.next"))
    }

    /// What an earlier run has left for this certificate, if it is good; otherwise a new pair, written to a draft.
    fn issue_or_resume(&self, name: &str, old: &CertificateInspection) -> CommandOutcome<Issued> {
        let draft = self.draft(name);
        if let Some(issued) = read_draft(&draft)
            && self.authority.has_issued(&issued.certificate_pem)
            && let Some(new) = inspect(&issued.certificate_pem)?.first()
            && (&new.common_name, &new.names) == (&old.common_name, &old.names)
            && new.days_left(self.now) >= u64::from(self.within())
        {
            return Ok(issued);
        }
        let validity = Validity { now: self.now, days: self.request.days };
        let issued = match name {
            SERVER => self.authority.issue_server(&old.names, validity)?,
            client => issue_client(&self.authority, ClientName::parse(client)?.as_str(), validity)?,
        };
        write_key(&draft, &Zeroizing::new([issued.private_key_pem.as_slice(), &issued.certificate_pem].concat()))?;
        Ok(issued)
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
            return Err(CommandFailure::failed(message).advise("renew it where it was issued"));
        }
        let is_granted = name != SERVER;
        if !is_granted {
            let issued = self.issue_or_resume(name, old)?;
            return Ok(PreparedRenewal { name: name.to_owned(), issued, is_granted });
        }
        let (client, store) = (ClientName::parse(name)?, self.context.store()?);
        let grant = self.granted(&*store, &client)?;
        // Whoever has an older certificate must not get a good one in its place, unless it is the one that a draft has already.
        let draft = read_draft(&self.draft(name)).and_then(|issued| inspect(&issued.certificate_pem).ok()?.pop());
        let is_resumed = draft.is_some_and(|draft| grant.certificate_sha256 == Some(draft.sha256));
        if !is_resumed && !grant.accepts(&old.sha256, self.now_unix_s()) {
            return Err(refused(&client, "the certificate in the folder is not the one of its grant"));
        }
        let issued = self.issue_or_resume(name, old)?;
        let sha256 = inspect(&issued.certificate_pem)?[0].sha256;
        let now = self.now_unix_s();
        let old_until = (now + u64::from(self.request.overlap) * SECONDS_PER_DAY).min(old.not_after.max(now));
        store.renew_client(&client, sha256, old_until)?;
        Ok(PreparedRenewal { name: name.to_owned(), issued, is_granted })
    }

    fn write(&self, prepared: &PreparedRenewal) -> CommandOutcome<RenewedCertificate> {
        let (certificate, key) = write_issued(self.folder, &prepared.name, &prepared.issued)?;
        // What cannot be removed is taken for a draft of the next renewal only while it is good for that.
        let _ = std::fs::remove_file(self.draft(&prepared.name));
        let not_after = read_certificate(&certificate)?.not_after;
        Ok(RenewedCertificate { name: prepared.name.clone(), certificate, key, not_after })
    }

    fn now_unix_s(&self) -> u64 {
        self.now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
    }

    /// The grant of a client that may be renewed.
    fn granted(&self, store: &dyn Keystore, client: &ClientName) -> CommandOutcome<ClientGrant> {
        match store.client(client)? {
            None => Err(refused(client, "it has no grant")),
            Some(grant) if grant.disabled => Err(refused(client, "it was revoked")),
            Some(grant) => Ok(grant),
        }
    }
}

fn refused(client: &ClientName, reason: &str) -> CommandFailure {
    CommandFailure::usage(format!("client {client}: {reason}")).advise("give it a new grant with leafseal certs issue")
}

/// The pair in a draft: the key, then the certificate.
fn read_draft(path: &Path) -> Option<Issued> {
    let content = Zeroizing::new(std::fs::read(path).ok()?);
    let begin = b"-----BEGIN CERTIFICATE-----";
    let place = content.windows(begin.len()).position(|window| window == begin)?;
    let (key, certificate) = content.split_at(place);
    Some(Issued { certificate_pem: certificate.to_vec(), private_key_pem: Zeroizing::new(key.to_vec()) })
}
