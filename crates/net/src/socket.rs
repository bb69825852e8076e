//! Listening and accepted sockets: data is sent without delay, and vanished peers are detected.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

/// Pause after the system refused a socket (no descriptors, no memory), because it would refuse the next one too.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Minimum of the half-open timeout: half of it is the time before the system probes a connection, in whole seconds.
pub const HALF_OPEN_TIMEOUT_MIN: Duration = Duration::from_secs(2);
/// Connections that the system accepts before this process does.
const BACKLOG: u32 = 1024;
/// Bytes that the system accepts before it can send them. With its default of megabytes, a slow peer would show no progress for a long
/// time.
#[cfg(target_os = "linux")]
const UNSENT_SIZE_MAX: u32 = 128 << 10;
/// Unanswered probes after which a silent peer counts as dead.
const PROBES_MAX: u32 = 4;
/// Linux's maximum for the silence before a probe, and between two.
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(32_767);
/// Linux's maximum time without an acknowledgement: milliseconds in 31 bits.
#[cfg(target_os = "linux")]
const USER_TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Listens at an address, on the caller's runtime; port 0 lets the system choose one.
///
/// # Errors
/// If the address is in use, or is not an address of this machine.
pub fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restarted process can reuse its port while old connections are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Disables Nagle's algorithm, and sets the timeout after which a silent peer counts as dead; any `half_open_timeout` is valid.
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
        // Nor can another socket share the port.
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
