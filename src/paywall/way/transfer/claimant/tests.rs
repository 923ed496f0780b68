use crate::{
    paywall::way::transfer::claimant::*,
    protocol::{Amount, Binding, Network, TxHash},
};

const PAID: u64 = 1_000;
const PAYER: Address = Address::new([1; 20]);
const OTHER: Address = Address::new([2; 20]);
const HOLD: UnboundPolicy = UnboundPolicy { hold: Duration::from_secs(5), refuse: false };
const NO_HOLD: UnboundPolicy = UnboundPolicy { hold: Duration::ZERO, refuse: false };
const REQUIRED: UnboundPolicy = UnboundPolicy { hold: Duration::from_secs(5), refuse: true };

fn intent() -> IntentId {
    IntentId::new("the-intent-of-the-payer").unwrap()
}

fn transfer(position: u32, payer: Address, binding: Binding) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([9; 32]), position)
        .with_payer(payer)
        .with_amount(Amount::from_base_units(490_000))
        .with_block(1, ChainTime::from_unix(PAID))
        .with_binding(binding)
}

fn tagged(secret: &str) -> Binding {
    Binding::none().with_call_data([&[0; 68][..], &PaymentTag::of(secret).to_call_data()].concat())
}

fn by_nonce(secret: &str) -> Binding {
    Binding::none().with_nonce(*PaymentTag::of(secret).as_bytes())
}

/// The positions that may be claimed, with their proof, in the order in which they are tried; and why the others may not be claimed.
type Outcome = Result<(Vec<(u32, ProvedBy)>, Option<NotClaimable>), NotClaimable>;

fn claim(
    (secret, signer): (Option<&str>, Option<Address>),
    transfers: Vec<Transfer>,
    head: u64,
    policy: UnboundPolicy,
) -> Outcome {
    let (intent, secret) = (intent(), secret.map(|secret| secret.parse().unwrap()));
    let claimant = Claimant { intent: &intent, secret: secret.as_ref(), signer, challenges: None };
    let claimable = claimant.claimable(transfers, ChainTime::from_unix(head), policy)?;
    let others = claimable.others;
    let (claim, proofs) =
        claimable.add_to(crate::ledger::Claim::builder("r", crate::protocol::IntentKey::new([0; 16])));
    let claim = claim.build();
    let tried = claim.payments().iter().map(|transfer| (transfer.position().unwrap(), proofs.of(transfer.id())));
    Ok((tried.collect(), others))
}

#[test]
fn who_shows_the_secret_or_signs_gets_the_transfer_and_nobody_else() {
    use ProvedBy::{Nonce, Signature, Tag};
    let other_secret = (Some("another-secret-of-16"), Some(OTHER));
    for (binding, secret, proof) in [
        (tagged("the-intent-of-the-payer"), None, Tag),
        (tagged("a-secret-of-the-payer"), Some("a-secret-of-the-payer"), Tag),
        (by_nonce("the-intent-of-the-payer"), None, Nonce),
        (by_nonce("a-secret-of-the-payer"), Some("a-secret-of-the-payer"), Nonce),
    ] {
        for policy in [HOLD, NO_HOLD, REQUIRED] {
            for head in [PAID, PAID + 4, PAID + 5, PAID + 86_400] {
                let paid = || vec![transfer(0, PAYER, binding.clone())];
                assert_eq!(claim((secret, None), paid(), head, policy), Ok((vec![(0, proof)], None)));
                assert_eq!(claim((None, Some(PAYER)), paid(), head, policy), Ok((vec![(0, Signature)], None)));
                // A client without the intent is refused earlier; the secret tells the others apart.
                let refused = if policy.refuse { NotClaimable::ProofRequired } else { NotClaimable::Bound };
                if secret.is_some() {
                    assert_eq!(claim(other_secret, paid(), head, policy), Err(refused));
                    assert_eq!(claim((None, None), paid(), head, policy), Err(refused));
                }
            }
        }
    }
}

#[test]
fn a_secret_is_shown_beside_the_intent_and_not_in_its_place() {
    let intent = "the-intent-of-the-payer";
    for (binding, proof) in [(tagged(intent), ProvedBy::Tag), (by_nonce(intent), ProvedBy::Nonce)] {
        let paid = vec![transfer(0, PAYER, binding)];
        assert_eq!(claim((Some("another-secret-of-16"), None), paid, PAID, HOLD), Ok((vec![(0, proof)], None)));
    }
}

#[test]
fn an_unbound_transfer_is_held_but_not_from_its_payer() {
    let paid = || vec![transfer(0, PAYER, Binding::none())];
    let signed = (None, Some(PAYER));
    for (head, left) in [(0, 1_005), (PAID, 5), (PAID + 4, 1)] {
        let held = Err(NotClaimable::Held(Duration::from_secs(left)));
        assert_eq!(claim((None, None), paid(), head, HOLD), held);
        assert_eq!(claim((Some("a-secret-of-16-bytes"), Some(OTHER)), paid(), head, HOLD), held);
        assert_eq!(claim(signed, paid(), head, HOLD), Ok((vec![(0, ProvedBy::Signature)], None)));
    }
    let open = Ok((vec![(0, ProvedBy::Nothing)], None));
    assert_eq!(claim((None, None), paid(), PAID + 5, HOLD), open);
    assert_eq!(claim((None, None), paid(), PAID, NO_HOLD), open);
    for head in [PAID, PAID + 86_400] {
        assert_eq!(claim((None, None), paid(), head, REQUIRED), Err(NotClaimable::ProofRequired));
        assert_eq!(claim(signed, paid(), head, REQUIRED), Ok((vec![(0, ProvedBy::Signature)], None)));
    }
}

#[test]
fn of_many_the_claimants_own_come_first_and_then_anyones() {
    let bundle = || {
        let cheap = |transfer: Transfer, units| transfer.with_amount(Amount::from_base_units(units));
        vec![
            cheap(transfer(0, OTHER, Binding::none()), 1),
            cheap(transfer(1, PAYER, tagged("the-intent-of-the-payer")), 9),
            cheap(transfer(2, PAYER, by_nonce("the-intent-of-the-payer")), 8),
            cheap(transfer(3, PAYER, tagged("some-other-secret")), 2),
            cheap(transfer(4, OTHER, Binding::none()), 3),
        ]
    };
    use ProvedBy::{Nonce, Nothing, Signature, Tag};
    let late = PAID + 5;
    assert_eq!(
        claim((None, None), bundle(), late, HOLD),
        Ok((vec![(2, Nonce), (1, Tag), (0, Nothing), (4, Nothing)], Some(NotClaimable::Bound)))
    );
    let held = NotClaimable::Held(Duration::from_secs(5));
    assert_eq!(claim((None, None), bundle(), PAID, HOLD), Ok((vec![(2, Nonce), (1, Tag)], Some(held))));
    let required = Some(NotClaimable::ProofRequired);
    assert_eq!(claim((None, None), bundle(), late, REQUIRED), Ok((vec![(2, Nonce), (1, Tag)], required)));
    let all_his = Ok((vec![(3, Signature), (2, Signature), (1, Signature), (0, Nothing), (4, Nothing)], None));
    assert_eq!(claim((None, Some(PAYER)), bundle(), late, HOLD), all_his);
    // Waiting does not help with a transfer that is bound to others; with a held one it does.
    let rest = || bundle().into_iter().filter(|transfer| [0, 3].contains(&transfer.position)).collect();
    assert_eq!(claim((None, None), rest(), PAID, HOLD), Err(held));
}

#[test]
fn of_several_tags_in_one_input_any_that_matches_counts() {
    let two = [
        &[0; 68][..],
        &PaymentTag::of("first-of-two-tags").to_call_data(),
        &PaymentTag::of("second-of-two-tags").to_call_data(),
    ];
    for secret in ["first-of-two-tags", "second-of-two-tags"] {
        let paid = vec![transfer(0, PAYER, Binding::none().with_call_data(two.concat()))];
        assert_eq!(claim((Some(secret), None), paid, PAID, HOLD), Ok((vec![(0, ProvedBy::Tag)], None)));
    }
}

/// The payer of one transaction with many transfers would otherwise buy seconds of the seller's time with each request.
#[test]
fn call_data_is_looked_through_once_however_many_transfers_share_it() {
    let shared = Binding::none().with_call_data(b"x402".repeat(32 * 1024));
    let others = Binding::none().with_nonce([7; 32]);
    let paid = |position: u32| {
        [transfer(2 * position, PAYER, shared.clone()), transfer(2 * position + 1, OTHER, others.clone())]
    };
    let paid = (0..4_000).flat_map(paid).collect();
    let begun = std::time::Instant::now();
    assert_eq!(claim((Some("a-secret-of-the-payer"), None), paid, PAID, HOLD), Err(NotClaimable::Bound));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn a_claimant_stands_back_where_another_payer_waits_and_keeps_its_own() {
    let stand_back = |signer, awaited: &[u32]| {
        let transfers = vec![transfer(0, PAYER, Binding::none()), transfer(1, OTHER, Binding::none())];
        let claimant = Claimant { intent: &intent(), secret: None, signer, challenges: None };
        let claimable = claimant.claimable(transfers, ChainTime::from_unix(PAID), NO_HOLD).unwrap();
        let is_awaited = |payment| {
            awaited.iter().any(|position| transfer(*position, PAYER, Binding::none()).payment_id() == payment)
        };
        let claimable = claimable.stand_back(is_awaited)?;
        let position = |transfer: &Transfer| transfer.position;
        Ok((
            claimable.proven.iter().map(|(own, _)| position(own)).collect(),
            claimable.unbound.iter().map(position).collect(),
            claimable.others,
        ))
    };
    let awaited = Some(NotClaimable::Awaited);
    assert_eq!(stand_back(None, &[]), Ok((vec![], vec![0, 1], None)));
    assert_eq!(stand_back(None, &[0]), Ok((vec![], vec![1], awaited)));
    assert_eq!(stand_back(None, &[0, 1]), Err(NotClaimable::Awaited));
    assert_eq!(stand_back(Some(PAYER), &[0, 1]), Ok((vec![0], vec![], awaited)), "its own stays");
}

/// The payment of one sale must not buy another: without the permit's nonce, nothing shows whether it was one.
#[test]
fn a_transfer_by_a_permit_is_claimed_under_its_name_and_by_a_signature_alone() {
    let told = || Binding::none().with_permit(ByPermit::Nonce([7; 32]));
    let untold = || Binding::none().with_permit(ByPermit::Untold);
    let paid = transfer(0, PAYER, told());
    assert_eq!(paid.payment_id(), PaymentId::of_permit(Network::BASE, PAYER, [7; 32]));
    for signer in [None, Some(OTHER)] {
        assert_eq!(claim((None, signer), vec![paid.clone()], PAID, HOLD), Err(NotClaimable::Bound));
    }
    assert_eq!(claim((None, Some(PAYER)), vec![paid], PAID, HOLD), Ok((vec![(0, ProvedBy::Signature)], None)));
    for signer in [None, Some(PAYER)] {
        let paid = vec![transfer(0, PAYER, untold())];
        assert_eq!(claim((None, signer), paid, PAID, HOLD), Err(NotClaimable::Bound));
    }
    let beside = vec![transfer(0, PAYER, untold()), transfer(1, PAYER, Binding::none())];
    let bound = Some(NotClaimable::Bound);
    assert_eq!(claim((None, Some(PAYER)), beside, PAID, HOLD), Ok((vec![(1, ProvedBy::Signature)], bound)));
}
