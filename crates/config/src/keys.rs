//! The keys of a program's file: found by name, read from all sources, with all problems at once, and described.

use std::collections::BTreeMap;
use std::fmt;

use crate::Raw;
use crate::document::TomlDocument;
use crate::place::{line_column, nearest};
use crate::setting::{Section, Setting, SettingTable};
use crate::shape::{Accepted, IfAbsent, KeyShape, TableShape};

/// What the name of every environment variable starts with.
const VARIABLE_START: &str = "LEAFSEAL_";

/// All settings of a program: a struct whose fields are the tables of its file.
pub struct Keys<S> {
    settings: Vec<Setting<S>>,
    tables: Vec<SettingTable>,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingOrigin {
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
    /// Whether the file may have other tables and keys, which are ignored: other programs read them.
    pub is_shared: bool,
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
    origins: BTreeMap<String, SettingOrigin>,
    /// Errors as `place: message`, with what to do.
    pub problems: Vec<String>,
    /// Warnings in the same form.
    pub warnings: Vec<String>,
}

impl<S> Loaded<S> {
    /// The origin of the value of the key with this name.
    pub fn origin(&self, name: &str) -> SettingOrigin {
        self.origins.get(name).cloned().unwrap_or(SettingOrigin::Default)
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

    /// The keys of a table.
    pub fn of_table<'k>(&'k self, table: &'k str) -> impl Iterator<Item = &'k Setting<S>> {
        self.settings.iter().filter(move |setting| setting.parts().0 == table)
    }

    /// Reads settings from their sources, and collects all problems instead of stopping at the first.
    pub fn load(&self, sources: &Sources<'_>) -> Loaded<S> {
        let mut loaded = Loaded::default();
        if let Some((name, text)) = sources.file {
            match TomlDocument::parse(text) {
                Ok(document) => {
                    let shape = self.shape();
                    let problems = if sources.is_shared { document.check_own(&shape) } else { document.check(&shape) };
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

    /// Reads the keys of a file that [`TomlDocument::check`] has found valid; invalid values are left out.
    fn read_file(&self, document: &TomlDocument<'_>, loaded: &mut Loaded<S>) {
        for setting in &self.settings {
            let Some(value) = document.find(setting.parts()) else { continue };
            if let Ok(read) = setting.kind.read(&Raw::of(value.get_ref())) {
                setting.set(&mut loaded.settings, read);
                let line = line_column(document.text(), value.span().start).0;
                loaded.origins.insert(setting.name.clone(), SettingOrigin::File(line));
            }
        }
    }

    fn read_environment(&self, sources: &Sources<'_>, loaded: &mut Loaded<S>) {
        for (name, value) in sources.environment.iter().filter(|(name, _)| name.starts_with(VARIABLE_START)) {
            match self.settings.iter().find(|setting| setting.variable() == *name) {
                Some(setting) => loaded.apply(setting, value, SettingOrigin::Environment, name),
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
                Some(setting) => loaded.apply(setting, value.trim(), SettingOrigin::Flag, "--set"),
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

    /// Returns the shape of a file: keys without a table, then the tables.
    pub fn shape(&self) -> TableShape {
        let defaults = S::default();
        let keys_of = |table: &str| self.of_table(table).map(|setting| setting.shape(&defaults)).collect();
        let mut keys: Vec<KeyShape> = keys_of("");
        keys.extend(self.tables.iter().map(|table| KeyShape {
            name: table.name.to_owned(),
            about: table.about,
            accepts: Accepted::Table(TableShape { keys: keys_of(table.name) }),
            absent: IfAbsent::NoValue { text: None },
        }));
        TableShape { keys }
    }
}

impl<S> Loaded<S> {
    fn apply(&mut self, setting: &Setting<S>, text: &str, origin: SettingOrigin, place: impl fmt::Display) {
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

    fn shape(&self, defaults: &S) -> KeyShape {
        let absent = IfAbsent::Default { written: self.written(defaults), text: self.default_text };
        let (name, accepts) = (self.parts().1.to_owned(), Accepted::Value(self.kind));
        KeyShape { name, about: self.about, accepts, absent }
    }
}

#[cfg(test)]
mod tests;
