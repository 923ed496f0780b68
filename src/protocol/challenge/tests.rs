use super::*;
use crate::protocol::{
    Amount, Asset, IntentId, PaymentSignature, TokenDomain,
    channel::{ChannelId, ChannelState, ChannelTerms, Voucher, VoucherState},
    headers::PAYMENT_REQUIRED,
    template::{QuoteTemplate, RedeemBy},
    v2::{ChannelRequirements, PaymentOption, PaymentRequired, PaymentRequirements, ResourceInfo},
};

const SELLER: Address = Address::new([0x5a; 20]);

fn domains() -> Vec<TokenDomain> {
    let usdc = TokenDomain::usdc_of(Network::BASE).unwrap();
    vec![usdc, TokenDomain::new(Address::new([7; 20]), "Another \"coin\" é", "1")]
}

/// How long a proof counts.
const MAX_AGE: u64 = 86_400;

fn ways(tokens: &[TokenDomain], submitted: &[TokenDomain]) -> Vec<Way> {
    let signed = tokens.iter().map(|token| Way::authorization(Network::BASE, token, 720));
    signed
        .chain(submitted.iter().map(|token| Way::submitted_transfer(Network::BASE, token.token, 900, MAX_AGE)))
        .collect()
}

fn submitted(token: &TokenDomain, amount: u128, intent: &str) -> PaymentRequirements {
    let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
    PaymentRequirements::new(&asset, Amount::from_base_units(amount), SELLER, 900)
        .with_client_submitted_transfer()
        .with_extra("maxProofAge", MAX_AGE)
        .with_intent(&IntentId::new(intent).unwrap())
}

fn offered(token: &TokenDomain, amount: u128, intent: &str) -> PaymentRequirements {
    let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
    PaymentRequirements::new(&asset, Amount::from_base_units(amount), SELLER, 720)
        .with_token_domain(&token.name, &token.version)
        .with_intent(&IntentId::new(intent).unwrap())
}

fn challenge(ways: &[Way]) -> Challenge {
    Challenge::new(SELLER, ways, "Demand \"insights\" für heute")
}

fn rendered(challenge: &Challenge, amount: u128, intent: &str, url: ResourceUrl<'_>) -> PaymentRequired {
    let template = QuoteTemplate::new(SELLER, Network::BASE, "l", &[Asset::USDC_BASE], false);
    let price = PriceText::new(Amount::from_base_units(amount), 6);
    let standard = Challenged { challenge, method: &Method::POST, url, error: None, correction: None };
    let seal = |out: &mut Vec<u8>| out.extend_from_slice(intent.as_bytes());
    let headers = template.render(&price, 0, RedeemBy::Any, Some(&standard), seal).headers;
    let length = headers[PAYMENT_REQUIRED].len();
    assert_eq!(length % 4, 0, "padded");
    assert!(amount > u64::MAX.into() || length <= challenge.longest_header(), "{length}");
    PaymentRequired::from_headers(&headers).unwrap().unwrap()
}

#[test]
fn it_is_the_message_whatever_the_lengths() {
    let url = ResourceUrl { origin: Origin::Host("shop.example"), path: "/demand-insights" };
    let (all, none) = (&domains()[..], &[][..]);
    for (signed, shown) in [
        (&all[..1], none),
        (&all[1..], none),
        (all, none),
        (none, &all[..1]),
        (none, all),
        (&all[..1], &all[..1]),
        (&all[1..], all),
    ] {
        for amount in [1, 12, 490_000, u128::MAX] {
            for intent in ["a", "ab", "abc", "abcd", &"x".repeat(SEALED_MAX)] {
                let resource = ResourceInfo::new("https://shop.example/demand-insights")
                    .with_description("Demand \"insights\" für heute");
                let mut entries = signed.iter().map(|token| offered(token, amount, intent)).collect::<Vec<_>>();
                entries.extend(shown.iter().map(|token| submitted(token, amount, intent)));
                let mut entries = entries.into_iter();
                let first = PaymentRequired::new(entries.next().unwrap()).with_resource(resource);
                let expected = entries.fold(first, PaymentRequired::or);
                let challenge = challenge(&ways(signed, shown));
                assert_eq!(rendered(&challenge, amount, intent, url), expected);
            }
        }
    }
}

fn channel_terms() -> ChannelTerms {
    ChannelTerms::new(Address::new([9; 20]), 900)
}

fn by_channel(token: &TokenDomain, terms: &ChannelTerms) -> ChannelRequirements {
    let asset = Asset::new(Network::BASE, token.token, 6, "USDC");
    ChannelRequirements::new(&asset, Amount::from_base_units(12), SELLER, 60, terms)
        .with_token_domain(&token.name, &token.version)
        .with_intent(&IntentId::new("i").unwrap())
}

#[test]
fn a_channel_is_offered_by_its_terms() {
    let url = ResourceUrl { origin: Origin::Unknown, path: "/a" };
    for terms in [channel_terms(), channel_terms().with_min_deposit(Amount::from_base_units(120))] {
        for token in domains() {
            let challenge = challenge(&[Way::channel(Network::BASE, &token, 60, &terms)]);
            let accepts = rendered(&challenge, 12, "i", url).accepts;
            assert_eq!(accepts, [PaymentOption::Channel(by_channel(&token, &terms))]);
        }
    }
}

/// The extra members have the domain's name, if the token has one.
#[test]
fn a_channel_by_permit2_is_offered_by_its_terms() {
    let url = ResourceUrl { origin: Origin::Unknown, path: "/a" };
    for terms in [channel_terms(), channel_terms().with_min_deposit(Amount::from_base_units(120))] {
        let asset = Asset::new(Network::BASE, Address::new([0xc0; 20]), 6, "COIN");
        let offered = ChannelRequirements::new(&asset, Amount::from_base_units(12), SELLER, 60, &terms).by_permit2();
        for domain in [None, Some(("Coin", "1"))] {
            let way = Way::channel_by_permit2(Network::BASE, asset.contract(), 60, &terms, domain);
            let accepts = rendered(&challenge(&[way]), 12, "i", url).accepts;
            let offered = domain
                .iter()
                .fold(offered.clone(), |offered, (name, version)| offered.with_token_domain(name, version));
            assert_eq!(accepts, [PaymentOption::Channel(offered.with_intent(&IntentId::new("i").unwrap()))]);
        }
    }
}

/// No other way to pay has its members: neither another token's channel, nor an authorization of the same token.
#[test]
fn a_correction_stands_in_its_channels_way_alone() {
    let tokens = domains();
    let channel = |token| Way::channel(Network::BASE, token, 60, &channel_terms());
    let authorization = Way::authorization(Network::BASE, &tokens[0], 720);
    let challenge = challenge(&[channel(&tokens[1]), authorization, channel(&tokens[0])]);
    let state = ChannelState::new(ChannelId::new([7; 32]), Amount::from_base_units(120), Amount::ZERO);
    let signature = PaymentSignature::new([5; 65]).unwrap();
    for charged in [1, 10, 100] {
        let state = state.clone().with_charged(Amount::from_base_units(charged));
        let voucher = VoucherState::from(&Voucher::new(state.channel_id, charged, signature.clone()));
        for voucher in [None, Some(voucher)] {
            let correction = Correction::new(Network::BASE, tokens[0].token, &state, voucher.as_ref());
            let url = ResourceUrl { origin: Origin::Unknown, path: "/a" };
            let (method, error) = (&Method::GET, Some("of_a_channel"));
            let standard = Challenged { challenge: &challenge, method, url, error, correction: Some(&correction) };
            let template = QuoteTemplate::new(SELLER, Network::BASE, "l", &[Asset::USDC_BASE], false);
            let price = PriceText::new(Amount::from_base_units(12), 6);
            let seal = |out: &mut Vec<u8>| out.push(b'i');
            let headers = template.render(&price, 0, RedeemBy::Any, Some(&standard), seal).headers;
            assert!(headers[PAYMENT_REQUIRED].len() <= standard.longest(&price));
            let read = PaymentRequired::from_headers(&headers).unwrap().unwrap();
            let [other, PaymentOption::Exact(exact), PaymentOption::Channel(corrected)] = &read.accepts[..] else {
                panic!("{read:?}")
            };
            assert_eq!(*other, PaymentOption::Channel(by_channel(&tokens[1], &channel_terms())));
            assert_eq!(*exact, offered(&tokens[0], 12, "i"));
            assert!(corrected.echoes(&by_channel(&tokens[0], &channel_terms())));
            assert_eq!((corrected.channel_state(), corrected.voucher_state()), (Some(state.clone()), voucher));
            assert_eq!(read.error.as_deref(), error);
        }
    }
}

/// Optional members are dropped first; the first way to pay always stays.
#[test]
fn what_has_no_room_goes_from_the_end() {
    let whole = challenge(&ways(&domains(), &domains()[..1]));
    let url = ResourceUrl { origin: Origin::Unknown, path: &"p".repeat(300) };
    let intent = "i".repeat(SEALED_MAX);
    let mut seen = Vec::new();
    for room in (0..=whole.longest_header()).rev() {
        let required = rendered(&whole.clone().fitting(room), u64::MAX.into(), &intent, url);
        let methods: Vec<_> = required.accepts.iter().map(|option| option.exact().unwrap().transfer_method()).collect();
        assert!(required.to_header().len() <= room || methods.len() == 1, "{room}");
        let described = required.resource.unwrap().description.is_some();
        if seen.last() != Some(&(methods.clone(), described)) {
            seen.push((methods, described));
        }
    }
    use crate::protocol::v2::TransferMethod::{Eip3009, TxId};
    let expected = [
        (vec![Eip3009, Eip3009, TxId], true),
        (vec![Eip3009, Eip3009, TxId], false),
        (vec![Eip3009, Eip3009], false),
        (vec![Eip3009], false),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn a_url_is_where_the_client_asked_and_never_long() {
    let challenge = challenge(&ways(&domains()[..1], &[]));
    let url = |origin, path: &str| rendered(&challenge, 1, "i", ResourceUrl { origin, path }).resource.unwrap().url;
    for (host, expected) in [
        ("shop.example", "https://shop.example/a"),
        ("shop.example:8443", "https://shop.example:8443/a"),
        ("127.0.0.1:8402", "http://127.0.0.1:8402/a"),
        ("[::1]:8402", "http://[::1]:8402/a"),
        ("localhost", "http://localhost/a"),
        ("127.0.0.1.example", "https://127.0.0.1.example/a"),
    ] {
        assert_eq!(url(Origin::Host(host), "/a"), expected);
    }
    assert_eq!(url(Origin::Public("https://shop.example/api/"), "/a"), "https://shop.example/api/a");
    assert_eq!(url(Origin::Unknown, "/\"é\\"), "/\"é\\");
    let long = url(Origin::Unknown, &"/é".repeat(500));
    assert!(long.starts_with("/é/é") && (60..=256).contains(&long.len()), "{}", long.len());
}
