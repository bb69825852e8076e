//! I-Regexp (RFC 9485), checked against its grammar and rewritten for the `regex` crate.
//!
//! The grammar is far smaller than what `regex` accepts, so a pattern is parsed here and only then written anew: `.`
//! becomes `[^\n\r]`, what `regex` would read differently is escaped. `^` and `$` are ordinary characters in the ABNF
//! of RFC 9485; the compliance cases of RFC 9535 take them for anchors, as every mapping of section 5 does, and so do we.
//! Matching takes time linear in the text.

use regex::{Regex, RegexBuilder};

use super::ast::Extent;

/// Bytes that a compiled pattern may take; larger ones match nothing.
const REGEX_SIZE_MAX: usize = 1 << 20;

/// Groups inside one another.
const GROUP_DEPTH_MAX: usize = 32;

/// The pattern compiled to match the whole or a part of a text; nothing where it is no I-Regexp or too large.
pub(crate) fn compile(pattern: &str, extent: Extent) -> Option<Regex> {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() + 12), depth: 0 };
    translator.branches()?;
    if !translator.rest.is_empty() {
        return None;
    }
    let translated = translator.out;
    let anchored = match extent {
        Extent::Whole => format!(r"\A(?:{translated})\z"),
        Extent::Part => translated,
    };
    RegexBuilder::new(&anchored).size_limit(REGEX_SIZE_MAX).dfa_size_limit(REGEX_SIZE_MAX).build().ok()
}

/// The characters after a backslash that stand for themselves or for a control character (`SingleCharEsc`).
const SINGLE_ESCAPES: &str = "()*+-.?[\\]^nrt{|}$";

/// The general categories that `\p` may name.
const CATEGORIES: [&str; 36] = [
    "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "Z", "Zl", "Zp", "Zs", "S", "Sc", "Sk", "Sm", "So", "C", "Cc", "Cf", "Cn", "Co",
];

/// Reads an I-Regexp and writes what `regex` takes; every method gives nothing where the grammar is violated.
struct Translator<'a> {
    rest: &'a str,
    out: String,
    depth: usize,
}

impl Translator<'_> {
    /// `i-regexp = branch *( "|" branch )`, up to the end or a closing parenthesis.
    fn branches(&mut self) -> Option<()> {
        loop {
            match self.rest.chars().next() {
                None | Some(')') => return Some(()),
                Some('|') => self.copy('|'),
                Some(_) => self.piece()?,
            }
        }
    }

    /// `piece = atom [ quantifier ]`.
    fn piece(&mut self) -> Option<()> {
        match self.take()? {
            '.' => self.out.push_str(r"[^\n\r]"),
            '(' => self.group()?,
            '[' => self.class()?,
            '\\' => self.escape()?,
            '*' | '+' | '?' | '{' | '}' | ']' => return None,
            anchor @ ('^' | '$') => self.out.push(anchor),
            plain => self.literal(plain),
        }
        self.quantifier()
    }

    fn group(&mut self) -> Option<()> {
        self.depth += 1;
        if self.depth > GROUP_DEPTH_MAX {
            return None;
        }
        self.out.push_str("(?:");
        self.branches()?;
        self.depth -= 1;
        if self.take()? != ')' {
            return None;
        }
        self.out.push(')');
        Some(())
    }

    /// `[ quantifier ]`: `*`, `+`, `?`, `{n}`, `{n,}` or `{n,m}`.
    fn quantifier(&mut self) -> Option<()> {
        match self.rest.chars().next() {
            Some(symbol @ ('*' | '+' | '?')) => self.copy(symbol),
            Some('{') => {
                let (range, rest) = self.rest[1..].split_once('}')?;
                let (least, most) = range.split_once(',').unwrap_or((range, ""));
                let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if least.is_empty() || !is_digits(least) || !is_digits(most) {
                    return None;
                }
                self.out.extend(["{", range, "}"]);
                self.rest = rest;
            }
            _ => {}
        }
        Some(())
    }

    /// `SingleCharEsc` or `charClassEsc`, after the backslash.
    fn escape(&mut self) -> Option<()> {
        match self.take()? {
            'n' => self.out.push_str(r"\n"),
            'r' => self.out.push_str(r"\r"),
            't' => self.out.push_str(r"\t"),
            kind @ ('p' | 'P') => {
                let (category, rest) = self.rest.strip_prefix('{')?.split_once('}')?;
                if !CATEGORIES.contains(&category) {
                    return None;
                }
                self.out.extend(["\\", if kind == 'p' { "p" } else { "P" }, "{", category, "}"]);
                self.rest = rest;
            }
            plain if SINGLE_ESCAPES.contains(plain) => self.literal(plain),
            _ => return None,
        }
        Some(())
    }

    /// `charClassExpr`, after its `[`: an optional `^`, then at least one character, range or category; `-` stands for
    /// itself at either end only.
    fn class(&mut self) -> Option<()> {
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.copy('^');
        }
        let mut is_first = true;
        loop {
            match self.take()? {
                ']' if !is_first => break,
                '-' if is_first || self.rest.starts_with(']') => self.literal('-'),
                '\\' if self.rest.starts_with(['p', 'P']) => self.escape()?,
                character => self.class_range(character)?,
            }
            is_first = false;
        }
        self.out.push(']');
        Some(())
    }

    /// `CCchar [ "-" CCchar ]`, its first character taken.
    fn class_range(&mut self, first: char) -> Option<()> {
        self.class_character(first)?;
        let is_range = self.rest.starts_with('-') && !self.rest[1..].starts_with(']');
        if is_range {
            self.copy('-');
            let last = self.take()?;
            self.class_character(last)?;
        }
        Some(())
    }

    fn class_character(&mut self, character: char) -> Option<()> {
        match character {
            '\\' if self.rest.starts_with(['p', 'P']) => return None,
            '\\' => self.escape()?,
            '-' | '[' | ']' => return None,
            plain => self.literal(plain),
        }
        Some(())
    }

    /// Writes a character so that it stands for itself, in a class or outside.
    fn literal(&mut self, character: char) {
        let mut buffer = [0; 4];
        let text: &str = character.encode_utf8(&mut buffer);
        self.out.push_str(&regex::escape(text));
    }

    fn take(&mut self) -> Option<char> {
        let mut characters = self.rest.chars();
        let character = characters.next();
        self.rest = characters.as_str();
        character
    }

    /// Takes a character that is next, and writes it as it is.
    fn copy(&mut self, character: char) {
        self.rest = &self.rest[character.len_utf8()..];
        self.out.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: &str, text: &str) -> Option<bool> {
        Some(compile(pattern, Extent::Whole)?.is_match(text))
    }

    #[test]
    fn patterns_mean_what_the_rfc_says() {
        let rows = [
            ("", "", true),
            ("a|", "", true),
            ("a|b", "b", true),
            ("a|b", "ab", false),
            ("a.c", "a\u{10000}c", true),
            ("a.c", "a\nc", false),
            ("a.c", "a\rc", false),
            ("a.c", "a\u{2028}c", true),
            ("[^a]", "\n", true),
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[a-c]+", "abc", true),
            ("[&&a]", "&", true),
            ("[~~]", "~", true),
            ("a{2}", "aa", true),
            ("a{2,}", "aaaa", true),
            ("a{2,3}", "aaaa", false),
            (r"\p{Lu}\P{Lu}", "Aa", true),
            (r"[\p{Nd}x]+", "1x2", true),
            (r"\.\t\-\$", ".\t-$", true),
            ("(a(b)?)+", "aba", true),
            ("#a b", "#a b", true),
            ("^a$", "a", true),
        ];
        for (pattern, text, expected) in rows {
            assert_eq!(whole(pattern, text), Some(expected), "{pattern:?} on {text:?}");
        }
        assert!(compile("b.?b", Extent::Part).is_some_and(|regex| regex.is_match("abcbd")));
    }

    #[test]
    fn what_is_no_i_regexp_compiles_to_nothing() {
        let patterns = [
            "(",
            ")",
            "a)",
            "[",
            "[]",
            "[^]",
            "[a",
            "a**",
            "*",
            "a{",
            "a{,2}",
            "a{x}",
            "a{3,2}",
            r"\d",
            r"\w",
            r"\b",
            r"\1",
            r"\",
            r"\p{Greek}",
            r"\pL",
            "(?i)a",
            "(?:a)",
            "[a-c-e]",
            "[[:alpha:]]",
            "a++",
            "a*?",
            "]",
            "}",
            r"[\p{L}-z]",
            "[z-a]",
            "((((a{100}){100}){100}){100})",
        ];
        for pattern in patterns {
            assert!(compile(pattern, Extent::Whole).is_none(), "{pattern:?}");
        }
        assert!(compile(&"(".repeat(100_000), Extent::Part).is_none());
    }
}
