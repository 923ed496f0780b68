//! `OnNetwork`: a value of a flag that belongs to one network.

use std::{convert::Infallible, str::FromStr};

use tower_x402::protocol::Network;

/// A value such as `84532=https://sepolia.base.org`, for that network; without a number, it is for the first network.
#[derive(Clone, Debug)]
pub(crate) struct OnNetwork<T> {
    pub(crate) network: Option<Network>,
    pub(crate) value: T,
}

impl<T> OnNetwork<T> {
    /// Returns the value for the first network.
    pub(crate) const fn first(value: T) -> Self {
        Self { network: None, value }
    }
}

impl<T: FromStr> FromStr for OnNetwork<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        let split = text.split_once('=').and_then(|(id, value)| Some((id.parse().ok()?, value)));
        Ok(match split {
            Some((id, value)) => Self { network: Some(Network::eip155(id)), value: value.parse()? },
            None => Self::first(text.parse()?),
        })
    }
}

impl FromStr for super::secret::Secret {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.to_owned().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_the_value_is_its_network() {
        let read = |text: &str| text.parse::<OnNetwork<String>>().unwrap();
        let named = read("84532=https://node.example/?key=1");
        assert_eq!((named.network, &*named.value), (Some(Network::BASE_SEPOLIA), "https://node.example/?key=1"));
        for text in ["https://node.example/?1=2", "https://node.example", "=x", "-1=x"] {
            assert_eq!((read(text).network, &*read(text).value), (None, text));
        }
    }
}
