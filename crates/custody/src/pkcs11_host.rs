//! The process that loads a PKCS #11 module: logs in, finds the key, wraps or unwraps once.

use std::fmt;
use std::path::Path;

use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::mechanism::MechanismType;
use cryptoki::mechanism::aead::GcmParams;
use cryptoki::mechanism::rsa::{PkcsMgfType, PkcsOaepParams, PkcsOaepSource};
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use leafseal_crypto::rand_core::Rng;
use leafseal_keystore::{ProviderError, SecretPath, SlotKind, read_private_file};
use zeroize::Zeroizing;

use crate::device::{DeviceOperation, DeviceRequest, answer_request};

/// Largest PIN file in bytes.
const PIN_SIZE_MAX: usize = 4 << 10;
const IV_SIZE: usize = 12;
const TAG_BITS: u64 = 128;
/// Objects with the key's label that are looked at: two suffice to see that the label is not unique.
const OBJECT_COUNT_MAX: usize = 2;

/// First byte of what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WrappedForm {
    /// IV ‖ ciphertext ‖ tag.
    AesGcm = 1,
    OaepSha256 = 2,
    /// For modules that know no other hash, as SoftHSM 2.6. OAEP does not rest on the hash's resistance to collisions.
    OaepSha1 = 3,
}

/// What stands for the engine in the process that loads the module.
pub fn pkcs11_host() -> std::process::ExitCode {
    answer_request(|request| match &request.device[..] {
        [module, token, key, pin_file, kind] => {
            let token = Token { module: Path::new(module), token, key, pin_file: Path::new(pin_file) };
            token.answer(request, SlotKind::of_name(kind) == Some(SlotKind::Pkcs11Rsa))
        }
        _ => Err(ProviderError::Unavailable("it was started by another version of the program".to_owned())),
    })
}

/// The key's place.
struct Token<'r> {
    module: &'r Path,
    token: &'r str,
    key: &'r str,
    pin_file: &'r Path,
}

/// The error of a step that says nothing about one slot.
fn unavailable(step: &str, reason: impl fmt::Display) -> ProviderError {
    ProviderError::Unavailable(format!("{step}: {reason}"))
}

/// The same, with the module's word for it. The library's text for one is a paragraph of the standard.
fn failed(step: &str) -> impl FnOnce(Error) -> ProviderError {
    move |error| unavailable(step, word(&error))
}

fn word(error: &Error) -> String {
    match error {
        Error::Pkcs11(code, function) => format!("{function}: {code:?}"),
        error => error.to_string(),
    }
}

impl Token<'_> {
    fn answer(&self, request: &DeviceRequest, is_rsa: bool) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let module = Pkcs11::new(self.module).map_err(failed(&format!("pkcs11.module {}", self.module.display())))?;
        let arguments = CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK);
        module.initialize(arguments).map_err(failed("the module does not start"))?;
        let slot = self.slot(&module)?;
        let session = self.log_in(&module, slot)?;
        let key = TokenKey { session: &session, label: self.key };
        match (request.operation, is_rsa) {
            (DeviceOperation::Wrap, false) => key.wrap_aes(request),
            (DeviceOperation::Wrap, true) => key.wrap_rsa(request),
            (DeviceOperation::Unwrap, _) => key.unwrap(request, is_rsa),
        }
        // The session and the module end with the process, once it has answered: a module that hangs at its end costs nothing.
    }

    fn slot(&self, module: &Pkcs11) -> Result<Slot, ProviderError> {
        let slots = module.get_slots_with_initialized_token();
        let slots = slots.map_err(failed("the module lists no tokens"))?;
        let has_label = |slot: &&Slot| {
            module.get_token_info(**slot).is_ok_and(|info| info.label().trim_end_matches([' ', '\0']) == self.token)
        };
        match slots.iter().filter(has_label).collect::<Vec<_>>()[..] {
            [slot] => Ok(*slot),
            [] => Err(unavailable("no token has this label", "check pkcs11.token")),
            _ => Err(unavailable("several tokens have this label", "give each its own")),
        }
    }

    fn log_in(&self, module: &Pkcs11, slot: Slot) -> Result<Session, ProviderError> {
        let info = module.get_token_info(slot).map_err(failed("the token is not there"))?;
        if info.user_pin_locked() {
            return Err(unavailable("its user's PIN is locked", "the security officer unlocks it"));
        }
        // An engine that is started again and again with a wrong PIN must not lock the token.
        if info.user_pin_final_try() {
            let advice = "log in once with another program, then check pkcs11.pin_file";
            return Err(unavailable("one try of the PIN is left, which is not used", advice));
        }
        let session = module.open_ro_session(slot).map_err(failed("no session"))?;
        match session.login(UserType::User, Some(&self.pin()?)) {
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(Error::Pkcs11(RvError::PinIncorrect, _)) => {
                Err(unavailable("the PIN in pkcs11.pin_file is wrong", "after some more tries the token locks it"))
            }
            Err(error) => Err(failed("no login")(error)),
        }
    }

    fn pin(&self) -> Result<AuthPin, ProviderError> {
        let content = read_private_file(SecretPath::PinFile, self.pin_file, PIN_SIZE_MAX);
        let content = content.map_err(|error| unavailable("pkcs11.pin_file", error))?;
        let line = content.as_deref().and_then(|content| content.split(|byte| *byte == b'\n').next());
        let pin = line.and_then(|line| std::str::from_utf8(line).ok()).map(str::trim_ascii);
        let pin = pin.filter(|pin| !pin.is_empty());
        let advice = "its first line must be the PIN";
        pin.map(|pin| AuthPin::from(pin.to_owned())).ok_or_else(|| unavailable("pkcs11.pin_file", advice))
    }
}

/// A key by its label.
struct TokenKey<'s> {
    session: &'s Session,
    label: &'s str,
}

impl TokenKey<'_> {
    /// The only object of this class, and what the objects for encrypting and decrypting have in common.
    fn find(&self, class: ObjectClass, kind: KeyType) -> Result<ObjectHandle, ProviderError> {
        let template = [
            Attribute::Class(class),
            Attribute::KeyType(kind),
            Attribute::Token(true),
            Attribute::Label(self.label.as_bytes().to_vec()),
        ];
        let found = self.session.iter_objects(&template).map_err(failed("no key is found"))?;
        let found: Vec<_> =
            found.take(OBJECT_COUNT_MAX).collect::<Result<_, _>>().map_err(failed("no key is found"))?;
        match found[..] {
            [key] => Ok(key),
            [] => Err(unavailable(&format!("{kind} key {}", self.label), "not there for this user: check pkcs11.key")),
            _ => Err(unavailable(&format!("{kind} key {}", self.label), "several have this label: give each its own")),
        }
    }

    /// A key that can be read out of the module can be used without it.
    fn stays_inside(&self, key: ObjectHandle) -> Result<(), ProviderError> {
        let asked = [AttributeType::Sensitive, AttributeType::Extractable];
        let found = self.session.get_attributes(key, &asked).map_err(failed("the key's attributes"))?;
        let is = |wanted: &Attribute| found.contains(wanted);
        if is(&Attribute::Sensitive(true)) && is(&Attribute::Extractable(false)) {
            return Ok(());
        }
        let advice = "make one with CKA_SENSITIVE true and CKA_EXTRACTABLE false";
        Err(unavailable(&format!("key {} can be read out of the module", self.label), advice))
    }

    fn wrap_aes(&self, request: &DeviceRequest) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let key = self.find(ObjectClass::SECRET_KEY, KeyType::AES)?;
        self.stays_inside(key)?;
        let mut iv = [0; IV_SIZE];
        leafseal_crypto::random::system_random().fill_bytes(&mut iv);
        let parameters = GcmParams::new(&mut iv, &request.associated_data, TAG_BITS.into());
        let mechanism = Mechanism::AesGcm(parameters.map_err(failed("AES-GCM"))?);
        let ciphertext = self.session.encrypt(&mechanism, key, &request.input);
        let ciphertext = ciphertext.map_err(failed("the key does not encrypt with AES-GCM"))?;
        // A module may write an IV of its own in the place of ours; one that forgets to would repeat it.
        if iv == [0; IV_SIZE] {
            return Err(unavailable("the module uses an IV of zeros", "set pkcs11.mechanism to rsa-oaep"));
        }
        Ok(Zeroizing::new([&[WrappedForm::AesGcm as u8], iv.as_slice(), &ciphertext].concat()))
    }

    fn wrap_rsa(&self, request: &DeviceRequest) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        self.stays_inside(self.find(ObjectClass::PRIVATE_KEY, KeyType::RSA)?)?;
        let key = self.find(ObjectClass::PUBLIC_KEY, KeyType::RSA)?;
        let sha256 = self.session.encrypt(&oaep(WrappedForm::OaepSha256), key, &request.input);
        let (format, ciphertext) = match sha256 {
            Ok(ciphertext) => (WrappedForm::OaepSha256, ciphertext),
            Err(_) => {
                let sha1 = self.session.encrypt(&oaep(WrappedForm::OaepSha1), key, &request.input);
                (WrappedForm::OaepSha1, sha1.map_err(failed("the key does not encrypt with OAEP"))?)
            }
        };
        Ok(Zeroizing::new([&[format as u8], ciphertext.as_slice()].concat()))
    }

    fn unwrap(&self, request: &DeviceRequest, is_rsa: bool) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
        let (first, rest) = request.input.split_first().ok_or(ProviderError::Refused)?;
        let formats =
            if is_rsa { &[WrappedForm::OaepSha256, WrappedForm::OaepSha1][..] } else { &[WrappedForm::AesGcm] };
        let format = formats.iter().copied().find(|format| *format as u8 == *first).ok_or(ProviderError::Refused)?;
        if format != WrappedForm::AesGcm {
            let key = self.find(ObjectClass::PRIVATE_KEY, KeyType::RSA)?;
            return opened(self.session.decrypt(&oaep(format), key, rest));
        }
        let (iv, ciphertext) = rest.split_first_chunk::<IV_SIZE>().ok_or(ProviderError::Refused)?;
        // An empty IV, which some modules accept, does not come from here.
        let mut iv = *iv;
        let key = self.find(ObjectClass::SECRET_KEY, KeyType::AES)?;
        let parameters = GcmParams::new(&mut iv, &request.associated_data, TAG_BITS.into());
        let mechanism = Mechanism::AesGcm(parameters.map_err(failed("AES-GCM"))?);
        opened(self.session.decrypt(&mechanism, key, ciphertext))
    }
}

/// RFC 8017, section 7.1, with an empty label, as modules know no other: the ids inside bind what is wrapped to its place.
fn oaep(format: WrappedForm) -> Mechanism<'static> {
    let (hash, mask) = match format {
        WrappedForm::OaepSha1 => (MechanismType::SHA1, PkcsMgfType::MGF1_SHA1),
        WrappedForm::AesGcm | WrappedForm::OaepSha256 => (MechanismType::SHA256, PkcsMgfType::MGF1_SHA256),
    };
    Mechanism::RsaPkcsOaep(PkcsOaepParams::new(hash, mask, PkcsOaepSource::empty()))
}

fn opened(result: Result<Vec<u8>, Error>) -> Result<Zeroizing<Vec<u8>>, ProviderError> {
    use RvError::{
        ArgumentsBad, DataInvalid, DataLenRange, EncryptedDataInvalid, EncryptedDataLenRange, FunctionFailed,
        GeneralError,
    };
    result.map(Zeroizing::new).map_err(|error| match error {
        // Of what is wrapped, in the words of various modules: SoftHSM says general error where the associated data is another.
        Error::Pkcs11(
            ArgumentsBad
            | DataInvalid
            | DataLenRange
            | EncryptedDataInvalid
            | EncryptedDataLenRange
            | FunctionFailed
            | GeneralError,
            _,
        ) => ProviderError::Denied(format!("the key does not open the slot: {}", word(&error))),
        error => failed("the key does not decrypt")(error),
    })
}
