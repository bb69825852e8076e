//! How methods are declared. A *query* is a method that carries no values of users; its parameters and its result are records. The macro
//! `methods!` makes the names of all methods and, of queries, the parameters, their encoding and descriptions.

use crate::error::ContentError;
use crate::field::Field;
use crate::message::RawValue;
use crate::record::{RecordInfo, RecordValue, one_line, values_of_map};
use crate::values::RawValues;
use crate::wire::ValueHead;
use crate::write;

/// Declares the methods: those of values, and the queries with their parameters and results.
macro_rules! methods {
    (
        values { $($(#[doc = $what:literal])+ $variant:ident $name:literal;)+ }
        queries { $(
            $(#[doc = $about:literal])+
            $query:ident $query_name:literal ($params:ident $(<$life:lifetime>)?)
                -> $result:ident $(. $alone:ident)? $(, for $audience:ident)?;
        )+ }
    ) => {
        /// The methods that a client can call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $($(#[doc = $what])+ $variant,)+
            $($(#[doc = $about])+ $query),+
        }

        impl Method {
            /// Every method.
            pub const ALL: &'static [Method] = &[$(Method::$variant,)+ $(Method::$query),+];

            /// The name on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $(Method::$variant => $name,)+ $(Method::$query => $query_name),+ }
            }

            /// The reverse of [`Method::as_str`].
            pub fn parse(name: &str) -> Option<Method> {
                match name { $($name => Some(Method::$variant),)+ $($query_name => Some(Method::$query),)+ _ => None }
            }
        }

        /// The parameters of a query.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Query<'a> {
            $($(#[doc = $about])+ $query($params $(<$life>)?)),+
        }

        impl<'a> Query<'a> {
            /// The descriptions of all queries.
            pub const ALL: &'static [QueryInfo] = &[$(QueryInfo::new(
                $query_name,
                concat!($($about, "\n"),+),
                <$params as WireRecord<'a>>::RECORD,
                <$result as QueryResult>::DESCRIPTION,
                [$(stringify!($alone),)? ""][0].is_empty(),
                !matches!([$(stringify!($audience),)? ""][0].as_bytes(), b"operators"),
            )),+];

            /// Reads the parameters of a method; nothing if it is no query.
            ///
            /// # Errors
            /// Anything but exactly the method's fields, each at most once, of its type and in its range.
            pub fn decode(method: Method, params: RawParams<'a>) -> Result<Option<Query<'a>>, ContentError> {
                Ok(match method {
                    $(Method::$query => Some(Query::$query($params::decode(params)?)),)+
                    _ => None,
                })
            }

            /// The method.
            pub fn method(&self) -> Method {
                match self { $(Query::$query(_) => Method::$query),+ }
            }

            /// Appends the map of parameters.
            pub fn write(&self, out: &mut Vec<u8>) {
                match self { $(Query::$query(params) => WireRecord::write(params, out)),+ }
            }

            /// Reads a result as that of this method, and appends it; nothing if the method is no query.
            pub(crate) fn rewrite_result(
                method: Method, result: RawValue<'_>, out: &mut Vec<u8>,
            ) -> Result<(), ContentError> {
                match method {
                    $(Method::$query => <$result>::decode(result)?.encode(out),)+
                    _ => {}
                }
                Ok(())
            }
        }

        $(impl$(<$life>)? QueryParams for $params $(<$life>)? {
            const METHOD: Method = Method::$query;
            type Result = $result;

            fn write(&self, out: &mut Vec<u8>) {
                WireRecord::write(self, out);
            }
        })+
    };
}

pub(crate) use methods;

/// The result of a query.
pub trait QueryResult: Sized {
    /// Its description; none if it is a map of texts by any names.
    const DESCRIPTION: Option<&'static RecordInfo>;

    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map with all fields that are not optional.
    fn decode(result: RawValue<'_>) -> Result<Self, ContentError>;

    /// Appends the result.
    fn encode(&self, out: &mut Vec<u8>);
}

/// What clients return for a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultShape {
    /// The record.
    Record(&'static RecordInfo),
    /// The only field of the record.
    Field(&'static RecordInfo),
    /// Texts by name.
    Facts,
}

/// The description of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryInfo {
    /// The name of the method on the wire.
    pub method: &'static str,
    /// Its parameters.
    pub params: &'static RecordInfo,
    /// Its result.
    pub result: ResultShape,
    /// Whether clients of every language offer it: not if it is for operators, who use the command line.
    pub is_for_clients: bool,
    about: &'static str,
}

impl QueryInfo {
    pub(crate) const fn new(
        method: &'static str,
        about: &'static str,
        params: &'static RecordInfo,
        result: Option<&'static RecordInfo>,
        is_record: bool,
        is_for_clients: bool,
    ) -> Self {
        let result = match result {
            None => ResultShape::Facts,
            Some(record) if is_record => ResultShape::Record(record),
            Some(record) => {
                assert!(record.fields.len() == 1, "clients return the field of a record that has one field");
                ResultShape::Field(record)
            }
        };
        QueryInfo { method, params, result, is_for_clients, about }
    }

    /// Its meaning in short: a sentence.
    pub fn summary(&self) -> String {
        one_line(self.about.split("\n\n").next().unwrap_or_default())
    }

    /// Its meaning in full, in Markdown: paragraphs.
    pub fn full(&self) -> Vec<String> {
        let mut paragraphs: Vec<String> = self.about.split("\n\n").map(one_line).collect();
        if paragraphs.len() > 1 {
            paragraphs.remove(0);
        }
        paragraphs
    }

    /// Reads a result without knowing its type: the fields in their order.
    ///
    /// # Errors
    /// As [`QueryResult::decode`].
    pub fn values<'r>(record: &RecordInfo, result: RawValue<'r>) -> Result<Vec<Option<RecordValue<'r>>>, ContentError> {
        let values = values_of_map(&mut result.reader(), record.fields)?;
        for (info, value) in record.fields.iter().zip(&values) {
            if value.is_none() && !info.is_optional {
                return Err(ContentError::MissingField(info.field));
            }
        }
        Ok(values)
    }
}

/// Result of `info`: properties of the engine by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoResult {
    /// Names and texts, in the order of the engine.
    pub facts: Vec<(String, String)>,
}

impl InfoResult {
    /// Reads the result.
    ///
    /// # Errors
    /// When it is not a map of strings.
    pub fn decode(result: RawValue<'_>) -> Result<Self, ContentError> {
        let mut reader = result.reader();
        let pairs = match reader.head()? {
            ValueHead::Map(pairs) => pairs,
            other => return Err(ContentError::NotAMap(other.kind())),
        };
        let count = pairs.checked_mul(2).ok_or(ContentError::Malformed)?;
        let mut strings = RawValues::new(Field::Values, count, reader.rest()).strings();
        let mut facts = Vec::new();
        while let Some(name) = strings.next() {
            let text = strings.next().ok_or(ContentError::Malformed)?;
            facts.push((name?.as_str().to_owned(), text?.as_str().to_owned()));
        }
        Ok(InfoResult { facts })
    }
}

impl QueryResult for InfoResult {
    const DESCRIPTION: Option<&'static RecordInfo> = None;

    fn decode(result: RawValue<'_>) -> Result<Self, ContentError> {
        InfoResult::decode(result)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        write::map_header(self.facts.len(), out);
        for (name, text) in &self.facts {
            write::string(name, out);
            write::string(text, out);
        }
    }
}
