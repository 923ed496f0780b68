//! EIP-3009: a transfer that its payer signs and anyone may send.

use alloy::{
    primitives::{Signature, keccak256},
    signers::{SignerSync as _, local::PrivateKeySigner},
};
use tower_x402::{
    protocol::{Address, Amount},
    testing::{
        DevChain,
        contracts::{self, Word},
    },
};

/// What the payer signs so that anyone may send this transfer of USDC, as the call that does.
pub fn authorization(
    chain: &DevChain,
    payer: &PrivateKeySigner,
    to: Address,
    amount: Amount,
    nonce: [u8; 32],
) -> Vec<u8> {
    let from = Word::from(Address::new(payer.address().into_array()));
    let (after, before) = (Word::from(0), Word::from(u128::MAX));
    let terms = [from, to.into(), amount.into(), after, before, Word::new(nonce)];
    call(&terms, &signature(chain, payer, &terms))
}

/// The call that makes this transfer: payer, recipient, amount, the two ends of its time, nonce.
pub fn call(terms: &[Word; 6], signature: &Signature) -> Vec<u8> {
    let scalars = [signature.r(), signature.s()].map(|scalar| Word::new(scalar.to_be_bytes()));
    let signature = [Word::from(27 + u128::from(signature.v())), scalars[0], scalars[1]];
    let function = "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
    contracts::calldata(function, &[&terms[..], &signature].concat())
}

/// The payer's signature of these terms.
pub fn signature(chain: &DevChain, payer: &PrivateKeySigner, terms: &[Word; 6]) -> Signature {
    let words = |words: &[Word]| keccak256(words.iter().map(|word| *word.as_bytes()).collect::<Vec<_>>().concat());
    let text = |text: &str| Word::new(keccak256(text).0);
    let domain = words(&[
        text("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
        text("USD Coin"),
        text("2"),
        u128::from(chain.chain_id()).into(),
        chain.usdc().into(),
    ]);
    let kind = "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)";
    let message = words(&[&[text(kind)][..], terms].concat());
    payer.sign_hash_sync(&keccak256([&[0x19, 1][..], &domain[..], &message[..]].concat())).unwrap()
}
