//! Tables of a file as structs: how a field is read, and what it accepts. [`settings!`](crate::settings) implements both traits.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document::TomlDocument;
use crate::keys::Keys;
use crate::shape::{Accepted, IfAbsent, KeyShape, TableShape};
use crate::{Kind, ListItem, Plain, Raw, Section, SettingField};

/// Lists whose items the file's owner validates, each with its place.
const TEXTS: ListItem = ListItem { about: "texts", is_valid: |_| true };

/// A struct that is read from a table of a file.
pub trait FileTable: Sized {
    /// Returns the keys, in the order of their declaration.
    fn keys() -> Vec<KeyShape>;

    /// Reads a table that [`TomlDocument::check`] has found valid. `prefix` precedes the name of each key.
    fn read(table: &DeTable<'_>, prefix: &str) -> Option<Self>;

    /// Reads a file that [`TomlDocument::check`] has found valid.
    fn of(document: &TomlDocument<'_>) -> Option<Self> {
        Self::read(document.root(), "")
    }

    /// Returns the shape of a file whose tables are the fields.
    fn shape() -> TableShape {
        TableShape { keys: Self::keys() }
    }
}

/// A struct of settings is a table in which every key has a default.
impl<S: Section + Default> FileTable for S {
    fn keys() -> Vec<KeyShape> {
        Keys::<S>::default().shape().keys
    }

    fn read(table: &DeTable<'_>, prefix: &str) -> Option<Self> {
        let mut settings = S::default();
        for setting in S::settings() {
            let found = match setting.parts() {
                ("", name) => table.get(&*format!("{prefix}{name}")),
                (inner, name) => table.get(inner).and_then(|inner| inner.get_ref().as_table()?.get(name)),
            };
            if let Some(found) = found {
                setting.set(&mut settings, setting.kind().read(&Raw::of(found.get_ref())).ok()?);
            }
        }
        Some(settings)
    }
}

/// A type of fields of a [`FileTable`].
pub trait FileValue: Sized {
    /// What a file may have.
    fn accepted() -> Accepted;

    /// The field if the file does not have the key; `None` if it must.
    fn absent() -> Option<Self> {
        None
    }

    /// Reads a valid value.
    fn read(found: &Spanned<DeValue<'_>>) -> Option<Self>;

    /// A default as a file would have it.
    fn written(&self) -> Option<String> {
        None
    }
}

impl<T: FileTable> FileValue for T {
    fn accepted() -> Accepted {
        Accepted::Table(T::shape())
    }

    fn absent() -> Option<Self> {
        <T as FileTable>::read(&DeTable::new(), "")
    }

    fn read(found: &Spanned<DeValue<'_>>) -> Option<Self> {
        <T as FileTable>::read(found.get_ref().as_table()?, "")
    }
}

/// A value with its place in the file.
impl<T: FileValue> FileValue for Spanned<T> {
    fn accepted() -> Accepted {
        T::accepted()
    }

    fn read(found: &Spanned<DeValue<'_>>) -> Option<Self> {
        Some(Spanned::new(found.span(), T::read(found)?))
    }

    fn written(&self) -> Option<String> {
        self.get_ref().written()
    }
}

impl<T: FileValue> FileValue for Option<T> {
    fn accepted() -> Accepted {
        T::accepted()
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn read(found: &Spanned<DeValue<'_>>) -> Option<Self> {
        T::read(found).map(Some)
    }
}

/// A list of texts or of tables.
impl<T: FileValue> FileValue for Vec<T> {
    fn accepted() -> Accepted {
        match T::accepted() {
            Accepted::Table(table) | Accepted::Tables(table) => Accepted::Tables(table),
            Accepted::Value(_) => Accepted::Value(Kind::List(TEXTS)),
        }
    }

    /// Nothing to have is an empty list of tables; a list of texts that may be absent has a default.
    fn absent() -> Option<Self> {
        T::accepted().table().map(|_| Vec::new())
    }

    fn read(found: &Spanned<DeValue<'_>>) -> Option<Self> {
        found.get_ref().as_array()?.iter().map(T::read).collect()
    }

    fn written(&self) -> Option<String> {
        let items: Option<Vec<String>> = self.iter().map(T::written).collect();
        Some(format!("[{}]", items?.join(", ")))
    }
}

macro_rules! plain_values {
    ($($type:ty),+) => {$(
        impl FileValue for $type {
            fn accepted() -> Accepted {
                Accepted::Value(<$type as Plain>::KIND)
            }

            fn read(found: &Spanned<DeValue<'_>>) -> Option<Self> {
                read_plain(found)
            }

            fn written(&self) -> Option<String> {
                Some(write_plain(self))
            }
        }
    )+};
}

plain_values!(bool, PathBuf, SocketAddr, String);

/// Parses each text of a list. `report` gets the place and fault of each that `parse` refuses; `what` names the text in it.
pub fn parse_each<T, E: Display>(
    texts: &[Spanned<String>],
    what: &str,
    parse: impl Fn(&str) -> Result<T, E>,
    report: &mut impl FnMut(usize, String),
) -> Vec<T> {
    let mut parsed = Vec::with_capacity(texts.len());
    for text in texts {
        match parse(text.get_ref()) {
            Ok(value) => parsed.push(value),
            Err(error) => report(text.span().start, format!("{what} {:?}: {error}", text.get_ref())),
        }
    }
    parsed
}

/// Reads a value whose type determines what is accepted.
#[doc(hidden)]
pub fn read_plain<T: Plain>(found: &Spanned<DeValue<'_>>) -> Option<T> {
    T::KIND.read(&Raw::of(found.get_ref())).ok().map(T::from_value)
}

/// Writes such a value.
#[doc(hidden)]
pub fn write_plain<T: Plain>(value: &T) -> String {
    T::KIND.write(&value.to_value())
}

/// Describes a key, for `settings!`. Without a default its type says whether it must be there.
#[doc(hidden)]
pub fn key<T: FileValue>(name: &str, about: &'static str, default: Option<T>, text: Option<&'static str>) -> KeyShape {
    let absent = match default {
        Some(default) => IfAbsent::Default { written: default.written().expect("defaults are values"), text },
        None if T::absent().is_none() => IfAbsent::Error,
        None => IfAbsent::NoValue { text },
    };
    KeyShape { name: name.to_owned(), about: about.trim_start(), accepts: T::accepted(), absent }
}

/// Describes a key with a kind and a default of its own.
#[doc(hidden)]
pub fn key_of<T: SettingField>(name: &str, about: &'static str, kind: Kind, default: &T) -> KeyShape {
    let absent = IfAbsent::Default { written: kind.write(&default.to_value()), text: None };
    KeyShape { name: name.to_owned(), about: about.trim_start(), accepts: Accepted::Value(kind), absent }
}

/// Reads a key, for `settings!`.
#[doc(hidden)]
pub fn field<T: FileValue>(table: &DeTable<'_>, prefix: &str, name: &str, default: Option<T>) -> Option<T> {
    match table.get(&*format!("{prefix}{name}")) {
        Some(found) => T::read(found),
        None => default.or_else(T::absent),
    }
}

/// Reads a key of a kind of its own.
#[doc(hidden)]
pub fn field_of<T: SettingField>(table: &DeTable<'_>, prefix: &str, name: &str, kind: &Kind, default: T) -> Option<T> {
    match table.get(&*format!("{prefix}{name}")) {
        Some(found) => kind.read(&Raw::of(found.get_ref())).ok().map(T::from_value),
        None => Some(default),
    }
}

/// The keys of a struct within another, whose names get a prefix.
#[doc(hidden)]
pub fn keys_within<T: FileTable>(prefix: &str) -> impl Iterator<Item = KeyShape> {
    T::keys().into_iter().map(move |key| KeyShape { name: format!("{prefix}{}", key.name), ..key })
}
