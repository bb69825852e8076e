//! A setting: its name, accepted values and description, and how it is read and written in the struct that has its field.

use std::net::SocketAddr;
use std::ops::{RangeFrom, RangeInclusive};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::{Kind, SettingValue};

type Get<S> = Box<dyn Fn(&S) -> SettingValue + Send + Sync>;
type Setter<S> = Box<dyn Fn(&mut S, SettingValue) + Send + Sync>;

/// A setting in a struct `S`. [`settings!`](crate::settings) declares it.
pub struct Setting<S> {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
    pub(crate) default_text: Option<&'static str>,
    get: Get<S>,
    set: Setter<S>,
}

/// A struct with settings, which [`settings!`](crate::settings) declares.
pub trait Section: Sized + 'static {
    /// Returns the settings, in the order of their declaration.
    fn settings() -> Vec<Setting<Self>>;

    /// Returns the tables of a file that they form, in the same order.
    fn tables() -> Vec<SettingTable>;
}

/// A table of a file: `[name]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingTable {
    /// The name.
    pub name: &'static str,
    /// The purpose, in one or two sentences; may be empty for a further part of a table.
    pub about: &'static str,
}

impl SettingTable {
    /// The table that a prefix of names forms: `engine.`.
    #[doc(hidden)]
    pub fn of(prefix: &'static str, about: &'static str) -> Option<Self> {
        Some(SettingTable { name: prefix.strip_suffix('.')?, about: about.trim_start() })
    }
}

impl<S: 'static> Setting<S> {
    /// Creates a setting. `set` gets values that are valid for `kind`.
    pub fn new(
        name: &str,
        kind: Kind,
        about: &'static str,
        default_text: Option<&'static str>,
        get: impl Fn(&S) -> SettingValue + Send + Sync + 'static,
        set: impl Fn(&mut S, SettingValue) + Send + Sync + 'static,
    ) -> Self {
        Setting {
            name: name.to_owned(),
            kind,
            about: about.trim_start(),
            default_text,
            get: Box::new(get),
            set: Box::new(set),
        }
    }

    /// Returns the setting of a field's struct as one of the struct around it. `prefix` precedes the name. A file has one level of
    /// tables: a name that contains its table already gets no other.
    pub fn within<O: 'static>(
        self,
        prefix: &str,
        inner: impl Fn(&O) -> &S + Send + Sync + 'static,
        inner_mut: impl Fn(&mut O) -> &mut S + Send + Sync + 'static,
    ) -> Setting<O> {
        let Setting { name, kind, about, default_text, get, set } = self;
        let has_table = name.contains('.') && prefix.ends_with('.');
        Setting {
            name: if has_table { name } else { format!("{prefix}{name}") },
            kind,
            about,
            default_text,
            get: Box::new(move |outer| get(inner(outer))),
            set: Box::new(move |outer, value| set(inner_mut(outer), value)),
        }
    }
}

impl<S> Setting<S> {
    /// The name, with its table: `engine.keying`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The table and the name within it.
    pub fn parts(&self) -> (&str, &str) {
        self.name.split_once('.').unwrap_or(("", &self.name))
    }

    /// The accepted values.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The purpose, in one or two sentences.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// Replaces the default in documentation if it differs between machines.
    pub fn default_text(&self) -> Option<&'static str> {
        self.default_text
    }

    /// The value.
    pub fn get(&self, settings: &S) -> SettingValue {
        (self.get)(settings)
    }

    /// Sets the value, which must be valid for [`Setting::kind`].
    pub fn set(&self, settings: &mut S, value: SettingValue) {
        (self.set)(settings, value);
    }

    /// The value as it is written in a file.
    pub fn written(&self, settings: &S) -> String {
        self.kind.write(&self.get(settings))
    }

    /// The value as JSON.
    pub fn json(&self, settings: &S) -> serde_json::Value {
        serde_json::from_str(&self.written(settings)).expect("values are written as JSON")
    }
}

/// A type of fields with settings.
pub trait SettingField: Sized {
    /// The setting's value.
    fn to_value(&self) -> SettingValue;

    /// The field's value; `value` is valid for its kind.
    fn from_value(value: SettingValue) -> Self;
}

/// A type of fields whose accepted values follow from the type.
pub trait Plain: SettingField {
    /// The accepted values.
    const KIND: Kind;
}

/// A type of fields whose accepted values are a range.
pub trait Bounded: SettingField {
    /// The range.
    type Range;

    /// The kind of the values in a range.
    fn within(range: Self::Range) -> Kind;
}

macro_rules! number {
    ($($type:ty),+) => {$(
        impl SettingField for $type {
            fn to_value(&self) -> SettingValue {
                SettingValue::Number((*self).try_into().expect("settings fit 64 bits"))
            }

            fn from_value(value: SettingValue) -> Self {
                value.number().try_into().expect("bounded by its kind")
            }
        }

        impl Bounded for $type {
            type Range = RangeInclusive<$type>;

            fn within(range: Self::Range) -> Kind {
                let bound = |bound: &$type| (*bound).try_into().expect("settings fit 64 bits");
                Kind::Count(bound(range.start()), bound(range.end()))
            }
        }
    )+};
}

number!(u32, u64, usize);

/// The kind of sizes in a range.
#[doc(hidden)]
pub fn bytes<T: Bounded>(range: T::Range) -> Kind {
    match T::within(range) {
        Kind::Count(min, max) => Kind::Size(min, max),
        kind => kind,
    }
}

macro_rules! plain {
    ($($type:ty, $kind:expr, $to:expr, $from:expr;)+) => {$(
        impl SettingField for $type {
            fn to_value(&self) -> SettingValue {
                let to: fn(&$type) -> SettingValue = $to;
                to(self)
            }

            fn from_value(value: SettingValue) -> Self {
                let from: fn(SettingValue) -> $type = $from;
                from(value)
            }
        }

        impl Plain for $type {
            const KIND: Kind = $kind;
        }
    )+};
}

plain! {
    bool, Kind::Flag, |flag| SettingValue::Flag(*flag), |value| value.flag();
    PathBuf, Kind::Path, |path| SettingValue::Text(path.to_string_lossy().into_owned()), |value| value.text().into();
    Option<PathBuf>, Kind::OptionalPath,
        |path| SettingValue::optional_text(path.as_ref().map(|path| path.to_string_lossy().into_owned())),
        |value| value.optional_path().map(PathBuf::from);
    SocketAddr, Kind::Address, |address| SettingValue::Address(*address), |value| value.address();
    Option<SocketAddr>, Kind::OptionalAddress, |address| SettingValue::OptionalAddress(*address), |value| value.optional_address();
    String, Kind::AnyText, |text| SettingValue::Text(text.clone()), |value| value.text().to_owned();
}

impl SettingField for Duration {
    fn to_value(&self) -> SettingValue {
        SettingValue::Time(*self)
    }

    fn from_value(value: SettingValue) -> Self {
        value.time()
    }
}

impl Bounded for Duration {
    type Range = RangeFrom<Duration>;

    fn within(range: Self::Range) -> Kind {
        Kind::Time(range.start.as_millis().try_into().expect("a bound of a duration fits 64 bits"))
    }
}

/// A list of things that are written as texts.
impl<T: FromStr + ToString> SettingField for Vec<T> {
    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.iter().map(ToString::to_string).collect())
    }

    fn from_value(value: SettingValue) -> Self {
        value.list().iter().filter_map(|text| text.parse().ok()).collect()
    }
}

/// The word of a value, for `one of`.
#[doc(hidden)]
pub fn word_of<T: PartialEq>(found: &T, words: &[(&str, T)]) -> SettingValue {
    let word = words.iter().find(|(_, value)| value == found);
    SettingValue::Text(word.expect("every value has a word").0.to_owned())
}

/// The value of a word, for `one of`.
#[doc(hidden)]
pub fn value_of<T, const N: usize>(found: &SettingValue, words: [(&str, T); N]) -> T {
    let value = words.into_iter().find(|(word, _)| *word == found.text());
    value.expect("one of the kind's words").1
}

/// A duration of so many milliseconds.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A duration of so many seconds.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A duration of so many minutes.
pub const fn mins(count: u64) -> Duration {
    secs(60 * count)
}
