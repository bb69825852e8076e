//! I-Regexp (RFC 9485), checked against its grammar and rewritten for the `regex` crate.
//!
//! The grammar is far smaller than what `regex` accepts, so a pattern is parsed here and only then written anew: `.`
//! becomes `[^\n\r]`, what `regex` would read differently is escaped. `^` and `$` are ordinary characters in the ABNF
//! of RFC 9485; the compliance cases of RFC 9535 take them for anchors, as every mapping of section 5 does, and so do we.
//! Matching takes time linear in the text.

/// Groups inside one another.
const GROUP_DEPTH_MAX: usize = 32;

/// The pattern as the `regex` crate's syntax has it; nothing where it is no I-Regexp by the grammar. Ranges out of order are left to be
/// found there.
pub(super) fn translate(pattern: &str) -> Option<String> {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() + 12), depth: 0 };
    translator.branches()?;
    translator.rest.is_empty().then_some(translator.out)
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
        self.out.push_str(&regex_syntax::escape(text));
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
