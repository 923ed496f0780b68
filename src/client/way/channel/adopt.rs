//! Adopts a channel that the journal has lost. The earlier signed totals are unknown, so only a voucher of this payer
//! explains a higher count.

use http::{Request, Uri};

use crate::{
    client::{
        Body, ChannelFunds, ChannelPhase, ChannelRecord, Failure, PayerError, flow::from_quote, http::ReplayRequest,
        inner::ClientInner,
    },
    protocol::{Network, channel::ChannelConfig},
};

const OTHERS: PayerError = PayerError::Refused("the channel is not one of this payer's own, in a token of its budget");
const NOWHERE: PayerError = PayerError::Refused("the address where the channel's seller sells names no host");

/// Records a channel that the chain has. If the journal has it, it stays unchanged.
pub(crate) async fn adopt(
    inner: &ClientInner,
    network: Network,
    config: ChannelConfig,
    seller: Uri,
) -> Result<(), Failure> {
    let id = config.id(network);
    if inner.registry.channel((network, id)).is_some() {
        return Ok(());
    }
    let asset = inner.budget.asset(network, config.token).ok_or(OTHERS)?;
    let signer = inner.channel_signer()?;
    let payer = signer.channel_account(asset).await?.ok_or(OTHERS)?;
    if (config.payer, config.payer_authorizer) != (payer, payer) {
        return Err(OTHERS.into());
    }
    let mut funds = signer.channel_funds(network, id).await?;
    if funds.balance.is_zero() {
        return Err(Failure::NoChannel { channel: id });
    }
    // Signatures build on this amount, so no single node may raise it. If it is too low, the seller's correction
    // repairs it.
    funds.claimed = funds.claimed.min(signer.settled_funds(network, id).await?.claimed).min(funds.balance);
    let request = Request::get(seller).body(Body::empty()).map_err(|_| NOWHERE)?;
    let request = ReplayRequest::new(request);
    if request.identity.host.is_empty() {
        return Err(NOWHERE.into());
    }
    let place = request.place();
    let of = (network, config.receiver, asset.decimals());
    let shell = from_quote::channel_of(&request.identity, of, inner.now());
    inner.registry.adopt_channel(shell, adopted(config, &funds, place)).await.map_err(Failure::Journal)
}

/// Returns the record that the chain alone supports.
fn adopted(config: ChannelConfig, funds: &ChannelFunds, (url, method): (String, String)) -> ChannelRecord {
    let phase = match funds.withdrawing {
        Some((_, since)) => {
            let delay = std::time::Duration::from_secs(config.withdraw_delay.into());
            ChannelPhase::Withdrawing(since.after(delay))
        }
        None => ChannelPhase::Open,
    };
    let (deposited, signed, charged) = (funds.balance, funds.claimed, funds.claimed);
    ChannelRecord { url, method, deposited, signed, charged, phase, is_adopted: true, ..ChannelRecord::new(config) }
}
