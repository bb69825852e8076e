//! The origin that every result and report states: the version of its JSON, the program, the machine and the settings.

use serde_json::{Value, json};

use crate::accounting::Machine;

/// Version of the JSON. It changes when a field is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// The program, the machine and the settings of a measurement.
#[derive(Clone, Debug)]
pub struct Provenance {
    /// Version of the program.
    pub version: String,
    /// The commit it was built from, if known.
    pub commit: Option<&'static str>,
    /// Whether it is an optimised build without assertions; figures of other builds are not comparable.
    pub is_release: bool,
    /// The machine that generated the load.
    pub machine: Machine,
    /// Settings of the engine that differ from its defaults, as `key=value`.
    pub engine_settings: Vec<String>,
}

impl Provenance {
    /// Detects the program and the machine.
    pub fn new(engine_settings: Vec<String>) -> Self {
        Provenance {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("LEAFSEAL_COMMIT"),
            is_release: !cfg!(debug_assertions),
            machine: Machine::this(),
            engine_settings,
        }
    }

    /// The common fields of every report.
    pub fn json(&self, kind: &str) -> Value {
        json!({
            "schema": SCHEMA,
            "kind": kind,
            "program": { "version": self.version, "commit": self.commit, "release": self.is_release },
            "machine": { "cpu": self.machine.cpu, "cores": self.machine.cores, "kernel": self.machine.kernel },
            "engine_settings": self.engine_settings,
        })
    }

    /// The same in one line of text.
    pub fn text(&self) -> String {
        let Machine { cpu, cores, kernel } = &self.machine;
        let commit = self.commit.map(|commit| format!(" ({commit})")).unwrap_or_default();
        let build = if self.is_release { "" } else { ", NOT A RELEASE BUILD" };
        let settings = if self.engine_settings.is_empty() {
            String::new()
        } else {
            format!("; {}", self.engine_settings.join(" "))
        };
        format!("leafseal {}{commit}{build} on {cpu}, {cores} cores, Linux {kernel}{settings}\n", self.version)
    }
}
