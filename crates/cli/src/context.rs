//! The common state of all commands: the folder, the configuration, the store and its engine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use leafseal_custody::{Custodian, ProviderHome};
use leafseal_engine::admin::{
    ChangeAuthor, Environment, Keystore, LateKeystore, LocalRootKey, OpenMode, PostgresKeystore, PostgresSettings,
    SlotProvider, SqliteKeystore, StoreAddress, StoreId, StoreLimits, read_unseal_file, system_clock,
};
use leafseal_engine::{Engine, EntryPoint, RequestOrigin, admin, system_random};
use zeroize::Zeroizing;

use crate::allocator;
use crate::arguments::GlobalArguments;
use crate::config::{CliConfiguration, CliSources, LoadedConfiguration, Presence, load};
use crate::failure::{CommandFailure, CommandOutcome, Exit};
use crate::note::note;
use crate::paths;

/// The environment variable that holds the root key's text.
const ROOT_KEY_VARIABLE: &str = "LEAFSEAL_ROOT_KEY";
/// The configuration file's name in the folder.
const CONFIG_FILE: &str = "leafseal.toml";

/// The folder and the configuration of a run.
pub(crate) struct RunContext {
    global: GlobalArguments,
    /// The configuration's file, if it exists.
    file: Option<PathBuf>,
    loaded: LoadedConfiguration,
}

/// Where a store is.
pub(crate) enum StoreLocation {
    /// A file of SQLite.
    File(PathBuf),
    /// A database of PostgreSQL.
    Database(PostgresSettings),
}

impl StoreLocation {
    pub(crate) fn address(&self) -> StoreAddress<'_> {
        match self {
            Self::File(path) => StoreAddress::File(path),
            Self::Database(settings) => StoreAddress::Database(settings),
        }
    }

    fn exists(&self, limits: &StoreLimits) -> CommandOutcome<bool> {
        match self {
            Self::File(path) => Ok(path.exists()),
            Self::Database(settings) => Ok(PostgresKeystore::exists(settings, limits)?),
        }
    }
}

/// Whether something was created or existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Created {
    /// Created now.
    Now,
    /// It existed.
    Before,
}

impl RunContext {
    /// Loads the configuration, valid or not, selects the implementations of primitives, and sets whether memory is wiped.
    pub(crate) fn read(global: &GlobalArguments) -> Self {
        let (file, presence) = match &global.config {
            Some(file) => (file.clone(), Presence::Required),
            None => (global.dir.join(CONFIG_FILE), Presence::Optional),
        };
        let environment = without_root_key(std::env::vars_os());
        let wrong_paths = paths::choose(&environment);
        let (file, mut loaded) = load(&CliSources { file: &file, presence, environment, settings: &global.set });
        loaded.problems.extend(wrong_paths);
        let CliConfiguration { memory, server, .. } = &mut loaded.settings;
        allocator::set_wiping(memory.wipe_buffers);
        server.reserve_large_frames = !memory.wipe_buffers;
        Self { global: global.clone(), file, loaded }
    }

    /// Loads the configuration of the same folder again.
    ///
    /// # Errors
    /// All problems of the configuration.
    pub(crate) fn reloaded(&self) -> CommandOutcome<Self> {
        Self::checked(&self.global)
    }

    /// The configuration's file, whether it exists or not.
    pub(crate) fn config_file(&self) -> PathBuf {
        self.global.config.clone().unwrap_or_else(|| self.global.dir.join(CONFIG_FILE))
    }

    /// Loads the configuration and refuses it if it has problems.
    pub(crate) fn checked(global: &GlobalArguments) -> CommandOutcome<Self> {
        let context = Self::read(global);
        match context.loaded.problems.as_slice() {
            [] => Ok(context),
            problems => Err(CommandFailure::usage(problems.join("\n"))),
        }
    }

    /// The configuration with the origins of its values.
    pub(crate) fn loaded(&self) -> &LoadedConfiguration {
        &self.loaded
    }

    /// The configuration in effect.
    pub(crate) fn config(&self) -> &CliConfiguration {
        &self.loaded.settings
    }

    /// The configuration's file, if it exists.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The folder that `--dir` names.
    pub(crate) fn folder(&self) -> &Path {
        &self.global.dir
    }

    /// A configured path.
    pub(crate) fn path(&self, configured: &Path) -> PathBuf {
        self.folder().join(configured)
    }

    /// Who changes the store, for its history: the user of this command; as an engine, if it runs one.
    fn author(&self) -> ChangeAuthor {
        let author = ChangeAuthor::of_process(&self.global.command_name);
        match self.global.command_name.as_str() {
            // As the server names itself.
            "serve" | "dev" if self.config().server.name.is_empty() => {
                let host = author.host.clone().unwrap_or_default();
                author.with_engine(&host)
            }
            "serve" | "dev" => author.with_engine(&self.config().server.name),
            _ => author,
        }
    }

    /// The parameters of a store besides its location.
    pub(crate) fn environment(&self, providers: Providers) -> Environment {
        environment(providers, self.author())
    }

    /// The folder with certificates.
    pub(crate) fn certificates(&self) -> PathBuf {
        self.folder().join("certs")
    }

    /// Where the store is.
    pub(crate) fn place(&self) -> StoreLocation {
        match self.config().store.database(self.folder()) {
            Some(settings) => StoreLocation::Database(settings),
            None => StoreLocation::File(self.path(&self.config().store.path)),
        }
    }

    fn root_key_path(&self) -> PathBuf {
        self.path(&self.config().store.root_key_file)
    }

    /// Opens the store, which must exist, and refuses it if a newer state of it was seen on this machine.
    pub(crate) fn store(&self) -> CommandOutcome<Box<dyn Keystore>> {
        self.remembered(self.store_of_any_age()?)
    }

    /// The same, whatever was seen of it: for commands that look at copies.
    pub(crate) fn store_of_any_age(&self) -> CommandOutcome<Box<dyn Keystore>> {
        let place = self.place();
        if let StoreLocation::File(path) = &place
            && !path.exists()
        {
            return Err(admin::StoreError::NoStore(path.as_path().into()).into());
        }
        self.open(&place, OpenMode::Existing, self.providers()?)
    }

    /// The folder with what was seen of stores.
    pub(crate) fn memory_folder(&self) -> Option<PathBuf> {
        self.config().store.memory_folder.as_ref().map(|folder| self.path(folder))
    }

    fn remembered(&self, store: Box<dyn Keystore>) -> CommandOutcome<Box<dyn Keystore>> {
        remember(&*store, self.config().store.expected_store(), self.memory_folder().as_deref())?;
        Ok(store)
    }

    /// Everything that prevents the store from being opened.
    pub(crate) fn store_problems(&self) -> Vec<CommandFailure> {
        let place = self.place();
        let missing = match &place {
            StoreLocation::File(path) if !path.exists() => {
                Some(admin::StoreError::NoStore(path.as_path().into()).into())
            }
            _ => None,
        };
        match (missing, self.providers()) {
            (None, Ok(providers)) => {
                let opened = self.open(&place, OpenMode::Existing, providers).and_then(|store| self.remembered(store));
                opened.err().into_iter().collect()
            }
            // A root key is created together with the store.
            (Some(missing), Ok(_)) => vec![missing],
            (Some(missing), Err(failure)) if failure.exit == Exit::Unreachable => vec![missing],
            (missing, Err(failure)) => missing.into_iter().chain([failure]).collect(),
        }
    }

    /// Opens the engine over the store.
    pub(crate) fn engine(&self) -> CommandOutcome<Engine> {
        let engine = Engine::new(self.store()?, self.config().engine.clone());
        Ok(engine.at(RequestOrigin::of(EntryPoint::Cli)))
    }

    /// The same; if nothing that is configured opens the store, one that waits for someone who unseals it.
    pub(crate) fn engine_or_sealed(&self) -> CommandOutcome<Engine> {
        let place = self.place();
        let (is_shared, limits) = (matches!(place, StoreLocation::Database(_)), self.config().keystore);
        let pauses = self.config().store.reopen_pauses();
        // Problems of what is there are reported now; what is missing, or down, may come later.
        let (automatic, providers) = (self.provider_source()?, self.automatic_providers()?);
        let (expected, memory_folder) = (self.config().store.expected_store(), self.memory_folder());
        let author = self.author();
        let opener = move |providers| {
            let store = place.address().open(OpenMode::Existing, environment(providers, author.clone()), limits)?;
            remember(&*store, expected, memory_folder.as_deref())?;
            Ok(store)
        };
        let store: Box<dyn Keystore> = match opener(providers) {
            Ok(store) => store,
            Err(admin::StoreError::Sealed { .. } | admin::StoreError::WrongRootKey { .. }) => {
                let late = LateKeystore::start(Box::new(opener), Box::new(automatic), pauses, is_shared);
                Box::new(late.map_err(|error| CommandFailure::internal(format!("cannot start a thread: {error}")))?)
            }
            Err(error) => return Err(error.into()),
        };
        let engine = Engine::new(store, self.config().engine.clone());
        Ok(engine.at(RequestOrigin::of(EntryPoint::Cli)))
    }

    /// An engine over an empty temporary store, for commands that need no keys.
    pub(crate) fn engine_without_keys(&self) -> CommandOutcome<Engine> {
        let folder =
            tempfile::tempdir().map_err(|error| CommandFailure::writing("the folder for temporary files", &error))?;
        let root_key = LocalRootKey::generate(&mut system_random());
        let path = folder.path().join("keystore.db");
        let store = SqliteKeystore::open(
            &path,
            OpenMode::CreateIfMissing,
            self.environment(vec![Box::new(root_key)]),
            self.config().keystore,
        )?;
        Ok(Engine::new(Box::new(store), self.config().engine.clone()))
    }

    /// Opens the store, or creates it with its root key; notes on standard error what was created.
    pub(crate) fn store_or_new(&self) -> CommandOutcome<Box<dyn Keystore>> {
        let place = self.place();
        if place.exists(&self.config().keystore)? {
            return self.remembered(self.open(&place, OpenMode::CreateIfMissing, self.providers()?)?);
        }
        let (store, key_created) = self.new_store()?;
        note(format_args!("created the keystore {}", place.address().location()));
        if key_created == Created::Now {
            let key_path = self.root_key_path();
            let advice = "back it up separately; the keystore cannot be read without it";
            note(format_args!("created the root key {}: {advice}", key_path.display()));
        }
        Ok(store)
    }

    /// Creates a store, and its root key if it is missing; returns whether the root key was created.
    pub(crate) fn new_store(&self) -> CommandOutcome<(Box<dyn Keystore>, Created)> {
        let (key, key_created) = self.root_key_or_new()?;
        let store = self.open(&self.place(), OpenMode::CreateIfMissing, vec![Box::new(key)])?;
        Ok((self.remembered(store)?, key_created))
    }

    fn open(&self, place: &StoreLocation, mode: OpenMode, providers: Providers) -> CommandOutcome<Box<dyn Keystore>> {
        let environment = self.environment(providers);
        let limits = self.config().keystore;
        let StoreLocation::Database(settings) = place else {
            return Ok(place.address().open(mode, environment, limits)?);
        };
        let store = PostgresKeystore::open(settings, mode, environment, limits)?;
        // Where there is a log, they are in it, now and after each connect.
        if !tracing::dispatcher::has_been_set() {
            store.durability_limits().iter().for_each(|limit| note(format_args!("leafseal: warning: {limit}")));
        }
        Ok(Box::new(store))
    }

    /// Returns what a store needs besides its place, for each time that it is opened.
    pub(crate) fn environments(&self) -> CommandOutcome<impl Fn() -> Result<Environment, admin::StoreError>> {
        // Here, for the advice that the failure has.
        self.providers()?;
        let source = self.provider_source()?;
        let author = self.author();
        Ok(move || Ok(environment(source()?, author.clone())))
    }

    /// Returns what may open the store without a person, as it is whenever it is called: nearest first, since the last ones call other
    /// machines.
    fn provider_source(
        &self,
    ) -> CommandOutcome<impl Fn() -> Result<Providers, admin::StoreError> + Send + Sync + 'static> {
        let (root_key, root_key_path) = (self.root_key_from_environment()?, self.root_key_path());
        let unseal_file = self.unseal_file();
        let (custody, home) = (self.config().custody.clone(), self.provider_home());
        Ok(move || {
            let mut providers: Providers = Vec::new();
            match &root_key {
                Some(key) => providers.push(Box::new(key.clone())),
                None if root_key_path.exists() => providers.push(Box::new(LocalRootKey::read_file(&root_key_path)?)),
                None => {}
            }
            if let Some(path) = &unseal_file {
                providers.push(read_unseal_file(path)?);
            }
            providers.extend(custody.providers(&home));
            Ok(providers)
        })
    }

    fn unseal_file(&self) -> Option<PathBuf> {
        self.config().store.unseal_file.as_ref().map(|path| self.path(path))
    }

    /// The service or device that the settings name.
    pub(crate) fn custodian(&self, custodian: Custodian) -> Option<Box<dyn SlotProvider>> {
        self.config().custody.provider(custodian, &self.provider_home())
    }

    fn provider_home(&self) -> ProviderHome {
        let variables = std::env::vars_os().map(|(name, _)| name);
        ProviderHome {
            folder: self.folder().to_owned(),
            program: std::env::current_exe().unwrap_or_else(|_| "leafseal".into()),
            kept_variables: variables.filter(|name| name.as_encoded_bytes().starts_with(b"LEAFSEAL_")).collect(),
        }
    }

    /// What may open the store: the root key, unless something else is to do without it.
    pub(crate) fn providers(&self) -> CommandOutcome<Providers> {
        let automatic = self.automatic_providers()?;
        if automatic.is_empty() { Ok(vec![Box::new(self.root_key()?)]) } else { Ok(automatic) }
    }

    /// What is there to open the store; its failures name the file.
    fn automatic_providers(&self) -> CommandOutcome<Providers> {
        if self.root_key_path().exists() {
            self.root_key()?;
        }
        Ok(self.provider_source()?()?)
    }

    fn root_key_from_environment(&self) -> CommandOutcome<Option<LocalRootKey>> {
        let Some(text) = root_key_text()? else { return Ok(None) };
        match LocalRootKey::from_text(&text) {
            Ok(key) => Ok(Some(key)),
            Err(error) => Err(CommandFailure::usage(format!("{ROOT_KEY_VARIABLE}: {error}"))),
        }
    }

    /// The root key of the store.
    pub(crate) fn root_key(&self) -> CommandOutcome<LocalRootKey> {
        if let Some(key) = self.root_key_from_environment()? {
            return Ok(key);
        }
        let path = self.root_key_path();
        if !path.exists() {
            let message = format!("no root key at {}", path.display());
            let [others @ .., last] = Custodian::ALL.map(Custodian::key);
            let others = others.join(", ");
            let advice = format!(
                "restore it from a backup, or set {ROOT_KEY_VARIABLE}, keystore.unseal_file, {others} or {last}"
            );
            return Err(CommandFailure::unreachable(message).advise(advice));
        }
        read_root_key(&path)
    }

    /// Only if there is no store yet: a store whose root key is missing must not be given another.
    fn root_key_or_new(&self) -> CommandOutcome<(LocalRootKey, Created)> {
        let path = self.root_key_path();
        if path.exists() || root_key_text()?.is_some() {
            return Ok((self.root_key()?, Created::Before));
        }
        make_folder(path.parent().unwrap_or(self.folder()))?;
        Ok((LocalRootKey::create_file(&path, &mut system_random())?, Created::Now))
    }
}

/// Reads a root key file; errors name it.
pub(crate) fn read_root_key(path: &Path) -> CommandOutcome<LocalRootKey> {
    LocalRootKey::read_file(path).map_err(|error| match error {
        admin::StoreError::RootKey(error) => CommandFailure::unreachable(format!("{}: {error}", path.display())),
        error => error.into(),
    })
}

/// The root key in the environment. The environment itself cannot be wiped; this copy is.
fn root_key_text() -> CommandOutcome<Option<Zeroizing<String>>> {
    let Some(value) = std::env::var_os(ROOT_KEY_VARIABLE) else { return Ok(None) };
    match value.into_string() {
        Ok(text) => Ok(Some(Zeroizing::new(text))),
        Err(value) => {
            wipe(value);
            Err(CommandFailure::usage(format!("{ROOT_KEY_VARIABLE}: it must be UTF-8 text")))
        }
    }
}

/// The variables that may set a configuration key. The root key is excluded: its copy is wiped.
fn without_root_key(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let lossy = |text: OsString| text.to_string_lossy().into_owned();
    let mut kept = Vec::new();
    for (name, value) in variables {
        if name == ROOT_KEY_VARIABLE {
            wipe(value);
        } else {
            kept.push((lossy(name), lossy(value)));
        }
    }
    kept
}

fn wipe(value: OsString) {
    drop(Zeroizing::new(value.into_encoded_bytes()));
}

/// What may open a store.
type Providers = Vec<Box<dyn SlotProvider>>;

/// The parameters of a store besides its location. `author`: who changes it.
fn environment(providers: Providers, author: ChangeAuthor) -> Environment {
    Environment { providers, clock: Box::new(system_clock), rng: Box::new(system_random()), author }
}

/// Creates a folder that only its owner may enter, and its parents.
pub(crate) fn make_folder(folder: &Path) -> CommandOutcome {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| CommandFailure::writing(folder.display(), &error))
}

/// Refuses a store that is not the expected one, or older than what was seen of it on this machine.
fn remember(
    store: &dyn Keystore,
    expected: Option<StoreId>,
    memory_folder: Option<&Path>,
) -> Result<(), admin::StoreError> {
    expected.map_or(Ok(()), |id| store.expect_store(&id))?;
    memory_folder.map_or(Ok(()), |folder| store.remember(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_key_is_not_among_the_settings() {
        let variables = [("A", "1"), (ROOT_KEY_VARIABLE, "leafseal-root-key-1:AA"), ("LEAFSEAL_DIR", "d")];
        let kept = without_root_key(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        assert_eq!(kept, [("A", "1"), ("LEAFSEAL_DIR", "d")].map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
