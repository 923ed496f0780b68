//! One file per contender.

mod bare;
mod mpp;
mod ours;
mod r402;
mod x402_axum;
mod x402_kit;

use tokio::runtime::Runtime;

use crate::Case;

/// This crate, which ratios refer to.
pub const OURS: &str = ours::NAME;

/// Returns all contenders, path by path, in the order of the table.
#[must_use]
pub fn all(runtime: &Runtime) -> Vec<Case> {
    let mut cases =
        [bare::cases(), ours::cases(runtime), x402_axum::cases(), r402::cases(), x402_kit::cases(), mpp::cases()]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>();
    cases.sort_by_key(|case| crate::Path::ALL.iter().position(|path| *path == case.path));
    cases
}
