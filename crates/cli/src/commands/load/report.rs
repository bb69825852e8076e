//! `load report`: renders results as one page.

use std::path::Path;

use leafseal_load::page::{NamedResult, page};
use leafseal_load::result::{LoadResult, RESULT_SIZE_MAX};

use crate::arguments::LoadReportArguments;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::read_file;
use crate::output::OpenOutput;

/// Maximum number of results on one page.
const RESULTS_MAX: usize = 8;

/// Reads the results and writes the page.
pub(super) fn run(arguments: &LoadReportArguments) -> CommandOutcome {
    let LoadReportArguments { results: paths, output, name: names, title } = arguments;
    if paths.len() > RESULTS_MAX {
        return Err(CommandFailure::usage(format!("a report must have at most {RESULTS_MAX} results")));
    }
    if names.len() > paths.len() {
        return Err(CommandFailure::usage(format!(
            "{} names for {} results: give --name at most once per result",
            names.len(),
            paths.len()
        )));
    }
    let mut results = Vec::new();
    for (index, path) in paths.iter().enumerate() {
        let name = names.get(index).cloned().unwrap_or_else(|| name_of(path));
        results.push(NamedResult { name, result: read(path)? });
    }
    let text = page(title, &results);
    let mut file = OpenOutput::open(output.as_deref())?;
    file.write(text.as_bytes())?;
    file.finish()
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn read(path: &Path) -> CommandOutcome<LoadResult> {
    let bytes = read_file(path, RESULT_SIZE_MAX as u64, "result")?;
    let text = String::from_utf8(bytes)
        .map_err(|_| CommandFailure::usage(format!("{}: not JSON: it must be UTF-8 text", path.display())))?;
    LoadResult::read(&text).map_err(|error| CommandFailure::usage(format!("{}: {error}", path.display())))
}
