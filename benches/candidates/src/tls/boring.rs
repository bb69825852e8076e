//! BoringSSL through `boring`.

use std::io::{Read, Write};

use ::boring::pkey::PKey;
use ::boring::ssl::{
    Error, ErrorCode, Ssl, SslContext, SslContextBuilder, SslMethod, SslOptions, SslStream, SslVerifyMode, SslVersion,
};
use ::boring::x509::X509;

use crate::identity::{Identities, Party, Profile, SERVER_NAME};
use crate::peer::{Handshake, Library, Negotiated, Peer};
use crate::stream::Stream;

struct Boring {
    server: SslContext,
    client: SslContext,
}

pub fn configure(identities: &Identities) -> Box<dyn Library> {
    let mode = SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT;
    Box::new(Boring {
        server: context(identities, &identities.server, mode),
        client: context(identities, &identities.client, SslVerifyMode::PEER),
    })
}

fn context(identities: &Identities, own: &Party, mode: SslVerifyMode) -> SslContext {
    let mut context = SslContext::builder(SslMethod::tls()).expect("a context");
    context.set_min_proto_version(Some(SslVersion::TLS1_3)).expect("a supported version");
    context.set_options(SslOptions::NO_TICKET);
    let certificate = X509::from_der(&own.certificate_der).expect("a certificate");
    context.set_certificate(&certificate).expect("a certificate");
    let key = PKey::private_key_from_pem(own.key_pem.as_bytes()).expect("a key");
    context.set_private_key(&key).expect("the certificate's key");
    let ca = X509::from_der(&identities.ca_der).expect("a certificate");
    context.cert_store_mut().add_cert(&ca).expect("a certificate");
    context.set_verify(mode);
    match identities.profile {
        Profile::Aes128P256 => context.set_curves_list("P-256").expect("a known group"),
        Profile::Aes256P384 => {
            prefer_aes_256(&mut context);
            context.set_curves_list("P-384").expect("a known group");
        }
    }
    context.build()
}

/// BoringSSL chooses TLS 1.3 suites itself; of its ways to prefer AES-256 `boring` wraps none that keeps the rest.
fn prefer_aes_256(context: &mut SslContextBuilder) {
    let policy = boring_sys::ssl_compliance_policy_t::ssl_compliance_policy_cnsa_202407;
    // SAFETY: the context is alive and ours alone.
    let ok = unsafe { boring_sys::SSL_CTX_set_compliance_policy(context.as_ptr(), policy) };
    assert_eq!(ok, 1);
}

impl Library for Boring {
    fn name(&self) -> &'static str {
        "boring (BoringSSL)"
    }

    fn server(&self, stream: Stream) -> Box<dyn Peer> {
        let ssl = Ssl::new(&self.server).expect("a connection");
        let stream = SslStream::new(ssl, stream).expect("a connection");
        Box::new(Connection { stream, handshake: SslStream::accept })
    }

    fn client(&self, stream: Stream) -> Box<dyn Peer> {
        let mut ssl = Ssl::new(&self.client).expect("a connection");
        ssl.set_hostname(SERVER_NAME).expect("a DNS name");
        ssl.param_mut().set_host(SERVER_NAME).expect("a DNS name");
        let stream = SslStream::new(ssl, stream).expect("a connection");
        Box::new(Connection { stream, handshake: SslStream::connect })
    }
}

struct Connection {
    stream: SslStream<Stream>,
    /// The side's own way to go on with the handshake.
    handshake: fn(&mut SslStream<Stream>) -> Result<(), Error>,
}

impl Peer for Connection {
    fn handshake(&mut self) -> Handshake {
        match (self.handshake)(&mut self.stream) {
            Ok(()) => Handshake::Complete,
            Err(error) if error.code() == ErrorCode::WANT_READ => Handshake::Pending,
            Err(error) => panic!("handshake: {error}"),
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("a stream that takes everything");
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        self.stream.read_exact(buffer).expect("bytes that were sent");
    }

    fn negotiated(&self) -> Negotiated {
        let ssl = self.stream.ssl();
        let certificate = ssl.peer_certificate().expect("a certificate");
        Negotiated {
            aes_256: ssl.current_cipher().expect("a suite").name().contains("AES_256"),
            tls_13: ssl.version2() == Some(SslVersion::TLS1_3),
            peer_certificate: certificate.to_der().expect("a certificate"),
        }
    }
}
