//! What became of one payment, as far as anybody heard.

use std::sync::Mutex;

use bytes::Bytes;

#[derive(Default)]
pub struct Book(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// The first that arrived.
    answer: Option<Bytes>,
    /// How many came from a run of the handler.
    fresh: usize,
    /// How many were another than the first.
    different: usize,
    /// How many were given to who is not to have one.
    stolen: usize,
}

/// An answer that was given for a payment.
pub struct Sale {
    pub body: Bytes,
    pub is_replayed: bool,
    pub is_stolen: bool,
}

impl Book {
    pub fn note(&self, sale: Sale) {
        let mut entries = self.0.lock().unwrap();
        entries.fresh += usize::from(!sale.is_replayed);
        entries.stolen += usize::from(sale.is_stolen);
        match &entries.answer {
            Some(first) => entries.different += usize::from(*first != sale.body),
            None => entries.answer = Some(sale.body),
        }
    }

    pub fn is_sold(&self) -> bool {
        self.0.lock().unwrap().answer.is_some()
    }

    /// One answer, to who paid, however often it was delivered.
    #[track_caller]
    pub fn assert_fair(&self, what: &str) {
        let Entries { fresh, different, stolen, .. } = *self.0.lock().unwrap();
        assert!(
            fresh <= 1 && different == 0 && stolen == 0,
            "{what}: {fresh} fresh, {different} others, {stolen} stolen"
        );
    }

    /// Whether its answer arrived when it was made.
    pub fn is_heard(&self) -> bool {
        self.0.lock().unwrap().fresh == 1
    }
}
