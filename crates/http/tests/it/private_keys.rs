//! Private-key operations in batches, between real handshakes: with our client, with Python's `ssl`, and with clients that go away.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use boring::asn1::Asn1Time;
use boring::ec::{EcGroup, EcKey};
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{Ssl, SslConnector, SslMethod, SslVerifyMode, SslVersion};
use boring::x509::extension::SubjectAlternativeName;
use boring::x509::{X509, X509NameBuilder};
use leafseal_config::KeyExchange;
use leafseal_net::tls::{
    Acceptor, BATCH_SIZE_MAX, PrivateKeyBatching, PrivateKeyFigures, PrivateKeySettings, ServerIdentity,
    SessionSettings, sign_before_parking,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{sleep, timeout};
use tokio_boring::SslStreamBuilder;

const PATIENCE: Duration = Duration::from_secs(60);

/// A key of `vectors/rsa`, the first of its length.
fn key(bits: usize) -> PKey<Private> {
    let vectors = include_str!("../../../../vectors/rsa/primitive.rsp");
    let (_, group) = vectors.split_once(&format!("[mod = {bits}]")).expect("a key of that length");
    let number = |name: &str| {
        let line = group.lines().find_map(|line| line.strip_prefix(&format!("{name} = "))).expect("a number");
        boring::bn::BigNum::from_hex_str(line).unwrap()
    };
    let [n, e, d, p, q, dp, dq, q_inv] = ["n", "e", "d", "p", "q", "dP", "dQ", "qInv"].map(number);
    PKey::from_rsa(Rsa::from_private_components(n, e, d, p, q, dp, dq, q_inv).unwrap()).unwrap()
}

fn elliptic_key(curve: Nid) -> PKey<Private> {
    PKey::from_ec_key(EcKey::generate(&EcGroup::from_curve_name(curve).unwrap()).unwrap()).unwrap()
}

/// A certificate of `localhost` by its own key.
fn identity(key: &PKey<Private>, settings: PrivateKeySettings) -> ServerIdentity {
    let mut name = X509NameBuilder::new().unwrap();
    name.append_entry_by_text("CN", "localhost").unwrap();
    let name = name.build();
    let mut builder = X509::builder().unwrap();
    builder.set_version(2).unwrap();
    builder.set_subject_name(&name).unwrap();
    builder.set_issuer_name(&name).unwrap();
    builder.set_pubkey(key).unwrap();
    builder.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    builder.set_not_after(&Asn1Time::days_from_now(1).unwrap()).unwrap();
    let names = SubjectAlternativeName::new().dns("localhost").build(&builder.x509v3_context(None, None)).unwrap();
    builder.append_extension(&names).unwrap();
    builder.sign(key, MessageDigest::sha256()).unwrap();
    ServerIdentity {
        certificate_chain_pem: builder.build().to_pem().unwrap(),
        private_key_pem: key.private_key_to_pem_pkcs8().unwrap().into(),
        private_key_settings: settings,
        sessions: SessionSettings::default(),
        key_exchange: KeyExchange::default(),
    }
}

/// Accepts on this thread, each connection in its own task, and keeps what it has accepted open for a while.
async fn serve(identity: &ServerIdentity) -> SocketAddr {
    let acceptor = Acceptor::new(identity).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::task::spawn_local(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let session = Ssl::new(&acceptor.context()).unwrap();
            tokio::task::spawn_local(keep(SslStreamBuilder::new(session, socket)));
        }
    });
    address
}

/// Does the handshake, and keeps the connection open until the client has finished its part.
async fn keep(shaking: SslStreamBuilder<TcpStream>) {
    if let Ok(stream) = shaking.accept().await {
        sleep(Duration::from_millis(500)).await;
        drop(stream);
    }
}

/// The signatures that a client accepts.
#[derive(Clone, Copy)]
struct Offer {
    version: SslVersion,
    algorithms: &'static str,
}

const MODERN: Offer = Offer { version: SslVersion::TLS1_3, algorithms: "rsa_pss_rsae_sha256" };
const ELLIPTIC: Offer = Offer { version: SslVersion::TLS1_3, algorithms: "ecdsa_secp256r1_sha256" };

/// Does a handshake, which verifies the server's signature; returns whether it succeeded.
async fn shake(address: SocketAddr, identity: &ServerIdentity, offer: Offer) -> bool {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_min_proto_version(Some(offer.version)).unwrap();
    connector.set_max_proto_version(Some(offer.version)).unwrap();
    connector.set_sigalgs_list(offer.algorithms).unwrap();
    connector.set_verify(SslVerifyMode::PEER);
    connector.cert_store_mut().add_cert(X509::from_pem(&identity.certificate_chain_pem).unwrap()).unwrap();
    let socket = TcpStream::connect(address).await.unwrap();
    let shaking = tokio_boring::connect(connector.build().configure().unwrap(), "localhost", socket);
    timeout(PATIENCE, shaking).await.expect("no handshake waits for another").is_ok()
}

fn shakes(count: usize, address: SocketAddr, identity: &Arc<ServerIdentity>, offer: Offer) -> Vec<JoinHandle<bool>> {
    let one = || {
        let identity = Arc::clone(identity);
        tokio::task::spawn_local(async move { shake(address, &identity, offer).await })
    };
    (0..count).map(|_| one()).collect()
}

async fn all_succeed(shakes: Vec<JoinHandle<bool>>) {
    for shake in shakes {
        assert!(shake.await.unwrap());
    }
}

/// Signatures in batches so far.
fn batched() -> u64 {
    (1..).zip(PrivateKeyFigures::read().batches).map(|(size, count)| size * count).sum()
}

/// On a runtime as those of listeners.
fn run(test: impl Future<Output = ()>) {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().on_thread_park(sign_before_parking).build().unwrap();
    runtime.block_on(LocalSet::new().run_until(test));
}

/// Whether this CPU batches.
fn has_lanes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("adx")
        && is_x86_feature_detected!("bmi2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

#[test]
fn handshakes_of_every_length_and_number_succeed() {
    run(async {
        for bits in [2048, 3072, 4096] {
            let identity = Arc::new(identity(&key(bits), PrivateKeySettings::default()));
            let address = serve(&identity).await;
            for count in [1, 2, 3, 4, 5, 16] {
                let before = batched();
                all_succeed(shakes(count, address, &identity, MODERN)).await;
                assert!(!has_lanes() || batched() >= before + count as u64, "{bits} {count}");
            }
        }
    });
}

/// Signatures on P-256 are computed at once. Keys on other curves stay with the library.
#[test]
fn handshakes_with_elliptic_curves_succeed() {
    run(async {
        let identity_256 = Arc::new(identity(&elliptic_key(Nid::X9_62_PRIME256V1), PrivateKeySettings::default()));
        let address = serve(&identity_256).await;
        for count in [1, 2, 3, 4, 9, 40] {
            let before = batched();
            all_succeed(shakes(count, address, &identity_256, ELLIPTIC)).await;
            assert!(!has_lanes() || batched() >= before + count as u64, "{count}");
        }
        let identity_384 = Arc::new(identity(&elliptic_key(Nid::SECP384R1), PrivateKeySettings::default()));
        let offer = Offer { version: SslVersion::TLS1_3, algorithms: "ecdsa_secp384r1_sha384" };
        all_succeed(shakes(5, serve(&identity_384).await, &identity_384, offer)).await;
    });
}

/// With a delay, signatures on P-256 fill a batch of eight.
#[test]
fn a_batch_on_p256_is_signed_when_it_is_full() {
    run(async {
        let settings = PrivateKeySettings { batch_delay: Duration::from_secs(3600), ..PrivateKeySettings::default() };
        let identity = Arc::new(identity(&elliptic_key(Nid::X9_62_PRIME256V1), settings));
        let before = PrivateKeyFigures::read().batches[BATCH_SIZE_MAX - 1];
        all_succeed(shakes(16, serve(&identity).await, &identity, ELLIPTIC)).await;
        assert!(!has_lanes() || PrivateKeyFigures::read().batches[BATCH_SIZE_MAX - 1] >= before + 2);
    });
}

/// On runtimes that do not sign before they park, with several threads, and with a thread that always has something else to do.
#[test]
fn handshakes_succeed_on_every_runtime() {
    let identity = Arc::new(identity(&key(2048), PrivateKeySettings::default()));
    let plain = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let succeed = async || all_succeed(shakes(9, serve(&identity).await, &identity, MODERN)).await;
    plain.block_on(LocalSet::new().run_until(succeed()));
    run(async {
        let busy = tokio::task::spawn_local(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        succeed().await;
        busy.abort();
    });
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let threads =
        builder.worker_threads(3).event_interval(2).enable_all().on_thread_park(sign_before_parking).build().unwrap();
    threads.block_on(async {
        let acceptor = Acceptor::new(&identity).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let session = Ssl::new(&acceptor.context()).unwrap();
                tokio::spawn(keep(SslStreamBuilder::new(session, socket)));
            }
        });
        let one = || {
            let identity = Arc::clone(&identity);
            tokio::spawn(async move { shake(address, &identity, MODERN).await })
        };
        for count in [1, 2, 3, 5, 40] {
            all_succeed((0..count).map(|_| one()).collect()).await;
        }
        server.abort();
    });
}

/// Clients that accept one algorithm each, with both versions of TLS.
#[test]
fn every_algorithm_is_signed() {
    const TLS_1_3: [&str; 3] = ["rsa_pss_rsae_sha256", "rsa_pss_rsae_sha384", "rsa_pss_rsae_sha512"];
    const TLS_1_2: [&str; 4] = ["rsa_pkcs1_sha256", "rsa_pkcs1_sha384", "rsa_pkcs1_sha512", "rsa_pss_rsae_sha256"];
    run(async {
        let identity = Arc::new(identity(&key(2048), PrivateKeySettings::default()));
        let address = serve(&identity).await;
        let of =
            |version, names: &'static [&'static str]| names.iter().map(move |name| Offer { version, algorithms: name });
        for offer in of(SslVersion::TLS1_3, &TLS_1_3).chain(of(SslVersion::TLS1_2, &TLS_1_2)) {
            let before = batched();
            all_succeed(shakes(2, address, &identity, offer)).await;
            assert!(!has_lanes() || batched() >= before + 2, "{}", offer.algorithms);
        }
        let before = PrivateKeyFigures::read().old_algorithms;
        let old = Offer { version: SslVersion::TLS1_2, algorithms: "rsa_pkcs1_sha1" };
        all_succeed(shakes(2, address, &identity, old)).await;
        assert!(!has_lanes() || PrivateKeyFigures::read().old_algorithms >= before + 2);
        assert!(!shake(address, &identity, ELLIPTIC).await, "an algorithm that the key does not have");
    });
}

#[test]
fn every_algorithm_of_p256_is_signed() {
    const TLS_1_2: [&str; 3] = ["ecdsa_secp256r1_sha256", "ecdsa_secp384r1_sha384", "ecdsa_secp521r1_sha512"];
    run(async {
        let identity = Arc::new(identity(&elliptic_key(Nid::X9_62_PRIME256V1), PrivateKeySettings::default()));
        let address = serve(&identity).await;
        let old = TLS_1_2.map(|algorithms| Offer { version: SslVersion::TLS1_2, algorithms });
        for offer in old.into_iter().chain([ELLIPTIC]) {
            let before = batched();
            all_succeed(shakes(5, address, &identity, offer)).await;
            assert!(!has_lanes() || batched() >= before + 5, "{}", offer.algorithms);
        }
        let before = PrivateKeyFigures::read().old_algorithms;
        let oldest = Offer { version: SslVersion::TLS1_2, algorithms: "ecdsa_sha1" };
        all_succeed(shakes(2, address, &identity, oldest)).await;
        assert!(!has_lanes() || PrivateKeyFigures::read().old_algorithms >= before + 2);
        assert!(!shake(address, &identity, MODERN).await, "an algorithm that the key does not have");
    });
}

/// With a long delay, a batch waits until it is full, and handshakes that end meanwhile do not count.
#[test]
fn clients_that_go_away_do_not_hold_up_others() {
    if !has_lanes() {
        // The first handshake has ended before it can be abandoned.
        return;
    }
    run(async {
        let settings = PrivateKeySettings { batch_delay: Duration::from_millis(300), ..PrivateKeySettings::default() };
        let identity = Arc::new(identity(&key(2048), settings));
        let acceptor = Acceptor::new(&identity).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let clients = shakes(3, address, &identity, MODERN);
        let mut handshakes = Vec::new();
        for _ in 0..3 {
            let (socket, _) = listener.accept().await.unwrap();
            let session = Ssl::new(&acceptor.context()).unwrap();
            let shaking = async move { SslStreamBuilder::new(session, socket).accept().await.is_ok() };
            handshakes.push(tokio::task::spawn_local(shaking));
        }
        // All three wait for a fourth.
        sleep(Duration::from_millis(100)).await;
        handshakes[0].abort();
        assert!(handshakes.remove(0).await.unwrap_err().is_cancelled());
        all_succeed(handshakes).await;
        let mut succeeded = 0;
        for client in clients {
            succeeded += usize::from(client.await.unwrap());
        }
        assert_eq!(succeeded, 2);
    });
}

#[test]
fn batches_are_off_if_configured() {
    run(async {
        let settings = PrivateKeySettings { batching: PrivateKeyBatching::Off, ..PrivateKeySettings::default() };
        let identity = Arc::new(identity(&key(2048), settings));
        let address = serve(&identity).await;
        all_succeed(shakes(4, address, &identity, MODERN)).await;
        assert!(Acceptor::new(&identity).is_ok());
    });
}

/// Python's `ssl`, which is OpenSSL, verifies chain, name and signature.
#[test]
fn another_client_verifies_the_signatures() {
    const CLIENT: &str = "import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as plain:
        with context.wrap_socket(plain, server_hostname='localhost') as session:
            print(session.version())
";
    run(async {
        for key in [key(2048), elliptic_key(Nid::X9_62_PRIME256V1)] {
            verifies_by_python(CLIENT, &Arc::new(identity(&key, PrivateKeySettings::default()))).await;
        }
    });
}

async fn verifies_by_python(client: &'static str, identity: &Arc<ServerIdentity>) {
    let address = serve(identity).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("certificate.pem");
    std::fs::write(&path, &identity.certificate_chain_pem).unwrap();
    let client = || {
        let mut command = Command::new("python3");
        command.args(["-c", client, &address.port().to_string()]).arg(&path).stdin(Stdio::null());
        tokio::task::spawn_blocking(move || command.output().expect("python3 runs"))
    };
    for client in [client(), client(), client(), client(), client(), client()] {
        let output = client.await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "TLSv1.2\nTLSv1.3\n", "{output:?}");
    }
}
