//! Texts of bounded length, for lines and messages that wait.

use std::borrow::Cow;

/// A text of at most `size_max` bytes; a longer one is cut and followed by its size.
pub(crate) fn cut(text: &str, size_max: usize) -> Cow<'_, str> {
    if text.len() <= size_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(size_max);
    Cow::Owned(format!("{}…[{} bytes]", &text[..end], text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_cut_between_characters_and_followed_by_its_size() {
        assert_eq!(cut("/a", 2), "/a");
        assert_eq!(cut("/abc", 2), "/a…[4 bytes]");
        assert_eq!(cut("/éé", 2), "/…[5 bytes]");
    }
}
