//! The parameters of calls to the engine, as owned values for offload threads.

use super::*;

/// The common parameters of engine requests.
pub(super) struct CallParams {
    pub(super) app: Box<str>,
    pub(super) role: Option<Box<str>>,
    pub(super) sealing: RuleSealing,
    pub(super) key_id: Option<Box<str>>,
    pub(super) deadline_ms: u32,
    pub(super) on_failure: UnopenedAction,
    pub(super) other_case: Option<OtherCase>,
    pub(super) skip_sealed: bool,
    pub(super) is_lines: bool,
}

impl CallParams {
    pub(super) fn encrypt(&self) -> EncryptOptions<'_> {
        let deadline_ms = Some(self.deadline_ms);
        let (role, skip_sealed, other_case) = (self.role.as_deref(), self.skip_sealed, self.other_case);
        let lines = self.is_lines;
        EncryptOptions {
            role,
            deadline_ms,
            skip_sealed,
            lines,
            other_case,
            scheme: self.scheme(),
            context: self.sealing.context.as_deref(),
            context_select: self.sealing.context_select.as_deref(),
            bind: self.bind(),
            reseal: self.sealing.reseal.map(|RuleReseal::Symmetric| Reseal::Symmetric),
            accept: self.accept(),
            ..EncryptOptions::new(&self.app)
        }
    }

    pub(super) fn decrypt(&self) -> DecryptOptions<'_> {
        let deadline_ms = Some(self.deadline_ms);
        let on_failure = match self.on_failure {
            // Omitted, so that older engines accept the request.
            UnopenedAction::Fail => None,
            UnopenedAction::Leave => Some(leafseal_client::OnFailure::Leave),
            UnopenedAction::Null => Some(leafseal_client::OnFailure::Null),
        };
        let (role, key_id, other_case) = (self.role.as_deref(), self.key_id.as_deref(), self.other_case);
        let lines = self.is_lines;
        let (context, accept) = (self.sealing.context.as_deref(), self.accept());
        DecryptOptions {
            role,
            deadline_ms,
            on_failure,
            lines,
            other_case,
            key_id,
            context,
            context_select: self.sealing.context_select.as_deref(),
            bind: self.bind(),
            accept,
            ..DecryptOptions::new(&self.app)
        }
    }

    pub(super) fn encrypt_file(&self) -> EncryptFileOptions<'_> {
        let (scheme, context) = (self.scheme(), self.sealing.context.as_deref());
        EncryptFileOptions {
            deadline_ms: Some(self.deadline_ms),
            scheme,
            context,
            ..EncryptFileOptions::new(&self.app)
        }
    }

    pub(super) fn decrypt_file(&self) -> DecryptFileOptions<'_> {
        let (deadline_ms, key_id) = (Some(self.deadline_ms), self.key_id.as_deref());
        let (context, accept) = (self.sealing.context.as_deref(), self.accept());
        DecryptFileOptions { deadline_ms, key_id, context, accept, ..DecryptFileOptions::new(&self.app) }
    }

    fn scheme(&self) -> Option<Scheme> {
        self.sealing.scheme.map(|scheme| match scheme {
            RuleScheme::PublicKey => Scheme::PublicKey,
            RuleScheme::Symmetric => Scheme::Symmetric,
        })
    }

    fn bind(&self) -> Option<PathBinding> {
        self.sealing.bind.map(|bind| match bind {
            RuleBinding::Path => PathBinding::Path,
            RuleBinding::PathAndIndex => PathBinding::PathAndIndex,
        })
    }

    fn accept(&self) -> Option<WordSet<'_, AcceptedScheme>> {
        let words = self.sealing.accept.as_deref()?;
        Some(WordSet::parse(words).expect("checked when the configuration was read"))
    }
}
