//! Encodes the client's side: requests of every method and the notification `cancel`, appended to an outgoing buffer.
//!
//! Bulk values come last in their map, which spares the engine a pass over them.

use crate::field::Field;
use crate::method::{CANCEL, Method};
use crate::options::{
    Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, Keying, OnFailure, OtherCase,
    RewrapOptions,
};
use crate::values::Scalar;
use crate::write;

/// `encrypt`: nil, booleans, numbers and strings.
///
/// # Panics
/// When `values` yields another number of values than it announced.
pub fn encrypt<'v>(
    id: u32,
    options: &EncryptOptions<'_>,
    values: impl ExactSizeIterator<Item = Scalar<'v>>,
    out: &mut Vec<u8>,
) {
    Fields::of_encrypt(options).begin(id, Method::Encrypt, 1, out);
    write_values(values, out);
}

/// `decrypt`: envelopes among any scalars.
///
/// # Panics
/// When `values` yields another number of values than it announced.
pub fn decrypt<'v>(
    id: u32,
    options: &DecryptOptions<'_>,
    values: impl ExactSizeIterator<Item = Scalar<'v>>,
    out: &mut Vec<u8>,
) {
    Fields::of_decrypt(options).begin(id, Method::Decrypt, 1, out);
    write_values(values, out);
}

/// `encrypt_document`: `select` holds JSONPath selectors, `None` selects every scalar.
pub fn encrypt_document(
    id: u32,
    options: &EncryptOptions<'_>,
    select: Option<&[&str]>,
    document: &[u8],
    out: &mut Vec<u8>,
) {
    let more = 1 + usize::from(select.is_some());
    let EncryptOptions { other_case, unambiguous, lines, .. } = *options;
    let fields = Fields { other_case, unambiguous, lines, ..Fields::of_encrypt(options) };
    fields.begin(id, Method::EncryptDocument, more, out);
    write_document(select, document, out);
}

/// `decrypt_document`: `select` holds JSONPath selectors, `None` selects every envelope.
pub fn decrypt_document(
    id: u32,
    options: &DecryptOptions<'_>,
    select: Option<&[&str]>,
    document: &[u8],
    out: &mut Vec<u8>,
) {
    let more = 1 + usize::from(select.is_some());
    let DecryptOptions { other_case, lines, .. } = *options;
    Fields { other_case, lines, ..Fields::of_decrypt(options) }.begin(id, Method::DecryptDocument, more, out);
    write_document(select, document, out);
}

/// `encrypt_file`.
pub fn encrypt_file(id: u32, options: &EncryptFileOptions<'_>, data: &[u8], out: &mut Vec<u8>) {
    let EncryptFileOptions { app, curve, deadline_ms } = *options;
    Fields { app: Some(app), curve, deadline_ms, ..Fields::default() }.begin(id, Method::EncryptFile, 1, out);
    write_data(data, out);
}

/// `decrypt_file`.
pub fn decrypt_file(id: u32, options: &DecryptFileOptions<'_>, data: &[u8], out: &mut Vec<u8>) {
    let DecryptFileOptions { app, deadline_ms, key_id } = *options;
    Fields { app: Some(app), deadline_ms, key_id, ..Fields::default() }.begin(id, Method::DecryptFile, 1, out);
    write_data(data, out);
}

/// `rewrap`: envelopes.
///
/// # Panics
/// When `envelopes` yields another number of values than it announced.
pub fn rewrap<'v>(
    id: u32,
    options: &RewrapOptions<'_>,
    envelopes: impl ExactSizeIterator<Item = &'v str>,
    out: &mut Vec<u8>,
) {
    let RewrapOptions { app, curve, deadline_ms, on_failure } = *options;
    Fields { app: Some(app), curve, deadline_ms, on_failure, ..Fields::default() }.begin(id, Method::Rewrap, 1, out);
    write_values(envelopes.map(Scalar::from), out);
}

/// `inspect`: envelopes; with an app they are decrypted to read the fields inside.
///
/// # Panics
/// When `envelopes` yields another number of values than it announced.
pub fn inspect<'v>(id: u32, app: Option<&str>, envelopes: impl ExactSizeIterator<Item = &'v str>, out: &mut Vec<u8>) {
    Fields { app, ..Fields::default() }.begin(id, Method::Inspect, 1, out);
    write_values(envelopes.map(Scalar::from), out);
}

/// `public_keys`.
pub fn public_keys(id: u32, app: &str, out: &mut Vec<u8>) {
    Fields { app: Some(app), ..Fields::default() }.begin(id, Method::PublicKeys, 0, out);
}

/// `authenticate`; `client` names the user of the key.
pub fn authenticate(id: u32, api_key: &str, client: Option<&str>, out: &mut Vec<u8>) {
    Fields { client, ..Fields::default() }.begin(id, Method::Authenticate, 1, out);
    write::string(Field::ApiKey.as_str(), out);
    write::string(api_key, out);
}

/// `health`.
pub fn health(id: u32, out: &mut Vec<u8>) {
    Fields::default().begin(id, Method::Health, 0, out);
}

/// `info`.
pub fn info(id: u32, out: &mut Vec<u8>) {
    Fields::default().begin(id, Method::Info, 0, out);
}

/// The notification `cancel` for the request `id`.
pub fn cancel(id: u32, out: &mut Vec<u8>) {
    write::array_header(3, out);
    write::unsigned(2, out);
    write::string(CANCEL, out);
    write::array_header(1, out);
    write::unsigned(u64::from(id), out);
}

/// The options of any method; those that are `None` are not written.
#[derive(Default)]
struct Fields<'a> {
    app: Option<&'a str>,
    curve: Option<Curve>,
    keying: Option<Keying>,
    role: Option<&'a str>,
    deadline_ms: Option<u32>,
    on_failure: Option<OnFailure>,
    skip_sealed: bool,
    strict: bool,
    lines: bool,
    other_case: Option<OtherCase>,
    unambiguous: bool,
    key_id: Option<&'a str>,
    client: Option<&'a str>,
}

impl<'a> Fields<'a> {
    fn of_encrypt(options: &EncryptOptions<'a>) -> Self {
        let EncryptOptions { app, curve, keying, role, deadline_ms, skip_sealed, strict, .. } = *options;
        Fields { app: Some(app), curve, keying, role, deadline_ms, skip_sealed, strict, ..Fields::default() }
    }

    fn of_decrypt(options: &DecryptOptions<'a>) -> Self {
        let DecryptOptions { app, role, deadline_ms, on_failure, strict, key_id, .. } = *options;
        Fields { app: Some(app), role, deadline_ms, on_failure, strict, key_id, ..Fields::default() }
    }

    /// Writes the request up to and with the options; `more` further fields have to follow.
    fn begin(&self, id: u32, method: Method, more: usize, out: &mut Vec<u8>) {
        write::array_header(4, out);
        write::unsigned(0, out);
        write::unsigned(u64::from(id), out);
        write::string(method.as_str(), out);
        write::array_header(1, out);
        let words = [
            (Field::App, self.app),
            (Field::Curve, self.curve.map(Curve::as_str)),
            (Field::Keying, self.keying.map(Keying::as_str)),
            (Field::Role, self.role),
            (Field::OnFailure, self.on_failure.map(OnFailure::as_str)),
            (Field::OtherCase, self.other_case.map(OtherCase::as_str)),
            (Field::KeyId, self.key_id),
            (Field::Client, self.client),
        ];
        let flags = [
            (Field::SkipSealed, self.skip_sealed),
            (Field::Strict, self.strict),
            (Field::Unambiguous, self.unambiguous),
            (Field::Lines, self.lines),
        ];
        let words_count = words.iter().filter(|(_, word)| word.is_some()).count();
        let flags_count = flags.iter().filter(|(_, is_set)| *is_set).count();
        write::map_header(words_count + flags_count + usize::from(self.deadline_ms.is_some()) + more, out);
        for (field, word) in words {
            if let Some(word) = word {
                write::string(field.as_str(), out);
                write::string(word, out);
            }
        }
        if let Some(deadline_ms) = self.deadline_ms {
            write::string(Field::DeadlineMs.as_str(), out);
            write::unsigned(u64::from(deadline_ms), out);
        }
        for (field, _) in flags.iter().filter(|(_, is_set)| *is_set) {
            write::string(field.as_str(), out);
            write::boolean(true, out);
        }
    }
}

fn write_values<'v>(values: impl ExactSizeIterator<Item = Scalar<'v>>, out: &mut Vec<u8>) {
    let count = values.len();
    write::string(Field::Values.as_str(), out);
    write::array_header(count, out);
    let mut written = 0;
    for value in values {
        write::scalar(&value, out);
        written += 1;
    }
    assert_eq!(written, count, "the iterator yields as many values as it announced");
}

fn write_document(select: Option<&[&str]>, document: &[u8], out: &mut Vec<u8>) {
    if let Some(selectors) = select {
        write::string(Field::Select.as_str(), out);
        write::array_header(selectors.len(), out);
        for selector in selectors {
            write::string(selector, out);
        }
    }
    write::string(Field::Document.as_str(), out);
    write::binary(document, out);
}

fn write_data(data: &[u8], out: &mut Vec<u8>) {
    write::string(Field::Data.as_str(), out);
    write::binary(data, out);
}
