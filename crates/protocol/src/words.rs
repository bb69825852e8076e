//! Options whose value is one of a few words, or some of them.

use std::marker::PhantomData;

/// The words of an option, for interfaces that read and show options by name.
pub trait Word: Copy + Sized + 'static {
    /// The words on the wire, in the order of the cases.
    const WORDS: &'static WordList;

    /// The reverse of `as_str`.
    fn parse(word: &str) -> Option<Self>;

    /// The word on the wire.
    fn as_str(self) -> &'static str;
}

/// The words that an option accepts.
#[derive(Debug, PartialEq, Eq)]
pub struct WordList {
    /// The name of the type.
    pub name: &'static str,
    /// The meaning of the option.
    pub about: &'static str,
    /// Each word, and its meaning.
    pub words: &'static [(&'static str, &'static str)],
}

impl WordList {
    /// Whether the word is one of them.
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|(known, _)| *known == word)
    }

    /// Whether a text is some of them, each once, separated by commas.
    pub fn has_set(&self, text: &str) -> bool {
        let mut words = text.split(',').enumerate();
        words.all(|(at, word)| self.has(word) && text.split(',').take(at).all(|earlier| earlier != word))
    }

    /// `"r1", "k1"` with these marks around each word, this text between them, and this text before the last.
    pub fn joined(&self, mark: &str, between: &str, before_last: &str) -> String {
        let count = self.words.len();
        let mut text = String::new();
        for (at, (word, _)) in self.words.iter().enumerate() {
            let gap = if at == 0 {
                ""
            } else if at + 1 == count {
                before_last
            } else {
                between
            };
            text.extend([gap, mark, word, mark]);
        }
        text
    }
}

/// Some words of a type, one at least, separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WordSet<'a, W> {
    text: &'a str,
    words: PhantomData<W>,
}

impl<'a, W: Word> WordSet<'a, W> {
    /// `None` if a part is none of the words, or occurs twice.
    pub fn parse(text: &'a str) -> Option<Self> {
        W::WORDS.has_set(text).then_some(Self { text, words: PhantomData })
    }

    /// The words as they were given.
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// Whether it has the word.
    pub fn contains(self, word: W) -> bool {
        self.text.split(',').any(|one| one == word.as_str())
    }
}

macro_rules! words {
    ($(#[doc = $about:literal])+ $name:ident { $(#[doc = $case_about:literal] $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $(#[doc = $case_about] $variant),+ }

        impl $name {
            /// Every case.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word on the wire.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// The reverse of `as_str`.
            pub fn parse(word: &str) -> Option<$name> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }
        }

        impl Word for $name {
            const WORDS: &'static WordList = &WordList {
                name: stringify!($name),
                about: concat!($($about),+).trim_ascii_start(),
                words: &[$(($word, $case_about.trim_ascii())),+],
            };

            fn parse(word: &str) -> Option<Self> {
                $name::parse(word)
            }

            fn as_str(self) -> &'static str {
                $name::as_str(self)
            }
        }
    };
}

words! {
    /// How an envelope is sealed.
    Scheme {
        /// To a public key of the app: anyone who has that key can.
        PublicKey = "public-key",
        /// With a symmetric key of the app: only an engine can.
        Symmetric = "symmetric",
    }
}

words! {
    /// What envelopes to a public key become that arrive to be encrypted.
    Reseal {
        /// Symmetric ones, with the mark that they were to a public key.
        Symmetric = "symmetric",
    }
}

words! {
    /// A kind of envelope that is opened.
    AcceptedScheme {
        /// To a public key, which anyone can make who has that key.
        PublicKey = "public-key",
        /// Symmetric, made by an engine from a value.
        Symmetric = "symmetric",
        /// Symmetric, made by an engine from an envelope to a public key.
        FromPublicKey = "from-public-key",
    }
}

words! {
    /// What of its path in a document a value is bound to.
    PathBinding {
        /// The normalized path, each index as `[*]`.
        Path = "path",
        /// The normalized path with its indexes.
        PathAndIndex = "path+index",
    }
}

words! {
    /// The curve of the ephemeral key.
    Curve {
        /// P-256, secp256r1.
        R1 = "r1",
        /// secp256k1.
        K1 = "k1",
    }
}

words! {
    /// How often a fresh ephemeral key is created.
    Keying {
        /// For every value.
        Field = "field",
        /// Once for each request: a list of values, a document or a file.
        Request = "request",
        /// Once for many requests, within bounds of time and count.
        Session = "session",
    }
}

words! {
    /// The action for an envelope that does not open.
    OnFailure {
        /// The call fails.
        Fail = "fail",
        /// The envelope stays unchanged.
        Leave = "leave",
        /// The envelope is replaced by null.
        Null = "null",
    }
}

words! {
    /// The action of `rewrap` and `inspect` for an envelope that does not open. None replaces it: that would destroy a stored value.
    RewrapFailure {
        /// The call fails.
        Fail = "fail",
        /// The envelope stays unchanged.
        Leave = "leave",
    }
}

words! {
    /// The type that an envelope gives its text.
    TextKind {
        /// Text.
        String = "string",
        /// JSON text of a number.
        Number = "number",
        /// `true` or `false`.
        Boolean = "boolean",
    }
}

words! {
    /// The action for a member whose name differs from a selected one only in case, by any simple case mapping of Unicode. Some
    /// parsers (Go's `encoding/json`, ASP.NET) read it as the selected one.
    OtherCase {
        /// The call fails with `ambiguous_name`.
        Refuse = "refuse",
        /// The member is selected, too.
        Same = "same",
        /// It is another member.
        Other = "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_listed_as_a_sentence_or_a_list_needs_them() {
        assert_eq!(Curve::WORDS.joined("`", ", ", " or "), "`r1` or `k1`");
        assert_eq!(Keying::WORDS.joined("", ", ", " or "), "field, request or session");
        assert_eq!(OnFailure::WORDS.joined("\"", ", ", ", "), "\"fail\", \"leave\", \"null\"");
    }
}
