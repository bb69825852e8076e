//! The systemd units of the Debian package: their exposure, and whether systemd accepts them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common;

/// Maximum exposure of a unit, in tenths, as `systemd-analyze security` rates it.
const EXPOSURE_MAX: &str = "20";
/// The program as the units name it.
const INSTALLED: &str = "/usr/bin/leafseal";

fn units() -> Vec<PathBuf> {
    let folder = common::root().join("deploy/systemd");
    let entries = std::fs::read_dir(&folder).expect("the folder of units").map(|entry| entry.expect("an entry").path());
    let mut units: Vec<PathBuf> = entries.collect();
    units.sort();
    assert_eq!(units.len(), 4, "{units:?}");
    units
}

fn is_service(unit: &Path) -> bool {
    unit.extension().is_some_and(|extension| extension == "service")
}

fn analyze(arguments: &[&str]) -> Output {
    let run = Command::new("systemd-analyze").args(arguments).output();
    run.expect("systemd-analyze must be installed: run scripts/setup.sh test, or install the Debian package systemd")
}

#[track_caller]
fn succeeded(output: &Output) {
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

#[test]
fn the_exposure_of_each_unit_is_low() {
    for unit in units().into_iter().filter(|unit| is_service(unit)) {
        let threshold = format!("--threshold={EXPOSURE_MAX}");
        let unit = unit.to_str().expect("UTF-8");
        succeeded(&analyze(&["security", "--offline=true", "--no-pager", &threshold, unit]));
    }
}

/// Catches unknown settings, which systemd otherwise only logs and ignores: a mistyped restriction restricts nothing.
#[test]
fn systemd_understands_every_line_of_each_unit() {
    let folder = tempfile::tempdir().expect("folder");
    let copies = units().into_iter().map(|unit| {
        // systemd checks that the program exists, so the copy names this one.
        let text = std::fs::read_to_string(&unit).expect("read").replace(INSTALLED, env!("CARGO_BIN_EXE_leafseal"));
        assert!(!is_service(&unit) || text.contains("NoNewPrivileges=yes") && text.contains("ProtectSystem=strict"));
        let copy = folder.path().join(unit.file_name().expect("a name"));
        std::fs::write(&copy, text).expect("written");
        (unit, copy)
    });
    // A timer needs its service.
    for (unit, copy) in copies.collect::<Vec<_>>() {
        let output = analyze(&["verify", "--man=no", copy.to_str().expect("UTF-8")]);
        succeeded(&output);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{}", unit.display());
    }
}

/// Where the tests of the package need root and do not run, their relay has at least a valid file.
#[test]
fn the_relay_of_the_package_test_is_valid() {
    let text = include_str!("../../../../tests/packaging/relay.toml");
    let relay = leafseal_relay::Configuration::parse(text).expect("valid");
    assert!(relay.warnings.is_empty(), "{:?}", relay.warnings);
}

/// A stop that systemd cuts short would lose requests which the drain exists to finish.
#[test]
fn units_wait_longer_than_a_shutdown_takes() {
    let seconds = |unit: &str| -> u64 {
        let text = units().into_iter().find(|path| path.ends_with(unit)).map(std::fs::read_to_string);
        let text = text.expect("there").expect("read");
        let line = text.lines().find_map(|line| line.strip_prefix("TimeoutStopSec=")).expect("set");
        line.trim_end_matches('s').parse().expect("whole seconds")
    };
    let shown = Command::new(env!("CARGO_BIN_EXE_leafseal")).args(["config", "show"]).output().expect("runs");
    let shown = String::from_utf8(shown.stdout).expect("UTF-8");
    let default = |key: &str| -> u64 {
        let line = shown.lines().find(|line| line.contains(key)).unwrap_or_else(|| panic!("{key}: {shown}"));
        let value = line.split('"').nth(1).expect("a time");
        value.trim_end_matches('s').parse().expect("whole seconds")
    };
    assert!(seconds("leafseal.service") > default("drain_delay = ") + default("drain_timeout = "));
    let relay = leafseal_relay::Configuration::parse(include_str!("../../../../examples/relay.toml")).expect("valid");
    let relay = relay.process;
    assert!(seconds("leafseal-relay.service") > (relay.drain_delay + relay.drain_timeout).as_secs());
}
