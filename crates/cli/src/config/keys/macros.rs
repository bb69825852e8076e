//! Macros for the entries of the table of keys.

/// A number, converted to the setting's own type; the kind's limits ensure that it fits.
macro_rules! number {
    ($name:literal, $kind:expr, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: $kind,
            about: $about,
            default_text: None,
            get: |config| Value::Number(config.$($field).+.try_into().expect("settings fit 64 bits")),
            set: |config, value| config.$($field).+ = value.number().try_into().expect("bounded by its kind"),
        }
    };
}

macro_rules! time {
    ($name:literal, $min_ms:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::Time($min_ms),
            about: $about,
            default_text: None,
            get: |config| Value::Time(config.$($field).+),
            set: |config, value| config.$($field).+ = value.time(),
        }
    };
}

macro_rules! path {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::Path,
            about: $about,
            default_text: None,
            get: |config| Value::Text(config.$($field).+.to_string_lossy().into_owned()),
            set: |config, value| config.$($field).+ = value.text().into(),
        }
    };
}

/// A path, or none.
macro_rules! optional_path {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::OptionalPath,
            about: $about,
            default_text: None,
            get: |config| {
                let path = config.$($field).+.as_deref();
                Value::Text(path.map_or_else(|| "off".to_owned(), |path| path.to_string_lossy().into_owned()))
            },
            set: |config, value| config.$($field).+ = value.optional_path().map(PathBuf::from),
        }
    };
}

/// One of several words, each representing a value.
macro_rules! choice {
    ($name:literal, $($field:ident).+, $about:literal, $($word:literal => $value:expr),+) => {
        Key {
            name: $name,
            kind: Kind::Choice(Cow::Borrowed(&[$($word),+])),
            about: $about,
            default_text: None,
            get: |config| {
                let words = [$(($word, $value)),+];
                let found = words.iter().find(|(_, value)| *value == config.$($field).+);
                Value::Text(found.expect("every value has a word").0.to_owned())
            },
            set: |config, value| {
                let words = [$(($word, $value)),+];
                let found = words.into_iter().find(|(word, _)| *word == value.text());
                config.$($field).+ = found.expect("one of the kind's words").1;
            },
        }
    };
}

/// A Boolean.
macro_rules! flag {
    ($name:literal, $($field:ident).+, $about:literal) => {
        Key {
            name: $name,
            kind: Kind::Flag,
            about: $about,
            default_text: None,
            get: |config| Value::Flag(config.$($field).+),
            set: |config, value| config.$($field).+ = value.flag(),
        }
    };
}
