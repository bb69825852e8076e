//! How records are declared: maps of few fields, in the parameters and results of methods. The macro `records!` makes a struct, its
//! encoding and its description from one declaration. `cargo xtask generate` writes the types of clients in other languages from the
//! descriptions.
//!
//! Parameters borrow their texts, which must be in the field's range; results own theirs, whatever a newer engine puts there.

use std::fmt;

use crate::content::{Entries, Unknown, checked, out_of_range};
use crate::error::ContentError;
use crate::field::{Field, FieldSet};
use crate::raw_params::RawParams;
use crate::wire::WireReader;
use crate::words::{Word, WordList};
use crate::write;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Text.
    Text,
    /// One of a few words.
    Word(&'static WordList),
    /// A boolean.
    Flag,
    /// An integer that is not negative.
    Number,
    /// Bytes.
    Bytes,
    /// A list of texts.
    Texts,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordValue<'a> {
    /// Text, or a word.
    Text(&'a str),
    /// A boolean.
    Flag(bool),
    /// An integer that is not negative.
    Number(u64),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A list of texts.
    Texts(Vec<&'a str>),
}

/// The description of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldInfo {
    /// Its name on the wire.
    pub field: Field,
    /// Its type.
    pub kind: FieldKind,
    /// Whether it may be absent.
    pub is_optional: bool,
    about: &'static str,
}

impl FieldInfo {
    pub(crate) const fn new(field: Field, kind: FieldKind, is_optional: bool, about: &'static str) -> Self {
        FieldInfo { field, kind, is_optional, about }
    }

    /// Its meaning, on one line.
    pub fn about(&self) -> String {
        one_line(self.about)
    }

    /// Whether it is a time, in Unix seconds: the names of such fields end in `_at`.
    pub fn is_time(&self) -> bool {
        self.kind == FieldKind::Number && self.field.as_str().ends_with("_at")
    }
}

/// The description of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordInfo {
    /// The name of its type in other languages.
    pub name: &'static str,
    /// The fields in the order in which they are written.
    pub fields: &'static [FieldInfo],
    about: &'static str,
}

impl RecordInfo {
    pub(crate) const fn new(name: &'static str, about: &'static str, fields: &'static [FieldInfo]) -> Self {
        RecordInfo { name, fields, about }
    }

    /// Its meaning, on one line.
    pub fn about(&self) -> String {
        one_line(self.about)
    }
}

/// A text of several lines on one.
pub(crate) fn one_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned()
}

/// A type of Rust that fields have.
pub(crate) trait FieldType<'a>: Sized {
    const KIND: FieldKind;
    const IS_OPTIONAL: bool = false;

    /// The value to write; nothing if it is absent.
    fn value(&self) -> Option<RecordValue<'_>>;

    /// The reverse, for a value of this kind that was read; `None` if it is absent and must not be.
    fn of(value: Option<RecordValue<'a>>) -> Option<Self>;
}

/// Implements [`FieldType`] for a type that converts to and from one case of [`RecordValue`].
macro_rules! field_type {
    ($kind:ty, $case:ident, $value:ident => $to:expr, $from:expr) => {
        impl<'a> FieldType<'a> for $kind {
            const KIND: FieldKind = FieldKind::$case;

            fn value(&self) -> Option<RecordValue<'_>> {
                let $value = self;
                Some(RecordValue::$case($to))
            }

            fn of(value: Option<RecordValue<'a>>) -> Option<Self> {
                if let Some(RecordValue::$case($value)) = value { Some($from) } else { None }
            }
        }
    };
}

field_type!(&'a str, Text, text => text, text);
field_type!(&'a [u8], Bytes, bytes => bytes, bytes);
field_type!(SecretText<'a>, Text, text => text.0, SecretText(text));
field_type!(String, Text, text => text, text.to_owned());
field_type!(bool, Flag, flag => *flag, flag);
field_type!(u64, Number, number => *number, number);
field_type!(Vec<u8>, Bytes, bytes => bytes, bytes.to_vec());
field_type!(Vec<String>, Texts, texts => texts.iter().map(String::as_str).collect(), texts.into_iter().map(str::to_owned).collect());

impl<'a, W: Word> FieldType<'a> for W {
    const KIND: FieldKind = FieldKind::Word(W::WORDS);

    fn value(&self) -> Option<RecordValue<'_>> {
        Some(RecordValue::Text(self.as_str()))
    }

    fn of(value: Option<RecordValue<'a>>) -> Option<Self> {
        if let Some(RecordValue::Text(word)) = value { W::parse(word) } else { None }
    }
}

impl<'a, T: FieldType<'a>> FieldType<'a> for Option<T> {
    const KIND: FieldKind = T::KIND;
    const IS_OPTIONAL: bool = true;

    fn value(&self) -> Option<RecordValue<'_>> {
        self.as_ref().and_then(T::value)
    }

    fn of(value: Option<RecordValue<'a>>) -> Option<Self> {
        Some(value.and_then(|value| T::of(Some(value))))
    }
}

/// A text that must not be shown, such as an API key: it does not print.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretText<'a>(pub &'a str);

impl fmt::Debug for SecretText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// Reads the values of the fields, in their order. Where unknown fields are refused, texts must be in range.
fn read_values<'a>(
    entries: &mut Entries<'a>,
    fields: &[FieldInfo],
) -> Result<Vec<Option<RecordValue<'a>>>, ContentError> {
    let mut values = vec![None; fields.len()];
    while let Some(field) = entries.next_field()? {
        let at = fields.iter().position(|info| info.field == field).expect("only expected fields are returned");
        values[at] = read_value(entries, &fields[at])?;
    }
    Ok(values)
}

/// A value, or nothing where it is nil: clients in many languages write a field left out as nil.
fn read_value<'a>(entries: &mut Entries<'a>, info: &FieldInfo) -> Result<Option<RecordValue<'a>>, ContentError> {
    let field = info.field;
    if entries.skip_nil()? {
        return Ok(None);
    }
    let value = match info.kind {
        FieldKind::Text if entries.unknown() == Unknown::Refuse => {
            RecordValue::Text(checked(field, entries.string(field)?)?)
        }
        FieldKind::Text => RecordValue::Text(entries.string(field)?),
        FieldKind::Word(list) => match entries.string(field)? {
            word if list.words.iter().any(|(known, _)| *known == word) => RecordValue::Text(word),
            _ => return Err(out_of_range(field, "a word that this version knows")),
        },
        FieldKind::Flag => RecordValue::Flag(entries.boolean(field)?),
        FieldKind::Number => RecordValue::Number(entries.unsigned(field)?),
        FieldKind::Bytes => RecordValue::Bytes(entries.binary(field)?),
        FieldKind::Texts => {
            let texts = entries.values(field)?.strings().map(|text| Ok(text?.as_str()));
            RecordValue::Texts(texts.collect::<Result<_, ContentError>>()?)
        }
    };
    Ok(Some(value))
}

fn expected(fields: &[FieldInfo]) -> FieldSet {
    fields.iter().fold(FieldSet::EMPTY, |set, info| set.with(info.field))
}

/// The values of a record at the front of `reader`, which moves behind it.
pub(crate) fn values_of_map<'a>(
    reader: &mut WireReader<'a>,
    fields: &[FieldInfo],
) -> Result<Vec<Option<RecordValue<'a>>>, ContentError> {
    let mut entries = Entries::of_map(*reader, expected(fields), Unknown::Skip)?;
    let values = read_values(&mut entries, fields)?;
    *reader = entries.into_reader();
    Ok(values)
}

/// The values of parameters. Methods without fields take an empty map or, as other MessagePack-RPC clients send it, no parameter at all.
pub(crate) fn values_of_params<'a>(
    params: RawParams<'a>,
    fields: &[FieldInfo],
) -> Result<Vec<Option<RecordValue<'a>>>, ContentError> {
    if params.count() == 0 && fields.is_empty() {
        return Ok(Vec::new());
    }
    read_values(&mut Entries::of_params(params, expected(fields), Unknown::Refuse)?, fields)
}

/// The next of the values, as a field of this type.
pub(crate) fn field_of<'a, T: FieldType<'a>>(
    values: &mut impl Iterator<Item = Option<RecordValue<'a>>>,
    field: Field,
) -> Result<T, ContentError> {
    T::of(values.next().flatten()).ok_or(ContentError::MissingField(field))
}

/// Appends the map of those fields that have a value.
pub(crate) fn write_map(values: &[(Field, Option<RecordValue<'_>>)], out: &mut Vec<u8>) {
    let given = values.iter().filter_map(|(field, value)| value.as_ref().map(|value| (field, value)));
    write::map_header(given.clone().count(), out);
    for (field, value) in given {
        write::string(field.as_str(), out);
        match value {
            RecordValue::Text(text) => write::string(text, out),
            RecordValue::Flag(flag) => write::boolean(*flag, out),
            RecordValue::Number(number) => write::unsigned(*number, out),
            RecordValue::Bytes(bytes) => write::binary(bytes, out),
            RecordValue::Texts(texts) => {
                write::array_header(texts.len(), out);
                texts.iter().for_each(|text| write::string(text, out));
            }
        }
    }
}

/// A map of declared fields.
pub trait WireRecord<'a>: Sized {
    /// Its description.
    const RECORD: &'static RecordInfo;

    /// The record with these values, in the order of the fields.
    ///
    /// # Errors
    /// A missing field.
    fn of(values: impl Iterator<Item = Option<RecordValue<'a>>>) -> Result<Self, ContentError>;

    /// The fields that are written: those with a value.
    fn values(&self) -> Vec<(Field, Option<RecordValue<'_>>)>;

    /// Appends the map.
    fn write(&self, out: &mut Vec<u8>) {
        write_map(&self.values(), out);
    }
}

/// Declares records, of parameters or of results: the name in Rust and, where it differs, in other languages; each field on the wire and
/// in Rust, with its type.
macro_rules! records {
    ($(
        $(#[doc = $what:literal])+
        $role:ident $name:ident $(<$life:lifetime>)? $(= $shown:literal)? {
            $($(#[doc = $about:literal])+ $variant:ident $field:ident: $kind:ty;)*
        }
    )+) => {$(
        $(#[doc = $what])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name $(<$life>)? { $($(#[doc = $about])+ pub $field: $kind,)* }

        impl<'a> WireRecord<'a> for $name $(<$life>)? {
            const RECORD: &'static RecordInfo = &RecordInfo::new(
                [$($shown,)? stringify!($name)][0],
                concat!($($what, "\n"),+),
                &[$(FieldInfo::new(
                    Field::$variant,
                    <$kind as FieldType<'a>>::KIND,
                    <$kind as FieldType<'a>>::IS_OPTIONAL,
                    concat!($($about, "\n"),+),
                )),*],
            );

            #[allow(unused_mut, unused_variables, reason = "a record may have no fields")]
            fn of(mut values: impl Iterator<Item = Option<RecordValue<'a>>>) -> Result<Self, ContentError> {
                Ok($name { $($field: field_of(&mut values, Field::$variant)?,)* })
            }

            fn values(&self) -> Vec<(Field, Option<RecordValue<'_>>)> {
                vec![$((Field::$variant, self.$field.value()),)*]
            }
        }

        crate::record::decoder!($role $name $(<$life>)?);
    )+};
}

macro_rules! decoder {
    (params $name:ident) => {
        decoder!(params $name, $name, '_);
    };
    (params $name:ident <$life:lifetime>) => {
        decoder!(params $name<$life>, $name<$life>, $life);
    };
    (params $name:ident $(<$life:lifetime>)?, $whole:ty, $borrowed:lifetime) => {
        impl $(<$life>)? $whole {
            /// Reads the parameters.
            ///
            /// # Errors
            /// Anything but exactly the method's fields, each at most once, of its type and in its range.
            pub fn decode(params: RawParams<$borrowed>) -> Result<Self, ContentError> {
                Self::of(crate::record::values_of_params(params, Self::RECORD.fields)?.into_iter())
            }
        }
    };
    (result $name:ident) => {
        impl $name {
            /// Reads the result. Unknown fields are ignored.
            ///
            /// # Errors
            /// When it is not a map with all fields that are not optional.
            pub fn decode(result: RawValue<'_>) -> Result<Self, ContentError> {
                Self::read(&mut result.reader())
            }

            pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, ContentError> {
                Self::of(crate::record::values_of_map(reader, Self::RECORD.fields)?.into_iter())
            }
        }

        impl QueryResult for $name {
            const DESCRIPTION: Option<&'static RecordInfo> = Some(<Self as WireRecord<'_>>::RECORD);

            fn decode(result: RawValue<'_>) -> Result<Self, ContentError> {
                $name::decode(result)
            }

            fn encode(&self, out: &mut Vec<u8>) {
                self.write(out);
            }
        }
    };
}

pub(crate) use {decoder, records};
