//! `Account`: a key, the nodes for its transactions, and the nonces that it used.

use std::{sync::Arc, time::Duration};

use alloy::{
    consensus::{SignableTransaction, TxEip1559, TxEnvelope},
    eips::eip2718::Encodable2718,
    network::TxSigner,
    primitives::keccak256,
};

use super::{
    fees::Fees,
    node::{Failure, Node},
    nodes::Nodes,
    nonce_manager::{Counted, NonceManager},
    sending::{self, SendFault},
    signer::Signer,
};
use crate::protocol::{Address, Network, TxHash};

/// The longest wait for the endpoints' current fees.
const FEES_LIMIT: Duration = Duration::from_secs(10);

/// The longest wait for their counts of the account's transactions.
const COUNTS_LIMIT: Duration = Duration::from_secs(10);

/// The longest wait for their answers about the account's ether.
const ETHER_LIMIT: Duration = Duration::from_secs(10);

/// A key, and the nodes for its transactions.
pub(crate) struct Account {
    pub(crate) nodes: Nodes,
    pub(crate) signer: Signer,
    pub(crate) address: Address,
    pub(crate) network: Network,
    /// Held from the choice of a nonce until its transaction is sent.
    pub(crate) turn: Arc<tokio::sync::Mutex<()>>,
    nonces: NonceManager,
}

/// A transaction in the form that is sent to a node.
#[derive(Clone, Debug)]
pub(crate) struct Signed {
    pub(crate) hash: TxHash,
    /// The raw transaction in hexadecimal, with `0x`.
    pub(crate) raw: String,
}

/// The nodes' transaction counts cannot be right.
pub(crate) struct Absurd;

impl Account {
    pub(crate) fn new(nodes: Nodes, signer: Signer) -> Self {
        Self {
            address: Address::new(TxSigner::address(&*signer).into()),
            network: Network::eip155(nodes.chain_id()),
            nodes,
            signer,
            turn: Arc::default(),
            nonces: NonceManager::default(),
        }
    }

    /// Returns the next nonce. The caller must hold the turn.
    pub(crate) async fn next_nonce(&self) -> Result<Result<u64, Absurd>, Failure> {
        let answers = self.nodes.each(|node| node.counted(self.address)).await;
        let (counted, failed): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        let counted: Vec<Counted> = counted.into_iter().flatten().collect();
        if let (true, Some(Err(failure))) = (counted.is_empty(), failed.into_iter().next()) {
            return Err(failure);
        }
        Ok(self.nonces.next(&counted, self.nodes.len()).ok_or(Absurd))
    }

    /// Whether the counts of most nodes give a next nonce. Does not wait for slow nodes.
    pub(crate) async fn has_next_nonce(&self) -> bool {
        let ask = |node| Node::counted(node, self.address);
        let counted = self.nodes.most(COUNTS_LIMIT, &ask).await;
        counted.is_ok_and(|counted| self.nonces.next(&counted, self.nodes.len()).is_some())
    }

    /// Returns the account's lowest open nonce according to these nodes; `None` if they are too far apart.
    pub(crate) fn open(&self, counted: &[Counted]) -> Option<u64> {
        NonceManager::open(counted, self.nodes.len())
    }

    /// Returns how many of these nodes count the nonce as used.
    pub(crate) fn using(&self, counted: &[Counted], nonce: u64) -> usize {
        self.nonces.using(counted, nonce)
    }

    /// Returns the fees for a transaction now.
    pub(crate) async fn fees(&self) -> Result<Fees, Failure> {
        let ask = |node| Node::fee_history(node);
        Fees::agreed(&self.nodes.most(FEES_LIMIT, &ask).await?).ok_or(Failure::Nonsense)
    }

    /// Returns the account's ether in wei, after its pending transactions: the highest answer of a majority of the nodes, or of
    /// fewer if the others fail. So one node that lags or lies stops nothing. If the ether is missing after all, the
    /// transaction costs nothing.
    pub(crate) async fn ether(&self) -> Result<u128, Failure> {
        let ask = |node| Node::ether(node, self.address);
        self.nodes.most(ETHER_LIMIT, &ask).await?.into_iter().max().ok_or(Failure::Silence)
    }

    /// Signs a transaction; `None` if the signer refuses.
    pub(crate) async fn sign(&self, mut transaction: TxEip1559) -> Option<Signed> {
        let signature = self.signer.sign_transaction(&mut transaction).await.ok()?;
        let raw = TxEnvelope::from(transaction.into_signed(signature)).encoded_2718();
        Some(Signed { hash: TxHash::new(keccak256(&raw).0), raw: const_hex::encode_prefixed(raw) })
    }

    /// Sends a signed transaction with that nonce to every node at once. One node that accepts it is enough.
    pub(crate) async fn send(&self, nonce: u64, signed: &Signed) -> Result<(), SendFault> {
        sending::send(&self.nodes, &signed.raw, signed.hash).await?;
        self.nonces.used(nonce);
        Ok(())
    }

    /// Remembers that a transaction of this nonce has a receipt.
    pub(crate) fn mined(&self, nonce: u64) {
        self.nonces.mined(nonce);
    }

    /// Remembers that a nonce is used, whatever the nodes count.
    pub(crate) fn used(&self, nonce: u64) {
        self.nonces.used(nonce);
    }
}
