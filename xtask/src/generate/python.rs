//! The names and options of the Python package.

use std::fmt::Write;

use leafseal_errors::{ErrorCode, Interface};
use leafseal_protocol::{OptionInfo, OptionKind, Surface, WordList};

use super::GeneratedFile;
use super::names::{MARK, camel_case};
use super::options::{OptionGroup, WORD_LISTS, is_of_all_documents};
use crate::source::SourceFile;

const OPTIONS: &str = "bindings/python/python/leafseal/_options.py";
const EXCEPTIONS: &str = "bindings/python/python/leafseal/_errors.py";

/// Exceptions of Python that an exception of the package also is.
const BUILT_IN: [(&str, &[ErrorCode]); 3] = [
    (
        "ValueError",
        &[
            ErrorCode::InvalidParams,
            ErrorCode::InvalidDocument,
            ErrorCode::InvalidSelector,
            ErrorCode::InvalidEnvelope,
            ErrorCode::NumberOutOfRange,
            ErrorCode::InvalidSettings,
        ],
    ),
    ("TimeoutError", &[ErrorCode::DeadlineExceeded]),
    ("ConnectionError", &[ErrorCode::ConnectFailed, ErrorCode::TlsFailed, ErrorCode::ConnectionLost]),
];

/// Codes whose exception is that of another code.
const SHARED: [(ErrorCode, ErrorCode); 1] = [(ErrorCode::GoingAway, ErrorCode::ConnectionLost)];

/// Codes without an exception of their own: of defects of the package, or which it does not raise.
const PLAIN: [ErrorCode; 6] = [
    ErrorCode::InvalidFrame,
    ErrorCode::InvalidRequest,
    ErrorCode::UnknownMethod,
    ErrorCode::UnknownError,
    ErrorCode::Busy,
    ErrorCode::NoMemory,
];

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    Ok(vec![
        GeneratedFile { path: EXCEPTIONS.into(), text: exceptions() },
        GeneratedFile { path: OPTIONS.into(), text: options() },
    ])
}

fn codes() -> impl Iterator<Item = ErrorCode> {
    let is_raised = |code: &ErrorCode| {
        let interfaces = code.interfaces();
        !PLAIN.contains(code) && (interfaces.contains(&Interface::Rpc) || interfaces.contains(&Interface::Client))
    };
    ErrorCode::ALL.iter().copied().filter(is_raised)
}

fn class(code: ErrorCode) -> String {
    let shared = SHARED.iter().find(|(of, _)| *of == code);
    camel_case(shared.map_or(code, |(_, with)| *with).as_str())
}

fn exceptions() -> String {
    let is_own = |code: &ErrorCode| SHARED.iter().all(|(of, _)| of != code);
    let own: Vec<ErrorCode> = codes().filter(is_own).collect();
    let mut names: Vec<String> = own.iter().map(|code| class(*code)).chain(["Error".to_owned()]).collect();
    names.sort();
    let mut text = format!(
        "# {MARK}\n\"\"\"The exceptions of the package, by code.\"\"\"\n\nfrom leafseal._error import Error, register\n\n__all__ = [\n"
    );
    for name in names {
        let _ = writeln!(text, "    \"{name}\",");
    }
    text.push_str("]\n");
    for code in own {
        let built_in = BUILT_IN.iter().find(|(_, codes)| codes.contains(&code));
        let bases = built_in.map_or("Error".to_owned(), |(name, _)| format!("Error, {name}"));
        let _ = write!(text, "\n\nclass {}({bases}):\n    \"\"\"{}\"\"\"\n", class(code), code.about());
    }
    text.push_str("\n\nregister(\n    {\n");
    for code in codes() {
        let _ = writeln!(text, "        \"{code}\": {},", class(code));
    }
    text + "    }\n)\n"
}

/// The options that all calls have.
const COMMON: &str = "
class CallOptions(TypedDict, total=False):
    app: str | None
    \"\"\"The app; by default that of the engine.\"\"\"
    timeout: float | None
    \"\"\"Maximum seconds; then the call fails with DeadlineExceeded. For a remote engine,
    each request is limited by `connect(timeout=…)`, too.\"\"\"

";

fn options() -> String {
    let mut text = format!("# {MARK}\n\"\"\"The options of calls.\"\"\"\n\nfrom typing import Literal, TypedDict\n\n");
    let is_used = |list: &&'static WordList| {
        let mut options =
            OptionGroup::Encrypt.options(Surface::Python).chain(OptionGroup::Decrypt.options(Surface::Python));
        options.any(|option| option.kind == OptionKind::Word(list))
    };
    for list in WORD_LISTS.into_iter().filter(is_used) {
        let _ = writeln!(text, "{} = Literal[{}]", list.name, list.joined("\"", ", ", ", "));
    }
    text.push('\n');
    text += COMMON;
    let encrypting: Vec<_> = OptionGroup::Encrypt.options(Surface::Python).collect();
    let decrypting: Vec<_> = OptionGroup::Decrypt.options(Surface::Python).collect();
    let of = |options: &[&'static OptionInfo], documents: bool| -> Vec<&OptionInfo> {
        options.iter().copied().filter(|option| is_of_all_documents(option) == documents).collect()
    };
    text += &class_of("EncryptionOptions", "TypedDict", &of(&encrypting, false));
    text += &class_of("DecryptionOptions", "TypedDict", &of(&decrypting, false));
    text += &class_of("DocumentOptions", "TypedDict", &of(&encrypting, true));
    for (name, bases) in [
        ("EncryptOptions", "EncryptionOptions, CallOptions"),
        ("DecryptOptions", "DecryptionOptions, CallOptions"),
        ("EncryptDocumentOptions", "EncryptOptions, DocumentOptions"),
        ("DecryptDocumentOptions", "DecryptOptions, DocumentOptions"),
    ] {
        let _ = write!(text, "\nclass {name}({bases}, total=False):\n    pass\n\n");
    }
    text.trim_end().to_owned() + "\n"
}

fn class_of(name: &str, base: &str, options: &[&OptionInfo]) -> String {
    let mut text = format!("\nclass {name}({base}, total=False):\n");
    for option in options {
        let kind = match option.kind {
            OptionKind::Flag => "bool".to_owned(),
            OptionKind::Word(list) => format!("{} | None", list.name),
            OptionKind::Text | OptionKind::Words(_) => "str | None".to_owned(),
            OptionKind::Number => "int | None".to_owned(),
        };
        let _ = writeln!(text, "    {}: {kind}\n    \"\"\"{}\"\"\"", option.field, option.summary());
    }
    text + "\n"
}
