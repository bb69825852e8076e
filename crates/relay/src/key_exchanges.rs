//! The groups of TLS handshakes with upstreams, of the whole process: connections of all configurations count together.

use leafseal_net::tls::GroupCounters;

/// Handshakes with upstreams.
pub(crate) static UPSTREAM_KEY_EXCHANGES: GroupCounters = GroupCounters::new();
