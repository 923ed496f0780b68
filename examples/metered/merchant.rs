//! The merchant that the flags describe.

use std::time::Duration;

use tower_x402::{
    ChannelPolicy, Merchant, MerchantBuilder,
    ledger::AnyLedger,
    protocol::{Network, SealingKeys},
    settle::{ChannelSettings, FacilitatorSettler, WalletSettler},
    verify::EvmVerifier,
};

use super::{Failure, args::Args};

/// How long a dead process keeps its purchases and payments from the others.
const LEASE: Duration = Duration::from_secs(30);

pub(crate) async fn merchant(args: &Args) -> Result<Merchant, Failure> {
    let builder = Merchant::builder(args.recipient)
        .verifier(EvmVerifier::connect(args.rpc_url.iter().map(String::as_str)).await?)
        .ledger(AnyLedger::open(&args.ledger).await?)
        .lease(LEASE)
        .sealing_keys(SealingKeys::parse(&args.sealing_key)?);
    Ok(settled_by(builder, args).await?.build().await?)
}

/// Adds the settler that the flags name.
async fn settled_by(builder: MerchantBuilder, args: &Args) -> Result<MerchantBuilder, Failure> {
    if let Some(url) = &args.settler.facilitator {
        let facilitator = FacilitatorSettler::builder().url(url);
        if !args.channels {
            return Ok(builder.permit_settler(facilitator.build()?));
        }
        let channels = ChannelSettings::new(Network::BASE).endpoints(args.rpc_url.clone());
        let channels = match &args.receiver_authorizer_key_file {
            Some(file) => channels.receiver_authorizer_key_file(file),
            None => channels,
        };
        let facilitator = facilitator.channels(channels).build()?;
        return Ok(builder.permit_settler(facilitator.clone()).channel_settler(facilitator));
    }
    let file = args.settler.settle_key_file.as_ref().ok_or("name a --settle-key-file or a --facilitator")?;
    let wallet = WalletSettler::builder().key_file(file).endpoints(args.rpc_url.clone());
    let wallet = match &args.receiver_authorizer_key_file {
        Some(file) => wallet.receiver_authorizer_key_file(file),
        None => wallet,
    };
    let wallet = wallet.connect().await?;
    let builder = builder.permit_settler(wallet.clone());
    Ok(if args.channels { builder.channel_settler(wallet).channel_policy(ChannelPolicy::new()) } else { builder })
}
