//! Properties of parsing and opening, for the fuzz target `envelope` and for the replay of its corpus in the tests.

mod symmetric;

use std::sync::OnceLock;

use leafseal_crypto::{CryptoRng, Curve, EcContext, PrivateKey, PublicKey, Recipient, Secret};

use crate::file::{EncryptedFile, FileCheck, FileSealing};
use crate::{
    Envelope, LongKey, LongOpening, LongText, Marking, OpenError, OpenScratch, OpeningKey, Profile, PublicKeyEnvelope,
    SealScratch, Sealed, SealedInput, SealingKey, ValueType,
};

/// A fixed app key on each curve and an envelope and file sealed to it.
struct Fixture {
    private: PrivateKey,
    public: PublicKey,
    envelope: Vec<u8>,
    file: Vec<u8>,
}

const TEXT: &str = "4242424242424242";

fn fixtures() -> &'static (EcContext, [Fixture; 2]) {
    static FIXTURES: OnceLock<(EcContext, [Fixture; 2])> = OnceLock::new();
    FIXTURES.get_or_init(|| {
        let mut rng = Counter(1);
        let ec = EcContext::new(&mut rng);
        let fixtures = Curve::ALL.map(|curve| fixture(&ec, curve, &mut rng));
        (ec, fixtures)
    })
}

fn fixture(ec: &EcContext, curve: Curve, rng: &mut Counter) -> Fixture {
    let private = PrivateKey::from_scalar(curve, Secret::from_bytes(&[0x42; 32])).expect("valid");
    let public = ec.public_key(&private);
    let recipient = Recipient::from(public);
    let key = SealingKey::generate(ec, &recipient, Profile::plain(curve), 1, rng);
    let value = SealedInput { value_type: ValueType::Number, text: TEXT.as_bytes() };
    let mut envelope = Vec::new();
    let mut scratch = SealScratch::default();
    key.seal_many(None, rng, &[value], &mut scratch, &mut envelope, |_, _, _| ()).expect("a fresh key");
    let file = seal_file(ec, &recipient, Marking::Live, TEXT.as_bytes(), 5, rng);
    Fixture { private, public, envelope, file }
}

/// `bytes` as they are, and as edits (position, value) of a good envelope and file: nothing panics, and what opens is what was
/// sealed.
pub fn check_envelope(bytes: &[u8]) {
    symmetric::check(bytes);
    let (ec, fixtures) = fixtures();
    for fixture in fixtures {
        open_text(ec, fixture, bytes);
        open_edited_file(ec, fixture, bytes);
        if let Some(text) = open_text(ec, fixture, &edited(&fixture.envelope, bytes)) {
            assert_eq!(text, TEXT, "an edited envelope opened to something else");
        }
        if let Some(content) = open_edited_file(ec, fixture, &edited(&fixture.file, bytes)) {
            assert_eq!(content, TEXT.as_bytes(), "an edited file opened to something else");
        }
    }
}

fn open_text(ec: &EcContext, fixture: &Fixture, text: &[u8]) -> Option<String> {
    let Ok(Envelope::PublicKey(envelope)) = Envelope::parse(text) else { return None };
    let ephemeral = envelope.ephemeral_key().ok()?;
    if ephemeral.curve() != fixture.public.curve() {
        return None;
    }
    let key = OpeningKey::agree(ec, &fixture.private, &fixture.public, &ephemeral);
    let opened = key.open(&envelope, &mut OpenScratch::default()).map(|opened| opened.text.to_owned());
    let mut many = Vec::new();
    let pair = [envelope, envelope];
    key.open_many(&pair, &mut OpenScratch::default(), |_, result| {
        many.push(result.map(|opened| opened.text.to_owned()))
    });
    assert_eq!(many, [opened.clone(), opened.clone()], "many equals a loop of one");
    for size in [1, 7, usize::MAX] {
        assert_eq!(open_in_pieces(&envelope, &key, size), opened, "pieces of {size} equal the whole");
    }
    opened.ok()
}

/// The encrypted file of `content`, sealed in pieces of `size`.
pub fn seal_file(
    ec: &EcContext,
    recipient: &Recipient,
    marking: Marking,
    content: &[u8],
    size: usize,
    rng: &mut dyn CryptoRng,
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut sealing = FileSealing::begin(ec, recipient, marking, content.len(), rng, &mut file);
    content.chunks(size).for_each(|piece| sealing.update(piece, &mut file));
    sealing.finish(&mut file);
    file
}

/// The content of an encrypted file, checked and opened in pieces of `size`.
pub fn open_file(bytes: &[u8], key: &OpeningKey, size: usize) -> Result<Vec<u8>, OpenError> {
    let file = EncryptedFile::parse(bytes).map_err(OpenError::Malformed)?;
    let mut check = FileCheck::default();
    while !check.step(bytes, size).map_err(OpenError::Malformed)? {}
    let (mut content, mut opening) = (Vec::new(), LongOpening::default());
    while opening.step(LongKey::PublicKey(key), &Sealed::File(file), size, &mut content)?.is_none() {}
    Ok(content)
}

/// The text of an envelope, opened in pieces of `size`.
pub fn open_in_pieces(envelope: &PublicKeyEnvelope<'_>, key: &OpeningKey, size: usize) -> Result<String, OpenError> {
    let envelope = Envelope::PublicKey(*envelope);
    let sealed = Sealed::Value(envelope);
    let (mut plaintext, mut opening) = (Vec::new(), LongOpening::default());
    while opening.step(LongKey::PublicKey(key), &sealed, size, &mut plaintext)?.is_none() {}
    let mut text = LongText::new(&envelope, &plaintext)?;
    while !text.check(&plaintext, size)? {}
    Ok(String::from_utf8(text.text(&plaintext).to_vec()).expect("checked"))
}

fn open_edited_file(ec: &EcContext, fixture: &Fixture, bytes: &[u8]) -> Option<Vec<u8>> {
    let Ok(EncryptedFile::PublicKey(file)) = EncryptedFile::parse(bytes) else { return None };
    let ephemeral = file.ephemeral_key().ok()?;
    if ephemeral.curve() != fixture.public.curve() {
        return None;
    }
    let key = OpeningKey::agree(ec, &fixture.private, &fixture.public, &ephemeral);
    let opened = open_file(bytes, &key, usize::MAX);
    assert_eq!(open_file(bytes, &key, 3), opened, "pieces equal the whole");
    opened.ok()
}

fn edited(original: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for edit in edits.chunks_exact(2) {
        let place = usize::from(edit[0]) % bytes.len();
        bytes[place] = edit[1];
    }
    bytes
}

/// A generator only for fixtures: the same bytes in each run, so that a finding replays. Never a source of keys.
struct Counter(u64);

impl leafseal_crypto::rand_core::TryRng for Counter {
    type Error = std::convert::Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        self.try_next_u64().map(|number| number as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        Ok(self.0)
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        for chunk in bytes.chunks_mut(8) {
            let number = self.try_next_u64()?.to_le_bytes();
            chunk.copy_from_slice(&number[..chunk.len()]);
        }
        Ok(())
    }
}

impl leafseal_crypto::rand_core::TryCryptoRng for Counter {}
