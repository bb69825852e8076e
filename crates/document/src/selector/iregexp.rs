//! I-Regexp (RFC 9485): checks a pattern against the grammar and converts it for `regex-automata`.
//!
//! The grammar is far smaller than what `regex` accepts, so a pattern is parsed here: `.` means `[^\n\r]`. `^` and `$` are ordinary
//! characters in the ABNF of RFC 9485; the compliance cases of RFC 9535 treat them as anchors, as every mapping of section 5 does, and so
//! do we. Matching takes time linear in the text.
//!
//! Parsing takes time proportional to the pattern's length and to the number of its character ranges: the ranges of a class are sorted
//! once, whereas the parser of `regex` does so for each of them; their number is limited.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition};

/// A pattern that needs more memory than permitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Maximum nesting of groups.
const GROUP_DEPTH_MAX: usize = 32;
/// Minimum size of a range of characters in a compiled pattern, in bytes.
const RANGE_SIZE_MIN: usize = 8;

/// Converts a pattern for the compiler, without anchoring it; returns `None` if it is not an I-Regexp.
///
/// # Errors
/// It has more character ranges than fit into a compiled pattern of `size_max` bytes.
pub(super) fn parse(pattern: &str, size_max: usize) -> Result<Option<Hir>, TooLarge> {
    let mut parser = Parser { rest: pattern, depth: 0, ranges_left: (size_max / RANGE_SIZE_MIN).max(1) };
    match parser.branches() {
        Ok(hir) if parser.rest.is_empty() => Ok(Some(hir)),
        Ok(_) | Err(RegexpError::Grammar) => Ok(None),
        Err(RegexpError::TooLarge) => Err(TooLarge),
    }
}

/// The characters after a backslash that stand for themselves or a control character (`SingleCharEsc`).
const SINGLE_ESCAPES: &str = "()*+-.?[\\]^nrt{|}$";

/// The general categories that `\p` may name.
const CATEGORIES: [&str; 36] = [
    "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "Z", "Zl", "Zp", "Zs", "S", "Sc", "Sk", "Sm", "So", "C", "Cc", "Cf", "Cn", "Co",
];

/// The names of the categories.
#[cfg(test)]
pub(super) fn categories() -> impl Iterator<Item = &'static str> {
    CATEGORIES.into_iter()
}

/// The characters of each category, and all other characters.
static CHARACTERS: LazyLock<[[ClassUnicode; 2]; CATEGORIES.len()]> = LazyLock::new(|| {
    CATEGORIES.map(|category| {
        let hir = regex_syntax::parse(&format!(r"\p{{{category}}}")).expect("a category that there is");
        let class = match hir.into_kind() {
            HirKind::Class(Class::Unicode(class)) => class,
            // A category of one character, such as line separators.
            HirKind::Literal(text) => {
                let text = std::str::from_utf8(&text.0).expect("a character");
                ClassUnicode::new(text.chars().map(|character| ClassUnicodeRange::new(character, character)))
            }
            _ => unreachable!("a category is a set of characters"),
        };
        let mut others = class.clone();
        others.negate();
        [class, others]
    })
});

enum RegexpError {
    /// It is not an I-Regexp.
    Grammar,
    TooLarge,
}

type RegexpResult<T> = Result<T, RegexpError>;

/// One of [`CATEGORIES`], or all characters that are not in it.
#[derive(Clone, Copy)]
struct Category {
    number: usize,
    is_negated: bool,
}

impl Category {
    fn characters(self) -> &'static ClassUnicode {
        &CHARACTERS[self.number][usize::from(self.is_negated)]
    }

    /// Its bit in a set of categories.
    fn bit(self) -> u128 {
        1 << (2 * self.number + usize::from(self.is_negated))
    }
}

/// The character after a backslash.
enum RegexpEscape {
    Character(char),
    Category(Category),
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    /// Ranges that the pattern's classes may still use.
    ranges_left: usize,
}

impl Parser<'_> {
    /// `i-regexp = branch *( "|" branch )`, up to the end or a closing parenthesis.
    fn branches(&mut self) -> RegexpResult<Hir> {
        let (mut branches, mut pieces) = (Vec::new(), Vec::new());
        loop {
            match self.rest.chars().next() {
                None | Some(')') => break,
                Some('|') => {
                    self.take()?;
                    branches.push(Hir::concat(std::mem::take(&mut pieces)));
                }
                Some(_) => pieces.push(self.piece()?),
            }
        }
        let last = Hir::concat(pieces);
        if branches.is_empty() {
            return Ok(last);
        }
        branches.push(last);
        Ok(Hir::alternation(branches))
    }

    /// `piece = atom [ quantifier ]`.
    fn piece(&mut self) -> RegexpResult<Hir> {
        let atom = match self.take()? {
            '.' => {
                let mut ends = ClassUnicode::new(['\n', '\r'].map(|end| ClassUnicodeRange::new(end, end)));
                ends.negate();
                Hir::class(Class::Unicode(ends))
            }
            '(' => self.group()?,
            '[' => self.class()?,
            '\\' => match self.escape()? {
                RegexpEscape::Character(character) => literal(character),
                RegexpEscape::Category(category) => {
                    self.count_ranges(category.characters().ranges().len())?;
                    Hir::class(Class::Unicode(category.characters().clone()))
                }
            },
            '*' | '+' | '?' | '{' | '}' | ']' => return Err(RegexpError::Grammar),
            '^' => Hir::look(Look::Start),
            '$' => Hir::look(Look::End),
            plain => literal(plain),
        };
        self.quantified(atom)
    }

    fn group(&mut self) -> RegexpResult<Hir> {
        self.depth += 1;
        if self.depth > GROUP_DEPTH_MAX {
            return Err(RegexpError::Grammar);
        }
        let inner = self.branches()?;
        self.depth -= 1;
        if self.take()? == ')' { Ok(inner) } else { Err(RegexpError::Grammar) }
    }

    /// `[ quantifier ]`: `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`.
    fn quantified(&mut self, atom: Hir) -> RegexpResult<Hir> {
        let (min, max) = match self.rest.chars().next() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                let (range, rest) = self.rest[1..].split_once('}').ok_or(RegexpError::Grammar)?;
                let bounds = bounds(range).ok_or(RegexpError::Grammar)?;
                self.rest = rest;
                return Ok(repeated(atom, bounds));
            }
            _ => return Ok(atom),
        };
        self.take()?;
        Ok(repeated(atom, (min, max)))
    }

    /// `SingleCharEsc` or `charClassEsc`, after the backslash.
    fn escape(&mut self) -> RegexpResult<RegexpEscape> {
        let character = match self.take()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            kind @ ('p' | 'P') => {
                let named = self.rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let (category, rest) = named.ok_or(RegexpError::Grammar)?;
                let number = CATEGORIES.iter().position(|known| *known == category).ok_or(RegexpError::Grammar)?;
                self.rest = rest;
                return Ok(RegexpEscape::Category(Category { number, is_negated: kind == 'P' }));
            }
            plain if SINGLE_ESCAPES.contains(plain) => plain,
            _ => return Err(RegexpError::Grammar),
        };
        Ok(RegexpEscape::Character(character))
    }

    /// `charClassExpr`, after its `[`: an optional `^`, then at least one character, range or category; `-` is literal only at
    /// either end.
    fn class(&mut self) -> RegexpResult<Hir> {
        let is_negated = self.rest.starts_with('^');
        if is_negated {
            self.take()?;
        }
        let mut ranges = Vec::new();
        // Each category counts once, however often it is named.
        let mut categories = 0;
        let mut is_first = true;
        loop {
            match self.take()? {
                ']' if !is_first => break,
                '-' if is_first || self.rest.starts_with(']') => ranges.push(ClassUnicodeRange::new('-', '-')),
                '\\' if self.rest.starts_with(['p', 'P']) => {
                    let RegexpEscape::Category(category) = self.escape()? else { return Err(RegexpError::Grammar) };
                    if categories & category.bit() == 0 {
                        categories |= category.bit();
                        self.count_ranges(category.characters().ranges().len())?;
                        ranges.extend_from_slice(category.characters().ranges());
                    }
                }
                character => ranges.push(self.class_range(character)?),
            }
            is_first = false;
        }
        self.count_ranges(ranges.len())?;
        let mut class = ClassUnicode::new(ranges);
        if is_negated {
            class.negate();
        }
        Ok(Hir::class(Class::Unicode(class)))
    }

    /// `CCchar [ "-" CCchar ]`, after its first character.
    fn class_range(&mut self, first: char) -> RegexpResult<ClassUnicodeRange> {
        let first = self.class_character(first)?;
        let is_range = self.rest.starts_with('-') && !self.rest[1..].starts_with(']');
        if !is_range {
            return Ok(ClassUnicodeRange::new(first, first));
        }
        self.take()?;
        let last = self.take()?;
        let last = self.class_character(last)?;
        if first <= last { Ok(ClassUnicodeRange::new(first, last)) } else { Err(RegexpError::Grammar) }
    }

    fn class_character(&mut self, character: char) -> RegexpResult<char> {
        match character {
            '\\' => match self.escape()? {
                RegexpEscape::Character(character) => Ok(character),
                RegexpEscape::Category(_) => Err(RegexpError::Grammar),
            },
            '-' | '[' | ']' => Err(RegexpError::Grammar),
            plain => Ok(plain),
        }
    }

    fn count_ranges(&mut self, count: usize) -> RegexpResult<()> {
        self.ranges_left = self.ranges_left.checked_sub(count).ok_or(RegexpError::TooLarge)?;
        Ok(())
    }

    fn take(&mut self) -> RegexpResult<char> {
        let mut characters = self.rest.chars();
        let character = characters.next().ok_or(RegexpError::Grammar)?;
        self.rest = characters.as_str();
        Ok(character)
    }
}

fn literal(character: char) -> Hir {
    let mut buffer = [0; 4];
    let text: &str = character.encode_utf8(&mut buffer);
    Hir::literal(text.as_bytes())
}

/// `n`, `n,` or `n,m`, with numbers in ascending order.
fn bounds(range: &str) -> Option<(u32, Option<u32>)> {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let Some((least, most)) = range.split_once(',') else {
        let count = number(range)?;
        return Some((count, Some(count)));
    };
    let least = number(least)?;
    let most = if most.is_empty() { None } else { Some(number(most)?) };
    most.is_none_or(|most| least <= most).then_some((least, most))
}

fn repeated(atom: Hir, (min, max): (u32, Option<u32>)) -> Hir {
    Hir::repetition(Repetition { min, max, greedy: true, sub: Box::new(atom) })
}
