//! `config check`, `config show` and `config schema`: what is wrong with the configuration, what applies and why, and what is valid.

use std::path::Path;

use leafseal_config::{SettingOrigin, TomlDocument};
use leafseal_relay::{Configuration, check_files};
use serde_json::{Map, Value, json};

use super::relay::RELAY_FILE;

use crate::arguments::{ConfigCommand, ConfiguredProgram};
use crate::config::{CliConfiguration, KEYS, engine_schema, relay_schema};
use crate::context::RunContext;
use crate::descriptors;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::identity::IdentityFiles;
use crate::note::note;
use crate::output::{print, print_json};

/// `leafseal config`.
pub(super) fn run(context: &RunContext, command: &ConfigCommand) -> CommandOutcome {
    let loaded = context.loaded();
    for warning in &loaded.warnings {
        note(format_args!("leafseal: warning: {warning}"));
    }
    match command {
        ConfigCommand::Check { relay, program } => check(context, relay.as_deref(), *program),
        ConfigCommand::Schema { program } => schema(*program),
        ConfigCommand::Show { relay, program: ConfiguredProgram::Relay, form } => {
            let beside = context.folder().join(RELAY_FILE);
            show_relay(relay.as_deref().unwrap_or(&beside), form.json)
        }
        ConfigCommand::Show { .. } if !loaded.problems.is_empty() => {
            Err(CommandFailure::usage(loaded.problems.join("\n")))
        }
        ConfigCommand::Show { form, .. } if form.json => print_json(&as_json(context)),
        ConfigCommand::Show { .. } => print(&as_toml(context)),
    }
}

/// Prints the JSON Schema of a program's file.
fn schema(program: ConfiguredProgram) -> CommandOutcome {
    let schema = match program {
        ConfiguredProgram::Serve => engine_schema(),
        ConfiguredProgram::Relay => relay_schema(),
    };
    print(&format!("{schema:#}\n"))
}

/// Prints the relay's settings as a file, each with its line where the file has it, or as JSON with all that is known of each.
fn show_relay(file: &Path, is_json: bool) -> CommandOutcome {
    super::relay::read(file)?;
    let text = std::fs::read_to_string(file).map_err(|error| CommandFailure::reading(file, &error))?;
    let document =
        TomlDocument::parse(&text).map_err(|problem| CommandFailure::usage(format!("{}:{problem}", file.display())))?;
    match is_json {
        true => print_json(&Value::Object(document.facts(Configuration::shape()))),
        false => print(&format!("# {}\n{}", file.display(), document.show(Configuration::shape()))),
    }
}

/// The findings of a check so far.
#[derive(Default)]
struct Findings {
    /// The lines to print: warnings, and parts without errors.
    lines: String,
    problems: Vec<String>,
}

impl Findings {
    /// Adds the problems of one part, or a line stating that it has none.
    fn add(&mut self, part: &str, problems: impl IntoIterator<Item = String>) {
        let before = self.problems.len();
        self.problems.extend(problems);
        if self.problems.len() == before {
            self.lines.push_str(&format!("{part}: ok\n"));
        }
    }
}

impl Findings {
    /// Adds the result of fitting the limits of one part to the descriptor limit.
    fn add_fit(&mut self, part: &str, fit: Result<Option<String>, String>) {
        match fit {
            Ok(None) => {}
            Ok(Some(warning)) => self.lines.push_str(&format!("{part}: warning: {warning}\n")),
            Err(problem) => self.problems.push(format!("{part}: {problem}")),
        }
    }
}

/// Reports everything that would stop `serve`, and `relay` if it has a file. Opens no listener.
fn check(context: &RunContext, relay: Option<&Path>, program: Option<ConfiguredProgram>) -> CommandOutcome {
    let mut findings = Findings::default();
    // The limit after the commands have raised it.
    let limit = descriptors::hard_limit();
    findings.add(&source(context), context.loaded().problems.iter().cloned());
    if program != Some(ConfiguredProgram::Relay) {
        findings.add_fit(&source(context), descriptors::fit_engine(&mut context.config().server.clone(), 0, limit));
        findings.add("engine", engine_problems(context));
    }
    let beside = context.folder().join(RELAY_FILE);
    let is_due = relay.is_some() || program == Some(ConfiguredProgram::Relay) || beside.exists();
    if is_due && program != Some(ConfiguredProgram::Serve) {
        check_relay(context, relay.unwrap_or(&beside), limit, &mut findings);
    }
    print(&findings.lines)?;
    match findings.problems.as_slice() {
        [] => Ok(()),
        problems => Err(CommandFailure::usage(problems.join("\n"))),
    }
}

/// Problems that would prevent `serve` from starting, besides errors of the configuration.
fn engine_problems(context: &RunContext) -> Vec<String> {
    let folder = context.folder();
    if !folder.is_dir() {
        let advice = "create it with leafseal keys create APP and leafseal certs init, or name another with --dir";
        return vec![format!("the folder {} does not exist: {advice}", folder.display())];
    }
    let mut problems: Vec<String> = context.store_problems().into_iter().map(|failure| failure.message).collect();
    let settings = &context.config().server;
    problems.extend(IdentityFiles::configured(context, settings.api.address.is_some()).problems());
    if settings.api.address.is_some() {
        problems.extend(settings.validate_api().err().map(|error| format!("section [api]: {error}")));
    }
    problems
}

/// Problems that would prevent `relay` from starting with this file: its own, and those of the files that it names as far as it can be
/// read.
fn check_relay(context: &RunContext, file: &Path, limit: usize, findings: &mut Findings) {
    let (configuration, mut problems) = match super::relay::examine(file) {
        Ok(examined) => examined,
        Err(failure) => return findings.problems.push(failure.message),
    };
    let name = file.display().to_string();
    if let Some(mut configuration) = configuration {
        // Of limits that are invalid themselves nothing can be said.
        if problems.is_empty() {
            findings.add_fit(&name, descriptors::fit_relay(&mut configuration, limit));
        }
        for warning in &configuration.warnings {
            findings
                .lines
                .push_str(&format!("{name}:{}:{}: warning: {}\n", warning.line, warning.column, warning.message));
        }
        let faulty = check_files(&configuration, context.folder()).into_iter();
        problems.extend(faulty.map(|error| format!("{name}: {}", CommandFailure::from(error))));
    }
    findings.add(&name, problems);
}

fn source(context: &RunContext) -> String {
    match context.file() {
        Some(file) => file.display().to_string(),
        None => "no configuration file, defaults apply".to_owned(),
    }
}

fn as_toml(context: &RunContext) -> String {
    let mut out = format!("# {}\n", source(context));
    let mut section = "";
    for key in KEYS.iter() {
        let (of_key, name) = key.parts();
        if of_key != section {
            section = of_key;
            out.push_str(&format!("\n[{section}]\n"));
        }
        let value = key.written(context.config());
        let origin = match context.loaded().origin(key.name()) {
            SettingOrigin::Default => String::new(),
            SettingOrigin::File(line) => format!("  # line {line}"),
            SettingOrigin::Environment => format!("  # {}", key.variable()),
            SettingOrigin::Flag => "  # --set".to_owned(),
        };
        out.push_str(&format!("{name} = {value}{origin}\n"));
    }
    out
}

/// Every key with its properties.
fn as_json(context: &RunContext) -> Value {
    let defaults = CliConfiguration::default();
    let mut keys = Map::new();
    for key in KEYS.iter() {
        let origin = match context.loaded().origin(key.name()) {
            SettingOrigin::Default => "default",
            SettingOrigin::File(_) => "file",
            SettingOrigin::Environment => "environment",
            SettingOrigin::Flag => "flag",
        };
        let default = key.default_text().map_or_else(|| key.json(&defaults), |text| json!(text));
        let facts = json!({
            "value": key.json(context.config()),
            "from": origin,
            "default": default,
            "takes": key.kind().to_string(),
            "about": key.about(),
        });
        keys.insert(key.name().to_owned(), facts);
    }
    Value::Object(keys)
}
