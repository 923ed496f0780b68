//! The scripts: one for each question, and what it may do on a server that is out of memory.

use ::redis as driver;
use driver::Script;

/// `#!lua` makes the server refuse a script before it starts, never half-way: out of memory, disk or replicas.
/// `allow-oom` is for what must go on when memory is short: a sale that was made has to be written down. Its answer need not be
/// kept then: `keep` is refused, and `commit` asked instead.
macro_rules! script {
    ($flags:literal, $($part:literal),+) => {
        Script::new(concat!("#!lua", $flags, "\n", include_str!("common.lua"), $(include_str!($part)),+))
    };
}

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) begin: Script,
    pub(super) mark: Script,
    pub(super) reserve: Script,
    pub(super) renew: Script,
    pub(super) commit: Script,
    /// The commit, with an answer to keep.
    pub(super) keep: Script,
    pub(super) release: Script,
    pub(super) consumed: Script,
    pub(super) health: Script,
    pub(super) counts: Script,
    pub(super) sweep: Script,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            begin: script!("", "begin.lua"),
            mark: script!("", "mark.lua"),
            reserve: script!("", "forget.lua", "reserve.lua"),
            renew: script!(" flags=allow-oom", "holder.lua", "renew.lua"),
            commit: script!(" flags=allow-oom", "holder.lua", "commit.lua"),
            keep: script!("", "holder.lua", "keep.lua", "commit.lua"),
            release: script!(" flags=allow-oom", "holder.lua", "release.lua"),
            // Not `no-writes`: a replica must not answer, it may be behind.
            consumed: script!(" flags=allow-oom", "consumed.lua"),
            health: script!("", "health.lua"),
            counts: script!(" flags=allow-oom", "counts.lua"),
            // It frees memory.
            sweep: script!(" flags=allow-oom", "forget.lua", "sweep.lua"),
        }
    }
}
