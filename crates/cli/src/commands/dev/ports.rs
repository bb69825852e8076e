//! The ports of `dev`: the address of each listener, and whether all are free.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::arguments::DevArguments;
use crate::commands::serve::operator_address;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome, plain};

/// Default ports of the engine, its API, and the relay with its upstream.
const ENGINE_PORT: u16 = 3443;
const API_PORT: u16 = 8443;
const RELAY_OPERATOR_PORT: u16 = 3445;
const INBOUND_PORT: u16 = 8444;
const OUTBOUND_PORT: u16 = 8445;
const UPSTREAM_PORT: u16 = 8446;
/// The number of ports that `--port-base` uses.
pub(super) const PORTS: u16 = 7;
/// Base ports that are tried for the advice.
const BASES: std::ops::Range<u16> = 20_000..30_000;

/// The addresses of all listeners, all on loopback. Port 0 lets the system choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ports {
    pub engine: SocketAddr,
    pub operator: Option<SocketAddr>,
    pub api: Option<SocketAddr>,
    pub relay: Option<RelayPorts>,
}

/// The addresses of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RelayPorts {
    pub operator: SocketAddr,
    pub inbound: SocketAddr,
    pub outbound: SocketAddr,
    pub upstream: SocketAddr,
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Ports {
    /// The addresses from the command line and the configuration.
    pub(super) fn chosen(context: &RunContext, arguments: &DevArguments) -> Self {
        let base = arguments.port_base;
        let is_free = arguments.port == Some(0);
        // With a base each listener has a fixed offset; without one it has its own default, or a port chosen by the system.
        let port = |place: u16, default: u16| match base {
            Some(base) => base + place,
            None if is_free => 0,
            None => default,
        };
        let engine = local(arguments.port.unwrap_or(port(0, ENGINE_PORT)));
        let operator = operator_address(context, engine);
        let operator = match base {
            Some(base) => operator.map(|address| SocketAddr::new(address.ip(), base + 1)),
            None => operator,
        };
        let relay = (!arguments.no_relay).then(|| RelayPorts {
            operator: local(port(2, RELAY_OPERATOR_PORT)),
            inbound: local(port(4, INBOUND_PORT)),
            outbound: local(port(5, OUTBOUND_PORT)),
            upstream: local(port(6, UPSTREAM_PORT)),
        });
        let configured = context.config().server.api.address.map(|address| address.port());
        let is_off = configured.is_none() && context.loaded().is_set("api.address");
        let api = match arguments.api_port {
            Some(port) => Some(port),
            None if is_off => None,
            None => Some(port(3, configured.unwrap_or(API_PORT))),
        };
        Self { engine, operator, api: api.map(local), relay }
    }

    fn all(&self) -> Vec<(&'static str, SocketAddr)> {
        let relay = self.relay.map(|it| {
            [
                ("the relay's operator port", it.operator),
                ("the inbound relay", it.inbound),
                ("the outbound relay", it.outbound),
                ("the upstream", it.upstream),
            ]
        });
        let engine = [("the engine", Some(self.engine)), ("the operator port", self.operator), ("the API", self.api)];
        let engine = engine.into_iter().filter_map(|(name, address)| Some((name, address?)));
        engine.chain(relay.into_iter().flatten()).collect()
    }

    /// Checks that every port is free.
    ///
    /// # Errors
    /// Each port that is not, one per line, and how to use others.
    pub(super) fn check(&self) -> CommandOutcome {
        let taken = |(name, address): (&str, SocketAddr)| {
            let error = TcpListener::bind(address).err().filter(|_| address.port() != 0)?;
            Some(format!("cannot listen on {address} ({name}): {}", plain(&error)))
        };
        let mut lines: Vec<String> = self.all().into_iter().filter_map(taken).collect();
        if lines.is_empty() {
            return Ok(());
        }
        let base =
            BASES.step_by(10).find(|&base| (base..base + PORTS).all(|port| TcpListener::bind(local(port)).is_ok()));
        lines.push(match base {
            Some(base) => format!(
                "stop the programs that use these ports, or move all ports of dev: --port-base {base} uses {base} to {}, which are free",
                base + PORTS - 1
            ),
            None => "stop the programs that use these ports, or let the system choose all: --port 0".to_owned(),
        });
        Err(CommandFailure::unreachable(lines.join("\n")))
    }
}
