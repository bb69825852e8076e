//! Generated tables within pages that are written by hand.

/// `page` with a table between its marks.
pub(super) fn insert(page: &str, path: &str, (begin, end): (&str, &str), table: &str) -> Result<String, String> {
    let marks = page.split_once(begin).and_then(|(before, rest)| Some((before, rest.split_once(end)?.1)));
    let (before, after) = marks.ok_or_else(|| format!("{path}: the marks {} are missing", begin.trim_end()))?;
    Ok(format!("{before}{begin}{table}{end}{after}"))
}
