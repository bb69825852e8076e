//! Loads the configuration: defaults, then the file, then the environment, then `--set`. Collects all problems instead of stopping at the
//! first, so that one run of `config check` reports everything.

use std::path::{Path, PathBuf};

use super::{CliConfiguration, KEYS};
use crate::core_dumps::CORE_DUMPS_VARIABLE;
use crate::paths::{CURVES_VARIABLE, LANES_VARIABLE};

/// Maximum size of a configuration file in bytes; a typical one has a few hundred.
pub(super) const FILE_SIZE_MAX: u64 = 1 << 20;

/// Variables that commands read themselves.
pub(super) const OTHER_VARIABLES: [&str; 6] =
    ["LEAFSEAL_DIR", "LEAFSEAL_CONFIG", "LEAFSEAL_ROOT_KEY", CORE_DUMPS_VARIABLE, LANES_VARIABLE, CURVES_VARIABLE];

/// A configuration and the origins of its values.
pub(crate) type LoadedConfiguration = leafseal_config::Loaded<CliConfiguration>;

/// The sources of a configuration.
pub(crate) struct CliSources<'a> {
    /// The file to read.
    pub file: &'a Path,
    /// Whether the file must exist.
    pub presence: Presence,
    /// The environment: names and values.
    pub environment: Vec<(String, String)>,
    /// `KEY=VALUE` from flags.
    pub settings: &'a [String],
}

/// Whether a file must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It was named explicitly.
    Required,
    /// It is the default file.
    Optional,
}

/// Loads the configuration from `sources`. Returns the file, if there is one, and the configuration.
pub(crate) fn load(sources: &CliSources<'_>) -> (Option<PathBuf>, LoadedConfiguration) {
    let read = read_file(sources.file, sources.presence);
    let name = sources.file.display().to_string();
    let text = read.as_ref().ok().and_then(Option::as_deref);
    let mut loaded = KEYS.load(&leafseal_config::Sources {
        file: text.map(|text| (&*name, text)),
        is_shared: false,
        environment: &sources.environment,
        other_variables: &OTHER_VARIABLES,
        overrides: sources.settings,
    });
    let file = text.map(|_| sources.file.to_owned());
    loaded.problems.splice(0..0, read.err());
    loaded.warnings.extend(loaded.settings.warnings());
    if loaded.problems.is_empty() {
        loaded.problems = loaded.settings.check(loaded.is_set("keystore.path"));
    }
    (file, loaded)
}

fn read_file(path: &Path, presence: Presence) -> Result<Option<String>, String> {
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && presence == Presence::Optional => {
            return Ok(None);
        }
        metadata => metadata.map_err(|error| format!("{}: {}", path.display(), crate::failure::plain(&error)))?,
    };
    if metadata.len() > FILE_SIZE_MAX {
        return Err(format!("{}: larger than {FILE_SIZE_MAX} bytes: this is no configuration", path.display()));
    }
    let text = std::fs::read_to_string(path);
    text.map(Some).map_err(|error| format!("{}: {}", path.display(), crate::failure::plain(&error)))
}

#[cfg(test)]
mod tests {
    use leafseal_config::SettingOrigin;

    use super::*;

    fn loaded(file: &str, environment: &[(&str, &str)], settings: &[&str]) -> LoadedConfiguration {
        let folder = tempfile::tempdir().expect("folder");
        let path = folder.path().join("leafseal.toml");
        std::fs::write(&path, file).expect("written");
        let (_, mut loaded) = load(&CliSources {
            file: &path,
            presence: Presence::Required,
            environment: environment.iter().map(|&(name, value)| (name.into(), value.into())).collect(),
            settings: &settings.iter().map(|&setting| setting.to_owned()).collect::<Vec<_>>(),
        });
        let prefix = format!("{}/", folder.path().display());
        loaded.problems.iter_mut().for_each(|problem| *problem = problem.replace(&prefix, ""));
        loaded
    }

    #[test]
    fn later_sources_win() {
        let file = "[engine]\nkeying = \"field\"\nsession_age_max = \"3s\"\nstep_values_max = 7\n";
        let environment = [("LEAFSEAL_ENGINE_SESSION_AGE_MAX", "4s"), ("LEAFSEAL_ENGINE_STEP_VALUES_MAX", "8")];
        let loaded = loaded(file, &environment, &["engine.step_values_max=9"]);
        assert_eq!(loaded.problems, Vec::<String>::new());
        let engine = &loaded.settings.engine;
        assert_eq!(engine.keying, leafseal_engine::Keying::Field);
        assert_eq!((engine.session_age_max.as_secs(), engine.step_values_max), (4, 9));
        let origin = |name| loaded.origin(name);
        assert_eq!(origin("engine.keying"), SettingOrigin::File(2));
        assert_eq!(origin("engine.session_age_max"), SettingOrigin::Environment);
        assert_eq!(origin("engine.step_values_max"), SettingOrigin::Flag);
        assert_eq!(origin("engine.curve"), SettingOrigin::Default);
    }

    #[test]
    fn all_errors_are_reported_with_their_position() {
        let file = "top = 1\n\n[engine]\nkeyings = \"field\"\ncurve = \"p256\"\nstep_values_max = \"many\"\n\
                    step_bytes_max = -1\nblinding_age_max = 5\nwipe_buffers = \"yes\"\n\
                    [documents]\ndepth_max = 3\n[server]\nworkers = 0\n[server.tls]\nx = 1\n";
        let problems =
            loaded(file, &[("LEAFSEAL_LOG_LEVEL", "loud"), ("LEAFSEAL_INPUT_STRICT", "no")], &["nothing", "a.b=1"])
                .problems;
        let expected = [
            "leafseal.toml:1:1: there is no key top; the keys are ",
            "leafseal.toml:4:1: there is no key engine.keyings; did you mean engine.keying?",
            "leafseal.toml:5:9: engine.curve must be one of \"r1\", \"k1\"",
            "leafseal.toml:6:19: engine.step_values_max must be a whole number from 1 to 65536",
            "leafseal.toml:7:18: engine.step_bytes_max must be a size from 1KiB",
            "leafseal.toml:8:20: engine.blinding_age_max must be a duration",
            "leafseal.toml:9:16: engine.wipe_buffers must be true or false: write true, not \"yes\"",
            "leafseal.toml:10:2: there is no key documents; did you mean document?",
            "leafseal.toml:13:11: server.workers must be a whole number from 1",
            "leafseal.toml:14:9: there is no key server.tls",
            "LEAFSEAL_LOG_LEVEL: log.level must be one of",
            "LEAFSEAL_INPUT_STRICT: input.strict must be true or false: write false, not \"no\"",
            "--set: write KEY=VALUE",
            "--set: there is no key a.b",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}\nshould start with\n{start}");
        }
    }

    #[test]
    fn invalid_toml_is_reported_with_its_line() {
        for (text, start) in [
            ("[engine]\ncurve = r1\n", "leafseal.toml:2:9: not TOML: "),
            ("[engine]\ncurve = \"r1\"\ncurve = \"k1\"\n", "leafseal.toml:3:1: not TOML: "),
            ("[engine\n", "leafseal.toml:1:8: not TOML: "),
        ] {
            let problems = loaded(text, &[], &[]).problems;
            assert!(problems.len() == 1 && problems[0].starts_with(start), "{problems:?}");
        }
    }

    #[test]
    fn inconsistent_keys_are_reported() {
        let problems = loaded("[server]\nqueue_bytes_max = \"1MiB\"\n", &[], &[]).problems;
        assert!(problems.len() == 1 && problems[0].contains("`queue_bytes_max`"), "{problems:?}");
    }

    #[test]
    fn a_key_store_in_two_places_is_refused() {
        let url = "[keystore]\nurl = \"postgres://u@%2Frun/k\"\n";
        let of = |settings: &[&str]| loaded(url, &[], settings).problems;
        assert_eq!(of(&[]), Vec::<String>::new());
        let problems = of(&["keystore.path=keystore.db"]);
        assert!(problems.len() == 1 && problems[0].contains("are both set"), "{problems:?}");
        assert_eq!(of(&["keystore.path=keystore.db", "keystore.url="]), Vec::<String>::new());
    }

    #[test]
    fn unknown_variables_are_warned_of_and_known_ones_are_not() {
        let environment = [("LEAFSEAL_PORT_3443_TCP", "x"), ("LEAFSEAL_DIR", "d"), ("LEAFSEAL", "f")];
        let loaded = loaded("", &environment, &[]);
        assert!(loaded.problems.is_empty());
        assert_eq!(loaded.warnings.len(), 1);
        assert!(loaded.warnings[0].starts_with("LEAFSEAL_PORT_3443_TCP: "));
    }
}
