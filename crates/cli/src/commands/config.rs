//! `config check` and `config show`: what is wrong with the configuration, and what holds and why.

use std::path::Path;

use fieldseal_relay::check_files;
use serde_json::{Map, Value, json};

use super::relay::RELAY_FILE;

use crate::arguments::ConfigCommand;
use crate::config::{Config, KEYS, Origin};
use crate::context::Context;
use crate::descriptors;
use crate::failure::{Failure, Outcome};
use crate::output::{note, print, print_json};

/// `fieldseal config`.
pub fn run(context: &Context, command: &ConfigCommand) -> Outcome {
    let loaded = context.loaded();
    for warning in &loaded.warnings {
        note(format_args!("fieldseal: warning: {warning}"));
    }
    if !loaded.problems.is_empty() {
        return Err(Failure::usage(loaded.problems.join("\n")));
    }
    match command {
        ConfigCommand::Check { relay } => check(context, relay.as_deref()),
        ConfigCommand::Show { form } if form.json => print_json(&as_json(context)),
        ConfigCommand::Show { .. } => print(&as_toml(context)),
    }
}

fn check(context: &Context, relay: Option<&Path>) -> Outcome {
    let mut told = String::new();
    let mut server = context.config().server.clone();
    // As the commands do that raise it.
    let limit = descriptors::hard_limit();
    match descriptors::fit_engine(&mut server, 0, limit) {
        Ok(None) => {}
        Ok(Some(warning)) => told.push_str(&format!("{}: warning: {warning}\n", source(context))),
        Err(error) => return Err(Failure::usage(format!("{}: {error}", source(context)))),
    }
    told.push_str(&format!("{}: nothing wrong\n", source(context)));
    let beside = context.folder().join(RELAY_FILE);
    if let Some(file) = relay.or(Some(&beside).filter(|file| file.exists()).map(|file| file.as_path())) {
        let mut configuration = super::relay::read(file)?;
        match descriptors::fit_relay(&mut configuration, limit) {
            Ok(None) => {}
            Ok(Some(warning)) => told.push_str(&format!("{}: warning: {warning}\n", file.display())),
            Err(error) => return Err(Failure::usage(format!("{}: {error}", file.display()))),
        }
        for warning in &configuration.warnings {
            told.push_str(&format!("{}:{}: warning: {}\n", file.display(), warning.line, warning.message));
        }
        let wrong = check_files(&configuration, context.folder());
        if !wrong.is_empty() {
            print(&told)?;
            let lines: Vec<String> =
                wrong.into_iter().map(|error| format!("{}: {}", file.display(), Failure::from(error))).collect();
            return Err(Failure::usage(lines.join("\n")));
        }
        told.push_str(&format!("{}: nothing wrong\n", file.display()));
    }
    print(&told)
}

fn source(context: &Context) -> String {
    match &context.loaded().file {
        Some(file) => file.display().to_string(),
        None => "no configuration file, so the defaults".to_owned(),
    }
}

fn as_toml(context: &Context) -> String {
    let mut out = format!("# {}\n", source(context));
    let mut section = "";
    for key in KEYS {
        let (of_key, name) = key.parts();
        if of_key != section {
            section = of_key;
            out.push_str(&format!("\n[{section}]\n"));
        }
        let value = key.kind.write(&(key.get)(context.config()));
        let origin = match context.loaded().origin(key) {
            Origin::Default => String::new(),
            Origin::File(line) => format!("  # line {line}"),
            Origin::Environment => format!("  # {}", key.variable()),
            Origin::Flag => "  # --set".to_owned(),
        };
        out.push_str(&format!("{name} = {value}{origin}\n"));
    }
    out
}

/// Every key with all that is known of it.
fn as_json(context: &Context) -> Value {
    let defaults = Config::default();
    let mut keys = Map::new();
    for key in KEYS {
        let plain = |value| {
            let text = key.kind.write(&value);
            text.parse::<u64>().map_or_else(|_| json!(text.trim_matches('"')), |number| json!(number))
        };
        let origin = match context.loaded().origin(key) {
            Origin::Default => "default",
            Origin::File(_) => "file",
            Origin::Environment => "environment",
            Origin::Flag => "flag",
        };
        let default = key.default_text.map_or_else(|| plain((key.get)(&defaults)), |text| json!(text));
        let facts = json!({
            "value": plain((key.get)(context.config())),
            "from": origin,
            "default": default,
            "takes": key.kind.to_string(),
            "about": key.about,
        });
        keys.insert(key.name.to_owned(), facts);
    }
    Value::Object(keys)
}
