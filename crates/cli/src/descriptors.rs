//! File descriptors: the limit of the process, and limits on sockets that fit below it.
//!
//! A listener that used up all descriptors would lock out the others: the operator port, and clients of the engine. The limits on sockets,
//! plus the other files of the process, therefore stay within the descriptor limit. If the configured limits do not fit, they are reduced
//! in proportion, and a warning states what they need.

use std::fmt::Write;

use leafseal_net::{CLOSING_MAX, OperatorSettings};
use leafseal_relay::Configuration;
use leafseal_server::ServerSettings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For files, the keystore, runtimes and threads.
const FILES: usize = 64;
/// For the event queues and wakers of one thread that carries traffic.
const THREAD: usize = 4;
/// For name lookups, which open their own sockets.
const LOOKUPS: usize = 32;
/// Minimum to which a limit is reduced.
const UNITS_MIN: usize = 4;

/// Raises the soft limit of descriptors to the hard one, and returns the limit in effect. If the system refuses, that is the soft limit.
pub(crate) fn raise() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // A refusal is not fatal: the limit in effect is checked.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    number(getrlimit(Resource::Nofile).current)
}

/// The limit that [`raise`] would reach.
pub(crate) fn hard_limit() -> usize {
    number(getrlimit(Resource::Nofile).maximum)
}

fn number(limit: Option<u64>) -> usize {
    limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
}

/// A setting that limits sockets.
struct SocketLimit<'c> {
    name: &'static str,
    value: &'c mut usize,
    /// Descriptors per unit of the setting.
    times: usize,
    /// Its limit per client, which is reduced with it.
    of_client: Option<&'c mut usize>,
}

impl SocketLimit<'_> {
    fn wanted(&self) -> usize {
        self.value.saturating_mul(self.times)
    }

    fn reduce(&mut self, available: usize, wanted: usize) {
        let share = |value: usize| {
            let share = value as u128 * available as u128 / wanted.max(1) as u128;
            usize::try_from(share).unwrap_or(value).max(1)
        };
        *self.value = share(*self.value);
        if let Some(of_client) = &mut self.of_client {
            **of_client = share(**of_client);
        }
    }
}

/// All uses of descriptors in one process.
struct DescriptorPlan<'c> {
    bounds: Vec<SocketLimit<'c>>,
    /// Settings that are not reduced: name and descriptors.
    fixed: Vec<(&'static str, usize)>,
    /// All other descriptors.
    other: usize,
}

impl DescriptorPlan<'_> {
    /// Reduces the limits if they do not fit, and returns a warning then.
    ///
    /// # Errors
    /// Advice if even small limits do not fit.
    fn fit(mut self, limit: usize) -> Result<Option<String>, String> {
        let fixed = self.fixed.iter().map(|(_, count)| *count).fold(self.other, usize::saturating_add);
        let wanted = self.bounds.iter().map(SocketLimit::wanted).fold(0, usize::saturating_add);
        let needed = fixed.saturating_add(wanted);
        if needed <= limit {
            return Ok(None);
        }
        let parts = self.parts();
        let advice = format!(
            "raise the limit to at least {needed} (shell: ulimit -n {needed}; systemd: LimitNOFILE={needed}; Docker: --ulimit \
             nofile={needed}), or lower these settings"
        );
        let available = limit.saturating_sub(fixed);
        let least: usize = self.bounds.iter().map(|bound| bound.times * UNITS_MIN.min(*bound.value)).sum();
        if available < least {
            return Err(format!(
                "the process may open {limit} descriptors, and needs at least {}; the configured limits need {needed}: {parts}. Please \
                 {advice}",
                fixed + least
            ));
        }
        let mut reduced = String::new();
        for bound in &mut self.bounds {
            bound.reduce(available, wanted);
            let _ = write!(reduced, "{}{} = {}", if reduced.is_empty() { "" } else { ", " }, bound.name, bound.value);
        }
        Ok(Some(format!(
            "the process may open {limit} descriptors, but the configured limits need {needed}: {parts}. Reduced to {reduced}. Please \
             {advice}"
        )))
    }

    /// The terms of the sum.
    fn parts(&self) -> String {
        let mut parts = Vec::new();
        for bound in &self.bounds {
            let times = if bound.times > 1 { format!(" x {}", bound.times) } else { String::new() };
            parts.push(format!("{} {}{times}", bound.name, bound.value));
        }
        parts.extend(self.fixed.iter().map(|(name, count)| format!("{name} {count}")));
        parts.push(format!("{} for threads, files and connections that are closing", self.other));
        parts.join(" + ")
    }
}

/// Fits the limits of an engine to the descriptor limit; `beside` is the number of other open files of the process. Returns a
/// warning if they were reduced.
///
/// # Errors
/// Advice if no usable limits fit.
pub(crate) fn fit_engine(settings: &mut ServerSettings, beside: usize, limit: usize) -> Result<Option<String>, String> {
    let has_api = settings.api.address.is_some();
    let has_operator = settings.operator.address.is_some();
    let listeners = 1 + usize::from(has_api) + usize::from(has_operator);
    let mut bounds = vec![
        SocketLimit {
            name: "server.connections_max",
            value: &mut settings.connections_max,
            times: 1,
            of_client: Some(&mut settings.client_connections_max),
        },
        SocketLimit { name: "server.handshakes_max", value: &mut settings.handshakes_max, times: 1, of_client: None },
    ];
    if has_api {
        let http = &mut settings.api.http;
        bounds.push(SocketLimit {
            name: "api.connections_max",
            value: &mut http.connections_max,
            times: 1,
            of_client: Some(&mut http.client_connections_max),
        });
    }
    let operator = has_operator.then_some(("operator.connections_max", settings.operator.connections_max));
    let other = FILES + listeners * (CLOSING_MAX + THREAD) + beside;
    DescriptorPlan { bounds, fixed: operator.into_iter().collect(), other }.fit(limit)
}

/// The same for a relay.
///
/// # Errors
/// Advice if no usable limits fit.
pub(crate) fn fit_relay(configuration: &mut Configuration, limit: usize) -> Result<Option<String>, String> {
    let threads = configuration.process.threads;
    let sockets = threads * (configuration.inbound.len() + configuration.outbound.len());
    let limits = &mut configuration.limits;
    let bounds = vec![
        SocketLimit {
            name: "limits.connections_max",
            value: &mut limits.connections_max,
            times: sockets,
            of_client: Some(&mut limits.client_connections_max),
        },
        SocketLimit {
            name: "upstream.sockets_max",
            value: &mut configuration.upstream.sockets_max,
            times: 1,
            of_client: None,
        },
    ];
    let engine = ("engine.connections_max", configuration.engine.calls.connections_max.saturating_mul(threads + 1));
    let operator = OperatorSettings::default().connections_max + CLOSING_MAX;
    let other = FILES + LOOKUPS + operator + threads * THREAD + sockets * (CLOSING_MAX + 1);
    DescriptorPlan { bounds, fixed: vec![engine], other }.fit(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::CliConfiguration;

    fn engine() -> ServerSettings {
        let mut settings = CliConfiguration::default().server;
        settings.api.address = Some(([127, 0, 0, 1], 0).into());
        settings
    }

    #[test]
    fn the_defaults_fit_below_a_usual_hard_limit() {
        let (before, mut settings) = (engine(), engine());
        assert_eq!(fit_engine(&mut settings, 0, 16_384), Ok(None));
        assert_eq!(settings.connections_max, before.connections_max);
    }

    #[test]
    fn bounds_that_do_not_fit_are_reduced_in_proportion_and_named() {
        for limit in [256, 1024, 4096] {
            let mut settings = engine();
            let warning = fit_engine(&mut settings, 0, limit).unwrap().expect("a warning");
            let ServerSettings { connections_max, handshakes_max, operator, api, client_connections_max, .. } =
                &settings;
            let sum = connections_max + handshakes_max + operator.connections_max + api.http.connections_max;
            assert!(sum < limit && sum > limit / 4, "{sum} of {limit}");
            assert_eq!((operator.connections_max, api.http.connections_max), (64, *connections_max));
            assert!(*client_connections_max >= 1 && *client_connections_max <= connections_max / 3);
            for part in
                ["server.connections_max 4096 + server.handshakes_max 512 + api.connections_max 4096", "ulimit -n "]
            {
                assert!(warning.contains(part), "{warning}");
            }
            let words = format!("Reduced to server.connections_max = {connections_max}, ");
            assert!(warning.contains(&words), "{warning}");
        }
    }

    #[test]
    fn no_bounds_of_any_use_are_an_error() {
        let mut settings = engine();
        let error = fit_engine(&mut settings, 0, 100).unwrap_err();
        assert!(error.contains("may open 100 descriptors, and needs at least 20"), "{error}");
        assert_eq!(settings.connections_max, engine().connections_max);
    }

    #[test]
    fn every_thread_and_listener_of_a_relay_counts() {
        let listener = "[[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\n";
        let text = format!(
            "[relay]\nthreads = 2\n[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
             {listener}{listener}"
        );
        let mut configuration = Configuration::parse(&text).unwrap();
        let warning = fit_relay(&mut configuration, 1024).unwrap().expect("a warning");
        assert!(warning.contains("limits.connections_max 16384 x 4 + upstream.sockets_max 32768 + "), "{warning}");
        let sockets = 4 * configuration.limits.connections_max + configuration.upstream.sockets_max;
        assert!((512..1024).contains(&sockets), "{sockets}");
        assert_eq!(configuration.limits.client_connections_max, configuration.limits.connections_max / 4);
        let again = fit_relay(&mut configuration, 1024);
        assert_eq!(again, Ok(None), "what was reduced fits");
    }
}
