//! `config.environments`: named changes of `config`, one of which a run may choose. As in Artillery, maps and lists are merged; an unknown
//! name, of which Artillery only warns, is refused, because the run would have another target.

use super::yaml::{NodeContent, YamlNode, YamlProblem, short};

/// The key in `config`.
pub(super) const KEY: &str = "environments";

/// Applies the environment `name` to the file's `config`.
///
/// # Errors
/// The file does not have it.
pub(super) fn choose(root: &mut YamlNode, name: &str) -> Result<(), YamlProblem> {
    let place = root.place;
    let Some(config) = child(root, "config") else {
        // The missing key is reported when the file is read.
        return Ok(());
    };
    let environments = child(config, KEY).map_or_else(Vec::new, |environments| match &environments.content {
        NodeContent::Map(pairs) => pairs.clone(),
        NodeContent::Scalar(..) | NodeContent::List(_) => Vec::new(),
    });
    match environments.iter().find(|(key, _)| key.text() == Some(name)) {
        Some((key, changes)) if changes.is_nothing() => Err(YamlProblem::new(
            key.place,
            format_args!("the environment `{}` is empty: write `{{}}` if it changes nothing", short(name)),
        )),
        Some((_, changes)) => {
            config.overlay(changes);
            Ok(())
        }
        None => Err(YamlProblem::new(place, unknown(name, &environments))),
    }
}

fn unknown(name: &str, environments: &[(YamlNode, YamlNode)]) -> String {
    let names: Vec<String> = environments.iter().filter_map(|(key, _)| key.text().map(short)).collect();
    match names.is_empty() {
        true => format!("the environment `{}` was chosen, but the file has no config.{KEY}", short(name)),
        false => format!("unknown environment `{}`: config.{KEY} has {}", short(name), names.join(", ")),
    }
}

/// The value of a key of a map.
fn child<'n>(node: &'n mut YamlNode, name: &str) -> Option<&'n mut YamlNode> {
    match &mut node.content {
        NodeContent::Map(pairs) => pairs.iter_mut().find(|(key, _)| key.text() == Some(name)).map(|(_, value)| value),
        NodeContent::Scalar(..) | NodeContent::List(_) => None,
    }
}
