//! A scenario file: where the engine is, what comes when, and what a virtual user does. `docs/load.md` says what each key means.

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

/// What a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Where the engine is and how it is reached.
    pub target: Target,
    /// What comes when, one after the other; at least one.
    pub phases: Vec<Phase>,
    /// What users do; at least one has a weight above 0.
    pub scenarios: Vec<Scenario>,
    /// The kinds of requests, each once; [`Step::Send`] names them by their index.
    pub kinds: Vec<Kind>,
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// All that is wrong with it, in the order of the file; one problem alone where it is not YAML.
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

/// Something in PEM, and where the file says so.
#[derive(Clone, PartialEq)]
pub struct Pem {
    /// The place of the value.
    pub place: Place,
    /// What it says.
    pub source: PemSource,
}

/// Where PEM comes from.
#[derive(Clone, PartialEq)]
pub enum PemSource {
    /// A file, from the folder of the scenario file.
    File(String),
    /// It stands in the file itself.
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

/// Who vouches for the engine.
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
    /// Who comes in it.
    pub load: PhaseLoad,
}

/// Who comes in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PhaseLoad {
    /// Users arrive, whatever became of those before.
    Open {
        /// So many a second at the beginning,
        from: f64,
        /// and so many at the end.
        to: f64,
        /// How the times between them vary; none: as the file says for all, or evenly.
        process: Process,
        /// Users that may be there at a time.
        users_max: Option<usize>,
    },
    /// So many users, each on a connection of its own, begin anew whenever they are done.
    Closed {
        /// How many.
        connections: usize,
    },
    /// Nobody.
    Pause,
}

/// What a user does.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// How often it is drawn, beside the others' weights.
    pub weight: u32,
    /// A user of it comes so often besides, whatever the phases say.
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
