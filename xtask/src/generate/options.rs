//! Shared by the options of all clients in other languages.

use std::fmt::Write;

use leafseal_protocol::{
    Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, InspectOptions, Keying, Method,
    OnFailure, OptionInfo, OptionKind, OptionScope, OtherCase, PathBinding, Reseal, RewrapFailure, RewrapOptions,
    Scheme, Surface, Word, WordList,
};

/// The options that are one of a few words.
pub(super) const WORD_LISTS: [&WordList; 8] = [
    Scheme::WORDS,
    Curve::WORDS,
    Keying::WORDS,
    OnFailure::WORDS,
    RewrapFailure::WORDS,
    OtherCase::WORDS,
    PathBinding::WORDS,
    Reseal::WORDS,
];

/// The methods whose options a client's type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionGroup {
    Encrypt,
    Decrypt,
    Rewrap,
    Inspect,
}

impl OptionGroup {
    /// The options that clients offer.
    pub(super) fn options(self, surface: Surface) -> impl Iterator<Item = &'static OptionInfo> {
        let options = match self {
            OptionGroup::Encrypt => EncryptOptions::OPTIONS,
            OptionGroup::Decrypt => DecryptOptions::OPTIONS,
            OptionGroup::Rewrap => RewrapOptions::OPTIONS,
            OptionGroup::Inspect => InspectOptions::OPTIONS,
        };
        options.iter().filter(move |option| option.surfaces.contains(&surface))
    }

    /// Whether calls for files have the option, too.
    pub(super) fn is_of_files(self, option: &OptionInfo) -> bool {
        let options = match self {
            OptionGroup::Encrypt => EncryptFileOptions::OPTIONS,
            OptionGroup::Decrypt => DecryptFileOptions::OPTIONS,
            OptionGroup::Rewrap | OptionGroup::Inspect => &[],
        };
        options.iter().any(|other| other.field == option.field)
    }

    /// The selection without a selector.
    pub(super) const fn without_selector(self) -> &'static str {
        match self {
            OptionGroup::Encrypt => "every value",
            OptionGroup::Decrypt | OptionGroup::Rewrap | OptionGroup::Inspect => "every envelope",
        }
    }
}

/// The options that a method has. A method of values has none of documents.
pub(super) fn options_of(method: Method) -> impl Iterator<Item = &'static OptionInfo> {
    let (options, is_document) = match method {
        Method::Encrypt => (EncryptOptions::OPTIONS, false),
        Method::EncryptDocument => (EncryptOptions::OPTIONS, true),
        Method::Decrypt => (DecryptOptions::OPTIONS, false),
        Method::DecryptDocument => (DecryptOptions::OPTIONS, true),
        Method::EncryptFile => (EncryptFileOptions::OPTIONS, false),
        Method::DecryptFile => (DecryptFileOptions::OPTIONS, false),
        Method::Rewrap => (RewrapOptions::OPTIONS, false),
        Method::Inspect => (InspectOptions::OPTIONS, false),
        _ => (&[] as &[OptionInfo], false),
    };
    options.iter().filter(move |option| is_document || !is_of_documents(option))
}

/// Whether encryption and decryption of documents share the option, but no other calls have it.
pub(super) fn is_of_all_documents(option: &OptionInfo) -> bool {
    let has = |options: &[OptionInfo]| options.iter().any(|other| other.field == option.field);
    is_of_documents(option) && has(EncryptOptions::OPTIONS) && has(DecryptOptions::OPTIONS)
}

pub(super) fn is_of_documents(option: &OptionInfo) -> bool {
    option.scope != OptionScope::Any
}

/// The meaning, and the words where the type of the language does not list them.
pub(super) fn about_with_words(option: &OptionInfo) -> String {
    let mut about = option.summary();
    if let OptionKind::Word(list) = option.kind {
        let _ = write!(about, " One of {}.", list.joined("", ", ", ", "));
    }
    about
}

/// The text in lines of at most `width` characters, each after `indent`.
pub(super) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let (mut lines, mut line) = (String::new(), String::new());
    for word in text.split(' ') {
        if !line.is_empty() && indent.len() + line.len() + 1 + word.len() > width {
            let _ = writeln!(lines, "{indent}{line}");
            line.clear();
        }
        line.extend([if line.is_empty() { "" } else { " " }, word]);
    }
    lines + indent + &line + "\n"
}
