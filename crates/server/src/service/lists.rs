//! `rewrap` and `inspect`, one envelope after the other, and the answers that need no work: `public_keys`, `info`.

use fieldseal_engine::{Caller, Engine, Inspector, RewrapOptions, Rewrapper, admin};
use fieldseal_protocol::{
    ErrorObject, InspectParams, Inspected, Limits, PROTOCOL_VERSION, PublicKeys, PublicKeysParams, RawValues,
    RewrapParams, Scalar, Text, ValuesPosition, answer, write,
};

use super::convert;
use super::values::step;
use crate::Step;

/// Envelopes that are being rewrapped.
pub(super) struct Rewrap {
    rewrapper: Rewrapper,
    position: ValuesPosition,
    rewrapped: u64,
    envelope: Vec<u8>,
}

impl Rewrap {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &RewrapParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let options = RewrapOptions { app: params.options.app, curve: params.options.curve.map(convert::curve) };
        let rewrapper = engine.rewrapper(caller, &options).map_err(convert::error)?;
        answer::begin_rewrap(id, params.values.count(), out);
        Ok(Self { rewrapper, position: ValuesPosition::default(), rewrapped: 0, envelope: Vec::new() })
    }

    pub(super) fn step(&mut self, params: &RewrapParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        for _ in 0..self.rewrapper.step_values_max() {
            let Some((text, after)) = next_string(params.values, self.position)? else { break };
            self.envelope.clear();
            let new = self.rewrapper.rewrap(text.as_bytes(), &mut self.envelope);
            if new.map_err(|error| convert::error(error).at_index(u64::from(self.position.index())))? {
                self.rewrapped += 1;
                write::string_header(self.envelope.len(), out);
                out.extend_from_slice(&self.envelope);
            } else {
                write::scalar(&Scalar::Str(text), out);
            }
            self.position = after;
        }
        let step = step(self.position, params.values);
        if step == Step::Done {
            answer::end_rewrap(self.rewrapped, out);
        }
        Ok(step)
    }
}

/// Envelopes that are being inspected.
pub(super) struct Inspect {
    inspector: Inspector,
    position: ValuesPosition,
}

impl Inspect {
    pub(super) fn begin(
        engine: &Engine,
        caller: &Caller,
        id: u32,
        params: &InspectParams<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Self, ErrorObject> {
        let inspector = engine.inspector(caller, params.app).map_err(convert::error)?;
        answer::begin_inspect(id, params.values.count(), out);
        Ok(Self { inspector, position: ValuesPosition::default() })
    }

    pub(super) fn step(&mut self, params: &InspectParams<'_>, out: &mut Vec<u8>) -> Result<Step, ErrorObject> {
        if let Some((text, after)) = next_string(params.values, self.position)? {
            let inspected = self.inspector.inspect(text.as_bytes());
            let inspected =
                inspected.map_err(|error| convert::error(error).at_index(u64::from(self.position.index())))?;
            let kind = convert::text_kind(inspected.value_type);
            let told = Inspected {
                version: inspected.version.text(),
                curve: convert::wire_curve(inspected.version.curve()),
                kind,
                debug: inspected.marking == fieldseal_engine::Marking::Debug,
                ephemeral: &inspected.ephemeral,
                role: inspected.role.as_deref(),
                origin: inspected.origin.map(u64::from),
                encrypted_at: inspected.encrypted_at.map(u64::from),
                key_version: inspected.key_version.map(u64::from),
            };
            answer::inspected(&told, out);
            self.position = after;
        }
        Ok(step(self.position, params.values))
    }
}

fn next_string(
    values: RawValues<'_>,
    position: ValuesPosition,
) -> Result<Option<(Text<'_>, ValuesPosition)>, ErrorObject> {
    let mut strings = values.strings_from(position);
    let Some(text) = strings.next().transpose()? else { return Ok(None) };
    Ok(Some((text, strings.position())))
}

pub(super) fn public_keys(
    engine: &Engine,
    caller: &Caller,
    id: u32,
    params: &PublicKeysParams<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ErrorObject> {
    let keys = engine.public_keys(caller, params.app).map_err(convert::error)?;
    let (r1_pem, k1_pem) = (admin::public_key_pem(&keys.r1), admin::public_key_pem(&keys.k1));
    let told = PublicKeys {
        app: params.app,
        version: u64::from(keys.version),
        r1: &keys.r1.compressed(),
        k1: &keys.k1.compressed(),
        r1_pem: Some(&r1_pem),
        k1_pem: Some(&k1_pem),
    };
    answer::public_keys(id, &told, out);
    Ok(())
}

/// The facts that `docs/protocol.md` promises, and those of the engine.
pub(super) fn info(id: u32, limits: &Limits, out: &mut Vec<u8>) {
    let mut facts = vec![
        ("protocol", PROTOCOL_VERSION.to_string()),
        ("frame_size_max", limits.frame_size_max.to_string()),
        ("elements_max", limits.elements_max.to_string()),
        ("depth_max", limits.depth_max.to_string()),
    ];
    facts.extend(fieldseal_engine::facts());
    let told: Vec<(&str, &str)> = facts.iter().map(|(name, fact)| (*name, fact.as_str())).collect();
    answer::info(id, &told, out);
}
