//! A cache of recipients' tables by public key: a rotation generates another key. Tables contain nothing secret, so a change of the store
//! keeps them; the least recently used ones are evicted.
//!
//! Computing a whole table would make a step too long. It is computed in pieces, one in each step that needs it: the first caller computes
//! the next piece, outside the lock; other callers use the library without the table meanwhile.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leafseal_crypto::{PublicKey, Recipient, RecipientWork};
use lru::LruCache;

/// The state of a recipient's table.
enum KnownRecipient {
    /// Used once. A table pays off from the second use on, so an app that is used once, or evicted in between, costs none.
    Once,
    /// A caller is computing a piece of its table.
    Building,
    /// Its table is incomplete, and no caller is working on it.
    AtRest(Box<RecipientWork>),
    Ready(Arc<Recipient>),
}

/// The most recently used recipients, with a table some time after the second use.
pub(crate) struct Recipients {
    /// `None` disables the cache.
    known: Option<Mutex<LruCache<PublicKey, KnownRecipient>>>,
}

impl Recipients {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { known: NonZeroUsize::new(count_max).map(|count_max| Mutex::new(LruCache::new(count_max))) }
    }

    /// Returns the recipient with this key. From the second call on, each call computes a piece of its table, unless another call is
    /// computing one, and does without the table until it is complete.
    pub(crate) fn get(&self, public: &PublicKey) -> Arc<Recipient> {
        let without_table = || Arc::new(Recipient::from(*public));
        let Some(known) = &self.known else { return without_table() };
        let mut locked = lock(known);
        let Some(found) = locked.get_mut(public) else {
            let _ = locked.push(*public, KnownRecipient::Once);
            return without_table();
        };
        let work = match std::mem::replace(found, KnownRecipient::Building) {
            KnownRecipient::Ready(recipient) => {
                *found = KnownRecipient::Ready(Arc::clone(&recipient));
                return recipient;
            }
            KnownRecipient::Building => return without_table(),
            KnownRecipient::Once => None,
            KnownRecipient::AtRest(work) => Some(work),
        };
        drop(locked);
        let piece = match work {
            Some(work) => work.go_on(),
            None => match RecipientWork::new(*public) {
                Some(work) => work.go_on(),
                // There is no kernel that uses tables.
                None => ControlFlow::Break(Recipient::from(*public)),
            },
        };
        let (recipient, left) = match piece {
            ControlFlow::Break(recipient) => {
                let recipient = Arc::new(recipient);
                (Arc::clone(&recipient), KnownRecipient::Ready(recipient))
            }
            ControlFlow::Continue(work) => (without_table(), KnownRecipient::AtRest(Box::new(work))),
        };
        // If it was evicted meanwhile, the piece is lost, unless it was the last. Another caller may have started again since: then
        // two tables are in progress, of which a later piece replaces an earlier one, but nothing replaces a complete table.
        let mut locked = lock(known);
        match (locked.get_mut(public), left) {
            (Some(KnownRecipient::Ready(_)), _) | (None, KnownRecipient::AtRest(_)) => {}
            (_, left) => _ = locked.put(*public, left),
        }
        drop(locked);
        recipient
    }
}

fn lock(known: &Mutex<LruCache<PublicKey, KnownRecipient>>) -> MutexGuard<'_, LruCache<PublicKey, KnownRecipient>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::recipient::TABLE_PIECES;
    use leafseal_crypto::{Curve, EcContext, PrivateKey};
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;

    fn keys() -> Vec<PublicKey> {
        let mut rng = crate::system_random();
        let context = EcContext::new(&mut rng);
        Curve::ALL.map(|curve| context.public_key(&PrivateKey::generate(curve, &mut rng))).into()
    }

    fn are_ready<const N: usize>(recipients: &Recipients, keys: [&PublicKey; N]) -> [bool; N] {
        keys.map(|key| {
            let recipient = recipients.get(key);
            assert_eq!(recipient.public(), key);
            recipient.has_table()
        })
    }

    /// Requests a key until its table lacks only the last piece.
    fn all_but_ready(recipients: &Recipients, key: &PublicKey) {
        (0..TABLE_PIECES).for_each(|_| assert_eq!(are_ready(recipients, [key]), [false]));
    }

    #[test]
    fn a_piece_is_done_each_time_from_the_second_on_and_the_table_stays() {
        let (keys, recipients) = (keys(), Recipients::new(2));
        for key in &keys {
            // First use, then a piece each time.
            all_but_ready(&recipients, key);
        }
        for key in &keys {
            assert_eq!(are_ready(&recipients, [key; 2]), [true, true], "both fit");
            assert!(Arc::ptr_eq(&recipients.get(key), &recipients.get(key)));
        }
    }

    #[test]
    fn the_least_used_is_evicted_and_starts_again() {
        let (keys, recipients) = (keys(), Recipients::new(1));
        let [first, second] = [&keys[0], &keys[1]];
        for _ in 0..TABLE_PIECES {
            assert_eq!(are_ready(&recipients, [first, second]), [false; 2], "forgotten recipients cost nothing");
        }
        all_but_ready(&recipients, first);
        assert_eq!(are_ready(&recipients, [second]), [false], "a table on its way is forgotten as well");
        all_but_ready(&recipients, first);
        assert_eq!(are_ready(&recipients, [first, second, first]), [true, false, false]);
    }

    #[test]
    fn none_is_kept_where_none_may_be() {
        let (keys, recipients) = (keys(), Recipients::new(0));
        assert_eq!(are_ready(&recipients, [&keys[0]; 3]), [false; 3]);
    }

    /// A caller that comes while another computes the table continues at once without it.
    #[test]
    fn nobody_waits_for_a_piece() {
        let (keys, recipients) = (keys(), Recipients::new(1));
        let known = recipients.known.as_ref().expect("keeps some");
        lock(known).put(keys[0], KnownRecipient::Building);
        assert_eq!(are_ready(&recipients, [&keys[0]; TABLE_PIECES + 1]), [false; TABLE_PIECES + 1]);
        assert!(
            matches!(lock(known).peek(&keys[0]), Some(KnownRecipient::Building)),
            "left to the caller that computes it"
        );
    }

    /// Each piece is computed by one of them, so that together they need no more calls than one alone; and the results are correct.
    #[test]
    fn threads_do_the_pieces_of_one_table_between_them() {
        let (keys, recipients) = (keys(), Recipients::new(1));
        let mut rng = crate::system_random();
        let context = EcContext::new(&mut rng);
        for key in &keys {
            let got: Vec<Arc<Recipient>> = std::thread::scope(|scope| {
                // Each requests the key until it gets a table, however often it comes while another computes it.
                let ask = || {
                    let mut got = vec![recipients.get(key)];
                    while !got[got.len() - 1].has_table() {
                        got.push(recipients.get(key));
                    }
                    got
                };
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
                threads.into_iter().flat_map(|thread| thread.join().expect("ends")).collect()
            });
            let with_table: Vec<&Arc<Recipient>> = got.iter().filter(|recipient| recipient.has_table()).collect();
            assert!(with_table.len() == 4 && got.len() - with_table.len() >= TABLE_PIECES, "{}", got.len());
            assert!(with_table.iter().all(|recipient| Arc::ptr_eq(recipient, with_table[0])), "one table");
            let library = Recipient::from(*key);
            let seeded = || StdRng::seed_from_u64(5);
            let (by_table, by_library) =
                (with_table[0].encapsulate(&context, &mut seeded()), library.encapsulate(&context, &mut seeded()));
            assert!(by_table.ephemeral == by_library.ephemeral && by_table.shared == by_library.shared);
        }
    }
}
