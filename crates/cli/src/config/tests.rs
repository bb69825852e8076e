//! Properties of all keys together.

use std::collections::BTreeSet;

use leafseal_config::{Kind, Raw, Setting, SettingValue};

use super::*;

#[test]
fn names_and_variables_are_unique_and_well_formed() {
    let names: BTreeSet<_> = KEYS.iter().map(Setting::name).collect();
    let variables: BTreeSet<_> = KEYS.iter().map(Setting::variable).collect();
    let count = KEYS.iter().count();
    assert_eq!((names.len(), variables.len()), (count, count));
    assert!(!variables.contains("LEAFSEAL_ROOT_KEY") && !variables.contains("LEAFSEAL_DIR"));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '.';
    assert!(names.iter().all(|name| name.chars().all(is_plain) && name.matches('.').count() == 1));
    let tables: Vec<_> = KEYS.tables().iter().map(|table| table.name).collect();
    assert_eq!(
        tables,
        [
            "engine", "document", "keystore", "tpm2", "pkcs11", "transit", "aws_kms", "server", "api", "operator",
            "audit", "client", "input", "log"
        ]
    );
    assert!(KEYS.iter().all(|key| tables.contains(&key.parts().0) && key.about().ends_with(['.', ':'])));
}

#[test]
fn defaults_are_within_limits_and_round_trip() {
    for key in KEYS.iter() {
        let mut config = CliConfiguration::default();
        let value = key.get(&config);
        let text = match &value {
            SettingValue::List(items) => items.join(" "),
            _ => key.written(&config).trim_matches('"').to_owned(),
        };
        let read = key.kind().read(&Raw::Untyped(&text)).unwrap_or_else(|error| panic!("{}: {error}", key.name()));
        assert_eq!(read, value, "{}", key.name());
        key.set(&mut config, read);
        assert_eq!(key.get(&config), value, "{}", key.name());
    }
}

/// Setting one key changes only that key: no two keys share a setting.
#[test]
fn each_key_has_its_own_place() {
    for key in KEYS.iter() {
        let mut config = CliConfiguration::default();
        let before = key.get(&config);
        let other = match key.kind() {
            Kind::Flag => SettingValue::Flag(before == SettingValue::Flag(false)),
            &Kind::Count(min, max) | &Kind::Size(min, max) => {
                SettingValue::Number(if before == SettingValue::Number(min) { max } else { min })
            }
            Kind::Time(..) => SettingValue::Time(std::time::Duration::from_millis(12_345)),
            Kind::Choice(words) => {
                let other =
                    words.iter().map(|word| SettingValue::Text(word.name.to_owned())).find(|word| before != *word);
                other.expect("two words at least")
            }
            Kind::Path | Kind::OptionalPath | Kind::AnyText | Kind::Text(_) => SettingValue::Text("elsewhere".into()),
            Kind::List(_) if key.name().ends_with("tls_groups") => SettingValue::List(vec!["P-384".into()]),
            Kind::List(_) if key.name() == "server.unsealers" => SettingValue::List(vec!["ab".repeat(32)]),
            Kind::List(_) => SettingValue::List(vec!["10.0.0.0/8".into()]),
            Kind::Address => SettingValue::Address("[::1]:1".parse().unwrap()),
            Kind::OptionalAddress => SettingValue::OptionalAddress(None),
        };
        key.set(&mut config, other.clone());
        assert_eq!(key.get(&config), other, "{}", key.name());
        let untouched = CliConfiguration::default();
        for rest in KEYS.iter().filter(|rest| rest.name() != key.name()) {
            assert_eq!(rest.get(&config), rest.get(&untouched), "{} changed {}", key.name(), rest.name());
        }
    }
}
