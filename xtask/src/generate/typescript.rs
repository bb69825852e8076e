//! The names and options of `@leafseal/wire`, `@leafseal/client` and its browser build.

use std::fmt::Write;

use leafseal_errors::{ErrorCode, Interface};
use leafseal_protocol::{
    FieldInfo, FieldKind, Method, OptionInfo, OptionKind, QueryInfo, RecordInfo, ResultShape, Surface,
};

use super::GeneratedFile;
use super::names::{MARK, client_codes, lower_camel_case};
use super::options::{OptionGroup, is_of_all_documents, options_of, wrapped};
use super::queries::{arguments, checked, is_of_app, result_types};
use crate::source::SourceFile;

const CODES: &str = "bindings/node/client/src/codes_generated.ts";
const CODES_OF_BROWSERS: &str = "bindings/node/client/src/browser/codes_generated.ts";

const METHODS: &str = "bindings/node/client/src/methods_generated.ts";
const OPTIONS_OF_METHODS: &str = "bindings/node/client/src/options_generated.ts";
const OPTIONS: &str = "bindings/node/wire/options.d.ts";
const QUERIES: &str = "bindings/node/wire/queries.d.ts";
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
        GeneratedFile { path: CODES.into(), text: codes },
        GeneratedFile { path: CODES_OF_BROWSERS.into(), text: browser },
        GeneratedFile { path: METHODS.into(), text: methods(&checked()?) },
        GeneratedFile { path: QUERIES.into(), text: queries(&checked()?) },
        GeneratedFile { path: OPTIONS.into(), text: options() },
        GeneratedFile { path: OPTIONS_OF_METHODS.into(), text: options_of_methods() },
    ])
}

fn union(about: &str, name: &str, codes: impl Iterator<Item = ErrorCode>) -> String {
    let mut text = format!("// {MARK}\n\n/** {about} */\nexport type {name} =");
    for code in codes {
        let _ = write!(text, "\n  /** {} */\n  | '{code}'", code.about());
    }
    text + ";\n"
}

fn methods(queries: &[QueryInfo]) -> String {
    let mut text =
        format!("// {MARK}\n\nimport type {{ {}, Queries }} from '@leafseal/wire';\n\n", names_of_results(false));
    text.push_str("import type { AppOptions, CallOptions } from './client.js';\n\n");
    let _ = writeln!(text, "export type {{ {} }} from '@leafseal/wire';\n", names_of_results(true));
    text.push_str("/** A method of the engine. */\nexport type Method =");
    for method in Method::ALL {
        let _ = write!(text, "\n  | '{}'", method.as_str());
    }
    text.push_str(QUERIES_CLASS);
    for query in queries {
        text += &call(query);
    }
    text + "}\n"
}

const QUERIES_CLASS: &str = ";

/** The calls of a client that carry no values of users. */
export abstract class QueryCalls {
  protected abstract appOf(options: AppOptions): string;

  protected abstract query<M extends keyof Queries>(
    method: M, params: Queries[M]['params'], options: AppOptions,
  ): Promise<Queries[M]['result']>;
";

fn names_of_results(has_inspection: bool) -> String {
    let mut names: Vec<&str> = result_types().map(|record| record.name).collect();
    names.retain(|name| has_inspection || *name != "Inspection");
    names.sort_unstable();
    names.join(", ")
}

/// A function of the client.
fn call(query: &QueryInfo) -> String {
    let (method, name) = (query.method, lower_camel_case(query.method));
    let mut params: Vec<String> =
        arguments(query).map(|info| format!("{}: string, ", lower_camel_case(info.field.as_str()))).collect();
    let options = if is_of_app(query) { "AppOptions" } else { "CallOptions" };
    let signature = format!("{}options: {options} = {{}}", params.concat());
    params = arguments(query).map(|info| lower_camel_case(info.field.as_str())).collect();
    if is_of_app(query) {
        params.insert(0, "app: this.appOf(options)".to_owned());
    }
    let params = if params.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", params.join(", ")) };
    let made = format!("this.query('{method}', {params}, options)");
    let (kind, made) = match query.result {
        ResultShape::Record(record) => (record.name.to_owned(), made),
        ResultShape::Field(record) => {
            let info = &record.fields[0];
            (kind_of(info), format!("(await {made}).{}", lower_camel_case(info.field.as_str())))
        }
        ResultShape::Facts => ("Map<string, string>".to_owned(), format!("new Map(Object.entries(await {made}))")),
    };
    let about = doc(&query.summary(), "  ");
    format!("\n{about}  async {name}({signature}): Promise<{kind}> {{\n    return {made};\n  }}\n")
}

/// The types of `wire`.
fn queries(queries: &[QueryInfo]) -> String {
    let mut text = format!("// {MARK}\n");
    for record in result_types() {
        let _ = write!(
            text,
            "\n{}export interface {} {{\n{}}}\n",
            doc(&record.about(), ""),
            record.name,
            fields_of(record, "  ")
        );
    }
    text.push_str(
        "\n/** The parameters and the result of each method without values of users. */\nexport interface Queries {\n",
    );
    for query in queries {
        let result = match query.result {
            ResultShape::Record(record) => record.name.to_owned(),
            ResultShape::Field(record) => format!("{{\n{}    }}", fields_of(record, "      ")),
            ResultShape::Facts => "Record<string, string>".to_owned(),
        };
        let params = match query.params.fields {
            [] => "Record<string, never>".to_owned(),
            _ => format!("{{\n{}    }}", fields_of(query.params, "      ")),
        };
        let about = doc(&query.summary(), "  ");
        let _ = writeln!(text, "{about}  {}: {{\n    params: {params};\n    result: {result};\n  }};", query.method);
    }
    text + "}\n"
}

fn fields_of(record: &RecordInfo, indent: &str) -> String {
    let mut text = String::new();
    for info in record.fields {
        let mark = if info.is_optional { "?" } else { "" };
        text += &doc(&info.about(), indent);
        let _ = writeln!(text, "{indent}{}{mark}: {};", lower_camel_case(info.field.as_str()), kind_of(info));
    }
    text
}

fn kind_of(info: &FieldInfo) -> String {
    match info.kind {
        FieldKind::Text => "string".to_owned(),
        FieldKind::Word(list) => list.joined("'", " | ", " | "),
        FieldKind::Flag => "boolean".to_owned(),
        FieldKind::Number => "number".to_owned(),
        FieldKind::Bytes => "Buffer".to_owned(),
        FieldKind::Texts => "string[]".to_owned(),
    }
}

/// A comment for documentation, on one line if it fits.
fn doc(about: &str, indent: &str) -> String {
    let line = format!("{indent}/** {about} */\n");
    if line.len() <= WIDTH {
        return line;
    }
    format!("{indent}/**\n{}{indent} */\n", wrapped(about, &format!("{indent} * "), WIDTH))
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
        + &interface("InspectionOptions", "Options of `inspect`.", &of(OptionGroup::Inspect))
}

/// Characters of a line of the client's code.
const LINE_SIZE_MAX: usize = 140;

/// The names of the options that each method has.
fn options_of_methods() -> String {
    let mut text = format!(
        "// {MARK}\n\nimport type {{ Method }} from './methods_generated.js';\n\n/** The options of each method that are data of the \
         protocol, except the app. */\nexport const OPTIONS: Readonly<Partial<Record<Method, readonly string[]>>> = {{\n"
    );
    for method in Method::ALL {
        let names: Vec<String> = options_of(*method)
            .filter(|option| option.surfaces.contains(&Surface::Clients))
            .map(|option| format!("'{}'", lower_camel_case(option.field.as_str())))
            .collect();
        if names.is_empty() {
            continue;
        }
        let line = format!("  {}: [{}],", method.as_str(), names.join(", "));
        if line.len() <= LINE_SIZE_MAX {
            text += &(line + "\n");
            continue;
        }
        let wrapped = wrapped(&(names.join(", ") + ","), "    ", LINE_SIZE_MAX);
        let _ = writeln!(text, "  {}: [\n{}\n  ],", method.as_str(), wrapped.trim_end());
    }
    text + "};\n"
}

fn interface(name: &str, about: &str, options: &[&OptionInfo]) -> String {
    let mut text = format!("\n/** {about} */\nexport interface {name} {{\n");
    for option in options {
        let kind = match option.kind {
            OptionKind::Flag => "boolean".to_owned(),
            OptionKind::Word(list) => list.joined("'", " | ", " | "),
            OptionKind::Text | OptionKind::Words(_) => "string".to_owned(),
            OptionKind::Number => "number".to_owned(),
        };
        text += &doc(&option.summary(), "  ");
        let _ = writeln!(text, "  {}?: {kind};", lower_camel_case(option.field.as_str()));
    }
    text + "}\n"
}
