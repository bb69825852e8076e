//! Case folding of names, as parsers do it that ignore case.

/// Maximum ratio of a name's length to that of the folded name: `K` (U+212A) has three bytes, `k` one.
pub(crate) const FOLDED_GROWTH_MAX: usize = 4;

/// The action for a name that equals a selected one only when case is ignored. Go's `encoding/json`, ASP.NET and others read such a
/// name as the selected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CaseFold {
    /// Refuse it: parsers would find different values.
    Refuse,
    /// Select it too.
    Same,
    /// Treat it as another name.
    #[default]
    Other,
}

/// Folds a character: equal for all characters that any simple folding of Unicode, or upper case followed by lower case, treats as equal.
/// So `K` (U+212A) is `k`, `ſ` (U+017F) is `s`, and `ı` and `İ` are `i`.
pub fn folded_char(character: char) -> char {
    if character.is_ascii() {
        return character.to_ascii_lowercase();
    }
    // A character whose upper case has several characters stays as it is.
    let mut upper = character.to_uppercase();
    let upper = match (upper.next(), upper.next()) {
        (Some(upper), None) => upper,
        _ => character,
    };
    // Parsers that fold character by character lose the combining dot of `İ`.
    upper.to_lowercase().next().unwrap_or(upper)
}

/// Appends a folded name.
pub(crate) fn fold_into(name: &str, out: &mut String) {
    out.extend(name.chars().map(folded_char));
}

/// A name without its case, to be compared with others. Two names that any of the usual readers take for one another where case does
/// not count become equal: `K` (U+212A) is `k`, `ſ` (U+017F) is `s`.
///
/// ```
/// assert_eq!(leafseal_document::folded("\u{212a}ey"), leafseal_document::folded("KEY"));
/// ```
pub fn folded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    fold_into(name, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_some_readers_take_for_one_another_fold_alike() {
        for (one, other) in [
            ("number", "NUMBER"),
            ("kiss", "\u{212a}i\u{17f}S"),
            ("pin", "P\u{130}N"),
            ("pin", "p\u{131}n"),
            ("stra\u{df}e", "STRA\u{1e9e}E"),
            ("\u{3c3}", "\u{3c2}"),
            ("\u{e5}", "\u{212b}"),
            ("\u{3bc}", "\u{b5}"),
            ("\u{1c5}", "\u{1c4}"),
            ("\u{13a0}", "\u{ab70}"),
        ] {
            assert_eq!(folded(one), folded(other), "{one} {other}");
        }
        for (one, other) in [("a", "b"), ("stra\u{df}e", "strasse"), ("e", "\u{e9}"), ("number", "number ")] {
            assert_ne!(folded(one), folded(other), "{one} {other}");
        }
    }

    #[test]
    fn folding_twice_changes_nothing() {
        for character in '\0'..=char::MAX {
            let once = folded_char(character);
            assert_eq!(folded_char(once), once, "{character:?}");
        }
    }
}
