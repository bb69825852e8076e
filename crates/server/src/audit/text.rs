//! A record as the audit log has it.

use leafseal_engine::audit::RecordText;
use leafseal_net::{AccessRecord, AccessValue};

/// The text of a record of a kind.
pub(super) fn text_of(kind: &str, record: &AccessRecord<'_>) -> RecordText {
    let mut text = RecordText::new(kind);
    record.each_field(|name, value| {
        match value {
            AccessValue::Text(value) => text.text(name, value),
            AccessValue::Digest(value) => text.digest(name, value),
            AccessValue::Address(value) => text.shown(name, Some(value)),
            AccessValue::Number(value) => text.number(name, value),
            AccessValue::Texts(values) => text.texts(name, values.iter().map(|value| &**value)),
            AccessValue::Numbers(values) => text.numbers(name, values),
        };
    });
    text
}
