//! A key version in escrow, as a text: a statement of what it has, signed by the store from which it comes, and then its private keys and
//! its symmetric root (`docs/format.md`, rules 18 to 20). It comes back into a store as a whole: the keeper of an escrow could otherwise
//! put in a key or a root of their own, and someone who chooses two roots can make a value that opens under both
//! (`docs/decisions/0049-xaes.md`).

use base64ct::{Base64, Encoding};
use leafseal_crypto::symmetric::{SymmetricKeyId, SymmetricRoot};
use leafseal_crypto::{Curve, EcContext, PublicKey, ed25519};
use zeroize::Zeroizing;

use crate::AppName;
use crate::accepted::AcceptedSchemes;
use crate::escrow_fault::{EscrowFault, STATEMENT_TITLE};
use crate::model::{AppKeyPair, AppKeys, KeyVersion, NewKeys, VersionSummary};
use crate::pem::{parse_private_key_pem, pem};
use crate::record_key::{RECORD_KEY_SIZE, RECORD_SIGNATURE_SIZE, RecordKey};
use crate::store_id::StoreId;

/// What comes before the signature of a statement.
const SIGNATURE: &str = " signature=";
/// What comes before the base64 of a root.
const ROOT: &str = "leafseal-symmetric-root-1 root=";
/// The end of a private key.
const KEY_END: &str = "-----END PRIVATE KEY-----\n";
/// What a statement has for what is not there.
const NONE: &str = "none";
/// Longest text in bytes.
pub(crate) const ESCROWED_SIZE_MAX: usize = 4096;

/// Whose key signs ([`Keystore::record_key`](crate::Keystore::record_key)): no engine can have this name
/// ([`is_signer`](crate::is_signer)).
pub const ESCROW_SIGNER: &str = "escrow of key versions";

/// What a store says of a key version that it exports. No secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EscrowStatement {
    /// The store.
    pub store: StoreId,
    /// How often the root of the store had been replaced, for the key to verify it with.
    pub epoch: u32,
    /// The app.
    pub app: AppName,
    /// The version of its keys.
    pub version: u32,
    /// When the version was made, in Unix seconds.
    pub created_at: u64,
    /// The envelopes that were decrypted for the app.
    pub accept: AcceptedSchemes,
    /// The P-256 public key.
    pub r1: PublicKey,
    /// The secp256k1 public key.
    pub k1: PublicKey,
    /// The id of the symmetric root, which is a hash of it; none of a version that was made before schema 3.
    pub symmetric: Option<SymmetricKeyId>,
}

impl EscrowStatement {
    /// What is signed.
    fn text(&self) -> String {
        let Self { store, epoch, app, version, created_at, .. } = self;
        let accept = self.accept.text();
        let [r1, k1] = [&self.r1, &self.k1].map(|key| hex::encode(key.compressed()));
        let key_id = self.symmetric.map_or_else(|| NONE.to_owned(), |id| id.to_string());
        format!(
            "{STATEMENT_TITLE} store={store} epoch={epoch} app={app} version={version} created_at={created_at} accept={accept} \
             r1={r1} k1={k1} key_id={key_id}"
        )
    }

    /// Reads that, and other spellings of it.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix(STATEMENT_TITLE)?.strip_prefix(' ')?.split(' ');
        let mut value = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        let key = |curve, digits: &str| PublicKey::from_sec1(curve, &hex::decode(digits).ok()?).ok();
        let id = |digits: &str| Some(SymmetricKeyId(hex::decode(digits).ok()?.try_into().ok()?));
        Some(Self {
            store: StoreId::parse(value("store")?)?,
            epoch: value("epoch")?.parse().ok()?,
            app: AppName::parse(value("app")?).ok()?,
            version: value("version")?.parse().ok()?,
            created_at: value("created_at")?.parse().ok()?,
            accept: AcceptedSchemes::parse(value("accept")?)?,
            r1: key(Curve::P256, value("r1")?)?,
            k1: key(Curve::Secp256k1, value("k1")?)?,
            symmetric: match value("key_id")? {
                NONE => None,
                digits => Some(id(digits)?),
            },
        })
    }
}

/// A key version that was read, whose keys are those of its statement. Nobody has verified the signature.
#[derive(Debug)]
pub struct EscrowedVersion {
    statement: EscrowStatement,
    signature: [u8; RECORD_SIGNATURE_SIZE],
    r1: AppKeyPair,
    k1: AppKeyPair,
    symmetric: Option<SymmetricRoot>,
}

impl EscrowedVersion {
    /// A version of an app, signed with the key of [`ESCROW_SIGNER`].
    pub(crate) fn sign(app: &AppKeys, version: &KeyVersion, signer: &RecordKey) -> Self {
        let KeyVersion { r1, k1, symmetric, .. } = version.clone();
        let statement = EscrowStatement {
            store: signer.store_id(),
            epoch: signer.epoch(),
            app: app.name.clone(),
            version: version.version,
            created_at: version.created_at,
            accept: app.accept,
            r1: *r1.public(),
            k1: *k1.public(),
            symmetric: symmetric.as_ref().map(SymmetricRoot::key_id),
        };
        let signature = signer.sign(statement.text().as_bytes());
        Self { statement, signature, r1, k1, symmetric }
    }

    /// The text.
    pub(crate) fn text(&self) -> Zeroizing<String> {
        // It never grows: a growing text would leave copies behind.
        let mut text = Zeroizing::new(String::with_capacity(ESCROWED_SIZE_MAX));
        text.push_str(&self.statement_line());
        for pair in [&self.r1, &self.k1] {
            text.push_str(&private_key_pem(pair));
        }
        if let Some(root) = &self.symmetric {
            text.push_str(ROOT);
            text.push_str(&Zeroizing::new(Base64::encode_string(root.bytes())));
            text.push('\n');
        }
        text
    }

    fn statement_line(&self) -> String {
        format!("{}{SIGNATURE}{}\n", self.statement.text(), hex::encode(self.signature))
    }

    /// Reads a text. `context` derives the public keys, to hold them against those of the statement.
    ///
    /// # Errors
    /// [`EscrowFault::NoStatement`], [`EscrowFault::Statement`], [`EscrowFault::Keys`].
    pub fn parse(text: &str, context: &EcContext) -> Result<Self, EscrowFault> {
        if !text.starts_with(STATEMENT_TITLE) {
            return Err(EscrowFault::NoStatement);
        }
        let (line, keys) = text.split_once('\n').ok_or(EscrowFault::Statement)?;
        let (statement, signature) = Self::parse_line(line).ok_or(EscrowFault::Statement)?;
        let (r1, k1, symmetric) = Self::parse_keys(keys, context).ok_or(EscrowFault::Keys)?;
        let read = Self { statement, signature, r1, k1, symmetric };
        // There is one way to write it: what is in another order, or there twice, is not taken.
        if text.strip_suffix(keys) != Some(&read.statement_line()) {
            return Err(EscrowFault::Statement);
        }
        let stated = &read.statement;
        let named = (&stated.r1, &stated.k1, stated.symmetric);
        let found = (read.r1.public(), read.k1.public(), read.symmetric.as_ref().map(SymmetricRoot::key_id));
        if named != found || *read.text() != text {
            return Err(EscrowFault::Keys);
        }
        Ok(read)
    }

    fn parse_line(line: &str) -> Option<(EscrowStatement, [u8; RECORD_SIGNATURE_SIZE])> {
        let (signed, signature) = line.split_once(SIGNATURE)?;
        Some((EscrowStatement::parse(signed)?, hex::decode(signature).ok()?.try_into().ok()?))
    }

    fn parse_keys(text: &str, context: &EcContext) -> Option<(AppKeyPair, AppKeyPair, Option<SymmetricRoot>)> {
        let pair = |text: &str, curve| {
            let key = parse_private_key_pem(text, curve, context).ok()?;
            Some(AppKeyPair::new(key, context))
        };
        let (r1, rest) = text.split_at(text.find(KEY_END)? + KEY_END.len());
        let (k1, root) = rest.split_at(rest.find(KEY_END)? + KEY_END.len());
        let root = match root {
            "" => None,
            root => {
                let base64 = root.strip_prefix(ROOT)?.strip_suffix('\n')?;
                Some(SymmetricRoot::from_slice(&Zeroizing::new(Base64::decode_vec(base64).ok()?))?)
            }
        };
        Some((pair(r1, Curve::P256)?, pair(k1, Curve::Secp256k1)?, root))
    }

    /// What the store says of it.
    pub fn statement(&self) -> &EscrowStatement {
        &self.statement
    }

    /// Whether this key has signed the statement.
    pub(crate) fn is_signed_by(&self, key: &[u8; RECORD_KEY_SIZE]) -> bool {
        ed25519::verify(key, self.statement.text().as_bytes(), &self.signature)
    }

    /// The statement, and the keys to make a version of.
    pub(crate) fn into_parts(self) -> (EscrowStatement, NewKeys) {
        (self.statement, NewKeys::of_escrow(self.r1.private(), self.k1.private(), self.symmetric))
    }
}

/// Key versions to take back from escrow.
#[derive(Debug)]
pub struct EscrowImport {
    /// Of one app of one store, in any order.
    pub versions: Vec<EscrowedVersion>,
    /// The app from which they must come.
    pub from: AppName,
    /// The key of another store that is trusted, too.
    pub signer: Option<[u8; RECORD_KEY_SIZE]>,
}

/// What became of it.
#[derive(Debug)]
pub struct EscrowImported {
    /// In the order of their numbers where they come from: what was said of each, and the version that was made of it.
    pub versions: Vec<(EscrowStatement, VersionSummary)>,
    /// The envelopes that are decrypted for the app now.
    pub accept: AcceptedSchemes,
}

/// The first bytes of a PrivateKeyInfo (RFC 5958, 2) with an ECPrivateKey (RFC 5915, 3): all of its lengths are known.
fn pkcs8_prefix(curve: Curve) -> &'static [u8] {
    match curve {
        Curve::P256 => &[
            0x30, 0x81, 0x87, 0x02, 0x01, 0x00, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20,
        ],
        Curve::Secp256k1 => &[
            0x30, 0x81, 0x84, 0x02, 0x01, 0x00, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06,
            0x05, 0x2b, 0x81, 0x04, 0x00, 0x0a, 0x04, 0x6d, 0x30, 0x6b, 0x02, 0x01, 0x01, 0x04, 0x20,
        ],
    }
}

fn private_key_pem(pair: &AppKeyPair) -> Zeroizing<String> {
    let public = pair.public();
    let parts: [&[u8]; 4] = [
        pkcs8_prefix(public.curve()),
        pair.private().scalar().expose(),
        &[0xa1, 0x44, 0x03, 0x42, 0x00],
        public.uncompressed(),
    ];
    let der = Zeroizing::new(parts.concat());
    Zeroizing::new(pem("PRIVATE KEY", &Zeroizing::new(Base64::encode_string(&der))))
}

#[cfg(test)]
mod tests;
