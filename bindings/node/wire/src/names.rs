//! Names of JavaScript, and methods by name.

use leafseal_protocol::{Query, QueryInfo};

use crate::fault::{Result, invalid_params};

/// `snake_case` as `camelCase`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (first, rest) = word.split_at(1);
        camel.extend([&first.to_ascii_uppercase(), rest]);
    }
    camel
}

/// The query with this name on the wire.
pub(crate) fn query(name: &str) -> Result<&'static QueryInfo> {
    let found = Query::ALL.iter().find(|query| query.method == name);
    found.ok_or_else(|| invalid_params("method: expected a method without values"))
}
