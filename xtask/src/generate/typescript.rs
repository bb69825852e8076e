//! The names and options of `@leafseal/wire`, `@leafseal/client` and its browser build.

use std::fmt::Write;

use leafseal_errors::{ErrorCode, Interface};
use leafseal_protocol::{Method, OptionInfo, OptionKind, Surface};

use super::GeneratedFile;
use super::names::{MARK, client_codes, lower_camel_case};
use super::options::{OptionGroup, is_of_all_documents, options_of, wrapped};
use crate::source::SourceFile;

const CODES: &str = "bindings/node/client/src/codes_generated.ts";
const CODES_OF_BROWSERS: &str = "bindings/node/client/src/browser/codes_generated.ts";

const METHODS: &str = "bindings/node/client/src/methods_generated.ts";
const OPTIONS_OF_METHODS: &str = "bindings/node/client/src/options_generated.ts";
const OPTIONS: &str = "bindings/node/wire/options.d.ts";
const WIDTH: usize = 138;

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let mut codes = union("The codes of errors. A newer engine may send others.", "KnownErrorCode", client_codes());
    codes.push_str(
        "\n/** The codes that a document or values alone can cause, with the HTTP status that goes with each. */\n",
    );
    codes.push_str("export const CAUSED_BY_DATA: Readonly<Record<string, number>> = {\n");
    for code in client_codes().filter(|code| code.is_caused_by_data()) {
        let _ = writeln!(codes, "  {code}: {},", code.status());
    }
    codes.push_str("};\n");
    let browser = union("The kinds of errors. Codes are stable.", "ErrorCode", ErrorCode::of(Interface::Browser));
    Ok(vec![
        GeneratedFile { path: CODES, text: codes },
        GeneratedFile { path: CODES_OF_BROWSERS, text: browser },
        GeneratedFile { path: METHODS, text: methods() },
        GeneratedFile { path: OPTIONS, text: options() },
        GeneratedFile { path: OPTIONS_OF_METHODS, text: options_of_methods() },
    ])
}

fn union(about: &str, name: &str, codes: impl Iterator<Item = ErrorCode>) -> String {
    let mut text = format!("// {MARK}\n\n/** {about} */\nexport type {name} =");
    for code in codes {
        let _ = write!(text, "\n  /** {} */\n  | '{code}'", code.about());
    }
    text + ";\n"
}

fn methods() -> String {
    let mut text = format!("// {MARK}\n\n/** A method of the engine. */\nexport type Method =");
    for method in Method::ALL {
        let _ = write!(text, "\n  | '{}'", method.as_str());
    }
    text + ";\n"
}

fn options() -> String {
    let documents: Vec<_> =
        OptionGroup::Encrypt.options(Surface::Clients).filter(|option| is_of_all_documents(option)).collect();
    let of = |group: OptionGroup| {
        group.options(Surface::Clients).filter(|option| !is_of_all_documents(option)).collect::<Vec<_>>()
    };
    format!("// {MARK}\n")
        + &interface("EncryptionOptions", "Options of encryption.", &of(OptionGroup::Encrypt))
        + &interface("DecryptionOptions", "Options of decryption.", &of(OptionGroup::Decrypt))
        + &interface("SelectionOptions", "Options of documents.", &documents)
        + &interface("RewrappingOptions", "Options of `rewrap`.", &of(OptionGroup::Rewrap))
}

/// The names of the options that each method has.
fn options_of_methods() -> String {
    let mut text = format!(
        "// {MARK}\n\nimport type {{ Method }} from './methods_generated.js';\n\n/** The options of each method that are data of the \
         protocol, except the app. */\nexport const OPTIONS: Readonly<Record<Method, readonly string[]>> = {{\n"
    );
    for method in Method::ALL {
        let names: Vec<String> = options_of(*method)
            .filter(|option| option.surfaces.contains(&Surface::Clients))
            .map(|option| format!("'{}'", lower_camel_case(option.field.as_str())))
            .collect();
        let _ = writeln!(text, "  {}: [{}],", method.as_str(), names.join(", "));
    }
    text + "};\n"
}

fn interface(name: &str, about: &str, options: &[&OptionInfo]) -> String {
    let mut text = format!("\n/** {about} */\nexport interface {name} {{\n");
    for option in options {
        let kind = match option.kind {
            OptionKind::Flag => "boolean".to_owned(),
            OptionKind::Word(list) => list.joined("'", " | ", " | "),
            OptionKind::Text => "string".to_owned(),
            OptionKind::Number => "number".to_owned(),
        };
        let about = option.summary();
        let line = format!("  /** {about} */\n");
        text += &if line.len() <= WIDTH { line } else { format!("  /**\n{}   */\n", wrapped(&about, "   * ", WIDTH)) };
        let _ = writeln!(text, "  {}?: {kind};", lower_camel_case(option.field.as_str()));
    }
    text + "}\n"
}
