//! The page in a real browser: headless Chromium, and a wallet in it that signs on a development chain.

mod attacks;
mod faults;
mod networks;
mod passes;
mod paying;
mod plain;
mod reading;
mod shop;
mod shopping;
mod visit;
