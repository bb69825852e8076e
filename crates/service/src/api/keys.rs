//! An app's public keys, in the form in which SDKs read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use leafseal_protocol::ErrorObject;
use serde_json::json;

use super::{CallInput, write};
use crate::rpc::convert::error as error_object;
use crate::work::{RequestStage, RequestStep, RequestWork};

/// An app's public keys, in the form in which SDKs read them.
pub fn public_keys(input: CallInput, team: String) -> RequestStage {
    RequestStage::working(PublicKeysWork { input, team })
}

struct PublicKeysWork {
    input: CallInput,
    team: String,
}

impl RequestWork for PublicKeysWork {
    fn step(&mut self, out: &mut Vec<u8>) -> Result<RequestStep, ErrorObject> {
        let CallInput { engine, caller, app, .. } = &self.input;
        let keys = engine.public_keys(caller, app).map_err(error_object)?;
        let [r1, k1] = [&keys.r1, &keys.k1].map(|key| STANDARD.encode(key.compressed()));
        let reported = json!({
            "teamUuid": self.team,
            "appUuid": app,
            "key": k1,
            "ecdhKey": k1,
            "ecdhP256Key": r1,
            "ecdhP256KeyUncompressed": STANDARD.encode(keys.r1.uncompressed()),
            "keyVersion": keys.version,
            "isDebugMode": false,
        });
        write(&reported, out);
        Ok(RequestStep::Done)
    }
}
