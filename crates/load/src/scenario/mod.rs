//! A scenario file: the engine's address, the arrivals, and the actions of virtual users. `docs/load.md` describes each key.

mod fields;
mod flow;
pub mod fuzzing;
mod read;
mod yaml;

use std::time::Duration;

use fieldseal_client::{Curve, Keying};

use crate::arrivals::Process;
pub use flow::{Cursor, Flow, Next, Step};
pub use yaml::{Place, Problem, TEXT_SIZE_MAX};

/// Requests of different kinds that a file may have.
pub const KINDS_MAX: usize = 256;

/// The content of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Where the engine is and how it is reached.
    pub target: Target,
    /// The phases, in order; at least one.
    pub phases: Vec<Phase>,
    /// The scenarios; at least one has a weight above 0.
    pub scenarios: Vec<Scenario>,
    /// The kinds of requests, each once; [`Step::Send`] names them by their index.
    pub kinds: Vec<Kind>,
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// All errors of the file, in its order; only one if it is not YAML.
    pub fn read(text: &str) -> Result<Self, Vec<Problem>> {
        read::script(&yaml::read(text).map_err(|problem| vec![problem])?)
    }
}

/// Where the engine is.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// Host name or IP address.
    pub host: String,
    /// Port.
    pub port: u16,
    /// The client's certificate.
    pub certificate: Pem,
    /// Its private key.
    pub key: Pem,
    /// The authority of the engine's certificate.
    pub authority: Authority,
    /// The name in the engine's certificate; none: the host.
    pub server_name: Option<String>,
    /// Connections that the users of open phases share, at least 1.
    pub connections: usize,
}

/// A PEM, and its position in the file.
#[derive(Clone, PartialEq)]
pub struct Pem {
    /// The place of the value.
    pub place: Place,
    /// Its source.
    pub source: PemSource,
}

/// Where PEM comes from.
#[derive(Clone, PartialEq)]
pub enum PemSource {
    /// A file, from the folder of the scenario file.
    File(String),
    /// Contained in the file itself.
    Text(String),
}

/// Without the text, which may be a private key.
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
pub enum Authority {
    /// This.
    Given(Pem),
    /// `ca.pem` in the folder of the client's certificate.
    BesideCertificate,
}

/// A stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// How long it is.
    pub duration: Duration,
    /// Its arrivals.
    pub load: PhaseLoad,
}

/// The arrivals of a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhaseLoad {
    /// Users arrive, whatever became of those before.
    Open {
        /// So many a second at the beginning,
        from: f64,
        /// and so many at the end.
        to: f64,
        /// How the intervals between them vary; by default as the file sets for all, or evenly.
        process: Process,
        /// Users that may be there at a time.
        users_max: Option<usize>,
    },
    /// This many users, each on its own connection, restart whenever they finish.
    Closed {
        /// How many.
        connections: usize,
    },
    /// Nobody.
    Pause,
}

/// The flow of a user.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Its frequency, relative to the others' weights.
    pub weight: u32,
    /// A user of it also arrives at this interval, independently of the phases.
    pub every: Option<Duration>,
    /// Its steps.
    pub flow: Flow,
}

/// A kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Values in it.
    pub fields: usize,
    /// Bytes of each.
    pub field_size: usize,
    /// The curve; none: the engine's.
    pub curve: Option<Curve>,
    /// The keying; none: the engine's.
    pub keying: Option<Keying>,
    /// Whether it opens envelopes in place of sealing values.
    pub decrypt: bool,
    /// When it is cancelled.
    pub cancel_after: Option<Duration>,
    /// The app whose keys are used.
    pub app: String,
}
