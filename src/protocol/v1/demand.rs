//! A seller's demand, converted by a payer into the terms of version 2.

use super::{networks::named, payload::PaymentPayload};
use crate::protocol::{
    Address, Amount, Asset, Network,
    v2::{InvalidMessage, JsonObject, PaymentRequirements, ResourceInfo, SignedAuthorization, object::Object, values},
};

/// One way to pay: the scheme `exact` on an EVM chain that has a name in version 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) requirements: PaymentRequirements,
    pub(crate) resource: Option<ResourceInfo>,
}

/// Reads a 402's body. Other schemes and chains are left out; `None` if it is not a demand of version 1.
///
/// # Errors
/// Returns [`InvalidMessage`] if a known way to pay violates the standard's form.
pub(crate) fn demands(body: &[u8]) -> Result<Option<Vec<Demand>>, InvalidMessage> {
    let Some(object) = std::str::from_utf8(body).ok().and_then(Object::parse) else { return Ok(None) };
    if object.json::<u64>("x402Version").ok().flatten() != Some(1) {
        return Ok(None);
    }
    let read = object.objects("accepts", Demand::read)?;
    Ok(Some(read.into_iter().flatten().collect()))
}

impl Demand {
    fn read(object: &Object<'_>) -> Result<Option<Self>, InvalidMessage> {
        let scheme = object.required("scheme", |scheme| Some(scheme.to_owned()))?;
        let chain = object.required("network", |chain| Some(chain.to_owned()))?;
        let Some(network) = named(&chain) else { return Ok(None) };
        if scheme != "exact" {
            return Ok(None);
        }
        let amount = object.required("maxAmountRequired", values::amount)?;
        let contract = object.required("asset", values::address)?;
        let pay_to = object.required("payTo", values::address)?;
        let seconds = object.json("maxTimeoutSeconds")?.ok_or(InvalidMessage::member("maxTimeoutSeconds"))?;
        let mut requirements = requirements(network, contract, amount, pay_to, seconds);
        requirements.extra = JsonObject::of(object, "extra")?;
        let resource = object.string("resource")?.map(ResourceInfo::new);
        let described = |resource: ResourceInfo| match object.string("description") {
            Ok(Some(description)) => resource.with_description(description),
            _ => resource,
        };
        Ok(Some(Self { requirements, resource: resource.map(described) }))
    }

    /// Returns the payment as JSON, which `X-PAYMENT` carries as base64.
    pub(crate) fn payment(&self, signed: &SignedAuthorization) -> String {
        PaymentPayload::new(self.requirements.network, signed.clone()).to_json()
    }
}

fn requirements(
    network: Network,
    contract: Address,
    amount: Amount,
    pay_to: Address,
    seconds: u64,
) -> PaymentRequirements {
    // Decimals and symbol are not part of the message.
    PaymentRequirements::new(&Asset::new(network, contract, 0, ""), amount, pay_to, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::v2::Authorization;

    /// Recorded from the official server of version 1.
    const BODY: &str = r#"{"x402Version":1,"error":"X-PAYMENT header is required","accepts":[
        {"scheme":"exact","network":"solana","maxAmountRequired":"1","asset":"EPjF","payTo":"CmGg","maxTimeoutSeconds":60},
        {"scheme":"upto","network":"base","maxAmountRequired":"1","asset":"0x","payTo":"0x","maxTimeoutSeconds":60},
        {"scheme":"exact","network":"base-sepolia","maxAmountRequired":"10000","resource":"https://shop.example/weather",
         "description":"Weather","mimeType":"","payTo":"0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC","maxTimeoutSeconds":60,
         "asset":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","extra":{"name":"USDC","version":"2"}}]}"#;

    #[test]
    fn a_body_is_read_into_the_terms_of_the_second_version() {
        let [demand] = &demands(BODY.as_bytes()).unwrap().unwrap()[..] else { panic!() };
        let PaymentRequirements { network, amount, extra, max_timeout_seconds, .. } = &demand.requirements;
        assert_eq!((*network, *max_timeout_seconds), (Network::BASE_SEPOLIA, 60));
        assert_eq!((*amount, extra.text("name")), (Amount::from_base_units(10_000), Some("USDC")));
        assert_eq!(demand.resource.as_ref().unwrap().description.as_deref(), Some("Weather"));
    }

    #[test]
    fn what_is_no_demand_is_none_and_what_is_a_broken_one_an_error() {
        for other in ["", "[]", "{}", r#"{"x402Version":2,"accepts":[]}"#, r#"{"x402Version":"1","accepts":[]}"#] {
            assert_eq!(demands(other.as_bytes()), Ok(None), "{other}");
        }
        for (good, bad) in [
            (r#":"10000""#, ":10000"),
            (r#":"10000""#, r#":"1e4""#),
            ("0x3C44", "0X3C44"),
            ("0x036C", "0x036"),
            (
                r#""maxTimeoutSeconds":60,
"#,
                "\n",
            ),
        ] {
            let broken = BODY.replace(good, bad);
            assert_ne!(broken, BODY, "{good}");
            assert!(demands(broken.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_payment_repeats_the_chain_by_its_name() {
        let demand = demands(BODY.as_bytes()).unwrap().unwrap().remove(0);
        let authorization = Authorization::new(Address::new([0x11; 20]), [0x42; 32]);
        let signed = SignedAuthorization::new(authorization, "0xabcd".parse().unwrap());
        let payment: serde_json::Value = serde_json::from_str(&demand.payment(&signed)).unwrap();
        assert_eq!((&payment["x402Version"], &payment["network"]), (&1.into(), &"base-sepolia".into()));
        assert_eq!(payment["scheme"], "exact");
        assert_eq!(payment["payload"]["signature"], "0xabcd");
        assert_eq!(payment["payload"]["authorization"]["validBefore"], "0");
    }
}
