//! The configuration language that engine, relay and load tester share: the syntax of values in files, environment variables, flags and
//! scenarios, the declaration of settings ([`settings!`]), and validation of files, with line and column of each problem.
//!
//! A setting is declared once, on its field: name, default, accepted values and description. [`Keys`] derives everything else from the
//! declarations (`docs/decisions/0032-settings.md`). [`FileTable`] is the same for what only a file has: tables with required keys, and
//! lists of them. [`KeyExchange`] is a section that everything that speaks TLS has. Why durations and sizes are parsed here and not by a
//! library: `docs/decisions/0016-configuration.md`.
//! No I/O and no environment.

mod declare;
mod document;
mod duration;
mod file;
mod key_exchange;
mod keys;
mod kind;
mod place;
mod setting;
mod shape;
mod size;

pub use document::TomlDocument;
pub use duration::{DURATION_MAX, parse_duration, write_duration};
pub use file::{FileTable, FileValue, parse_each};
#[doc(hidden)]
pub use file::{field, field_of, key, key_of, keys_within, read_plain, write_plain};
pub use key_exchange::{KeyExchange, KeyExchangeError, KeyExchangeRule, TlsGroup, UnknownGroup};
pub use keys::{Keys, Loaded, SettingOrigin, Sources};
pub use kind::{ChoiceWord, Kind, ListItem, Raw, SettingValue};
pub use place::{Problem, line_column, nearest};
pub use setting::{Bounded, Plain, Section, Setting, SettingField, SettingTable, mins, ms, secs};
#[doc(hidden)]
pub use setting::{bytes, value_of, word_of};
pub use shape::{Accepted, IfAbsent, KeyShape, TableShape};
pub use size::{parse_size, write_size};
pub use toml::Spanned;
#[doc(hidden)]
pub use toml::de::{DeTable, DeValue};
