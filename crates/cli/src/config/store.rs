//! The location of the keystore: a SQLite file, or a PostgreSQL database with its connection settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_engine::admin::{InvalidUrl, PostgresSettings, PostgresUrl, SslMode};

/// The location of the store; relative paths start at the folder that `--dir` names.
#[derive(Debug, Clone)]
pub(crate) struct StorePlace {
    /// The SQLite file, unless there is a URL.
    pub path: PathBuf,
    /// The file with the root key.
    pub root_key_file: PathBuf,
    /// The database of PostgreSQL.
    pub url: StoreUrl,
    /// How the server's certificate is verified.
    pub sslmode: SslMode,
    /// The authorities trusted to issue the server's certificate.
    pub authorities: Option<PathBuf>,
    /// The certificate chain to log in with.
    pub certificate: Option<PathBuf>,
    /// Its private key.
    pub private_key: Option<PathBuf>,
    /// The file with the password to log in with.
    pub password_file: Option<PathBuf>,
    /// Maximum time to connect to one server.
    pub connect_timeout: Duration,
    /// Maximum duration of a statement.
    pub statement_timeout: Duration,
}

impl Default for StorePlace {
    fn default() -> Self {
        let any = PostgresUrl::parse("postgres://user@host/database").expect("a URL");
        let PostgresSettings {
            url: _,
            sslmode,
            authorities,
            certificate,
            private_key,
            password_file,
            connect_timeout,
            statement_timeout,
        } = PostgresSettings::new(any);
        Self {
            path: "keystore.db".into(),
            root_key_file: "root.key".into(),
            url: StoreUrl::default(),
            sslmode,
            authorities,
            certificate,
            private_key,
            password_file,
            connect_timeout,
            statement_timeout,
        }
    }
}

impl StorePlace {
    /// How the database is reached, if there is one, with paths below `folder`.
    pub(crate) fn database(&self, folder: &Path) -> Option<PostgresSettings> {
        let below = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        Some(PostgresSettings {
            url: self.url.url()?.clone(),
            sslmode: self.sslmode,
            authorities: below(&self.authorities),
            certificate: below(&self.certificate),
            private_key: below(&self.private_key),
            password_file: below(&self.password_file),
            connect_timeout: self.connect_timeout,
            statement_timeout: self.statement_timeout,
        })
    }

    /// What does not fit together.
    pub(super) fn problems(&self) -> Vec<String> {
        match self.url.problem {
            Some(problem) => vec![format!("keystore.url {problem}")],
            None => self.database(Path::new("")).map_or_else(Vec::new, |database| database.problems()),
        }
    }

    /// A way to the database on which others could pose as it.
    pub(super) fn warning(&self) -> Option<String> {
        self.database(Path::new(""))?.warning()
    }
}

/// The text of `keystore.url`. What is refused and may contain a password is not kept, so that no command prints it.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreUrl {
    text: String,
    url: Option<PostgresUrl>,
    problem: Option<InvalidUrl>,
}

impl StoreUrl {
    pub(super) fn read(text: &str) -> Self {
        if text.is_empty() {
            return Self::default();
        }
        match PostgresUrl::parse(text) {
            Ok(url) => Self { text: text.to_owned(), url: Some(url), problem: None },
            Err(problem) => {
                let is_plain = !text.contains([':', '@', '?']);
                let text = if is_plain { text } else { "(refused)" };
                Self { text: text.to_owned(), url: None, problem: Some(problem) }
            }
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is a text, valid or not.
    pub(super) fn is_set(&self) -> bool {
        !self.text.is_empty()
    }

    fn url(&self) -> Option<&PostgresUrl> {
        self.url.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_url(text: &str) -> StorePlace {
        StorePlace { url: StoreUrl::read(text), ..StorePlace::default() }
    }

    #[test]
    fn a_password_is_refused_and_not_kept() {
        for text in ["postgres://u:secret@db/k", "postgres//u:secret@db/k", "postgres://u@db/k?password=secret"] {
            let place = with_url(text);
            assert!(place.database(Path::new("")).is_none());
            assert_eq!(place.problems().len(), 1, "{text}");
            assert!(!format!("{place:?} {:?}", place.problems()).contains("secret"), "{place:?}");
        }
    }

    #[test]
    fn a_verified_server_needs_authorities_and_others_a_warning() {
        assert_eq!(with_url("").problems(), [""; 0]);
        let url = "postgres://u@db/k";
        assert!(with_url(url).problems()[0].contains("keystore.authorities"));
        let verified = StorePlace { authorities: Some("ca.pem".into()), ..with_url(url) };
        assert_eq!((verified.problems(), verified.warning()), (vec![], None));
        for sslmode in [SslMode::VerifyCa, SslMode::Require, SslMode::Disable] {
            let weaker = StorePlace { sslmode, ..verified.clone() };
            assert!(weaker.warning().is_some_and(|warning| warning.contains(sslmode.as_str())));
        }
        let socket = StorePlace { sslmode: SslMode::Disable, ..with_url("postgres://u@%2Frun/k") };
        assert_eq!((socket.problems(), socket.warning()), (vec![], None));
        let half = StorePlace { certificate: Some("c.pem".into()), ..verified };
        assert!(half.problems()[0].contains("together"));
        let paths = half.database(Path::new("/dir")).expect("a database");
        assert_eq!(paths.certificate, Some("/dir/c.pem".into()));
    }
}
