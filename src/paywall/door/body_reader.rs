//! `BodyReader`: reads bodies before anything is decided: which ones, how far, and for how long.

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

use crate::{
    paywall::body::Trailers,
    protocol::{
        Media, ProblemCode, Proof, Redemption, ScanResult, begins_json, form_names_proof, is_json, names_proof,
        scan_body, scan_form,
    },
};

/// Whether, and how, a body is scanned for a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScanPolicy {
    /// Never: the proof is in the header, or the route accepts it nowhere else.
    Never,
    /// The content type says JSON, so the body must be JSON.
    Json,
    /// A form has no place for a proof, but a client that puts one there has paid.
    Form,
    /// A form on a route with a page, whose own form redeems.
    PageForm,
    /// Only if it begins like JSON that may hold a proof.
    Guess,
}

impl ScanPolicy {
    pub(crate) const fn of(media: Media) -> Self {
        match media {
            Media::Json => Self::Json,
            Media::Form => Self::Form,
            // The messages of gRPC are framed: none begins like JSON.
            Media::Grpc(_) | Media::Other => Self::Guess,
        }
    }

    /// Returns whether a body that begins with this byte is scanned; `None` while that is unknown.
    fn applies(self, begins: Option<u8>) -> Option<bool> {
        match self {
            Self::Never => Some(false),
            Self::Json | Self::Form | Self::PageForm => Some(true),
            Self::Guess => begins.map(|byte| begins_as_json(Some(byte))),
        }
    }

    /// Returns whether only valid JSON counts: bodies of many other types begin like an array or a string.
    const fn is_strict(self, begins: Option<u8>) -> bool {
        matches!((self, begins), (Self::Guess, Some(b'[' | b'"')))
    }

    /// Scans a body that was read to its end.
    fn scan(self, begins: Option<u8>, data: &[u8]) -> Result<Option<Proof>, ProblemCode> {
        let result = match (self, begins) {
            (Self::Never, _) => ScanResult::Nothing,
            (Self::Json, _) if data.is_empty() => ScanResult::Nothing,
            (Self::Json, _) => scan_body(data),
            (Self::Guess, _) if self.is_strict(begins) => match scan_body(without_mark(data)) {
                ScanResult::NotJson => ScanResult::Nothing,
                result => result,
            },
            (Self::Guess, Some(b'{')) | (Self::Form | Self::PageForm, _) if begins_as_json(begins) => {
                match scan_body(data) {
                    // A client that shows a payment must not get another bill for a typing error.
                    ScanResult::NotJson if names_proof(data) => ScanResult::Invalid,
                    ScanResult::NotJson => ScanResult::Nothing,
                    result => result,
                }
            }
            (Self::PageForm, _) => scan_form(data),
            (Self::Form, _) if form_names_proof(data) => ScanResult::Invalid,
            (Self::Form | Self::Guess, _) => ScanResult::Nothing,
        };
        match result {
            ScanResult::Nothing => Ok(None),
            ScanResult::Proof(proof) => Ok(Some(proof)),
            ScanResult::Invalid => Err(ProblemCode::InvalidRedemption),
            ScanResult::NotJson => Err(ProblemCode::InvalidBody),
        }
    }
}

/// Returns whether the body is sent without a content coding.
pub(crate) fn is_identity(headers: &HeaderMap) -> bool {
    headers.get_all(header::CONTENT_ENCODING).iter().all(|value| {
        value.to_str().is_ok_and(|codings| {
            codings.split(',').map(str::trim).all(|coding| coding.is_empty() || coding.eq_ignore_ascii_case("identity"))
        })
    })
}

/// How a body is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPlan {
    pub(crate) scan: ScanPolicy,
    /// Whether all of it is needed, scanned or not: for its price, its digest, a call by pass, or ahead of a redemption.
    pub(crate) whole: bool,
    pub(crate) identity: bool,
    /// Which bodies must not be read, because their handler may see other text in them.
    pub(crate) foreign: ScanPolicy,
    /// Whether it must be JSON although nothing is looked for in it: its price follows from what the JSON says.
    pub(crate) demands_json: bool,
    pub(crate) limit: usize,
    pub(crate) timeout: Duration,
}

/// The result of reading a body.
#[derive(Debug)]
pub(crate) enum Read {
    /// As much of it as is needed.
    Whole { data: Bytes, trailers: Trailers, proof: Option<Proof> },
    /// The redemption that a page's form sends. Nothing else in the form matters.
    PageForm(Redemption),
    /// It is too long to be kept, and none of its members is named like a proof's.
    TooLong,
}

/// Scans a body that is too long to be kept for the names of a proof's members.
#[derive(Debug, Default)]
struct NameScanner {
    /// The end of what came before, in which a name may have begun.
    tail: Vec<u8>,
}

impl NameScanner {
    /// The length of the longest name, less one byte.
    const TAIL: usize = 7;

    fn finds_proof(&mut self, data: &[u8]) -> bool {
        self.tail.extend_from_slice(data);
        let found = names_proof(&self.tail);
        self.tail.drain(..self.tail.len().saturating_sub(Self::TAIL));
        found
    }
}

pin_project! {
    /// Reads a body by its plan. It copies nothing that arrives in one piece, and makes no timer unless it must wait.
    ///
    /// A body over the limit that nothing else needs is still scanned to its end, though not kept. Most clients put a proof after their own
    /// members, and none of them may be sent another bill.
    pub(crate) struct BodyReader<B> {
        #[pin]
        body: B,
        plan: ReadPlan,
        // The first byte after white space and a byte order mark.
        begins: Option<u8>,
        first: Bytes,
        rest: BytesMut,
        // Set once the body is too long.
        scanner: Option<NameScanner>,
        trailers: Trailers,
        // The proof in the header. With one, the body is not scanned.
        header: Option<Proof>,
        timer: Option<Pin<Box<Sleep>>>,
    }
}

impl<B: Body<Data = Bytes>> BodyReader<B> {
    pub(crate) fn new(body: B, plan: ReadPlan, header: Option<Proof>) -> Self {
        Self {
            body,
            plan,
            begins: None,
            first: Bytes::new(),
            rest: BytesMut::new(),
            scanner: None,
            trailers: None,
            header,
            timer: None,
        }
    }

    pub(crate) fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Read, ProblemCode>> {
        loop {
            match self.as_mut().progress() {
                Progress::Refused(code) => return Poll::Ready(Err(code)),
                Progress::NotNeeded => {
                    return Poll::Ready(Ok(Read::Whole { data: Bytes::new(), trailers: None, proof: None }));
                }
                Progress::TooLong => {
                    if self.as_mut().stop_keeping() {
                        return Poll::Ready(Err(ProblemCode::BodyTooLarge));
                    }
                }
                Progress::Continue => {}
            }
            let this = self.as_mut().project();
            match this.body.poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        if self.as_mut().push(data) {
                            return Poll::Ready(Err(ProblemCode::BodyTooLarge));
                        }
                    }
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

    fn kept(&self) -> &[u8] {
        if self.rest.is_empty() { &self.first } else { &self.rest }
    }

    /// Keeps these bytes. If the body is too long, returns whether they name a proof instead.
    fn push(self: Pin<&mut Self>, data: Bytes) -> bool {
        let this = self.project();
        if let Some(scanner) = this.scanner {
            return scanner.finds_proof(&data);
        }
        // Each byte is examined once: many small pieces must not cost more than one large one.
        *this.begins = this.begins.or_else(|| data.iter().copied().find(|byte| !is_before_text(*byte)));
        if this.first.is_empty() {
            *this.first = data;
            return false;
        }
        if this.rest.is_empty() {
            this.rest.extend_from_slice(this.first);
        }
        this.rest.extend_from_slice(&data);
        false
    }

    /// Stops keeping the body: from here on it is only scanned. Returns whether the kept part names a proof.
    fn stop_keeping(self: Pin<&mut Self>) -> bool {
        let this = self.project();
        let kept = if this.rest.is_empty() { std::mem::take(this.first) } else { std::mem::take(this.rest).freeze() };
        this.scanner.insert(NameScanner::default()).finds_proof(&kept)
    }

    /// Judges what arrived so far, and the announced length.
    fn progress(self: Pin<&mut Self>) -> Progress {
        let plan = self.plan;
        if self.scanner.is_some() {
            return Progress::Continue;
        }
        let length = self.kept().len();
        let nothing = length == 0 && self.body.is_end_stream();
        let scanned = plan.scan.applies(self.begins).map(|applies| applies && !nothing);
        let strict = plan.scan.is_strict(self.begins);
        // Compressed bytes may begin like an array or a string without being one.
        if scanned == Some(true) && !plan.identity && !strict {
            return Progress::Refused(ProblemCode::UnsupportedEncoding);
        }
        if plan.foreign.applies(self.begins) == Some(true) && !nothing {
            return Progress::Refused(ProblemCode::UnsupportedEncoding);
        }
        if scanned == Some(false) && !plan.whole {
            return Progress::NotNeeded;
        }
        let announced = usize::try_from(self.body.size_hint().lower()).unwrap_or(usize::MAX);
        // The first byte does not tell text from JSON: as much as may be kept decides.
        let known = scanned.is_some() && !strict || plan.whole;
        match length > plan.limit || known && announced > plan.limit - length {
            true if plan.whole => Progress::Refused(ProblemCode::BodyTooLarge),
            true if strict && !begins_json(without_mark(self.kept())) => Progress::NotNeeded,
            true => Progress::TooLong,
            false => Progress::Continue,
        }
    }

    fn finish(self: Pin<&mut Self>) -> Result<Read, ProblemCode> {
        let this = self.project();
        if this.scanner.is_some() {
            return Ok(Read::TooLong);
        }
        let data = if this.rest.is_empty() { std::mem::take(this.first) } else { std::mem::take(this.rest).freeze() };
        if this.plan.demands_json && !data.is_empty() && !is_json(&data) {
            return Err(ProblemCode::InvalidBody);
        }
        let proof = match this.header.take() {
            Some(shown) => Some(shown),
            None => this.plan.scan.scan(*this.begins, &data)?,
        };
        let is_form = this.plan.scan == ScanPolicy::PageForm && !begins_as_json(*this.begins);
        if let (true, Some(Proof::Redemption(shown))) = (is_form, &proof) {
            return Ok(Read::PageForm(shown.clone()));
        }
        Ok(Read::Whole { data, trailers: this.trailers.take(), proof })
    }
}

/// Returns whether a body that begins with this byte may be JSON that holds a proof.
const fn begins_as_json(begins: Option<u8>) -> bool {
    matches!(begins, Some(b'{' | b'[' | b'"'))
}

/// Returns whether a byte is white space, or part of the UTF-8 byte order mark, which some clients put before their JSON.
const fn is_before_text(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, 0xef | 0xbb | 0xbf)
}

/// Returns a text without its byte order mark.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// How reading continues.
enum Progress {
    Continue,
    /// Nothing in the body matters here.
    NotNeeded,
    /// It is too long to be kept, and is only scanned for a proof.
    TooLong,
    Refused(ProblemCode),
}
