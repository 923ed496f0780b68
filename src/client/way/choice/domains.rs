//! `Domains`: the domains under which the payer signs, with few questions to the payer even for a bill with many ways.

use std::collections::HashMap;

use crate::{
    client::{Failure, PayerError, dialect::AuthorizationTerms, payer::ErasedPayer},
    protocol::{Address, Amount, Asset, Network, TokenDomain},
};

pub(super) const SIGNS_NONE: PayerError =
    PayerError::Refused("the payer signs no authorizations of this token, or has too little of it");
const OTHER_DOMAIN: PayerError =
    PayerError::Refused("the seller names another name or version of the token than the token's own");

/// How often a payer is asked about one token for one bill, because each question may go to its nodes.
const QUESTIONS_MAX: u32 = 3;

/// The payer's answers about tokens while a way to pay is chosen.
pub(super) struct Domains<'a> {
    payer: &'a dyn ErasedPayer,
    told: HashMap<(Network, Address), Told>,
}

#[derive(Default)]
struct Told {
    questions: u32,
    /// The token's own domain, and the amount that the payer would sign under it, as last asked.
    signs: Option<(TokenDomain, Amount)>,
    /// The amount that it does not sign.
    refuses: Option<Amount>,
}

impl<'a> Domains<'a> {
    pub(super) fn new(payer: &'a dyn ErasedPayer) -> Self {
        Self { payer, told: HashMap::new() }
    }

    /// Returns the domain under which the payer signs for these terms. A signature under another domain would be
    /// worthless here, or valid elsewhere, so the names are compared first, if known.
    pub(super) async fn under(&mut self, asset: &Asset, terms: &AuthorizationTerms) -> Result<TokenDomain, Failure> {
        let (token, amount) = (asset.contract(), terms.quote.amount);
        let told = self.told.entry((asset.network(), token)).or_default();
        let usdc = TokenDomain::usdc_of(asset.network()).filter(|domain| domain.token == token);
        let known = usdc.as_ref().or(told.signs.as_ref().map(|(domain, _)| domain));
        if known.is_some_and(|domain| !terms.names(domain)) {
            return Err(OTHER_DOMAIN.into());
        }
        if let Some((domain, _)) = told.signs.as_ref().filter(|(_, most)| amount <= *most) {
            return Ok(domain.clone());
        }
        if told.refuses.is_some_and(|least| least <= amount) || told.questions >= QUESTIONS_MAX {
            return Err(SIGNS_NONE.into());
        }
        told.questions += 1;
        let domain = match self.payer.authorizations() {
            Some(authorizer) => authorizer.authorizes(asset, amount).await.map_err(Failure::Payer)?,
            None => None,
        };
        let Some(domain) = domain.filter(|domain| domain.token == token) else {
            told.refuses = Some(amount);
            return Err(SIGNS_NONE.into());
        };
        told.signs = Some((domain.clone(), amount));
        if terms.names(&domain) { Ok(domain) } else { Err(OTHER_DOMAIN.into()) }
    }
}
