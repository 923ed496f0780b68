//! From quote to answer over a real chain (`anvil`) and real HTTP: what a payer gets for money, and what nobody gets without.

#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod app;
mod buying;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod datasets;
mod depth;
mod market;
mod odd_payments;
mod reorganisation;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod replicas;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod restarts;
mod shop;
mod spent;
mod start;
mod succession;
mod time;
mod wallet;
