//! AES-GCM and ChaCha20-Poly1305: whole messages, and messages in pieces.
//!
//! Plaintext of a message that does not authenticate is overwritten with zeros before Java gets control. The ciphertext of a message that
//! is opened in pieces is collected until its end: then it is opened like a whole message.

use std::ptr::NonNull;

use jni_sys::{JNIEnv, jboolean, jbyteArray, jclass, jint, jlong, jobject};
use leafseal_crypto::aead::{InvalidNonceLength, NONCE_SIZE, OpenStream, SealStream, TAG_SIZE};
use leafseal_crypto::wipe;
use leafseal_crypto::{AeadAlgorithm, AeadKey, Nonce};
use zeroize::Zeroizing;

use crate::buffer::Buffer;
use crate::jvm::{Jvm, Thrown, enter};
use crate::memory::{COPIED_SIZE_MAX, JavaBytes, JavaText, PIECE_SIZE, Places, input_is_array, output_is_array};
use crate::objects::{Exclusive, borrow, free, give};

/// Longest associated data that is copied to the stack.
const AAD_ON_STACK_MAX: usize = 256;
/// A block of AES.
const BLOCK_SIZE: usize = 16;

/// The numbers by which Java names algorithms.
fn algorithm(number: jint) -> AeadAlgorithm {
    match number {
        0 => AeadAlgorithm::Aes128Gcm,
        1 => AeadAlgorithm::Aes192Gcm,
        2 => AeadAlgorithm::Aes256Gcm,
        3 => AeadAlgorithm::ChaCha20Poly1305,
        other => panic!("no algorithm {other}"),
    }
}

fn size(number: jint) -> usize {
    usize::try_from(number).expect("Java checks that sizes are not negative")
}

/// A nonce. Java passes one of 12 bytes as two numbers, which spares an access to an array.
enum AnyNonce {
    Short(Nonce),
    Long(Vec<u8>),
}

impl AnyNonce {
    fn new(jvm: Jvm, array: jbyteArray, high: jlong, low: jint) -> Result<Self, Thrown> {
        if !array.is_null() {
            return Ok(Self::Long(jvm.bytes(array)?));
        }
        let mut nonce = [0; NONCE_SIZE];
        nonce[..8].copy_from_slice(&high.to_be_bytes());
        nonce[8..].copy_from_slice(&low.to_be_bytes());
        Ok(Self::Short(Nonce(nonce)))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Short(nonce) => &nonce.0,
            Self::Long(nonce) => nonce,
        }
    }
}

/// Calls `body` with the first `size` bytes of the array.
fn with_aad<R>(
    jvm: Jvm,
    array: jbyteArray,
    size: usize,
    body: impl FnOnce(&[u8]) -> Result<R, Thrown>,
) -> Result<R, Thrown> {
    if size == 0 {
        return body(&[]);
    }
    if size <= AAD_ON_STACK_MAX {
        let mut copy = [0; AAD_ON_STACK_MAX];
        jvm.read(array, 0, &mut copy[..size])?;
        return body(&copy[..size]);
    }
    let mut copy = vec![0; size];
    jvm.read(array, 0, &mut copy)?;
    body(&copy)
}

/// Java checks that nonces are not empty.
fn stream<S>(started: Result<S, InvalidNonceLength>) -> S {
    started.expect("a nonce of a length that the algorithm takes")
}

fn seal(
    jvm: Jvm,
    key: &AeadKey,
    nonce: &AnyNonce,
    aad: &[u8],
    places: &Places,
    size: usize,
    tag_size: usize,
) -> Result<(), Thrown> {
    match nonce {
        AnyNonce::Short(nonce) if size <= COPIED_SIZE_MAX && places.moves() => {
            let mut copy = [0; COPIED_SIZE_MAX + TAG_SIZE];
            let (text, tag) = copy[..size + tag_size].split_at_mut(size);
            places.input.read(jvm, text)?;
            key.seal_in_place(nonce, aad, text, tag);
            places.output.write(jvm, &copy[..size + tag_size])
        }
        AnyNonce::Short(nonce) if size <= PIECE_SIZE || !places.moves() => {
            places.with(jvm, size, tag_size, |text, tag| match text {
                JavaText::Separate(input, output) => key.seal_detached(nonce, aad, input, output, tag),
                JavaText::InPlace(text) => key.seal_in_place(nonce, aad, text, tag),
            })
        }
        nonce => {
            let mut stream = stream(key.hazmat_seal_stream_any_nonce(nonce.bytes(), aad));
            places.pieces(jvm, size, |text| seal_piece(&mut stream, text))?;
            places.output.after(size).write(jvm, &stream.finish()[..tag_size])
        }
    }
}

fn seal_piece(stream: &mut SealStream, text: JavaText<'_>) {
    match text {
        JavaText::Separate(input, output) => stream.update(input, output),
        JavaText::InPlace(text) => stream.update_in_place(text),
    }
}

fn open_piece(stream: &mut OpenStream, text: JavaText<'_>) {
    match text {
        JavaText::Separate(input, output) => stream.update(input, output),
        JavaText::InPlace(text) => stream.update_in_place(text),
    }
}

/// Whether the tag was right. If not, the output is zeros.
fn open(
    jvm: Jvm,
    key: &AeadKey,
    nonce: &AnyNonce,
    aad: &[u8],
    places: &Places,
    size: usize,
    tag: &[u8],
) -> Result<bool, Thrown> {
    match nonce {
        AnyNonce::Short(nonce) if size <= COPIED_SIZE_MAX && places.moves() => {
            let mut copy = [0; COPIED_SIZE_MAX];
            let text = &mut copy[..size];
            places.input.read(jvm, text)?;
            let is_right = key.open_in_place(nonce, aad, text, tag).is_ok();
            places.output.write(jvm, text)?;
            wipe(text);
            Ok(is_right)
        }
        AnyNonce::Short(nonce) if size <= PIECE_SIZE || !places.moves() => places.with(jvm, size, 0, |text, _| {
            let opened = match text {
                JavaText::Separate(input, output) => key.open_detached(nonce, aad, input, output, tag),
                JavaText::InPlace(text) => key.open_in_place(nonce, aad, text, tag),
            };
            opened.is_ok()
        }),
        nonce => {
            let mut stream = stream(key.hazmat_open_stream_any_nonce(nonce.bytes(), aad));
            let processed = places.pieces(jvm, size, |text| open_piece(&mut stream, text));
            let is_right = processed.is_ok() && stream.finish(tag).is_ok();
            if !is_right {
                places.output.wipe(jvm, size)?;
            }
            processed.map(|()| is_right)
        }
    }
}

/// A message that is sealed in pieces. Output has whole blocks; the rest is held until the next piece.
struct Sealing {
    stream: SealStream,
    block_size: usize,
    held: Zeroizing<[u8; BLOCK_SIZE]>,
    held_size: usize,
    tag_size: usize,
}

impl Sealing {
    fn new(key: &AeadKey, nonce: &[u8], aad: &[u8], tag_size: usize) -> Self {
        let block_size = if key.algorithm() == AeadAlgorithm::ChaCha20Poly1305 { 1 } else { BLOCK_SIZE };
        let stream = stream(key.hazmat_seal_stream_any_nonce(nonce, aad));
        Self { stream, block_size, held: Zeroizing::new([0; BLOCK_SIZE]), held_size: 0, tag_size }
    }

    /// Bytes that the next piece puts out, without a tag.
    fn emitted(&self, size: usize, is_last: bool) -> usize {
        let total = self.held_size + size;
        if is_last { total } else { total - total % self.block_size }
    }

    /// Processes `size` bytes and returns how many were written. The last piece leaves nothing behind.
    fn update(&mut self, jvm: Jvm, places: &Places, size: usize, is_last: bool) -> Result<usize, Thrown> {
        let emitted = self.emitted(size, is_last);
        let stream = &mut self.stream;
        let (mut read, mut written) = (0, 0);
        if self.held_size > 0 && emitted > 0 {
            read = (BLOCK_SIZE - self.held_size).min(size);
            written = self.held_size + read;
            places.input.read(jvm, &mut self.held[self.held_size..written])?;
            stream.update_in_place(&mut self.held[..written]);
            places.output.write(jvm, &self.held[..written])?;
            self.held_size = 0;
        }
        let rest = Places { input: places.input.after(read), output: places.output.after(written), ..*places };
        rest.pieces(jvm, emitted - written, |text| seal_piece(stream, text))?;
        read += emitted - written;
        let kept = size - read;
        places.input.after(read).read(jvm, &mut self.held[self.held_size..][..kept])?;
        self.held_size += kept;
        Ok(emitted)
    }

    fn finish(self) -> impl AsRef<[u8]> {
        Tag { bytes: self.stream.finish(), size: self.tag_size }
    }
}

/// A tag, cut to its length.
struct Tag {
    bytes: [u8; TAG_SIZE],
    size: usize,
}

impl AsRef<[u8]> for Tag {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.size]
    }
}

/// A message that is opened in pieces: its ciphertext and its tag, which are opened in one pass at the end.
struct OpeningMessage {
    nonce: AnyNonce,
    aad: Vec<u8>,
    received: Buffer,
    tag_size: usize,
}

impl OpeningMessage {
    fn new(nonce: AnyNonce, aad: &[u8], tag_size: usize) -> Self {
        Self { nonce, aad: aad.to_vec(), received: Buffer::default(), tag_size }
    }

    /// Writes the plaintext, which has `size` bytes. Whether the tag was right; if not, the output is zeros.
    fn finish(self, jvm: Jvm, key: &AeadKey, output: JavaBytes, size: usize) -> Result<bool, Thrown> {
        let Self { nonce, aad, received, tag_size } = self;
        if received.size() != size + tag_size {
            output.wipe(jvm, size)?;
            return Ok(false);
        }
        let tail: [u8; TAG_SIZE] = received.tail();
        let tag = &tail[TAG_SIZE - tag_size..];
        match received.segments().next() {
            Some(first) if first.len() >= size => {
                open(jvm, key, &nonce, &aad, &from_native(&first[..size], output), size, tag)
            }
            _ => open_segments(jvm, key, &nonce, &aad, &received, output, size, tag),
        }
    }
}

fn from_native(text: &[u8], output: JavaBytes) -> Places {
    Places { input: JavaBytes::Address(NonNull::from(text).cast()), output, is_in_place: false }
}

/// As [`open`], for a message in several segments.
fn open_segments(
    jvm: Jvm,
    key: &AeadKey,
    nonce: &AnyNonce,
    aad: &[u8],
    received: &Buffer,
    output: JavaBytes,
    size: usize,
    tag: &[u8],
) -> Result<bool, Thrown> {
    let mut stream = stream(key.hazmat_open_stream_any_nonce(nonce.bytes(), aad));
    let mut done = 0;
    let processed = received.segments().try_for_each(|segment| {
        let text = &segment[..segment.len().min(size - done)];
        let places = from_native(text, output.after(done));
        done += text.len();
        places.pieces(jvm, text.len(), |text| open_piece(&mut stream, text))
    });
    let is_right = processed.is_ok() && stream.finish(tag).is_ok();
    if !is_right {
        output.wipe(jvm, size)?;
    }
    processed.map(|()| is_right)
}

/// The state that Java holds for a cipher that is used more than once: its expanded key, and a message in pieces.
#[derive(Default)]
struct CipherSlot {
    key: Option<AeadKey>,
    sealing: Option<Sealing>,
    opening: Option<OpeningMessage>,
}

/// The key that native methods take as `(long slot, int algorithm, byte[] key)`. In a slot it is expanded once, and then kept until
/// `clearAead`; without a slot, which is 0, it is expanded for the call: a cipher that is used once then leaves nothing to the collector.
struct KeyArgument {
    slot: jlong,
    algorithm: jint,
    bytes: jbyteArray,
}

impl KeyArgument {
    fn expand(&self, jvm: Jvm) -> Result<AeadKey, Thrown> {
        let bytes = Zeroizing::new(jvm.bytes(self.bytes)?);
        Ok(AeadKey::new(algorithm(self.algorithm), &bytes).expect("Java checks the length of keys"))
    }

    fn with<R>(&self, jvm: Jvm, body: impl FnOnce(&AeadKey) -> Result<R, Thrown>) -> Result<R, Thrown> {
        if self.slot == 0 {
            return body(&self.expand(jvm)?);
        }
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(self.slot) };
        slot.with(jvm, |slot| {
            if slot.key.is_none() {
                slot.key = Some(self.expand(jvm)?);
            }
            body(slot.key.as_ref().expect("expanded above"))
        })
    }
}

/// `long aeadSlot()`: an empty slot.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_aeadSlot")]
extern "system" fn java_aead_slot(environment: *mut JNIEnv, _class: jclass) -> jlong {
    enter(environment, 0, |_| Ok(give(Exclusive::new(CipherSlot::default()))))
}

/// `void clearAead(long slot)`: wipes key and message.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_clearAead")]
extern "system" fn java_clear_aead(environment: *mut JNIEnv, _class: jclass, slot: jlong) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(slot) };
        slot.with(jvm, |slot| {
            *slot = CipherSlot::default();
            Ok(())
        })
    });
}

/// `void freeAead(long slot)`.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_freeAead")]
extern "system" fn java_free_aead(environment: *mut JNIEnv, _class: jclass, slot: jlong) {
    enter(environment, (), |_| {
        // SAFETY: Java frees an object once, when nothing refers to it.
        unsafe { free::<Exclusive<CipherSlot>>(slot) };
        Ok(())
    });
}

/// `void seal(long slot, int algorithm, byte[] key, byte[] iv, long ivHigh, int ivLow, byte[] aad, int aadSize, int tagSize, Object input,
/// int inputOffset, int size, Object output, int outputOffset, int kinds)`: writes `size` bytes of ciphertext, then the tag.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_seal")]
extern "system" fn java_seal(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    algorithm: jint,
    key: jbyteArray,
    iv: jbyteArray,
    iv_high: jlong,
    iv_low: jint,
    aad: jbyteArray,
    aad_size: jint,
    tag_size: jint,
    input: jobject,
    input_offset: jint,
    text_size: jint,
    output: jobject,
    output_offset: jint,
    kinds: jint,
) {
    enter(environment, (), |jvm| {
        let nonce = AnyNonce::new(jvm, iv, iv_high, iv_low)?;
        let (text_size, tag_size) = (size(text_size), size(tag_size));
        KeyArgument { slot, algorithm, bytes: key }.with(jvm, |key| {
            with_aad(jvm, aad, size(aad_size), |aad| {
                let places =
                    Places::new(jvm, (input, input_offset), (output, output_offset), text_size, tag_size, kinds);
                seal(jvm, key, &nonce, aad, &places, text_size, tag_size)
            })
        })
    });
}

/// `boolean open(…)`, with the arguments of `seal`: `size` bytes of ciphertext are followed by the tag. False for a wrong tag; the
/// output is
/// then zeros.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_open")]
extern "system" fn java_open(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    algorithm: jint,
    key: jbyteArray,
    iv: jbyteArray,
    iv_high: jlong,
    iv_low: jint,
    aad: jbyteArray,
    aad_size: jint,
    tag_size: jint,
    input: jobject,
    input_offset: jint,
    text_size: jint,
    output: jobject,
    output_offset: jint,
    kinds: jint,
) -> jboolean {
    enter(environment, false, |jvm| {
        let nonce = AnyNonce::new(jvm, iv, iv_high, iv_low)?;
        let text_size = size(text_size);
        // Before the output is written to, which may overlap it.
        let mut tag = [0; TAG_SIZE];
        let tag = &mut tag[..size(tag_size)];
        JavaBytes::new(jvm, (input, input_offset), input_is_array(kinds)).after(text_size).read(jvm, tag)?;
        KeyArgument { slot, algorithm, bytes: key }.with(jvm, |key| {
            with_aad(jvm, aad, size(aad_size), |aad| {
                let places = Places::new(jvm, (input, input_offset), (output, output_offset), text_size, 0, kinds);
                open(jvm, key, &nonce, aad, &places, text_size, tag)
            })
        })
    })
}

/// `void begin(long slot, int algorithm, byte[] key, byte[] iv, long ivHigh, int ivLow, byte[] aad, int aadSize, int tagSize,
/// boolean seals)`: begins a message in pieces. A message that was in the slot is discarded.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_begin")]
extern "system" fn java_begin(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    algorithm: jint,
    key: jbyteArray,
    iv: jbyteArray,
    iv_high: jlong,
    iv_low: jint,
    aad: jbyteArray,
    aad_size: jint,
    tag_size: jint,
    seals: jboolean,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(slot) };
        let nonce = AnyNonce::new(jvm, iv, iv_high, iv_low)?;
        slot.with(jvm, |slot| {
            if slot.key.is_none() {
                slot.key = Some(KeyArgument { slot: 0, algorithm, bytes: key }.expand(jvm)?);
            }
            let key = slot.key.as_ref().expect("expanded above");
            (slot.sealing, slot.opening) = (None, None);
            with_aad(jvm, aad, size(aad_size), |aad| {
                if seals {
                    slot.sealing = Some(Sealing::new(key, nonce.bytes(), aad, size(tag_size)));
                } else {
                    slot.opening = Some(OpeningMessage::new(nonce, aad, size(tag_size)));
                }
                Ok(())
            })
        })
    });
}

/// `int sealPiece(long slot, Object input, int inputOffset, int size, Object output, int outputOffset, int room, int kinds, boolean
/// isLast)`:
/// returns how many bytes were written, with the tag after the last piece. Only this object knows how many bytes it holds: `room` is the
/// most that may be written.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_sealPiece")]
extern "system" fn java_seal_piece(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    input: jobject,
    input_offset: jint,
    text_size: jint,
    output: jobject,
    output_offset: jint,
    room: jint,
    kinds: jint,
    is_last: jboolean,
) -> jint {
    enter(environment, 0, |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(slot) };
        let text_size = size(text_size);
        slot.with(jvm, |slot| {
            // Java begins a message before its pieces, and checks that there is room: unless another thread interferes.
            let sealing = slot.sealing.as_mut().ok_or_else(|| jvm.misused())?;
            let most = sealing.emitted(text_size, is_last) + if is_last { sealing.tag_size } else { 0 };
            if most > size(room) {
                return Err(jvm.misused());
            }
            let mut copy = Zeroizing::new(Vec::new());
            let reach = text_size.max(most);
            let places = Places::of_piece(
                jvm,
                ((input, input_offset), (output, output_offset)),
                (text_size, reach),
                kinds,
                sealing.held_size == 0,
                &mut copy,
            )?;
            let written = if is_last {
                let written = sealing.update(jvm, &places, text_size, true)?;
                let tag = slot.sealing.take().ok_or_else(|| jvm.misused())?.finish();
                places.output.after(written).write(jvm, tag.as_ref())?;
                written + tag.as_ref().len()
            } else {
                sealing.update(jvm, &places, text_size, false)?
            };
            Ok(jint::try_from(written).expect("not more than there is room"))
        })
    })
}

/// `void openPiece(long slot, Object input, int inputOffset, int size, int kinds)`: keeps a part of the ciphertext or the tag.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_openPiece")]
extern "system" fn java_open_piece(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    input: jobject,
    input_offset: jint,
    text_size: jint,
    kinds: jint,
) {
    enter(environment, (), |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(slot) };
        let input = JavaBytes::new(jvm, (input, input_offset), input_is_array(kinds));
        slot.with(jvm, |slot| {
            let opening = slot.opening.as_mut().ok_or_else(|| jvm.misused())?;
            opening.received.append(jvm, input, size(text_size))
        })
    });
}

/// `boolean openEnd(long slot, Object output, int outputOffset, int size, int kinds)`: writes the plaintext, which has this size, if the
/// tag was right; otherwise zeros.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_openEnd")]
extern "system" fn java_open_end(
    environment: *mut JNIEnv,
    _class: jclass,
    slot: jlong,
    output: jobject,
    output_offset: jint,
    text_size: jint,
    kinds: jint,
) -> jboolean {
    enter(environment, false, |jvm| {
        // SAFETY: Java keeps the object alive during the call.
        let slot: &Exclusive<CipherSlot> = unsafe { borrow(slot) };
        let output = JavaBytes::new(jvm, (output, output_offset), output_is_array(kinds));
        slot.with(jvm, |slot| {
            let text_size = size(text_size);
            let opening = slot.opening.take().ok_or_else(|| jvm.misused())?;
            let key = slot.key.as_ref().ok_or_else(|| jvm.misused())?;
            opening.finish(jvm, key, output, text_size)
        })
    })
}
