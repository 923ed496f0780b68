//! `Demands`: the parts of a route's x402 and MPP quotes that are the same for every request.

use crate::{
    discovery::Bazaar,
    paywall::seller::{chain::SellingChain, inner::MerchantInner, pricing::Tariff},
    protocol::{
        Address, Challenge, Network, QuoteTemplate, Way,
        mpp::{self, CredentialType},
        v2::{declarations, eip2612_declarations},
    },
};

/// Returns a merchant's ways to pay a price of this tariff.
pub(crate) type Offers = fn(&MerchantInner, Tariff) -> Vec<Way>;

/// What a quote says beside the crate's own headers, such as `Pay`.
#[derive(Clone, Debug)]
pub(crate) struct Demands {
    /// The demand in both versions of x402; `None` if nothing can be paid by them.
    pub(crate) x402: Option<Challenge>,
    /// The demands in MPP: one for each token, as far as there is room.
    pub(crate) mpp: Vec<mpp::Challenge>,
}

/// What a challenge adds to the list of headers that scripts may read.
const EXPOSED: &str = ", WWW-Authenticate";

impl Demands {
    /// Returns the demands of a route with this label, beside its quote in the crate's own headers. If the headers have no room for all,
    /// the last things are left out first: descriptions for indexers, then later tokens of MPP, then later ways to pay of x402, then MPP.
    pub(crate) fn new(
        merchant: &MerchantInner,
        template: &QuoteTemplate,
        bazaars: &[Bazaar],
        label: &str,
        (tariff, offers): (Tariff, Offers),
    ) -> Self {
        let (ways, recipient) = (offers(merchant, tariff), merchant.recipient());
        let declared = declared(merchant, &ways);
        // In the short form: the whole declaration must not reduce the offers.
        let asked = || match &declared {
            Some([_, short]) => Challenge::new(recipient, &ways, label).declaring(short),
            None => Challenge::new(recipient, &ways, label),
        };
        let x402_within = |room| (!ways.is_empty()).then(|| asked().fitting(room));
        let length = |x402: &Option<Challenge>| x402.as_ref().map_or(0, Challenge::longest_header);
        // The intent `charge` of MPP is for a fixed amount.
        let mut mpp = if tariff.offers_fixed() { challenges(merchant, &ways) } else { Vec::new() };
        let all = template.room_for_challenge();
        let mut room = all.saturating_sub(mpp.first().map_or(0, |first| first.longest() + EXPOSED.len()));
        let mut x402 = x402_within(room);
        if !mpp.is_empty() && length(&x402) > room {
            tracing::warn!("a quote's headers have no room for MPP: shorten the label, or accept fewer tokens");
            (mpp, room) = (Vec::new(), all);
            x402 = x402_within(room);
        }
        let left = room.saturating_sub(length(&x402));
        room -= keep_fitting(&mut mpp, left);
        if let Some([whole, _]) = &declared {
            x402 = x402.map(|challenge| challenge.declaring_within(room, whole));
        }
        if merchant.x402_v1 {
            let room = template.room_for_version_1();
            x402 = x402.map(|challenge| challenge.with_version_1(recipient, &ways, label, room));
        }
        // Only settlers list services.
        let listed = merchant.chains.iter().any(|chain| chain.standard.is_some());
        let extended = |challenge: Challenge, bazaar: &Bazaar| {
            challenge.extended(room, bazaar.method(), |room| bazaar.within(room))
        };
        x402 = x402.map(|challenge| bazaars.iter().filter(|_| listed).fold(challenge, extended));
        Self { x402, mpp }
    }
}

/// Returns the extensions that quotes declare, as members in JSON: with their whole schemas, and in short; `None` if there are none.
fn declared(merchant: &MerchantInner, ways: &[Way]) -> Option<[String; 2]> {
    let purchase = merchant.payment_identifier.map(|setting| declarations(setting.is_required()));
    let sponsors = merchant.gas_sponsoring && ways.iter().any(Way::is_by_permit);
    let allowance = sponsors.then(eip2612_declarations);
    match (purchase, allowance) {
        (Some([whole, short]), Some([allowance, in_short])) => {
            Some([format!("{whole},{allowance}"), format!("{short},{in_short}")])
        }
        (purchase, allowance) => purchase.or(allowance),
    }
}

/// Keeps the first challenge, and as many after it as there is room for. Returns how much room the later ones take.
fn keep_fitting(challenges: &mut Vec<mpp::Challenge>, room: usize) -> usize {
    let (mut taken, mut kept) = (0, 1);
    for length in challenges.iter().skip(1).map(mpp::Challenge::longest) {
        if taken + length > room {
            tracing::warn!("more tokens than a quote's headers have room for: the last is not offered by MPP");
            break;
        }
        (taken, kept) = (taken + length, kept + 1);
    }
    challenges.truncate(kept);
    taken
}

/// Returns the challenges of a merchant: one for each present token, in the order of the other quotes.
fn challenges(merchant: &MerchantInner, ways: &[Way]) -> Vec<mpp::Challenge> {
    let Some(mpp) = &merchant.mpp else { return Vec::new() };
    let recipient = merchant.recipient();
    payable(merchant, ways).map(|(token, types)| mpp.challenge(token, recipient, &types)).collect()
}

/// Returns the present tokens that a credential can pay, and how.
pub(crate) fn payable<'a>(
    merchant: &'a MerchantInner,
    ways: &'a [Way],
) -> impl Iterator<Item = ((Network, Address, u8), Vec<CredentialType>)> + 'a {
    let tokens = merchant.chains.iter().flat_map(|chain| chain.assets.iter().map(move |asset| (chain, asset)));
    let with_types = tokens.map(move |(chain, asset)| {
        let token = asset.contract();
        ((chain.network, token, merchant.decimals()), types(merchant, chain, ways, token))
    });
    with_types.filter(|(_, types)| !types.is_empty())
}

/// Returns how a credential can pay this token.
fn types(merchant: &MerchantInner, chain: &SellingChain, ways: &[Way], token: Address) -> Vec<CredentialType> {
    let signed = ways.iter().any(|way| way.is_signed_for(chain.network, token));
    // A credential cannot carry what binds a transfer to its payer.
    let shown = chain.start.is_done() && chain.reader().is_some() && !merchant.unbound.refuse;
    let types = [(signed, CredentialType::Authorization), (shown, CredentialType::Hash)];
    types.into_iter().filter_map(|(offered, form)| offered.then_some(form)).collect()
}
