//! Names that some readers take for a path: lodash, Laravel and unflattening packages read `{"card.number": 1}` or `{"card[number]": 1}` as
//! `{"card": {"number": 1}}`, and Rails assigns `number(1i)` to the attribute `number`.
//!
//! The selectors whose values must not be sent so are in the program twice. Copies of them select, and are entered by such a name alone: a
//! member has the states of its name as it is, and of the copies those to which the steps of the name lead.

use std::borrow::Cow;

use super::{AmbiguousName, Automaton, AutomatonState, CompiledQueries, SETS_MAX, SetId};
use crate::fold::{CaseFold, folded};
use crate::selector::fields::before_parenthesis;
use crate::text::unescape_lossy;

/// Bytes of the token of a name with characters of paths above which it is refused.
const SIZE_MAX: usize = 8 << 10;

/// The member whose members become those of the object that holds it where JavaScript copies it: `Object.assign({}, value)`.
const PROTOTYPE: &str = "__proto__";

/// The queries of a program that finds values by the paths that names are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paths {
    /// The first queries, which select as always.
    pub(super) fields: u32,
    /// Those behind them, which select what paths lead to, and after these as many with the same segments, which select nothing.
    pub(super) copies: u32,
    /// The first state of the segments that select nothing, and how many there are.
    first: AutomatonState,
    segments: AutomatonState,
}

impl Paths {
    /// The end states below this one select.
    pub(super) fn selecting(self) -> AutomatonState {
        self.fields + self.copies
    }

    /// The state of the copy.
    fn copied(self, state: AutomatonState, queries: u32) -> AutomatonState {
        match state {
            state if state >= self.first => state - self.segments,
            state if state < queries && state >= self.selecting() => state - self.copies,
            state => state,
        }
    }
}

impl CompiledQueries {
    /// The first queries, `fields`, select as always. The rest has two halves with the same queries: the first selects what names that are
    /// paths lead to, the second nothing.
    pub(crate) fn finding_paths(mut self, fields: usize) -> CompiledQueries {
        let (fields, states) = (fields as u32, self.steps.len() as AutomatonState);
        let copies = (self.queries - fields) / 2;
        let is_silent = |step: &&super::StateStep| step.query >= fields + copies;
        let segments = self.steps[self.queries as usize..].iter().filter(is_silent).count() as AutomatonState;
        self.paths = Some(Paths { fields, copies, first: states - segments, segments });
        let is_copy = |query: usize| (fields..fields + copies).contains(&(query as u32));
        let starts = self.starts.iter().enumerate().filter(|(query, _)| !is_copy(*query));
        self.starts = starts.map(|(_, &start)| start).collect();
        self
    }
}

/// How a path is divided into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Division {
    /// At all dots and brackets.
    Everywhere,
    /// The same, but what stands between brackets, or quoted there, is one step.
    OutsideBrackets,
    AtBrackets,
    AtDots,
}

/// A step of a path that is written as a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameStep<'n> {
    /// A name, or the index of an element.
    Name(&'n str),
    /// `[]`: an element, or nothing.
    Element,
    /// Nothing between two marks: no step, an empty name, or an element.
    Empty,
}

impl Automaton {
    /// The set of a member whose name no query looks for. `plain` is its set by the name as it is. The work is bounded by the name's length
    /// times the ways to read it, a look-up each.
    ///
    /// # Errors
    /// The name is too long, or has too many sets.
    #[inline]
    pub(super) fn by_paths(
        &mut self,
        set: SetId,
        plain: SetId,
        token: &[u8],
        escaped: bool,
    ) -> Result<SetId, AmbiguousName> {
        let is_mark = |byte: &u8| matches!(byte, b'.' | b'[' | b'(' | b' ');
        let name = &token[1..token.len() - 1];
        if !escaped && !name.iter().any(is_mark) && name != PROTOTYPE.as_bytes() {
            return Ok(plain);
        }
        self.by_paths_of(set, plain, token)
    }

    #[cold]
    fn by_paths_of(&mut self, set: SetId, plain: SetId, token: &[u8]) -> Result<SetId, AmbiguousName> {
        if token.len() > SIZE_MAX {
            return Err(AmbiguousName::Path);
        }
        let name = unescape_lossy(token);
        let mut found = if name == PROTOTYPE { self.joined(plain, set) } else { plain };
        for text in variants(&name) {
            let ways = [Division::Everywhere, Division::OutsideBrackets, Division::AtBrackets, Division::AtDots];
            for division in &ways[..if text.contains('[') { ways.len() } else { 1 }] {
                let at = self.follow(set, steps(&text, *division))?;
                found = self.joined(found, at);
            }
        }
        // PHP writes the names of parameters so.
        let of_php = name.trim_start().replace([' ', '.', '['], "_");
        let at = self.named_set(set, &of_php)?;
        Ok(self.joined(found, at))
    }

    /// The set behind the steps of a path.
    fn follow<'n>(&mut self, set: SetId, steps: impl Iterator<Item = NameStep<'n>>) -> Result<SetId, AmbiguousName> {
        let mut at = set;
        for step in steps {
            // Only vast numbers of sets, those of consecutive descendant wildcards.
            if self.sets.len() > 2 * SETS_MAX {
                return Err(AmbiguousName::Path);
            }
            at = match step {
                NameStep::Element | NameStep::Empty => {
                    let (named, element) = (self.named_set(at, "")?, self.any_element(at));
                    let other = self.union(named, element);
                    self.union(at, other)
                }
                NameStep::Name(name) => {
                    let (whole, attribute) = (self.named_set(at, name)?, before_parenthesis(name));
                    let named = match attribute == name {
                        true => whole,
                        false => {
                            let attribute = self.named_set(at, attribute)?;
                            self.union(whole, attribute)
                        }
                    };
                    match name.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '+' | '-')) {
                        true => {
                            let element = self.any_element(at);
                            self.union(named, element)
                        }
                        false => named,
                    }
                }
            };
            if at.is_settled() {
                break;
            }
        }
        Ok(at)
    }

    /// The set of the member of this name.
    fn named_set(&mut self, set: SetId, name: &str) -> Result<SetId, AmbiguousName> {
        if self.sets[set.index()].row.is_none() {
            self.build_row(set);
        }
        let row = self.sets[set.index()].row.as_ref().expect("built above");
        Ok(match self.other_case {
            CaseFold::Same => row.named(folded(name).as_bytes()).set,
            CaseFold::Refuse | CaseFold::Other => row.guarded(name.as_bytes())?.set,
        })
    }

    /// The set of all elements, whatever their indexes.
    fn any_element(&mut self, set: SetId) -> SetId {
        if self.sets[set.index()].row.is_none() {
            self.build_row(set);
        }
        let row = self.sets[set.index()].row.as_ref().expect("built above");
        if row.indexes.is_empty() && row.ranges.is_empty() {
            return row.other;
        }
        let (indexes, ranges) =
            (row.indexes.iter().map(|&(_, state)| state), row.ranges.iter().map(|&(_, state)| state));
        let states: Vec<AutomatonState> = row.base.iter().copied().chain(indexes).chain(ranges).collect();
        self.number(&states)
    }

    fn union(&mut self, one: SetId, other: SetId) -> SetId {
        match (one, other) {
            (one, other) if one == other || other == SetId::NOTHING => one,
            (SetId::NOTHING, other) => other,
            _ => {
                let states = [&*self.sets[one.index()].states, &*self.sets[other.index()].states].concat();
                self.number(&states)
            }
        }
    }

    /// `found` and the copies of those states of `at` that it lacks.
    fn joined(&mut self, found: SetId, at: SetId) -> SetId {
        if at == found || at == SetId::NOTHING {
            return found;
        }
        if let Some(&joined) = self.joined.get(&(found, at)) {
            return joined;
        }
        let Some(paths) = self.program.paths else { return found };
        let (known, reached) = (&self.sets[found.index()].states, &self.sets[at.index()].states);
        let is_new = |state: &&AutomatonState| known.binary_search(state).is_err();
        let copies = reached.iter().filter(is_new).map(|&state| paths.copied(state, self.program.queries));
        let states: Vec<AutomatonState> = known.iter().copied().chain(copies).collect();
        let joined = self.number(&states);
        self.joined.insert((found, at), joined);
        joined
    }
}

/// The texts that readers divide into steps: the name, up to a NUL, without backslashes, and with dots for brackets.
fn variants(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let cut = name.split_once('\0').map(|(before, _)| Cow::Borrowed(before));
    let unescaped = name.contains('\\').then(|| Cow::Owned(name.replace('\\', "")));
    let dotted = name.contains('[').then(|| Cow::Owned(name.replace('[', ".").replace(']', "")));
    std::iter::once(Cow::Borrowed(name)).chain(cut).chain(unescaped).chain(dotted)
}

/// The steps of a path: `a[b][].c` has `a`, `b`, an element, and `c`.
fn steps(path: &str, division: Division) -> impl Iterator<Item = NameStep<'_>> {
    let mut rest = Some(path);
    let mut before = None;
    std::iter::from_fn(move || {
        loop {
            let text = rest?;
            let is_inside = before == Some(b'[') && division == Division::OutsideBrackets;
            let divides = |c: char| match c {
                '[' | ']' => division != Division::AtDots,
                '.' => division != Division::AtBrackets && !is_inside,
                _ => false,
            };
            let end = is_inside.then(|| quoted_end(text)).flatten().or_else(|| text.find(divides));
            let (last, mark) = (before, end.map(|end| text.as_bytes()[end]));
            let name = text[..end.unwrap_or(text.len())].trim().trim_matches(['"', '\'']);
            (rest, before) = (end.map(|end| &text[end + 1..]), mark);
            match (name, last, mark) {
                ("", Some(b'['), Some(b']')) => return Some(NameStep::Element),
                // Between brackets, or at an end of the path beside one, there is no step.
                ("", Some(b']'), _) | ("", None, Some(b'[') | None) => {}
                ("", ..) => return Some(NameStep::Empty),
                (name, ..) => return Some(NameStep::Name(name)),
            }
        }
    })
}

/// Where the bracket closes behind a text that begins with quotation marks.
fn quoted_end(text: &str) -> Option<usize> {
    let closing = if text.starts_with('"') { "\"]" } else { "']" };
    text.starts_with(['"', '\'']).then(|| text[1..].find(closing).map(|at| at + 2)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_steps_of_paths() {
        let written = |path, division| {
            let step = |step| match step {
                NameStep::Name(name) => name,
                NameStep::Element => "[]",
                NameStep::Empty => "?",
            };
            steps(path, division).map(step).collect::<Vec<_>>().join("/")
        };
        for (path, expected) in [
            ("card.number", "card/number"),
            ("card[number]", "card/number"),
            ("card['number']", "card/number"),
            ("cards[][number]", "cards/[]/number"),
            ("cards[0].number", "cards/0/number"),
            ("a[b][].c(1i)", "a/b/[]/c(1i)"),
            ("(1i)", "(1i)"),
            (".a..b.", "?/a/?/b/?"),
            ("[a]", "a"),
            ("a[", "a/?"),
            ("a]b", "a/b"),
            ("a[b.c]", "a/b/c"),
            ("", ""),
            (".", "?/?"),
        ] {
            assert_eq!(written(path, Division::Everywhere), expected, "{path}");
        }
        assert_eq!(written("a[b.c].d", Division::AtBrackets), "a/b.c/.d");
        assert_eq!(written("a.b[c.d].e", Division::OutsideBrackets), "a/b/c.d/e");
        assert_eq!(written("a['b[1].c'].d", Division::OutsideBrackets), "a/b[1].c/d");
        assert_eq!(written("a.b[0].c", Division::AtDots), "a/b[0]/c");
    }
}
