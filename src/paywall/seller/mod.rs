//! Who sells: the merchant, its routes and its prices.

pub(crate) mod builder;
pub(crate) mod bypass;
pub(crate) mod catalog;
pub(crate) mod inner;
pub(crate) mod merchant;
pub(crate) mod nested;
pub(crate) mod pricing;
pub(crate) mod replay;
pub(crate) mod route;
pub(crate) mod standard;
pub(crate) mod start;
pub(crate) mod text;
pub(crate) mod time_limits;
pub(crate) mod unread;
pub(crate) mod unredeemed;
