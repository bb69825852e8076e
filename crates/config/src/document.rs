//! Validates a TOML file against its JSON Schema and describes its settings.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Problem, line_column, nearest};
use crate::{Kind, Raw};

/// Maximum number of keys of a table that an error lists.
const LISTED_KEYS_MAX: usize = 24;

/// A TOML file.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    root: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first syntax error.
    pub fn parse(text: &'t str) -> Result<Self, Problem> {
        match DeTable::parse(text) {
            Ok(root) => Ok(Document { text, root }),
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

    /// Returns everything that violates a schema, in the order of the file: unknown keys, missing keys, and invalid values. The values of
    /// settings that are declared must be of their kind, of which a schema does not have all.
    pub fn check<'k>(&self, schema: &Value, declared: impl Fn(&str) -> Option<&'k Kind<'static>>) -> Vec<Problem> {
        let mut names = Vec::new();
        collect_names("", schema, &mut names);
        let mut check = Check { text: self.text, names, declared: &declared, problems: Vec::new() };
        check.table(&Path::default(), self.root(), 0, schema);
        check.problems.sort_by_key(|problem| (problem.line, problem.column));
        check.problems
    }

    /// Renders TOML with every setting that has a value: the file's, with its line, or else the schema's default.
    pub fn show(&self, schema: &Value) -> String {
        let mut out = String::new();
        self.walk(schema, &mut |part| {
            let line = |offset: usize| format!("  # line {}\n", line_column(self.text, offset).0);
            let written = match part {
                Part::Table { header, found } => {
                    writeln!(out, "\n{header}{}", found.map(line).unwrap_or_default().trim_end())
                }
                Part::Setting { name, found: Some(found), .. } => {
                    write!(out, "{name} = {}{}", &self.text[found.span()], line(found.span().start))
                }
                Part::Setting { name, schema, .. } => match schema.get("default") {
                    Some(default) => writeln!(out, "{name} = {default}"),
                    None => Ok(()),
                },
            };
            written.expect("a String takes all");
        });
        out
    }

    /// Returns the properties of each setting by its path: value, origin, default, accepted values, and description.
    pub fn facts(&self, schema: &Value) -> Map<String, Value> {
        let mut facts = Map::new();
        self.walk(schema, &mut |part| {
            let Part::Setting { path, found, schema, .. } = part else { return };
            let default = schema.get("defaultText").or(schema.get("default"));
            let value = found.map(|found| to_json(found.get_ref())).or_else(|| schema.get("default").cloned());
            let takes = Kind::of(schema).map_or_else(|| "a list".to_owned(), |kind| kind.to_string());
            let from = if found.is_some() { "file" } else { "default" };
            facts.insert(
                path,
                json!({"value": value, "from": from, "default": default, "takes": takes, "about": schema.get("description")}),
            );
        });
        facts
    }

    fn walk(&self, schema: &Value, visit: &mut dyn FnMut(Part<'_, 't>)) {
        self.walk_table(&Path::default(), Some(self.root()), schema, visit);
    }

    /// Visits the settings of a table, then its subtables.
    fn walk_table(
        &self,
        path: &Path,
        table: Option<&DeTable<'t>>,
        schema: &Value,
        visit: &mut dyn FnMut(Part<'_, 't>),
    ) {
        let found = |name: &str| table.and_then(|table| table.get(name));
        let settings = properties(schema).filter(|(name, schema)| !holds_tables(schema) || is_empty_list(found(name)));
        for (name, schema) in settings {
            visit(Part::Setting { path: path.key(name).shown, name, found: found(name), schema });
        }
        for (name, schema) in properties(schema).filter(|(_, schema)| holds_tables(schema)) {
            let (path, found) = (path.key(name), found(name));
            if let Some(items) = schema.get("items") {
                let Some(DeValue::Array(tables)) = found.map(Spanned::get_ref) else { continue };
                for (index, table) in tables.iter().enumerate() {
                    let DeValue::Table(inner) = table.get_ref() else { continue };
                    visit(Part::Table { header: format!("[[{}]]", path.plain), found: Some(table.span().start) });
                    self.walk_table(&path.item(index), Some(inner), items, visit);
                }
            } else {
                let inner = found.and_then(|found| found.get_ref().as_table());
                visit(Part::Table {
                    header: format!("[{}]", path.plain),
                    found: found.map(|found| found.span().start),
                });
                self.walk_table(&path, inner, schema, visit);
            }
        }
    }
}

/// A part of a file, in the order of its schema.
enum Part<'p, 't> {
    /// A table begins.
    Table { header: String, found: Option<usize> },
    /// A setting, which may be missing in the file.
    Setting { path: String, name: &'p str, found: Option<&'p Spanned<DeValue<'t>>>, schema: &'p Value },
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

fn properties(schema: &Value) -> impl Iterator<Item = (&str, &Value)> + Clone {
    schema["properties"].as_object().into_iter().flatten().map(|(name, schema)| (name.as_str(), schema))
}

/// Whether a value is a table, or a list of tables.
fn holds_tables(schema: &Value) -> bool {
    schema.get("properties").is_some() || schema["items"].get("properties").is_some()
}

fn is_empty_list(found: Option<&Spanned<DeValue<'_>>>) -> bool {
    found.is_some_and(|found| found.get_ref().as_array().is_some_and(|list| list.is_empty()))
}

/// Collects the path of every key, without list indexes.
fn collect_names(path: &str, schema: &Value, names: &mut Vec<String>) {
    for (name, schema) in properties(schema) {
        let path = joined(path, name);
        collect_names(&path, schema, names);
        collect_names(&path, &schema["items"], names);
        names.push(path);
    }
}

struct Check<'t, 'k> {
    text: &'t str,
    names: Vec<String>,
    declared: &'t dyn Fn(&str) -> Option<&'k Kind<'static>>,
    problems: Vec<Problem>,
}

impl Check<'_, '_> {
    fn problem(&mut self, offset: usize, message: String) {
        self.problems.push(Problem::at(self.text, offset, message));
    }

    fn table(&mut self, path: &Path, table: &DeTable<'_>, offset: usize, schema: &Value) {
        for (key, value) in table {
            let path = path.key(key.get_ref());
            match schema["properties"].get(key.get_ref().as_ref()) {
                Some(schema) => self.value(&path, value, schema),
                None => {
                    let suggestion = self.suggestion(key.get_ref(), &path, schema);
                    self.problem(key.span().start, format!("there is no key {}{suggestion}", path.shown));
                }
            }
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in required.filter(|name| !table.contains_key(*name)) {
            self.problem(offset, format!("the key {} is missing", path.key(name).shown));
        }
    }

    /// Suggests the key that was probably meant, first from the same table, then from any; otherwise lists the table's keys.
    fn suggestion(&self, key: &str, path: &Path, schema: &Value) -> String {
        let here = properties(schema).map(|(name, _)| name);
        if let Some(meant) = nearest(key, here.clone()) {
            // In a list of tables, the name alone is clearer.
            let meant = if path.shown.contains('[') { meant } else { &joined(path.parent(), meant) };
            return format!("; did you mean {meant}?");
        }
        match nearest(&path.plain, self.names.iter().map(String::as_str)) {
            Some(meant) => format!("; did you mean {meant}?"),
            None if here.clone().count() > LISTED_KEYS_MAX => "; leafseal config show lists them all".to_owned(),
            None => format!("; the keys are {}", here.collect::<Vec<_>>().join(", ")),
        }
    }

    fn value(&mut self, path: &Path, value: &Spanned<DeValue<'_>>, schema: &Value) {
        let offset = value.span().start;
        if let Some(kind) = (self.declared)(&path.plain) {
            if let Err(message) = kind.read(&raw(value.get_ref())) {
                self.problem(offset, format!("{} {message}", path.shown));
            }
            return;
        }
        match (value.get_ref(), schema.get("properties"), schema.get("items")) {
            (DeValue::Table(table), Some(_), _) => self.table(path, table, offset, schema),
            (_, Some(_), _) => self.problem(offset, format!("{} must be a table", path.shown)),
            (DeValue::Array(list), None, Some(items)) => {
                list.iter().enumerate().for_each(|(index, value)| self.value(&path.item(index), value, items));
            }
            (_, None, Some(items)) => {
                let what = if items.get("properties").is_some() {
                    format!("tables: write [[{}]]", path.plain)
                } else {
                    "texts".to_owned()
                };
                self.problem(offset, format!("{} must be a list of {what}", path.shown));
            }
            (other, None, None) => {
                if let Some(Err(message)) = Kind::of(schema).map(|kind| kind.read(&raw(other))) {
                    self.problem(offset, format!("{} {message}", path.shown));
                }
            }
        }
    }
}

/// Converts a TOML value for [`Kind::read`].
pub fn raw<'v>(value: &'v DeValue<'_>) -> Raw<'v> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Integer(integer) => {
            u64::from_str_radix(integer.as_str(), integer.radix()).map_or(Raw::Other, Raw::Number)
        }
        DeValue::Boolean(flag) => Raw::Flag(*flag),
        DeValue::Array(list) => {
            let texts: Option<Vec<&str>> = list.iter().map(|item| item.get_ref().as_str()).collect();
            texts.map_or(Raw::Other, Raw::List)
        }
        _ => Raw::Other,
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

/// Removes from a schema what TOML cannot express: `null`, as value and as default.
pub fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("default").is_some_and(Value::is_null) {
                object.remove("default");
            }
            remove_null(object);
            object.values_mut().for_each(without_null);
        }
        Value::Array(list) => list.iter_mut().for_each(without_null),
        _ => {}
    }
}

fn remove_null(object: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            object.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(words)) = object.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    for name in ["anyOf", "oneOf"] {
        let Some(Value::Array(choices)) = object.get_mut(name) else { continue };
        choices.retain(|choice| choice.get("type").is_none_or(|one| one != "null"));
        if let [Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            object.remove(name);
            one.into_iter().for_each(|(key, value)| {
                object.entry(key).or_insert(value);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undeclared(_path: &str) -> Option<&'static Kind<'static>> {
        None
    }

    fn schema() -> Value {
        let rule = json!({"properties": {"action": {"enum": ["a", "b"]}}, "required": ["action"]});
        let names = json!({"type": "array", "items": {"type": "string"}, "default": []});
        json!({"required": ["engine"], "properties": {
            "engine": {"properties": {
                "timeout": {"type": "string", "durationMinimum": "1ms", "default": "10s", "description": "A timeout."},
                "threads": {"type": "integer", "minimum": 1, "maximum": 9},
                "names": names,
            }},
            "route": {"type": "array", "items": {"properties": {
                "path": {"type": "string"},
                "rules": {"type": "array", "items": rule},
            }, "required": ["path"]}},
        }})
    }

    #[test]
    fn all_faults_are_reported_with_their_places() {
        let text = "engin = 1\n[engine]\ntimeout = 5\n  thread = 3\nnames = \"x\"\n[[route]]\npth = \"/\"\n\
            rules = [{ action = \"c\" }, {}]\n[[route]]\npath = 3\ntimeout = 3\nxxxxxxxxxxxx = 3\n";
        let problems: Vec<String> =
            Document::parse(text).expect("TOML").check(&schema(), undeclared).iter().map(ToString::to_string).collect();
        assert_eq!(
            problems,
            [
                "1:1: there is no key engin; did you mean engine?",
                "3:11: engine.timeout must be a duration from 1ms to 8760h, such as \"500ms\", \"15s\" or \"2m\"",
                "4:3: there is no key engine.thread; did you mean engine.threads?",
                "5:9: engine.names must be a list of texts",
                "6:1: the key route[0].path is missing",
                "7:1: there is no key route[0].pth; did you mean path?",
                "8:21: route[0].rules[0].action must be one of \"a\", \"b\"",
                "8:28: the key route[0].rules[1].action is missing",
                "10:8: route[1].path must be text in quotation marks",
                "11:1: there is no key route[1].timeout; did you mean engine.timeout?",
                "12:1: there is no key route[1].xxxxxxxxxxxx; the keys are path, rules",
            ]
        );
        let missing = Document::parse("").expect("TOML").check(&schema(), undeclared);
        assert_eq!(missing[0].to_string(), "1:1: the key engine is missing");
    }

    #[test]
    fn a_fault_of_syntax_has_its_place() {
        let problem = Document::parse("[a]\nb = r1\n").expect_err("not TOML");
        assert!((problem.line, problem.column) == (2, 5) && problem.message.starts_with("not TOML: "), "{problem}");
    }

    #[test]
    fn a_file_is_shown_with_its_defaults_and_is_a_file_again() {
        let text = "[engine]\nthreads = 0x3 # few\n[[route]]\npath = '/'\nrules = [{ action = \"a\" }]\n\
            [[route]]\npath = \"/x\"\nrules = []\n";
        let shown = Document::parse(text).expect("TOML").show(&schema());
        let expected = "\n[engine]  # line 1\ntimeout = \"10s\"\nthreads = 0x3  # line 2\nnames = []\n\n\
            [[route]]  # line 3\npath = '/'  # line 4\n\n[[route.rules]]  # line 5\naction = \"a\"  # line 5\n\n\
            [[route]]  # line 6\npath = \"/x\"  # line 7\nrules = []  # line 8\n";
        assert_eq!(shown, expected);
        assert_eq!(Document::parse(&shown).expect("TOML").check(&schema(), undeclared), []);
        let facts = Document::parse(text).expect("TOML").facts(&schema());
        assert_eq!(facts["engine.timeout"]["value"], "10s");
        assert_eq!(facts["engine.timeout"]["about"], "A timeout.");
        assert_eq!((&facts["engine.threads"]["value"], &facts["engine.threads"]["from"]), (&json!(3), &json!("file")));
        assert_eq!(facts["route[0].rules[0].action"]["value"], "a");
    }

    #[test]
    fn null_is_removed_from_schemas() {
        let mut schema = json!({"properties": {
            "a": {"type": ["string", "null"], "default": null},
            "b": {"anyOf": [{"oneOf": [{"const": "x"}, {"const": "y"}]}, {"type": "null"}], "description": "B."},
            "c": {"enum": ["x", null]},
        }});
        without_null(&mut schema);
        let expected = json!({"properties": {
            "a": {"type": "string"},
            "b": {"oneOf": [{"const": "x"}, {"const": "y"}], "description": "B."},
            "c": {"enum": ["x"]},
        }});
        assert_eq!(schema, expected);
    }
}
