//! Tracks when the certificates of a process expire, for its metrics and its log.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use boring::nid::Nid;
use boring::x509::{X509, X509Ref};
use leafseal_crypto::chain::unix_seconds;

use crate::calendar::utc;

const SECONDS_PER_DAY: u64 = 86_400;
/// Days before the expiry on which a warning is due.
const WARNING_DAYS: [u64; 2] = [30, 7];
/// Maximum number of certificates tracked per file, the first to expire: a file of authorities may contain all of the system's.
const CERTIFICATES_MAX: usize = 64;

/// One certificate and the time at which it expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateExpiry {
    /// Its usage, such as `server` or `client-authorities`.
    pub usage: String,
    /// The file that contains it.
    pub file: String,
    /// Its common name, safe for a label of a metric.
    pub subject: String,
    /// The last second of its validity, in Unix time.
    pub not_after: u64,
}

impl CertificateExpiry {
    /// Reads the certificates in `pem`; empty if none can be read.
    pub fn of_pem(usage: &str, file: &str, pem: &[u8]) -> Vec<Self> {
        let certificates = X509::stack_from_pem(pem).unwrap_or_default();
        let expiry = |certificate: &X509| {
            let not_after = u64::try_from(unix_seconds(certificate.not_after()).ok()?).unwrap_or(0);
            Some(Self { usage: usage.to_owned(), file: file.to_owned(), subject: subject(certificate), not_after })
        };
        let mut expiries: Vec<Self> = certificates.iter().filter_map(expiry).collect();
        expiries.sort_by_key(|it| it.not_after);
        expiries.truncate(CERTIFICATES_MAX);
        expiries
    }

    /// Whole days from `now` until it expires; 0 on the last day and afterwards.
    pub fn days_left(&self, now: SystemTime) -> u64 {
        self.not_after.saturating_sub(seconds(now)) / SECONDS_PER_DAY
    }

    /// The text of the warning to log: when it expires, and what to do.
    pub fn warning(&self, now: SystemTime) -> String {
        let time = utc(self.not_after);
        match self.days_left(now) {
            _ if seconds(now) > self.not_after => {
                format!("a certificate expired at {time}: replace it, then send SIGHUP")
            }
            0 => format!("a certificate expires within a day, at {time}: replace it, then send SIGHUP"),
            1 => format!("a certificate expires in 1 day, at {time}: replace it, then send SIGHUP"),
            days => format!("a certificate expires in {days} days, at {time}: replace it, then send SIGHUP"),
        }
    }

    /// The number of warnings that are due; one more once it has expired.
    fn stage(&self, now: SystemTime) -> usize {
        let left = self.not_after.saturating_sub(seconds(now));
        let warnings = WARNING_DAYS.iter().filter(|&&days| left <= days * SECONDS_PER_DAY).count();
        warnings + usize::from(seconds(now) > self.not_after)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn subject(certificate: &X509Ref) -> String {
    let mut names = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    let name = names.next().and_then(|entry| entry.data().as_utf8().ok()).map_or_else(String::new, |it| it.to_string());
    name.chars().map(|it| if it.is_control() || matches!(it, '"' | '\\') { '_' } else { it }).collect()
}

/// The certificates in use, and the warnings logged for each.
#[derive(Debug, Default)]
pub struct Expiries(Mutex<Vec<(CertificateExpiry, usize)>>);

impl Expiries {
    fn lock(&self) -> MutexGuard<'_, Vec<(CertificateExpiry, usize)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the certificates. Warnings for those that were in use before are not repeated.
    pub fn replace(&self, certificates: Vec<CertificateExpiry>) {
        let mut current = self.lock();
        let stage = |one: &CertificateExpiry| current.iter().find(|(known, _)| known == one).map_or(0, |it| it.1);
        let replaced =
            certificates.into_iter().map(|one| (stage(&one), one)).map(|(stage, one)| (one, stage)).collect();
        *current = replaced;
    }

    /// Returns the certificates whose warning is due and was not returned before: 30 and 7 days before they expire, and once they have.
    pub fn due(&self, now: SystemTime) -> Vec<CertificateExpiry> {
        let mut due = Vec::new();
        for (certificate, given) in self.lock().iter_mut() {
            let stage = certificate.stage(now);
            if stage > *given {
                due.push(certificate.clone());
            }
            *given = stage;
        }
        due
    }

    /// The earliest expiry for each usage and subject, for metrics.
    pub fn first(&self) -> Vec<([String; 2], u64)> {
        let mut first: Vec<([String; 2], u64)> = Vec::new();
        for (certificate, _) in self.lock().iter() {
            let labels = [certificate.usage.clone(), certificate.subject.clone()];
            match first.iter_mut().find(|(known, _)| *known == labels) {
                Some((_, not_after)) => *not_after = certificate.not_after.min(*not_after),
                None => first.push((labels, certificate.not_after)),
            }
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn expiry(subject: &str, not_after: u64) -> CertificateExpiry {
        let [usage, file, subject] = ["server", "server.pem", subject].map(str::to_owned);
        CertificateExpiry { usage, file, subject, not_after }
    }

    #[test]
    fn warnings_are_due_once_each_30_and_7_days_before_and_at_the_end() {
        let expiries = Expiries::default();
        let end = 100 * SECONDS_PER_DAY;
        let one = expiry("one", end);
        expiries.replace(vec![one.clone(), expiry("later", 10 * end)]);
        let due = |days_left: i64| {
            let seconds = end as i64 - days_left * SECONDS_PER_DAY as i64;
            // Reloading the same certificates repeats no warning.
            expiries.replace(vec![one.clone(), expiry("later", 10 * end)]);
            expiries.due(UNIX_EPOCH + Duration::from_secs(seconds as u64)).len()
        };
        assert_eq!([31, 30, 29, 8, 7, 1, 0, -1, -2].map(due), [0, 1, 0, 0, 1, 0, 0, 1, 0]);
        // A renewed certificate is warned about separately.
        expiries.replace(vec![expiry("one", end + 1)]);
        assert_eq!(expiries.due(UNIX_EPOCH + Duration::from_secs(end)).len(), 1);
    }

    #[test]
    fn certificates_of_one_name_are_one_series() {
        let expiries = Expiries::default();
        expiries.replace(vec![expiry("a", 9), expiry("a", 5), expiry("b", 7)]);
        let series = |name: &str, at| (["server".to_owned(), name.to_owned()], at);
        assert_eq!(expiries.first(), [series("a", 5), series("b", 7)]);
    }
}
