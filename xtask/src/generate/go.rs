//! The names and options of the Go client.

use std::fmt::Write;

use leafseal_protocol::{OptionKind, Surface};

use super::GeneratedFile;
use super::go_queries::methods;
use super::names::{MARK, camel_case_of_go, client_codes};
use super::options::{OptionGroup, about_with_words, is_of_documents, wrapped};
use super::queries::checked;
use crate::source::SourceFile;

const CODES: &str = "clients/go/codes_generated.go";
const METHODS: &str = "clients/go/methods_generated.go";
const OPTIONS: &str = "clients/go/options_generated.go";
const WIDTH: usize = 138;

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    Ok(vec![
        GeneratedFile { path: CODES.into(), text: codes() },
        GeneratedFile { path: METHODS.into(), text: methods(&checked()?) },
        GeneratedFile { path: OPTIONS.into(), text: options() },
    ])
}

fn codes() -> String {
    let mut text = format!("// {MARK}\n\npackage leafseal\n\n");
    text.push_str("// Codes of errors. A newer engine may send others.\nconst (\n");
    for code in client_codes() {
        let _ = writeln!(text, "\t// {}\n\tCode{} = \"{code}\"", code.about(), camel_case_of_go(code.as_str()));
    }
    text.push_str(")\n");
    text
}

fn options() -> String {
    let mut text = format!("// {MARK}\n\npackage leafseal\n\nimport \"time\"\n");
    text += &group(OptionGroup::Encrypt, "EncryptOptions", "options of encryption");
    text += &group(OptionGroup::Decrypt, "DecryptOptions", "options of decryption");
    text += &group(OptionGroup::Rewrap, "RewrapOptions", "options of Rewrap");
    text += &of_inspection();
    text
}

/// What Go's documentation says of a time limit.
const TIMEOUT: &str = "\t// Timeout overrides the client's.\n\tTimeout time.Duration\n";

/// Inspection uses no app of the client, and makes no report.
fn of_inspection() -> String {
    let mut text = "\n// InspectOptions are options of Inspect.\ntype InspectOptions struct {\n".to_owned();
    text.push_str("\t// App opens the envelopes to read the fields inside, which requires the permission to decrypt.\n\tApp string\n");
    text.push_str(TIMEOUT);
    for option in OptionGroup::Inspect.options(Surface::Clients) {
        text += &wrapped(&about_with_words(option), "\t// ", WIDTH);
        let _ = writeln!(text, "\t{} string", camel_case_of_go(option.field.as_str()));
    }
    text + "}\n"
}

fn group(group: OptionGroup, name: &str, what: &str) -> String {
    let mut text = format!("\n// {name} are {what}.\ntype {name} struct {{\n");
    text.push_str("\t// App overrides the client's.\n\tApp string\n");
    text.push_str(TIMEOUT);
    let mut fields = String::new();
    for option in group.options(Surface::Clients) {
        let (wire, go) = (option.field.as_str(), camel_case_of_go(option.field.as_str()));
        let kind = if option.kind == OptionKind::Flag { "bool" } else { "string" };
        text += &wrapped(&about_with_words(option), "\t// ", WIDTH);
        let _ = writeln!(text, "\t{go} {kind}");
        let (documents, files) = (is_of_documents(option), group.is_of_files(option));
        let _ = writeln!(fields, "\t\t{{\"{go}\", \"{wire}\", o.{go}, {documents}, {files}}},");
    }
    if group != OptionGroup::Rewrap {
        let without = group.without_selector();
        let _ = writeln!(text, "\t// Documents: JSONPath selectors (RFC 9535). Default: {without}.\n\tSelect []string");
        fields.push_str("\t\t{\"Select\", \"select\", o.Select, true, false},\n");
    }
    text.push_str(
        "\t// OnReport receives the engine's report before the call returns.\n\tOnReport func(Report)\n}\n\n",
    );
    let _ = write!(text, "func (o {name}) options() []option {{\n\treturn []option{{\n{fields}\t}}\n}}\n\n");
    let _ = write!(
        text,
        "func (o {name}) common() (app string, timeout time.Duration, onReport func(Report)) {{\n\treturn o.App, o.Timeout, \
         o.OnReport\n}}\n"
    );
    text
}
