//! Permits of Permit2, settled by the seller's own key through the standard's proxies.

use tower_x402::{
    protocol::{
        IntentId, PaymentTag,
        permit2::{PERMIT2, Permit, PermitScheme, SignedPermit},
        v2::{Eip2612Permit, Extensions, UpToRequirements},
    },
    settle::{PermitPayment, PermitSettler, PermitTerms},
};

use super::*;

/// What the payer allows: the price of everything.
const MOST: u128 = 490_000;

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

/// A chain with Permit2, on which account 1 lets it move its USDC.
async fn with_permit2() -> DevChain {
    let builder = DevChain::builder().install_with_npm(true).mine_every(None).with_permit2();
    let chain = builder.start().await.unwrap();
    allow(&chain, Amount::MAX).await;
    chain.mine(3).await.unwrap();
    chain
}

async fn allow(chain: &DevChain, amount: Amount) {
    let call = contracts::approve(PERMIT2, amount);
    chain.send(chain.accounts()[1].address(), chain.usdc(), &call).await.unwrap();
    chain.mine(1).await.unwrap();
}

/// A permit for the seller, within the hour. Account 0 settles.
async fn permit(chain: &DevChain, from: Address, scheme: PermitScheme, nonce: u8) -> Permit {
    let now = chain.timestamp().await.unwrap();
    Permit::new(scheme, from, [nonce; 32])
        .paying(SELLER, chain.usdc(), units(MOST))
        .by_facilitator(chain.accounts()[0].address())
        .valid_between(ChainTime::from_unix(0), now.after(Duration::from_secs(3_600)))
}

fn signed_by(permit: Permit, key: &PrivateKeySigner) -> SignedPermit {
    let signature = key.sign_hash_sync(&B256::new(permit.digest(Network::BASE))).unwrap();
    SignedPermit::new(permit, PaymentSignature::new(signature.as_bytes()).unwrap())
}

/// What is offered for this permit's token.
fn offered(chain: &DevChain, signed: SignedPermit, token: Address) -> PermitPayment {
    let asset = Asset::new(Network::BASE, token, 6, "T");
    match signed.permit.scheme() {
        PermitScheme::Exact => {
            PermitPayment::new(signed, PaymentRequirements::new(&asset, units(MOST), SELLER, 300).by_permit2())
        }
        PermitScheme::UpTo => {
            let required = UpToRequirements::new(&asset, units(MOST), SELLER, 300);
            PermitPayment::new(signed, required.with_facilitator(chain.accounts()[0].address()))
        }
    }
}

/// A payment by account 1.
async fn payment(chain: &DevChain, scheme: PermitScheme, nonce: u8) -> PermitPayment {
    let key = key(chain, 1);
    let signed = signed_by(permit(chain, address(&key), scheme, nonce).await, &key);
    offered(chain, signed, chain.usdc())
}

async fn charged(chain: &DevChain, settler: &WalletSettler, payment: &PermitPayment, charge: u128) -> Settlement {
    let none = TransactionRecorder::none();
    while_mining(chain, settler.settle_permit(payment, units(charge), &none)).await
}

async fn verified(settler: &WalletSettler, payment: &PermitPayment) -> Validity {
    settler.verify_permit(payment).await.unwrap()
}

fn word(word: &str) -> Reason {
    word.parse().unwrap()
}

#[tokio::test]
async fn permits_of_both_schemes_are_charged_to_the_unit_and_once() {
    let (chain, secret) = (with_permit2().await, "AAAAAAAAAAAAAAAA");
    let settler = settler(&chain).await;
    let mut total = 0;
    for (scheme, nonce, charge) in [
        (PermitScheme::Exact, 1, MOST),
        (PermitScheme::UpTo, 2, 1_858),
        (PermitScheme::UpTo, 3, 1),
        (PermitScheme::UpTo, 4, MOST),
    ] {
        let mut payment = payment(&chain, scheme, nonce).await;
        let intent = IntentId::new(secret).unwrap();
        payment.requirements = match payment.requirements {
            tower_x402::settle::PermitRequirements::Exact(required) => required.with_intent(&intent).into(),
            tower_x402::settle::PermitRequirements::UpTo(required) => required.with_intent(&intent).into(),
        };
        assert!(settler.is_permit_signed_by_key(&payment));
        assert_eq!(verified(&settler, &payment).await, Validity::Valid);
        assert_eq!(paid(&chain).await, total, "nothing is sent by a look");

        let hash = transaction(charged(&chain, &settler, &payment, charge).await);
        total += charge;
        assert_eq!(paid(&chain).await, total, "{scheme:?}");
        let sent = mined(&chain, hash).await;
        assert_eq!(sent["to"].as_str().unwrap().to_lowercase(), format!("{:x}", scheme.proxy()));
        let input = const_hex::decode(sent["input"].as_str().unwrap()).unwrap();
        assert!(PaymentTag::of(secret).is_in(&input), "the chain says for which quote");

        assert_eq!(verified(&settler, &payment).await, Validity::Used);
        assert_eq!(charged(&chain, &settler, &payment, charge).await, Settlement::Unknown(None));
    }
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (total, 4));
}

#[tokio::test]
async fn what_is_charged_is_no_more_than_was_allowed_and_no_less_than_something() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let none = TransactionRecorder::none();
    for (scheme, charge, reason) in [
        (PermitScheme::UpTo, MOST + 1, "invalid_upto_evm_payload_settlement_exceeds_amount"),
        (PermitScheme::UpTo, 0, "permit2_invalid_amount"),
        (PermitScheme::Exact, MOST + 1, "permit2_amount_mismatch"),
        (PermitScheme::Exact, MOST - 1, "permit2_amount_mismatch"),
        (PermitScheme::Exact, 0, "permit2_invalid_amount"),
    ] {
        let payment = payment(&chain, scheme, 1).await;
        let settlement = settler.settle_permit(&payment, units(charge), &none).await;
        assert_eq!(settlement, Settlement::Refused(word(reason)), "{scheme:?} {charge}");
    }
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (0, 0));
}

/// In the standard's order: where two things are wrong, the first is told.
#[tokio::test]
async fn what_was_not_offered_or_not_signed_is_refused() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let now = chain.timestamp().await.unwrap();
    let (other, payer) = (Address::new([9; 20]), key(&chain, 1));
    let [exact, up_to] = [PermitScheme::Exact, PermitScheme::UpTo].map(|scheme| {
        let permit = Permit::new(scheme, address(&payer), [1; 32]);
        permit.paying(SELLER, chain.usdc(), units(MOST)).by_facilitator(chain.accounts()[0].address())
    });
    let late = now.after(Duration::from_secs(600));
    let valid = |permit: Permit| permit.valid_between(ChainTime::from_unix(0), late);
    let mut elsewhere = valid(exact.clone());
    elsewhere.spender = PERMIT2;
    let table = [
        (elsewhere, "invalid_permit2_spender"),
        (valid(exact.clone()).paying(other, other, units(1)), "invalid_permit2_recipient_mismatch"),
        (valid(up_to.clone()).by_facilitator(address(&payer)), "upto_facilitator_mismatch"),
        (up_to.clone().paying(SELLER, chain.usdc(), units(1)).valid_between(now, now), "permit2_deadline_expired"),
        (exact.clone().paying(SELLER, chain.usdc(), units(1)).valid_between(late, late), "permit2_not_yet_valid"),
        (valid(up_to.clone()).paying(SELLER, chain.usdc(), units(MOST - 1)), "permit2_amount_mismatch"),
        (valid(exact.clone()).paying(SELLER, chain.usdc(), units(MOST + 1)), "permit2_amount_mismatch"),
        (valid(exact.clone()).paying(SELLER, other, units(MOST)), "permit2_token_mismatch"),
    ];
    let none = TransactionRecorder::none();
    for (permit, reason) in table {
        let payment = offered(&chain, signed_by(permit.clone(), &payer), chain.usdc());
        assert_eq!(verified(&settler, &payment).await, Validity::Refused(word(reason)), "{permit:?}");
        let settlement = while_mining(&chain, settler.settle_permit(&payment, units(MOST), &none)).await;
        assert!(matches!(settlement, Settlement::Refused(_)), "{reason}: {settlement:?}");
    }
    // Valid still, and not for long enough to be settled in time.
    let short = exact
        .clone()
        .valid_between(ChainTime::from_unix(0), chain.timestamp().await.unwrap().after(Duration::from_secs(4)));
    let short = offered(&chain, signed_by(short, &payer), chain.usdc());
    assert_eq!(verified(&settler, &short).await, Validity::Refused(word("permit2_deadline_expired")));
    // The offer is the seller's; the signature is for something else, or of another.
    for (signed, key) in [(valid(exact.clone()), 2), (valid(exact.clone()).paying(SELLER, chain.usdc(), units(1)), 1)] {
        let signature = signed_by(signed, &self::key(&chain, key)).signature;
        let payment = offered(&chain, SignedPermit::new(valid(exact.clone()), signature), chain.usdc());
        assert!(!settler.is_permit_signed_by_key(&payment));
        assert_eq!(verified(&settler, &payment).await, Validity::Refused(word("invalid_permit2_signature")));
    }
    let elsewhere = Asset::new(Network::BASE_SEPOLIA, chain.usdc(), 6, "USDC");
    let required = PaymentRequirements::new(&elsewhere, units(MOST), SELLER, 300).by_permit2();
    let payment = PermitPayment::new(signed_by(valid(exact), &payer), required);
    assert_eq!(verified(&settler, &payment).await, Validity::Refused(Reason::INVALID_NETWORK));
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (0, 0));
}

#[tokio::test]
async fn what_a_payer_withdraws_after_the_check_costs_it_nothing() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let payer = chain.accounts()[1].address();
    let payment = payment(&chain, PermitScheme::UpTo, 1).await;
    assert_eq!(verified(&settler, &payment).await, Validity::Valid);
    // The allowance.
    allow(&chain, units(MOST - 1)).await;
    let refused = |reason| Settlement::Refused(word(reason));
    assert_eq!(charged(&chain, &settler, &payment, MOST).await, refused("permit2_allowance_required"));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(verified(&settler, &payment).await, Validity::Refused(word("permit2_allowance_required")));
    allow(&chain, Amount::MAX).await;
    // The money.
    chain.fund(payer, units(MOST - 1)).await.unwrap();
    assert_eq!(charged(&chain, &settler, &payment, MOST).await, refused("permit2_insufficient_balance"));
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (0, 0), "nothing was sent");
    // The money, when the transaction waits already.
    chain.fund(payer, units(MOST)).await.unwrap();
    let task = tokio::spawn({
        let (settler, payment) = (settler.clone(), payment.clone());
        async move { settler.settle_permit(&payment, units(MOST), &TransactionRecorder::none()).await }
    });
    until_waiting(&chain, 1).await;
    chain.fund(payer, units(MOST - 1)).await.unwrap();
    let outcome = while_mining(&chain, task).await.unwrap();
    assert_eq!(outcome, Settlement::Refused(Reason::INVALID_TRANSACTION_STATE), "its transaction reverted");
    // A refusal uses no nonce.
    chain.fund(payer, units(MOST)).await.unwrap();
    transaction(charged(&chain, &settler, &payment, 7).await);
    assert_eq!(paid(&chain).await, 7);
}

/// The payer uses the nonce up: whether it paid is for the operator to find out, and it is never settled twice.
#[tokio::test]
async fn a_nonce_that_its_payer_used_up_pays_nothing() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, PermitScheme::UpTo, 1).await;
    assert_eq!(verified(&settler, &payment).await, Validity::Valid);
    let word = Word::new([&[0][..], &[1; 31]].concat().try_into().unwrap());
    let invalidate = contracts::calldata("invalidateUnorderedNonces(uint256,uint256)", &[word, Word::from(1 << 1)]);
    chain.send(chain.accounts()[1].address(), PERMIT2, &invalidate).await.unwrap();
    chain.mine(1).await.unwrap();
    assert_eq!(charged(&chain, &settler, &payment, MOST).await, Settlement::Unknown(None));
    assert_eq!(verified(&settler, &payment).await, Validity::Used);
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (0, 0));
}

#[tokio::test]
async fn twenty_at_once_with_one_nonce_are_one_transfer() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let none = TransactionRecorder::none();
    let same = payment(&chain, PermitScheme::UpTo, 1).await;
    let all = futures_util::future::join_all((0..20).map(|_| settler.settle_permit(&same, units(1_858), &none)));
    let outcomes = while_mining(&chain, all).await;
    let hash = transaction(outcomes[0].clone());
    assert!(outcomes.iter().all(|outcome| *outcome == Settlement::Settled(hash)), "{outcomes:?}");
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (1_858, 1));
    // Of different charges, and of two schemes, one is made.
    let [exact, up_to] = [payment(&chain, PermitScheme::Exact, 2).await, payment(&chain, PermitScheme::UpTo, 2).await];
    let charges = (0..20_u128).map(|n| match n % 4 {
        3 => settler.settle_permit(&exact, units(MOST), &none),
        _ => settler.settle_permit(&up_to, units(10 + n), &none),
    });
    let outcomes = while_mining(&chain, futures_util::future::join_all(charges)).await;
    let settled: Vec<_> = outcomes.iter().filter(|outcome| matches!(outcome, Settlement::Settled(_))).collect();
    assert_eq!(settled.len(), 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| !matches!(outcome, Settlement::Refused(_))), "{outcomes:?}");
    assert_eq!((paid(&chain).await, count_of(&chain, "pending").await), (1_858 + 10, 2));
}

/// After a crash the transaction of the record is the one that charges.
#[tokio::test]
async fn a_transaction_is_recorded_before_it_is_sent_and_charges_once_after_a_crash() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let payment = payment(&chain, PermitScheme::UpTo, 1).await;
    let refuses = TransactionRecorder::new(|_| async { false });
    assert_eq!(settler.settle_permit(&payment, units(5), &refuses).await, Settlement::Unknown(None));
    assert_eq!(count_of(&chain, "pending").await, 0);
    let (sender, mut recorded) = tokio::sync::mpsc::unbounded_channel();
    let recorder = TransactionRecorder::new(move |transaction| {
        let sent = sender.send(transaction);
        async move { sent.is_ok() }
    });
    let settling = tokio::spawn({
        let (settler, payment) = (settler.clone(), payment.clone());
        async move { settler.settle_permit(&payment, units(5), &recorder).await }
    });
    let hash = recorded.recv().await.unwrap();
    until_waiting(&chain, 1).await;
    settling.abort();
    // The next process, of the same account: the recorded transaction is mined, and the permit is used.
    let next = super::settler(&chain).await;
    chain.mine(1).await.unwrap();
    assert_eq!(mined(&chain, hash).await["hash"], hash.to_string());
    assert_eq!(charged(&chain, &next, &payment, 9).await, Settlement::Unknown(None), "never a second time");
    assert_eq!(paid(&chain).await, 5);
}

#[tokio::test]
async fn a_contract_account_pays_by_what_it_takes_for_a_signature() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let owner = key(&chain, 1);
    let wallet = chain.deploy(contracts::WALLET.creation, &[address(&owner).into()]).await.unwrap();
    chain.fund(wallet, units(MOST)).await.unwrap();
    chain.send(wallet, chain.usdc(), &contracts::approve(PERMIT2, Amount::MAX)).await.unwrap();
    chain.mine(1).await.unwrap();
    let permit = permit(&chain, wallet, PermitScheme::UpTo, 1).await;
    let by_thief = offered(&chain, signed_by(permit.clone(), &key(&chain, 2)), chain.usdc());
    assert_eq!(verified(&settler, &by_thief).await, Validity::Refused(word("invalid_permit2_signature")));
    let by_owner = offered(&chain, signed_by(permit, &owner), chain.usdc());
    assert!(!settler.is_permit_signed_by_key(&by_owner));
    assert_eq!(verified(&settler, &by_owner).await, Validity::Valid);
    transaction(charged(&chain, &settler, &by_owner, 9).await);
    assert_eq!(verified(&settler, &by_owner).await, Validity::Used);
    assert_eq!(
        verified(&settler, &by_thief).await,
        Validity::Refused(word("invalid_permit2_signature")),
        "used, but not said to a thief"
    );
    assert_eq!(paid(&chain).await, 9);
}

/// A payer without ether and without an allowance: both are signatures.
#[tokio::test]
async fn an_allowance_that_is_signed_is_sent_along() {
    let chain = with_permit2().await;
    let settler = settler(&chain).await;
    let token = chain.deploy(contracts::PERMIT_COIN.creation, &[]).await.unwrap();
    let payer = PrivateKeySigner::random();
    chain.send(chain.accounts()[8].address(), token, &contracts::mint(address(&payer), units(2 * MOST))).await.unwrap();
    chain.mine(1).await.unwrap();
    let of = async |scheme, nonce| {
        let mut permit = permit(&chain, address(&payer), scheme, nonce).await;
        permit.token = token;
        offered(&chain, signed_by(permit, &payer), token)
    };
    let mut total = 0;
    for (scheme, nonce, charge) in [(PermitScheme::UpTo, 1, 1_234), (PermitScheme::Exact, 2, MOST)] {
        let bare = of(scheme, nonce).await;
        assert_eq!(
            verified(&settler, &bare).await,
            Validity::Refused(word("permit2_allowance_required")),
            "{scheme:?}"
        );
        let allowance = allowance(&chain, token, &payer, &bare).await;
        for (change, reason) in [
            (|allowance: &mut Eip2612Permit| allowance.from = SELLER, "eip2612_from_mismatch"),
            (|allowance: &mut Eip2612Permit| allowance.asset = SELLER, "eip2612_asset_mismatch"),
            (|allowance: &mut Eip2612Permit| allowance.spender = SELLER, "eip2612_spender_not_permit2"),
            (|allowance: &mut Eip2612Permit| allowance.amount = units(1), "permit2_2612_amount_mismatch"),
            (|allowance: &mut Eip2612Permit| allowance.deadline = ChainTime::from_unix(1), "eip2612_deadline_expired"),
        ] as [(fn(&mut Eip2612Permit), &str); 5]
        {
            let mut changed = allowance.clone();
            change(&mut changed);
            let payment = bare.clone().with_allowance(Some(changed));
            assert_eq!(verified(&settler, &payment).await, Validity::Refused(word(reason)));
        }
        let mut forged = allowance.clone();
        forged.signature = PaymentSignature::new([7; 65]).unwrap();
        let forged = bare.clone().with_allowance(Some(forged));
        assert!(matches!(verified(&settler, &forged).await, Validity::Refused(_)));
        let payment = bare.with_allowance(Some(allowance));
        assert_eq!(verified(&settler, &payment).await, Validity::Valid, "{scheme:?}");
        transaction(charged(&chain, &settler, &payment, charge).await);
        total += charge;
        let balance = chain.call(token, &contracts::balance_of(SELLER)).await.unwrap();
        assert_eq!(balance, Word::from(total).as_bytes());
        // Nothing is left that another permit could use.
        let spent = contracts::approve(PERMIT2, Amount::ZERO);
        chain.fund(address(&payer), Amount::ZERO).await.unwrap();
        chain.send(address(&payer), token, &spent).await.unwrap();
        chain.mine(1).await.unwrap();
    }
}

/// What the payer signs to let Permit2 move what it pays, as the extension writes it.
async fn allowance(chain: &DevChain, token: Address, payer: &PrivateKeySigner, of: &PermitPayment) -> Eip2612Permit {
    let read = async |function, words: &[Word]| {
        Word::new(chain.call(token, &contracts::calldata(function, words)).await.unwrap().try_into().unwrap())
    };
    let separator = read("DOMAIN_SEPARATOR()", &[]).await;
    let nonce = read("nonces(address)", &[address(payer).into()]).await;
    let deadline = of.permit.permit.deadline.unix();
    let kind = keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
    let words = [
        Word::new(kind.0),
        address(payer).into(),
        PERMIT2.into(),
        units(MOST).into(),
        nonce,
        u128::from(deadline).into(),
    ];
    let message = keccak256(words.map(|word| *word.as_bytes()).concat());
    let digest = keccak256([&[0x19, 1][..], separator.as_bytes(), &message[..]].concat());
    let info = json!({
        "from": address(payer).to_string(), "asset": token.to_string(), "spender": PERMIT2.to_string(), "amount": MOST.to_string(),
        "nonce": Amount::from_be_bytes(*nonce.as_bytes()).to_string(), "deadline": deadline.to_string(), "version": "1",
        "signature": const_hex::encode_prefixed(payer.sign_hash_sync(&digest).unwrap().as_bytes()),
    });
    Extensions::new().with("eip2612GasSponsoring", info, None).eip2612_permit().unwrap().unwrap()
}

#[tokio::test]
async fn permits_are_offered_where_the_contracts_are() {
    let (with, without) = (with_permit2().await, quiet().await);
    let terms =
        async |chain: &DevChain, token, scheme| settler(chain).await.permit_terms(Network::BASE, token, scheme).await;
    let settles = with.accounts()[0].address();
    assert_eq!(terms(&with, with.usdc(), PermitScheme::Exact).await, Ok(Some(PermitTerms::default())));
    assert_eq!(terms(&with, with.usdc(), PermitScheme::UpTo).await, Ok(Some(PermitTerms::new([settles]))));
    assert_eq!(terms(&with, SELLER, PermitScheme::UpTo).await, Ok(None), "no contract");
    assert_eq!(terms(&without, without.usdc(), PermitScheme::UpTo).await, Ok(None));
    let wrong = SettleErrorKind::WrongChain { network: Network::BASE_SEPOLIA };
    let elsewhere = settler(&with).await.permit_terms(Network::BASE_SEPOLIA, with.usdc(), PermitScheme::UpTo).await;
    assert_eq!(elsewhere, Err(SettleError::new(wrong)));
    let payment = payment(&without, PermitScheme::Exact, 1).await;
    let refused = Validity::Refused(word("permit2_proxy_not_deployed"));
    assert_eq!(verified(&settler(&without).await, &payment).await, refused);
}

/// The answer is made by then: what little it costs is settled, though its gas costs more.
#[tokio::test]
async fn the_share_of_gas_is_measured_by_what_was_allowed() {
    let chain = with_permit2().await;
    let priced = async |units: u128| {
        let builder =
            builder(&chain).endpoint(chain.rpc_url()).coin_price(chain.usdc(), Amount::from_base_units(units));
        builder.connect().await.unwrap()
    };
    let payment = payment(&chain, PermitScheme::UpTo, 1).await;
    let dear = priced(u128::MAX / 2).await;
    let refused = Err(SettleError::new(SettleErrorKind::GasAbovePrice));
    assert_eq!(dear.verify_permit(&payment).await, refused, "before there is an answer");
    let settler = priced(100_000_000).await;
    assert_eq!(verified(&settler, &payment).await, Validity::Valid);
    transaction(charged(&chain, &settler, &payment, 1).await);
    assert_eq!(paid(&chain).await, 1);
}
