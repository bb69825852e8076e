//! Hash functions and HMAC: of a whole message in one call, and in pieces.

use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jlong, jobject};
use leafseal_crypto::digest::DIGEST_SIZE_MAX;
use leafseal_crypto::mac::{MacKey, MacState};
use leafseal_crypto::{DigestAlgorithm, DigestState};
use zeroize::Zeroizing;

use crate::jvm::{Jvm, Thrown, enter};
use crate::memory::{JavaBytes, PIECE_SIZE, input_is_array};
use crate::objects::{Exclusive, borrow, free, give};

/// The numbers by which Java names algorithms.
fn algorithm(number: jint) -> DigestAlgorithm {
    match number {
        0 => DigestAlgorithm::Sha1,
        1 => DigestAlgorithm::Sha224,
        2 => DigestAlgorithm::Sha256,
        3 => DigestAlgorithm::Sha384,
        4 => DigestAlgorithm::Sha512,
        other => panic!("no algorithm {other}"),
    }
}

fn size(number: jint) -> usize {
    usize::try_from(number).expect("Java checks that sizes are not negative")
}

/// A message in pieces. Begins again after its end.
#[derive(Clone)]
enum Hashing {
    Digest(DigestAlgorithm, DigestState),
    Mac(MacKey, MacState),
}

impl Hashing {
    fn digest(algorithm: DigestAlgorithm) -> Self {
        Self::Digest(algorithm, algorithm.start())
    }

    fn mac(key: &MacKey) -> Self {
        Self::Mac(key.clone(), key.start())
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Digest(_, state) => state.update(bytes),
            Self::Mac(_, state) => state.update(bytes),
        }
    }

    fn restart(&mut self) {
        *self = match self {
            Self::Digest(algorithm, _) => Self::digest(*algorithm),
            Self::Mac(key, _) => Self::mac(key),
        };
    }

    /// The size of the result, which fills the front of `out`.
    fn end(&mut self, out: &mut [u8; DIGEST_SIZE_MAX]) -> usize {
        let size = match self {
            Self::Digest(algorithm, state) => {
                state.clone().finish(&mut out[..algorithm.size()]);
                algorithm.size()
            }
            Self::Mac(key, state) => {
                let size = key.algorithm().size();
                state.clone().finish(&mut out[..size]);
                size
            }
        };
        self.restart();
        size
    }
}

/// `void digest(int algorithm, byte[] input, int inputOffset, int size, byte[] output, int outputOffset)`: the digest of a whole message.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_digest")]
extern "system" fn java_digest(
    environment: *mut JNIEnv,
    _class: jclass,
    number: jint,
    input: jbyteArray,
    input_offset: jint,
    text_size: jint,
    output: jbyteArray,
    output_offset: jint,
) {
    enter(environment, (), |jvm| {
        let algorithm = algorithm(number);
        let mut digest = [0; DIGEST_SIZE_MAX];
        let digest = &mut digest[..algorithm.size()];
        let (input, text_size) = (JavaBytes::new(jvm, (input, input_offset), true), size(text_size));
        if text_size <= PIECE_SIZE {
            input.whole(jvm, text_size, |bytes| algorithm.digest(bytes, digest))?;
        } else {
            let mut state = algorithm.start();
            input.read_pieces(jvm, text_size, |bytes| state.update(bytes))?;
            state.finish(digest);
        }
        jvm.write(output, size(output_offset), digest)
    });
}

/// Calls `body` with the key: that of the slot, or, without a slot, which is 0, made for the call.
fn with_key<R>(
    jvm: Jvm,
    slot: jlong,
    number: jint,
    key: jbyteArray,
    body: impl FnOnce(&MacKey) -> Result<R, Thrown>,
) -> Result<R, Thrown> {
    if slot != 0 {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<Hashing> = unsafe { borrow(slot) };
        return slot.with(jvm, |slot| match slot {
            Hashing::Mac(key, _) => body(key),
            Hashing::Digest(..) => panic!("Java passes the slot of a code"),
        });
    }
    let bytes = Zeroizing::new(jvm.bytes(key)?);
    body(&MacKey::new(algorithm(number), &bytes).expect("HMAC is defined over all of them"))
}

/// `void mac(long hashing, int algorithm, byte[] key, byte[] input, int inputOffset, int size, byte[] output, int outputOffset)`: the code
/// of a whole message. A message in pieces in the slot stays as it is.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_mac")]
extern "system" fn java_mac(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    number: jint,
    key: jbyteArray,
    input: jbyteArray,
    input_offset: jint,
    text_size: jint,
    output: jbyteArray,
    output_offset: jint,
) {
    enter(environment, (), |jvm| {
        let (input, text_size) = (JavaBytes::new(jvm, (input, input_offset), true), size(text_size));
        with_key(jvm, slot, number, key, |key| {
            let mut code = [0; DIGEST_SIZE_MAX];
            let code = &mut code[..key.algorithm().size()];
            if text_size <= PIECE_SIZE {
                input.whole(jvm, text_size, |bytes| key.mac(bytes, code))?;
            } else {
                let mut state = key.start();
                input.read_pieces(jvm, text_size, |bytes| state.update(bytes))?;
                state.finish(code);
            }
            jvm.write(output, size(output_offset), code)
        })
    });
}

/// `long hashing(int algorithm)`: begins a digest.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashing")]
extern "system" fn java_hashing(environment: *mut JNIEnv, _class: jclass, number: jint) -> jlong {
    enter(environment, 0, |_| Ok(give(Exclusive::new(Hashing::digest(algorithm(number))))))
}

/// `long hashingWithKey(int algorithm, byte[] key)`: begins a code, under a key of any length.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashingWithKey")]
extern "system" fn java_hashing_with_key(
    environment: *mut JNIEnv,
    _class: jclass,
    number: jint,
    key: jbyteArray,
) -> jlong {
    enter(environment, 0, |jvm| with_key(jvm, 0, number, key, |key| Ok(give(Exclusive::new(Hashing::mac(key))))))
}

/// `void hashingKey(long hashing, int algorithm, byte[] key)`: replaces the key, and begins again.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashingKey")]
extern "system" fn java_hashing_key(
    environment: *mut JNIEnv,
    _class: jclass,
    hashing: jlong,
    number: jint,
    key: jbyteArray,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let hashing: &Exclusive<Hashing> = unsafe { borrow(hashing) };
        hashing.with(jvm, |hashing| {
            with_key(jvm, 0, number, key, |key| {
                *hashing = Hashing::mac(key);
                Ok(())
            })
        })
    });
}

/// `long copyHashing(long hashing)`: a second message with the same beginning.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_copyHashing")]
extern "system" fn java_copy_hashing(environment: *mut JNIEnv, _class: jclass, hashing: jlong) -> jlong {
    enter(environment, 0, |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let hashing: &Exclusive<Hashing> = unsafe { borrow(hashing) };
        hashing.with(jvm, |hashing| Ok(give(Exclusive::new(hashing.clone()))))
    })
}

/// `void freeHashing(long hashing)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_freeHashing")]
extern "system" fn java_free_hashing(environment: *mut JNIEnv, _class: jclass, hashing: jlong) {
    enter(environment, (), |_| {
        // SAFETY: Java frees an object once, when nothing refers to it.
        unsafe { free::<Exclusive<Hashing>>(hashing) };
        Ok(())
    });
}

/// `void hashPiece(long hashing, Object input, int inputOffset, int size, int kinds)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashPiece")]
extern "system" fn java_hash_piece(
    environment: *mut JNIEnv,
    _class: jclass,
    hashing: jlong,
    input: jobject,
    input_offset: jint,
    text_size: jint,
    kinds: jint,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let hashing: &Exclusive<Hashing> = unsafe { borrow(hashing) };
        let input = JavaBytes::new(jvm, (input, input_offset), input_is_array(kinds));
        hashing.with(jvm, |hashing| input.read_pieces(jvm, size(text_size), |bytes| hashing.update(bytes)))
    });
}

/// `void hashEnd(long hashing, byte[] output, int outputOffset)`: writes the result and begins again.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashEnd")]
extern "system" fn java_hash_end(
    environment: *mut JNIEnv,
    _class: jclass,
    hashing: jlong,
    output: jbyteArray,
    output_offset: jint,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let hashing: &Exclusive<Hashing> = unsafe { borrow(hashing) };
        hashing.with(jvm, |hashing| {
            let mut out = [0; DIGEST_SIZE_MAX];
            let out_size = hashing.end(&mut out);
            jvm.write(output, size(output_offset), &out[..out_size])
        })
    });
}

/// `void hashRestart(long hashing)`: discards what was read.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_hashRestart")]
extern "system" fn java_hash_restart(environment: *mut JNIEnv, _class: jclass, hashing: jlong) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let hashing: &Exclusive<Hashing> = unsafe { borrow(hashing) };
        hashing.with(jvm, |hashing| {
            hashing.restart();
            Ok(())
        })
    });
}
