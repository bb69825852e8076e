//! The fields of parameters that are not options: the app, lists, documents and files.

use crate::content::{Entries, checked, out_of_range};
use crate::error::ContentError;
use crate::field::Field;
use crate::values::RawValues;

/// The fields of any method that are not options; each method checks which ones it allows.
#[derive(Default)]
pub(crate) struct Payload<'a> {
    pub(crate) app: Option<&'a str>,
    pub(crate) select: Option<RawValues<'a>>,
    values: Option<RawValues<'a>>,
    contexts: Option<RawValues<'a>>,
    pub(crate) document: Option<&'a [u8]>,
    pub(crate) data: Option<&'a [u8]>,
}

impl<'a> Payload<'a> {
    /// Reads the value of an expected field.
    pub(crate) fn read_field(&mut self, entries: &mut Entries<'a>, field: Field) -> Result<(), ContentError> {
        match field {
            Field::App => self.app = entries.optional_string(field)?.map(|app| checked(field, app)).transpose()?,
            Field::Select => self.select = select(entries.optional_values(field)?)?,
            Field::Values => self.values = Some(entries.values(field)?),
            Field::Contexts => self.contexts = entries.optional_values(field)?,
            Field::Document => self.document = Some(entries.bytes(field)?),
            Field::Data => self.data = Some(entries.binary(field)?),
            _ => unreachable!("no method expects {field}"),
        }
        Ok(())
    }

    pub(crate) fn values(&self) -> Result<RawValues<'a>, ContentError> {
        required(self.values, Field::Values)
    }

    /// The contexts of the values, one for each, if they come with them.
    pub(crate) fn contexts(&self, context: Option<&str>) -> Result<Option<RawValues<'a>>, ContentError> {
        let count = self.values()?.count();
        match self.contexts {
            Some(_) if context.is_some() => Err(out_of_range(Field::Contexts, "none beside `context`")),
            Some(contexts) if contexts.count() != count => {
                Err(out_of_range(Field::Contexts, "one context for each of `values`"))
            }
            contexts => Ok(contexts),
        }
    }
}

pub(crate) fn required<T>(value: Option<T>, field: Field) -> Result<T, ContentError> {
    value.ok_or(ContentError::MissingField(field))
}

/// An empty list would select nothing and return the document in the clear, which is never intended.
fn select(selectors: Option<RawValues<'_>>) -> Result<Option<RawValues<'_>>, ContentError> {
    match selectors {
        Some(selectors) if selectors.is_empty() => Err(out_of_range(Field::Select, "at least one selector")),
        other => Ok(other),
    }
}
