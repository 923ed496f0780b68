//! `Nested`: finds a price inside a price, which would mean two bills for one request, neither of which can be redeemed.
//!
//! It is found by cloning. The types of a stack are often erased, so a service cannot be asked for its parts. But it is cloned for each
//! request, and its parts are cloned with it, on the same thread.
//!
//! If a part is shared instead of cloned (a `Router` of axum that is used as a service, a `Buffer`), the first redemption finds the price
//! inside: the inner answer is marked, nothing is taken, and the route remembers it.

use std::{
    cell::Cell,
    sync::atomic::{AtomicBool, Ordering},
};

use http::Extensions;

thread_local! {
    static LOOK: Cell<Look> = const { Cell::new(Look::Away) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Away,
    Looking,
    Found,
}

/// Clones the service inside a priced one, and returns whether another priced service was cloned with it.
pub(crate) fn clone_inside<S: Clone>(inner: &S) -> (S, bool) {
    let before = LOOK.replace(Look::Looking);
    let clone = inner.clone();
    (clone, LOOK.replace(before) == Look::Found)
}

/// Notes that a priced service is being cloned.
pub(crate) fn cloned() {
    if LOOK.get() == Look::Looking {
        LOOK.set(Look::Found);
    }
}

/// In the extensions of an answer that a priced service gave to a request which an outer one had sold already.
#[derive(Clone, Copy)]
struct Mark;

/// Marks an answer for the outer layer.
pub(crate) fn mark(answer: &mut Extensions) {
    answer.insert(Mark);
}

/// Returns whether an inner priced service gave this answer.
pub(crate) fn is_marked(answer: &Extensions) -> bool {
    answer.get::<Mark>().is_some()
}

/// Whether a route found another price inside its own.
#[derive(Debug, Default)]
pub(crate) struct Nested(AtomicBool);

impl Nested {
    pub(crate) fn remember(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A route is cloned to change its settings, before it serves.
impl Clone for Nested {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.is_known()))
    }
}
