//! Files in forms, which are encrypted in the file form.

use std::ops::Range;

use leafseal_client::ErrorCode;

use super::*;
use crate::body::envelopes::FILE_START;

impl MessageRules<'_> {
    /// Encrypts or decrypts a file of a form; returns `None` if it stays unchanged. Its memory is added to the share.
    pub(super) async fn file(
        &mut self,
        rule: &Rule,
        body: Arc<BodyBuffer>,
        at: Range<usize>,
        share: &mut BudgetShare,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let size = at.len();
        let encrypts = match rule.action {
            Action::Redact => {
                self.changed[rule.action as usize] += 1;
                return Ok(Some(rule.replacement.as_bytes().to_vec()));
            }
            Action::Decrypt if !body.as_ref().as_ref()[at.clone()].starts_with(FILE_START) => return Ok(None),
            action => action == Action::Encrypt,
        };
        if encrypts && body.as_ref().as_ref()[at.clone()].starts_with(FILE_START) {
            if rule.skip_sealed && self.opens(rule, Arc::clone(&body), at.clone(), share).await? {
                self.reported.skipped += 1;
                return Ok(None);
            }
            self.reported.resealed += 1;
        }
        let message = share.another(size + MESSAGE_SIZE)?;
        let params = self.params(rule);
        let write = move || match encrypts {
            true => Prepared::encrypt_file(&params.encrypt_file(), &body.as_ref().as_ref()[at]),
            false => Prepared::decrypt_file(&params.decrypt_file(), &body.as_ref().as_ref()[at]),
        };
        let (answer, arrived) = match self.try_call(message, share.another(0)?, write).await? {
            Err(error) if rule.on_failure != UnopenedAction::Fail && is_decrypt_failure(&error) => {
                let place = "a file in the form".to_owned();
                self.unopened.add(1, std::iter::once(place), self.transforms.failure_paths_max);
                return Ok((rule.on_failure == UnopenedAction::Null).then(Vec::new));
            }
            answer => answer.map_err(|error| Refusal::of_engine(self.direction, &error))?,
        };
        self.changed[rule.action as usize] += 1;
        share.grow(arrived.size())?;
        drop(arrived);
        let read = self.offload().run(Cost::of_copy(answer.size()), move || answer.into_file()).await;
        read.map(Some).map_err(|error| Refusal::of_engine(self.direction, &error))
    }

    /// Whether an encrypted file decrypts; its content is dropped.
    async fn opens(
        &self,
        rule: &Rule,
        body: Arc<BodyBuffer>,
        at: Range<usize>,
        share: &BudgetShare,
    ) -> Result<bool, Refusal> {
        let message = share.another(at.len() + MESSAGE_SIZE)?;
        let params = self.params(rule);
        let write = move || Prepared::decrypt_file(&params.decrypt_file(), &body.as_ref().as_ref()[at]);
        match self.try_call(message, share.another(0)?, write).await? {
            Ok(_) => Ok(true),
            Err(error) if is_decrypt_failure(&error) => Ok(false),
            Err(error) => Err(Refusal::of_engine(self.direction, &error)),
        }
    }
}

/// Whether the error means that the file cannot be decrypted, and nothing else.
fn is_decrypt_failure(error: &ClientError) -> bool {
    matches!(error.kind, ErrorKind::Engine(ErrorCode::DecryptFailed | ErrorCode::InvalidEnvelope))
}
