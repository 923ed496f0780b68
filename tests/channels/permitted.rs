//! Deposits by Permit2, for tokens without EIP-3009: quoted, made, and nothing else in their place.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, Merchant,
    ledger::MemoryLedger,
    protocol::{
        Address, Amount, Asset, Network, SealingKeys,
        channel::{ChannelConfig, ChannelPayload, Permit2Deposit},
        permit2::PERMIT2,
        v2::{Reason, SettleResponse, TransferMethod},
    },
    settle::{ChannelOnChain, Validity, WalletSettler},
    testing::{
        DevChain,
        contracts::{self, Contract, Word},
    },
    verify::EvmVerifier,
};

use crate::{
    counter::{PRICE, Stall, channel_in, channels_in, counting, id, number, offered, plain, refused, told, units},
    support::{Counter, ask, channel_payer::ChannelPayer, layered},
};

/// Without EIP-3009, as far as the scripted chain knows.
fn coin() -> Asset {
    Asset::new(Network::BASE, Address::new([0xc0; 20]), 6, "COIN")
}

async fn with_coin() -> Stall {
    Stall::open_in(&[coin()], ChannelPolicy::new(), |_| ()).await
}

/// Of each quote: the token, how deposits move, and whether the token's name is stated.
async fn quoted(assets: &[Asset], policy: ChannelPolicy, by_permit2: bool) -> Vec<(Address, TransferMethod, bool)> {
    let stall = Stall::open_in(assets, policy, |channels| channels.set_permit2_deposits(by_permit2)).await;
    let quote = ask(&layered(&stall.fixed(), counting(&Counter::default(), None)), plain()).await;
    let offers = channels_in(&quote).into_iter();
    offers.map(|offer| (offer.asset, offer.transfer_method(), offer.extra.text("name").is_some())).collect()
}

#[tokio::test]
async fn a_token_without_authorizations_is_quoted_by_permit2_where_it_can_be_deposited_so() {
    use TransferMethod::{Eip3009, Permit2};
    let both = [Asset::USDC_BASE, coin()];
    let (usdc, coin) = (both[0].contract(), both[1].contract());
    let usual = ChannelPolicy::new;
    assert_eq!(quoted(&both, usual(), true).await, [(usdc, Eip3009, true), (coin, Permit2, false)]);
    assert_eq!(quoted(&both, usual(), false).await, [(usdc, Eip3009, true)]);
    let chosen = ChannelPolicy::new().deposits_by_permit2();
    assert_eq!(quoted(&both, chosen, true).await, [(usdc, Permit2, true), (coin, Permit2, false)]);
    assert_eq!(quoted(&both, chosen, false).await, [(usdc, Eip3009, true)]);
}

#[tokio::test]
async fn a_deposit_by_permit2_opens_a_channel_and_a_wrong_total_is_corrected() {
    let (stall, counter) = (with_coin().await, Counter::default());
    let service = layered(&stall.fixed(), counting(&counter, None));
    let offer = offered(&service).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let answer = ask(&service, stall.deposits_by_permit2(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!(told(&answer), (PRICE, PRICE));
    let settled = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
    assert_eq!((settled.amount, settled.transaction.is_some()), (Some(units(10 * PRICE)), true));
    // The same header again makes no second deposit, and buys nothing more.
    let again = ask(&service, stall.deposits_by_permit2(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!((again.status().as_u16(), stall.channels.deposits(), counter.runs()), (409, 1, 1));
    let lost = ask(&service, stall.pays(&offered(&service).await, &config, PRICE)).await;
    let corrected = channel_in(&lost);
    assert_eq!(corrected.transfer_method(), TransferMethod::Permit2);
    let state = corrected.channel_state().unwrap();
    assert_eq!((state.balance, state.charged_cumulative_amount), (units(10 * PRICE), Some(units(PRICE))));
    assert_eq!(told(&ask(&service, stall.pays(&corrected, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    assert_eq!(counter.runs(), 2);
}

#[tokio::test]
async fn a_deposit_of_the_other_kind_is_refused_before_the_handler_runs() {
    let (stall, counter) = (with_coin().await, Counter::default());
    let service = layered(&stall.fixed(), counting(&counter, None));
    let offer = offered(&service).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let other = Reason::INVALID_BATCH_SETTLEMENT_EVM_MISSING_EIP712_DOMAIN;
    for said in [Validity::Valid, Validity::Refused(other)] {
        stall.channels.answer_verify(said);
        let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_permit2_authorization_required");
        assert_eq!(channel_in(&answer).transfer_method(), TransferMethod::Permit2);
    }
    assert_eq!((counter.runs(), stall.channels.deposits()), (0, 0));
    // The quote is still good.
    stall.channels.answer_verify(None);
    let answer = ask(&service, stall.deposits_by_permit2(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!((told(&answer), counter.runs()), ((PRICE, PRICE), 1));
}

/// Where Permit2 is only preferred, payers who sign authorizations are served, too.
#[tokio::test]
async fn where_permit2_is_chosen_a_token_with_authorizations_takes_both() {
    let stall = Stall::open_with(ChannelPolicy::new().deposits_by_permit2()).await;
    let service = layered(&stall.fixed(), counting(&Counter::default(), None));
    for (salt, by_permit2) in [(1, true), (2, false)] {
        let offer = offered(&service).await;
        let config = offer.channel_of(stall.payer(), [salt; 32]).unwrap();
        let request = match by_permit2 {
            true => stall.deposits_by_permit2(&offer, &config, PRICE, 5 * PRICE),
            false => stall.deposits(&offer, &config, PRICE, 5 * PRICE),
        };
        assert_eq!(told(&ask(&service, request).await), (PRICE, PRICE));
        assert_eq!(stall.channels.state(id(&config)), ChannelOnChain::new(units(5 * PRICE), units(0)));
    }
}

const SELLER: Address = Address::new([0x5e; 20]);

/// A token on the chain, of which account 1 has some.
async fn minted(chain: &DevChain, contract: Contract, word: &[Word]) -> Asset {
    let token = chain.deploy(contract.creation, word).await.unwrap();
    let [settler, payer] = [0, 1].map(|account| chain.accounts()[account].address());
    let sent = chain.send(settler, token, &contracts::mint(payer, units(1_000_000))).await.unwrap();
    chain.wait_until_mined(sent).await.unwrap();
    Asset::new(Network::BASE, token, 6, "COIN")
}

async fn owns(chain: &DevChain, token: Address, account: Address) -> u128 {
    let word = chain.call(token, &contracts::balance_of(account)).await.unwrap();
    number(Amount::from_be_bytes(word.try_into().unwrap()))
}

async fn allow(chain: &DevChain, token: Address, amount: u128) {
    let call = contracts::approve(PERMIT2, units(amount));
    let sent = chain.send(chain.accounts()[1].address(), token, &call).await.unwrap();
    chain.wait_until_mined(sent).await.unwrap();
}

/// The whole way on a real chain, in two tokens without EIP-3009: every unit is where it belongs.
#[tokio::test]
async fn in_a_plain_token_what_is_sold_is_what_the_seller_gets_and_the_rest_goes_back() {
    let builder = DevChain::builder().install_with_npm(true).mine_every(Duration::from_secs(1)).with_channels();
    let chain = builder.start().await.unwrap();
    // Permit2 counts the nonces of all tokens together.
    for (contract, word, nonce) in [(contracts::COIN, &[Word::from(6u128)][..], 1), (contracts::PERMIT_COIN, &[], 4)] {
        let coin = minted(&chain, contract, word).await;
        sells_by_permit2(&chain, coin, nonce).await;
    }
}

async fn sells_by_permit2(chain: &DevChain, coin: Asset, nonce: u8) {
    let (token, payer) = (coin.contract(), chain.accounts()[1].address());
    let settler = WalletSettler::builder().key(chain.accounts()[0].private_key()).final_after(0);
    let settler = settler.max_fee_per_gas(1_000_000_000_000).endpoint(chain.rpc_url()).connect().await.unwrap();
    let merchant = Merchant::builder(SELLER)
        .asset(coin)
        .verifier(EvmVerifier::connect([chain.rpc_url()]).await.unwrap())
        .channel_settler(settler)
        .channel_policy(ChannelPolicy::new().withdraw_delay(Duration::from_secs(900)))
        .ledger(MemoryLedger::new())
        .sealing_keys(SealingKeys::new([7; 32]));
    let merchant = merchant.build().await.unwrap();
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", units(PRICE)).unwrap(), counting(&counter, None));
    let offer = offered(&service).await;
    assert_eq!((offer.asset, offer.transfer_method()), (token, TransferMethod::Permit2));
    let buyer = ChannelPayer::of(chain, 1, &offer);
    let show = |payment: tower_x402::protocol::v2::PaymentPayload| {
        let header = (tower_x402::protocol::headers::PAYMENT_SIGNATURE, payment.to_header());
        http::Request::get("/answer").header(header.0, header.1).body(axum::body::Body::empty()).unwrap()
    };

    // What cannot be deposited is refused, and nothing moves: by an authorization, without an allowance, for another channel, altered.
    let by_authorization = show(buyer.deposits(&offer, PRICE, 10 * PRICE).await);
    let word = |answer: &_| refused(answer).replace("invalid_batch_settlement_evm_", "");
    assert_eq!(word(&ask(&service, by_authorization).await), "permit2_authorization_required");
    let permit = buyer.permit(10 * PRICE, nonce).await;
    // What was refused is remembered for a while.
    let too_early = buyer.permit(10 * PRICE, nonce + 2).await;
    let with = |permit: &Permit2Deposit, amount| show(buyer.deposits_by(&offer, PRICE, amount, permit.clone()));
    assert_eq!(word(&ask(&service, with(&too_early, 10 * PRICE)).await), "permit2_allowance_required");
    allow(chain, token, 15 * PRICE).await;
    let mut elsewhere = permit.clone();
    elsewhere.channel = ChannelConfig::new(payer, SELLER, token).id(Network::BASE);
    assert_eq!(word(&ask(&service, with(&elsewhere, 10 * PRICE)).await), "channel_id_mismatch");
    let mut altered = permit.clone();
    altered.amount = 11 * PRICE;
    assert_eq!(word(&ask(&service, with(&altered, 10 * PRICE)).await), "permit2_amount_mismatch");
    assert_eq!(word(&ask(&service, with(&altered, 11 * PRICE)).await), "permit2_invalid_signature");
    let mut foreign = permit.clone();
    foreign.spender = SELLER;
    assert_eq!(word(&ask(&service, with(&foreign, 10 * PRICE)).await), "permit2_invalid_spender");
    assert_eq!((counter.runs(), owns(chain, token, payer).await), (0, 1_000_000));

    // Opened, used, topped up.
    assert_eq!(told(&ask(&service, with(&permit, 10 * PRICE)).await), (PRICE, PRICE));
    for sale in 2..=10 {
        let paid = show(buyer.pays(&offered(&service).await, sale * PRICE));
        assert_eq!(told(&ask(&service, paid).await), (PRICE, sale * PRICE));
    }
    let offer = offered(&service).await;
    assert_eq!(word(&ask(&service, show(buyer.pays(&offer, 11 * PRICE))).await), "cumulative_exceeds_balance");
    let top_up = buyer.permit(5 * PRICE, nonce + 1).await;
    let topped = show(buyer.deposits_by(&offer, 11 * PRICE, 5 * PRICE, top_up));
    assert_eq!(told(&ask(&service, topped).await), (PRICE, 11 * PRICE));
    assert_eq!((buyer.state().await, owns(chain, token, payer).await), ((15 * PRICE, 0), 1_000_000 - 15 * PRICE));
    assert_eq!(counter.runs(), 11);

    // Claimed, and the rest given back.
    let claimed = merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left, owns(chain, token, SELLER).await), (1, 0, 11 * PRICE));
    let ChannelPayload::Voucher { channel_config, voucher } = buyer.voucher_payload(11 * PRICE) else { panic!() };
    let back = ChannelPayload::Refund { channel_config, voucher, amount: None };
    let back = show(tower_x402::protocol::v2::PaymentPayload::new(offered(&service).await, back));
    assert_eq!(ask(&service, back).await.status(), 200);
    assert_eq!(owns(chain, token, payer).await, 1_000_000 - 11 * PRICE);
    assert_eq!((buyer.state().await, counter.runs()), ((11 * PRICE, 11 * PRICE), 11));
}
