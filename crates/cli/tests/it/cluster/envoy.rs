//! Envoy with the configuration of deploy/envoy, its names and ports replaced by those of a test.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};

use super::Engine;
use crate::common::{TestFolder, repository, until};

pub(super) struct Envoy {
    child: Child,
    address: SocketAddr,
}

impl Envoy {
    /// Starts Envoy before these engines; `None` unless ENVOY names the program.
    pub(super) fn start(folder: &TestFolder, engines: &[Engine]) -> Option<Self> {
        let program = std::env::var_os("ENVOY").filter(|program| !program.is_empty())?;
        let [address, admin] = free_addresses();
        let path = folder.write("envoy.yaml", configuration(engines, address, admin));
        let child = Command::new(program)
            .args(["--concurrency", "1", "--use-dynamic-base-id", "--log-level", "error", "--config-path"])
            .arg(path)
            .stdin(Stdio::null())
            .spawn()
            .expect("ENVOY runs");
        until("Envoy listens", || TcpStream::connect(address).is_ok());
        Some(Self { child, address })
    }

    pub(super) fn address(&self) -> String {
        self.address.to_string()
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Addresses for the listener and the administration. Each Envoy has a host of its own, so that no other program takes a port between its
/// choice and its use.
fn free_addresses() -> [SocketAddr; 2] {
    static HOSTS: AtomicU8 = AtomicU8::new(1);
    let host = Ipv4Addr::new(127, 78, HOSTS.fetch_add(1, Ordering::Relaxed), 1);
    let sockets = [(); 2].map(|()| TcpListener::bind((host, 0)).expect("a port"));
    sockets.map(|socket| socket.local_addr().expect("an address"))
}

fn configuration(engines: &[Engine], listener: SocketAddr, admin: SocketAddr) -> String {
    let text = String::from_utf8(repository("deploy/envoy/envoy.yaml")).expect("text");
    // The first engine of the file stands for all.
    let (head, endpoints) = text.split_once("              - endpoint:\n").expect("endpoints");
    let (endpoint, _) = endpoints.split_once("              - endpoint:\n").expect("a second one");
    let endpoints = engines.iter().map(|engine| {
        let endpoint =
            replaced(endpoint, "engine-1, port_value: 3443", &format!("{}, port_value: {}", engine.host, engine.port));
        format!(
            "              - endpoint:\n{}",
            replaced(&endpoint, "port_value: 3444", &format!("port_value: {}", engine.operator))
        )
    });
    let at = |address: SocketAddr| format!("address: {}, port_value: {}", address.ip(), address.port());
    let head = replaced(head, "address: 0.0.0.0, port_value: 3443", &at(listener));
    let head = replaced(&head, "address: 127.0.0.1, port_value: 9901", &at(admin));
    endpoints.fold(head, |all, one| all + &one)
}

#[track_caller]
fn replaced(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "deploy/envoy/envoy.yaml has {from:?} once");
    text.replace(from, to)
}
