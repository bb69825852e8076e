//! The names and options of the Java client.

use std::fmt::Write;

use leafseal_protocol::{Method, OptionInfo, OptionKind, Surface, WordList};

use super::GeneratedFile;
use super::java_queries::{self, doc};
use super::names::{MARK, client_codes, lower_camel_case};
use super::options::{OptionGroup, WORD_LISTS, is_of_documents};
use super::queries::{checked, result_types};
use crate::source::SourceFile;

macro_rules! path {
    ($class:literal) => {
        concat!("bindings/java/client/src/main/java/io/leafseal/client/", $class, ".java")
    };
}

/// The files of [`WORD_LISTS`].
const WORDS: [&str; 8] = [
    path!("Scheme"),
    path!("Curve"),
    path!("Keying"),
    path!("OnFailure"),
    path!("RewrapFailure"),
    path!("OtherCase"),
    path!("PathBinding"),
    path!("Reseal"),
];

/// The class of a group's options.
struct Class {
    group: OptionGroup,
    name: &'static str,
    about: &'static str,
    defaults: &'static str,
    /// The class that has the options that are no data.
    base: &'static str,
}

const ENCRYPT: Class = Class {
    group: OptionGroup::Encrypt,
    name: "EncryptOptions",
    about: "Options of encryption. Those of documents are refused for values and files.",
    defaults: "The defaults: the client's app and time limit, no role, the engine's curve and keying.",
    base: "ValueOptions",
};
const DECRYPT: Class = Class {
    group: OptionGroup::Decrypt,
    name: "DecryptOptions",
    about: "Options of decryption. Those of documents are refused for values and files.",
    defaults: "The defaults: the client's app and time limit, any role; an envelope that does not open fails the call.",
    base: "ValueOptions",
};
const CALL: Class = Class {
    group: OptionGroup::Rewrap,
    name: "CallOptions",
    about: "Options of all other calls. Those beside app and time limit are for {@link LeafsealClient#rewrap}; inspection has the context \
            and what is accepted.",
    defaults: "The defaults: the client's app and time limit.",
    base: "ReportOptions",
};

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let mut outputs = vec![
        GeneratedFile { path: path!("ErrorCode").into(), text: codes() },
        GeneratedFile { path: path!("Method").into(), text: methods() },
        GeneratedFile { path: path!("QueryCalls").into(), text: java_queries::calls(&checked()?) },
        GeneratedFile { path: path!("EncryptOptions").into(), text: options(&ENCRYPT) },
        GeneratedFile { path: path!("DecryptOptions").into(), text: options(&DECRYPT) },
        GeneratedFile { path: path!("CallOptions").into(), text: options(&CALL) },
    ];
    outputs.extend(result_types().map(|record| {
        let path = path!("#").replace('#', record.name);
        GeneratedFile { path: path.into(), text: java_queries::type_of(record) }
    }));
    outputs.extend(
        WORDS.into_iter().zip(WORD_LISTS).map(|(path, list)| GeneratedFile { path: path.into(), text: words(list) }),
    );
    Ok(outputs)
}

fn codes() -> String {
    let mut text = format!("// {MARK}\npackage io.leafseal.client;\n\nimport java.util.Set;\n\n");
    text.push_str("/** Codes of {@link LeafsealException#code}. A newer engine may send others. */\n");
    text.push_str("public final class ErrorCode {\n");
    for code in client_codes() {
        let (about, name) = (code.about(), code.as_str().to_uppercase());
        let _ = writeln!(text, "    /** {about} */\n    public static final String {name} = \"{code}\";");
    }
    let data = client_codes().filter(|code| code.is_caused_by_data());
    let data: Vec<String> = data.map(|code| code.as_str().to_uppercase()).collect();
    text.push_str("\n    /** The codes that a document or values alone can cause. */\n");
    let data = data.join(",\n            ");
    let _ = writeln!(text, "    public static final Set<String> CAUSED_BY_DATA = Set.of(\n            {data});");
    text.push_str("\n    private ErrorCode() {}\n}\n");
    text
}

fn methods() -> String {
    let mut text =
        format!("// {MARK}\npackage io.leafseal.client;\n\n/** Methods of the engine. */\nfinal class Method {{\n");
    for name in Method::ALL.iter().map(|method| method.as_str()) {
        let _ = writeln!(text, "    static final String {} = \"{name}\";", name.to_uppercase());
    }
    text + "\n    private Method() {}\n}\n"
}

/// The name of a word's constant.
fn constant(word: &str) -> String {
    word.to_uppercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

fn words(list: &WordList) -> String {
    let mut text =
        format!("// {MARK}\npackage io.leafseal.client;\n\n{}public enum {} {{\n", doc(list.about, ""), list.name);
    let cases =
        list.words.iter().map(|(word, about)| format!("{}    {}(\"{word}\")", doc(about, "    "), constant(word)));
    text += &cases.collect::<Vec<_>>().join(",\n");
    let _ = write!(
        text,
        ";\n\n    final String word;\n\n    {}(String word) {{\n        this.word = word;\n    }}\n\n    \
         static String word({0} of) {{\n        return of == null ? null : of.word;\n    }}\n}}\n",
        list.name
    );
    text
}

fn options(class: &Class) -> String {
    let Class { group, name, about, defaults, base } = class;
    let mut text = format!("// {MARK}\npackage io.leafseal.client;\n\nimport java.util.List;\n\n{}", doc(about, ""));
    let _ = write!(
        text,
        "public final class {name} extends {base}<{name}> {{\n    private static final {name} DEFAULTS = new {name}();\n\n"
    );
    let options: Vec<&OptionInfo> = group.options(Surface::Clients).collect();
    for option in &options {
        let _ = writeln!(text, "    private {} {};", type_of(option), lower_camel_case(option.field.as_str()));
    }
    let _ = write!(
        text,
        "\n    private {name}() {{}}\n\n{}    public static {name} defaults() {{\n        return DEFAULTS;\n    }}\n",
        doc(defaults, "    ")
    );
    for option in &options {
        let (field, kind) = (lower_camel_case(option.field.as_str()), type_of(option));
        let _ = write!(
            text,
            "\n{}    public {name} {field}({kind} value) {{\n        {name} copy = copy();\n        copy.{field} = value;\n        \
             return copy;\n    }}\n",
            doc(&option.summary(), "    ")
        );
    }
    text.push_str("\n    @Override\n    List<Sent> sent() {\n        return List.of(");
    let sent = options.iter().map(|option| {
        let (wire, field) = (option.field.as_str(), lower_camel_case(option.field.as_str()));
        let value = match option.kind {
            OptionKind::Word(list) => format!("{}.word({field})", list.name),
            _ => field.clone(),
        };
        let (documents, files) = (is_of_documents(option), group.is_of_files(option));
        format!("\n                new Sent(\"{field}\", \"{wire}\", {value}, {documents}, {files})")
    });
    text + &sent.collect::<Vec<_>>().join(",") + ");\n    }\n}\n"
}

fn type_of(option: &OptionInfo) -> &'static str {
    match option.kind {
        OptionKind::Flag => "boolean",
        OptionKind::Word(list) => list.name,
        OptionKind::Text | OptionKind::Words(_) => "String",
        OptionKind::Number => "Integer",
    }
}
