//! Splits Rust source into code and comments without parsing it.
//!
//! Both halves keep the byte offsets and line numbers of the source: the other half, and the content of string and character literals,
//! are replaced by spaces. A search of `code` therefore finds no text in strings, and a search of `comments` none in code. Macro bodies
//! count as code, which a syntax tree does not provide.

/// Code and comments of one file, each as long as the source.
#[derive(Debug)]
pub(crate) struct Masked {
    /// The source with comments and the content of literals blanked; the quotes of strings remain.
    pub code: String,
    /// The source with everything except comments blanked; the comment markers remain.
    pub comments: String,
}

#[derive(Clone, Copy)]
enum TokenKind {
    Code,
    Comment,
    Literal,
}

/// Separates `source` into code and comments. The result for invalid Rust is unspecified, but it never panics.
pub(crate) fn mask(source: &str) -> Masked {
    let bytes = source.as_bytes();
    let mut code = Vec::with_capacity(bytes.len());
    let mut comments = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (kind, length) = token(bytes, at);
        for &byte in &bytes[at..at + length] {
            // Blanking is bytewise: a letter outside ASCII becomes as many spaces as it has bytes.
            let blank = if byte == b'\n' { b'\n' } else { b' ' };
            let (as_code, as_comment) = match kind {
                TokenKind::Code => (byte, blank),
                TokenKind::Comment => (blank, byte),
                TokenKind::Literal if byte == b'"' => (byte, blank),
                TokenKind::Literal => (blank, blank),
            };
            code.push(as_code);
            comments.push(as_comment);
        }
        at += length;
    }
    let text = |bytes| String::from_utf8(bytes).expect("tokens are cut at ASCII bytes, so no letter is split");
    Masked { code: text(code), comments: text(comments) }
}

/// Returns kind and length of the token at `at`. Each byte outside comments and literals is a token of code.
fn token(bytes: &[u8], at: usize) -> (TokenKind, usize) {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => (TokenKind::Comment, rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => (TokenKind::Comment, block_comment(rest)),
        [b'"', ..] => (TokenKind::Literal, 1 + quoted(&rest[1..], b'"')),
        [b'\'', ..] => character(rest).map_or((TokenKind::Code, 1), |length| (TokenKind::Literal, length)),
        [b'r', ..] if starts_raw(bytes, at) => {
            raw_string(rest).map_or((TokenKind::Code, 1), |length| (TokenKind::Literal, length))
        }
        _ => (TokenKind::Code, 1),
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length up to and including the closing quote; skips escapes.
fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of the character literal at `rest`, or `None` if the quote begins a lifetime or a label.
fn character(rest: &[u8]) -> Option<usize> {
    match rest.get(1)? {
        b'\\' => Some(1 + quoted(&rest[1..], b'\'')),
        first => {
            let width = match first {
                0..=0x7f => 1,
                0x80..=0xdf => 2,
                0xe0..=0xef => 3,
                _ => 4,
            };
            (rest.get(1 + width) == Some(&b'\'')).then_some(2 + width)
        }
    }
}

/// Whether the `r` at `at` is the prefix of a literal (`r"`, `br#"`, `cr"`) and not the end of a name.
fn starts_raw(bytes: &[u8], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|index| bytes[index]);
    let named = |byte: Option<u8>| byte.is_some_and(is_name);
    match before(1) {
        Some(b'b' | b'c') => !named(before(2)),
        byte => !named(byte),
    }
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    let start = 1 + hashes + 1;
    if rest.get(start - 1) != Some(&b'"') {
        return None; // a raw identifier such as r#type
    }
    let close = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let end = rest[start..].windows(close.len()).position(|window| window == close);
    Some(end.map_or(rest.len(), |end| start + end + close.len()))
}

/// Whether `byte` is allowed in a Rust name.
pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Offsets in `text` of `pattern` as whole words: a pattern that begins or ends with a letter does not match inside a longer name.
pub(crate) fn words<'a>(text: &'a str, pattern: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (first, last) = (pattern.as_bytes()[0], pattern.as_bytes()[pattern.len() - 1]);
    let goes_on = move |inner: u8, outer: Option<u8>| is_name(inner) && outer.is_some_and(is_name);
    text.match_indices(pattern).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).map(|index| text.as_bytes()[index]);
        let after = text.as_bytes().get(at + pattern.len()).copied();
        !goes_on(first, before) && !goes_on(last, after)
    })
}

/// Offset just after the bracket that closes the one at `open` (any of `{`, `(`, `[`), or the end of the text.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (index, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_code_from_comments_and_literals() {
        let check = |source: &str, code: &str, comments: &str| {
            let masked = mask(source);
            let parts = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!((parts(&masked.code), parts(&masked.comments)), (code.into(), comments.into()), "{source}");
            assert_eq!((masked.code.len(), masked.comments.len()), (source.len(), source.len()), "{source}");
        };
        check("", "", "");
        check("a // b\nc", "a c", "// b");
        check("a /* b /* c */ d */ e", "a e", "/* b /* c */ d */");
        check(r#"f("x // y")"#, r#"f(" ")"#, "");
        check(r#"f("\" // y")"#, r#"f(" " ")"#, "");
        check(r##"f(r#"a" // b"#, g)"##, r#"f( " " " , g)"#, "");
        check(r#"f(br"\", g)"#, r#"f(b " ", g)"#, "");
        check(r"'a' 'b: loop 'é' '\'' '\u{1F600}' x", "'b: loop x", "");
        check("r#type bar\"x\" // c", "r#type bar\" \"", "// c");
        check("é \"日本", "é \"", "");
        check("/* open", "", "/* open");
    }

    #[test]
    fn finds_whole_words_only() {
        let found = |text, pattern| words(text, pattern).collect::<Vec<_>>();
        assert_eq!(found("println! eprintln! println!", "println!"), [0, 19]);
        assert_eq!(found("x.unwrap() y.unwrap_or(1)", ".unwrap()"), [1]);
        assert_eq!(found("unsafe unsafe_code", "unsafe"), [0]);
    }

    #[test]
    fn closes_nested_brackets() {
        assert_eq!(closing("{ a { [b] } } c", 0), 13);
        assert_eq!(closing("{ open", 0), 6);
    }
}
