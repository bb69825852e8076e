//! How options are declared, and read and set by name: the macro `options!` makes a struct, its encoding and its description from one
//! declaration. `cargo xtask generate` writes the options of clients in other languages and tables of pages from the descriptions.

use crate::content::{Entries, checked, out_of_range};
use crate::error::{ContentError, FieldFault};
use crate::field::Field;
use crate::words::{Word, WordList, WordSet};

/// The calls that accept an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionScope {
    /// Values and documents; all calls of a method for files or envelopes.
    Any,
    /// Documents. The engine refuses it for values.
    Documents,
    /// Documents. Not sent with values.
    DocumentsAlone,
}

/// Whether a method needs an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppPresence {
    Required,
    /// Without one the app of the options is empty.
    Optional,
}

/// An interface beside RPC, in which every option exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The clients in Go, Java and TypeScript.
    Clients,
    /// The Python package.
    Python,
    /// The HTTPS API.
    Api,
    /// The command line.
    Cli,
}

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// Text; absent by default.
    Text,
    /// One of a few words; absent by default.
    Word(&'static WordList),
    /// Some of a few words, each once, separated by commas; absent by default.
    Words(&'static WordList),
    /// A boolean; false by default.
    Flag,
    /// A positive number of 32 bits; absent by default.
    Number,
}

/// The value of an option, for interfaces that set options by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue<'a> {
    /// Text, or a word.
    Text(&'a str),
    /// A boolean.
    Flag(bool),
    /// A number.
    Number(u32),
}

/// Options by name with their values, for interfaces that read them by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnedOptions(Vec<(Field, OwnedValue)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedValue {
    Text(String),
    Flag(bool),
    Number(u32),
}

impl OwnedOptions {
    /// Sets an option. Returns whether it was not set before.
    pub fn insert(&mut self, option: Field, value: OptionValue<'_>) -> bool {
        let value = match value {
            OptionValue::Text(text) => OwnedValue::Text(text.to_owned()),
            OptionValue::Flag(flag) => OwnedValue::Flag(flag),
            OptionValue::Number(number) => OwnedValue::Number(number),
        };
        let is_new = self.0.iter().all(|(other, _)| *other != option);
        self.0.retain(|(other, _)| *other != option);
        self.0.push((option, value));
        is_new
    }

    /// The options that are set.
    pub fn iter(&self) -> impl Iterator<Item = (Field, OptionValue<'_>)> {
        self.0.iter().map(|(option, value)| {
            let value = match value {
                OwnedValue::Text(text) => OptionValue::Text(text),
                OwnedValue::Flag(flag) => OptionValue::Flag(*flag),
                OwnedValue::Number(number) => OptionValue::Number(*number),
            };
            (*option, value)
        })
    }

    /// Size of all texts in bytes.
    pub fn texts_size(&self) -> usize {
        self.iter().map(|(_, value)| if let OptionValue::Text(text) = value { text.len() } else { 0 }).sum()
    }
}

/// The description of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its field on the wire.
    pub field: Field,
    /// Its type.
    pub kind: OptionKind,
    /// Which calls accept it.
    pub scope: OptionScope,
    /// The interfaces that offer it beside RPC.
    pub surfaces: &'static [Surface],
    /// Its meaning: a sentence or two, and after an empty line more about it in Markdown.
    pub about: &'static str,
}

impl OptionInfo {
    /// The meaning in short.
    pub fn summary(&self) -> String {
        self.paragraphs().0
    }

    /// The meaning in full, on one line.
    pub fn full(&self) -> String {
        let (summary, details) = self.paragraphs();
        if details.is_empty() { summary } else { details }
    }

    fn paragraphs(&self) -> (String, String) {
        let joined = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join(" ").trim().to_owned();
        let (summary, details) = self.about.split_once("\n\n").unwrap_or((self.about, ""));
        (joined(summary), joined(details))
    }
}

/// A type of Rust that options have.
pub(crate) trait OptionType<'a>: Copy + Sized {
    const KIND: OptionKind;
    const ABSENT: Self;

    /// The encoded value; nothing if it is the default.
    fn value(self) -> Option<OptionValue<'a>>;

    /// The reverse; `None` if the value is of another type or none of the words.
    fn of(value: OptionValue<'a>) -> Option<Self>;

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError>;
}

impl<'a> OptionType<'a> for bool {
    const KIND: OptionKind = OptionKind::Flag;
    const ABSENT: Self = false;

    fn value(self) -> Option<OptionValue<'a>> {
        self.then_some(OptionValue::Flag(true))
    }

    fn of(value: OptionValue<'a>) -> Option<Self> {
        if let OptionValue::Flag(flag) = value { Some(flag) } else { None }
    }

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError> {
        Ok(entries.optional_boolean(field)?.unwrap_or(false))
    }
}

impl<'a> OptionType<'a> for Option<u32> {
    const KIND: OptionKind = OptionKind::Number;
    const ABSENT: Self = None;

    fn value(self) -> Option<OptionValue<'a>> {
        self.map(OptionValue::Number)
    }

    fn of(value: OptionValue<'a>) -> Option<Self> {
        if let OptionValue::Number(number) = value { Some(Some(number)) } else { None }
    }

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError> {
        match entries.optional_unsigned(field)?.map(u32::try_from) {
            None => Ok(None),
            Some(Ok(number)) if number > 0 => Ok(Some(number)),
            Some(_) => Err(out_of_range(field, "1 to 4294967295")),
        }
    }
}

impl<'a> OptionType<'a> for Option<&'a str> {
    const KIND: OptionKind = OptionKind::Text;
    const ABSENT: Self = None;

    fn value(self) -> Option<OptionValue<'a>> {
        self.map(OptionValue::Text)
    }

    fn of(value: OptionValue<'a>) -> Option<Self> {
        if let OptionValue::Text(text) = value { Some(Some(text)) } else { None }
    }

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError> {
        let Some(text) = entries.optional_string(field)? else { return Ok(None) };
        checked(field, text).map(Some)
    }
}

impl<'a, W: Word> OptionType<'a> for Option<W> {
    const KIND: OptionKind = OptionKind::Word(W::WORDS);
    const ABSENT: Self = None;

    fn value(self) -> Option<OptionValue<'a>> {
        self.map(|word| OptionValue::Text(word.as_str()))
    }

    fn of(value: OptionValue<'a>) -> Option<Self> {
        if let OptionValue::Text(word) = value { W::parse(word).map(Some) } else { None }
    }

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError> {
        let Some(word) = entries.optional_string(field)? else { return Ok(None) };
        let fault = FieldFault::NoneOf { words: W::WORDS };
        W::parse(word).map(Some).ok_or(ContentError::Field { field, fault })
    }
}

impl<'a, W: Word> OptionType<'a> for Option<WordSet<'a, W>> {
    const KIND: OptionKind = OptionKind::Words(W::WORDS);
    const ABSENT: Self = None;

    fn value(self) -> Option<OptionValue<'a>> {
        self.map(|set| OptionValue::Text(set.as_str()))
    }

    fn of(value: OptionValue<'a>) -> Option<Self> {
        if let OptionValue::Text(words) = value { WordSet::parse(words).map(Some) } else { None }
    }

    fn read(entries: &mut Entries<'a>, field: Field) -> Result<Self, ContentError> {
        let Some(words) = entries.optional_string(field)? else { return Ok(None) };
        let fault = FieldFault::NotSomeOf { words: W::WORDS };
        WordSet::parse(words).map(Some).ok_or(ContentError::Field { field, fault })
    }
}

/// Declares the options of a method: the field on the wire, the field of Rust with its type, which calls accept it, and the interfaces
/// that offer it.
macro_rules! options {
    ($(#[doc = $what:literal])+ $name:ident {
        $($(#[doc = $about:literal])+ $variant:ident $field:ident: $kind:ty, $scope:ident [$($surface:ident)*];)+
    }) => {
        $(#[doc = $what])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<'a> {
            /// The app whose keys serve the request; 1 to 128 bytes.
            pub app: &'a str,
            $($(#[doc = $about])+ pub $field: $kind),+
        }

        impl<'a> $name<'a> {
            /// The options beside the app, in the order in which they are sent.
            pub const OPTIONS: &'static [OptionInfo] = &[$(OptionInfo {
                field: Field::$variant,
                kind: <$kind as OptionType<'a>>::KIND,
                scope: OptionScope::$scope,
                surfaces: &[$(Surface::$surface),*],
                about: concat!($($about, "\n"),+),
            }),+];

            /// Everything but the app left to the engine.
            pub fn new(app: &'a str) -> Self {
                $name { app, $($field: OptionType::ABSENT),+ }
            }

            /// Sets an option by name. Returns whether there is such an option that can have this value.
            pub fn set(&mut self, option: Field, value: OptionValue<'a>) -> bool {
                match option {
                    $(Field::$variant => OptionType::of(value).map(|value| self.$field = value).is_some(),)+
                    _ => false,
                }
            }

            /// The options for an app that are set in `given`; those of other methods are ignored.
            pub fn of(app: &'a str, given: &'a OwnedOptions) -> Self {
                let mut options = Self::new(app);
                for (option, value) in given.iter() {
                    options.set(option, value);
                }
                options
            }

            /// The encoded fields: the app, and each option that is not the default.
            pub(crate) fn values(&self) -> [(Field, Option<OptionValue<'a>>); 1 + [$(stringify!($field)),+].len()] {
                [(Field::App, Some(OptionValue::Text(self.app))), $((Field::$variant, self.$field.value())),+]
            }

            /// Reads the parameters: these options, the app and the fields of the payload.
            pub(crate) fn read(
                params: RawParams<'a>, is_document: bool, payload: FieldSet, app: AppPresence,
            ) -> Result<(Self, Payload<'a>), ContentError> {
                let accepted = |scope| is_document || scope == OptionScope::Any;
                let mut expected = payload.with(Field::App);
                for option in Self::OPTIONS.iter().filter(|option| accepted(option.scope)) {
                    expected = expected.with(option.field);
                }
                let mut entries = Entries::of_params(params, expected, Unknown::Refuse)?;
                let (mut options, mut payload) = (Self::new(""), Payload::default());
                while let Some(field) = entries.next_field()? {
                    match field {
                        $(Field::$variant => options.$field = OptionType::read(&mut entries, field)?,)+
                        other => payload.read_field(&mut entries, other)?,
                    }
                }
                options.app = match app {
                    AppPresence::Required => required(payload.app, Field::App)?,
                    AppPresence::Optional => payload.app.unwrap_or_default(),
                };
                Ok((options, payload))
            }
        }
    };
}

pub(crate) use options;
