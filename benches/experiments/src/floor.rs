//! The floor of `interference`: the echo server as a process of its own, with the same traffic as the engine.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use leafseal_load::LoadError;
use serde_json::json;

use crate::arguments::EchoArguments;
use crate::echo::{Echo, Exchange};
use crate::error::ExperimentError;

/// The echo server in a child process, stopped on drop.
pub(crate) struct EchoProcess {
    child: Child,
    /// Its ports: for small and for large requests.
    pub addresses: [SocketAddr; 2],
}

impl EchoProcess {
    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// Fails if the process cannot be started or does not report its addresses.
    pub(crate) fn start(exchanges: [Exchange; 2]) -> Result<Self, LoadError> {
        let system = |error| LoadError::System { what: "the echo server".to_owned(), error };
        let mut child = Command::new(std::env::current_exe().map_err(system)?)
            .arg("echo")
            .args(exchanges.iter().flat_map(|exchange| ["--exchange".to_owned(), exchange_text(exchange)]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(system)?;
        let mut line = String::new();
        let read = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        let addresses: Option<[SocketAddr; 2]> = serde_json::from_str(&line).ok().and_then(addresses);
        let echo = Self { child, addresses: addresses.unwrap_or([([127, 0, 0, 1], 0).into(); 2]) };
        read.map_err(system)?;
        addresses.map(|_| echo).ok_or_else(|| system(std::io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Formats an exchange for `--exchange`.
fn exchange_text(exchange: &Exchange) -> String {
    format!("{}:{}:{}", exchange.request_size, exchange.answer_size, exchange.work.as_micros())
}

/// The addresses that the echo server reports when it is ready.
fn addresses(ready: serde_json::Value) -> Option<[SocketAddr; 2]> {
    let addresses = ready.as_array()?.iter().map(|address| address.as_str()?.parse().ok());
    addresses.collect::<Option<Vec<_>>>()?.try_into().ok()
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the echo server until its standard input ends.
///
/// # Errors
/// Fails if it cannot listen.
pub(crate) fn serve(arguments: &EchoArguments) -> Result<(), ExperimentError> {
    let echo = Echo::start(&arguments.exchanges)?;
    println!("{}", json!(echo.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>()));
    // Neither the input nor an error matters.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    Ok(())
}
