//! The question to the endpoints, their order, and their combined answer.

use serde_json::{json, value::RawValue};

use super::view::Block;
use crate::{
    evm::json_rpc::{Fault, Question},
    verify::VerifyError,
};

/// The name or height of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum BlockTag {
    Latest,
    Safe,
    Finalized,
    Number(u64),
}

/// The combined answer of the endpoints.
pub(super) enum PoolAnswer<T> {
    /// The answer of the endpoint with this index decides.
    Decided(usize, T),
    /// Each of these answers decides nothing alone.
    Doubtful(Vec<(usize, T)>),
}

/// The endpoint to ask first, before the usual leader, and the one to leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whom {
    pub(super) first: Option<usize>,
    pub(super) but: Option<usize>,
}

/// Why there is no combined answer.
pub(super) struct NoAnswer {
    pub(super) error: VerifyError,
    /// Whether an endpoint that is up gave no usable answer: the question may be the cause.
    pub(super) unusable: bool,
}

impl From<NoAnswer> for VerifyError {
    fn from(none: NoAnswer) -> Self {
        none.error
    }
}

impl<T> PoolAnswer<Option<T>> {
    pub(super) fn flatten(self) -> PoolAnswer<T> {
        let doubtful = match self {
            Self::Decided(endpoint, Some(answer)) => return PoolAnswer::Decided(endpoint, answer),
            Self::Decided(_, None) => Vec::new(),
            Self::Doubtful(answers) => answers,
        };
        PoolAnswer::Doubtful(doubtful.into_iter().filter_map(|(endpoint, answer)| Some((endpoint, answer?))).collect())
    }

    pub(super) fn any_some(self) -> Option<T> {
        match self {
            Self::Decided(_, answer) => answer,
            Self::Doubtful(answers) => answers.into_iter().find_map(|(_, answer)| answer),
        }
    }
}

impl BlockTag {
    pub(super) fn question(self) -> Question {
        let name = match self {
            Self::Latest => "latest".to_owned(),
            Self::Safe => "safe".to_owned(),
            Self::Finalized => "finalized".to_owned(),
            Self::Number(number) => format!("{number:#x}"),
        };
        Question { method: "eth_getBlockByNumber", params: json!([name, false]) }
    }

    pub(super) fn read(self, raw: &RawValue) -> Result<Option<Block>, Fault> {
        let block = Block::read(raw.get())?;
        match (self, block) {
            (Self::Number(number), Some(block)) if block.number != number => Err(Fault::Answer),
            _ => Ok(block),
        }
    }
}
