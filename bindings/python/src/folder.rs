//! Opens an engine over the folder of `fieldseal`: its key store, its root key, and the settings that apply in process.

use std::path::{Path, PathBuf};

use fieldseal_engine::admin::{
    Environment, Error, Keystore, Limits, LocalRootKey, OpenMode, SqliteKeystore, system_clock,
};
use fieldseal_engine::{Curve, EmptyStrings, Engine, Keying, Settings, system_random};
use toml::{Table, Value};

use crate::fault::Fault;

/// The environment variable that holds the root key's text; Python reads it.
const ROOT_KEY_VARIABLE: &str = "FIELDSEAL_ROOT_KEY";
/// The configuration file's name in the folder.
const CONFIG_FILE: &str = "fieldseal.toml";

/// Opens the engine of `folder`. The text of a root key overrides its file.
pub(crate) fn open(folder: &Path, root_key_text: Option<&str>) -> Result<Engine, Fault> {
    let config = Config::read(&folder.join(CONFIG_FILE))?;
    let path = folder.join(config.path("path", "keystore.db")?);
    if !path.exists() {
        return Err(Fault::settings(format!("there is no key store at {}", path.display())));
    }
    let root_key = root_key(&folder.join(config.path("root_key_file", "root.key")?), root_key_text)?;
    let environment =
        Environment { root_key: Box::new(root_key), clock: Box::new(system_clock), rng: Box::new(system_random()) };
    let store = SqliteKeystore::open(&path, OpenMode::Existing, environment, Limits::default());
    let store: Box<dyn Keystore> = Box::new(store.map_err(|error| unusable(&path, &error))?);
    let engine = Engine::new(store, config.settings()?);
    engine.prepare();
    Ok(engine)
}

fn unusable(path: &Path, error: &Error) -> Fault {
    Fault::settings(format!("the key store {} cannot be opened: {error}", path.display()))
}

fn root_key(path: &Path, text: Option<&str>) -> Result<LocalRootKey, Fault> {
    if let Some(text) = text {
        return LocalRootKey::from_text(text).map_err(|error| Fault::settings(format!("{ROOT_KEY_VARIABLE}: {error}")));
    }
    if !path.exists() {
        return Err(Fault::settings(format!(
            "there is no root key at {}: restore it from a backup, or set {ROOT_KEY_VARIABLE}",
            path.display()
        )));
    }
    LocalRootKey::read_file(path).map_err(|error| Fault::settings(format!("{}: {error}", path.display())))
}

/// The configuration file, of which the sections `engine` and `keystore` are read.
struct Config {
    path: PathBuf,
    table: Table,
}

impl Config {
    fn read(path: &Path) -> Result<Self, Fault> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Fault::settings(format!("{}: {error}", path.display()))),
        };
        let table = text
            .parse::<Table>()
            .map_err(|error| Fault::settings(format!("{} is not TOML: {}", path.display(), error.message())))?;
        let config = Self { path: path.to_owned(), table };
        if config.text("keystore", "url")?.is_some_and(|url| !url.is_empty()) {
            return Err(config
                .wrong("keystore.url is set: Engine.open reads key stores in files; connect to an engine instead"));
        }
        Ok(config)
    }

    fn wrong(&self, message: impl std::fmt::Display) -> Fault {
        Fault::settings(format!("{}: {message}", self.path.display()))
    }

    fn text(&self, section: &str, key: &str) -> Result<Option<&str>, Fault> {
        match self.table.get(section).and_then(|section| section.get(key)) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(self.wrong(format_args!("{section}.{key} must be a string"))),
        }
    }

    fn path(&self, key: &str, default: &str) -> Result<PathBuf, Fault> {
        Ok(self.text("keystore", key)?.unwrap_or(default).into())
    }

    fn choice<T>(&self, key: &str, words: &[(&str, T)], setting: &mut T) -> Result<(), Fault>
    where
        T: Copy,
    {
        let Some(word) = self.text("engine", key)? else { return Ok(()) };
        let Some((_, choice)) = words.iter().find(|(known, _)| *known == word) else {
            let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
            return Err(self.wrong(format_args!("engine.{key} must be one of {}", known.join(", "))));
        };
        *setting = *choice;
        Ok(())
    }

    fn settings(&self) -> Result<Settings, Fault> {
        let mut settings = Settings::default();
        let keyings = [("field", Keying::Field), ("request", Keying::Request), ("session", Keying::Session)];
        self.choice("curve", &[("r1", Curve::P256), ("k1", Curve::Secp256k1)], &mut settings.curve)?;
        self.choice("keying", &keyings, &mut settings.keying)?;
        let empty_strings = [("encrypt", EmptyStrings::Encrypt), ("leave", EmptyStrings::Leave)];
        self.choice("empty_strings", &empty_strings, &mut settings.empty_strings)?;
        Ok(settings)
    }
}
