//! P-256 and RSA: key pairs, agreement and signatures.
//!
//! Numbers are big-endian. Java makes sure that scalars and coordinates of P-256 have 32 bytes; whether they are valid is decided here.

use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass, jint, jlong};
use leafseal_crypto::random::system_random;
use leafseal_crypto::secret::Secret;
use leafseal_crypto::{
    Curve, EcContext, EcdsaPrivateKey, EcdsaPublicKey, HashFunction, PrivateKey, PublicKey, RsaComponents,
    RsaPrivateKey, RsaPublicKey, RsaScheme,
};
use std::sync::OnceLock;
use zeroize::Zeroizing;

use crate::jvm::{Jvm, Thrown, enter};
use crate::objects::{borrow, free, give};

const SCALAR_SIZE: usize = 32;

/// The result of a verification.
const DOES_NOT_VERIFY: jint = 0;
const VERIFIES: jint = 1;
/// The key is not valid.
const INVALID_KEY: jint = -1;

/// The context of P-256 operations, which all threads share.
fn context() -> &'static EcContext {
    static CONTEXT: OnceLock<EcContext> = OnceLock::new();
    CONTEXT.get_or_init(|| EcContext::new(&mut system_random()))
}

/// The numbers by which Java names schemes of RSA.
fn scheme(number: jint) -> RsaScheme {
    let hash = match number & 3 {
        0 => HashFunction::Sha256,
        1 => HashFunction::Sha384,
        2 => HashFunction::Sha512,
        other => panic!("no hash function {other}"),
    };
    if number < 4 { RsaScheme::Pkcs1(hash) } else { RsaScheme::Pss(hash) }
}

fn verification(verifies: bool) -> jint {
    if verifies { VERIFIES } else { DOES_NOT_VERIFY }
}

/// `None` for a number that is no private key.
fn private_key(jvm: Jvm, scalar: jbyteArray) -> Result<Option<PrivateKey>, Thrown> {
    let mut secret = Secret::<SCALAR_SIZE>::zeroed();
    jvm.read(scalar, 0, secret.expose_mut())?;
    Ok(PrivateKey::from_scalar(Curve::P256, secret).ok())
}

/// `None` for what is no point of the curve.
fn public_key(jvm: Jvm, point: jbyteArray) -> Result<Option<PublicKey>, Thrown> {
    Ok(PublicKey::from_sec1(Curve::P256, &jvm.bytes(point)?).ok())
}

/// `boolean generateKeyPair(byte[] seed, byte[] scalar, byte[] point)`: a private key and its uncompressed point. `seed` is 32 random
/// bytes, or null for the system's randomness. False if the seed is not between 1 and the order of the curve: draw another.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_generateKeyPair")]
extern "system" fn java_generate_key_pair(
    environment: *mut JNIEnv,
    _class: jclass,
    seed: jbyteArray,
    scalar: jbyteArray,
    point: jbyteArray,
) -> jboolean {
    enter(environment, false, |jvm| {
        let private = if seed.is_null() {
            PrivateKey::generate(Curve::P256, &mut system_random())
        } else {
            let Some(private) = private_key(jvm, seed)? else { return Ok(false) };
            private
        };
        jvm.write(scalar, 0, private.scalar().expose())?;
        jvm.write(point, 0, context().public_key(&private).uncompressed())?;
        Ok(true)
    })
}

/// `boolean agree(byte[] scalar, byte[] point, byte[] secret)`: the X coordinate of the shared point. False if the key or the point is not
/// valid.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_agree")]
extern "system" fn java_agree(
    environment: *mut JNIEnv,
    _class: jclass,
    scalar: jbyteArray,
    point: jbyteArray,
    secret: jbyteArray,
) -> jboolean {
    enter(environment, false, |jvm| {
        let (Some(private), Some(peer)) = (private_key(jvm, scalar)?, public_key(jvm, point)?) else {
            return Ok(false);
        };
        jvm.write(secret, 0, context().agree(&private, &peer).expose())?;
        Ok(true)
    })
}

/// `int signEcdsa(byte[] scalar, byte[] digest, byte[] signature)`: the size of the signature, which is DER of at most 72 bytes; 0 if the
/// key is not valid.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_signEcdsa")]
extern "system" fn java_sign_ecdsa(
    environment: *mut JNIEnv,
    _class: jclass,
    scalar: jbyteArray,
    digest: jbyteArray,
    signature: jbyteArray,
) -> jint {
    enter(environment, 0, |jvm| {
        let Some(private) = private_key(jvm, scalar)? else { return Ok(0) };
        let key = EcdsaPrivateKey::new(&private).expect("a key on P-256");
        let der = key.sign_digest(&jvm.bytes(digest)?, &mut system_random());
        jvm.write(signature, 0, &der)?;
        Ok(der.len() as jint)
    })
}

/// `int verifyEcdsa(byte[] point, byte[] digest, byte[] signature)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_verifyEcdsa")]
extern "system" fn java_verify_ecdsa(
    environment: *mut JNIEnv,
    _class: jclass,
    point: jbyteArray,
    digest: jbyteArray,
    signature: jbyteArray,
) -> jint {
    enter(environment, DOES_NOT_VERIFY, |jvm| {
        let Some(public) = public_key(jvm, point)? else { return Ok(INVALID_KEY) };
        let key = EcdsaPublicKey::new(&public).expect("a key on P-256");
        Ok(verification(key.verify_digest(&jvm.bytes(digest)?, &jvm.bytes(signature)?)))
    })
}

/// `long rsaKey(byte[] modulus, byte[] publicExponent, byte[] privateExponent, byte[] prime1, byte[] prime2, byte[] exponent1,
/// byte[] exponent2, byte[] coefficient)`: a private key, which any number of threads may use; 0 if it is not valid.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_rsaKey")]
extern "system" fn java_rsa_key(
    environment: *mut JNIEnv,
    _class: jclass,
    modulus: jbyteArray,
    public_exponent: jbyteArray,
    private_exponent: jbyteArray,
    prime_1: jbyteArray,
    prime_2: jbyteArray,
    exponent_1: jbyteArray,
    exponent_2: jbyteArray,
    coefficient: jbyteArray,
) -> jlong {
    enter(environment, 0, |jvm| {
        let read = |array| jvm.bytes(array).map(Zeroizing::new);
        let numbers = RsaNumbers {
            public: [read(modulus)?, read(public_exponent)?],
            private: [
                read(private_exponent)?,
                read(prime_1)?,
                read(prime_2)?,
                read(exponent_1)?,
                read(exponent_2)?,
                read(coefficient)?,
            ],
        };
        Ok(RsaPrivateKey::new(&numbers.components()).map_or(0, give))
    })
}

/// The bytes of a private key.
struct RsaNumbers {
    public: [Zeroizing<Vec<u8>>; 2],
    private: [Zeroizing<Vec<u8>>; 6],
}

impl RsaNumbers {
    fn components(&self) -> RsaComponents<'_> {
        let [modulus, public_exponent] = self.public.each_ref().map(|bytes| bytes.as_slice());
        let [private_exponent, prime_1, prime_2, exponent_1, exponent_2, coefficient] =
            self.private.each_ref().map(|bytes| bytes.as_slice());
        RsaComponents {
            modulus,
            public_exponent,
            private_exponent,
            prime_1,
            prime_2,
            exponent_1,
            exponent_2,
            coefficient,
        }
    }
}

/// `void freeRsaKey(long key)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_freeRsaKey")]
extern "system" fn java_free_rsa_key(environment: *mut JNIEnv, _class: jclass, key: jlong) {
    enter(environment, (), |_| {
        // SAFETY: Java frees an object once, when nothing refers to it.
        unsafe { free::<RsaPrivateKey>(key) };
        Ok(())
    });
}

/// `void signRsa(long key, int scheme, byte[] digest, byte[] signature)`: fills the signature, which is as long as the modulus.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_signRsa")]
extern "system" fn java_sign_rsa(
    environment: *mut JNIEnv,
    _class: jclass,
    key: jlong,
    number: jint,
    digest: jbyteArray,
    signature: jbyteArray,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let key: &RsaPrivateKey = unsafe { borrow(key) };
        let digest = jvm.bytes(digest)?;
        let signed = key.sign_digests(&[(scheme(number), &digest)], &mut system_random());
        jvm.write(signature, 0, &signed[0])
    });
}

/// `int verifyRsa(byte[] modulus, byte[] publicExponent, int scheme, byte[] digest, byte[] signature)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_verifyRsa")]
extern "system" fn java_verify_rsa(
    environment: *mut JNIEnv,
    _class: jclass,
    modulus: jbyteArray,
    public_exponent: jbyteArray,
    number: jint,
    digest: jbyteArray,
    signature: jbyteArray,
) -> jint {
    enter(environment, DOES_NOT_VERIFY, |jvm| {
        let key = RsaPublicKey::new(&jvm.bytes(modulus)?, &jvm.bytes(public_exponent)?);
        let Ok(key) = key else { return Ok(INVALID_KEY) };
        Ok(verification(key.verify_digest(scheme(number), &jvm.bytes(digest)?, &jvm.bytes(signature)?)))
    })
}

/// `boolean isRsaKey(byte[] modulus, byte[] publicExponent)`: whether the numbers are a public key that verifies.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_isRsaKey")]
extern "system" fn java_is_rsa_key(
    environment: *mut JNIEnv,
    _class: jclass,
    modulus: jbyteArray,
    public_exponent: jbyteArray,
) -> jboolean {
    enter(environment, false, |jvm| Ok(RsaPublicKey::new(&jvm.bytes(modulus)?, &jvm.bytes(public_exponent)?).is_ok()))
}
