//! `SingleFlight`: one look-up shared by all callers with the same question, in a task that no caller can cancel.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use tokio::{runtime::Handle, sync::oneshot};

use crate::verify::VerifyError;

type Answer<V> = Result<V, VerifyError>;
type Flight<V> = Shared<BoxFuture<'static, Answer<V>>>;
type UnderWay<K, V> = Arc<Mutex<HashMap<K, Flight<V>>>>;

/// Running look-ups, by question.
pub(super) struct SingleFlight<K, V> {
    under_way: UnderWay<K, V>,
}

impl<K, V> Default for SingleFlight<K, V> {
    fn default() -> Self {
        Self { under_way: Arc::default() }
    }
}

impl<K, V> fmt::Debug for SingleFlight<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SingleFlight").field("under_way", &lock(&self.under_way).len()).finish()
    }
}

impl<K, V> SingleFlight<K, V>
where
    K: Clone + Eq + Hash + Send + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Joins the look-up of `key`, or starts it.
    ///
    /// A caller that joins an earlier look-up shares its answer but not its failure: after a failure it joins, or
    /// starts, another one.
    pub(super) async fn join<F>(&self, key: K, start: impl Fn() -> F) -> Answer<V>
    where
        F: Future<Output = Answer<V>> + Send + 'static,
    {
        let (flight, led) = self.board(&key, &start);
        match flight.await {
            Err(_) if !led => self.board(&key, &start).0.await,
            answer => answer,
        }
    }

    /// Joins the look-up of `key` if one is under way.
    pub(super) async fn join_under_way(&self, key: &K) -> Option<Answer<V>> {
        let flight = lock(&self.under_way).get(key).cloned();
        Some(flight?.await)
    }

    fn board<F>(&self, key: &K, start: impl Fn() -> F) -> (Flight<V>, bool)
    where
        F: Future<Output = Answer<V>> + Send + 'static,
    {
        let (done, answer) = oneshot::channel();
        let flight = {
            let mut under_way = lock(&self.under_way);
            if let Some(flight) = under_way.get(key) {
                return (flight.clone(), false);
            }
            let answer = answer.map(|sent| sent.unwrap_or_else(|_| Err(VerifyError::unavailable())));
            let flight = answer.boxed().shared();
            under_way.insert(key.clone(), flight.clone());
            flight
        };
        // From here on the landing removes the entry in every case: an end, a panic, a runtime that shuts down. The
        // lock is free by now, because a runtime that shuts down drops the task, and with it the landing, inside
        // `spawn`.
        let landing = Landing { under_way: Arc::clone(&self.under_way), key: key.clone() };
        let look_up = start();
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let answer = look_up.await;
                drop(landing);
                // All callers may have left; the result is already in a cache.
                let _ = done.send(answer);
            });
        }
        (flight, true)
    }
}

struct Landing<K: Eq + Hash, V> {
    under_way: UnderWay<K, V>,
    key: K,
}

impl<K: Eq + Hash, V> Drop for Landing<K, V> {
    fn drop(&mut self) {
        lock(&self.under_way).remove(&self.key);
    }
}

/// A panic elsewhere cannot spoil the map: it is consistent after every statement.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
