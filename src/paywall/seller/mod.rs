//! What the seller set: the merchant's backends, its routes, prices and rules.

pub(crate) mod attempts;
pub(crate) mod bypass;
pub(crate) mod catalog;
pub(crate) mod chain;
pub(crate) mod consumption;
pub(crate) mod demands;
pub(crate) mod inner;

pub(crate) mod json_rpc;
pub(crate) mod mpp;
pub(crate) mod nested;
pub(crate) mod pass;
pub(crate) mod payment_identifier;
pub(crate) mod permits;
pub(crate) mod pricing;
pub(crate) mod promises;
pub(crate) mod quote_page;
pub(crate) mod redelivery;
pub(crate) mod route;
pub(crate) mod sold_hook;
pub(crate) mod standard;
pub(crate) mod start;
pub(crate) mod text;
pub(crate) mod time_limits;
pub(crate) mod unbound;
pub(crate) mod upkeep;
pub(crate) mod view;
