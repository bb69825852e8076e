//! The commands of TPM 2.0 (Library Specification, part 3) that seal and unseal.
//!
//! ```text
//! storage root key = CreatePrimary(owner, template of the TCG for P-256): the same each time, until the TPM is cleared
//! seal:    policy  = PolicyPCR of a session over the values of now
//!          Create(parent, data, policy), in a session that encrypts the data on its way, salted to the parent
//! unseal:  PolicyPCR in a session that encrypts the answer, salted to the parent; Load; Unseal
//! ```
//!
//! A salted session hides the secrets from a listener on the bus. The name of the parent is compared first: an attacker on the bus could
//! offer a key of their own to salt to.

use std::fmt;
use std::str::FromStr;

use leafseal_custody::parse_pcrs;
use leafseal_keystore::ProviderError;
use tss_esapi::attributes::{ObjectAttributesBuilder, SessionAttributesBuilder};
use tss_esapi::constants::{SessionType, Tss2ResponseCodeKind};
use tss_esapi::handles::KeyHandle;
use tss_esapi::interface_types::algorithm::{HashingAlgorithm, PublicAlgorithm};
use tss_esapi::interface_types::ecc::EccCurve;
use tss_esapi::interface_types::resource_handles::Hierarchy;
use tss_esapi::interface_types::session_handles::{AuthSession, PolicySession};
use tss_esapi::structures::{
    Digest, EccPoint, EccScheme, KeyDerivationFunctionScheme, KeyedHashScheme, PcrSelectionList, PcrSlot, Private,
    Public, PublicBuilder, PublicEccParametersBuilder, PublicKeyedHashParameters, SensitiveData, SymmetricDefinition,
    SymmetricDefinitionObject,
};
use tss_esapi::tcti_ldr::TctiNameConf;
use tss_esapi::traits::{Marshall, UnMarshall};
use tss_esapi::{Context, Error};
use zeroize::Zeroizing;

use crate::sealed_object::SealedObject;

const SESSION_HASH: HashingAlgorithm = HashingAlgorithm::Sha256;

/// A TPM with its storage root key.
pub(crate) struct Tpm {
    context: Context,
    parent: KeyHandle,
    /// The parent's name.
    name: Vec<u8>,
}

fn unavailable(step: &str, reason: impl fmt::Display) -> ProviderError {
    ProviderError::Unavailable(format!("{step}: {reason}"))
}

fn failed(step: &'static str) -> impl FnOnce(Error) -> ProviderError {
    move |error| unavailable(step, error)
}

impl Tpm {
    pub(crate) fn open(device: &str) -> Result<Self, ProviderError> {
        let name = TctiNameConf::from_str(device).map_err(failed("tpm2.device"))?;
        let mut context = Context::new(name).map_err(failed("it cannot be opened"))?;
        let template = storage_root_key().map_err(failed("the storage root key"))?;
        let created = context.execute_with_session(Some(AuthSession::Password), |context| {
            context.create_primary(Hierarchy::Owner, template, None, None, None, None)
        });
        let parent = created
            .map_err(failed("the storage root key (the owner hierarchy must have an empty authorization)"))?
            .key_handle;
        let name = context.tr_get_name(parent.into()).map_err(failed("the storage root key"))?.value().to_vec();
        Ok(Self { context, parent, name })
    }

    pub(crate) fn seal(&mut self, pcrs: &str, secret: &[u8]) -> Result<SealedObject, ProviderError> {
        let selection = PcrChoice::parse(pcrs).ok_or_else(|| unavailable("tpm2.pcrs", "no such PCRs"))?;
        self.has_values(&selection)?;
        let session = self.session(SessionType::Policy).map_err(failed("a session"))?;
        let policy = self.policy(session, &selection).map_err(failed("the policy"))?;
        let template = sealed_template(policy).map_err(failed("the policy"))?;
        let secret = SensitiveData::try_from(secret.to_vec()).map_err(failed("the secrets do not fit"))?;
        let session = self.session(SessionType::Hmac).map_err(failed("a session"))?;
        let parent = self.parent;
        let created = self.context.execute_with_session(Some(session), |context| {
            context.create(parent, template, None, Some(secret), None, None)
        });
        let created = created.map_err(failed("it does not seal"))?;
        Ok(SealedObject {
            parent: self.name.clone(),
            public: created.out_public.marshall().map_err(failed("it does not seal"))?,
            private: created.out_private.value().to_vec(),
            pcrs: pcrs.to_owned(),
        })
    }

    pub(crate) fn unseal(&mut self, object: &SealedObject) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        if object.parent != self.name {
            return Err(denied("another TPM sealed the slot, or this one was cleared since"));
        }
        let selection = PcrChoice::parse(&object.pcrs).ok_or(ProviderError::Refused)?;
        let public = Public::unmarshall(&object.public).map_err(|_| ProviderError::Refused)?;
        let private = Private::try_from(object.private.clone()).map_err(|_| ProviderError::Refused)?;
        let parent = self.parent;
        let loaded = self
            .context
            .execute_with_session(Some(AuthSession::Password), |context| context.load(parent, private, public));
        let loaded = loaded.map_err(|error| match error {
            // Of the object: its integrity, its size, its parent.
            Error::Tss2Error(code) if is_of_the_object(code.kind()) => {
                denied("it did not seal what is stored for the slot")
            }
            error => unavailable("it does not load", error),
        })?;
        let session = self.session(SessionType::Policy).map_err(failed("a session"))?;
        self.policy(session, &selection).map_err(failed("the policy"))?;
        let unsealed = self.context.execute_with_session(Some(session), |context| context.unseal(loaded.into()));
        match unsealed {
            Ok(secret) => Ok(Zeroizing::new(secret.value().to_vec())),
            Err(Error::Tss2Error(code)) if code.kind() == Some(Tss2ResponseCodeKind::PolicyFail) => {
                let pcrs = &object.pcrs;
                Err(denied(&format!(
                    "{pcrs} is not as when the slot was made: the machine was booted otherwise; open the keystore by another slot, then \
                     leafseal slot add --tpm2 --replace ID"
                )))
            }
            Err(error) => Err(unavailable("it does not unseal", error)),
        }
    }

    /// A bank that the TPM does not keep has no values: a policy over it would bind to nothing.
    fn has_values(&mut self, selection: &PcrChoice) -> Result<(), ProviderError> {
        let missing = || unavailable("tpm2.pcrs", "this TPM keeps no such PCRs");
        let mut rest = selection.list.clone();
        while !rest.is_empty() {
            let (_, read, values) = self
                .context
                .execute_without_session(|context| context.pcr_read(rest.clone()))
                .map_err(failed("the PCRs"))?;
            if values.is_empty() || read.is_empty() {
                return Err(missing());
            }
            rest.subtract(&read).map_err(failed("the PCRs"))?;
            if rest.get_selections().iter().all(|it| it.is_empty()) {
                break;
            }
        }
        Ok(())
    }

    /// A session that encrypts the first parameter both ways, salted to the parent.
    fn session(&mut self, kind: SessionType) -> tss_esapi::Result<AuthSession> {
        let parent = self.parent;
        let session = self.context.start_auth_session(
            Some(parent),
            None,
            None,
            kind,
            SymmetricDefinition::AES_128_CFB,
            SESSION_HASH,
        )?;
        let session = session.ok_or(Error::WrapperError(tss_esapi::WrapperErrorKind::WrongValueFromTpm))?;
        let (attributes, mask) =
            SessionAttributesBuilder::new().with_decrypt(kind == SessionType::Hmac).with_encrypt(true).build();
        self.context.tr_sess_set_attributes(session, attributes, mask)?;
        Ok(session)
    }

    fn policy(&mut self, session: AuthSession, selection: &PcrChoice) -> tss_esapi::Result<Digest> {
        let session = PolicySession::try_from(session)?;
        self.context.policy_pcr(session, Digest::default(), selection.list.clone())?;
        self.context.policy_get_digest(session)
    }
}

fn denied(reason: &str) -> ProviderError {
    ProviderError::Denied(reason.to_owned())
}

fn is_of_the_object(kind: Option<Tss2ResponseCodeKind>) -> bool {
    use Tss2ResponseCodeKind::{Attributes, Binding, Hash, Insufficient, Integrity, Kdf, Scheme, Size, Type, Value};
    kind.is_some_and(|kind| {
        [Integrity, Insufficient, Size, Value, Binding, Type, Hash, Attributes, Scheme, Kdf].contains(&kind)
    })
}

/// PCRs of one bank.
struct PcrChoice {
    list: PcrSelectionList,
}

impl PcrChoice {
    fn parse(text: &str) -> Option<Self> {
        let (bank, numbers) = parse_pcrs(text)?;
        let bank = match bank {
            "sha256" => HashingAlgorithm::Sha256,
            "sha384" => HashingAlgorithm::Sha384,
            _ => HashingAlgorithm::Sha512,
        };
        let slots: Vec<PcrSlot> =
            numbers.iter().map(|number| PcrSlot::try_from(1 << number).ok()).collect::<Option<_>>()?;
        let list = PcrSelectionList::builder().with_selection(bank, &slots).build().ok()?;
        Some(Self { list })
    }
}

/// The template of the TCG for a storage root key on P-256 (Provisioning Guidance, 7.5.1; EK Credential Profile, template L-2).
fn storage_root_key() -> tss_esapi::Result<Public> {
    let attributes = ObjectAttributesBuilder::new()
        .with_fixed_tpm(true)
        .with_fixed_parent(true)
        .with_sensitive_data_origin(true)
        .with_user_with_auth(true)
        .with_no_da(true)
        .with_restricted(true)
        .with_decrypt(true)
        .build()?;
    let parameters = PublicEccParametersBuilder::new()
        .with_symmetric(SymmetricDefinitionObject::AES_128_CFB)
        .with_ecc_scheme(EccScheme::Null)
        .with_curve(EccCurve::NistP256)
        .with_key_derivation_function_scheme(KeyDerivationFunctionScheme::Null)
        .with_is_decryption_key(true)
        .with_restricted(true)
        .build()?;
    PublicBuilder::new()
        .with_public_algorithm(PublicAlgorithm::Ecc)
        .with_name_hashing_algorithm(HashingAlgorithm::Sha256)
        .with_object_attributes(attributes)
        .with_ecc_parameters(parameters)
        .with_ecc_unique_identifier(EccPoint::default())
        .build()
}

/// Data that only the policy opens: no password, and nothing that other machines could use.
fn sealed_template(policy: Digest) -> tss_esapi::Result<Public> {
    let attributes =
        ObjectAttributesBuilder::new().with_fixed_tpm(true).with_fixed_parent(true).with_no_da(true).build()?;
    PublicBuilder::new()
        .with_public_algorithm(PublicAlgorithm::KeyedHash)
        .with_name_hashing_algorithm(HashingAlgorithm::Sha256)
        .with_object_attributes(attributes)
        .with_auth_policy(policy)
        .with_keyed_hash_parameters(PublicKeyedHashParameters::new(KeyedHashScheme::Null))
        .with_keyed_hash_unique_identifier(Digest::default())
        .build()
}
