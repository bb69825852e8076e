//! The keys of a program's file: found by name, read from all sources, with all problems at once, and described.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, json};

use crate::document::raw;
use crate::place::{line_column, nearest};
use crate::{Document, Kind, Raw, Section, Setting, SettingTable};

/// What the name of every environment variable starts with.
const VARIABLE_START: &str = "LEAFSEAL_";

/// The line after the keys of a table in a page.
const END: &str = "<!-- end of keys -->\n";

/// All settings of a program: a struct whose fields are the tables of its file.
pub struct Keys<S> {
    settings: Vec<Setting<S>>,
    tables: Vec<SettingTable>,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The default.
    Default,
    /// A line of the file, counted from 1.
    File(usize),
    /// An environment variable.
    Environment,
    /// `--set`.
    Flag,
}

/// The sources of settings, later ones override earlier ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sources<'a> {
    /// The file's name, for messages, and its text.
    pub file: Option<(&'a str, &'a str)>,
    /// The environment: names and values.
    pub environment: &'a [(String, String)],
    /// Variables that are not those of keys.
    pub other_variables: &'a [&'a str],
    /// `KEY=VALUE` from flags.
    pub overrides: &'a [String],
}

/// Settings and the origins of their values.
#[derive(Debug, Default)]
pub struct Loaded<S> {
    /// The settings.
    pub settings: S,
    /// Keys that are set by something other than the default.
    origins: BTreeMap<String, Origin>,
    /// Errors as `place: message`, with what to do.
    pub problems: Vec<String>,
    /// Warnings in the same form.
    pub warnings: Vec<String>,
}

impl<S> Loaded<S> {
    /// The origin of the value of the key with this name.
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).cloned().unwrap_or(Origin::Default)
    }

    /// Whether the key with this name is set by something other than the default.
    pub fn is_set(&self, name: &str) -> bool {
        self.origins.contains_key(name)
    }
}

impl<S: Section + Default> Default for Keys<S> {
    fn default() -> Self {
        Keys::new(S::settings())
    }
}

impl<S: Section + Default> Keys<S> {
    /// The keys of these settings, in the order of their tables; in a table, the address of a listener comes first.
    pub fn new(mut settings: Vec<Setting<S>>) -> Self {
        let mut tables: Vec<SettingTable> = Vec::new();
        for table in S::tables() {
            if !tables.iter().any(|known| known.name == table.name) {
                tables.push(table);
            }
        }
        let place = |setting: &Setting<S>| {
            let (table, name) = setting.parts();
            (tables.iter().position(|known| known.name == table), name != "address")
        };
        settings.sort_by_key(place);
        Keys { settings, tables }
    }

    /// Every key.
    pub fn iter(&self) -> impl Iterator<Item = &Setting<S>> {
        self.settings.iter()
    }

    /// The tables of the file.
    pub fn tables(&self) -> &[SettingTable] {
        &self.tables
    }

    /// The key with this name.
    pub fn find(&self, name: &str) -> Option<&Setting<S>> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// The accepted values of the key with this name.
    pub fn kind(&self, name: &str) -> Option<&Kind<'static>> {
        self.find(name).map(Setting::kind)
    }

    /// The keys of a table.
    pub fn of_table<'k>(&'k self, table: &'k str) -> impl Iterator<Item = &'k Setting<S>> {
        self.settings.iter().filter(move |setting| setting.parts().0 == table)
    }

    /// Reads settings from their sources, and collects all problems instead of stopping at the first.
    pub fn load(&self, sources: &Sources<'_>) -> Loaded<S> {
        let mut loaded = Loaded::default();
        if let Some((name, text)) = sources.file {
            match Document::parse(text) {
                Ok(document) => {
                    let problems = document.check(&self.schema(), |name| self.kind(name));
                    loaded.problems.extend(problems.iter().map(|problem| format!("{name}:{problem}")));
                    self.read_file(&document, &mut loaded);
                }
                Err(problem) => loaded.problems.push(format!("{name}:{problem}")),
            }
        }
        self.read_environment(sources, &mut loaded);
        self.read_overrides(sources.overrides, &mut loaded);
        loaded
    }

    /// Reads the settings of a file that [`Document::check`] has found valid.
    pub fn read(&self, document: &Document<'_>) -> S {
        let mut loaded = Loaded::default();
        self.read_file(document, &mut loaded);
        loaded.settings
    }

    /// Reads the keys of a file that [`Document::check`] has found valid; invalid values are left out.
    fn read_file(&self, document: &Document<'_>, loaded: &mut Loaded<S>) {
        for setting in &self.settings {
            let Some(value) = document.find(setting.parts()) else { continue };
            if let Ok(read) = setting.kind.read(&raw(value.get_ref())) {
                setting.set(&mut loaded.settings, read);
                let line = line_column(document.text(), value.span().start).0;
                loaded.origins.insert(setting.name.clone(), Origin::File(line));
            }
        }
    }

    fn read_environment(&self, sources: &Sources<'_>, loaded: &mut Loaded<S>) {
        for (name, value) in sources.environment.iter().filter(|(name, _)| name.starts_with(VARIABLE_START)) {
            match self.settings.iter().find(|setting| setting.variable() == *name) {
                Some(setting) => loaded.apply(setting, value, Origin::Environment, name),
                None if sources.other_variables.contains(&name.as_str()) => {}
                // Not an error: an orchestrator defines such variables for a service called leafseal.
                None => loaded.warnings.push(format!("{name}: no key has this environment variable; it is ignored")),
            }
        }
    }

    fn read_overrides(&self, overrides: &[String], loaded: &mut Loaded<S>) {
        for setting in overrides {
            let Some((name, value)) = setting.split_once('=') else {
                loaded.problems.push("--set: write KEY=VALUE, such as --set engine.keying=session".to_owned());
                continue;
            };
            match self.find(name.trim()) {
                Some(setting) => loaded.apply(setting, value.trim(), Origin::Flag, "--set"),
                None => loaded.problems.push(format!("--set: there is no key {name}{}", self.suggestion(name))),
            }
        }
    }

    /// The key that was probably meant: the same key in another table, or one that differs by a letter or two.
    fn suggestion(&self, name: &str) -> String {
        match nearest(name, self.settings.iter().map(Setting::name)) {
            Some(meant) => format!("; did you mean {meant}?"),
            None => ": docs/configuration.md and leafseal config show list them all".to_owned(),
        }
    }

    /// The JSON Schema (draft 2020-12) of a file. Where a default differs between machines, `defaultText` describes it.
    pub fn schema(&self) -> serde_json::Value {
        let defaults = S::default();
        let tables: Map<String, serde_json::Value> = self
            .tables
            .iter()
            .map(|table| {
                let keys = self.of_table(table.name);
                let keys: Map<String, serde_json::Value> =
                    keys.map(|setting| (setting.parts().1.to_owned(), setting.schema(&defaults))).collect();
                let about = table.about;
                let schema =
                    json!({"description": about, "type": "object", "properties": keys, "additionalProperties": false});
                (table.name.to_owned(), schema)
            })
            .collect();
        json!({"type": "object", "properties": tables, "additionalProperties": false})
    }

    /// Adds the tables to the schema of a file that has others, or some of these with other keys.
    pub fn add_to_schema(&self, schema: &mut serde_json::Value) {
        let serde_json::Value::Object(mut tables) = self.schema()["properties"].take() else { return };
        let others = schema["properties"].as_object_mut().map(std::mem::take).unwrap_or_default();
        for (name, mut other) in others {
            if let Some(table) = tables.get_mut(&name) {
                if let (Some(keys), Some(more)) = (other["properties"].as_object_mut(), table["properties"].as_object())
                {
                    keys.extend(more.clone());
                }
                other["additionalProperties"] = json!(false);
                *table = other;
            } else {
                tables.insert(name, other);
            }
        }
        schema["properties"] = serde_json::Value::Object(tables);
        schema["additionalProperties"] = json!(false);
    }

    /// Writes the tables of keys into a page, each between the lines `<!-- keys of [TABLE] -->` and `<!-- end of keys -->`.
    ///
    /// # Errors
    /// The line that the page lacks.
    pub fn fill(&self, page: &str) -> Result<String, String> {
        let mut page = page.to_owned();
        for table in &self.tables {
            let begin = format!("<!-- keys of [{}] -->\n", table.name);
            let (head, rest) = page.split_once(&begin).ok_or(&begin)?;
            let (_, tail) = rest.split_once(END).ok_or(END)?;
            page = format!("{head}{begin}\n{}\n{END}{tail}", self.markdown(table.name));
        }
        Ok(page)
    }

    /// The rows of a table of the documentation, in Markdown.
    pub fn markdown(&self, table: &str) -> String {
        let defaults = S::default();
        let mut out = "| key | default | value | meaning |\n|---|---|---|---|\n".to_owned();
        for setting in self.of_table(table) {
            let default = match setting.default_text {
                Some(text) => text.to_owned(),
                None => format!("`{}`", setting.written(&defaults)),
            };
            let (name, kind, about) = (setting.parts().1, &setting.kind, setting.about);
            out.push_str(&format!("| `{name}` | {default} | {kind} | {about} |\n"));
        }
        out
    }
}

impl<S> Loaded<S> {
    fn apply(&mut self, setting: &Setting<S>, text: &str, origin: Origin, place: impl fmt::Display) {
        match setting.kind.read(&Raw::Untyped(text)) {
            Ok(value) => {
                setting.set(&mut self.settings, value);
                self.origins.insert(setting.name.clone(), origin);
            }
            Err(message) => self.problems.push(format!("{place}: {} {message}", setting.name)),
        }
    }
}

impl<S> Setting<S> {
    /// The environment variable.
    pub fn variable(&self) -> String {
        format!("{VARIABLE_START}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    fn schema(&self, defaults: &S) -> serde_json::Value {
        let mut schema = self.kind.schema();
        schema["description"] = json!(self.about);
        schema["default"] = self.json(defaults);
        if let Some(text) = self.default_text {
            schema["defaultText"] = json!(text);
        }
        schema
    }
}

#[cfg(test)]
mod tests;
