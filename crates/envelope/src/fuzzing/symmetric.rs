//! Properties of symmetric envelopes and files.

use std::sync::{Arc, OnceLock};

use leafseal_crypto::symmetric::{SymmetricKey, SymmetricRoot};

use super::{Counter, TEXT, edited};
use crate::file::{EncryptedFile, FileCheck, FileSealing};
use crate::{
    Binding, BindingPart, Envelope, LongKey, LongOpening, LongText, Marking, Metadata, NoncePrefixes, OpenError,
    OpenScratch, Role, SealScratch, Sealed, SealedInput, SymmetricEnvelope, SymmetricOpening, SymmetricProfile,
    SymmetricSealing, SymmetricVersion, ValueType,
};

/// A fixed key, and what is sealed with it.
struct SymmetricFixture {
    key: Arc<SymmetricKey>,
    binding: Binding,
    /// Without metadata, and with a role.
    envelopes: [Vec<u8>; 2],
    file: Vec<u8>,
}

fn fixture() -> &'static SymmetricFixture {
    static FIXTURE: OnceLock<SymmetricFixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let mut rng = Counter(2);
        let key = Arc::new(SymmetricKey::new(&SymmetricRoot::from_slice(&[0x42; 32]).expect("32 bytes")));
        let binding =
            Binding::context("17").expect("a context").with_path(BindingPart::Path, "$['a']").expect("a path");
        let envelopes = [false, true].map(|has_metadata| envelope(&key, &binding, has_metadata, &mut rng));
        let mut file = Vec::new();
        let mut sealing = FileSealing::begin_symmetric(&key, &binding, TEXT.len(), &mut rng, &mut file);
        sealing.update(TEXT.as_bytes(), &mut file);
        sealing.finish(&mut file);
        SymmetricFixture { key, binding, envelopes, file }
    })
}

fn envelope(key: &Arc<SymmetricKey>, binding: &Binding, has_metadata: bool, rng: &mut Counter) -> Vec<u8> {
    let profile = SymmetricProfile { version: SymmetricVersion::of(has_metadata), marking: Marking::Live };
    let sealing = SymmetricSealing::new(Arc::clone(key), profile, binding, NoncePrefixes::One, rng);
    let role = Role::parse("card").expect("a role");
    let metadata = has_metadata.then(|| Metadata::new(Some(&role), 70, 1_700_000_000));
    let values = [SealedInput { value_type: ValueType::Number, text: TEXT.as_bytes() }];
    let mut out = Vec::new();
    sealing.seal_many(metadata.as_ref(), rng, &values, &mut SealScratch::default(), &mut out, |_, _, _| ());
    out
}

/// `bytes` as they are, and as edits of good envelopes and of a file: nothing panics, and what opens is what was sealed.
pub(super) fn check(bytes: &[u8]) {
    let fixture = fixture();
    check_runs(bytes);
    open_text(fixture, bytes);
    open_file(fixture, bytes);
    for envelope in &fixture.envelopes {
        if let Some(text) = open_text(fixture, &edited(envelope, bytes)) {
            assert_eq!(text, TEXT, "an edited envelope opened to something else");
        }
    }
    if let Some(content) = open_file(fixture, &edited(&fixture.file, bytes)) {
        assert_eq!(content, TEXT.as_bytes(), "an edited file opened to something else");
    }
}

/// Envelopes in a run are parsed as each alone.
fn check_runs(bytes: &[u8]) {
    let fixture = fixture();
    let mut run = Vec::new();
    let texts = [fixture.envelopes[0].clone(), bytes.to_vec(), edited(&fixture.envelopes[0], bytes)];
    for text in &texts {
        let alone = Envelope::parse(text);
        match SymmetricEnvelope::parse_next(text, &mut run) {
            Ok(()) => assert_eq!(alone, Ok(Envelope::Symmetric(run[run.len() - 1]))),
            Err(_) => assert!(!matches!(alone, Ok(Envelope::Symmetric(_))), "a run refuses what is an envelope alone"),
        }
    }
}

fn open_text(fixture: &SymmetricFixture, text: &[u8]) -> Option<String> {
    let Ok(Envelope::Symmetric(envelope)) = Envelope::parse(text) else { return None };
    if envelope.key_id != fixture.key.id() {
        return None;
    }
    let opening = SymmetricOpening::new(&fixture.key, &fixture.binding);
    let opened = opening.open(&envelope, &mut OpenScratch::default()).map(|opened| opened.text.to_owned());
    let mut many = Vec::new();
    opening.open_many(&[envelope; 3], &mut OpenScratch::default(), |_, result| {
        many.push(result.map(|opened| opened.text.to_owned()));
    });
    assert_eq!(many, [opened.clone(), opened.clone(), opened.clone()], "many equals a loop of one");
    for size in [1, 7, usize::MAX] {
        assert_eq!(open_in_pieces(envelope, opening, size), opened, "pieces of {size} equal the whole");
    }
    opened.ok()
}

fn open_in_pieces(
    envelope: SymmetricEnvelope<'_>,
    key: SymmetricOpening<'_>,
    size: usize,
) -> Result<String, OpenError> {
    let envelope = Envelope::Symmetric(envelope);
    let (mut plaintext, mut opening) = (Vec::new(), LongOpening::default());
    while opening.step(LongKey::Symmetric(key), &Sealed::Value(envelope), size, &mut plaintext)?.is_none() {}
    let mut text = LongText::new(&envelope, &plaintext)?;
    while !text.check(&plaintext, size)? {}
    Ok(String::from_utf8(text.text(&plaintext).to_vec()).expect("checked"))
}

fn open_file(fixture: &SymmetricFixture, bytes: &[u8]) -> Option<Vec<u8>> {
    let open = |size: usize| {
        let file = EncryptedFile::parse(bytes).map_err(OpenError::Malformed)?;
        let EncryptedFile::Symmetric(symmetric) = file else { return Err(OpenError::DecryptFailed) };
        if symmetric.key_id != fixture.key.id() {
            return Err(OpenError::DecryptFailed);
        }
        let mut check = FileCheck::default();
        while !check.step(bytes, size).map_err(OpenError::Malformed)? {}
        let (mut content, mut opening) = (Vec::new(), LongOpening::default());
        let key = SymmetricOpening::new(&fixture.key, &fixture.binding);
        while opening.step(LongKey::Symmetric(key), &Sealed::File(file), size, &mut content)?.is_none() {}
        Ok(content)
    };
    let opened = open(usize::MAX);
    assert_eq!(open(3), opened, "pieces equal the whole");
    opened.ok()
}
