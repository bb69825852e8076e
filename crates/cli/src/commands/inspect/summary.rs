//! `inspect --summary`: how many envelopes there are of each scheme, key, role and age.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::facts::Facts;

const DAY_S: u64 = 24 * 60 * 60;
/// The ages, by their upper bounds in seconds.
const AGES: [(&str, u64); 4] = [
    ("under a day", DAY_S),
    ("under 30 days", 30 * DAY_S),
    ("under a year", 365 * DAY_S),
    ("a year or more", u64::MAX),
];

/// What the envelopes of a row have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SummaryRow {
    scheme: &'static str,
    curve: Option<&'static str>,
    /// Of symmetric envelopes, where the key version is not known.
    key_id: Option<String>,
    key_version: Option<u64>,
    role: Option<String>,
    is_from_public_key: bool,
    /// An index of [`AGES`].
    age: Option<usize>,
    /// Whether they should have been opened and did not.
    is_unopened: bool,
}

/// Counts of envelopes.
#[derive(Debug, Default)]
pub(super) struct Summary {
    rows: BTreeMap<SummaryRow, u64>,
    malformed: u64,
}

impl Summary {
    /// Counts an envelope that was inspected at this time, in Unix seconds; one that does not open by what its text shows.
    pub(super) fn add(&mut self, facts: &Facts, now_unix_s: u64) {
        let row = SummaryRow {
            scheme: facts.scheme,
            curve: facts.curve,
            key_id: facts.key_id.clone().filter(|_| facts.key_version.is_none()),
            key_version: facts.key_version,
            role: facts.role.clone(),
            is_from_public_key: facts.from_public_key,
            age: facts.encrypted_at.map(|at| age(now_unix_s.saturating_sub(at))),
            is_unopened: facts.is_unopened,
        };
        *self.rows.entry(row).or_default() += 1;
    }

    /// Counts a text that is no envelope.
    pub(super) fn add_malformed(&mut self) {
        self.malformed += 1;
    }

    pub(super) fn json(&self) -> Value {
        let rows: Vec<Value> = self
            .rows
            .iter()
            .map(|(row, count)| {
                json!({
                    "scheme": row.scheme,
                    "curve": row.curve,
                    "key_id": row.key_id,
                    "key_version": row.key_version,
                    "role": row.role,
                    "from_public_key": row.is_from_public_key,
                    "age": row.age.map(|age| AGES[age].0),
                    "opens": !row.is_unopened,
                    "count": count,
                })
            })
            .collect();
        json!({ "count": self.rows.values().sum::<u64>(), "malformed": self.malformed, "rows": rows })
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{:>9}  {:<10} {:<34} {:<20} age\n", "envelopes", "scheme", "key", "role");
        for (row, count) in &self.rows {
            let key = match (row.key_version, &row.key_id, row.curve) {
                (Some(version), _, curve) => format!("version {version}{}", of_curve(curve)),
                (None, Some(id), _) => id.clone(),
                (None, None, curve) => format!("unknown{}", of_curve(curve)),
            };
            let role = row.role.as_deref().unwrap_or("-");
            let age = row.age.map_or("-", |age| AGES[age].0);
            let mark = if row.is_from_public_key { "  from public-key" } else { "" };
            let fault = if row.is_unopened { "  does not open" } else { "" };
            text.push_str(&format!("{count:>9}  {:<10} {key:<34} {role:<20} {age}{mark}{fault}\n", row.scheme));
        }
        if self.malformed > 0 {
            text.push_str(&format!("{:>9}  malformed\n", self.malformed));
        }
        text
    }
}

/// The index of the age in [`AGES`].
fn age(seconds: u64) -> usize {
    AGES.iter().position(|(_, below)| seconds < *below).unwrap_or(AGES.len() - 1)
}

fn of_curve(curve: Option<&str>) -> String {
    curve.map_or_else(String::new, |curve| format!(", {curve}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_age_begins_where_the_one_before_ends() {
        const DAY: u64 = 86_400;
        for (seconds, expected) in [
            (0, "under a day"),
            (DAY - 1, "under a day"),
            (DAY, "under 30 days"),
            (30 * DAY - 1, "under 30 days"),
            (30 * DAY, "under a year"),
            (365 * DAY - 1, "under a year"),
            (365 * DAY, "a year or more"),
            (u64::MAX, "a year or more"),
        ] {
            assert_eq!(AGES[age(seconds)].0, expected, "{seconds}");
        }
    }
}
