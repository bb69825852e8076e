//! Refuses names that some readers take for a path: lodash's `get`, Laravel and unflattening packages read `{"card.number": 1}` or
//! `{"card[number]": 1}` as `{"card": {"number": 1}}`, and Rails assigns `number(1i)` to the attribute `number`.

use super::{AmbiguousName, Automaton, SETS_MAX, SetId};
use crate::error::DocumentErrorKind;
use crate::fold::{OtherCase, folded};
use crate::selector::fields::before_parenthesis;
use crate::text::unescape;

/// Bytes of the token of a name with escapes above which it is refused: it would have to be copied to be read as a path.
const ESCAPED_SIZE_MAX: usize = 8 << 10;

/// A step of a path that is written as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step<'n> {
    /// A name, or the index of an element.
    Name(&'n str),
    /// `[]`: an element.
    Element,
}

impl From<AmbiguousName> for DocumentErrorKind {
    fn from(name: AmbiguousName) -> Self {
        match name {
            AmbiguousName::Alike => DocumentErrorKind::AmbiguousName,
            AmbiguousName::Path => DocumentErrorKind::PathName,
        }
    }
}

impl Automaton {
    /// Refuses a name that no query looks for, and that is read as a path to what one selects or looks for. `plain` is the set of the
    /// member by its name as it is. The steps are bounded by the name's length, and each is one look-up.
    #[inline]
    pub(super) fn refuse_path(
        &mut self,
        set: SetId,
        plain: SetId,
        token: &[u8],
        escaped: bool,
    ) -> Result<(), AmbiguousName> {
        let name = &token[1..token.len() - 1];
        if !escaped && memchr::memchr3(b'.', b'[', b'(', name).is_none() {
            return Ok(());
        }
        let is_path = if escaped { self.is_escaped_path(set, plain, token) } else { self.is_path(set, plain, name) };
        if is_path { Err(AmbiguousName::Path) } else { Ok(()) }
    }

    #[cold]
    fn is_escaped_path(&mut self, set: SetId, plain: SetId, token: &[u8]) -> bool {
        if token.len() > ESCAPED_SIZE_MAX {
            return true;
        }
        let mut text = String::new();
        // No reader finds a selected name in one that is not Unicode.
        unescape(token, &mut text).is_ok_and(|text| self.is_path(set, plain, text.as_bytes()))
    }

    #[cold]
    fn is_path(&mut self, set: SetId, plain: SetId, name: &[u8]) -> bool {
        // Invalid UTF-8 is detected right behind the walk.
        let Ok(name) = std::str::from_utf8(name) else { return false };
        // Parsers in C end a name at a NUL.
        let name = name.split('\0').next().unwrap_or(name);
        let has_both = name.contains('.') && name.contains(['[', '(']);
        self.leads_elsewhere(set, plain, name, true) || has_both && self.leads_elsewhere(set, plain, name, false)
    }

    /// Whether the path that begins at a value of `set` leads to states that `plain` lacks.
    fn leads_elsewhere(&mut self, set: SetId, plain: SetId, name: &str, splits_at_dots: bool) -> bool {
        let (mut at, mut is_path) = (set, false);
        for step in steps(name, splits_at_dots) {
            // Only in vast numbers of sets, those of consecutive descendant wildcards.
            if self.sets.len() > 2 * SETS_MAX {
                return true;
            }
            match self.step(at, step) {
                Ok(next) => (at, is_path) = (next, true),
                Err(_) => return true,
            }
            if at.is_settled() {
                break;
            }
        }
        let plain = &self.sets[plain.index()].states;
        is_path && self.sets[at.index()].states.iter().any(|state| plain.binary_search(state).is_err())
    }

    fn step(&mut self, set: SetId, step: Step<'_>) -> Result<SetId, AmbiguousName> {
        let name = match step {
            Step::Element => return Ok(self.element(set, 0, 1)),
            Step::Name(name) => name,
        };
        if self.sets[set.index()].row.is_none() {
            self.build_row(set);
        }
        let row = self.sets[set.index()].row.as_ref().expect("built above");
        let member = match self.other_case {
            OtherCase::Same => row.named(folded(name).as_bytes()),
            OtherCase::Refuse | OtherCase::Other => row.guarded(name.as_bytes())?,
        };
        match name.parse::<u32>() {
            Ok(index) if member.set == row.other => Ok(self.element(set, index, index.saturating_add(1))),
            _ => Ok(member.set),
        }
    }
}

/// The steps of a path: `a[b][].c(1i)` has `a`, `b`, an element, and `c`; without `splits_at_dots` a dot is part of a name.
fn steps(path: &str, splits_at_dots: bool) -> impl Iterator<Item = Step<'_>> {
    let mut rest = Some(path);
    let mut is_in_brackets = false;
    std::iter::from_fn(move || {
        loop {
            let text = rest?;
            let end = text.find(|c| matches!(c, '[' | ']') || c == '.' && splits_at_dots);
            let was_in_brackets = is_in_brackets;
            is_in_brackets = end.is_some_and(|end| match text.as_bytes()[end] {
                b'[' => true,
                b'.' => was_in_brackets,
                _ => false,
            });
            rest = end.map(|end| &text[end + 1..]);
            let name = text[..end.unwrap_or(text.len())].trim().trim_matches(['"', '\'']);
            match before_parenthesis(name) {
                "" if was_in_brackets && rest.is_some() => return Some(Step::Element),
                "" => {}
                name => return Some(Step::Name(name)),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_steps_of_paths() {
        let written = |path, splits_at_dots| {
            let step = |step| match step {
                Step::Name(name) => name,
                Step::Element => "[]",
            };
            steps(path, splits_at_dots).map(step).collect::<Vec<_>>().join("/")
        };
        for (path, expected) in [
            ("card.number", "card/number"),
            ("card[number]", "card/number"),
            ("card['number']", "card/number"),
            ("cards[][number]", "cards/[]/number"),
            ("cards[0].number", "cards/0/number"),
            ("a[b][].c(1i)", "a/b/[]/c"),
            ("number(1i)", "number"),
            ("(1i)", "(1i)"),
            (".a..b.", "a/b"),
            ("[a]", "a"),
            ("a[", "a"),
            ("a]b", "a/b"),
            ("a[b.c]", "a/b/c"),
            ("", ""),
            (".", ""),
        ] {
            assert_eq!(written(path, true), expected, "{path}");
        }
        assert_eq!(written("a[b.c].d", false), "a/b.c/.d");
    }
}
