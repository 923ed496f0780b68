//! From quote to answer over a real chain (`anvil`) and real HTTP: what a payer gets for money, and what nobody gets without.

mod anew;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub mod app;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite", feature = "metrics"))]
mod booking;
mod buying;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite", feature = "metrics"))]
mod counted;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub mod datasets;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod demo;
mod depth;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod ending;
#[cfg(feature = "sqlite")]
mod examples_served;
mod late;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod lost_answers;
pub mod market;
#[cfg(all(feature = "wallet", feature = "postgres", feature = "redis", feature = "sqlite"))]
mod mixed_doors;
mod node;
mod odd_payments;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod operating;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod redeeming;
mod reorganisation;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod replicas;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod restarts;
#[cfg(all(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod restored;
pub mod shop;
mod spent;
mod start;
mod succession;
mod theft;
mod time;
#[cfg(all(unix, feature = "postgres", feature = "redis", feature = "sqlite"))]
mod unredeemed;
mod wallet;
