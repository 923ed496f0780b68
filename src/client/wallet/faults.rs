//! Converts a node's faults to a payer's errors.

use crate::{
    client::PayerError,
    evm::wallet::{account::Absurd, node::Failure, sending::SendFault},
};

const SILENCE: PayerError = PayerError::Unavailable("the node did not answer, or not in time");
const NONSENSE: PayerError = PayerError::Unavailable("the node's answer cannot be used");

impl From<Failure> for PayerError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Silence => SILENCE,
            Failure::Nonsense => NONSENSE,
            Failure::Refusal(_) => Self::Refused("the node refused to answer"),
        }
    }
}

impl From<SendFault> for PayerError {
    fn from(fault: SendFault) -> Self {
        match fault {
            SendFault::Silence => SILENCE,
            SendFault::Nonsense => NONSENSE,
            SendFault::OtherName => Self::Unavailable("the node named another transaction than it was sent"),
            SendFault::NonceUsed => Self::Refused("the node refused the payment: its nonce is used"),
            SendFault::Funds => {
                Self::Refused("the node refused the payment: the wallet has too little ether for the chain's fee")
            }
            SendFault::Fee => {
                Self::Refused("the node refused the payment: its fee is too low by now, or too high for this node")
            }
            SendFault::Refused => Self::Refused("the node refused the payment"),
        }
    }
}

impl From<Absurd> for PayerError {
    fn from(_: Absurd) -> Self {
        Self::Unavailable(
            "the nodes cannot be right about how many transactions the account has made, or too many of them wait",
        )
    }
}
