//! The files of certificates and keys; relative paths start at the folder that `--dir` names.

use std::path::PathBuf;
use std::time::Duration;

use leafseal_config::{KeyExchange, mins, ms, settings};
use leafseal_net::tls::{PrivateKeySettings, SessionSettings, VerifiedChains};

settings! {
    /// The files of the engine's listener, and how they are used.
    #[derive(Debug, Clone)]
    pub(crate) struct ServerFiles {
        /// The server's certificate chain in PEM, its own certificate first.
        pub certificate: PathBuf = "certs/server.pem".into();
        /// The private key of `server.certificate`, in PEM.
        pub private_key: PathBuf = "certs/server.key".into();
        /// How operations with it are computed.
        pub private_key_settings: PrivateKeySettings = PrivateKeySettings::default(), is section("private_key_");
        /// How long after a full TLS handshake a client can resume its session, which costs a fraction. Its certificate and its grants are
        /// checked again each time. 0 disables resumption; at most seven days count.
        pub session_lifetime: Duration = SessionSettings::default().lifetime, in ms(0)..;
        /// The keys of session tickets, which engines behind one name share so that each can resume sessions of the others: lines of 64
        /// hexadecimal digits (`openssl rand -hex 32`). The first seals, all open. To rotate, add the new key at the end of every engine's
        /// file, then move it to the front, and remove the old one after a session's lifetime. Anyone who has such a key can resume
        /// sessions of clients. Without a file each engine makes its own keys and replaces them once per lifetime.
        pub session_ticket_keys: Option<PathBuf> = None;
        /// The accepted groups of the key exchange.
        pub key_exchange: KeyExchange = KeyExchange::of_rpc(), is section("tls_");
        /// Bounds of the client certificates that are remembered as verified.
        pub verified_chains: VerifiedChains = VerifiedChains::default(), is section("verified_chains_");
        /// The authorities whose client certificates are accepted, in PEM.
        pub client_authorities: PathBuf = "certs/ca.pem".into();
        /// How often the engine checks its certificates, keys and ticket keys for changes and loads new ones; 0 disables the check.
        pub reload_check: Duration = mins(1), in ms(0)..;
        /// Whether it checks the configuration's files, too, and reloads everything as on SIGHUP when one changes.
        pub reload_configuration: bool = false;
    }
}

settings! {
    /// The same of the API's listener.
    #[derive(Debug, Clone)]
    pub(crate) struct ApiFiles {
        /// The API's certificate chain in PEM, its own certificate first.
        pub certificate: PathBuf = "certs/server.pem".into();
        /// The private key of `api.certificate`, in PEM.
        pub private_key: PathBuf = "certs/server.key".into();
        /// How operations with it are computed.
        pub private_key_settings: PrivateKeySettings = PrivateKeySettings::default(), is section("private_key_");
        /// How long after a full TLS handshake a client can resume its session. Tickets are sealed by the keys of
        /// `server.session_ticket_keys`. 0 disables resumption; at most seven days count.
        pub session_lifetime: Duration = SessionSettings::default().lifetime, in ms(0)..;
        /// The accepted groups of the key exchange.
        pub key_exchange: KeyExchange = KeyExchange::default(), is section("tls_");
    }
}
