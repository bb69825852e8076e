//! The tables of metrics in the documentation, which are made from what an endpoint returns.

const HEAD: &str = "| metric | kind | labels | meaning |\n|---|---|---|---|\n";

/// Compares the table of metrics below a heading of a document with what an endpoint returns. With `UPDATE` in the environment, writes it.
///
/// # Panics
/// When they differ, and when the document has no such table.
pub fn check_metrics_table(document: &str, heading: &str, openmetrics: &str) {
    assert!(openmetrics.ends_with("# EOF\n"), "{openmetrics}");
    let text = std::fs::read_to_string(document).expect("the document is readable");
    let start = text.find(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{document} has no {heading}"));
    let start = start + text[start..].find(HEAD).expect("a table stands below the heading") + HEAD.len();
    let end = text[start..].find("\n\n").map_or(text.len(), |end| start + end + 1);
    let rows = table(openmetrics);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(document, format!("{}{rows}{}", &text[..start], &text[end..]))
            .expect("the document is writable");
        return;
    }
    assert!(
        text[start..end] == rows,
        "{document} is not what the code says: run this test with UPDATE=1. The rows:\n{rows}"
    );
}

/// The rows of the table: name, kind, labels, meaning.
fn table(openmetrics: &str) -> String {
    let mut rows = String::new();
    for block in openmetrics.split("# HELP ").skip(1) {
        let (head, samples) = block.split_once("\n# TYPE ").expect("help comes before the type");
        let (name, meaning) = head.split_once(' ').expect("a name");
        let kind = samples.split([' ', '\n']).nth(1).expect("a kind");
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels = samples.lines().find_map(|line| line.split_once('{')?.1.split_once('}').map(|(labels, _)| labels));
        let labels = labels.unwrap_or_default().split(',').filter_map(|label| label.split_once('='));
        let labels: Vec<_> = labels.map(|(label, _)| format!("`{label}`")).filter(|label| label != "`le`").collect();
        rows.push_str(&format!("| `{name}{suffix}` | {kind} | {} | {meaning} |\n", labels.join(", ")));
    }
    rows
}
