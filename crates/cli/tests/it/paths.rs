//! Every implementation that this CPU supports, forced for the whole program: values that one encrypts, every other decrypts, including the
//! library. Unsupported and unknown implementations are refused.

use crate::common;
use crate::common::{TestFolder, document, finish};
use serde_json::Value;

/// Values of `LEAFSEAL_LANES` and whether this CPU has the instructions, according to the standard library.
fn lanes() -> [(&'static str, bool); 5] {
    #[cfg(target_arch = "x86_64")]
    let [aesni, vaes256, vaes512, armv8] = [
        is_x86_feature_detected!("aes") && is_x86_feature_detected!("pclmulqdq"),
        is_x86_feature_detected!("vaes") && is_x86_feature_detected!("vpclmulqdq") && is_x86_feature_detected!("avx2"),
        is_x86_feature_detected!("vaes")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl"),
        false,
    ];
    #[cfg(target_arch = "aarch64")]
    let [aesni, vaes256, vaes512, armv8] = [false, false, false, std::arch::is_aarch64_feature_detected!("aes")];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let [aesni, vaes256, vaes512, armv8] = [false; 4];
    [("portable", true), ("aesni", aesni), ("vaes256", vaes256), ("vaes512", vaes512), ("armv8", armv8)]
}

/// The same for `LEAFSEAL_CURVES`.
fn curves() -> [(&'static str, bool); 5] {
    #[cfg(target_arch = "x86_64")]
    let [adx, avx512, ifma] = {
        let adx =
            is_x86_feature_detected!("adx") && is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("avx2");
        let avx512 = adx && is_x86_feature_detected!("avx512f");
        [adx, avx512, avx512 && is_x86_feature_detected!("avx512ifma")]
    };
    #[cfg(not(target_arch = "x86_64"))]
    let [adx, avx512, ifma] = [false; 3];
    [("library", true), ("portable", true), ("adx", adx), ("avx512", avx512), ("ifma", ifma)]
}

fn those_here<const N: usize>(all: [(&'static str, bool); N]) -> Vec<&'static str> {
    all.into_iter().filter_map(|(name, is_here)| is_here.then_some(name)).collect()
}

fn run(
    test_folder: &TestFolder,
    variables: &[(&str, &str)],
    arguments: &[&str],
    input: &[u8],
) -> common::CommandResult {
    let mut command = test_folder.command(arguments);
    finish(command.envs(variables.iter().copied()), input)
}

fn info(test_folder: &TestFolder, variables: &[(&str, &str)], fact: &str) -> String {
    let facts = run(test_folder, variables, &["info", "--json"], b"").text();
    let facts: Value = serde_json::from_str(&facts).expect("JSON");
    facts[fact].as_str().expect("a text").to_owned()
}

/// A document with values of many lengths, so that lanes have uniform and mixed groups, and some values are too long for them.
fn values() -> Vec<u8> {
    let lengths: String = (0..200).map(|i| format!(",\"{}\"", "é".repeat(i * 7 % 290))).collect();
    let mut values = document(100, 8);
    let end = values.iter().rposition(|byte| *byte == b']').expect("an array");
    values.splice(end..end, lengths.bytes());
    values
}

#[test]
fn values_of_one_kernel_decrypt_with_every_other() {
    let (test_folder, original) = (TestFolder::with_app(), values());
    let paths = those_here(lanes());
    for &sealing in &paths {
        let variables = [("LEAFSEAL_LANES", sealing)];
        assert_eq!(info(&test_folder, &variables, "aes-gcm-lanes"), sealing);
        let sealed = run(&test_folder, &variables, &["encrypt", "--app", "acme"], &original).ok();
        assert_ne!(sealed, original);
        for &opening in &paths {
            let variables = [("LEAFSEAL_LANES", opening)];
            let opened = run(&test_folder, &variables, &["decrypt", "--app", "acme"], &sealed).ok();
            assert!(opened == original, "sealed by {sealing}, opened by {opening}");
        }
    }
}

#[test]
fn every_key_path_round_trips() {
    let (test_folder, original) = (TestFolder::with_app(), values());
    for path in those_here(curves()) {
        let variables = [("LEAFSEAL_CURVES", path)];
        assert_eq!(info(&test_folder, &variables, "encapsulation"), path);
        for curve in ["r1", "k1"] {
            let arguments = ["encrypt", "--app", "acme", "--curve", curve, "--keying", "field"];
            let sealed = run(&test_folder, &variables, &arguments, &original).ok();
            assert!(test_folder.run_with(&["decrypt", "--app", "acme"], &sealed).ok() == original, "{path} on {curve}");
        }
    }
}

#[test]
fn unsupported_and_unknown_paths_are_refused() {
    let test_folder = TestFolder::new();
    for (variable, all) in [("LEAFSEAL_LANES", lanes().as_slice()), ("LEAFSEAL_CURVES", &curves())] {
        for &(name, is_here) in all.iter().filter(|(_, is_here)| !is_here) {
            let message = run(&test_folder, &[(variable, name)], &["info"], b"").fails(2);
            assert!(
                !is_here && message.contains(&format!("{variable}: this CPU does not support `{name}`")),
                "{message}"
            );
        }
        for unknown in ["fast", "", "AUTO"] {
            for arguments in [["info"].as_slice(), &["config", "show"]] {
                let message = run(&test_folder, &[(variable, unknown)], arguments, b"").fails(2);
                let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
                assert_eq!(message, format!("leafseal: {variable}: it must be one of auto, {}\n", names.join(", ")));
            }
        }
    }
}

/// The default and `auto` select an implementation that the CPU supports; `portable` applies to keys too.
#[test]
fn nothing_is_forced_by_default() {
    let test_folder = TestFolder::new();
    let by_default = info(&test_folder, &[], "aes-gcm-lanes");
    assert_eq!(by_default, info(&test_folder, &[("LEAFSEAL_LANES", "auto")], "aes-gcm-lanes"));
    assert!(those_here(lanes()).contains(&by_default.as_str()));
    let portable = [("LEAFSEAL_LANES", "portable")];
    assert_eq!(info(&test_folder, &portable, "encapsulation"), "portable");
    let [but_for_curves] = those_here(curves())[..1] else { panic!("some") };
    let both = [("LEAFSEAL_LANES", "portable"), ("LEAFSEAL_CURVES", but_for_curves)];
    assert_eq!(info(&test_folder, &both, "encapsulation"), but_for_curves);
}
