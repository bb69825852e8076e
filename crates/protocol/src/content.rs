//! Reads maps of named fields, for parameters, results and error objects alike.
//!
//! A field that is the last of its map is taken without skipping over it: the scanner has already proved where it ends. Clients
//! should put the list of values last; then no byte of it is read before its values are used.

use leafseal_errors::Retry;

use crate::error::{ContentError, FieldFault, RemoteError, ShownName};
use crate::field::{Field, FieldSet};
use crate::raw_params::RawParams;
use crate::values::RawValues;
use crate::wire::{ValueHead, WireReader};

/// The fields of an error object.
pub(crate) const ERROR_FIELDS: FieldSet =
    FieldSet::of(&[Field::Code, Field::Message, Field::Retry, Field::Index, Field::Offset, Field::RetryAfterMs]);

/// The action for a field that is not expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// The engine refuses it: an unknown option must not be dropped silently.
    Refuse,
    /// A client passes over it: the engine may be newer.
    Skip,
}

/// Walks the entries of one map. After each [`Entries::next_field`] exactly one of the readers below has to be called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entries<'a> {
    reader: WireReader<'a>,
    left: u32,
    expected: FieldSet,
    seen: FieldSet,
    unknown: Unknown,
}

impl<'a> Entries<'a> {
    pub(crate) fn of_params(params: RawParams<'a>, expected: FieldSet, unknown: Unknown) -> Result<Self, ContentError> {
        if params.count() != 1 {
            return Err(ContentError::ParamsNotOneMap);
        }
        Entries::of_map(params.reader(), expected, unknown).map_err(|error| match error {
            ContentError::NotAMap(_) => ContentError::ParamsNotOneMap,
            other => other,
        })
    }

    pub(crate) fn of_map(
        mut reader: WireReader<'a>,
        expected: FieldSet,
        unknown: Unknown,
    ) -> Result<Self, ContentError> {
        match reader.head()? {
            ValueHead::Map(left) => Ok(Entries { reader, left, expected, seen: FieldSet::EMPTY, unknown }),
            other => Err(ContentError::NotAMap(other.kind())),
        }
    }

    /// The next expected field; the reader is positioned at its value.
    pub(crate) fn next_field(&mut self) -> Result<Option<Field>, ContentError> {
        while self.left > 0 {
            self.left -= 1;
            let name = self.field_name()?;
            match Field::parse(name).filter(|field| self.expected.contains(*field)) {
                Some(field) if self.seen.contains(field) => return Err(ContentError::DuplicateField(field)),
                Some(field) => {
                    self.seen = self.seen.with(field);
                    return Ok(Some(field));
                }
                None if self.unknown == Unknown::Refuse => {
                    return Err(ContentError::UnknownField(ShownName::of(name)));
                }
                None => self.reader.skip(1)?,
            }
        }
        Ok(None)
    }

    /// How fields that are not expected are treated.
    pub(crate) fn unknown(&self) -> Unknown {
        self.unknown
    }

    /// Passes over the value if it is nil. Returns whether it was.
    pub(crate) fn skip_nil(&mut self) -> Result<bool, ContentError> {
        let mut ahead = self.reader;
        let is_nil = ahead.head()? == ValueHead::Nil;
        if is_nil {
            self.reader = ahead;
        }
        Ok(is_nil)
    }

    fn field_name(&mut self) -> Result<&'a [u8], ContentError> {
        match self.reader.head()? {
            ValueHead::String(size) => Ok(self.reader.take(size)?),
            other => Err(ContentError::FieldNameNotString(other.kind())),
        }
    }

    /// Returns the bytes after the map, once its last entry has been read.
    pub(crate) fn into_reader(self) -> WireReader<'a> {
        self.reader
    }

    pub(crate) fn string(&mut self, field: Field) -> Result<&'a str, ContentError> {
        let head = self.reader.head()?;
        let ValueHead::String(size) = head else {
            return Err(wrong_type(field, "a string", head));
        };
        utf8(field, self.reader.take(size)?)
    }

    /// A string, or nothing where the value is nil: clients in many languages write an option left out as nil.
    pub(crate) fn optional_string(&mut self, field: Field) -> Result<Option<&'a str>, ContentError> {
        let head = self.reader.head()?;
        match head {
            ValueHead::Nil => Ok(None),
            ValueHead::String(size) => utf8(field, self.reader.take(size)?).map(Some),
            _ => Err(wrong_type(field, "a string", head)),
        }
    }

    pub(crate) fn unsigned(&mut self, field: Field) -> Result<u64, ContentError> {
        self.optional_unsigned(field)?.ok_or_else(|| wrong_type(field, "an unsigned integer", ValueHead::Nil))
    }

    pub(crate) fn optional_unsigned(&mut self, field: Field) -> Result<Option<u64>, ContentError> {
        let head = self.reader.head()?;
        match head {
            ValueHead::Nil => Ok(None),
            ValueHead::Unsigned(value) => Ok(Some(value)),
            ValueHead::Negative(_) => Err(out_of_range(field, "an unsigned integer")),
            _ => Err(wrong_type(field, "an unsigned integer", head)),
        }
    }

    pub(crate) fn boolean(&mut self, field: Field) -> Result<bool, ContentError> {
        let head = self.reader.head()?;
        match head {
            ValueHead::Boolean(value) => Ok(value),
            _ => Err(wrong_type(field, "a boolean", head)),
        }
    }

    pub(crate) fn optional_boolean(&mut self, field: Field) -> Result<Option<bool>, ContentError> {
        let head = self.reader.head()?;
        match head {
            ValueHead::Nil => Ok(None),
            ValueHead::Boolean(value) => Ok(Some(value)),
            _ => Err(wrong_type(field, "a boolean", head)),
        }
    }

    pub(crate) fn binary(&mut self, field: Field) -> Result<&'a [u8], ContentError> {
        let head = self.reader.head()?;
        let ValueHead::Binary(size) = head else {
            return Err(wrong_type(field, "a binary", head));
        };
        Ok(self.reader.take(size)?)
    }

    /// A binary or a string, as bytes; the caller checks whether they are UTF-8.
    pub(crate) fn bytes(&mut self, field: Field) -> Result<&'a [u8], ContentError> {
        let head = self.reader.head()?;
        let (ValueHead::Binary(size) | ValueHead::String(size)) = head else {
            return Err(wrong_type(field, "a binary or a string", head));
        };
        Ok(self.reader.take(size)?)
    }

    pub(crate) fn values(&mut self, field: Field) -> Result<RawValues<'a>, ContentError> {
        self.optional_values(field)?.ok_or_else(|| wrong_type(field, "an array", ValueHead::Nil))
    }

    pub(crate) fn optional_values(&mut self, field: Field) -> Result<Option<RawValues<'a>>, ContentError> {
        let head = self.reader.head()?;
        match head {
            ValueHead::Nil => Ok(None),
            ValueHead::Array(count) => self.array_content(field, count).map(Some),
            _ => Err(wrong_type(field, "an array", head)),
        }
    }

    fn array_content(&mut self, field: Field, count: u32) -> Result<RawValues<'a>, ContentError> {
        if self.left == 0 {
            return Ok(RawValues::new(field, count, self.reader.take_rest()));
        }
        let from_here = self.reader.rest();
        self.reader.skip(u64::from(count))?;
        let size = from_here.len() - self.reader.rest().len();
        Ok(RawValues::new(field, count, &from_here[..size]))
    }
}

/// Reads an error object. Unknown fields are ignored.
pub(crate) fn remote_error(mut entries: Entries<'_>) -> Result<RemoteError<'_>, ContentError> {
    let (mut code, mut message, mut retry) = (None, "", Retry::Never);
    let (mut index, mut offset, mut retry_after_ms) = (None, None, None);
    while let Some(field) = entries.next_field()? {
        match field {
            Field::Code => code = Some(entries.string(field)?),
            Field::Message => message = entries.string(field)?,
            Field::Retry => retry = Retry::parse(entries.string(field)?).unwrap_or(Retry::Never),
            Field::Index => index = entries.optional_unsigned(field)?,
            Field::Offset => offset = entries.optional_unsigned(field)?,
            Field::RetryAfterMs => retry_after_ms = entries.optional_unsigned(field)?,
            _ => unreachable!("not among the fields of an error object"),
        }
    }
    let code = code.ok_or(ContentError::MissingField(Field::Code))?;
    Ok(RemoteError { code, message, retry, index, offset, retry_after_ms })
}

fn utf8(field: Field, bytes: &[u8]) -> Result<&str, ContentError> {
    std::str::from_utf8(bytes).map_err(|_| ContentError::Field { field, fault: FieldFault::InvalidUtf8 })
}

fn wrong_type(field: Field, expected: &'static str, found: ValueHead) -> ContentError {
    ContentError::Field { field, fault: FieldFault::WrongType { expected, found: found.kind() } }
}

pub(crate) fn out_of_range(field: Field, expected: &'static str) -> ContentError {
    ContentError::Field { field, fault: FieldFault::OutOfRange { expected } }
}

/// Returns the text if it is in the field's range.
pub(crate) fn checked(field: Field, text: &str) -> Result<&str, ContentError> {
    match field.range() {
        Some(range) if !field.has_in_range(text) => Err(out_of_range(field, range)),
        _ => Ok(text),
    }
}
