//! `Gate`: limits concurrent look-ups. Further ones wait in two lines; beyond their capacity they are refused.
//!
//! First look-ups wait in one line, repeated look-ups in the other, and the lines take turns. A flood of repeated
//! questions therefore leaves half of the turns to newcomers, and a flood of newcomers leaves half of them to payers
//! who wait for their block.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use crate::verify::{VerifyError, VerifyErrorKind};

#[derive(Debug)]
pub(super) struct Gate {
    places: Arc<Mutex<Places>>,
    queue: usize,
}

#[derive(Debug)]
struct Places {
    free: usize,
    first: Line,
    again: Line,
    /// Whether the next turn goes to the line of repeated look-ups.
    next_is_again: bool,
    last_number: u64,
}

/// The waiting look-ups in order: the least recently looked up first, then by arrival.
type Line = BTreeMap<Place, oneshot::Sender<Turn>>;
type Place = (Duration, u64);

/// A turn. Dropping it gives it to the next look-up.
#[derive(Debug)]
pub(super) struct Turn {
    places: Arc<Mutex<Places>>,
}

impl Gate {
    pub(super) fn new(concurrency: usize, queue: usize) -> Self {
        let (first, again) = (Line::new(), Line::new());
        let places = Places { free: concurrency, first, again, next_is_again: false, last_number: 0 };
        Self { places: Arc::new(Mutex::new(places)), queue }
    }

    /// Waits for a turn. `asked_before` is when the same look-up last found nothing (monotonic).
    pub(super) async fn enter(&self, asked_before: Option<Duration>) -> Result<Turn, VerifyError> {
        let overloaded = || VerifyError::new(VerifyErrorKind::Overloaded);
        let mut waiting = {
            let mut places = lock(&self.places);
            if places.free > 0 {
                places.free -= 1;
                return Ok(Turn { places: Arc::clone(&self.places) });
            }
            places.last_number += 1;
            let place = (asked_before.unwrap_or_default(), places.last_number);
            let line = places.line(asked_before.is_some());
            if line.len() >= self.queue {
                // The most recent look-up gives way.
                line.last_entry().filter(|last| *last.key() > place).ok_or_else(overloaded)?.remove();
            }
            let (sender, turn) = oneshot::channel();
            line.insert(place, sender);
            Waiting { places: &self.places, again: asked_before.is_some(), place, turn }
        };
        (&mut waiting.turn).await.map_err(|_| overloaded())
    }
}

impl Places {
    fn line(&mut self, again: bool) -> &mut Line {
        if again { &mut self.again } else { &mut self.first }
    }

    /// Returns the look-up whose turn is next.
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        let again = self.next_is_again;
        self.next_is_again = !again;
        let next = self.line(again).pop_first();
        next.or_else(|| self.line(!again).pop_first()).map(|(_, next)| next)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut places = lock(&self.places);
            let next = places.next();
            places.free += usize::from(next.is_none());
            next
        };
        if let Some(next) = next {
            // If the next caller has just left, the turn is dropped here, and so passed on.
            let _ = next.send(Self { places: Arc::clone(&self.places) });
        }
    }
}

/// A place in a line. Dropping it leaves the line.
struct Waiting<'a> {
    places: &'a Mutex<Places>,
    again: bool,
    place: Place,
    turn: oneshot::Receiver<Turn>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(self.places).line(self.again).remove(&self.place);
    }
}

/// A panic elsewhere cannot spoil the places: they are consistent after every statement.
fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};

    use super::*;

    const OVERLOADED: VerifyError = VerifyError::new(VerifyErrorKind::Overloaded);

    type Entering<'a> = BoxFuture<'a, Result<Turn, VerifyError>>;

    fn at(seconds: u64) -> Option<Duration> {
        Some(Duration::from_secs(seconds))
    }

    /// Enters a line, or is refused at once.
    fn queue(gate: &Gate, asked_before: Option<Duration>) -> Result<Entering<'_>, VerifyError> {
        let mut entering = gate.enter(asked_before).boxed();
        match (&mut entering).now_or_never() {
            None => Ok(entering),
            Some(answer) => Err(answer.err().unwrap_or(OVERLOADED)),
        }
    }

    #[tokio::test]
    async fn turns_away_what_the_queue_cannot_hold() -> Result<(), VerifyError> {
        let gate = Gate::new(1, 1);
        let first = gate.enter(None).await?;
        let second = queue(&gate, None)?;
        assert_eq!(queue(&gate, None).err(), Some(OVERLOADED));
        drop(first);
        drop(second.await?);
        gate.enter(None).await.map(drop)
    }

    /// Returns the names in the order of their turns.
    async fn served<'a>(gate: &'a Gate, all: &[(&'a str, Option<Duration>)]) -> Result<Vec<&'a str>, VerifyError> {
        let mut turn = Some(gate.enter(None).await?);
        let mut waiting = FuturesUnordered::new();
        for &(name, asked_before) in all {
            waiting.push(queue(gate, asked_before)?.map(move |turn| (name, turn)));
        }
        let mut order = Vec::new();
        loop {
            drop(turn.take());
            let Some((name, next)) = waiting.next().await else { return Ok(order) };
            turn = Some(next?);
            order.push(name);
        }
    }

    #[tokio::test]
    async fn newcomers_and_those_who_ask_again_take_turns() -> Result<(), VerifyError> {
        let gate = Gate::new(1, 8);
        let all = [("b", at(7)), ("c", at(7)), ("a", at(6)), ("d", at(9)), ("1", None), ("2", None)];
        assert_eq!(served(&gate, &all).await?, ["1", "a", "2", "b", "c", "d"], "asked longest ago first");
        let all = [("1", None), ("2", None), ("3", None), ("a", at(1))];
        let order = served(&gate, &all).await?;
        assert!(order.iter().position(|name| *name == "a") <= Some(1), "{order:?}");
        assert_eq!(order.into_iter().filter(|name| *name != "a").collect::<Vec<_>>(), ["1", "2", "3"]);
        Ok(())
    }

    #[tokio::test]
    async fn a_full_line_keeps_those_who_waited_longest() -> Result<(), VerifyError> {
        let gate = Gate::new(1, 2);
        let turn = gate.enter(None).await?;
        let (early, late) = (queue(&gate, at(1))?, queue(&gate, at(5))?);
        assert_eq!(queue(&gate, at(5)).err(), Some(OVERLOADED), "the other came first");
        let between = queue(&gate, at(3))?;
        assert_eq!(late.await.err(), Some(OVERLOADED));
        // The line of newcomers has places of its own.
        let newcomers = [queue(&gate, None)?, queue(&gate, None)?];
        assert_eq!(queue(&gate, None).err(), Some(OVERLOADED));
        drop(turn);
        let served = newcomers.into_iter().chain([early, between]).collect::<FuturesUnordered<_>>();
        assert!(served.map(|turn| turn.map(drop)).all(|turn| async move { turn.is_ok() }).await);
        Ok(())
    }

    #[tokio::test]
    async fn whoever_leaves_keeps_neither_place_nor_turn() -> Result<(), VerifyError> {
        let gate = Gate::new(1, 2);
        let turn = gate.enter(None).await?;
        drop([queue(&gate, None)?, queue(&gate, at(1))?]);
        let (left_later, last) = (queue(&gate, None)?, queue(&gate, None)?);
        // It gets its turn after it has left, and passes it on without a look-up.
        drop(turn);
        drop(left_later);
        drop(last.await?);
        let turn = gate.enter(None).await?;
        assert!(queue(&gate, None).is_ok(), "one turn in all");
        drop(turn);
        Ok(())
    }
}
