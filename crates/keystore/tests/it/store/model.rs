//! Random sequences of changes against a model in memory.

use super::*;

/// One random change.
#[derive(Debug, Clone)]
enum Change {
    Create(u8),
    Import(u8, u32),
    Rotate(u8),
    DisableVersion(u8, u32),
    EnableVersion(u8, u32),
    DisableApp(u8),
    EnableApp(u8),
    Reopen,
}

fn any_change() -> impl Strategy<Value = Change> {
    let app = 0..3u8;
    let version = 0..5u32;
    prop_oneof![
        3 => app.clone().prop_map(Change::Create),
        2 => (app.clone(), 0..4u32).prop_map(|(app, key)| Change::Import(app, key)),
        3 => app.clone().prop_map(Change::Rotate),
        3 => (app.clone(), version.clone()).prop_map(|(app, version)| Change::DisableVersion(app, version)),
        2 => (app.clone(), version).prop_map(|(app, version)| Change::EnableVersion(app, version)),
        1 => app.clone().prop_map(Change::DisableApp),
        1 => app.prop_map(Change::EnableApp),
        1 => Just(Change::Reopen),
    ]
}

/// The expected content of a store: plain vectors, oldest version first.
#[derive(Default)]
struct Model {
    apps: [Option<ModelApp>; 3],
}

#[derive(Default)]
struct ModelApp {
    disabled: bool,
    versions: Vec<(KeyState, PublicKey)>,
}

impl Model {
    fn holds(&self, public: &PublicKey) -> bool {
        let mut apps = self.apps.iter().flatten();
        apps.any(|app| app.versions.iter().any(|(_, held)| held == public))
    }

    fn set_version(&mut self, app: u8, version: u32, state: KeyState) -> bool {
        let Some(app) = &mut self.apps[usize::from(app)] else {
            return false;
        };
        let index = (version as usize).wrapping_sub(1);
        let active = app.versions.iter().filter(|(state, _)| *state == KeyState::Active).count();
        match app.versions.get_mut(index) {
            None => false,
            Some((KeyState::Active, _)) if state == KeyState::Disabled && active == 1 => false,
            Some((held, _)) => {
                *held = state;
                true
            }
        }
    }

    fn set_app(&mut self, app: u8, disabled: bool) -> bool {
        let found = self.apps[usize::from(app)].as_mut();
        found.map(|app| app.disabled = disabled).is_some()
    }

    fn push(&mut self, app: u8, made: Option<VersionSummary>) -> bool {
        let Some(app) = &mut self.apps[usize::from(app)] else {
            assert!(made.is_none(), "a version of no app");
            return false;
        };
        if let Some(made) = made {
            app.versions.push((KeyState::Active, made.r1));
            assert_eq!(made.version as usize, app.versions.len());
        }
        true
    }
}

fn apply(store: &mut Store, place: &Place, model: &mut Model, change: &Change) {
    let name = |number: &u8| app(&format!("app{number}"));
    match change {
        Change::Create(number) => {
            let made = store.create_app(&name(number), NewKeys::generated());
            assert_eq!(made.is_ok(), model.apps[usize::from(*number)].is_none());
            if let Ok(made) = made {
                model.apps[usize::from(*number)] = Some(ModelApp::default());
                model.push(*number, made.versions.first().cloned());
            }
        }
        Change::Import(number, key_number) => {
            let public = context().public_key(&key(Curve::P256, *key_number));
            let made = store.add_version(&name(number), NewKeys::generated().with(key(Curve::P256, *key_number)));
            let expected = model.apps[usize::from(*number)].is_some() && !model.holds(&public);
            assert_eq!(made.is_ok(), expected);
            model.push(*number, made.ok());
        }
        Change::Rotate(number) => {
            let made = store.rotate(&name(number)).ok();
            let happened = made.is_some();
            assert_eq!(model.push(*number, made), happened);
        }
        Change::DisableVersion(number, version) => {
            let done = store.disable_version(&name(number), *version).is_ok();
            assert_eq!(done, model.set_version(*number, *version, KeyState::Disabled));
        }
        Change::EnableVersion(number, version) => {
            let done = store.enable_version(&name(number), *version).is_ok();
            assert_eq!(done, model.set_version(*number, *version, KeyState::Active));
        }
        Change::DisableApp(number) => {
            assert_eq!(store.disable_app(&name(number)).is_ok(), model.set_app(*number, true));
        }
        Change::EnableApp(number) => {
            assert_eq!(store.enable_app(&name(number)).is_ok(), model.set_app(*number, false));
        }
        Change::Reopen => *store = place.open(),
    }
}

fn check_changes(place: &Place, changes: &[Change]) -> Result<(), TestCaseError> {
    let mut store = place.open();
    let mut model = Model::default();
    for change in changes {
        apply(&mut store, place, &mut model, change);
    }
    for (number, expected) in model.apps.iter().enumerate() {
        let loaded = store.load_app(&app(&format!("app{number}"))).expect("read");
        prop_assert_eq!(loaded.is_some(), expected.is_some());
        let (Some(loaded), Some(expected)) = (loaded, expected) else { continue };
        prop_assert_eq!(loaded.disabled, expected.disabled);
        let loaded: Vec<_> =
            loaded.versions.iter().rev().map(|version| (version.state, *version.r1.public())).collect();
        let active = expected.versions.iter().filter(|(state, _)| *state == KeyState::Active);
        prop_assert_eq!(loaded, active.copied().collect::<Vec<_>>());
        let listed = store.app_summary(&app(&format!("app{number}"))).expect("read").expect("there");
        let listed: Vec<_> = listed.versions.iter().rev().map(|version| (version.state, version.r1)).collect();
        prop_assert_eq!(&listed, &expected.versions);
    }
    prop_assert_eq!(store.check().expect("checked").faults, []);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn random_changes_agree_with_a_model_on_sqlite(changes in prop::collection::vec(any_change(), 1..16)) {
        check_changes(&Place::new(Kind::Sqlite), &changes)?;
    }

    #[test]
    fn random_changes_agree_with_a_model_on_postgres(changes in prop::collection::vec(any_change(), 1..16)) {
        check_changes(&Place::new(Kind::Postgres), &changes)?;
    }
    #[test]
    fn imported_keys_are_exported_unchanged(mut r1: [u8; 32], mut k1: [u8; 32]) {
        // Below both orders and not zero.
        for scalar in [&mut r1, &mut k1] {
            scalar[0] &= 0x7f;
            scalar[31] |= 1;
        }
        let pair = [(Curve::P256, r1), (Curve::Secp256k1, k1)]
            .map(|(curve, scalar)| PrivateKey::from_scalar(curve, Secret::from_bytes(&scalar)).expect("in range"));
        let place = Place::new(Kind::Sqlite);
        let keys = pair.iter().cloned().fold(NewKeys::generated(), NewKeys::with);
        place.open().create_app(&app("a"), keys).expect("made");
        let loaded = place.open().load_app(&app("a")).expect("read").expect("there");
        prop_assert_eq!(loaded.versions[0].r1.private().scalar().expose(), &r1);
        prop_assert_eq!(loaded.versions[0].k1.private().scalar().expose(), &k1);
    }
}
