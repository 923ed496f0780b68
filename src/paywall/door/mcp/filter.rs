//! `Filtered`: an event stream in which some messages are changed or left out.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame};

use super::events::{Ended, Events, Heard, QUIET, write};

/// What happens to a message.
pub(super) enum Fate {
    Passes,
    Changed(String),
    Withheld,
}

/// An event stream whose messages are judged one by one.
pub(super) struct Filtered<B: Body<Data = Bytes>, F> {
    events: Events<B>,
    judge: F,
    ended: bool,
}

impl<B: Body<Data = Bytes>, F: Fn(&str) -> Fate> Filtered<B, F> {
    pub(super) fn new(body: B, limit: usize, judge: F) -> Self {
        Self { events: Events::new(body, limit), judge, ended: false }
    }
}

impl<B, F> Body for Filtered<B, F>
where
    B: Body<Data = Bytes>,
    F: Fn(&str) -> Fate + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let mut event = match ready!(self.events.poll_next(cx)) {
            Ok(Heard::Event(event)) => event,
            Ok(Heard::Quiet) => return Poll::Ready(Some(Ok(Frame::data(QUIET)))),
            Err(ended) => {
                self.ended = true;
                return Poll::Ready(match ended {
                    Ended::Broken(error) => Some(Err(error)),
                    Ended::TooLong | Ended::NoEvents => {
                        tracing::error!("an event stream of the server cannot be read on; it ends here");
                        None
                    }
                    Ended::Over => None,
                });
            }
        };
        let fate = event.data.as_deref().filter(|data| !data.is_empty()).map_or(Fate::Passes, &self.judge);
        Poll::Ready(Some(Ok(Frame::data(match fate {
            Fate::Passes => write(&event),
            Fate::Changed(data) => {
                event.data = Some(data);
                write(&event)
            }
            Fate::Withheld => QUIET,
        }))))
    }
}
