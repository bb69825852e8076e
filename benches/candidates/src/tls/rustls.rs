//! rustls, over `ring` and over AWS-LC.

use std::io::{Read, Write};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use ::rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs, ring};
use ::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use ::rustls::server::WebPkiClientVerifier;
use ::rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection, SideData, SupportedCipherSuite, version,
};

use crate::identity::{Identities, Party, Profile, SERVER_NAME};
use crate::peer::{Handshake, Library, Negotiated, Peer};
use crate::stream::Stream;

struct Rustls {
    name: &'static str,
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

pub fn configure_ring(identities: &Identities) -> Box<dyn Library> {
    use ring::{cipher_suite as suites, default_provider, kx_group as groups};
    let (suite, group): (_, &dyn SupportedKxGroup) = match identities.profile {
        Profile::Aes128P256 => (suites::TLS13_AES_128_GCM_SHA256, groups::SECP256R1),
        Profile::Aes256P384 => (suites::TLS13_AES_256_GCM_SHA384, groups::SECP384R1),
    };
    configure("rustls, ring", restrict(default_provider(), suite, group), identities)
}

pub fn configure_aws_lc(identities: &Identities) -> Box<dyn Library> {
    use aws_lc_rs::{cipher_suite as suites, default_provider, kx_group as groups};
    let (suite, group): (_, &dyn SupportedKxGroup) = match identities.profile {
        Profile::Aes128P256 => (suites::TLS13_AES_128_GCM_SHA256, groups::SECP256R1),
        Profile::Aes256P384 => (suites::TLS13_AES_256_GCM_SHA384, groups::SECP384R1),
    };
    configure("rustls, aws-lc-rs", restrict(default_provider(), suite, group), identities)
}

fn restrict(
    provider: CryptoProvider,
    suite: SupportedCipherSuite,
    group: &'static dyn SupportedKxGroup,
) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { cipher_suites: vec![suite], kx_groups: vec![group], ..provider })
}

fn configure(name: &'static str, provider: Arc<CryptoProvider>, identities: &Identities) -> Box<dyn Library> {
    let mut roots = RootCertStore::empty();
    roots.add(identities.ca_der.clone().into()).expect("a CA certificate");
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone());
    let (chain, key) = credentials(&identities.server);
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&version::TLS13])
        .expect("a supported version")
        .with_client_cert_verifier(verifier.build().expect("at least one root"))
        .with_single_cert(chain, key)
        .expect("the certificate's key");
    server.send_tls13_tickets = 0;
    let (chain, key) = credentials(&identities.client);
    let client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])
        .expect("a supported version")
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .expect("the certificate's key");
    Box::new(Rustls { name, server: Arc::new(server), client: Arc::new(client) })
}

fn credentials(party: &Party) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    let key = PrivateKeyDer::try_from(party.key_der.clone()).expect("a PKCS#8 key");
    (vec![party.certificate_der.clone().into()], key)
}

impl Library for Rustls {
    fn name(&self) -> &'static str {
        self.name
    }

    fn server(&self, stream: Stream) -> Box<dyn Peer> {
        let tls = ServerConnection::new(self.server.clone()).expect("a connection");
        Box::new(Connection { tls, stream })
    }

    fn client(&self, stream: Stream) -> Box<dyn Peer> {
        let name = ServerName::try_from(SERVER_NAME).expect("a DNS name");
        let tls = ClientConnection::new(self.client.clone(), name).expect("a connection");
        Box::new(Connection { tls, stream })
    }
}

struct Connection<T> {
    tls: T,
    stream: Stream,
}

impl<T, S> Connection<T>
where
    T: DerefMut + Deref<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn flush(&mut self) {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream).expect("a stream that takes everything");
        }
    }

    /// Reads what has arrived, up to what the connection takes at once.
    fn fill(&mut self) -> usize {
        let count = self.tls.read_tls(&mut self.stream).unwrap_or(0);
        self.tls.process_new_packets().expect("records that our side made");
        count
    }
}

impl<T, S> Peer for Connection<T>
where
    T: DerefMut + Deref<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn handshake(&mut self) -> Handshake {
        self.flush();
        while self.tls.is_handshaking() && self.fill() > 0 {
            self.flush();
        }
        if self.tls.is_handshaking() { Handshake::Pending } else { Handshake::Complete }
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let taken = self.tls.writer().write(rest).expect("an open connection");
            rest = &rest[taken..];
            self.flush();
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(count) => filled += count,
                Err(_) => assert!(self.fill() > 0, "bytes that were sent"),
            }
        }
    }

    fn negotiated(&self) -> Negotiated {
        let suite = self.tls.negotiated_cipher_suite().expect("a suite").suite();
        Negotiated {
            aes_256: suite == CipherSuite::TLS13_AES_256_GCM_SHA384,
            tls_13: self.tls.protocol_version() == Some(ProtocolVersion::TLSv1_3),
            peer_certificate: self.tls.peer_certificates().expect("a certificate")[0].to_vec(),
        }
    }
}
