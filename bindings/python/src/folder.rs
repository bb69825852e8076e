//! Opens an engine over the folder of `leafseal`: its keystore, its root key, and the settings that apply in process.

use std::io::ErrorKind;
use std::path::Path;

use leafseal_config::{Keys, Sources, settings};
use leafseal_engine::admin::{
    AppName, AppPublicKeys, ChangeAuthor, Environment, Keystore, LocalRootKey, OpenMode, PostgresKeystore,
    SqliteKeystore, StoreError, StoreLimits, StorePlace, system_clock,
};
use leafseal_engine::{Curve, Engine, PublicKey, Settings, system_random};
use leafseal_protocol::{ErrorCode, Retry};

use crate::fault::CallFault;

/// The environment variable that holds the root key's text; Python reads it.
const ROOT_KEY_VARIABLE: &str = "LEAFSEAL_ROOT_KEY";
/// The configuration file's name in the folder.
const CONFIG_FILE: &str = "leafseal.toml";

settings! {
    /// The settings of `leafseal.toml` that apply in process.
    #[derive(Debug)]
    struct FolderSettings {
        /// Encryption, and keys in memory.
        pub engine: Settings = Settings::default(), is section("engine.");
        /// The location of the keystore.
        pub store: StorePlace = StorePlace::default(), is section("keystore.");
        /// Limits of the keystore.
        pub limits: StoreLimits = StoreLimits::default(), is section("keystore.");
    }
}

/// The engine of a folder.
pub(crate) struct Opened {
    pub(crate) engine: Engine,
    /// A weakness of the configuration that the user should know of.
    pub(crate) warning: Option<String>,
}

/// Opens the engine of `folder`. The text of a root key overrides its file.
pub(crate) fn open(folder: &Path, root_key_text: Option<&str>) -> Result<Opened, CallFault> {
    let settings = read(&folder.join(CONFIG_FILE))?;
    if settings.store.database(folder).is_none() {
        let path = folder.join(&settings.store.path);
        if !path.exists() {
            return Err(CallFault::settings(format!("there is no keystore at {}", path.display())));
        }
    }
    let root_key = root_key(&folder.join(&settings.store.root_key_file), root_key_text)?;
    let environment = Environment {
        providers: vec![Box::new(root_key)],
        clock: Box::new(system_clock),
        rng: Box::new(system_random()),
        author: ChangeAuthor::of_process("python"),
    };
    let (store, warning) = open_store(&settings, folder, environment)?;
    let engine = Engine::new(store, settings.engine);
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

/// Reads the file at `path`, if there is one. Other tables and keys than those of [`FolderSettings`] do not apply in process.
fn read(path: &Path) -> Result<FolderSettings, CallFault> {
    let name = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(FolderSettings::default()),
        Err(error) => return Err(CallFault::settings(format!("{name}: {error}"))),
    };
    let keys = Keys::<FolderSettings>::default();
    let mut loaded = keys.load(&Sources { file: Some((&name, &text)), is_shared: true, ..Sources::default() });
    if loaded.problems.is_empty() {
        let settings = &loaded.settings;
        let mut problems = settings.store.problems(loaded.is_set("keystore.path"));
        problems.extend(settings.engine.problems(&settings.limits));
        loaded.problems = problems.iter().map(|problem| format!("{name}: {problem}")).collect();
    }
    match loaded.problems.as_slice() {
        [] => Ok(loaded.settings),
        problems => Err(CallFault::settings(problems.join("; "))),
    }
}

/// Opens the keystore of these settings.
fn open_store(
    settings: &FolderSettings,
    folder: &Path,
    environment: Environment,
) -> Result<(Box<dyn Keystore>, Option<String>), CallFault> {
    let (mode, limits) = (OpenMode::Existing, settings.limits);
    let Some(database) = settings.store.database(folder) else {
        let path = folder.join(&settings.store.path);
        let unusable = |error: StoreError| {
            CallFault::settings(format!("the keystore {} cannot be opened: {error}", path.display()))
        };
        let store = SqliteKeystore::open(&path, mode, environment, limits).map_err(unusable)?;
        return Ok((Box::new(store), None));
    };
    let store = PostgresKeystore::open(&database, mode, environment, limits).map_err(|error| match error {
        StoreError::Unreachable { .. } => {
            CallFault::new(ErrorCode::ConnectFailed, error.to_string()).retry(Retry::Later)
        }
        error => CallFault::settings(format!("the keystore at {} cannot be opened: {error}", database.url)),
    })?;
    Ok((Box::new(store), database.warning()))
}
