//! Selects implementations by environment variables: for comparisons, and if a fault of one of them is suspected.

use leafseal_engine::{CurveLanes, Implementations, LanesUnavailable, use_curve_lanes, use_lanes};

/// The variable for short messages of AES-GCM.
pub(crate) const LANES_VARIABLE: &str = "LEAFSEAL_LANES";
/// The variable for fresh keys.
pub(crate) const CURVES_VARIABLE: &str = "LEAFSEAL_CURVES";

/// Selects the implementations that the environment names; returns problems.
pub(crate) fn choose(environment: &[(String, String)]) -> Vec<String> {
    let value = |variable| environment.iter().find(|(name, _)| name == variable).map(|(_, value)| value.as_str());
    // By default the second follows the first.
    let lanes = choice(LANES_VARIABLE, value(LANES_VARIABLE), &Implementations::ALL, Implementations::name, use_lanes);
    let curves = choice(CURVES_VARIABLE, value(CURVES_VARIABLE), &CurveLanes::ALL, CurveLanes::name, use_curve_lanes);
    [lanes, curves].into_iter().filter_map(Result::err).collect()
}

fn choice<T: Copy>(
    variable: &str,
    value: Option<&str>,
    all: &[T],
    name: impl Fn(T) -> &'static str,
    choose: impl Fn(T) -> Result<(), LanesUnavailable>,
) -> Result<(), String> {
    let Some(value) = value else { return Ok(()) };
    let Some(choice) = all.iter().find(|choice| name(**choice) == value) else {
        let names: Vec<&str> = all.iter().map(|choice| name(*choice)).collect();
        return Err(format!("{variable}: it must be one of {}", names.join(", ")));
    };
    choose(*choice).map_err(|error| format!("{variable}: {error}"))
}
