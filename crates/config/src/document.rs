//! Validates a TOML file against the [shape](crate::shape) that is declared, and describes its settings.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Problem, line_column, nearest};
use crate::shape::{Accepted, IfAbsent, KeyShape, TableShape};
use crate::{Kind, Raw};

/// Maximum number of keys of a table that an error lists.
const LISTED_KEYS_MAX: usize = 24;

/// A TOML file.
#[derive(Debug)]
pub struct TomlDocument<'t> {
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<'t> TomlDocument<'t> {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first syntax error.
    pub fn parse(text: &'t str) -> Result<Self, Problem> {
        match DeTable::parse(text) {
            Ok(root) => Ok(TomlDocument { text, root }),
            Err(error) => {
                let offset = error.span().map_or(0, |span| span.start);
                Err(Problem::at(text, offset, format!("not TOML: {}", error.message())))
            }
        }
    }

    /// The file's root table.
    pub fn root(&self) -> &DeTable<'t> {
        self.root.get_ref()
    }

    /// The file's text.
    pub fn text(&self) -> &'t str {
        self.text
    }

    /// The value of a key of a table.
    pub fn find(&self, (table, name): (&str, &str)) -> Option<&Spanned<DeValue<'t>>> {
        self.root().get(table)?.get_ref().as_table()?.get(name)
    }

    /// Returns every problem in the order of the file: unknown keys, missing keys, and invalid values.
    pub fn check(&self, shape: &TableShape) -> Vec<Problem> {
        self.check_all(shape, UnknownKeys::Refused(shape.paths()))
    }

    /// Returns the same, except that unknown keys and tables are ignored.
    pub fn check_own(&self, shape: &TableShape) -> Vec<Problem> {
        self.check_all(shape, UnknownKeys::Ignored)
    }

    fn check_all(&self, shape: &TableShape, unknown: UnknownKeys) -> Vec<Problem> {
        let mut check = Check { text: self.text, unknown, problems: Vec::new() };
        check.table(&Path::default(), self.root(), 0, shape);
        check.problems.sort_by_key(|problem| (problem.line, problem.column));
        check.problems
    }

    /// Renders TOML with every setting that has a value: the file's, with its line, or else the default.
    pub fn show(&self, shape: &TableShape) -> String {
        let mut out = String::new();
        self.walk(shape, &mut |part| {
            let line = |offset: usize| format!("  # line {}\n", line_column(self.text, offset).0);
            let written = match part {
                Part::Table { header, found } => {
                    writeln!(out, "\n{header}{}", found.map(line).unwrap_or_default().trim_end())
                }
                Part::Setting { key, found: Some(found), .. } => {
                    write!(out, "{} = {}{}", key.name, &self.text[found.span()], line(found.span().start))
                }
                Part::Setting { key, .. } => match &key.absent {
                    IfAbsent::Default { written, .. } => writeln!(out, "{} = {written}", key.name),
                    _ => Ok(()),
                },
            };
            written.expect("a String takes all");
        });
        out
    }

    /// Returns the properties of each setting by its path: value, origin, default, accepted values, and description.
    pub fn facts(&self, shape: &TableShape) -> Map<String, Value> {
        let mut facts = Map::new();
        self.walk(shape, &mut |part| {
            let Part::Setting { path, found, key } = part else { return };
            let default = key.default_text().map_or_else(|| key.default_json(), Value::from);
            let value = found.map_or_else(|| key.default_json(), |found| to_json(found.get_ref()));
            let (takes, from) = (key.accepts.to_string(), if found.is_some() { "file" } else { "default" });
            facts.insert(
                path,
                json!({"value": value, "from": from, "default": default, "takes": takes, "about": key.about}),
            );
        });
        facts
    }

    fn walk(&self, shape: &TableShape, visit: &mut dyn FnMut(Part<'_, 't>)) {
        self.walk_table(&Path::default(), Some(self.root()), shape, visit);
    }

    /// Visits the settings of a table, then its subtables.
    fn walk_table(
        &self,
        path: &Path,
        table: Option<&DeTable<'t>>,
        shape: &TableShape,
        visit: &mut dyn FnMut(Part<'_, 't>),
    ) {
        let find = |key: &KeyShape| table.and_then(|table| table.get(&*key.name));
        for key in shape.keys.iter().filter(|key| key.accepts.table().is_none() || is_empty_list(find(key))) {
            visit(Part::Setting { path: path.key(&key.name).shown, found: find(key), key });
        }
        for key in &shape.keys {
            let (path, found) = (path.key(&key.name), find(key));
            match &key.accepts {
                Accepted::Value(_) => {}
                Accepted::Tables(shape) => {
                    let Some(DeValue::Array(tables)) = found.map(Spanned::get_ref) else { continue };
                    for (index, table) in tables.iter().enumerate() {
                        let DeValue::Table(inner) = table.get_ref() else { continue };
                        visit(Part::Table { header: format!("[[{}]]", path.plain), found: Some(table.span().start) });
                        self.walk_table(&path.item(index), Some(inner), shape, visit);
                    }
                }
                Accepted::Table(shape) => {
                    let (header, place) = (format!("[{}]", path.plain), found.map(|found| found.span().start));
                    visit(Part::Table { header, found: place });
                    self.walk_table(&path, found.and_then(|found| found.get_ref().as_table()), shape, visit);
                }
            }
        }
    }
}

/// A part of a file, in the order of its shape.
enum Part<'p, 't> {
    /// A table begins.
    Table { header: String, found: Option<usize> },
    /// A setting, which may be missing in the file.
    Setting { path: String, found: Option<&'p Spanned<DeValue<'t>>>, key: &'p KeyShape },
}

/// The path of a value: `inbound[0].route[1].path` in messages, `inbound.route.path` for comparison.
#[derive(Default)]
struct Path {
    shown: String,
    plain: String,
}

impl Path {
    fn key(&self, name: &str) -> Path {
        Path { shown: joined(&self.shown, name), plain: joined(&self.plain, name) }
    }

    /// The path of the table that contains it.
    fn parent(&self) -> &str {
        self.plain.rsplit_once('.').map_or("", |(parent, _)| parent)
    }

    fn item(&self, index: usize) -> Path {
        Path { shown: format!("{}[{index}]", self.shown), plain: self.plain.clone() }
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn is_empty_list(found: Option<&Spanned<DeValue<'_>>>) -> bool {
    found.is_some_and(|found| found.get_ref().as_array().is_some_and(|list| list.is_empty()))
}

/// What happens to keys that a shape does not have.
enum UnknownKeys {
    /// They are problems; the paths of all keys, to suggest one.
    Refused(Vec<String>),
    /// They are ignored.
    Ignored,
}

struct Check<'t> {
    text: &'t str,
    unknown: UnknownKeys,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn problem(&mut self, offset: usize, message: String) {
        self.problems.push(Problem::at(self.text, offset, message));
    }

    fn table(&mut self, path: &Path, table: &DeTable<'_>, offset: usize, shape: &TableShape) {
        for (name, value) in table {
            let path = path.key(name.get_ref());
            match (shape.key(name.get_ref()), &self.unknown) {
                (Some(key), _) => self.value(&path, value, &key.accepts),
                (None, UnknownKeys::Refused(paths)) => {
                    let suggestion = suggestion(name.get_ref(), &path, shape, paths);
                    self.problem(name.span().start, format!("there is no key {}{suggestion}", path.shown));
                }
                (None, UnknownKeys::Ignored) => {}
            }
        }
        for name in shape.required().filter(|name| !table.contains_key(*name)) {
            self.problem(offset, format!("the key {} is missing", path.key(name).shown));
        }
    }

    fn value(&mut self, path: &Path, value: &Spanned<DeValue<'_>>, accepted: &Accepted) {
        let offset = value.span().start;
        match (accepted, value.get_ref()) {
            (Accepted::Value(kind), found) => {
                if let (Kind::List(_), DeValue::Array(items)) = (kind, found)
                    && let Some(index) = items.iter().position(|item| item.get_ref().as_str().is_none())
                {
                    let (path, item) = (path.item(index), &items[index]);
                    self.problem(item.span().start, format!("{} must be {}", path.shown, Kind::AnyText));
                } else if let Err(message) = kind.read(&Raw::of(found)) {
                    self.problem(offset, format!("{} {message}", path.shown));
                }
            }
            (Accepted::Table(shape), DeValue::Table(table)) => self.table(path, table, offset, shape),
            (Accepted::Table(_), _) => self.problem(offset, format!("{} must be a table", path.shown)),
            (Accepted::Tables(shape), DeValue::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    let path = path.item(index);
                    match item.get_ref() {
                        DeValue::Table(table) => self.table(&path, table, item.span().start, shape),
                        _ => self.problem(item.span().start, format!("{} must be a table", path.shown)),
                    }
                }
            }
            (Accepted::Tables(_), _) => {
                self.problem(offset, format!("{} must be a list of tables: write [[{}]]", path.shown, path.plain));
            }
        }
    }
}

/// Suggests the key that was probably meant, first from the same table, then from any; otherwise lists the table's keys.
fn suggestion(name: &str, path: &Path, shape: &TableShape, paths: &[String]) -> String {
    let here = shape.keys.iter().map(|key| key.name.as_str());
    if let Some(meant) = nearest(name, here.clone()) {
        // In a list of tables, the name alone is clearer.
        let meant = if path.shown.contains('[') { meant } else { &joined(path.parent(), meant) };
        return format!("; did you mean {meant}?");
    }
    match nearest(&path.plain, paths.iter().map(String::as_str)) {
        Some(meant) => format!("; did you mean {meant}?"),
        None if shape.keys.len() > LISTED_KEYS_MAX => "; leafseal config show lists them all".to_owned(),
        None => format!("; the keys are {}", here.collect::<Vec<_>>().join(", ")),
    }
}

fn to_json(value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(text) => json!(text),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Value::Null, Value::from)
        }
        DeValue::Boolean(flag) => json!(flag),
        DeValue::Array(list) => list.iter().map(|item| to_json(item.get_ref())).collect(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests;
