//! What a client's message asks for, as far as the layer decides about it.

use std::{future::poll_fn, pin::pin, sync::Arc};

use bytes::Bytes;
use http_body::Body;

use super::table::{Limits, Listed, Table};
use crate::{
    paywall::{
        body::Trailers,
        door::body_reader::{BodyReader, Read, ReadPlan, ScanPolicy},
        seller::{pricing::Prices, route::Route},
    },
    protocol::{
        ProblemCode,
        mcp::{Envelope, Message, ToolCall, Unreadable, has_twins},
    },
};

/// What a message asks for.
pub(super) enum Asked {
    /// Nothing that is sold.
    Passes,
    /// The list of tools, whose answer states prices.
    Tools,
    /// What the server can do, whose answer announces the extension.
    Abilities,
    /// A tool that is sold.
    Call(Arc<Route>, Box<ToolCall>),
    /// The call of a tool without an id: nothing could be answered, so nothing is run.
    Unanswerable,
    Refused(Refusal),
}

/// Why a message is not forwarded.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The id as it is written; `None` if it is unknown.
    pub(super) id: Option<String>,
    pub(super) code: i32,
    pub(super) message: &'static str,
}

impl Refusal {
    const fn of(code: i32, message: &'static str) -> Self {
        Self { id: None, code, message }
    }
}

impl From<Unreadable> for Refusal {
    fn from(reason: Unreadable) -> Self {
        match reason {
            Unreadable::NotJson => Self::of(-32700, "Parse error: send one JSON-RPC message in UTF-8."),
            Unreadable::Ambiguous => Self::of(
                -32600,
                "Invalid request: a message is an object with a text as its method, and has each member once, in one case. No name has a control character or half a character, or begins with $serde_json::private::.",
            ),
            Unreadable::NoCall => Self::of(
                -32602,
                "Invalid params: a call names a tool, and has its arguments as an object. Paid tools do not run as tasks.",
            ),
        }
    }
}

/// Reads a body to its end.
pub(super) async fn read<B: Body<Data = Bytes>>(body: B, limits: Limits) -> Result<(Bytes, Trailers), ProblemCode> {
    let Limits { message: limit, timeout, .. } = limits;
    let plan = ReadPlan {
        scan: ScanPolicy::Never,
        whole: true,
        identity: true,
        foreign: ScanPolicy::Never,
        demands_json: false,
        limit,
        timeout,
    };
    let mut reader = pin!(BodyReader::new(body, plan, None));
    match poll_fn(|cx| reader.as_mut().poll_read(cx)).await? {
        Read::Whole { data, trailers, .. } => Ok((data, trailers)),
        Read::PageForm(_) | Read::TooLong => Err(ProblemCode::BodyTooLarge),
    }
}

/// Decides what a client's message asks for.
pub(super) fn sort(table: &Table, body: &[u8]) -> Asked {
    match Message::read(body) {
        Ok(Message::One(envelope)) => one(table, &envelope).unwrap_or_else(|reason| {
            let id = envelope.id.map(|id| id.get().to_owned());
            Asked::Refused(Refusal { id, ..reason.into() })
        }),
        Ok(Message::Batch(messages)) => match messages.iter().all(|message| is_free(table, message)) {
            true => Asked::Passes,
            false => Asked::Refused(Refusal::of(
                -32600,
                "Invalid request: a tool that is paid for is not called in a batch. Send its call alone.",
            )),
        },
        Err(reason) => Asked::Refused(reason.into()),
    }
}

fn one(table: &Table, envelope: &Envelope<'_>) -> Result<Asked, Unreadable> {
    match envelope.method.as_deref() {
        Some("tools/list") => return Ok(Asked::Tools),
        Some("server/discover") => return Ok(Asked::Abilities),
        Some("tools/call") => {}
        _ => return Ok(Asked::Passes),
    }
    match table.listed(&envelope.tool()?) {
        Listed::Free => Ok(Asked::Passes),
        Listed::Refused => Ok(Asked::Refused(Refusal {
            id: envelope.id.map(|id| id.get().to_owned()),
            ..Refusal::of(-32602, "Unknown tool: it is not offered here.")
        })),
        Listed::Priced(_) if envelope.id.is_none() => Ok(Asked::Unanswerable),
        Listed::Priced(route) => {
            let call = Box::new(ToolCall::read(envelope)?);
            // A server that ignores case may see another argument than the one that the price is computed from.
            match matches!(route.prices, Prices::OfArguments(_)) && has_twins(&call.arguments) {
                true => Err(Unreadable::Ambiguous),
                false => Ok(Asked::Call(route, call)),
            }
        }
    }
}

/// Returns whether a message in a batch calls no tool that is sold, and none whose name cannot be read.
fn is_free(table: &Table, message: &Envelope<'_>) -> bool {
    !message.calls_tool() || message.tool().is_ok_and(|tool| matches!(table.listed(&tool), Listed::Free))
}
