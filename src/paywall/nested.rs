//! A price inside a price: two bills for one request, and none of them ever redeemed. It is found by cloning.
//!
//! The types of a stack are often erased, and a service cannot be asked what it is made of; but it is cloned for
//! each request, and what it is made of is cloned with it, on the same thread.

use std::cell::Cell;

thread_local! {
    static LOOK: Cell<Look> = const { Cell::new(Look::Away) };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Away,
    Looking,
    Found,
}

/// Clones what a priced service is put around, and tells whether another priced service was cloned with it.
pub(crate) fn clone_inside<S: Clone>(inner: &S) -> (S, bool) {
    let before = LOOK.replace(Look::Looking);
    let clone = inner.clone();
    (clone, LOOK.replace(before) == Look::Found)
}

/// A priced service is being cloned.
pub(crate) fn cloned() {
    if LOOK.get() == Look::Looking {
        LOOK.set(Look::Found);
    }
}
