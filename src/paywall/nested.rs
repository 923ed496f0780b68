//! A price inside a price: two bills for one request, and none of them ever redeemed.
//!
//! It is found by cloning. The types of a stack are often erased, and a service cannot be asked what it is made of; but it
//! is cloned for each request, and what it is made of is cloned with it, on the same thread.
//!
//! Where what is inside is shared and not cloned (a `Router` of axum that is used as a service, a `Buffer`), it is found by
//! the first redemption: its answer is marked, nothing is taken, and the route remembers it.

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

/// In an answer's extensions: a priced service gave it, to a request that was sold already.
#[derive(Clone, Copy)]
struct Mark;

/// Marks an answer for the layer outside.
pub(crate) fn mark(answer: &mut Extensions) {
    answer.insert(Mark);
}

/// Whether a priced service inside gave this answer.
pub(crate) fn is_marked(answer: &Extensions) -> bool {
    answer.get::<Mark>().is_some()
}

/// Whether a route met another price inside its own.
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

/// A route is cloned to be set differently, before it serves.
impl Clone for Nested {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.is_known()))
    }
}
