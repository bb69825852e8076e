//! Encodes requests and notifications, each to one Buffer.

use std::ffi::CString;
use std::sync::LazyLock;

use leafseal_protocol::{
    AcceptedScheme, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, Field, FrameLimits,
    InspectOptions, OptionInfo, OptionKind, OptionValue, OwnedOptions, RecordValue, RewrapOptions, Scalar, Surface,
    ValuesResult, Word, WordSet, request,
};
use napi::bindgen_prelude::BufferSlice;
use napi::{Env, ValueType};
use napi_derive::napi;

use crate::decode::{WireAnswer, whole_number};
use crate::fault::{Code, JsFault, Result, fault, invalid_params, of_content};
use crate::js::{Js, string};
use crate::memory::buffer;
use crate::names::{camel_case, query};
use crate::values::{TakenValues, Texts};

/// Maximum bytes of a request's fixed parts with the longest options, reserved in advance.
const FIXED_SIZE: usize = 256;

/// Encodes `encrypt` of an array of values. `contexts` may be undefined.
#[napi(catch_unwind)]
pub fn encode_encrypt<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    values: Js,
    contexts: Js,
) -> Result<BufferSlice<'env>> {
    encode_values(env, ValuesMethod::Encrypt, (id, options), values, contexts)
}

/// Encodes `encrypt` of fields of one size that `content` contains one after another.
#[napi(catch_unwind)]
pub fn encode_encrypt_fields<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    content: &[u8],
    field_size: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let field_size = whole_number(field_size, "fieldSize", 1.0, f64::from(u32::MAX))? as usize;
    if !content.len().is_multiple_of(field_size) {
        let size = content.len();
        return Err(invalid_params(format!("content: {size} bytes are no multiple of fieldSize {field_size}")));
    }
    // Validates UTF-8 of the whole content first, which takes a tenth of the time of validating each field.
    let text = std::str::from_utf8(content).map_err(|error| no_utf8(error.valid_up_to() / field_size))?;
    let count = text.len() / field_size;
    if let Some(index) = (1..count).find(|index| !text.is_char_boundary(index * field_size)) {
        return Err(no_utf8(index - 1));
    }
    let fields = (0..count).map(|index| Scalar::from(&text[index * field_size..][..field_size]));
    options.buffer(env, encoded(ValuesMethod::Encrypt, id, &options, fields, None))
}

/// Encodes `encrypt` or `decrypt` of strings of which the UTF-8 text lies one after another in `content`; `ends` has the end of each.
/// `contexts` may be undefined.
#[napi(catch_unwind)]
pub fn encode_texts<'env>(
    env: &'env Env,
    id: Js,
    method: Js,
    options: Js,
    content: &[u8],
    ends: &[u32],
    contexts: Js,
) -> Result<BufferSlice<'env>> {
    let (id, method, options) = (message_id(id)?, string(method, "method")?, Options::of(options)?);
    // Validates the whole content first, which takes a tenth of the time of validating each string.
    let text = std::str::from_utf8(content).map_err(|_| invalid_params("content: not UTF-8"))?;
    let starts = std::iter::once(&0).chain(ends);
    let slice = |(start, end): (&u32, &u32)| text.get(*start as usize..*end as usize);
    if ends.last().map_or(0, |end| *end as usize) != text.len()
        || starts.clone().zip(ends).any(|at| slice(at).is_none())
    {
        return Err(invalid_params("ends: expected ascending ends of characters, the last one that of content"));
    }
    let texts = (0..ends.len()).map(|index| {
        let start = index.checked_sub(1).map_or(0, |before| ends[before] as usize);
        Scalar::from(&text[start..ends[index] as usize])
    });
    let contexts = optional_texts(contexts, "contexts", options.size_max)?;
    let method = match method.as_str() {
        "encrypt" => ValuesMethod::Encrypt,
        "decrypt" => ValuesMethod::Decrypt,
        _ => return Err(invalid_params("method: expected encrypt or decrypt")),
    };
    options.buffer(env, encoded(method, id, &options, texts, contexts.as_ref()))
}

fn no_utf8(index: usize) -> JsFault {
    invalid_params(format!("content: field {index} is not UTF-8"))
}

/// Encodes `decrypt` of an array of values. `contexts` may be undefined.
#[napi(catch_unwind)]
pub fn encode_decrypt<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    values: Js,
    contexts: Js,
) -> Result<BufferSlice<'env>> {
    encode_values(env, ValuesMethod::Decrypt, (id, options), values, contexts)
}

/// Encodes `decrypt` of the values of an answer without creating JavaScript values.
#[napi(catch_unwind)]
pub fn encode_decrypt_answer<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    answer: &WireAnswer,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let ValuesResult { values, .. } = answer.list()?;
    let scalars = values.iter().collect::<std::result::Result<Vec<_>, _>>();
    let scalars = scalars.map_err(|error| of_content(&error.into()))?;
    options.buffer(env, encoded(ValuesMethod::Decrypt, id, &options, scalars.into_iter(), None))
}

/// Encodes `encrypt_document` of a JSON text.
#[napi(catch_unwind)]
pub fn encode_encrypt_document<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    document: &[u8],
    select: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let select = optional_texts(select, "select", options.size_max)?;
    let select = select.as_ref().map(Texts::all);
    options.bulk(env, document.len(), |out| {
        request::encrypt_document(id, &options.for_encrypt(), select.as_deref(), document, out);
    })
}

/// Encodes `decrypt_document` of a JSON text.
#[napi(catch_unwind)]
pub fn encode_decrypt_document<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    document: &[u8],
    select: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let select = optional_texts(select, "select", options.size_max)?;
    let select = select.as_ref().map(Texts::all);
    options.bulk(env, document.len(), |out| {
        request::decrypt_document(id, &options.for_decrypt(), select.as_deref(), document, out);
    })
}

/// Encodes `encrypt_file`.
#[napi(catch_unwind)]
pub fn encode_encrypt_file<'env>(env: &'env Env, id: Js, options: Js, data: &[u8]) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let file = EncryptFileOptions::of(&options.app, &options.given);
    options.bulk(env, data.len(), |out| request::encrypt_file(id, &file, data, out))
}

/// Encodes `decrypt_file`.
#[napi(catch_unwind)]
pub fn encode_decrypt_file<'env>(env: &'env Env, id: Js, options: Js, data: &[u8]) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let file = DecryptFileOptions::of(&options.app, &options.given);
    options.bulk(env, data.len(), |out| request::decrypt_file(id, &file, data, out))
}

/// Encodes `rewrap` of an array of envelopes. `contexts` may be undefined.
#[napi(catch_unwind)]
pub fn encode_rewrap<'env>(
    env: &'env Env,
    id: Js,
    options: Js,
    envelopes: Js,
    contexts: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let envelopes = Texts::of(envelopes, "values", options.size_max)?;
    let contexts = optional_texts(contexts, "contexts", options.size_max)?;
    let rewrap = options.for_rewrap()?;
    let size = envelopes.size() + contexts.as_ref().map_or(0, Texts::size);
    options.bulk(env, size, |out| {
        let envelopes = envelopes.all().into_iter();
        match &contexts {
            None => request::rewrap(id, &rewrap, envelopes, out),
            Some(contexts) => request::rewrap_bound(id, &rewrap, &contexts.all(), envelopes, out),
        }
    })
}

/// Encodes `inspect` of an array of envelopes. `app`, `context` and `accept` may be undefined.
#[napi(catch_unwind)]
pub fn encode_inspect<'env>(
    env: &'env Env,
    id: Js,
    app: Js,
    envelopes: Js,
    context: Js,
    accept: Js,
) -> Result<BufferSlice<'env>> {
    let id = message_id(id)?;
    let optional = |text: Js, name: &str| match text.kind()? {
        ValueType::Undefined | ValueType::Null => Ok(None),
        _ => string(text, name).map(Some),
    };
    let (app, context, accept) = (optional(app, "app")?, optional(context, "context")?, optional(accept, "accept")?);
    let words = accept.as_deref().map(|words| {
        WordSet::parse(words).ok_or_else(|| {
            let words = AcceptedScheme::WORDS.joined("", ", ", " or ");
            invalid_params(format!("accept: expected {words}, each at most once, separated by commas"))
        })
    });
    let options = InspectOptions {
        app: app.as_deref().unwrap_or_default(),
        context: context.as_deref(),
        accept: words.transpose()?,
        ..InspectOptions::new("")
    };
    let size_max = FrameLimits::default().frame_size_max;
    let envelopes = Texts::of(envelopes, "values", size_max)?;
    let mut out = Vec::new();
    request::inspect_with(id, &options, envelopes.all().into_iter(), &mut out);
    limited(env, out, size_max)
}

/// Encodes a query with the fields that are set in `params`. Others are refused.
#[napi(catch_unwind)]
pub fn encode_query<'env>(env: &'env Env, id: Js, method: Js, params: Js) -> Result<BufferSlice<'env>> {
    let (id, query) = (message_id(id)?, query(&string(method, "method")?)?);
    if params.kind()? != ValueType::Object {
        return Err(invalid_params("params: expected an object"));
    }
    let mut texts = Vec::new();
    for info in query.params.fields {
        let name = camel_case(info.field.as_str());
        let c_name = CString::new(name.as_str()).expect("the name of a field");
        let text = params.property(&c_name)?.map(|text| string(text, &name)).transpose()?;
        if text.is_none() && !info.is_optional {
            return Err(invalid_params(format!("{name}: expected a string")));
        }
        texts.push((info.field, text));
    }
    let fields: Vec<(Field, Option<RecordValue<'_>>)> =
        texts.iter().map(|(field, text)| (*field, text.as_deref().map(RecordValue::Text))).collect();
    let mut out = Vec::new();
    request::given(id, query.method, &fields, &mut out);
    buffer(env, out)
}

/// Encodes `health`.
#[napi(catch_unwind)]
pub fn encode_health<'env>(env: &'env Env, id: Js) -> Result<BufferSlice<'env>> {
    let mut out = Vec::new();
    request::health(message_id(id)?, &mut out);
    buffer(env, out)
}

/// Encodes the notification `cancel` of a request.
#[napi(catch_unwind)]
pub fn encode_cancel<'env>(env: &'env Env, id: Js) -> Result<BufferSlice<'env>> {
    let mut out = Vec::new();
    request::cancel(message_id(id)?, &mut out);
    buffer(env, out)
}

/// An option as JavaScript has it.
struct KnownOption {
    option: OptionInfo,
    name: CString,
}

/// The options of all methods.
static KNOWN: LazyLock<Vec<KnownOption>> = LazyLock::new(|| {
    let mut known: Vec<KnownOption> = Vec::new();
    for option in EncryptOptions::OPTIONS.iter().chain(DecryptOptions::OPTIONS) {
        let is_offered = option.surfaces.contains(&Surface::Clients) || option.field == Field::DeadlineMs;
        if is_offered && known.iter().all(|other| other.option.field != option.field) {
            let name = CString::new(camel_case(option.field.as_str())).expect("the name of an option");
            known.push(KnownOption { option: *option, name });
        }
    }
    known
});

impl KnownOption {
    fn read(&self, value: Js, given: &mut OwnedOptions) -> Result<()> {
        let (field, name) = (self.option.field, self.name.to_string_lossy());
        match self.option.kind {
            OptionKind::Flag => match value.kind()? {
                ValueType::Boolean => given.insert(field, OptionValue::Flag(value.boolean()?)),
                _ => return Err(invalid_params(format!("{name}: expected a boolean"))),
            },
            OptionKind::Number => {
                let number = whole_number(value, &name, 1.0, f64::from(u32::MAX))?;
                given.insert(field, OptionValue::Number(number as u32))
            }
            OptionKind::Text => given.insert(field, OptionValue::Text(&string(value, &name)?)),
            OptionKind::Words(list) => {
                let words = string(value, &name)?;
                if !list.has_set(&words) {
                    let words = list.joined("", ", ", " or ");
                    return Err(invalid_params(format!(
                        "{name}: expected {words}, each at most once, separated by commas"
                    )));
                }
                given.insert(field, OptionValue::Text(&words))
            }
            OptionKind::Word(list) => {
                let word = string(value, &name)?;
                if !list.has(&word) {
                    return Err(invalid_params(format!("{name}: expected {}", list.joined("", ", ", " or "))));
                }
                given.insert(field, OptionValue::Text(&word))
            }
        };
        Ok(())
    }
}

/// The options of a request.
struct Options {
    app: String,
    given: OwnedOptions,
    /// Maximum bytes of the encoded message.
    size_max: usize,
}

impl Options {
    fn of(options: Js) -> Result<Options> {
        if options.kind()? != ValueType::Object {
            return Err(invalid_params("options: expected an object"));
        }
        let size_max = options.property(c"frameSizeMax")?;
        let size_max = size_max.map(|size| whole_number(size, "frameSizeMax", 1.0, f64::from(u32::MAX))).transpose()?;
        let app = options.property(c"app")?.map(|app| string(app, "app")).transpose()?;
        let app = app.ok_or_else(|| invalid_params("app: expected a string"))?;
        let mut given = OwnedOptions::default();
        for known in KNOWN.iter() {
            if let Some(value) = options.property(&known.name)? {
                known.read(value, &mut given)?;
            }
        }
        Ok(Options {
            app,
            given,
            size_max: size_max.map_or(FrameLimits::default().frame_size_max, |size| size as usize),
        })
    }

    fn for_encrypt(&self) -> EncryptOptions<'_> {
        EncryptOptions::of(&self.app, &self.given)
    }

    fn for_decrypt(&self) -> DecryptOptions<'_> {
        DecryptOptions::of(&self.app, &self.given)
    }

    /// The words of an option differ from those of `decrypt`: one that `rewrap` does not have is refused.
    fn for_rewrap(&self) -> Result<RewrapOptions<'_>> {
        let mut rewrap = RewrapOptions::new(&self.app);
        for (field, value) in self.given.iter() {
            let Some(option) = RewrapOptions::OPTIONS.iter().find(|option| option.field == field) else { continue };
            if !rewrap.set(field, value) {
                let words = if let OptionKind::Word(list) = option.kind {
                    list.joined("", ", ", " or ")
                } else {
                    String::new()
                };
                return Err(invalid_params(format!("{}: expected {words}", camel_case(field.as_str()))));
            }
        }
        Ok(rewrap)
    }

    /// Encodes a message with `content_size` bytes of content with `write`. The limit is checked before the content is copied.
    fn bulk<'env>(
        &self,
        env: &'env Env,
        content_size: usize,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<BufferSlice<'env>> {
        if content_size > self.size_max {
            return Err(too_large(content_size, self.size_max));
        }
        let mut out = Vec::with_capacity(FIXED_SIZE + self.app.len() + self.given.texts_size() + content_size);
        write(&mut out);
        self.buffer(env, out)
    }

    fn buffer<'env>(&self, env: &'env Env, message: Vec<u8>) -> Result<BufferSlice<'env>> {
        limited(env, message, self.size_max)
    }
}

fn limited<'env>(env: &'env Env, message: Vec<u8>, size_max: usize) -> Result<BufferSlice<'env>> {
    if message.len() > size_max {
        return Err(too_large(message.len(), size_max));
    }
    buffer(env, message)
}

fn too_large(size: usize, size_max: usize) -> JsFault {
    fault(Code::TooLarge, format!("the request of {size} bytes exceeds the limit of {size_max}"))
}

/// The strings of an array, which `name` names in errors; `None` if it is undefined.
fn optional_texts(array: Js, name: &str, size_max: usize) -> Result<Option<Texts>> {
    match array.kind()? {
        ValueType::Undefined | ValueType::Null => Ok(None),
        _ => Texts::of(array, name, size_max).map(Some),
    }
}

/// The methods of lists of values.
#[derive(Clone, Copy)]
enum ValuesMethod {
    Encrypt,
    Decrypt,
}

/// Encodes a method of an array of values; `contexts` may be undefined.
fn encode_values<'env>(
    env: &'env Env,
    method: ValuesMethod,
    (id, options): (Js, Js),
    values: Js,
    contexts: Js,
) -> Result<BufferSlice<'env>> {
    let (id, options) = (message_id(id)?, Options::of(options)?);
    let taken = TakenValues::of(values, options.size_max)?;
    let contexts = optional_texts(contexts, "contexts", options.size_max)?;
    options.buffer(env, encoded(method, id, &options, taken.scalars(), contexts.as_ref()))
}

/// Encodes values, with a context each or without, into a buffer that is large enough from the start.
fn encoded<'v, V>(method: ValuesMethod, id: u32, options: &Options, values: V, contexts: Option<&Texts>) -> Vec<u8>
where
    V: ExactSizeIterator<Item = Scalar<'v>> + Clone,
{
    /// Maximum bytes of a value's head, and of a value that is not a string.
    const BESIDE_TEXT: usize = 9;
    let size = |value: Scalar<'_>| match value {
        Scalar::Str(text) => text.as_bytes().len() + BESIDE_TEXT,
        _ => BESIDE_TEXT,
    };
    let words = options.app.len() + options.given.texts_size() + contexts.map_or(0, Texts::size);
    let mut out = Vec::with_capacity(FIXED_SIZE + words + values.clone().map(size).sum::<usize>());
    match (method, contexts.map(Texts::all)) {
        (ValuesMethod::Encrypt, None) => request::encrypt(id, &options.for_encrypt(), values, &mut out),
        (ValuesMethod::Encrypt, Some(contexts)) => {
            request::encrypt_bound(id, &options.for_encrypt(), &contexts, values, &mut out);
        }
        (ValuesMethod::Decrypt, None) => request::decrypt(id, &options.for_decrypt(), values, &mut out),
        (ValuesMethod::Decrypt, Some(contexts)) => {
            request::decrypt_bound(id, &options.for_decrypt(), &contexts, values, &mut out);
        }
    }
    out
}

fn message_id(id: Js) -> Result<u32> {
    whole_number(id, "id", 0.0, f64::from(u32::MAX)).map(|id| id as u32)
}
