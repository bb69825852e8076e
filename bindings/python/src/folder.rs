//! Opens an engine over the folder of `leafseal`: its keystore, its root key, and the settings that apply in process.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_config::{Document, Kind, Raw, SettingValue, line_column};
use leafseal_engine::admin::{
    AppName, AppPublicKeys, Environment, Keystore, LocalRootKey, OpenMode, PostgresKeystore, PostgresSettings,
    PostgresUrl, SqliteKeystore, SslMode, StoreError, StoreLimits, system_clock,
};
use leafseal_engine::{Curve, EmptyStrings, Engine, Keying, PublicKey, Settings, system_random};
use leafseal_protocol::{ErrorCode, Retry};

use crate::fault::CallFault;

/// The environment variable that holds the root key's text; Python reads it.
const ROOT_KEY_VARIABLE: &str = "LEAFSEAL_ROOT_KEY";
/// The configuration file's name in the folder.
const CONFIG_FILE: &str = "leafseal.toml";

/// The engine of a folder.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    /// A weakness of the configuration that the user should know of.
    pub(crate) warning: Option<String>,
}

/// Opens the engine of `folder`. The text of a root key overrides its file.
pub(crate) fn open(folder: &Path, root_key_text: Option<&str>) -> Result<Opened, CallFault> {
    let path = folder.join(CONFIG_FILE);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(CallFault::settings(format!("{}: {error}", path.display()))),
    };
    let config = Config::read(&path, &text)?;
    let (place, settings) = (config.place(folder)?, config.settings()?);
    if let Place::File(path) = &place
        && !path.exists()
    {
        return Err(CallFault::settings(format!("there is no keystore at {}", path.display())));
    }
    let root_key = root_key(&folder.join(config.path("keystore.root_key_file", "root.key")?), root_key_text)?;
    let environment =
        Environment { root_key: Box::new(root_key), clock: Box::new(system_clock), rng: Box::new(system_random()) };
    let (store, warning) = place.open(environment)?;
    let engine = Engine::new(store, settings);
    engine.prepare();
    Ok(Opened { engine, warning })
}

/// An engine of public keys alone: for each app its name, the version, and the compressed points of both keys.
pub(crate) fn of_public_keys(apps: Vec<(String, u32, Vec<u8>, Vec<u8>)>) -> Result<Engine, CallFault> {
    let read = |(name, version, r1, k1): (String, u32, Vec<u8>, Vec<u8>)| {
        let app = AppName::parse(&name).map_err(|error| CallFault::settings(format!("app {name}: {error}")))?;
        let point = |curve, bytes: &[u8]| {
            PublicKey::from_sec1(curve, bytes).map_err(|_| {
                CallFault::settings(format!("app {name}: the {} key is no point of the curve", curve.short_name()))
            })
        };
        let keys = AppPublicKeys { version, r1: point(Curve::P256, &r1)?, k1: point(Curve::Secp256k1, &k1)? };
        Ok((app, keys))
    };
    let apps = apps.into_iter().map(read).collect::<Result<Vec<_>, CallFault>>()?;
    let engine = Engine::of_public_keys(apps, Settings::default());
    engine.prepare();
    Ok(engine)
}

fn root_key(path: &Path, text: Option<&str>) -> Result<LocalRootKey, CallFault> {
    if let Some(text) = text {
        return LocalRootKey::from_text(text)
            .map_err(|error| CallFault::settings(format!("{ROOT_KEY_VARIABLE}: {error}")));
    }
    if !path.exists() {
        return Err(CallFault::settings(format!(
            "there is no root key at {}: restore it from a backup, or set {ROOT_KEY_VARIABLE}",
            path.display()
        )));
    }
    LocalRootKey::read_file(path).map_err(|error| CallFault::settings(format!("{}: {error}", path.display())))
}

/// Where a store is.
enum Place {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of PostgreSQL.
    Database(PostgresSettings),
}

impl Place {
    fn open(&self, environment: Environment) -> Result<(Box<dyn Keystore>, Option<String>), CallFault> {
        let (mode, limits) = (OpenMode::Existing, StoreLimits::default());
        match self {
            Self::File(path) => {
                let unusable = |error: StoreError| {
                    CallFault::settings(format!("the keystore {} cannot be opened: {error}", path.display()))
                };
                let store = SqliteKeystore::open(path, mode, environment, limits).map_err(unusable)?;
                Ok((Box::new(store), None))
            }
            Self::Database(settings) => {
                let store =
                    PostgresKeystore::open(settings, mode, environment, limits).map_err(|error| match error {
                        StoreError::Unreachable { .. } => {
                            CallFault::new(ErrorCode::ConnectFailed, error.to_string()).retry(Retry::Later)
                        }
                        error => {
                            CallFault::settings(format!("the keystore at {} cannot be opened: {error}", settings.url))
                        }
                    })?;
                Ok((Box::new(store), settings.warning()))
            }
        }
    }
}

/// The configuration file, of which some keys of the sections `engine` and `keystore` are read.
struct Config<'t> {
    path: &'t Path,
    text: &'t str,
    document: Document<'t>,
}

impl<'t> Config<'t> {
    fn read(path: &'t Path, text: &'t str) -> Result<Self, CallFault> {
        let document =
            Document::parse(text).map_err(|problem| CallFault::settings(format!("{}:{problem}", path.display())))?;
        Ok(Self { path, text, document })
    }

    fn wrong(&self, message: impl std::fmt::Display) -> CallFault {
        CallFault::settings(format!("{}: {message}", self.path.display()))
    }

    /// The value of a key, if the file sets it.
    fn value(&self, key: &str, kind: &Kind) -> Result<Option<SettingValue>, CallFault> {
        let (section, name) = key.split_once('.').unwrap_or((key, ""));
        let section = self.document.root().get(section).and_then(|section| section.get_ref().as_table());
        let Some(found) = section.and_then(|section| section.get(name)) else { return Ok(None) };
        let value = kind.read(&Raw::of(found.get_ref())).map_err(|problem| {
            let (line, column) = line_column(self.text, found.span().start);
            CallFault::settings(format!("{}:{line}:{column}: {key} {problem}", self.path.display()))
        })?;
        Ok(Some(value))
    }

    fn path(&self, key: &str, default: &str) -> Result<PathBuf, CallFault> {
        let value = self.value(key, &Kind::Path)?;
        Ok(value.map_or_else(|| default.into(), |path| path.text().into()))
    }

    fn time(&self, key: &str, min_ms: u64, setting: &mut Duration) -> Result<(), CallFault> {
        if let Some(value) = self.value(key, &Kind::Time(min_ms))? {
            *setting = value.time();
        }
        Ok(())
    }

    fn choice<T: Copy>(&self, key: &str, words: &[(&str, T)], setting: &mut T) -> Result<(), CallFault> {
        if let Some(value) = self.value(key, &Kind::AnyText)? {
            let choice = words.iter().find(|(word, _)| *word == value.text());
            let known = || words.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
            let (_, choice) = choice.ok_or_else(|| self.wrong(format_args!("{key} must be one of {}", known())))?;
            *setting = *choice;
        }
        Ok(())
    }

    /// Where the store is, with paths below `folder`.
    fn place(&self, folder: &Path) -> Result<Place, CallFault> {
        let url = self.value("keystore.url", &Kind::AnyText)?.filter(|url| !url.text().is_empty());
        let Some(url) = url else { return Ok(Place::File(folder.join(self.path("keystore.path", "keystore.db")?))) };
        if self.value("keystore.path", &Kind::Path)?.is_some() {
            return Err(self.wrong("keystore.path and keystore.url are both set: remove one of them"));
        }
        // Without the text: it may contain a password.
        let url =
            PostgresUrl::parse(url.text()).map_err(|problem| self.wrong(format_args!("keystore.url {problem}")))?;
        let file = |key| -> Result<Option<PathBuf>, CallFault> {
            let value = self.value(key, &Kind::OptionalPath)?;
            Ok(value.and_then(|path| path.optional_path().map(|path| folder.join(path))))
        };
        let mut settings = PostgresSettings::new(url);
        settings.authorities = file("keystore.authorities")?;
        settings.certificate = file("keystore.certificate")?;
        settings.private_key = file("keystore.private_key")?;
        settings.password_file = file("keystore.password_file")?;
        self.choice("keystore.sslmode", &SslMode::ALL.map(|mode| (mode.as_str(), mode)), &mut settings.sslmode)?;
        self.time("keystore.connect_timeout", 1, &mut settings.connect_timeout)?;
        self.time("keystore.statement_timeout", 1, &mut settings.statement_timeout)?;
        match settings.problems().as_slice() {
            [] => Ok(Place::Database(settings)),
            problems => Err(self.wrong(problems.join("; "))),
        }
    }

    fn settings(&self) -> Result<Settings, CallFault> {
        let mut settings = Settings::default();
        let keyings = [("field", Keying::Field), ("request", Keying::Request), ("session", Keying::Session)];
        self.choice("engine.curve", &[("r1", Curve::P256), ("k1", Curve::Secp256k1)], &mut settings.curve)?;
        self.choice("engine.keying", &keyings, &mut settings.keying)?;
        let empty_strings = [("encrypt", EmptyStrings::Encrypt), ("leave", EmptyStrings::Leave)];
        self.choice("engine.empty_strings", &empty_strings, &mut settings.empty_strings)?;
        self.time("engine.store_silence_max", 0, &mut settings.store_silence_max)?;
        self.time("engine.key_version_delay", 0, &mut settings.key_version_delay)?;
        Ok(settings)
    }
}
