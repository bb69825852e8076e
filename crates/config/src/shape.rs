//! The shape of a file: its tables, their keys, and what each key accepts. Validation, schema, documentation and `config show` follow from
//! it.

use serde_json::{Map, Value, json};

use crate::Kind;

/// The line after the keys of a table in a page.
const END: &str = "<!-- end of keys -->\n";

/// A table of a file.
#[derive(Debug, Clone)]
pub struct TableShape {
    pub(crate) keys: Vec<KeyShape>,
}

/// A key of a table.
#[derive(Debug, Clone)]
pub struct KeyShape {
    pub(crate) name: String,
    pub(crate) about: &'static str,
    pub(crate) accepts: Accepted,
    pub(crate) absent: IfAbsent,
}

/// What a key accepts.
#[derive(Debug, Clone)]
pub enum Accepted {
    /// A value.
    Value(Kind),
    /// A table: `[name]`.
    Table(TableShape),
    /// A list of tables: `[[name]]`.
    Tables(TableShape),
}

/// The meaning of a table without the key.
#[derive(Debug, Clone)]
pub enum IfAbsent {
    /// The table is invalid.
    Error,
    /// The key has no value.
    NoValue {
        /// What applies instead, for documentation.
        text: Option<&'static str>,
    },
    /// The key has its default.
    Default {
        /// The default as a file has it, which is JSON too.
        written: String,
        /// The text that replaces it in documentation, if it differs between machines.
        text: Option<&'static str>,
    },
}

impl TableShape {
    pub(crate) fn key(&self, name: &str) -> Option<&KeyShape> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The keys that a table must have.
    pub(crate) fn required(&self) -> impl Iterator<Item = &str> {
        let required = self.keys.iter().filter(|key| matches!(key.absent, IfAbsent::Error));
        required.map(|key| key.name.as_str())
    }

    /// The path of every key, without list indexes: `inbound.route.path`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        for key in &self.keys {
            let inner = key.accepts.table().map(TableShape::paths).unwrap_or_default();
            paths.extend(inner.into_iter().map(|path| format!("{}.{path}", key.name)));
            paths.push(key.name.clone());
        }
        paths
    }

    /// Returns the JSON Schema (draft 2020-12) of a table. Where a default differs between machines, `defaultText` describes it.
    pub fn schema(&self) -> Value {
        let keys: Map<String, Value> = self.keys.iter().map(|key| (key.name.clone(), key.schema())).collect();
        let mut schema = json!({"type": "object", "properties": keys});
        let required: Vec<&str> = self.required().collect();
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        schema["additionalProperties"] = json!(false);
        schema
    }

    /// Writes the keys of tables into a page, each table between the lines `<!-- keys of [NAME] -->` and `<!-- end of keys -->`. Of
    /// tables with the same keys, the page has one.
    ///
    /// # Errors
    /// The line that the page lacks.
    pub fn fill(&self, page: &str) -> Result<String, String> {
        let (mut page, mut tables) = (page.to_owned(), Vec::new());
        self.collect_tables("", &mut tables);
        let mut written: Vec<Vec<&str>> = Vec::new();
        for (header, table) in tables {
            let begin = format!("<!-- keys of {header} -->\n");
            let names: Vec<&str> = table.keys.iter().map(|key| key.name.as_str()).collect();
            let Some((head, rest)) = page.split_once(&begin) else {
                if written.contains(&names) {
                    continue;
                }
                return Err(begin);
            };
            let (_, tail) = rest.split_once(END).ok_or(END)?;
            page = format!("{head}{begin}\n{}\n{END}{tail}", table.markdown());
            written.push(names);
        }
        Ok(page)
    }

    /// The tables as sections of a page in Markdown.
    pub fn sections(&self) -> String {
        let tables = self.keys.iter().filter_map(|key| Some((key, key.accepts.table()?)));
        tables.map(|(key, table)| format!("\n## [{}]\n\n{}\n\n{}", key.name, key.about, table.markdown())).collect()
    }

    /// The tables below this one by their headers: `[engine]`, `[[inbound.route]]`.
    fn collect_tables<'s>(&'s self, path: &str, tables: &mut Vec<(String, &'s TableShape)>) {
        for key in &self.keys {
            let path = if path.is_empty() { key.name.clone() } else { format!("{path}.{}", key.name) };
            let (header, table) = match &key.accepts {
                Accepted::Value(_) => continue,
                Accepted::Table(table) => (format!("[{path}]"), table),
                Accepted::Tables(table) => (format!("[[{path}]]"), table),
            };
            tables.push((header, table));
            table.collect_tables(&path, tables);
        }
    }

    /// The keys as a table in Markdown.
    pub fn markdown(&self) -> String {
        let mut out = "| key | default | value | meaning |\n|---|---|---|---|\n".to_owned();
        for KeyShape { name, about, accepts, absent } in &self.keys {
            let default = match absent {
                IfAbsent::Error => "required".to_owned(),
                IfAbsent::NoValue { text } => text.unwrap_or_default().to_owned(),
                IfAbsent::Default { text: Some(text), .. } => (*text).to_owned(),
                IfAbsent::Default { written, .. } => format!("`{written}`"),
            };
            let words = accepts.words();
            out.push_str(&format!("| `{name}` | {default} | {accepts} | {about}{words} |\n"));
        }
        out
    }
}

impl KeyShape {
    /// The default as JSON; `null` without one.
    pub(crate) fn default_json(&self) -> Value {
        match &self.absent {
            IfAbsent::Default { written, .. } => serde_json::from_str(written).expect("values are written as JSON"),
            _ => Value::Null,
        }
    }

    /// The text that describes a default.
    pub(crate) fn default_text(&self) -> Option<&'static str> {
        match self.absent {
            IfAbsent::Default { text, .. } | IfAbsent::NoValue { text } => text,
            IfAbsent::Error => None,
        }
    }

    fn schema(&self) -> Value {
        let own = match &self.accepts {
            Accepted::Value(kind) => kind.schema(),
            Accepted::Table(table) => table.schema(),
            Accepted::Tables(table) => json!({"type": "array", "items": table.schema()}),
        };
        let mut schema = json!({"description": self.about});
        for (name, value) in own.as_object().into_iter().flatten().filter(|(name, _)| *name != "description") {
            schema[name] = value.clone();
        }
        if let IfAbsent::Default { .. } = self.absent {
            schema["default"] = self.default_json();
        }
        if let Some(text) = self.default_text() {
            schema["defaultText"] = json!(text);
        }
        schema
    }
}

impl Accepted {
    /// The table of a key with a table or a list of tables.
    pub(crate) fn table(&self) -> Option<&TableShape> {
        match self {
            Accepted::Value(_) => None,
            Accepted::Table(table) | Accepted::Tables(table) => Some(table),
        }
    }

    /// The meanings of the words of a choice, as sentences.
    fn words(&self) -> String {
        let Accepted::Value(Kind::Choice(words)) = self else { return String::new() };
        let described = words.iter().filter(|word| !word.about.is_empty());
        described.map(|word| format!(" `{}`: {}", word.name, word.about.trim_start())).collect()
    }
}

impl std::fmt::Display for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Accepted::Value(kind) => kind.fmt(f),
            Accepted::Table(_) => f.write_str("a table"),
            Accepted::Tables(_) => f.write_str("a list of tables"),
        }
    }
}
