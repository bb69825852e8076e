//! Configuration: one TOML file, overridden by environment variables, overridden by flags.
//!
//! Every key is a field of a struct that [`leafseal_config::settings!`] declares, in the crate that uses it; [`CliConfiguration`] puts
//! them into tables. The file, the environment, `--set`, `config show`, `config check`, the schema and the tables of
//! `docs/configuration.md` are derived from the declarations, so that none can know a key that another does not.

#[cfg(test)]
mod docs;
mod files;
mod load;
#[cfg(test)]
mod mentions;
mod schema;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::LazyLock;

use leafseal_client::{ClientSettings, ClientTls};
use leafseal_config::{Keys, mins, settings};
use leafseal_custody::CustodySettings;
use leafseal_engine::{Settings, admin};
use leafseal_net::{LogFormat, OperatorSettings};
use leafseal_server::{Scheduling, ServerSettings};

pub(crate) use files::{ApiFiles, ServerFiles};
pub(crate) use load::{CliSources, LoadedConfiguration, Presence, load};
pub(crate) use schema::{engine_schema, relay_schema};

/// Every key, in the order of the documentation.
pub(crate) static KEYS: LazyLock<Keys<CliConfiguration>> = LazyLock::new(Keys::default);

/// The default address of the operator port: loopback, because anyone who can reach the port can read its content.
const OPERATOR_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3444);

settings! {
    /// Everything that can be configured: each field is a table of the file, or a part of one.
    #[derive(Debug, Clone)]
    pub(crate) struct CliConfiguration {
        /// Encryption, keys in memory, and how long a worker runs before it yields.
        pub engine: Settings = Settings::default(), is section("engine.");
        /// The process's memory.
        pub memory: ProcessMemory = ProcessMemory::default(), is section("engine.");
        /// Where keys are stored, and the limits of the store.
        pub store: admin::StorePlace = admin::StorePlace::default(), is section("keystore.");
        /// Limits of the store.
        pub keystore: admin::StoreLimits = admin::StoreLimits::default(), is section("keystore.");
        /// Services and devices that keep key slots.
        pub custody: CustodySettings = CustodySettings::default(), is section("");
        /// The listener of `serve` and `dev`.
        pub files: ServerFiles = ServerFiles::default(), is section("server.");
        /// The [HTTPS API](api.md) of `serve` and `dev`. It shares the queue, workers, memory and `admission_wait` of `[server]`.
        pub api_files: ApiFiles = ApiFiles::default(), is section("api.");
        /// The listeners; the content of the files is read when they start.
        pub server: ServerSettings = server_settings(), is section("server.");
        /// Connections of commands with `--connect`.
        // A command may wait for a document of 100 MB on a slow machine.
        pub client: ClientSettings = ClientSettings { request_timeout: mins(5), ..ClientSettings::default() }, is section("client.");
        /// Input of commands: files and standard input.
        pub input: InputLimits = InputLimits::default(), is section("input.");
        /// The log of `serve`, `relay`, `probe` and `dev`, on standard error.
        pub log: LogSettings = LogSettings::default(), is section("log.");
    }
}

settings! {
    /// How the process uses memory.
    #[derive(Debug, Clone)]
    pub(crate) struct ProcessMemory {
        /// Whether memory is overwritten with zeros before it is freed, so that no plaintext remains in it. Off by default because it costs
        /// time: docs/threat-model.md states how much.
        pub wipe_buffers: bool = false;
    }
}

settings! {
    /// Limits on files and standard input. Documents are limited by the engine's own settings.
    #[derive(Debug, Clone)]
    pub(crate) struct InputLimits {
        /// Maximum size of a file that `--file` encrypts or decrypts.
        pub file_size_max: usize = 1 << 30, bytes in 1..=64 << 30;
        /// Maximum size of a line of JSON Lines.
        pub line_size_max: usize = 16 << 20, bytes in 1..=(4 << 30) - 2;
        /// Maximum number of lines in a block, the unit that a thread processes.
        pub block_lines_max: usize = 64, in 1..=65_536;
        /// Maximum size of a block; a longer line is a block of its own.
        pub block_size_max: usize = 256 << 10, bytes in 1..=4 << 30;
        /// Threads that process blocks of lines; each has one block in progress and one waiting.
        pub threads: usize = std::thread::available_parallelism().map_or(1, usize::from) => "one per core", in 1..=1024;
        /// Whether `encrypt`, `decrypt` and `rewrap` fail if a selector matches nothing, in JSON Lines in any line, as with `--strict`.
        pub strict: bool = false;
    }
}

settings! {
    /// The log's level and format.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct LogSettings {
        /// The lowest severity that is logged. `dev` logs from `warn` unless this is set.
        pub level: tracing::Level = tracing::Level::INFO,
            one of { "error" => tracing::Level::ERROR, "warn" => tracing::Level::WARN,
                "info" => tracing::Level::INFO, "debug" => tracing::Level::DEBUG, "trace" => tracing::Level::TRACE };
        /// The format of log lines, including those of the relay's access log: JSON objects, or `name=value` pairs.
        pub format: LogFormat = LogFormat::Json, one of { "json" => LogFormat::Json, "logfmt" => LogFormat::Logfmt };
    }
}

fn server_settings() -> ServerSettings {
    let operator = OperatorSettings { address: Some(OPERATOR_ADDRESS), ..OperatorSettings::default() };
    ServerSettings { operator, ..ServerSettings::default() }
}

impl CliConfiguration {
    /// The client's settings for one engine.
    pub(crate) fn client(&self, address: &str, server_name: Option<&str>, tls: ClientTls) -> ClientSettings {
        let server_name = server_name.map(str::to_owned);
        ClientSettings { addresses: vec![address.to_owned()], server_name, tls, ..self.client.clone() }
    }

    /// Warnings about settings that should not be used in production.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let is_fair = self.server.scheduling == Scheduling::Fair;
        let unfair = "server.scheduling is first-come-first-served: small requests wait for large ones; it is for demonstrations, and for \
                      nothing else";
        let unfair = (!is_fair).then(|| unfair.to_owned());
        unfair.into_iter().chain(self.store.warning()).collect()
    }

    /// Checks settings that depend on one another. Returns a sentence for each problem. `sets_store_path`: whether `keystore.path` is
    /// set by something other than the default.
    pub(crate) fn check(&self, sets_store_path: bool) -> Vec<String> {
        let mut problems = self.store.problems(sets_store_path);
        problems.extend(self.custody.problems());
        problems.extend(self.engine.problems(&self.keystore));
        if let Err(error) = self.server.validate() {
            problems.push(format!("section [server]: {error}"));
        }
        if let Err(error) = self.server.api.validate() {
            problems.push(format!("section [api]: {error}"));
        }
        for (table, key_exchange) in [
            ("server", &self.files.key_exchange),
            ("api", &self.api_files.key_exchange),
            ("client", &self.client.key_exchange),
        ] {
            problems.extend(key_exchange.list().err().map(|error| format!("{table}.tls_groups {error}")));
        }
        if self.engine.document.document_size_max > self.server.limits.frame_size_max {
            problems.push(
                "document.document_size_max is larger than server.frame_size_max: a document of that size could not be \
                 sent; raise the second, or lower the first"
                    .to_owned(),
            );
        }
        problems
    }
}
