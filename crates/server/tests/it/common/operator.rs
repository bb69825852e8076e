//! Calls the operator port.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use leafseal_net::OperatorSettings;

use super::TestServer;

/// Starts a test server with an operator port; also returns the port's address.
pub(crate) fn test_server(change: impl FnOnce(&mut OperatorSettings)) -> (TestServer, SocketAddr) {
    let test_server = TestServer::with(|settings| {
        settings.operator = settings_of_port();
        change(&mut settings.operator);
    });
    let address = test_server.server.operator_addr().expect("there is an operator port");
    (test_server, address)
}

pub(crate) fn settings_of_port() -> OperatorSettings {
    OperatorSettings { address: Some(([127, 0, 0, 1], 0).into()), ..OperatorSettings::default() }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(super::PATIENCE)).unwrap();
    socket
}

/// Sends `request` and reads to the end.
pub(crate) fn exchange(address: SocketAddr, request: &str) -> String {
    let mut socket = connect(address);
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    answer
}

/// Returns status, head and body.
pub(crate) fn call(address: SocketAddr, method: &str, path: &str) -> (u16, String, String) {
    let answer = exchange(address, &format!("{method} {path} HTTP/1.1\r\nHost: operator\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

pub(crate) fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let (status, _, body) = call(address, "GET", path);
    (status, body)
}

/// The value of the sample with this name and labels.
pub(crate) fn sample(metrics: &str, name: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse().expect("a number")
}
