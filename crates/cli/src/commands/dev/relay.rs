//! The relay of `dev`: inbound and outbound, in front of an upstream that echoes what it received.

use std::net::SocketAddr;
use std::path::Path;

use leafseal_relay::{Configuration, DemoUpstream, Relay};
use leafseal_server::{RelayDestination, RelayInformation};

use super::dev_files;
use super::ports::RelayPorts;
use crate::commands::certs::relay_authority;
use crate::commands::relay::POLL_INTERVAL;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};

/// The only destination: the local machine, as in the upstream's certificate.
const DESTINATION: &str = "localhost";

/// Connections at each of its listeners, and to upstreams, if the process may open `limit` descriptors.
fn connections_max(limit: usize) -> usize {
    if limit < 4096 { 64 } else { 1024 }
}

/// Maximum number of descriptors that it uses, including its upstream.
pub(super) fn descriptors(limit: usize) -> usize {
    /// The upstream, the operator port, lookups, connections to the engine and connections that are closing.
    const BESIDE: usize = 256;
    3 * connections_max(limit) + BESIDE
}

/// A running relay with its upstream.
pub(super) struct DevRelay {
    relay: Option<Relay>,
    upstream: DemoUpstream,
}

/// The API's information about it.
pub(super) fn information(context: &RunContext) -> CommandOutcome<RelayInformation> {
    let (certificate, _) = relay_authority(&context.certificates())?;
    let ca_pem = std::fs::read(&certificate).map_err(|error| CommandFailure::reading(&certificate, &error))?;
    let destination = RelayDestination { id: "dev".to_owned(), domain: DESTINATION.to_owned() };
    Ok(RelayInformation { destinations: vec![destination], ca_pem: Some(ca_pem), poll_interval: POLL_INTERVAL })
}

impl DevRelay {
    /// Starts the relay and its upstream.
    pub(super) fn start(
        context: &RunContext,
        engine: SocketAddr,
        app: &str,
        ports: RelayPorts,
        limit: usize,
    ) -> CommandOutcome<Self> {
        let identity = dev_files(context).read()?.api.expect("dev has a certificate for the API");
        let upstream = DemoUpstream::start(ports.upstream, &identity).map_err(|error| {
            let message = format!("cannot listen on {}: {}", ports.upstream, crate::failure::plain(&error));
            CommandFailure::unreachable(message).advise("move all ports of dev with --port-base, or use --no-relay")
        })?;
        let at = [ports.operator, ports.inbound, ports.outbound];
        let text = configuration(engine, upstream.address(), at, app, connections_max(limit));
        let configuration = Configuration::parse(&text).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            CommandFailure { exit: crate::failure::Exit::Internal, message: lines.join("\n") }
        })?;
        let base = std::path::absolute(context.folder()).unwrap_or_else(|_| context.folder().to_owned());
        let relay = Relay::start(configuration, &base, None).map_err(CommandFailure::from)?;
        Ok(Self { relay: Some(relay), upstream })
    }

    fn address(&self, is_outbound: bool) -> Option<SocketAddr> {
        let addresses = self.relay.as_ref()?.addresses();
        addresses.iter().find(|it| it.is_outbound == is_outbound).map(|it| it.address)
    }

    /// Its addresses.
    pub(super) fn json(&self) -> serde_json::Value {
        let text = |address: Option<SocketAddr>| address.map(|address| address.to_string());
        serde_json::json!({
            "inbound": text(self.address(false)),
            "outbound": text(self.address(true)),
            "operator": text(self.relay.as_ref().map(Relay::operator_address)),
            "upstream": self.upstream.address().to_string(),
        })
    }

    /// Example commands; SDKs query the API for the destinations that go through it.
    pub(super) fn text(&self, app: &str, authority: &Path, folder: &Path, api: Option<SocketAddr>) -> String {
        let port = |address: Option<SocketAddr>| address.map_or(0, |address| address.port());
        let (inbound, outbound, upstream) =
            (port(self.address(false)), port(self.address(true)), self.upstream.address().port());
        let (ca, relay_ca) = (authority.display(), folder.join("relay-ca.pem"));
        let relay_ca = relay_ca.display();
        // SDKs accept only such app names.
        let api = api.filter(|_| app.starts_with("app_"));
        let sdk = api.map_or_else(String::new, |api| {
            let api = api.port();
            // The API's address as a number: as localhost it would be a destination, and the SDK's own calls would go through the relay.
            format!(
                "The Node SDK, unmodified, with its outbound relay; after npm install @evervault/sdk:\n\n  \
                 KEY=$KEY NODE_OPTIONS=--use-openssl-ca SSL_CERT_FILE={ca} EV_API_URL=https://127.0.0.1:{api} \\\n    \
                 EV_CERT_HOSTNAME=https://127.0.0.1:{api} EV_TUNNEL_HOSTNAME=https://localhost:{outbound} \\\n    \
                 node -e '{}'\n\n",
                script(app, upstream)
            )
        });
        format!(
            "Through the relay, to an upstream that echoes what it receives:\n\n  \
             curl --cacert {ca} --json '{{\"card\": \"4111\"}}' https://localhost:{inbound}/seal\n  \
             curl --cacert {ca} --json '{{\"card\": \"4111\"}}' https://localhost:{inbound}/seal/and/open\n  \
             curl --cacert {ca} --json '{{\"card\": \"4111\"}}' https://localhost:{inbound}/hide\n  \
             curl --proxy https://localhost:{outbound} --proxy-cacert {ca} --cacert {relay_ca} \\\n    \
             --proxy-header \"Proxy-Authorization: $KEY\" --json '{{\"card\": \"ENVELOPE\"}}' \\\n    \
             https://{DESTINATION}:{upstream}/\n\n{sdk}"
        )
    }
}

impl Drop for DevRelay {
    fn drop(&mut self) {
        if let Some(relay) = self.relay.take()
            && let Err(error) = relay.shutdown()
        {
            tracing::error!(%error, "the relay failed to shut down");
        }
    }
}

/// A one-line program that encrypts with the SDK and sends the envelope through its outbound relay. If the URL is a string, the SDK treats
/// the port as part of the name and bypasses the relay; its timers would keep the process running.
fn script(app: &str, upstream: u16) -> String {
    format!(
        "const SDK = require(\"@evervault/sdk\"), sdk = new SDK(\"{app}\", process.env.KEY); \
         sdk.encrypt({{ card: \"4111\" }}).then(async (sealed) => {{ console.log(sealed); await sdk.enableOutboundRelay(); \
         require(\"https\").request({{ hostname: \"{DESTINATION}\", port: {upstream}, method: \"POST\", \
         headers: {{ \"content-type\": \"application/json\" }} }}, \
         (answer) => answer.on(\"end\", () => process.exit()).pipe(process.stdout)).end(JSON.stringify(sealed)); }})"
    )
}

fn configuration(
    engine: SocketAddr,
    upstream: SocketAddr,
    at: [SocketAddr; 3],
    app: &str,
    connections_max: usize,
) -> String {
    let (engine, upstream, [operator, inbound, outbound]) = (engine.port(), upstream.port(), at);
    format!(
        r#"
[relay]
threads = 1
operator_address = "{operator}"
access_log = false
drain_timeout = "2s"
[engine]
addresses = ["localhost:{engine}"]
authorities = "certs/ca.pem"
certificate = "certs/dev.pem"
private_key = "certs/dev.key"
[upstream]
authorities = "certs/ca.pem"
sockets_max = {connections_max}
[limits]
connections_max = {connections_max}
[[inbound]]
name = "inbound"
address = "{inbound}"
certificate = "certs/server.pem"
private_key = "certs/server.key"
upstream = "https://localhost:{upstream}"
[[inbound.route]]
path = "/seal"
app = "{app}"
request = [{{ action = "encrypt", json = ["$.card"], form = ["card"], headers = ["X-Card"] }}]
[[inbound.route]]
path = "/seal/and/open"
app = "{app}"
request = [{{ action = "encrypt", json = ["$.card"], form = ["card"] }}]
response = [{{ action = "decrypt", json = ["$.body"] }}]
[[inbound.route]]
path = "/hide"
request = [{{ action = "redact", json = ["$.card"], form = ["card"] }}]
[[outbound]]
name = "outbound"
address = "{outbound}"
certificate = "certs/server.pem"
private_key = "certs/server.key"
ca_certificate = "certs/relay-ca.pem"
ca_private_key = "certs/relay-ca.key"
[[outbound.destination]]
hosts = ["{DESTINATION}"]
"#
    )
}
