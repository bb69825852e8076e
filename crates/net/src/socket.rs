//! Sockets that listen, and those that are accepted: what is sent goes at once, and a peer that vanished is noticed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// How long to wait after the system refused a socket (no descriptors, no memory), which it would at once refuse again.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Half of it is the least time, in whole seconds, that the system waits before it probes a connection.
pub const HALF_OPEN_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Connections that the system accepts before we do.
const BACKLOG: u32 = 1024;
/// Bytes that the system takes before it can send them. With its own megabytes a slow peer would for long show no movement.
#[cfg(target_os = "linux")]
const UNSENT_SIZE_MAX: u32 = 128 << 10;
/// Probes that remain unanswered before a silent peer counts as dead.
const PROBES_MAX: u32 = 4;
/// The longest silence before a probe, and between two, that Linux takes.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(32_767);
/// The longest time without an acknowledgement that Linux takes: milliseconds in 31 bits.
#[cfg(target_os = "linux")]
const USER_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Listens at an address, on the runtime that calls it; port 0 lets the system choose one.
///
/// # Errors
/// An address that is taken, or is not this machine's.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted process takes its port back while old connections are still fading.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Sends without delay, and gives the connection up once a peer was silent for `half_open_timeout`, of any length.
///
/// # Errors
/// If the socket is already broken.
pub fn prepare_socket(socket: &TcpStream, half_open_timeout: Duration) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let socket = SockRef::from(socket);
    let silence = (half_open_timeout / 2).min(PROBE_PAUSE_MAX);
    let between = (silence / PROBES_MAX).max(Duration::from_secs(1));
    let probes = TcpKeepalive::new().with_time(silence).with_interval(between).with_retries(PROBES_MAX);
    socket.set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    {
        socket.set_tcp_user_timeout(Some(half_open_timeout.min(USER_TIMEOUT_MAX)))?;
        socket.set_tcp_notsent_lowat(UNSENT_SIZE_MAX)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_belongs_to_one_listener() {
        let first = bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = first.local_addr().unwrap();
        assert_eq!(bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        assert_eq!(bind(([0, 0, 0, 0], address.port()).into()).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // Nor can another socket join that would share.
        let other = TcpSocket::new_v4().unwrap();
        other.set_reuseaddr(true).unwrap();
        other.set_reuseport(true).unwrap();
        assert_eq!(other.bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn any_half_open_timeout_that_settings_allow_can_be_set() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let longest = Duration::from_secs(8760 * 3600);
        let limits = [Duration::from_secs(2 * 32_767), Duration::from_millis(i32::MAX as u64)];
        let around = limits.iter().flat_map(|limit| [*limit, *limit + Duration::from_secs(2)]);
        for half_open_timeout in around.chain([Duration::from_secs(2), longest, Duration::MAX]) {
            prepare_socket(&socket, half_open_timeout).unwrap_or_else(|error| panic!("{half_open_timeout:?}: {error}"));
        }
        assert_eq!(SockRef::from(&socket).tcp_keepalive_time().unwrap(), PROBE_PAUSE_MAX);
    }
}
