//! Chains in which an authority expires before the certificate below it: sessions are not resumed and connections not used beyond that, on
//! either side.

use std::io::Read;
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use boring::asn1::{Asn1Integer, Asn1Time};
use boring::bn::{BigNum, MsbOption};
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::ssl::{SslConnector, SslMethod, SslStream, SslVersion};
use boring::x509::extension::{BasicConstraints, SubjectAlternativeName};
use boring::x509::{X509, X509Name, X509NameBuilder};
use leafseal_client::{Client, ClientSettings, ClientTls, EncryptOptions, ErrorKind};
use leafseal_protocol::ALPN_LIST;

use crate::common::{PATIENCE, Pki, TestServer, wait_until};
use crate::sessions::Resumer;

/// Seconds for which the certificate is valid that expires first.
const SOON: i64 = 4;
const LATE: i64 = 86_400;

/// A certificate and its key.
struct Link {
    certificate: X509,
    key: PKey<Private>,
}

/// A root, an authority below it, and a certificate below that.
struct Chain {
    root: Link,
    between: Link,
    leaf: Link,
}

fn name(text: &str) -> X509Name {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_nid(Nid::COMMONNAME, text).unwrap();
    name.build()
}

/// A certificate that is valid for so many seconds from now.
fn link(text: &str, issuer: Option<&Link>, seconds: i64, is_authority: bool) -> Link {
    let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap();
    let key = PKey::from_ec_key(EcKey::generate(&group).unwrap()).unwrap();
    let mut builder = X509::builder().unwrap();
    let mut serial = BigNum::new().unwrap();
    serial.rand(64, MsbOption::MAYBE_ZERO, false).unwrap();
    builder.set_serial_number(&Asn1Integer::from_bn(&serial).unwrap()).unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name(text)).unwrap();
    let own = name(text);
    builder.set_issuer_name(issuer.map_or(&own, |issuer| issuer.certificate.subject_name())).unwrap();
    builder.set_pubkey(&key).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    builder.set_not_before(&Asn1Time::from_unix(now - LATE).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::from_unix(now + seconds).unwrap()).unwrap();
    if is_authority {
        builder.append_extension(&BasicConstraints::new().critical().ca().build().unwrap()).unwrap();
    } else {
        let mut names = SubjectAlternativeName::new();
        names.dns("localhost").ip("127.0.0.1");
        let names = names.build(&builder.x509v3_context(None, None)).unwrap();
        builder.append_extension(&names).unwrap();
    }
    builder.sign(issuer.map_or(&key, |issuer| &issuer.key), MessageDigest::sha256()).unwrap();
    Link { certificate: builder.build(), key }
}

impl Chain {
    /// A chain whose parts, from the root down, are valid for so many seconds.
    fn new([root, between, leaf]: [i64; 3]) -> Self {
        let root = link("root", None, root, true);
        let between = link("between", Some(&root), between, true);
        let leaf = link("shop", Some(&between), leaf, false);
        Chain { root, between, leaf }
    }

    fn root_pem(&self) -> Vec<u8> {
        self.root.certificate.to_pem().unwrap()
    }

    /// The chain that the holder of the leaf sends.
    fn sent_pem(&self) -> Vec<u8> {
        [&self.leaf, &self.between].map(|link| link.certificate.to_pem().unwrap()).concat()
    }

    /// A server that trusts this chain's root for clients, besides its own authority.
    fn trusting_server(&self) -> TestServer {
        TestServer::with(|settings| settings.tls.client_authorities_pem.extend(self.root_pem()))
    }

    /// A client that shows this chain, and `extra` besides, to a server of `pki`.
    fn resumer(&self, pki: &Pki, extra: &[&X509]) -> Resumer {
        let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
        connector.set_min_proto_version(Some(SslVersion::TLS1_3)).unwrap();
        connector.set_alpn_protos(ALPN_LIST).unwrap();
        connector.cert_store_mut().add_cert(X509::from_pem(&pki.authority_pem).unwrap()).unwrap();
        connector.set_certificate(&self.leaf.certificate).unwrap();
        for certificate in [&self.between.certificate].into_iter().chain(extra.iter().copied()) {
            connector.add_extra_chain_cert(certificate.clone()).unwrap();
        }
        connector.set_private_key(&self.leaf.key).unwrap();
        Resumer::of(connector)
    }
}

/// Each part above the leaf, expiring first.
const AUTHORITIES: [[i64; 3]; 2] = [[LATE, SOON, LATE], [SOON, LATE, LATE]];

#[test]
fn no_session_is_resumed_after_an_authority_above_the_client_has_expired() {
    for validity in AUTHORITIES {
        let chain = Chain::new(validity);
        let test_server = chain.trusting_server();
        let resumer = chain.resumer(&test_server.pki, &[]);
        let ticket = resumer.ticket(test_server.address());
        assert!(resumer.resumes(test_server.address(), &ticket), "{validity:?}");
        wait_until("the server refuses it", || {
            resumer.ask(test_server.address(), Some(&ticket)).is_err_and(|error| error.contains("EXPIRED"))
        });
        test_server.assert_healthy();
    }
}

fn end_of(mut stream: SslStream<TcpStream>) -> String {
    stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn an_open_connection_ends_when_an_authority_above_the_client_expires() {
    for validity in AUTHORITIES {
        let chain = Chain::new(validity);
        let test_server = chain.trusting_server();
        let resumer = chain.resumer(&test_server.pki, &[]);
        let ticket = resumer.ticket(test_server.address());
        let full = resumer.open(test_server.address(), None).unwrap();
        let resumed = resumer.open(test_server.address(), Some(&ticket)).unwrap();
        for stream in [full, resumed] {
            let end = end_of(stream);
            assert!(end.contains("has expired"), "{validity:?}: {end}");
        }
    }
}

/// The path that was verified counts: other certificates that a client sends have no effect.
#[test]
fn certificates_that_are_not_in_the_verified_path_do_not_count() {
    let (chain, other) = (Chain::new([LATE; 3]), Chain::new([-1, -1, -1]));
    let test_server = chain.trusting_server();
    let resumer = chain.resumer(&test_server.pki, &[&other.between.certificate, &other.root.certificate]);
    let ticket = resumer.ticket(test_server.address());
    assert!(resumer.resumes(test_server.address(), &ticket));
}

#[tokio::test]
async fn a_client_begins_no_call_on_a_connection_whose_authority_has_expired() {
    let chain = Chain::new([LATE, SOON, LATE]);
    let test_server = TestServer::with(|settings| {
        settings.tls.certificate_chain_pem = chain.sent_pem();
        settings.tls.private_key_pem = chain.leaf.key.private_key_to_pem_pkcs8().unwrap().into();
    });
    let own = test_server.pki.client("shop");
    let tls = ClientTls {
        authorities_pem: chain.root_pem(),
        certificate_chain_pem: own.certificate_pem,
        private_key_pem: own.private_key_pem,
        ..ClientTls::default()
    };
    let settings = ClientSettings { retries_max: 0, ..ClientSettings::new(test_server.address().to_string(), tls) };
    let client = Client::connect(settings).await.unwrap();
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        match client.encrypt_document(&EncryptOptions::new("echo"), None, b"1").await {
            Ok(_) => assert!(std::time::Instant::now() < until, "the connection is still in use"),
            // A request that was not yet written when the connection began to drain; it may not be retried.
            Err(error) if error.kind == ErrorKind::GoingAway => {}
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Tls, "{error}");
                assert!(error.message.contains("expired"), "{error}");
                break;
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
