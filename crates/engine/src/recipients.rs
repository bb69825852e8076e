//! Recipients' tables across requests, by public key: a rotation makes another key. They hold nothing secret, so a change of the store
//! leaves them as they are; what is used least goes.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fieldseal_crypto::{PublicKey, Recipient};
use lru::LruCache;

/// How far a recipient is on its way to a table.
enum Known {
    /// Met once. A table pays from the second time on, so that an app that is met once, or forgotten in between, costs none.
    Once,
    /// Somebody is making its table.
    InWork,
    Ready(Arc<Recipient>),
}

/// The recipients met last, with a table from the second time on.
pub(crate) struct Recipients {
    /// None keeps nothing.
    known: Option<Mutex<LruCache<PublicKey, Known>>>,
}

impl Recipients {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { known: NonZeroUsize::new(count_max).map(|count_max| Mutex::new(LruCache::new(count_max))) }
    }

    /// The recipient with this key. The second call makes its table, which takes less than a millisecond, outside the lock; whoever
    /// comes meanwhile goes without.
    pub(crate) fn get(&self, public: &PublicKey) -> Arc<Recipient> {
        let without_table = || Arc::new(Recipient::from(*public));
        let Some(known) = &self.known else { return without_table() };
        let mut locked = lock(known);
        match locked.get_mut(public) {
            Some(Known::Ready(recipient)) => return Arc::clone(recipient),
            Some(Known::InWork) => return without_table(),
            Some(once @ Known::Once) => *once = Known::InWork,
            None => {
                let _ = locked.push(*public, Known::Once);
                return without_table();
            }
        }
        drop(locked);
        let recipient = Arc::new(Recipient::with_table(*public));
        lock(known).put(*public, Known::Ready(Arc::clone(&recipient)));
        recipient
    }
}

fn lock(known: &Mutex<LruCache<PublicKey, Known>>) -> MutexGuard<'_, LruCache<PublicKey, Known>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use fieldseal_crypto::{Curve, EcContext, PrivateKey};

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

    #[test]
    fn the_second_time_makes_the_table_that_stays() {
        let (keys, recipients) = (keys(), Recipients::new(2));
        for key in &keys {
            assert_eq!(are_ready(&recipients, [key; 3]), [false, true, true]);
            assert!(Arc::ptr_eq(&recipients.get(key), &recipients.get(key)));
        }
        assert_eq!(are_ready(&recipients, [&keys[0], &keys[1]]), [true, true], "both fit");
    }

    #[test]
    fn the_one_used_least_goes_and_begins_anew() {
        let (keys, recipients) = (keys(), Recipients::new(1));
        let [first, second] = [&keys[0], &keys[1]];
        assert_eq!(
            are_ready(&recipients, [first, second, first, second]),
            [false; 4],
            "nobody pays for what is forgotten"
        );
        assert_eq!(are_ready(&recipients, [first, first, second, first]), [false, true, false, false]);
    }

    #[test]
    fn none_is_kept_where_none_may_be() {
        let (keys, recipients) = (keys(), Recipients::new(0));
        assert_eq!(are_ready(&recipients, [&keys[0]; 3]), [false; 3]);
    }

    #[test]
    fn threads_share_one_table() {
        let (keys, recipients) = (keys(), Recipients::new(1));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20).for_each(|_| drop(recipients.get(&keys[0]))));
            }
        });
        assert!(recipients.get(&keys[0]).has_table());
    }
}
