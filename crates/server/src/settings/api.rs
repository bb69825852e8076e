//! Settings of the HTTPS API: every limit with its default, and the data that it returns from configuration alone.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use leafseal_config::{Kind, ListItem, mins, ms, settings};
use leafseal_http::{HttpSettings, HttpSettingsError};
use leafseal_net::tls::ServerIdentity;
use thiserror::Error;

const ORIGINS: ListItem = ListItem {
    about: "origins, such as [\"https://app.example.com\"], or [\"*\"] for all",
    is_valid: |text| text.len() <= 4096,
};

settings! {
    /// Settings of the API: address, limits and timeouts.
    #[derive(Clone, Debug)]
    pub struct ApiSettings {
        /// Where `serve` offers the HTTPS API. Port 0 lets the system choose one. `dev` offers it on 127.0.0.1:8443 by default.
        pub address: Option<SocketAddr> = None;
        /// Certificate and key; required if there is an address.
        pub identity: Option<ServerIdentity> = None, is internal;
        /// Maximum size of a body. A larger one is answered with 413, before it is read if it declares its length.
        pub body_size_max: usize = 64 << 20, bytes in 1..=(4 << 30) - 2;
        /// Maximum size of a body of `/inspect`, which is processed in one step.
        pub inspect_size_max: usize = 64 << 10, bytes in 1..=1 << 20;
        /// Maximum number of calls in flight; one more is answered with 503.
        pub calls_max: usize = 4096, in 1..=1 << 20;
        /// Maximum duration of a call, from its head to its answer, including its body.
        pub call_timeout: Duration = mins(5), in ms(1)..;
        /// The team name returned to SDKs; the engine does not use it.
        pub team: String = "leafseal".to_owned(), is kind(Kind::Text(64));
        /// Origins whose pages may read public keys and decrypt with client-side tokens.
        // Validated with the other settings of the API.
        pub cors_origins: Vec<String> = Vec::new(), is kind(Kind::List(ORIGINS));
        /// Whether each call is logged, at level `info`.
        pub access_log: bool = false;
        /// Limits on connections, heads and bodies; `drain_timeout` and `trusted_balancers` are those of the server.
        pub http: HttpSettings = HttpSettings::default(), is section;
        /// The data that the API returns about an outbound relay, if there is one.
        pub relay: SharedRelayInformation = SharedRelayInformation::default(), is internal;
    }
}

/// The data that the API returns about an outbound relay. Clones share it, so that it can change while the API runs.
#[derive(Clone, Debug, Default)]
pub struct SharedRelayInformation(Arc<RwLock<Option<Arc<RelayInformation>>>>);

impl SharedRelayInformation {
    /// Replaces the data.
    pub fn set(&self, information: Option<RelayInformation>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = information.map(Arc::new);
    }

    pub(crate) fn get(&self) -> Option<Arc<RelayInformation>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Data about an outbound relay that the API returns to SDKs. The relay's operator supplies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayInformation {
    /// The destinations that go through it.
    pub destinations: Vec<RelayDestination>,
    /// The certificate of the relay's authority, PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// The interval at which SDKs poll; returned in whole seconds, at least 1.
    pub poll_interval: Duration,
}

/// A destination of the outbound relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayDestination {
    /// Names it.
    pub id: String,
    /// A host name, or a pattern such as `*.example.com`.
    pub domain: String,
}

/// An invalid setting of the API.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ApiSettingsError {
    /// No body, call or time at all.
    #[error("`api.{0}` is 0: set it above zero")]
    Nothing(&'static str),
    /// A bound of the listener.
    #[error("api: {0}")]
    Http(#[from] HttpSettingsError),
    /// A larger body than the queue or the memory for messages has room for would never be taken.
    #[error("`api.body_size_max` must be at most `{0}`: lower it, or raise `{0}`")]
    BodySize(&'static str),
    /// Not what browsers send.
    #[error(
        "`api.cors_origins` names `{0}`, which is not an origin: write scheme, host and port, such as https://app.example.com"
    )]
    Origin(String),
    /// No certificate.
    #[error(
        "the API has an address but no certificate: run `leafseal certs init`, or set `api.certificate` and `api.private_key`"
    )]
    NoIdentity,
}

impl ApiSettings {
    /// Checks that the limits are valid.
    ///
    /// # Errors
    /// The first problem found.
    pub fn validate(&self) -> Result<(), ApiSettingsError> {
        let sizes = [
            ("body_size_max", self.body_size_max),
            ("inspect_size_max", self.inspect_size_max),
            ("calls_max", self.calls_max),
        ];
        if let Some((setting, _)) = sizes.into_iter().find(|(_, size)| *size == 0) {
            return Err(ApiSettingsError::Nothing(setting));
        }
        if self.call_timeout.is_zero() {
            return Err(ApiSettingsError::Nothing("call_timeout"));
        }
        self.http.validate()?;
        match self.cors_origins.iter().find(|origin| !is_origin(origin)) {
            Some(origin) => Err(ApiSettingsError::Origin(origin.clone())),
            None => Ok(()),
        }
    }
}

/// Whether it is `*`, or a scheme and an authority without a path.
fn is_origin(origin: &str) -> bool {
    let is_plain = |authority: &str| {
        !authority.is_empty() && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
    };
    let authority = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    origin == "*" || authority.is_some_and(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_invalid_settings_are_named() {
        assert_eq!(ApiSettings::default().validate(), Ok(()));
        let none = ApiSettings { calls_max: 0, ..ApiSettings::default() };
        assert_eq!(none.validate(), Err(ApiSettingsError::Nothing("calls_max")));
        let no_time = ApiSettings { call_timeout: Duration::ZERO, ..ApiSettings::default() };
        assert_eq!(no_time.validate(), Err(ApiSettingsError::Nothing("call_timeout")));
        let streams = HttpSettings { streams_max: 0, ..HttpSettings::default() };
        let http = ApiSettings { http: streams, ..ApiSettings::default() };
        assert_eq!(http.validate(), Err(HttpSettingsError::Zero("streams_max").into()));
    }

    #[test]
    fn origins_are_those_that_browsers_send() {
        let of = |origin: &str| {
            ApiSettings { cors_origins: vec![origin.to_owned()], ..ApiSettings::default() }.validate().is_ok()
        };
        for good in ["*", "https://app.example.com", "http://localhost:3000", "http://[::1]:80"] {
            assert!(of(good), "{good}");
        }
        for wrong in ["", "app.example.com", "https://", "https://a/", "https://a b", "ftp://a", "null", "https://*"] {
            assert!(!of(wrong), "{wrong}");
        }
    }
}
