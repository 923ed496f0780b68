//! Transfers from permits are no ordinary transfers: each is sold once, under the permit's id.

use super::*;
use crate::protocol::permit2::{EXACT_PROXY, Permit, PermitScheme, UPTO_PROXY};

const OTHER: Address = Address::new([0xee; 20]);
const RELAY: Address = Address::new([0xdd; 20]);
const NONCE: [u8; 32] = [0x4e; 32];

/// A proxy's log after its transfer.
fn settled(position: u32, proxy: Address) -> Log {
    let topic = SETTLED_TOPICS[usize::from(proxy == UPTO_PROXY)];
    Log { emitter: proxy, topics: vec![topic], data: Vec::new(), ..transfer(position, 0) }
}

fn of(position: u32, payer: Address) -> Log {
    Log { topics: vec![TRANSFER_TOPIC, topic(payer), topic(RECIPIENT)], ..transfer(position, PRICE) }
}

/// The permits of the transfers of a transaction that passes this permit to a proxy.
fn permits(logs: Vec<Log>, used: Option<UsedPermit>) -> Vec<Option<ByPermit>> {
    let sent = Transaction { sender: RELAY, call_data: None, permit: used };
    let record = TxRecord { receipt: receipt(logs), transaction: sent };
    match judge(TX, &record, Some(&block()), &tip(), &terms(), &policy()) {
        Verdict::Paid { transfers, .. } => transfers.into_iter().map(|transfer| transfer.binding.permit()).collect(),
        other => panic!("{other:?}"),
    }
}

/// The permit of this payer in a call.
fn used_by(owner: Address) -> UsedPermit {
    UsedPermit::of(&Permit::new(PermitScheme::Exact, owner, NONCE))
}

#[test]
fn a_transfer_made_from_a_permit_is_no_ordinary_one() {
    let (used, told) = (Some(used_by(PAYER)), Some(ByPermit::Nonce(NONCE)));
    let untold = Some(ByPermit::Untold);
    for proxy in [EXACT_PROXY, UPTO_PROXY] {
        assert_eq!(permits(vec![of(0, PAYER), settled(1, proxy)], used), [told]);
        // By another contract, or with another payer's permit.
        for others in [None, Some(used_by(OTHER))] {
            assert_eq!(permits(vec![of(0, PAYER), settled(1, proxy)], others), [untold]);
        }
        // Another contract's log, and a proxy's log in front.
        assert_eq!(permits(vec![of(0, PAYER), settled(1, OTHER)], used), [None]);
        assert_eq!(permits(vec![settled(0, proxy), of(1, PAYER)], used), [None]);
        let another = Log { topics: vec![AUTHORIZATION_USED_TOPIC], ..settled(1, proxy) };
        assert_eq!(permits(vec![of(0, PAYER), another], used), [None]);
        // In a bundle, the transfers of other payers stay ordinary.
        let bundle = vec![of(0, OTHER), of(1, PAYER), settled(2, proxy), of(3, PAYER)];
        assert_eq!(permits(bundle, used), [None, told, None]);
        let two = vec![of(0, OTHER), settled(1, proxy), of(2, PAYER), settled(3, UPTO_PROXY), of(4, OTHER)];
        assert_eq!(permits(two, used), [untold, told, None]);
        // After logs that were left out, and with a fee.
        let mut fee = of(9, PAYER);
        fee.topics[2] = topic(OTHER);
        assert_eq!(permits(vec![of(4, OTHER), of(7, PAYER), fee, settled(12, proxy)], used), [None, told]);
    }
}

/// A transfer from an authorization has its own id, whatever else its payer does in the transaction.
#[test]
fn a_transfer_made_from_an_authorization_stays_one() {
    let used =
        Log { topics: vec![AUTHORIZATION_USED_TOPIC, topic(PAYER), [7; 32]], data: Vec::new(), ..transfer(0, 0) };
    let logs = vec![used, of(1, PAYER), of(2, PAYER), settled(3, EXACT_PROXY)];
    assert_eq!(permits(logs, None), [None, Some(ByPermit::Untold)]);
}
