//! The location of a keystore in a configuration: a SQLite file, or a PostgreSQL database with its connection settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{Kind, SettingField, SettingValue, ms, settings};

use crate::late::ReopenPauses;
use crate::postgres::{InvalidUrl, PostgresSettings, PostgresUrl};
use crate::store_id::StoreId;

settings! {
    /// The location of the store; relative paths start at the folder of the configuration, which `--dir` names.
    #[derive(Debug, Clone)]
    pub struct StorePlace {
        /// The SQLite file with apps, keys and grants, unless `keystore.url` is set.
        pub path: PathBuf = "keystore.db".into();
        /// The file with the root key. The environment variable `LEAFSEAL_ROOT_KEY`, which holds the key's text, overrides it.
        pub root_key_file: PathBuf = "root.key".into();
        /// A file that opens the store besides the root key: a passphrase, or shares, one per line.
        pub unseal_file: Option<PathBuf> = None;
        /// The folder in which engines and commands on this machine keep the newest state that they have seen of the keystore, so that an
        /// older copy that someone puts back is refused, also after a restart. It must not be on the keystore's own disk or in its backups.
        /// `"off"` keeps it in memory alone.
        pub memory_folder: Option<PathBuf> = Some("seen".into());
        /// The id of the keystore that must be there, and must be authenticated (schema 3), as `leafseal store check` prints it. For
        /// machines that have never seen the keystore: another one, or one that claims an older schema, is refused. `""` accepts any.
        pub store_id: String = String::new(), is kind(Kind::AnyText);
        /// The pause after which a sealed engine (`serve --sealed`) first tries again what opens the keystore without a person, such as a
        /// key service that was down. Each further pause is twice the one before.
        pub reopen_pause: Duration = ReopenPauses::default().first, in ms(1)..;
        /// The longest such pause.
        pub reopen_pause_max: Duration = ReopenPauses::default().longest, in ms(1)..;
        /// The PostgreSQL database with apps, keys and grants, which several engines can share: `postgres://USER@HOST:PORT/DATABASE`,
        /// without a password. Of several servers (`HOST:PORT,HOST:PORT`) the engine uses the primary. A host that begins with `%2F` is the
        /// folder of a Unix socket. Empty: the file of `keystore.path`; to set both is an error.
        pub url: StoreUrl = StoreUrl::default(), is kind(Kind::AnyText);
        /// How the database is reached.
        pub connection: PostgresSettings = PostgresSettings::default(), is section;
    }
}

impl StorePlace {
    /// How the database is reached, if there is one, with paths below `folder`.
    pub fn database(&self, folder: &Path) -> Option<PostgresSettings> {
        let below = |path: &Option<PathBuf>| path.as_ref().map(|path| folder.join(path));
        let connection = &self.connection;
        Some(PostgresSettings {
            url: self.url.url()?.clone(),
            authorities: below(&connection.authorities),
            certificate: below(&connection.certificate),
            private_key: below(&connection.private_key),
            password_file: below(&connection.password_file),
            ..*connection
        })
    }

    /// How long a sealed engine waits between attempts.
    pub fn reopen_pauses(&self) -> ReopenPauses {
        ReopenPauses { first: self.reopen_pause, longest: self.reopen_pause_max }
    }

    /// The store that must be there, if one is set.
    pub fn expected_store(&self) -> Option<StoreId> {
        StoreId::parse(&self.store_id)
    }

    /// Returns what does not fit together. `sets_path`: whether `path` is set by something other than the default.
    pub fn problems(&self, sets_path: bool) -> Vec<String> {
        let mut problems = match self.url.problem {
            Some(problem) => vec![format!("keystore.url {problem}")],
            None => self.database(Path::new("")).map_or_else(Vec::new, |database| database.problems()),
        };
        if !self.store_id.is_empty() && self.expected_store().is_none() {
            problems.push(
                "keystore.store_id must be 32 hexadecimal digits, as `leafseal store check` prints them".to_owned(),
            );
        }
        if sets_path && !self.url.text.is_empty() {
            problems.push(
                "keystore.path and keystore.url are both set: remove keystore.path to use the database, or set keystore.url to \"\" to use \
                 the file"
                    .to_owned(),
            );
        }
        problems
    }

    /// A way to the database on which others could pose as it.
    pub fn warning(&self) -> Option<String> {
        self.database(Path::new(""))?.warning()
    }
}

/// The text of `keystore.url`. What is refused and may contain a password is not kept, so that no command prints it.
#[derive(Debug, Clone, Default)]
pub struct StoreUrl {
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

    fn url(&self) -> Option<&PostgresUrl> {
        self.url.as_ref()
    }
}

impl SettingField for StoreUrl {
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
    use crate::postgres::SslMode;

    fn with(url: &str, connection: PostgresSettings) -> StorePlace {
        StorePlace { url: StoreUrl::read(url), connection, ..StorePlace::default() }
    }

    fn with_url(text: &str) -> StorePlace {
        with(text, PostgresSettings::default())
    }

    #[test]
    fn a_password_is_refused_and_not_kept() {
        for text in ["postgres://u:secret@db/k", "postgres//u:secret@db/k", "postgres://u@db/k?password=secret"] {
            let place = with_url(text);
            assert!(place.database(Path::new("")).is_none());
            assert_eq!(place.problems(false).len(), 1, "{text}");
            assert!(!format!("{place:?} {:?}", place.problems(false)).contains("secret"), "{place:?}");
        }
    }

    #[test]
    fn an_id_that_is_none_is_refused() {
        let with_id = |id: &str| StorePlace { store_id: id.to_owned(), ..StorePlace::default() };
        for id in ["", &"0f".repeat(16)] {
            assert_eq!(with_id(id).problems(false), [""; 0]);
        }
        assert_eq!(with_id(&"0f".repeat(16)).expected_store().map(|id| id.to_string()), Some("0f".repeat(16)));
        for id in ["x", "0f", &"0f".repeat(17)] {
            assert!(with_id(id).problems(false)[0].contains("keystore.store_id"));
        }
    }

    #[test]
    fn a_verified_server_needs_authorities_and_others_a_warning() {
        assert_eq!(with_url("").problems(false), [""; 0]);
        let url = "postgres://u@db/k";
        assert!(with_url(url).problems(false)[0].contains("keystore.authorities"));
        let verified = PostgresSettings { authorities: Some("ca.pem".into()), ..PostgresSettings::default() };
        let place = with(url, verified.clone());
        assert_eq!((place.problems(false), place.warning()), (vec![], None));
        for sslmode in [SslMode::VerifyCa, SslMode::Require, SslMode::Disable] {
            let weaker = with(url, PostgresSettings { sslmode, ..verified.clone() });
            assert!(weaker.warning().is_some_and(|warning| warning.contains(sslmode.as_str())));
        }
        let disabled = PostgresSettings { sslmode: SslMode::Disable, ..PostgresSettings::default() };
        let socket = with("postgres://u@%2Frun/k", disabled);
        assert_eq!((socket.problems(false), socket.warning()), (vec![], None));
        let half = with(url, PostgresSettings { certificate: Some("c.pem".into()), ..verified });
        assert!(half.problems(false)[0].contains("together"));
        let paths = half.database(Path::new("/dir")).expect("a database");
        assert_eq!(paths.certificate, Some("/dir/c.pem".into()));
    }

    #[test]
    fn a_store_in_two_places_is_refused() {
        let database = PostgresSettings { authorities: Some("ca.pem".into()), ..PostgresSettings::default() };
        assert!(with("postgres://u@db/k", database.clone()).problems(true)[0].contains("both set"));
        assert_eq!(with("", database).problems(true), [""; 0]);
    }
}
