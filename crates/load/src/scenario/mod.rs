//! A scenario file: the engine's address, the arrivals, and the actions of virtual users. `docs/load.md` describes each key.

mod environments;
mod fields;
mod flow;
pub mod fuzzing;
mod read;
mod yaml;

use std::time::Duration;

use leafseal_client::{Curve, Keying};

use crate::arrivals::ArrivalProcess;
pub use flow::{FlowPosition, FlowStep, NextAction, UserFlow};
pub use yaml::{TEXT_SIZE_MAX, YamlPosition, YamlProblem};

/// Maximum kinds of requests in a file.
pub const KINDS_MAX: usize = 256;

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// The engine's address and credentials.
    pub target: LoadTarget,
    /// The phases, in order; at least one.
    pub phases: Vec<ScenarioPhase>,
    /// The scenarios; at least one has a weight above 0.
    pub scenarios: Vec<Scenario>,
    /// The distinct kinds of requests; [`Step::Send`] refers to them by index.
    pub kinds: Vec<RequestKind>,
}

impl Script {
    /// Parses a file, without any of its environments.
    ///
    /// # Errors
    /// All problems of the file, in its order; only one if it is not valid YAML.
    pub fn read(text: &str) -> Result<Self, Vec<YamlProblem>> {
        Self::read_for(text, None)
    }

    /// Parses a file with the settings of one of its environments.
    ///
    /// # Errors
    /// All problems of the file, in its order; only one if it is not valid YAML or does not have the environment.
    pub fn read_for(text: &str, environment: Option<&str>) -> Result<Self, Vec<YamlProblem>> {
        let one = |problem| vec![problem];
        let mut root = yaml::read(text).map_err(one)?;
        if let Some(name) = environment {
            environments::choose(&mut root, name).map_err(one)?;
        }
        read::script(&root)
    }
}

/// The engine's address and credentials.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadTarget {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The client's certificate.
    pub certificate: Pem,
    /// Its private key.
    pub key: Pem,
    /// The authority of the engine's certificate.
    pub authority: TargetAuthority,
    /// The name in the engine's certificate; defaults to the host.
    pub server_name: Option<String>,
    /// Connections that the users of open phases share, at least 1.
    pub connections: usize,
}

/// A PEM with its position in the file.
#[derive(Clone, PartialEq)]
pub struct Pem {
    /// The position of the value.
    pub place: YamlPosition,
    /// Its source.
    pub source: PemSource,
}

/// The source of a PEM.
#[derive(Clone, PartialEq)]
pub enum PemSource {
    /// A path relative to the folder of the scenario file.
    File(String),
    /// Text in the file itself.
    Text(String),
}

/// Omits the text, which may be a private key.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.source {
            PemSource::File(path) => write!(f, "{path} ({})", self.place),
            PemSource::Text(_) => write!(f, "PEM ({})", self.place),
        }
    }
}

/// The authority of the engine's certificate.
#[derive(Clone, Debug, PartialEq)]
pub enum TargetAuthority {
    /// This one.
    Given(Pem),
    /// `ca.pem` in the folder of the client's certificate.
    BesideCertificate,
}

/// A phase of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct ScenarioPhase {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Its duration.
    pub duration: Duration,
    /// Its arrivals.
    pub load: PhaseLoad,
}

/// The arrivals of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhaseLoad {
    /// Users arrive independently of earlier users.
    Open {
        /// Arrivals per second at the start.
        from: f64,
        /// Arrivals per second at the end.
        to: f64,
        /// Distribution of the intervals between them; defaults to the file's setting for all phases, or even.
        process: ArrivalProcess,
        /// Maximum concurrent users.
        users_max: Option<usize>,
    },
    /// A fixed number of users, each on its own connection, restart whenever they finish.
    Closed {
        /// The number of users.
        connections: usize,
    },
    /// No users.
    Pause,
}

/// The flow of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Its frequency, relative to the others' weights.
    pub weight: u32,
    /// Interval at which additional users arrive, independently of the phases.
    pub every: Option<Duration>,
    /// Its steps.
    pub flow: UserFlow,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKind {
    /// Values in it.
    pub fields: usize,
    /// Bytes of each.
    pub field_size: usize,
    /// The curve; defaults to the engine's.
    pub curve: Option<Curve>,
    /// The keying; defaults to the engine's.
    pub keying: Option<Keying>,
    /// Whether it decrypts envelopes instead of encrypting values.
    pub decrypt: bool,
    /// When it is cancelled.
    pub cancel_after: Option<Duration>,
    /// The app whose keys are used.
    pub app: String,
}
