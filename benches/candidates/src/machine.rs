//! The machine that the figures belong to.

use std::fmt;

/// The CPU, as far as it decides which code path a library takes.
pub struct Machine {
    /// As the kernel names it.
    pub model: String,
    /// Those of the instruction sets that crypto libraries look for.
    pub features: Vec<String>,
}

/// The CPU features that the libraries test for before they choose a code path.
const RELEVANT: &[&str] = &[
    "aes",
    "pclmulqdq",
    "sha_ni",
    "avx",
    "avx2",
    "bmi2",
    "adx",
    "vaes",
    "vpclmulqdq",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512ifma",
    "avx512_vbmi2",
    "avx512vbmi",
    "gfni",
];

impl Machine {
    /// Reads `/proc/cpuinfo`; elsewhere than on Linux everything is unknown.
    pub fn detect() -> Self {
        let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
        };
        let numbers = format!("family {} model {}", field("cpu family"), field("model\t"));
        let present: Vec<&str> = field("flags").split(' ').collect();
        let features = RELEVANT.iter().filter(|f| present.contains(f)).map(|f| (*f).to_owned()).collect();
        Self { model: format!("{}, {numbers}", field("model name")), features }
    }

    /// As one JSON object.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!({ "cpu": self.model, "features": self.features })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.model, self.features.join(" "))
    }
}
