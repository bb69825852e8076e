//! Encodes the client's side: requests of every method and the notification `cancel`, appended to an outgoing buffer.
//!
//! Bulk values come last in their map, which spares the engine a pass over them.

use crate::field::Field;
use crate::method::CANCEL;
use crate::methods::{HealthParams, InfoParams, Method, QueryParams};
use crate::option::{OptionInfo, OptionScope, OptionValue};
use crate::options::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, InspectOptions, RewrapOptions,
};
use crate::record::{RecordValue, write_map};
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
    begin(id, Method::Encrypt, &of_values(options.values(), EncryptOptions::OPTIONS), 1, out);
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
    begin(id, Method::Decrypt, &of_values(options.values(), DecryptOptions::OPTIONS), 1, out);
    write_values(values, out);
}

/// `encrypt` of values that are bound each to its own of `contexts`.
///
/// # Panics
/// As [`encrypt`].
pub fn encrypt_bound<'v>(
    id: u32,
    options: &EncryptOptions<'_>,
    contexts: &[&str],
    values: impl ExactSizeIterator<Item = Scalar<'v>>,
    out: &mut Vec<u8>,
) {
    begin(id, Method::Encrypt, &of_values(options.values(), EncryptOptions::OPTIONS), 2, out);
    write_texts(Field::Contexts, contexts, out);
    write_values(values, out);
}

/// `decrypt` of envelopes that are bound each to its own of `contexts`.
///
/// # Panics
/// As [`decrypt`].
pub fn decrypt_bound<'v>(
    id: u32,
    options: &DecryptOptions<'_>,
    contexts: &[&str],
    values: impl ExactSizeIterator<Item = Scalar<'v>>,
    out: &mut Vec<u8>,
) {
    begin(id, Method::Decrypt, &of_values(options.values(), DecryptOptions::OPTIONS), 2, out);
    write_texts(Field::Contexts, contexts, out);
    write_values(values, out);
}

/// `rewrap` of envelopes that are bound each to its own of `contexts`.
///
/// # Panics
/// As [`rewrap`].
pub fn rewrap_bound<'v>(
    id: u32,
    options: &RewrapOptions<'_>,
    contexts: &[&str],
    envelopes: impl ExactSizeIterator<Item = &'v str>,
    out: &mut Vec<u8>,
) {
    begin(id, Method::Rewrap, &options.values(), 2, out);
    write_texts(Field::Contexts, contexts, out);
    write_values(envelopes.map(Scalar::from), out);
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
    begin(id, Method::EncryptDocument, &options.values(), more, out);
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
    begin(id, Method::DecryptDocument, &options.values(), more, out);
    write_document(select, document, out);
}

/// `encrypt_file`.
pub fn encrypt_file(id: u32, options: &EncryptFileOptions<'_>, data: &[u8], out: &mut Vec<u8>) {
    begin(id, Method::EncryptFile, &options.values(), 1, out);
    write_data(data, out);
}

/// `decrypt_file`.
pub fn decrypt_file(id: u32, options: &DecryptFileOptions<'_>, data: &[u8], out: &mut Vec<u8>) {
    begin(id, Method::DecryptFile, &options.values(), 1, out);
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
    begin(id, Method::Rewrap, &options.values(), 1, out);
    write_values(envelopes.map(Scalar::from), out);
}

/// `inspect`: envelopes; with an app they are decrypted to read the fields inside.
///
/// # Panics
/// When `envelopes` yields another number of values than it announced.
pub fn inspect<'v>(id: u32, app: Option<&str>, envelopes: impl ExactSizeIterator<Item = &'v str>, out: &mut Vec<u8>) {
    inspect_with(id, &InspectOptions::new(app.unwrap_or_default()), envelopes, out);
}

/// [`inspect`] with options; without an app in them, envelopes are not decrypted.
///
/// # Panics
/// When `envelopes` yields another number of values than it announced.
pub fn inspect_with<'v>(
    id: u32,
    options: &InspectOptions<'_>,
    envelopes: impl ExactSizeIterator<Item = &'v str>,
    out: &mut Vec<u8>,
) {
    begin(id, Method::Inspect, of_inspection(options).as_ref(), 1, out);
    write_values(envelopes.map(Scalar::from), out);
}

/// [`inspect_with`] for envelopes that are bound each to its own of `contexts`.
///
/// # Panics
/// As [`inspect_with`].
pub fn inspect_bound<'v>(
    id: u32,
    options: &InspectOptions<'_>,
    contexts: &[&str],
    envelopes: impl ExactSizeIterator<Item = &'v str>,
    out: &mut Vec<u8>,
) {
    begin(id, Method::Inspect, of_inspection(options).as_ref(), 2, out);
    write_texts(Field::Contexts, contexts, out);
    write_values(envelopes.map(Scalar::from), out);
}

/// A query: a method without values of users.
pub fn query<P: QueryParams>(id: u32, params: &P, out: &mut Vec<u8>) {
    begin_params(id, P::METHOD.as_str(), out);
    params.write(out);
}

/// The request of a method with the fields that have a value, for callers that have parameters by name.
pub fn given(id: u32, method: &str, fields: &[(Field, Option<RecordValue<'_>>)], out: &mut Vec<u8>) {
    begin_params(id, method, out);
    write_map(fields, out);
}

/// `health`.
pub fn health(id: u32, out: &mut Vec<u8>) {
    query(id, &HealthParams {}, out);
}

/// `info`.
pub fn info(id: u32, out: &mut Vec<u8>) {
    query(id, &InfoParams {}, out);
}

/// The notification `cancel` for the request `id`.
pub fn cancel(id: u32, out: &mut Vec<u8>) {
    write::array_header(3, out);
    write::unsigned(2, out);
    write::string(CANCEL, out);
    write::array_header(1, out);
    write::unsigned(u64::from(id), out);
}

/// Writes the request up to its map of parameters.
pub(crate) fn begin_params(id: u32, method: &str, out: &mut Vec<u8>) {
    write::array_header(4, out);
    write::unsigned(0, out);
    write::unsigned(u64::from(id), out);
    write::string(method, out);
    write::array_header(1, out);
}

/// Writes the request up to and with the options that have a value; `more` further fields have to follow.
fn begin(id: u32, method: Method, options: &[(Field, Option<OptionValue<'_>>)], more: usize, out: &mut Vec<u8>) {
    begin_params(id, method.as_str(), out);
    let given = options.iter().filter_map(|(field, value)| value.map(|value| (field, value)));
    write::map_header(given.clone().count() + more, out);
    for (field, value) in given {
        write::string(field.as_str(), out);
        match value {
            OptionValue::Text(text) => write::string(text, out),
            OptionValue::Flag(flag) => write::boolean(flag, out),
            OptionValue::Number(number) => write::unsigned(u64::from(number), out),
        }
    }
}

/// Without an app, the field is left out.
fn of_inspection<'a>(options: &InspectOptions<'a>) -> impl AsRef<[(Field, Option<OptionValue<'a>>)]> {
    let mut fields = options.values();
    if options.app.is_empty() {
        fields[0].1 = None;
    }
    fields
}

/// The options of values: those of documents alone are left out.
fn of_values<'a, const N: usize>(
    mut values: [(Field, Option<OptionValue<'a>>); N],
    options: &[OptionInfo],
) -> [(Field, Option<OptionValue<'a>>); N] {
    let is_left_out =
        |field| options.iter().any(|option| option.field == field && option.scope == OptionScope::DocumentsAlone);
    for (_, value) in values.iter_mut().filter(|(field, _)| is_left_out(*field)) {
        *value = None;
    }
    values
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

fn write_texts(field: Field, texts: &[&str], out: &mut Vec<u8>) {
    write::string(field.as_str(), out);
    write::array_header(texts.len(), out);
    texts.iter().for_each(|text| write::string(text, out));
}

fn write_document(select: Option<&[&str]>, document: &[u8], out: &mut Vec<u8>) {
    if let Some(selectors) = select {
        write_texts(Field::Select, selectors, out);
    }
    write::string(Field::Document.as_str(), out);
    write::binary(document, out);
}

fn write_data(data: &[u8], out: &mut Vec<u8>) {
    write::string(Field::Data.as_str(), out);
    write::binary(data, out);
}
