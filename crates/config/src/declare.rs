//! `settings!`, which declares a struct and its settings.

/// Declares a struct whose fields are settings: each with its description, default and accepted values. From this declaration follow the
/// keys of the file, environment variables and `--set`, `config show`, the JSON Schema, and the tables of the documentation.
///
/// ```
/// use leafseal_config::{Section, ms, secs, settings};
/// use std::time::Duration;
///
/// settings! {
///     /// Limits on requests.
///     #[derive(Clone, Debug)]
///     pub struct Requests {
///         /// Maximum number of requests per app.
///         pub app_jobs_max: usize = 8192, in 1..=1 << 24;
///         /// Maximum memory for them.
///         pub app_bytes_max: usize = 3 << 29, bytes in 1..=1 << 40;
///         /// How long a request waits.
///         pub wait: Duration = secs(5), in ms(1)..;
///         /// Whether requests are refused early.
///         pub refuse_early: bool = true;
///         /// Threads that process requests.
///         pub workers: usize = 7 => "one per core", in 1..=4096;
///         /// The order of requests.
///         pub is_fair: bool = true, one of { "fair" => true, "first-come-first-served" => false };
///     }
/// }
/// assert_eq!(Requests::default().app_jobs_max, 8192);
/// assert_eq!(Requests::settings()[0].kind().to_string(), "a whole number from 1 to 16777216");
/// ```
///
/// After the default, a field has one of these, or nothing if its type determines the accepted values ([`Plain`](crate::Plain)):
///
/// - `in RANGE`: a number, or a duration with a minimum;
/// - `bytes in RANGE`: a size;
/// - `one of { "word" => VALUE, … }`: a choice;
/// - `is kind(KIND)`: any other [`Kind`](crate::Kind);
/// - `is section`, `is section("name_")`, `is section("table.")`: a struct with settings of its own, whose names get this prefix; a table
///   has the field's description;
/// - `is internal`: no setting.
///
/// `as "name"` at the end sets a name other than the field's. The struct implements [`Default`] and [`Section`](crate::Section).
///
/// What only a file has, such as lists of tables and keys without a default, is declared as a [`FileTable`](crate::FileTable), and the
/// words of a choice as an enum:
///
/// ```
/// use leafseal_config::{TomlDocument, FileTable, Spanned, settings};
///
/// settings! {
///     /// What happens to other requests.
///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
///     pub enum Other {
///         /// They are refused.
///         Refuse = "refuse",
///         /// They pass.
///         Pass = "pass",
///     }
/// }
///
/// settings! {
///     #[derive(Debug)]
///     pub struct Route: FileTable {
///         /// Pattern of the path.
///         pub path: Spanned<String>;
///         /// Name in logs.
///         pub name: Option<String> => "the path";
///         /// Methods that match; none means all.
///         pub methods: Vec<Spanned<String>> = Vec::new();
///         /// What happens to other requests.
///         pub other: Other = Other::Refuse;
///     }
/// }
///
/// settings! {
///     struct File: FileTable {
///         /// Routes.
///         route: Vec<Spanned<Route>>;
///     }
/// }
/// let document = TomlDocument::parse("[[route]]\nname = 3\n[[route]]\npath = '/'").unwrap();
/// let problems = document.check(&File::shape());
/// assert_eq!(problems[0].to_string(), "1:1: the key route[0].path is missing");
/// assert_eq!(problems[1].to_string(), "2:8: route[0].name must be text in quotation marks");
/// ```
///
/// A field without a default must be in the file unless its type is `Option` or a list of tables; `=> "TEXT"` describes in the
/// documentation what applies without it. `is section` and `is section("name_")` insert the keys of a struct, one
/// [`Section`](crate::Section) or `FileTable` that several tables share. `in` and `as` mean the same as above.
#[macro_export]
macro_rules! settings {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $struct:ident {
            $(
                $(#[doc = $about:literal])*
                $field_vis:vis $field:ident: $type:ty = $default:expr
                $(=> $default_text:literal)?
                $(, in $range:expr)?
                $(, bytes in $bytes:expr)?
                $(, one of { $($word:literal => $value:expr),+ $(,)? })?
                $(, is $mode:ident $(($argument:expr))?)?
                $(, as $key:literal)?
                ;
            )*
        }
    ) => {
        $(#[$attribute])*
        $vis struct $struct {
            $(
                $(#[doc = $about])*
                #[doc = concat!("\n\nDefault: `", stringify!($default), "`.")]
                $field_vis $field: $type,
            )*
        }

        impl ::std::default::Default for $struct {
            fn default() -> Self {
                $struct { $($field: $default),* }
            }
        }

        impl $crate::Section for $struct {
            #[allow(clippy::vec_init_then_push, reason = "a section adds many")]
            fn settings() -> ::std::vec::Vec<$crate::Setting<Self>> {
                let mut all = ::std::vec::Vec::new();
                $(
                    $crate::__setting! {
                        (all, $field, $type, $crate::__name!($field $($key)?), concat!($($about),*), $crate::__text!($($default_text)?))
                        $(in $range)? $(bytes $bytes)? $(words $(($word, $value))+)? $(is $mode $(($argument))?)?
                    }
                )*
                all
            }

            fn tables() -> ::std::vec::Vec<$crate::SettingTable> {
                #[allow(unused_mut, reason = "a struct without sections has no table")]
                let mut all = ::std::vec::Vec::new();
                $($crate::__table!((all, $type, concat!($($about),*)) $(is $mode $(($argument))?)?);)*
                all
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $vis:vis struct $struct:ident: FileTable {
            $(
                $(#[doc = $about:literal])*
                $field_vis:vis $field:ident: $type:ty
                $(= $default:expr)?
                $(=> $default_text:literal)?
                $(, in $range:expr)?
                $(, is $mode:ident $(($argument:expr))?)?
                $(, as $key:literal)?
                ;
            )*
        }
    ) => {
        $(#[$attribute])*
        $vis struct $struct {
            $(
                $(#[doc = $about])*
                $(#[doc = concat!("\n\nDefault: `", stringify!($default), "`.")])?
                $field_vis $field: $type,
            )*
        }

        impl $crate::FileTable for $struct {
            #[allow(clippy::vec_init_then_push, reason = "a section adds many")]
            fn keys() -> ::std::vec::Vec<$crate::KeyShape> {
                let mut all = ::std::vec::Vec::new();
                $(
                    $crate::__key! {
                        (all, $type, $crate::__name!($field $($key)?), concat!($($about),*), $crate::__text!($($default_text)?))
                        $(is $mode $(($argument))?)? $(default $default)? $(, kind <$type as $crate::Bounded>::within($range))?
                    }
                )*
                all
            }

            fn read(table: &$crate::DeTable<'_>, prefix: &str) -> ::std::option::Option<Self> {
                Some($struct {
                    $($field: $crate::__field! {
                        (table, prefix, $type, $crate::__name!($field $($key)?))
                        $(is $mode $(($argument))?)? $(default $default)? $(, kind <$type as $crate::Bounded>::within($range))?
                    },)*
                })
            }
        }
    };
    (
        $(#[$attribute:meta])*
        $vis:vis enum $enum:ident {
            $(
                $(#[doc = $about:literal])*
                $variant:ident = $word:literal
            ),+ $(,)?
        }
    ) => {
        $(#[$attribute])*
        $vis enum $enum {
            $($(#[doc = $about])* $variant,)+
        }

        impl $enum {
            /// The word in files.
            $vis fn as_str(self) -> &'static str {
                match self {
                    $($enum::$variant => $word,)+
                }
            }
        }

        impl $crate::SettingField for $enum {
            fn to_value(&self) -> $crate::SettingValue {
                $crate::SettingValue::Text(self.as_str().to_owned())
            }

            fn from_value(value: $crate::SettingValue) -> Self {
                $crate::value_of(&value, [$(($word, $enum::$variant)),+])
            }
        }

        impl $crate::Plain for $enum {
            const KIND: $crate::Kind = $crate::Kind::Choice(&[$($crate::ChoiceWord { name: $word, about: concat!($($about),*) }),+]);
        }

        impl $crate::FileValue for $enum {
            fn accepted() -> $crate::Accepted {
                $crate::Accepted::Value(<$enum as $crate::Plain>::KIND)
            }

            fn read(found: &$crate::Spanned<$crate::DeValue<'_>>) -> ::std::option::Option<Self> {
                $crate::read_plain(found)
            }

            fn written(&self) -> ::std::option::Option<::std::string::String> {
                Some($crate::write_plain(self))
            }
        }
    };
}

/// The keys of one field of a `FileTable`.
#[doc(hidden)]
#[macro_export]
macro_rules! __key {
    (($all:ident, $type:ty, $($rest:tt)*) is section) => {
        $crate::__key! { ($all, $type, $($rest)*) is section ("") }
    };
    (($all:ident, $type:ty, $($rest:tt)*) is section ($prefix:expr)) => {
        $all.extend($crate::keys_within::<$type>($prefix));
    };
    (($all:ident, $type:ty, $name:expr, $about:expr, $text:expr) $(default $default:expr)?) => {
        $all.push($crate::key::<$type>($name, $about, $crate::__some!($($default)?), $text));
    };
    (($all:ident, $type:ty, $name:expr, $about:expr, $text:expr) default $default:expr, kind $kind:expr) => {
        $all.push($crate::key_of::<$type>($name, $about, $kind, &$default));
    };
}

/// Reads one field of a `FileTable`.
#[doc(hidden)]
#[macro_export]
macro_rules! __field {
    (($table:ident, $prefix:ident, $type:ty, $name:expr) is section) => {
        <$type as $crate::FileTable>::read($table, $prefix)?
    };
    (($table:ident, $prefix:ident, $type:ty, $name:expr) is section ($more:expr)) => {
        <$type as $crate::FileTable>::read($table, &::std::format!("{}{}", $prefix, $more))?
    };
    (($table:ident, $prefix:ident, $type:ty, $name:expr) $(default $default:expr)?) => {
        $crate::field::<$type>($table, $prefix, $name, $crate::__some!($($default)?))?
    };
    (($table:ident, $prefix:ident, $type:ty, $name:expr) default $default:expr, kind $kind:expr) => {
        $crate::field_of::<$type>($table, $prefix, $name, &$kind, $default)?
    };
}

/// A default, if there is one.
#[doc(hidden)]
#[macro_export]
macro_rules! __some {
    () => {
        None
    };
    ($default:expr) => {
        Some($default)
    };
}

/// The name of a setting.
#[doc(hidden)]
#[macro_export]
macro_rules! __name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// The text that replaces a default.
#[doc(hidden)]
#[macro_export]
macro_rules! __text {
    () => {
        None
    };
    ($text:literal) => {
        Some($text)
    };
}

/// Adds the settings of one field to a list.
#[doc(hidden)]
#[macro_export]
macro_rules! __setting {
    (($($field:tt)*) is internal) => {};
    (($($field:tt)*) is section) => {
        $crate::__setting! { ($($field)*) is section ("") }
    };
    (($all:ident, $field:ident, $type:ty, $name:expr, $about:expr, $text:expr) is section ($prefix:expr)) => {
        $all.extend(
            <$type as $crate::Section>::settings()
                .into_iter()
                .map(|inner| inner.within($prefix, |outer: &Self| &outer.$field, |outer: &mut Self| &mut outer.$field)),
        );
    };
    (($all:ident, $field:ident, $type:ty, $name:expr, $about:expr, $text:expr) is kind ($kind:expr)) => {
        $all.push($crate::Setting::new(
            $name,
            $kind,
            $about,
            $text,
            |owner: &Self| $crate::SettingField::to_value(&owner.$field),
            |owner: &mut Self, value| owner.$field = $crate::SettingField::from_value(value),
        ));
    };
    (($all:ident, $field:ident, $type:ty, $name:expr, $about:expr, $text:expr) words $(($word:literal, $value:expr))+) => {
        $all.push($crate::Setting::new(
            $name,
            $crate::Kind::Choice(&[$($crate::ChoiceWord { name: $word, about: "" }),+]),
            $about,
            $text,
            |owner: &Self| $crate::word_of(&owner.$field, &[$(($word, $value)),+]),
            |owner: &mut Self, value| owner.$field = $crate::value_of(&value, [$(($word, $value)),+]),
        ));
    };
    (($all:ident, $field:ident, $type:ty, $($rest:tt)*) in $range:expr) => {
        $crate::__setting! { ($all, $field, $type, $($rest)*) is kind (<$type as $crate::Bounded>::within($range)) }
    };
    (($all:ident, $field:ident, $type:ty, $($rest:tt)*) bytes $range:expr) => {
        $crate::__setting! { ($all, $field, $type, $($rest)*) is kind ($crate::bytes::<$type>($range)) }
    };
    (($all:ident, $field:ident, $type:ty, $($rest:tt)*)) => {
        $crate::__setting! { ($all, $field, $type, $($rest)*) is kind (<$type as $crate::Plain>::KIND) }
    };
}

/// Adds the tables of one field to a list.
#[doc(hidden)]
#[macro_export]
macro_rules! __table {
    (($all:ident, $type:ty, $about:expr) is section) => {
        $all.extend(<$type as $crate::Section>::tables());
    };
    (($all:ident, $type:ty, $about:expr) is section ($prefix:expr)) => {
        $all.extend($crate::SettingTable::of($prefix, $about));
        $all.extend(<$type as $crate::Section>::tables());
    };
    (($($field:tt)*) $($rest:tt)*) => {};
}
