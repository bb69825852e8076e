//! The location of the keystore: a SQLite file, or a PostgreSQL database with its connection settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{Field, Kind, SettingValue, ms, settings};
use leafseal_engine::admin::{InvalidUrl, PostgresSettings, PostgresUrl, SslMode};

settings! {
    /// The location of the store; relative paths start at the folder that `--dir` names.
    #[derive(Debug, Clone)]
    pub(crate) struct StorePlace {
        /// The SQLite file with apps, keys and grants, unless `keystore.url` is set.
        pub path: PathBuf = "keystore.db".into();
        /// The file with the root key. The environment variable `LEAFSEAL_ROOT_KEY`, which holds the key's text, overrides it.
        pub root_key_file: PathBuf = "root.key".into();
        /// The PostgreSQL database with apps, keys and grants, which several engines can share: `postgres://USER@HOST:PORT/DATABASE`,
        /// without a password. Of several servers (`HOST:PORT,HOST:PORT`) the engine uses the primary. A host that begins with `%2F` is the
        /// folder of a Unix socket. Empty: the file of `keystore.path`; to set both is an error.
        pub url: StoreUrl = StoreUrl::default(), is kind(Kind::AnyText);
        /// How the PostgreSQL server is authenticated. `verify-full`: TLS with a certificate that `keystore.authorities` have issued and
        /// that names the host. Weaker, with a warning: `verify-ca` (any name), `require` (any certificate), `disable` (no TLS). Unix
        /// sockets do not use TLS.
        pub sslmode: SslMode = defaults().sslmode,
            one of { "verify-full" => SslMode::VerifyFull, "verify-ca" => SslMode::VerifyCa, "require" => SslMode::Require,
                "disable" => SslMode::Disable };
        /// The certificate authorities that are trusted to issue the PostgreSQL server's certificate, in PEM. This file and the next three
        /// are read at every connect.
        pub authorities: Option<PathBuf> = defaults().authorities;
        /// The certificate chain for the login to PostgreSQL, in PEM, the client's own certificate first.
        pub certificate: Option<PathBuf> = defaults().certificate;
        /// The private key of `keystore.certificate`, in PEM.
        pub private_key: Option<PathBuf> = defaults().private_key;
        /// The file whose first line is the password for the login to PostgreSQL. Only its owner may have access to it.
        pub password_file: Option<PathBuf> = defaults().password_file;
        /// Maximum time to connect to one PostgreSQL server, including TLS and login.
        pub connect_timeout: Duration = defaults().connect_timeout, in ms(1)..;
        /// Maximum time of a statement in PostgreSQL, and of the wait for the confirmation that a change is durable.
        pub statement_timeout: Duration = defaults().statement_timeout, in ms(1)..;
    }
}

/// How a database is reached by default.
fn defaults() -> PostgresSettings {
    PostgresSettings::new(PostgresUrl::parse("postgres://user@host/database").expect("a URL"))
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
    fn read(text: &str) -> Self {
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

    /// Whether there is a text, valid or not.
    pub(super) fn is_set(&self) -> bool {
        !self.text.is_empty()
    }

    fn url(&self) -> Option<&PostgresUrl> {
        self.url.as_ref()
    }
}

impl Field for StoreUrl {
    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.text.clone())
    }

    fn from_value(value: SettingValue) -> Self {
        Self::read(value.text())
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
