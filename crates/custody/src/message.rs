//! The words of another program, as part of an error.

/// Most characters of a message that an error repeats.
const MESSAGE_CHARS_MAX: usize = 200;

/// Shortened, without control characters.
pub(crate) fn shortened(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    text.trim().chars().take(MESSAGE_CHARS_MAX).map(plain).collect()
}
