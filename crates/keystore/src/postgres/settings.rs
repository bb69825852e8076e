//! Where a PostgreSQL store is, and how it is reached.
//!
//! A URL holds no password: command lines and environments are readable through `/proc`, and configurations are printed. Errors do not
//! repeat the text that was refused.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use leafseal_config::{KeyExchangeRule, ms, secs, settings};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// PostgreSQL's port.
const PORT: u16 = 5432;
/// Longest URL in bytes.
const URL_SIZE_MAX: usize = 4096;
/// Most servers of one store.
const HOST_COUNT_MAX: usize = 16;

settings! {
    /// How a PostgreSQL store is reached. Files are read at each connect, so that new passwords and certificates take effect.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct PostgresSettings {
        /// Servers, user and database.
        // `StorePlace::database` sets it from `keystore.url`, which may be empty.
        pub url: PostgresUrl = PostgresUrl::none(), is internal;
        /// How the PostgreSQL server is authenticated; all modes but the first are weaker and log a warning. Unix sockets do not use TLS:
        /// the permissions of the socket apply.
        pub sslmode: SslMode = SslMode::VerifyFull;
        /// The certificate authorities that are trusted to issue the PostgreSQL server's certificate, in PEM. This file and the next three
        /// are read at every connect.
        pub authorities: Option<PathBuf> = None;
        /// `any`: each group for the key exchange of TLS that the PostgreSQL server has. `hybrid`: only X25519MLKEM768, so that what is
        /// recorded today stays secret from a future quantum computer; a server without it is refused.
        pub tls_require: KeyExchangeRule = KeyExchangeRule::Any,
            one of { "any" => KeyExchangeRule::Any, "hybrid" => KeyExchangeRule::Hybrid };
        /// The certificate chain for the login to PostgreSQL, in PEM, the client's own certificate first.
        pub certificate: Option<PathBuf> = None;
        /// The private key of `keystore.certificate`, in PEM.
        pub private_key: Option<PathBuf> = None;
        /// The file whose first line is the password for the login to PostgreSQL. Only its owner may have access to it.
        pub password_file: Option<PathBuf> = None;
        /// Maximum time to connect to one PostgreSQL server, including TLS and login.
        pub connect_timeout: Duration = secs(5), in ms(1)..;
        /// Maximum time of a statement in PostgreSQL, and of the wait for the confirmation that a change is durable.
        pub statement_timeout: Duration = secs(5), in ms(1)..;
    }
}

impl PostgresSettings {
    /// The store at `url`, with the defaults: a verified certificate and name of the server, no certificate and no password of our own.
    pub fn new(url: PostgresUrl) -> Self {
        Self { url, ..Self::default() }
    }

    /// The contradictions between settings, as sentences about the keys of the configuration.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let verifies = matches!(self.sslmode, SslMode::VerifyFull | SslMode::VerifyCa);
        if verifies && self.authorities.is_none() && self.url.uses_network() {
            problems.push(format!(
                "keystore.authorities must name the certificates of the authorities that keystore.sslmode {} trusts",
                self.sslmode.as_str()
            ));
        }
        if self.tls_require == KeyExchangeRule::Hybrid && self.sslmode == SslMode::Disable && self.url.uses_network() {
            problems.push("keystore.tls_require hybrid needs TLS: set another keystore.sslmode".to_owned());
        }
        if self.certificate.is_some() != self.private_key.is_some() {
            problems.push("keystore.certificate and keystore.private_key must be set together".to_owned());
        }
        problems
    }

    /// A way to the database on which others could pose as it.
    pub fn warning(&self) -> Option<String> {
        let url = Some(&self.url).filter(|url| url.uses_network())?;
        let risk = match self.sslmode {
            SslMode::VerifyFull => return None,
            SslMode::VerifyCa => "every server with a certificate of keystore.authorities can pose as the keystore",
            SslMode::Require => "anyone who can redirect the connection can pose as the keystore",
            SslMode::Disable => {
                "anyone who can redirect the connection can pose as the keystore, and anyone on the path can read it"
            }
        };
        Some(format!("keystore.sslmode is {}: {risk} at {url}", self.sslmode.as_str()))
    }
}

settings! {
    /// How the server is authenticated, in PostgreSQL's own words.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SslMode {
        /// TLS with a certificate that `keystore.authorities` have issued and that names the host.
        VerifyFull = "verify-full",
        /// The same, but the certificate may name any host, so every other server of these authorities can pose as this one.
        VerifyCa = "verify-ca",
        /// TLS with any certificate.
        Require = "require",
        /// No TLS.
        Disable = "disable",
    }
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerHost {
    /// A name or an IP address, and a port.
    Network(String, u16),
    /// The folder of a Unix socket, and the port in its name.
    Socket(PathBuf, u16),
}

impl fmt::Display for ServerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(name, port) if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Network(name, port) => write!(f, "{name}:{port}"),
            Self::Socket(folder, port) => write!(f, "{}/.s.PGSQL.{port}", folder.display()),
        }
    }
}

/// `postgres://USER@HOST[:PORT][,HOST[:PORT]…]/DATABASE`. Of several servers the first one that is a primary is used. A host that begins
/// with a slash, written as `%2F`, is the folder of a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    pub(crate) user: String,
    pub(crate) hosts: Vec<ServerHost>,
    pub(crate) database: String,
}

/// Why a URL of a store is refused. Holds nothing of the URL, which may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidUrl {
    /// Another scheme, no user, host or database, or characters that must be percent-encoded.
    #[error("must have the form postgres://USER@HOST:PORT/DATABASE")]
    Form,
    /// It has a password.
    #[error(
        "must not contain a password, which others could read: write the password into a file and set keystore.password_file"
    )]
    Password,
    /// It has parameters.
    #[error("must not contain parameters: the keys of the section [keystore] replace them, such as keystore.sslmode")]
    Parameters,
}

impl PostgresUrl {
    /// No server.
    fn none() -> Self {
        Self { user: String::new(), hosts: Vec::new(), database: String::new() }
    }

    /// Parses a URL.
    ///
    /// # Errors
    /// [`InvalidUrl`].
    pub fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        let rest = rest.filter(|_| text.len() <= URL_SIZE_MAX).ok_or(InvalidUrl::Form)?;
        let at = rest.rfind('@');
        // Before anything else, so that no other reason hides that there is a password to be replaced.
        if at.is_some_and(|at| rest[..at].contains(':')) {
            return Err(InvalidUrl::Password);
        }
        if rest.contains(['?', '#']) {
            return Err(InvalidUrl::Parameters);
        }
        let (user, rest) = rest.split_once('@').ok_or(InvalidUrl::Form)?;
        let (hosts, database) = rest.split_once('/').ok_or(InvalidUrl::Form)?;
        if database.contains('/') || rest.contains('@') {
            return Err(InvalidUrl::Form);
        }
        let hosts: Vec<ServerHost> = hosts.split(',').map(host).collect::<Result<_, _>>()?;
        if hosts.len() > HOST_COUNT_MAX {
            return Err(InvalidUrl::Form);
        }
        Ok(Self { user: decoded(user)?, hosts, database: decoded(database)? })
    }

    /// Whether a server is not reached through a Unix socket.
    pub fn uses_network(&self) -> bool {
        self.hosts.iter().any(|host| matches!(host, ServerHost::Network(..)))
    }
}

/// Decodes a part that must not be empty.
fn decoded(part: &str) -> Result<String, InvalidUrl> {
    let text = percent_decode_str(part).decode_utf8().map_err(|_| InvalidUrl::Form)?;
    let is_valid = !text.is_empty() && !text.chars().any(char::is_control);
    if is_valid { Ok(text.into_owned()) } else { Err(InvalidUrl::Form) }
}

fn host(text: &str) -> Result<ServerHost, InvalidUrl> {
    let bracketed = text.strip_prefix('[').map(|rest| rest.split_once(']').ok_or(InvalidUrl::Form)).transpose()?;
    let (name, port) = match bracketed {
        Some((name, rest)) => (name, rest),
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok(),
        Some(_) => None,
        None => port.is_empty().then_some(PORT),
    };
    let port = port.filter(|port| *port != 0).ok_or(InvalidUrl::Form)?;
    let name = decoded(name)?;
    match (name.starts_with('/'), bracketed.is_some()) {
        (true, false) => Ok(ServerHost::Socket(name.into(), port)),
        (false, true) if name.parse::<std::net::Ipv6Addr>().is_err() => Err(InvalidUrl::Form),
        (false, _) if name.contains(['/', ' ']) => Err(InvalidUrl::Form),
        (false, _) => Ok(ServerHost::Network(name, port)),
        (true, true) => Err(InvalidUrl::Form),
    }
}

fn encoded(text: &str) -> impl fmt::Display {
    utf8_percent_encode(text, KEPT)
}

/// The characters that stay unescaped in a part of a URL.
const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

impl fmt::Display for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", encoded(&self.user))?;
        for (index, host) in self.hosts.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match host {
                ServerHost::Network(..) => write!(f, "{comma}{host}")?,
                ServerHost::Socket(folder, port) => write!(f, "{comma}{}:{port}", encoded(&folder.to_string_lossy()))?,
            }
        }
        write!(f, "/{}", encoded(&self.database))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_round_trip() {
        let cases = [
            ("postgres://leafseal@db/keys", "postgres://leafseal@db:5432/keys"),
            ("postgresql://u@db.example.com:6432/k", "postgres://u@db.example.com:6432/k"),
            ("postgres://u@a:1,b,[::1]:3,[::2]/k", "postgres://u@a:1,b:5432,[::1]:3,[::2]:5432/k"),
            ("postgres://u%40x@%2Frun%2Fpostgresql/k%20y", "postgres://u%40x@%2Frun%2Fpostgresql:5432/k%20y"),
        ];
        for (text, written) in cases {
            let url = PostgresUrl::parse(text).expect(text);
            assert_eq!(url.to_string(), written);
            assert_eq!(PostgresUrl::parse(written), Ok(url));
        }
    }

    #[test]
    fn other_text_is_refused_and_passwords_are_named() {
        for text in [
            "postgres://u:secret@db/k",
            "postgres://u:@db/k",
            "postgres://u:se@cret@db/k?sslmode=disable",
            "postgres://u:secret@db:none",
            "postgresql://:p@db/k",
        ] {
            let error = PostgresUrl::parse(text).expect_err(text);
            assert_eq!(error, InvalidUrl::Password, "{text}");
            assert!(!error.to_string().contains("secret"));
        }
        for text in ["postgres://u@db/k?password=secret", "postgres://u@db/k#x", "postgres://u@db?x/k"] {
            assert_eq!(PostgresUrl::parse(text), Err(InvalidUrl::Parameters), "{text}");
        }
        let long = format!("postgres://u@db/{}", "k".repeat(URL_SIZE_MAX));
        let many = format!("postgres://u@{}db/k", "a,".repeat(HOST_COUNT_MAX));
        for text in [
            "",
            "keystore.db",
            "mysql://u@db/k",
            "postgres://db/k",
            "postgres://u@db",
            "postgres://u@db/",
            "postgres://u@/k",
            "postgres://@db/k",
            "postgres://u@db/k/l",
            "postgres://u@a,,b/k",
            "postgres://u@db:/k",
            "postgres://u@db:0/k",
            "postgres://u@db:65536/k",
            "postgres://u@db:+1/k",
            "postgres://u@[db]/k",
            "postgres://u@[::1/k",
            "postgres://u@[%2Frun]/k",
            "postgres://u@db/%00",
            "postgres://u@db/%ff",
            &long,
            &many,
        ] {
            assert_eq!(PostgresUrl::parse(text), Err(InvalidUrl::Form), "{text}");
        }
    }
}
