//! s2n-tls, which stands on AWS-LC.

use std::ffi::{c_int, c_void};
use std::io::{ErrorKind, Read, Write};
use std::task::Poll;

use s2n_tls::callbacks::VerifyHostNameCallback;
use s2n_tls::config::Config;
use s2n_tls::connection::Connection;
use s2n_tls::enums::{Blinding, ClientAuthType, Mode, Version};
use s2n_tls::security::Policy;

use crate::identity::{Identities, Party, Profile, SERVER_NAME};
use crate::peer::{Handshake, Library, Negotiated, Peer};
use crate::stream::Stream;

struct S2n {
    server: Config,
    client: Config,
}

/// The other libraries check no name in a client's certificate, nor does this.
struct AnyName;

impl VerifyHostNameCallback for AnyName {
    fn verify_host_name(&self, _name: &str) -> bool {
        true
    }
}

pub fn configure(identities: &Identities) -> Box<dyn Library> {
    Box::new(S2n { server: config(identities, Mode::Server), client: config(identities, Mode::Client) })
}

fn config(identities: &Identities, mode: Mode) -> Config {
    // Suites come only in named policies: one that prefers AES-128 and P-256, and one that has AES-256 and P-384 alone.
    let policy = match identities.profile {
        Profile::Aes128P256 => Policy::from_version("20240503"),
        Profile::Aes256P384 => Policy::from_version("20250211"),
    };
    let mut builder = Config::builder();
    builder.set_security_policy(&policy.expect("a known policy")).expect("a known policy");
    builder.with_system_certs(false).expect("a setting");
    builder.trust_pem(identities.ca_pem.as_bytes()).expect("a CA certificate");
    builder.set_client_auth_type(ClientAuthType::Required).expect("a setting");
    let own: &Party = match mode {
        Mode::Client => &identities.client,
        Mode::Server => {
            builder.set_verify_host_callback(AnyName).expect("a setting");
            &identities.server
        }
    };
    builder.load_pem(own.certificate_pem.as_bytes(), own.key_pem.as_bytes()).expect("a certificate and its key");
    builder.build().expect("a complete configuration")
}

impl Library for S2n {
    fn name(&self) -> &'static str {
        "s2n-tls (AWS-LC)"
    }

    fn server(&self, stream: Stream) -> Box<dyn Peer> {
        Box::new(End::new(Mode::Server, &self.server, stream))
    }

    fn client(&self, stream: Stream) -> Box<dyn Peer> {
        let mut end = End::new(Mode::Client, &self.client, stream);
        end.connection.set_server_name(SERVER_NAME).expect("a DNS name");
        Box::new(end)
    }
}

/// Fields drop in their order: the connection goes before the stream that it points to.
struct End {
    connection: Connection,
    _stream: Shared,
}

/// A stream that the connection's callbacks reach through a pointer; no reference to it outlives a callback.
struct Shared(*mut Stream);

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the pointer is from `Box::into_raw` and freed here alone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl End {
    fn new(mode: Mode, config: &Config, stream: Stream) -> Self {
        let stream = Shared(Box::into_raw(Box::new(stream)));
        let mut connection = Connection::new(mode);
        connection.set_config(config.clone()).expect("a configuration");
        // A failed handshake then answers at once instead of sleeping; it has no part in one that succeeds.
        connection.set_blinding(Blinding::SelfService).expect("a setting");
        connection.set_receive_callback(Some(receive)).expect("a callback");
        connection.set_send_callback(Some(send)).expect("a callback");
        // SAFETY: the stream outlives the connection, see `End`.
        unsafe {
            connection.set_receive_context(stream.0.cast()).expect("a context");
            connection.set_send_context(stream.0.cast()).expect("a context");
        }
        Self { connection, _stream: stream }
    }
}

/// # Safety
/// `context` must be the stream that `End::new` set, and `buffer` valid for `len` bytes, as s2n-tls promises.
unsafe extern "C" fn receive(context: *mut c_void, buffer: *mut u8, len: u32) -> c_int {
    // SAFETY: see above; no other reference exists to the stream during the call.
    let (stream, buffer) =
        unsafe { (&mut *context.cast::<Stream>(), std::slice::from_raw_parts_mut(buffer, len as usize)) };
    match stream.read(buffer) {
        Ok(count) => count as c_int,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            errno::set_errno(errno::Errno(libc::EWOULDBLOCK));
            -1
        }
        Err(_) => -1,
    }
}

/// # Safety
/// As [`receive`].
unsafe extern "C" fn send(context: *mut c_void, buffer: *const u8, len: u32) -> c_int {
    // SAFETY: see above; no other reference exists to the stream during the call.
    let (stream, buffer) =
        unsafe { (&mut *context.cast::<Stream>(), std::slice::from_raw_parts(buffer, len as usize)) };
    stream.write(buffer).map_or(-1, |count| count as c_int)
}

impl Peer for End {
    fn handshake(&mut self) -> Handshake {
        match self.connection.poll_negotiate() {
            Poll::Ready(result) => {
                result.expect("a handshake with our own side");
                Handshake::Complete
            }
            Poll::Pending => Handshake::Pending,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.connection.poll_send(rest) {
                Poll::Ready(sent) => rest = &rest[sent.expect("an open connection")..],
                Poll::Pending => unreachable!("the stream takes everything"),
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.connection.poll_recv(&mut buffer[filled..]) {
                Poll::Ready(received) => filled += received.expect("an open connection"),
                Poll::Pending => panic!("bytes that were sent"),
            }
        }
    }

    fn release_buffers(&mut self) {
        self.connection.release_buffers().expect("buffers that are empty");
    }

    fn negotiated(&self) -> Negotiated {
        let chain = self.connection.peer_cert_chain().expect("a certificate");
        let leaf = chain.iter().next().expect("a leaf").expect("a certificate");
        Negotiated {
            aes_256: self.connection.cipher_suite().expect("a suite").contains("AES_256"),
            tls_13: self.connection.actual_protocol_version().expect("a version") == Version::TLS13,
            peer_certificate: leaf.der().expect("a certificate").to_vec(),
        }
    }
}
