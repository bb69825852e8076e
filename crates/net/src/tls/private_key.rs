//! Private-key operations of TLS handshakes, in batches: signatures by one key, of handshakes that are open at the same time on one
//! thread, are computed side by side in the CPU's lanes, where one by RSA costs as much as four, and one on P-256 as much as eight.
//!
//! A signature waits until its batch is full, or until the thread has nothing else ready ([`sign_before_parking`]). A lone handshake
//! therefore never waits for others. A signature on P-256 takes so little that it waits only if a delay is configured. There is one queue
//! for each thread and key; its lock is taken by another thread only if the runtime has moved a handshake there.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use boring::bn::BigNumRef;
use boring::ec::EcKey;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::{PKey, Private};
use boring::rsa::Rsa;
use boring::ssl::{
    AsyncPrivateKeyMethod, AsyncPrivateKeyMethodError, BoxPrivateKeyMethodFuture, SslContextBuilder, SslRef,
    SslSignatureAlgorithm,
};
use leafseal_config::{ms, settings};
use leafseal_crypto::random::fresh_random;
use leafseal_crypto::{
    Curve, EcdsaPrivateKey, HashFunction, PrivateKey, RsaComponents, RsaPrivateKey, RsaScheme, Secret,
    in_guarded_memory,
};
use tokio::sync::Notify;
use zeroize::Zeroizing;

use crate::metrics::{Histogram, HistogramSnapshot, MetricName, MetricsWriter};

/// Whether private-key operations of a listener are computed in batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrivateKeyBatching {
    /// Where it is faster: RSA keys of 2,048, 3,072 and 4,096 bits, and keys on P-256, on CPUs with AVX-512 IFMA.
    #[default]
    Auto,
    /// Never.
    Off,
}

settings! {
    /// How a listener computes private-key operations.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PrivateKeySettings {
        /// Whether signatures of TLS handshakes that are open at the same time are computed together. `auto`: with an RSA key of 2,048,
        /// 3,072 or 4,096 bits or a key on P-256, on a CPU with AVX-512 IFMA, where four or eight signatures cost as much as one.
        pub batching: PrivateKeyBatching = PrivateKeyBatching::Auto,
            one of { "auto" => PrivateKeyBatching::Auto, "off" => PrivateKeyBatching::Off };
        /// How long such a signature waits for others while its thread has nothing else to do. With 0 a lone handshake never waits, and one
        /// with a key on P-256 never does; more saves CPU time for latency.
        pub batch_delay: Duration = ms(0), in ms(0)..;
    }
}

/// How long a signature waits at most while its thread always has something else to do.
const BUSY_WAIT_MAX: Duration = Duration::from_millis(2);

/// The most signatures of a batch.
pub const BATCH_SIZE_MAX: usize = 8;

/// Figures of all listeners of the process.
static FIGURES: LazyLock<SignatureFigures> = LazyLock::new(SignatureFigures::default);

#[derive(Default)]
struct SignatureFigures {
    batches: [AtomicU64; BATCH_SIZE_MAX],
    waits: Histogram,
    old_algorithms: AtomicU64,
    faults: AtomicU64,
}

/// Batches of private-key operations since the process started, of all its listeners.
#[derive(Clone, Debug, PartialEq)]
pub struct PrivateKeyFigures {
    /// Batches with one signature, with two, and so on.
    pub batches: [u64; BATCH_SIZE_MAX],
    /// How long signatures waited for their batch.
    pub waits: HistogramSnapshot,
    /// Signatures that the TLS library computed one by one, because clients accept only older algorithms.
    pub old_algorithms: u64,
    /// Signatures that did not pass their check and were computed again by the library: the hardware is faulty.
    pub faults: u64,
}

impl PrivateKeyFigures {
    /// Reads the figures.
    pub fn read() -> Self {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            batches: FIGURES.batches.each_ref().map(load),
            waits: FIGURES.waits.snapshot(),
            old_algorithms: load(&FIGURES.old_algorithms),
            faults: load(&FIGURES.faults),
        }
    }

    /// Writes them as metrics.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, out: &mut MetricsWriter<'_>) -> fmt::Result {
        const SIZE: MetricName = MetricName::plain(
            "tls_signature_batch_size",
            "Signatures of TLS handshakes that were computed together, with keys that are batched",
        );
        const WAIT: MetricName =
            MetricName::seconds("tls_signature_wait", "Time that these signatures waited for others");
        const FALLBACKS: MetricName = MetricName::plain(
            "tls_signature_fallbacks",
            "Signatures with such keys by the TLS library instead, by reason: algorithm, the client accepts only older ones; fault, a \
             signature did not pass its check, and the hardware is faulty",
        );
        let sizes = (1..).zip(self.batches);
        let batches = HistogramSnapshot {
            buckets: sizes.clone().map(|(size, count)| (f64::from(size), count)).chain([(f64::INFINITY, 0)]).collect(),
            sum: sizes.map(|(size, count)| f64::from(size) * count as f64).sum(),
            count: self.batches.iter().sum(),
        };
        out.histogram(SIZE, &batches)?;
        out.histogram(WAIT, &self.waits)?;
        out.counters(FALLBACKS, ["reason"], [(["algorithm"], self.old_algorithms), (["fault"], self.faults)])
    }
}

/// Sets the key of a context, which has its certificate already.
pub(super) fn set_private_key(
    context: &mut SslContextBuilder,
    key: &PKey<Private>,
    settings: PrivateKeySettings,
) -> Result<(), boring::error::ErrorStack> {
    let signer = match settings.batching {
        PrivateKeyBatching::Auto => in_guarded_memory(|| Signer::of(key)),
        PrivateKeyBatching::Off => None,
    };
    let Some(signer) = signer else { return context.set_private_key(key) };
    let key = BatchedKey { signer, plain: key.clone(), delay: settings.batch_delay };
    context.set_async_private_key_method(SigningMethod(Arc::new(key)));
    Ok(())
}

/// A key that signs in lanes.
#[derive(Debug)]
enum Signer {
    Rsa(Box<RsaPrivateKey>),
    Ecdsa(EcdsaPrivateKey),
}

/// How a message is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SigningScheme {
    Rsa(RsaScheme),
    /// On P-256.
    Ecdsa(HashFunction),
}

impl Signer {
    /// The key, if it is one that gains by lanes.
    fn of(key: &PKey<Private>) -> Option<Self> {
        let signer = match (key.rsa(), key.ec_key()) {
            (Ok(rsa), _) => Self::Rsa(Box::new(rsa_key(&rsa)?)),
            (_, Ok(ec)) => Self::Ecdsa(p256_key(&ec)?),
            _ => return None,
        };
        (signer.batch_size() > 1).then_some(signer)
    }

    fn batch_size(&self) -> usize {
        match self {
            Self::Rsa(key) => key.batch_size(),
            Self::Ecdsa(key) => key.batch_size(),
        }
    }

    /// Whether lanes have the scheme. All are those of the key's kind, since the library chooses among these.
    fn has(&self, scheme: SigningScheme) -> bool {
        matches!((self, scheme), (Self::Rsa(_), SigningScheme::Rsa(_)) | (Self::Ecdsa(_), SigningScheme::Ecdsa(_)))
    }

    /// A signature of each message, in batches; counts them.
    fn sign(&self, messages: &[(SigningScheme, &[u8])]) -> Vec<Vec<u8>> {
        for batch in messages.chunks(self.batch_size()) {
            FIGURES.batches[batch.len() - 1].fetch_add(1, Ordering::Relaxed);
        }
        let mut rng = fresh_random();
        match self {
            Self::Rsa(key) => {
                let messages = messages.iter().filter_map(|(scheme, message)| Some((scheme.rsa()?, *message)));
                let signatures = key.sign_many(&messages.collect::<Vec<_>>(), &mut rng);
                FIGURES.faults.fetch_add(key.take_faults(), Ordering::Relaxed);
                signatures
            }
            Self::Ecdsa(key) => {
                let messages = messages.iter().filter_map(|(scheme, message)| Some((scheme.ecdsa()?, *message)));
                key.sign_many(&messages.collect::<Vec<_>>(), &mut rng)
            }
        }
    }
}

impl SigningScheme {
    fn rsa(self) -> Option<RsaScheme> {
        match self {
            Self::Rsa(scheme) => Some(scheme),
            Self::Ecdsa(_) => None,
        }
    }

    fn ecdsa(self) -> Option<HashFunction> {
        match self {
            Self::Ecdsa(hash) => Some(hash),
            Self::Rsa(_) => None,
        }
    }
}

fn rsa_key(rsa: &Rsa<Private>) -> Option<RsaPrivateKey> {
    let secret = |number: &BigNumRef| Zeroizing::new(number.to_vec());
    let [d, p, q] = [rsa.d(), rsa.p()?, rsa.q()?].map(secret);
    let [dmp1, dmq1, iqmp] = [rsa.dmp1()?, rsa.dmq1()?, rsa.iqmp()?].map(secret);
    let key = RsaPrivateKey::new(&RsaComponents {
        modulus: &rsa.n().to_vec(),
        public_exponent: &rsa.e().to_vec(),
        private_exponent: &d,
        prime_1: &p,
        prime_2: &q,
        exponent_1: &dmp1,
        exponent_2: &dmq1,
        coefficient: &iqmp,
    });
    key.ok()
}

fn p256_key(ec: &EcKey<Private>) -> Option<EcdsaPrivateKey> {
    if ec.group().curve_name() != Some(Nid::X9_62_PRIME256V1) {
        return None;
    }
    let scalar = Zeroizing::new(ec.private_key().to_vec_padded(32).ok()?);
    EcdsaPrivateKey::new(&PrivateKey::from_scalar(Curve::P256, Secret::from_slice(&scalar)?).ok()?)
}

/// A key whose signatures are batched.
struct BatchedKey {
    signer: Signer,
    /// For algorithms that lanes do not have.
    plain: PKey<Private>,
    delay: Duration,
}

/// The source of a context's signatures.
struct SigningMethod(Arc<BatchedKey>);

/// A signature that a handshake waits for.
struct SignatureRequest {
    scheme: SigningScheme,
    message: Vec<u8>,
    began: Instant,
    signature: OnceLock<Vec<u8>>,
    signed: Notify,
}

impl fmt::Debug for SignatureRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

/// Requests of one thread by one key. Weak, so that those of handshakes that have ended are left out.
#[derive(Default)]
struct SignatureQueue(Mutex<Vec<Weak<SignatureRequest>>>);

thread_local! {
    /// This thread's queues.
    static QUEUES: RefCell<Vec<(Weak<BatchedKey>, Arc<SignatureQueue>)>> = const { RefCell::new(Vec::new()) };
    /// Whether this thread calls [`sign_before_parking`].
    static SIGNS_BEFORE_PARKING: Cell<bool> = const { Cell::new(false) };
}

/// Computes the signatures that wait on this thread. For `on_thread_park` of a runtime that serves TLS: what is called when a thread has
/// nothing else ready. On threads of other runtimes, signatures do not wait for others.
pub fn sign_before_parking() {
    SIGNS_BEFORE_PARKING.set(true);
    let queues = QUEUES.with_borrow(|queues| {
        let of_live_key =
            |(key, queue): &(Weak<BatchedKey>, Arc<SignatureQueue>)| key.upgrade().map(|key| (key, Arc::clone(queue)));
        queues.iter().filter(|(_, queue)| !queue.waiting().is_empty()).filter_map(of_live_key).collect::<Vec<_>>()
    });
    for (key, queue) in queues.iter().filter(|(key, _)| key.delay.is_zero()) {
        queue.flush(key);
    }
}

impl SignatureQueue {
    /// This thread's queue for a key.
    fn of(key: &Arc<BatchedKey>) -> Arc<Self> {
        QUEUES.with_borrow_mut(|queues| {
            let found = queues.iter().find(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(key)));
            if let Some((_, queue)) = found {
                return Arc::clone(queue);
            }
            queues.retain(|(known, _)| known.strong_count() > 0);
            let queue = Arc::new(Self::default());
            queues.push((Arc::downgrade(key), Arc::clone(&queue)));
            queue
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Weak<SignatureRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, and signs if the batch is full.
    fn push(&self, key: &BatchedKey, request: &Arc<SignatureRequest>) {
        let mut waiting = self.waiting();
        waiting.retain(|request| request.strong_count() > 0);
        waiting.push(Arc::downgrade(request));
        let is_full = waiting.len() >= key.signer.batch_size();
        drop(waiting);
        if is_full {
            self.flush(key);
        }
    }

    /// Signs what waits.
    fn flush(&self, key: &BatchedKey) {
        let requests: Vec<Arc<SignatureRequest>> =
            self.waiting().drain(..).filter_map(|request| request.upgrade()).collect();
        if requests.is_empty() {
            return;
        }
        let now = Instant::now();
        requests.iter().for_each(|request| FIGURES.waits.observe(now.saturating_duration_since(request.began)));
        let messages: Vec<(SigningScheme, &[u8])> =
            requests.iter().map(|request| (request.scheme, request.message.as_slice())).collect();
        let signatures = key.signer.sign(&messages);
        for (request, signature) in requests.iter().zip(signatures) {
            let _ = request.signature.set(signature);
            request.signed.notify_one();
        }
    }
}

impl AsyncPrivateKeyMethod for SigningMethod {
    fn sign(
        &self,
        _: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        _: &mut [u8],
    ) -> Result<BoxPrivateKeyMethodFuture, AsyncPrivateKeyMethodError> {
        let Some(scheme) = scheme(algorithm).filter(|scheme| self.0.signer.has(*scheme)) else {
            let signature = sign_plainly(&self.0.plain, input, algorithm).ok_or(AsyncPrivateKeyMethodError)?;
            FIGURES.old_algorithms.fetch_add(1, Ordering::Relaxed);
            return Ok(ready(signature));
        };
        if matches!(scheme, SigningScheme::Ecdsa(_)) && self.0.delay.is_zero() {
            let signature = self.0.signer.sign(&[(scheme, input)]).pop().ok_or(AsyncPrivateKeyMethodError)?;
            return Ok(ready(signature));
        }
        let (signature, signed) = (OnceLock::new(), Notify::new());
        let request =
            Arc::new(SignatureRequest { scheme, message: input.to_vec(), began: Instant::now(), signature, signed });
        let (key, queue) = (Arc::clone(&self.0), SignatureQueue::of(&self.0));
        queue.push(&key, &request);
        Ok(Box::pin(async move {
            if request.signature.get().is_none() {
                wait(key.delay, &request.signed).await;
            }
            if request.signature.get().is_none() {
                queue.flush(&key);
            }
            if request.signature.get().is_none() {
                // Another thread computes it: the runtime has moved the handshake.
                request.signed.notified().await;
            }
            let signature = request.signature.get().ok_or(AsyncPrivateKeyMethodError)?;
            Ok(finish(signature.clone()))
        }))
    }

    /// Only the key exchange of RSA would decrypt, which the listeners' policy does not have.
    fn decrypt(
        &self,
        _: &mut SslRef,
        _: &[u8],
        _: &mut [u8],
    ) -> Result<BoxPrivateKeyMethodFuture, AsyncPrivateKeyMethodError> {
        Err(AsyncPrivateKeyMethodError)
    }
}

/// Waits until the thread has signed, or for the delay.
async fn wait(delay: Duration, signed: &Notify) {
    // The runtime polls the sockets before it resumes what has yielded, so that the thread parks only if they have nothing.
    tokio::task::yield_now().await;
    let wait_max = match delay {
        Duration::ZERO if !SIGNS_BEFORE_PARKING.get() => return,
        Duration::ZERO => BUSY_WAIT_MAX,
        delay => delay,
    };
    tokio::select! {
        () = tokio::time::sleep(wait_max) => {}
        () = signed.notified() => {}
    }
}

fn scheme(algorithm: SslSignatureAlgorithm) -> Option<SigningScheme> {
    Some(match algorithm {
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256 => SigningScheme::Rsa(RsaScheme::Pss(HashFunction::Sha256)),
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA384 => SigningScheme::Rsa(RsaScheme::Pss(HashFunction::Sha384)),
        SslSignatureAlgorithm::RSA_PSS_RSAE_SHA512 => SigningScheme::Rsa(RsaScheme::Pss(HashFunction::Sha512)),
        SslSignatureAlgorithm::RSA_PKCS1_SHA256 => SigningScheme::Rsa(RsaScheme::Pkcs1(HashFunction::Sha256)),
        SslSignatureAlgorithm::RSA_PKCS1_SHA384 => SigningScheme::Rsa(RsaScheme::Pkcs1(HashFunction::Sha384)),
        SslSignatureAlgorithm::RSA_PKCS1_SHA512 => SigningScheme::Rsa(RsaScheme::Pkcs1(HashFunction::Sha512)),
        SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256 => SigningScheme::Ecdsa(HashFunction::Sha256),
        SslSignatureAlgorithm::ECDSA_SECP384R1_SHA384 => SigningScheme::Ecdsa(HashFunction::Sha384),
        SslSignatureAlgorithm::ECDSA_SECP521R1_SHA512 => SigningScheme::Ecdsa(HashFunction::Sha512),
        _ => return None,
    })
}

/// The one other algorithm of TLS 1.2: SHA-1, for clients that name nothing newer.
fn sign_plainly(key: &PKey<Private>, input: &[u8], algorithm: SslSignatureAlgorithm) -> Option<Vec<u8>> {
    if ![SslSignatureAlgorithm::RSA_PKCS1_SHA1, SslSignatureAlgorithm::ECDSA_SHA1].contains(&algorithm) {
        return None;
    }
    boring::sign::Signer::new(MessageDigest::sha1(), key).ok()?.sign_oneshot_to_vec(input).ok()
}

fn ready(signature: Vec<u8>) -> BoxPrivateKeyMethodFuture {
    Box::pin(async { Ok(finish(signature)) })
}

/// Copies a signature to where the library wants it.
fn finish(signature: Vec<u8>) -> boring::ssl::BoxPrivateKeyMethodFinish {
    Box::new(move |_, output| {
        let place = output.get_mut(..signature.len()).ok_or(AsyncPrivateKeyMethodError)?;
        place.copy_from_slice(&signature);
        Ok(signature.len())
    })
}
