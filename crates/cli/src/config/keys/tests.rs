//! Compares the table of keys with the settings of the crates.

use std::collections::BTreeSet;

use leafseal_engine::{DocumentLimits, Settings, admin};
use leafseal_net::{ClientBound, OperatorSettings};
use leafseal_server::{ApiSettings, HttpSettings, ServerSettings};

use super::*;
use crate::config::StorePlace;

#[test]
fn names_and_variables_are_unique_and_well_formed() {
    let names: BTreeSet<_> = KEYS.iter().map(|key| key.name).collect();
    let variables: BTreeSet<_> = KEYS.iter().map(Key::variable).collect();
    assert_eq!((names.len(), variables.len()), (KEYS.len(), KEYS.len()));
    assert!(!variables.contains("LEAFSEAL_ROOT_KEY") && !variables.contains("LEAFSEAL_DIR"));
    let is_plain = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    assert!(names.iter().all(|name| name.chars().all(is_plain) && name.matches('.').count() == 1));
}

#[test]
fn defaults_are_within_limits_and_round_trip() {
    use leafseal_config::Raw;
    for key in KEYS {
        let mut config = Config::default();
        let value = (key.get)(&config);
        let written = key.kind.write(&value);
        let text = match &value {
            Value::List(items) => items.join(" "),
            _ => written.trim_matches('"').to_owned(),
        };
        let read = key.kind.read(&Raw::Untyped(&text)).unwrap_or_else(|error| panic!("{}: {error}", key.name));
        assert_eq!(read, value, "{}", key.name);
        (key.set)(&mut config, read);
        assert_eq!((key.get)(&config), value, "{}", key.name);
    }
}

/// Setting one key changes only that key: no two keys share a setting.
#[test]
fn each_key_has_its_own_place() {
    for key in KEYS {
        let mut config = Config::default();
        let before = (key.get)(&config);
        let other = match &key.kind {
            Kind::Flag => Value::Flag(before == Value::Flag(false)),
            &Kind::Count(min, max) | &Kind::Size(min, max) => {
                Value::Number(if before == Value::Number(min) { max } else { min })
            }
            Kind::Time(..) => Value::Time(std::time::Duration::from_millis(12_345)),
            Kind::Choice(words) => {
                let word = words.iter().find(|word| before != Value::Text((**word).to_owned()));
                Value::Text((*word.expect("two words at least")).to_owned())
            }
            Kind::Path | Kind::OptionalPath | Kind::AnyText | Kind::Text(_) => Value::Text("elsewhere".into()),
            Kind::List(_) => Value::List(vec!["10.0.0.0/8".into()]),
            Kind::Address => Value::Address("[::1]:1".parse().unwrap()),
            Kind::OptionalAddress => Value::OptionalAddress(None),
        };
        (key.set)(&mut config, other.clone());
        assert_eq!((key.get)(&config), other, "{}", key.name);
        let untouched = Config::default();
        for rest in KEYS.iter().filter(|rest| rest.name != key.name) {
            assert_eq!((rest.get)(&config), (rest.get)(&untouched), "{} moved {}", key.name, rest.name);
        }
    }
}

/// Does not compile when a setting is added: add a key above, then its name here.
#[test]
fn every_setting_of_the_crates_has_a_key() {
    let Config { engine, keystore, server, store, .. } = Config::default();
    let Settings {
        curve: _,
        keying: _,
        empty_strings: _,
        session_age_max: _,
        session_values_max: _,
        spare_key_age_max: _,
        opening_keys_max: _,
        opening_key_age_max: _,
        request_opening_keys_max: _,
        request_key_trials_max: _,
        failure_paths_max: _,
        recipients_max: _,
        step_values_max: _,
        step_bytes_max: _,
        blinding_age_max: _,
        store_silence_max: _,
        key_version_delay: _,
        store_lookups_max: _,
        store_queue_max: _,
        store_wait_max: _,
        miss_bytes_max: _,
        miss_age_max: _,
        document,
    } = engine;
    let DocumentLimits {
        document_size_max: _,
        depth_max: _,
        selectors_max: _,
        selector_length_max: _,
        segments_max: _,
        filter_depth_max: _,
        tree_nodes_max: _,
        filter_steps_max: _,
        filter_comparison_max: _,
        filter_members_max: _,
        patterns_max: _,
        pattern_size_max: _,
    } = document;
    let admin::Limits {
        app_count_max: _,
        version_count_max: _,
        client_count_max: _,
        api_key_count_max: _,
        grant_entry_count_max: _,
        store_size_max: _,
        busy_timeout: _,
    } = keystore;
    let StorePlace {
        path: _,
        root_key_file: _,
        url: _,
        sslmode: _,
        authorities: _,
        certificate: _,
        private_key: _,
        password_file: _,
        connect_timeout: _,
        statement_timeout: _,
    } = store;
    let ServerSettings {
        address: _,
        operator:
            OperatorSettings { address: _, connections_max: _, clients: of_operator, header_size_max: _, call_timeout: _ },
        api,
        tls: _,
        network_threads: _,
        workers: _,
        limits: _,
        connections_max: _,
        clients: of_server,
        handshakes_max: _,
        requests_in_flight_max: _,
        outgoing_bytes_max: _,
        outgoing_short_bytes_max: _,
        incoming_bytes_max: _,
        client_incoming_bytes_max: _,
        incoming_wait: _,
        // Follows from `engine.wipe_buffers`.
        reserve_large_frames: _,
        connection_bytes_max: _,
        queue_jobs_max: _,
        queue_bytes_max: _,
        app_jobs_max: _,
        app_bytes_max: _,
        admission_wait: _,
        retry_after: _,
        scheduling: _,
        refuse_early: _,
        answers_bytes_max: _,
        client_answers_bytes_max: _,
        connection_answers_bytes_max: _,
        authentications_max: _,
        handshake_timeout: _,
        half_open_timeout: _,
        idle_timeout: _,
        frame_timeout: _,
        paused_frame_timeout: _,
        write_timeout: _,
        write_progress_min: _,
        outgoing_timeout: _,
        close_timeout: _,
        connection_age_max: _,
        connection_age_grace: _,
        drain_delay: _,
        drain_timeout: _,
        refusal_lines_max: _,
    } = server;
    let ApiSettings {
        address: _,
        // Read from files when the engine starts.
        identity: _,
        http,
        body_size_max: _,
        inspect_size_max: _,
        calls_max: _,
        call_timeout: _,
        team: _,
        cors_origins: _,
        access_log: _,
        // Comes from the relay's own configuration.
        relay: _,
    } = api;
    let HttpSettings {
        connections_max: _,
        clients: of_api,
        handshake_timeout: _,
        header_read_timeout: _,
        header_size_max: _,
        headers_max: _,
        streams_max: _,
        body_timeout: _,
        body_progress_min: _,
        write_timeout: _,
        write_progress_min: _,
        idle_timeout: _,
        connection_age_max: _,
        refused_body_max: _,
        refused_body_timeout: _,
        half_open_timeout: _,
        close_timeout: _,
        // The server sets it.
        drain_timeout: _,
    } = http;
    for clients in [of_server, of_api, of_operator] {
        let ClientBound { connections_max: _, trusted_balancers: _ } = clients;
    }
    let sections: BTreeSet<_> = KEYS.iter().map(|key| key.parts().0).collect();
    let count = |section: &str| KEYS.iter().filter(|key| key.parts().0 == section).count();
    assert_eq!((count("engine"), count("document"), count("keystore"), count("server")), (23, 12, 17, 53));
    // `ClientBounds::default` destructures the client's settings.
    assert_eq!((count("client"), count("operator"), count("api")), (11, 5, 30));
    assert!(sections.contains("input") && sections.contains("log"));
}
