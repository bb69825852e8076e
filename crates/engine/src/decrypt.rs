//! Decrypting values: a [`Decryptor`] is one request's right to decrypt for an app. Neighbours with one ephemeral key are opened
//! together.

use std::sync::Arc;

use fieldseal_envelope::{Envelope, Malformed, OpenScratch, Opened, OpenedMetadata, OpeningKey, Role};

use crate::engine::Engine;
use crate::error::{Error, ErrorKind};
use crate::opening::{EphemeralId, Opening, RequestOpenings};
use crate::permit::{Permit, Renewal};
use crate::policy::{Act, Caller, Rights};

/// Neighbours that are taken apart before they are opened: what is known of them then stays in a first-level cache.
const RUN_VALUES_MAX: usize = 64;

/// What a request says about its decryption.
#[derive(Debug, Clone, Copy)]
pub struct DecryptOptions<'a> {
    /// The app.
    pub app: &'a str,
    /// The role that every value must carry.
    pub role: Option<&'a str>,
}

impl<'a> DecryptOptions<'a> {
    /// For `app`, values of any role that the caller may see.
    pub fn new(app: &'a str) -> Self {
        Self { app, role: None }
    }
}

/// Decrypts the values of one request.
pub struct Decryptor {
    pub(crate) permit: Permit,
    pub(crate) role: Option<Role>,
    pub(crate) openings: RequestOpenings,
    scratch: OpenScratch,
}

impl Engine {
    /// Begins to decrypt.
    ///
    /// # Errors
    /// Forbidden, unknown app, disabled app, invalid role, store unavailable.
    pub fn decryptor(&self, caller: &Caller, options: &DecryptOptions<'_>) -> Result<Decryptor, Error> {
        let permit = Permit::new(self, caller, &[Act::Decrypt], options.app)?;
        Ok(Decryptor {
            permit,
            role: options.role.map(Role::parse).transpose()?,
            openings: RequestOpenings::new(self.settings().request_opening_keys_max),
            scratch: OpenScratch::default(),
        })
    }
}

impl Decryptor {
    /// How many texts one step should offer.
    pub fn step_values_max(&self) -> usize {
        self.permit.engine.settings().step_values_max.max(1)
    }

    /// How many texts one worker should take at a time: fewer than a step offers where the texts so far have cost key agreements.
    pub fn part_values_max(&self) -> usize {
        self.openings.values_in_step().min(self.step_values_max())
    }

    /// A decryptor of the same request for another worker: what one has opened helps the other.
    pub fn fork(&mut self) -> Self {
        Self {
            permit: self.permit.clone(),
            role: self.role.clone(),
            openings: self.openings.fork(),
            scratch: OpenScratch::default(),
        }
    }

    /// Opens texts from the first on and hands each to `each` with its index, in order: `None` for a text that is no envelope.
    /// Leaves off before a second key agreement, so that a step stays short; gives how many are done. That is none where a version
    /// of the app's keys was tried in vain: the next call, which begins with the same text, tries the next one.
    ///
    /// # Errors
    /// The first text that is malformed, does not open or may not be shown, with its index. What `each` got before is void.
    pub fn decrypt(
        &mut self,
        texts: &[&[u8]],
        mut each: impl FnMut(usize, Option<Opened<'_>>),
    ) -> Result<usize, Error> {
        self.renew()?;
        let mut run: Vec<Envelope<'_>> = Vec::with_capacity(texts.len().min(RUN_VALUES_MAX));
        let (mut done, mut agreements) = (0, 0);
        while done < texts.len() {
            run.clear();
            take_run(&texts[done..], &mut run).map_err(|malformed| Error::from(malformed).at_index(done as u64))?;
            let Some(first) = run.first() else {
                each(done, None);
                done += 1;
                continue;
            };
            let opening = self.opening(first).map_err(|error| error.at_index(done as u64))?;
            if opening.known().is_none() {
                if agreements > 0 {
                    break;
                }
                agreements += 1;
            }
            let key = self.openings.key(&opening, &self.permit.engine.agreements(), first, &mut self.scratch);
            let Some(key) = key.map_err(|error| Error::from(error).at_index(done as u64))? else { break };
            self.open_run(key, &run, done, &mut each)?;
            done += run.len();
        }
        self.openings.note(done, agreements);
        Ok(done)
    }

    /// To be called at the beginning of each step.
    pub(crate) fn renew(&mut self) -> Result<Renewal, Error> {
        let renewal = self.permit.renew()?;
        if renewal == Renewal::Renewed {
            self.openings = RequestOpenings::new(self.permit.engine.settings().request_opening_keys_max);
        }
        Ok(renewal)
    }

    fn opening(&mut self, envelope: &Envelope<'_>) -> Result<Arc<Opening>, Error> {
        let ephemeral = EphemeralId::of(envelope);
        Ok(self.openings.find(ephemeral, || self.permit.engine.opening(&self.permit.app, ephemeral))?)
    }

    fn open_run(
        &mut self,
        key: &OpeningKey,
        run: &[Envelope<'_>],
        first: usize,
        each: &mut impl FnMut(usize, Option<Opened<'_>>),
    ) -> Result<(), Error> {
        let Self { permit: Permit { rights, .. }, role, scratch, .. } = self;
        let mut fault = None;
        key.open_many(run, scratch, |i, result| {
            let error = match result {
                Ok(opened) => match check_role(rights, role.as_ref(), opened.metadata) {
                    Ok(()) => return each(first + i, Some(opened)),
                    Err(error) => error,
                },
                Err(error) => error.into(),
            };
            fault.get_or_insert(error.at_index((first + i) as u64));
        });
        fault.map_or(Ok(()), Err)
    }
}

/// Takes neighbours with one ephemeral key from the front; none when the first text is no envelope.
fn take_run<'a>(texts: &[&'a [u8]], run: &mut Vec<Envelope<'a>>) -> Result<(), Malformed> {
    for text in texts.iter().take(RUN_VALUES_MAX) {
        match Envelope::parse_next(text, run) {
            Ok(()) => {
                let is_neighbour = run.last().zip(run.first()).is_some_and(|(last, first)| first.shares_key(last));
                if !is_neighbour {
                    run.pop();
                    break;
                }
            }
            // One behind others waits for its turn: the first fault of all is the one to tell.
            Err(malformed) if malformed != Malformed::NotAnEnvelope && run.is_empty() => return Err(malformed),
            Err(_) => break,
        }
    }
    Ok(())
}

/// The role that an envelope carries must be one that the caller may see, and the one that the request asked for.
pub(crate) fn check_role(
    rights: &Rights,
    wanted: Option<&Role>,
    metadata: Option<OpenedMetadata<'_>>,
) -> Result<(), Error> {
    let carried = metadata.and_then(|metadata| metadata.role);
    if let Some(role) = carried {
        rights.check_role(role)?;
    }
    match wanted {
        Some(wanted) if carried != Some(wanted.as_str()) => {
            Err(Error::new(ErrorKind::Forbidden, "a value does not carry the role that was asked for"))
        }
        _ => Ok(()),
    }
}
