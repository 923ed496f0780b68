//! Where a proof is looked for: which bodies are read, how far, and for how long.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::body::Trailers;
use crate::protocol::{Looked, ProblemCode, Proof, look, names_proof};

/// Whether, and why, a body is looked at for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Not at all: the proof is in the header, or the route takes it from nowhere else.
    Never,
    /// Its content type says JSON: it must be.
    Json,
    /// Only if it begins with `{`.
    IfObject,
}

impl Look {
    /// By the request's content type.
    pub(crate) fn by_content_type(headers: &HeaderMap) -> Self {
        let essence = headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map_or("", |text| text.split(';').next().unwrap_or_default().trim());
        let json = ["application/json", "text/json"].iter().any(|known| essence.eq_ignore_ascii_case(known))
            || essence.len() > 5
                && essence.is_char_boundary(essence.len() - 5)
                && essence[essence.len() - 5..].eq_ignore_ascii_case("+json");
        if json { Self::Json } else { Self::IfObject }
    }
}

/// Whether the body is sent as it is.
pub(crate) fn is_identity(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().all(|value| {
        value.to_str().is_ok_and(|codings| {
            codings.split(',').map(str::trim).all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case("identity"))
        })
    })
}

/// How a body is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) look: Look,
    /// Whether all of it is wanted, looked at or not: for its price or its digest.
    pub(crate) whole: bool,
    pub(crate) identity: bool,
    pub(crate) limit: usize,
    pub(crate) timeout: Duration,
}

/// What reading a body gave.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) data: Bytes,
    pub(crate) trailers: Trailers,
    pub(crate) proof: Option<Proof>,
}

pin_project! {
    /// Reads a body by its plan. Copies nothing that arrives in one piece; makes no timer unless it must wait.
    pub(crate) struct Reader<B> {
        #[pin]
        body: B,
        plan: Plan,
        // The first byte after white space and a byte order mark.
        begins: Option<u8>,
        first: Bytes,
        rest: BytesMut,
        trailers: Trailers,
        // What the header showed: then nothing is looked for in the body.
        header: Option<Proof>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<B: Body<Data = Bytes>> Reader<B> {
    pub(crate) fn new(body: B, plan: Plan, header: Option<Proof>) -> Self {
        Self {
            body,
            plan,
            begins: None,
            first: Bytes::new(),
            rest: BytesMut::new(),
            trailers: None,
            header,
            timer: None,
        }
    }

    pub(crate) fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Read, ProblemCode>> {
        loop {
            match self.as_mut().begun() {
                Begun::Refused(code) => return Poll::Ready(Err(code)),
                Begun::NotWanted => return Poll::Ready(Ok(Read { data: Bytes::new(), trailers: None, proof: None })),
                Begun::GoOn => {}
            }
            let this = self.as_mut().project();
            match this.body.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => self.as_mut().push(data),
                    Err(frame) => *self.as_mut().project().trailers = frame.into_trailers().ok().map(Box::new),
                },
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(ProblemCode::InvalidBody)),
                Poll::Ready(None) => return Poll::Ready(self.as_mut().finish()),
                Poll::Pending => {
                    let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(this.plan.timeout)));
                    return timer.as_mut().poll(cx).map(|()| Err(ProblemCode::BodyTimeout));
                }
            }
        }
    }

    fn length(&self) -> usize {
        if self.rest.is_empty() { self.first.len() } else { self.rest.len() }
    }

    fn push(self: Pin<&mut Self>, data: Bytes) {
        let this = self.project();
        // Each byte is looked at once: many small pieces must not cost more than one large one.
        *this.begins = this.begins.or_else(|| data.iter().copied().find(|byte| !is_before_text(*byte)));
        if this.first.is_empty() {
            *this.first = data;
            return;
        }
        if this.rest.is_empty() {
            this.rest.extend_from_slice(this.first);
        }
        this.rest.extend_from_slice(&data);
    }

    /// What can be said of the body so far, and of what it announces.
    fn begun(self: Pin<&mut Self>) -> Begun {
        let plan = self.plan;
        let ended = self.body.is_end_stream();
        let looked_at = match plan.look {
            Look::Never => Some(false),
            Look::Json => Some(!(ended && self.length() == 0)),
            Look::IfObject => self.begins.map(|byte| byte == b'{'),
        };
        if looked_at == Some(true) && !plan.identity {
            return Begun::Refused(ProblemCode::UnsupportedEncoding);
        }
        if looked_at == Some(false) && !plan.whole {
            return Begun::NotWanted;
        }
        let announced = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
        let known = looked_at.is_some() || plan.whole;
        if self.length() > plan.limit || known && announced > plan.limit - self.length() {
            return Begun::Refused(ProblemCode::BodyTooLarge);
        }
        Begun::GoOn
    }

    fn finish(self: Pin<&mut Self>) -> Result<Read, ProblemCode> {
        let this = self.project();
        let data = if this.rest.is_empty() { std::mem::take(this.first) } else { std::mem::take(this.rest).freeze() };
        let looked = match this.plan.look {
            Look::Never => this.header.take().map_or(Looked::Nothing, Looked::Proof),
            Look::Json if data.is_empty() => Looked::Nothing,
            Look::Json => look(&data),
            Look::IfObject if *this.begins == Some(b'{') => match look(&data) {
                // A slip of the pen is no reason to send a bill to somebody who shows a payment.
                Looked::NotJson if names_proof(&data) => Looked::Invalid,
                Looked::NotJson => Looked::Nothing,
                looked => looked,
            },
            Look::IfObject => Looked::Nothing,
        };
        let proof = match looked {
            Looked::Nothing => None,
            Looked::Proof(proof) => Some(proof),
            Looked::Invalid => return Err(ProblemCode::InvalidRedemption),
            Looked::NotJson => return Err(ProblemCode::InvalidBody),
        };
        Ok(Read { data, trailers: this.trailers.take(), proof })
    }
}

/// White space, or a byte of the UTF-8 byte order mark, which some clients put before their JSON.
const fn is_before_text(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf)
}

enum Begun {
    GoOn,
    /// Nothing in it matters here.
    NotWanted,
    Refused(ProblemCode),
}
