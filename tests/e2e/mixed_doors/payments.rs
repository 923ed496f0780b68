//! Payments of every kind, and what their payers and thieves show for them.

use std::sync::OnceLock;

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use http::{HeaderName, HeaderValue, header::AUTHORIZATION};
use rand::Rng as _;
use serde_json::{Value, json};
use tower_x402::{
    protocol::{
        Address, ChainTime, IntentId, Network, PaymentTag, TxHash,
        headers::{PAYMENT_SIGNATURE, X_PAYMENT, X402_PAYMENT},
        redemption_message, v1,
        v2::{Authorization, PaymentPayload, PaymentRequirements, SignedAuthorization},
    },
    testing::contracts::{self, Word},
};

use super::{
    book::Book,
    street::{Offer, Street},
};
use crate::{
    served::market::SELLER,
    support::{
        authorization::{call, signature},
        mpp,
    },
};

/// An account of the chain's ten, which begin with those that settle.
pub const THIEF: usize = 4;
const PAYERS: [usize; 5] = [5, 6, 7, 8, 9];

/// What a handler answers.
pub const QUESTION: &str = r#"{"query":"pricing"}"#;
/// What every handler refuses.
pub const NO_QUESTION: &str = r#"{"query":""}"#;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A signed authorization, and, once it is settled, its transaction.
    Signed,
    /// The same under two intents of its payer's.
    TwoIntents,
    /// Signed likewise, and sent by somebody else, before or after its payer shows it.
    Relayed,
    /// Signed for a challenge of MPP, and shown in each dialect; once it is settled, by its transaction as well.
    Challenged,
    /// Signed for a bill of version 1, without a quote.
    Old,
    /// A transfer that its payer tagged.
    Tagged,
    /// A transfer of any wallet. It goes to whoever is first.
    Untagged,
    /// A signed authorization, shown with requests only that are refused.
    InVain,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Signed,
        Self::TwoIntents,
        Self::Relayed,
        Self::Challenged,
        Self::Old,
        Self::Tagged,
        Self::Untagged,
        Self::InVain,
    ];

    /// Those that are redeemed in time. Without a quote, what a process that was killed had begun is its payer's only once it is mined, or
    /// when its time is over.
    pub fn all(crashes: bool) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |kind| !crashes || *kind != Self::Old)
    }

    const fn is_signed(self) -> bool {
        !matches!(self, Self::Tagged | Self::Untagged)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Payer,
    Thief,
    /// Shows worthless signatures, in the payer's name.
    Forger,
}

/// One header, and with which request it goes.
#[derive(Clone)]
pub struct Presentation {
    pub party: Party,
    pub header: (HeaderName, HeaderValue),
    pub body: &'static str,
}

pub struct Payment {
    pub kind: Kind,
    pub book: Book,
    /// Whether processes are killed meanwhile.
    crashes: bool,
    payer: PrivateKeySigner,
    thief: PrivateKeySigner,
    /// Two of the payer's, then two of a thief's.
    offers: [Offer; 4],
    signed: Option<(SignedAuthorization, Vec<u8>)>,
    /// What can be shown from the beginning.
    early: Vec<Presentation>,
    /// What can be shown once the transaction is known.
    late: OnceLock<Vec<Presentation>>,
}

impl Payment {
    /// Makes one, and sends what the payer sends itself.
    pub async fn make(street: &Street, kind: Kind) -> Self {
        let account = PAYERS[rand::rng().random_range(0..PAYERS.len())];
        let offers = [street.offer().await, street.offer().await, street.offer().await, street.offer().await];
        let [payer, thief] = [account, THIEF].map(|index| street.key(index));
        let (book, crashes) = (Book::default(), street.crashes());
        let mut payment =
            Self { kind, book, crashes, payer, thief, offers, signed: None, early: vec![], late: OnceLock::new() };
        let tag = PaymentTag::of(payment.intent(0).as_str());
        if kind.is_signed() {
            let nonce = match kind {
                Kind::Relayed => *tag.as_bytes(),
                Kind::Challenged => mpp::nonces(&payment.offers[0].challenge)[rand::rng().random_range(0..2)],
                _ => rand::rng().random(),
            };
            payment.sign(street, nonce);
        } else {
            let mut transfer = contracts::transfer(SELLER, payment.terms(0).amount);
            if kind == Kind::Tagged {
                transfer.extend(tag.to_call_data());
            }
            let (from, token) = (street.chain.accounts()[account].address(), street.chain.usdc());
            payment.learn(street.chain.send(from, token, &transfer).await.unwrap());
        }
        // Of the payer's own nonce, where there is one, and of another.
        let nonce = payment.authorization().map(|(nonce, _)| nonce);
        let forged = nonce.into_iter().chain([rand::rng().random()]).map(|nonce| payment.forged(2, nonce));
        let forged: Vec<_> = forged.collect();
        payment.early.extend(forged);
        payment
    }

    fn sign(&mut self, street: &Street, nonce: [u8; 32]) {
        let offer = self.terms(0).clone();
        let from = Address::new(self.payer.address().into_array());
        let until = street.now() + 3600;
        let terms = [from.into(), SELLER.into(), offer.amount.into(), 0.into(), u128::from(until).into()];
        let terms: [Word; 6] = [&terms[..], &[Word::new(nonce)]].concat().try_into().unwrap();
        let signed = signature(&street.chain, &self.payer, &terms);
        let authorization = Authorization::new(from, nonce)
            .paying(SELLER, offer.amount)
            .valid_between(ChainTime::from_unix(0), ChainTime::from_unix(until));
        let shown = SignedAuthorization::new(authorization, signed.to_string().parse().unwrap());
        self.signed = Some((shown, call(&terms, &signed)));
        let own = if self.kind == Kind::TwoIntents { 2 } else { 1 };
        let body = if self.kind == Kind::InVain { NO_QUESTION } else { QUESTION };
        self.early = match self.kind {
            Kind::Old => vec![self.unquoted(Party::Payer)],
            Kind::Challenged => vec![self.credential(Party::Payer, 0), self.signed_for(Party::Payer, 0)],
            _ => (0..own).map(|offer| Presentation { body, ..self.signed_for(Party::Payer, offer) }).collect(),
        };
        if self.kind == Kind::Challenged && !self.crashes {
            self.early.push(self.unquoted(Party::Payer));
        }
        if self.kind != Kind::InVain {
            // A request that is refused, once in a while.
            self.early.push(Presentation { body: NO_QUESTION, ..self.early[0].clone() });
        }
    }

    fn terms(&self, offer: usize) -> &PaymentRequirements {
        &self.offers[offer].terms
    }

    /// The nonce and the call, of an authorization that may become a transfer.
    pub fn authorization(&self) -> Option<([u8; 32], &[u8])> {
        self.signed.as_ref().map(|(signed, call)| (signed.authorization.nonce, &call[..]))
    }

    fn intent(&self, offer: usize) -> IntentId {
        self.terms(offer).intent().unwrap().unwrap()
    }

    /// The authorization under that intent.
    fn signed_for(&self, party: Party, offer: usize) -> Presentation {
        let signed = self.signed.as_ref().unwrap().0.clone();
        let payload = PaymentPayload::new(self.terms(offer).clone(), signed);
        Presentation { party, header: (PAYMENT_SIGNATURE, payload.to_header()), body: QUESTION }
    }

    /// The authorization as a client of MPP shows it, for that challenge.
    fn credential(&self, party: Party, offer: usize) -> Presentation {
        let value = mpp::by_authorization(&self.offers[offer].challenge, &self.signed.as_ref().unwrap().0);
        Presentation { party, header: (AUTHORIZATION, value.parse().unwrap()), body: QUESTION }
    }

    /// The authorization as a client of version 1 shows it.
    fn unquoted(&self, party: Party) -> Presentation {
        let payload = v1::PaymentPayload::new(Network::BASE, self.signed.as_ref().unwrap().0.clone());
        Presentation { party, header: (X_PAYMENT, payload.to_header()), body: QUESTION }
    }

    /// The transaction as a client of MPP shows it, for that challenge.
    fn hash(&self, party: Party, offer: usize, transaction: TxHash) -> Presentation {
        let value = mpp::by_hash(&self.offers[offer].challenge, transaction);
        Presentation { party, header: (AUTHORIZATION, value.parse().unwrap()), body: QUESTION }
    }

    /// An authorization of this nonce under that intent, whose signature is worthless.
    fn forged(&self, offer: usize, nonce: [u8; 32]) -> Presentation {
        let authorization = Authorization::new(Address::new(self.payer.address().into_array()), nonce)
            .paying(SELLER, self.terms(offer).amount)
            .valid_between(
                ChainTime::from_unix(0),
                self.signed
                    .as_ref()
                    .map_or(ChainTime::from_unix(u32::MAX.into()), |(signed, _)| signed.authorization.valid_before),
            );
        let worthless = format!("0x{}", "11".repeat(65)).parse().unwrap();
        let payload =
            PaymentPayload::new(self.terms(offer).clone(), SignedAuthorization::new(authorization, worthless));
        Presentation { party: Party::Forger, header: (PAYMENT_SIGNATURE, payload.to_header()), body: QUESTION }
    }

    /// The transaction under that intent, with what proves it.
    fn redemption(&self, party: Party, offer: usize, transaction: TxHash, proof: &Value) -> Presentation {
        let mut shown = json!({ "intentId": self.intent(offer).as_str(), "txHash": transaction.to_string() });
        shown.as_object_mut().unwrap().extend(proof.as_object().unwrap().clone());
        let value = shown.to_string().parse().unwrap();
        Presentation { party, header: (X402_PAYMENT, value), body: QUESTION }
    }

    fn signature(&self, signer: &PrivateKeySigner, offer: usize, transaction: TxHash) -> Value {
        let message = redemption_message(Network::BASE, transaction, &self.intent(offer));
        json!({ "paymentSignature": signer.sign_message_sync(message.as_bytes()).unwrap().to_string() })
    }

    /// Says which transaction it is in: from here on it is public, with all that stands in it.
    pub fn learn(&self, transaction: TxHash) {
        self.late.get_or_init(|| self.after(transaction));
    }

    pub fn is_known(&self) -> bool {
        self.late.get().is_some()
    }

    fn after(&self, transaction: TxHash) -> Vec<Presentation> {
        let by_hash = |party, offer, proof: Value| self.redemption(party, offer, transaction, &proof);
        let mut late: Vec<_> =
            [0, 1].map(|offer| by_hash(Party::Payer, offer, self.signature(&self.payer, offer, transaction))).into();
        if matches!(self.kind, Kind::Tagged | Kind::Untagged | Kind::Relayed) {
            late.push(by_hash(Party::Payer, 0, json!({})));
        }
        if self.kind == Kind::Challenged {
            late.push(self.hash(Party::Payer, 0, transaction));
        }
        let tag = PaymentTag::of(self.intent(0).as_str()).to_string();
        late.extend([
            self.hash(Party::Thief, 2, transaction),
            by_hash(Party::Thief, 2, json!({})),
            by_hash(Party::Thief, 3, json!({ "paymentSecret": tag })),
            by_hash(Party::Thief, 2, self.signature(&self.thief, 2, transaction)),
        ]);
        // A thief's reservation of what somebody else settled, left behind by a process that was killed, is a theft that still succeeds.
        if self.signed.is_some() && !(self.kind == Kind::Relayed && self.crashes) {
            late.extend([2, 3].map(|offer| self.signed_for(Party::Thief, offer)));
            late.extend([self.credential(Party::Thief, 2), self.unquoted(Party::Thief)]);
        }
        late
    }

    /// Everything that can be shown now.
    fn all(&self) -> impl Iterator<Item = &Presentation> {
        self.early.iter().chain(self.late.get().into_iter().flatten())
    }

    /// Any one of it; `None` where nothing is known yet.
    pub fn any(&self, rng: &mut impl rand::Rng) -> Option<&Presentation> {
        let all: Vec<_> = self.all().collect();
        (!all.is_empty()).then(|| all[rng.random_range(0..all.len())])
    }

    /// Whatever may buy the answer.
    pub fn good(&self) -> Vec<Presentation> {
        let buys = |shown: &&Presentation| shown.body == QUESTION && self.is_for(shown.party);
        self.all().filter(buys).cloned().collect()
    }

    /// Whether that party may be answered.
    pub fn is_for(&self, party: Party) -> bool {
        party == Party::Payer || self.kind == Kind::Untagged && party == Party::Thief
    }
}
