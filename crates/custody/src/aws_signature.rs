//! Signatures of requests to AWS, version 4.

use hex::encode;
use leafseal_crypto::hash::{hmac_sha256, sha256};
use zeroize::{Zeroize, Zeroizing};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// What authenticates us.
pub(crate) struct AwsCredentials {
    pub(crate) key_id: String,
    pub(crate) secret: Zeroizing<String>,
    /// Of temporary credentials.
    pub(crate) session_token: Option<Zeroizing<String>>,
}

impl AwsCredentials {
    /// The section `[default]` of a shared credentials file.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut is_ours, mut key_id, mut secret, mut session_token) = (false, None, None, None);
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                is_ours = line == "[default]";
            } else if let Some((name, value)) = line.split_once('=').filter(|_| is_ours && !line.starts_with('#')) {
                let value = value.trim();
                match name.trim() {
                    "aws_access_key_id" => key_id = Some(value.to_owned()),
                    "aws_secret_access_key" => secret = Some(Zeroizing::new(value.to_owned())),
                    "aws_session_token" => session_token = Some(Zeroizing::new(value.to_owned())),
                    _ => {}
                }
            }
        }
        Some(Self { key_id: key_id?, secret: secret?, session_token })
    }
}

/// A request to sign. Path and query are `/` and empty.
pub(crate) struct Signed<'r> {
    pub(crate) method: &'r str,
    pub(crate) region: &'r str,
    pub(crate) service: &'r str,
    /// `YYYYMMDDThhmmssZ`, as in the header field `x-amz-date`.
    pub(crate) time: &'r str,
    /// Every field that is signed, names in lower case and sorted.
    pub(crate) fields: &'r [(&'r str, &'r str)],
    pub(crate) body: &'r [u8],
}

impl Signed<'_> {
    /// The header field `authorization`.
    pub(crate) fn authorization(&self, credentials: &AwsCredentials) -> String {
        let names = self.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let hash = encode(sha256(&[self.body]));
        let request = format!("{}\n/\n\n{fields}\n{names}\n{hash}", self.method);
        let day = self.time.split('T').next().unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let text = format!("{ALGORITHM}\n{}\n{scope}\n{}", self.time, encode(sha256(&[request.as_bytes()])));
        let first = Zeroizing::new(format!("AWS4{}", credentials.secret.as_str()).into_bytes());
        let mut key = hmac_sha256(&first, day.as_bytes());
        for part in [self.region, self.service, "aws4_request"] {
            key = hmac_sha256(&key, part.as_bytes());
        }
        let signature = encode(hmac_sha256(&key, text.as_bytes()));
        key.zeroize();
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credentials.key_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "\
[other]
aws_access_key_id = X
[default]
# A comment
aws_access_key_id = AKIDEXAMPLE
aws_secret_access_key=wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY
";

    #[test]
    fn the_test_suite_of_aws_has_the_same_signatures() {
        let credentials = AwsCredentials::parse(EXAMPLE).expect("credentials");
        assert!(credentials.session_token.is_none());
        // The cases get-vanilla, post-vanilla and post-header-value-case.
        for (method, fields, signature) in [
            (
                "GET",
                vec![("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")],
                "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
            ),
            (
                "POST",
                vec![("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")],
                "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
            ),
            (
                "POST",
                vec![("host", "example.amazonaws.com"), ("my-header1", "VALUE1"), ("x-amz-date", "20150830T123600Z")],
                "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
            ),
        ] {
            let time = "20150830T123600Z";
            let signed = Signed { method, region: "us-east-1", service: "service", time, fields: &fields, body: b"" };
            let authorization = signed.authorization(&credentials);
            assert!(authorization.ends_with(&format!("Signature={signature}")), "{authorization}");
            assert!(authorization.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, "));
        }
    }

    #[test]
    fn credentials_are_those_of_the_default_profile() {
        let token = AwsCredentials::parse(&format!("{EXAMPLE}aws_session_token = T\n")).expect("credentials");
        assert_eq!(token.session_token.as_ref().map(|token| token.as_str()), Some("T"));
        for text in ["", "[other]\naws_access_key_id=A\naws_secret_access_key=B\n", "[default]\naws_access_key_id=A\n"]
        {
            assert!(AwsCredentials::parse(text).is_none(), "{text}");
        }
    }
}
