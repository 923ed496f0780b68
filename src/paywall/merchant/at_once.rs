//! Runs a few futures concurrently, without a task for each.

use std::{
    future::{Future, poll_fn},
    task::Poll,
};

/// Runs futures, at most `most` of them at once, and returns their outputs in the order in which they end. Each wake polls all running
/// futures, so `most` should be small.
pub(super) async fn at_once<F: Future>(waiting: Vec<F>, most: usize) -> Vec<F::Output> {
    let (mut waiting, mut running, mut done) = (waiting.into_iter(), Vec::new(), Vec::new());
    poll_fn(|cx| {
        loop {
            running.extend(waiting.by_ref().take(most.saturating_sub(running.len())).map(Box::pin));
            let before = running.len();
            running.retain_mut(|future| match future.as_mut().poll(cx) {
                Poll::Ready(output) => {
                    done.push(output);
                    false
                }
                Poll::Pending => true,
            });
            match running.len() {
                0 if before == 0 => return Poll::Ready(()),
                left if left == before => return Poll::Pending,
                // There is room for more.
                _ => {}
            }
        }
    })
    .await;
    done
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use tokio::time::{Instant, sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_run_at_once_and_no_more() {
        let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |number: u64| {
            let (running, most) = (&running, &most);
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_secs(number)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                number
            }
        };
        let start = Instant::now();
        assert_eq!(at_once(Vec::from([3, 1, 1, 1].map(work)), 2).await, [1, 1, 3, 1]);
        assert_eq!((start.elapsed(), most.load(Ordering::SeqCst)), (Duration::from_secs(3), 2));
        assert!(at_once(Vec::<std::future::Ready<()>>::new(), 2).await.is_empty());
        assert_eq!(at_once(vec![work(5)], 2).await, [5]);
    }
}
