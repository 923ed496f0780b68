//! `TransferTerms`: one way to pay by an ordinary transfer.

use std::iter;

use crate::{
    client::{Budget, JournalEntry, Signed},
    protocol::{
        Asset, Quote,
        v2::{PaymentRequired, PaymentRequirements, TransferMethod},
    },
};

/// A transfer on one network. `Pay` names the first network, and `PAYMENT-REQUIRED` may name more for the same intent.
#[derive(Clone, Debug)]
pub(crate) struct TransferTerms {
    pub(crate) quote: Quote,
    /// Whether the network differs from that of `Pay`; the proof then names it.
    pub(crate) is_elsewhere: bool,
}

impl TransferTerms {
    /// Returns the quote of `Pay`, and the same quote for each further network on which the seller takes transfers.
    /// Offers with another price, intent or recipient are omitted.
    pub(super) fn of(first: Quote, required: Option<&PaymentRequired>, budget: &Budget) -> Vec<Self> {
        let mut elsewhere: Vec<Self> = Vec::new();
        let offered = required.into_iter().flat_map(|required| &required.accepts).filter_map(|option| option.exact());
        for offer in offered.filter(|offer| offer.network != first.network && is_same(&first, offer)) {
            let PaymentRequirements { network, asset, .. } = *offer;
            if let Some(terms) = elsewhere.iter_mut().find(|terms| terms.quote.network == network) {
                terms.quote.contracts.push(asset);
                continue;
            }
            let symbol = budget.asset(network, asset).map_or("", Asset::symbol).to_owned();
            let quote = Quote { network, symbol, contracts: vec![asset], ..first.clone() };
            elsewhere.push(Self { quote, is_elsewhere: true });
        }
        iter::once(Self { quote: first, is_elsewhere: false }).chain(elsewhere).collect()
    }

    /// Returns whether a purchase's payment covers these terms.
    pub(crate) fn are_covered_by(&self, entry: &JournalEntry) -> bool {
        // Permits and vouchers are shown again, and never redeemed by a transaction.
        let redeemable = match entry.signed() {
            Some(Signed::Authorization(_)) => entry.transaction.is_some(),
            Some(Signed::Permit(_) | Signed::Voucher(_)) => false,
            None => true,
        };
        redeemable && entry.covers(&self.quote)
    }
}

fn is_same(first: &Quote, offer: &PaymentRequirements) -> bool {
    offer.transfer_method() == TransferMethod::TxId
        && (offer.pay_to, offer.amount) == (first.recipient, first.amount)
        && offer.intent().is_ok_and(|intent| intent.as_ref() == Some(&first.intent))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;
    use crate::{
        client::dialect::Bill,
        protocol::{Address, Amount, ChainTime, IntentId, Network},
    };

    const SELLER: Address = Address::new([2; 20]);
    const SEPOLIA: Asset = Asset::USDC_BASE_SEPOLIA;

    fn budget() -> Budget {
        Budget::in_assets([Asset::USDC_BASE, SEPOLIA]).per_payment("1").per_day("10").build().unwrap()
    }

    /// Returns the transfers of a quote of 0.49 USDC on Base with these offers.
    fn transfers(offers: &[PaymentRequirements]) -> Vec<TransferTerms> {
        let pay = format!(
            r#"{{"recipient":"{SELLER}","chainId":8453,"label":"x","expiry":9,"amount":"490000","decimals":6,"symbol":"USDC"}}"#
        );
        let contracts = Asset::USDC_BASE.contract().to_string();
        let mut required = PaymentRequired::new(offers[0].clone());
        required.accepts = offers.iter().cloned().map(Into::into).collect();
        let required = required.to_header();
        let headers = [
            ("pay", pay),
            ("x-price-intent", "the-intent".to_owned()),
            ("x-payment-contracts", contracts),
            ("payment-required", required.to_str().unwrap().to_owned()),
        ];
        let headers: HeaderMap = headers
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_str(&value).unwrap()))
            .collect();
        Bill::of_headers(&headers, &budget(), ChainTime::from_unix(1)).unwrap().transfers
    }

    fn offer(asset: &Asset, amount: u128, to: Address, intent: &str) -> PaymentRequirements {
        let offer = PaymentRequirements::new(asset, Amount::from_base_units(amount), to, 900);
        offer.with_client_submitted_transfer().with_intent(&IntentId::new(intent).unwrap())
    }

    #[test]
    fn the_same_quote_on_further_networks_is_a_way_to_pay() {
        let other_token = Asset::new(Network::BASE_SEPOLIA, Address::new([9; 20]), 6, "USDT");
        let far = Asset::new(Network::eip155(1), Address::new([8; 20]), 6, "FAR");
        let offers =
            [&Asset::USDC_BASE, &SEPOLIA, &far, &other_token].map(|asset| offer(asset, 490_000, SELLER, "the-intent"));
        let found = transfers(&offers);
        let seen: Vec<_> = found
            .iter()
            .map(|terms| (terms.quote.network, terms.is_elsewhere, &*terms.quote.symbol, &terms.quote.contracts[..]))
            .collect();
        assert_eq!(
            seen,
            [
                (Network::BASE, false, "USDC", &[Asset::USDC_BASE.contract()][..]),
                (Network::BASE_SEPOLIA, true, "USDC", &[SEPOLIA.contract(), other_token.contract()][..]),
                (Network::eip155(1), true, "", &[far.contract()][..]),
            ]
        );
        assert!(found.iter().all(|terms| terms.quote.intent.as_str() == "the-intent"));
    }

    #[test]
    fn an_offer_that_is_another_quote_is_none() {
        let same = offer(&SEPOLIA, 490_000, SELLER, "the-intent");
        let signed = PaymentRequirements::new(&SEPOLIA, Amount::from_base_units(490_000), SELLER, 900)
            .with_intent(&IntentId::new("the-intent").unwrap());
        let without_intent = PaymentRequirements::new(&SEPOLIA, Amount::from_base_units(490_000), SELLER, 900)
            .with_client_submitted_transfer();
        for other in [
            offer(&SEPOLIA, 489_999, SELLER, "the-intent"),
            offer(&SEPOLIA, 490_001, SELLER, "the-intent"),
            offer(&SEPOLIA, 490_000, Address::new([3; 20]), "the-intent"),
            offer(&SEPOLIA, 490_000, SELLER, "another-intent"),
            signed,
            without_intent,
        ] {
            assert_eq!(transfers(std::slice::from_ref(&other)).len(), 1, "{other:?}");
            assert_eq!(transfers(&[other, same.clone()]).len(), 2);
        }
    }
}
