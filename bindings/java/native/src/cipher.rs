//! AES in counter mode and ChaCha20. Java keeps the position in the message, so that no native object changes.

use jni_sys::{JNIEnv, jbyteArray, jclass, jint, jlong, jobject};
use leafseal_crypto::{CipherAlgorithm, CipherKey};
use zeroize::Zeroizing;

use crate::jvm::{Jvm, Thrown, enter};
use crate::memory::{JavaText, Places};
use crate::objects::{Exclusive, borrow, free, give};

/// The numbers by which Java names algorithms.
fn algorithm(number: jint) -> CipherAlgorithm {
    match number {
        0 => CipherAlgorithm::Aes128Ctr,
        1 => CipherAlgorithm::Aes192Ctr,
        2 => CipherAlgorithm::Aes256Ctr,
        3 => CipherAlgorithm::ChaCha20,
        other => panic!("no algorithm {other}"),
    }
}

/// `long cipherSlot()`: a slot for an expanded key.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_cipherSlot")]
extern "system" fn java_cipher_slot(environment: *mut JNIEnv, _class: jclass) -> jlong {
    enter(environment, 0, |_| Ok(give(Exclusive::new(None::<CipherKey>))))
}

/// `void clearCipher(long slot)`: wipes the key.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_clearCipher")]
extern "system" fn java_clear_cipher(environment: *mut JNIEnv, _class: jclass, slot: jlong) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<Option<CipherKey>> = unsafe { borrow(slot) };
        slot.with(jvm, |slot| {
            *slot = None;
            Ok(())
        })
    });
}

/// `void freeCipher(long slot)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_freeCipher")]
extern "system" fn java_free_cipher(environment: *mut JNIEnv, _class: jclass, slot: jlong) {
    enter(environment, (), |_| {
        // SAFETY: Java frees an object once, when nothing refers to it.
        unsafe { free::<Exclusive<Option<CipherKey>>>(slot) };
        Ok(())
    });
}

/// Calls `body` with the key: that of the slot, expanded if it is empty; without a slot, which is 0, expanded for the call.
fn with_key<R>(
    jvm: Jvm,
    slot: jlong,
    number: jint,
    key: jbyteArray,
    body: impl FnOnce(&CipherKey) -> Result<R, Thrown>,
) -> Result<R, Thrown> {
    let expand = || {
        let bytes = Zeroizing::new(jvm.bytes(key)?);
        Ok(CipherKey::new(algorithm(number), &bytes).expect("Java checks the length of keys"))
    };
    if slot == 0 {
        return body(&expand()?);
    }
    // SAFETY: Java keeps the object alive during the call.
    let slot: &Exclusive<Option<CipherKey>> = unsafe { borrow(slot) };
    slot.with(jvm, |slot| {
        if slot.is_none() {
            *slot = Some(expand()?);
        }
        body(slot.as_ref().expect("expanded above"))
    })
}

/// `void apply(long slot, int algorithm, byte[] key, long ivHigh, long ivLow, long position, Object input, int inputOffset, int size,
/// Object output, int outputOffset, int kinds)`: encrypts or decrypts the bytes that begin at `position` of the message.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_apply")]
extern "system" fn java_apply(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    number: jint,
    key: jbyteArray,
    iv_high: jlong,
    iv_low: jlong,
    position: jlong,
    input: jobject,
    input_offset: jint,
    size: jint,
    output: jobject,
    output_offset: jint,
    kinds: jint,
) {
    enter(environment, (), |jvm| {
        let mut iv = [0; 16];
        iv[..8].copy_from_slice(&iv_high.to_be_bytes());
        iv[8..].copy_from_slice(&iv_low.to_be_bytes());
        let size = usize::try_from(size).expect("Java checks that sizes are not negative");
        let mut position = position as u64;
        let places = Places::new(jvm, (input, input_offset), (output, output_offset), size, 0, kinds);
        with_key(jvm, slot, number, key, |key| {
            places.pieces(jvm, size, |text| {
                position += match text {
                    JavaText::Separate(input, output) => {
                        key.apply_from(&iv, position, input, output);
                        input.len()
                    }
                    JavaText::InPlace(text) => {
                        key.apply_in_place_from(&iv, position, text);
                        text.len()
                    }
                } as u64;
            })
        })
    });
}
