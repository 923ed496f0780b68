//! The scripts: one for each question, with the flags that say what it may do on a server that is out of memory.

use ::redis as driver;
use driver::Script;

/// `#!lua` makes the server refuse a script before it starts, and never halfway, if it lacks memory, disk or replicas.
/// `allow-oom` is for questions that must go on when memory is short: a sale that was made must be recorded. Its answer
/// need not be kept then: the server refuses `keep`, and the ledger asks `commit` instead.
macro_rules! script {
    ($flags:literal, $($part:literal),+) => {
        Script::new(concat!("#!lua", $flags, "\n", include_str!("common.lua"), $(include_str!($part)),+))
    };
}

/// Defines all scripts, with the part that writes the book.
macro_rules! scripts {
    ($book:literal) => {
        Self {
            begin: script!("", "begin.lua"),
            mark: script!("", "mark.lua"),
            reserve: script!("", "last_sale.lua", "expire.lua", "reserve.lua"),
            settling: script!(" flags=allow-oom", "holder.lua", "settling.lua"),
            not_settled: script!(" flags=allow-oom", "holder.lua", "not_settled.lua"),
            renew: script!(" flags=allow-oom", "holder.lua", "renew.lua"),
            commit: script!(" flags=allow-oom", "record.lua", $book, "holder.lua", "commit.lua"),
            keep: script!("", "record.lua", $book, "holder.lua", "keep.lua", "commit.lua"),
            release: script!(" flags=allow-oom", "holder.lua", "release.lua"),
            // Not `no-writes`: a replica must not answer, it may be behind.
            consumed: script!(" flags=allow-oom", "consumed.lua"),
            begun: script!(" flags=allow-oom", "begun.lua"),
            health: script!("", "last_sale.lua", "health.lua"),
            counts: script!(" flags=allow-oom", "counts.lua"),
            // A sweep frees memory.
            sweep: script!(" flags=allow-oom", "record.lua", $book, "expire.lua", "forget.lua", "sweep.lua"),
            page: script!(" flags=allow-oom", "record.lua", "told.lua", "page.lua"),
            unannounced: script!(" flags=allow-oom", "record.lua", "told.lua", "unannounced.lua"),
            announced: script!(" flags=allow-oom", "announced.lua"),
            known: script!(" flags=allow-oom", "known.lua"),
            refund: script!("", "refund.lua"),
            account: script!(" flags=allow-oom", "last_sale.lua", "account.lua"),
            set_account: script!("", "set_account.lua"),
            set_account_at_last: script!(" flags=allow-oom", "set_account.lua"),
            list_accounts: script!(" flags=allow-oom", "list_accounts.lua"),
            forget_accounts: script!(" flags=allow-oom", "forget_accounts.lua"),
        }
    };
}

#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) begin: Script,
    pub(super) mark: Script,
    pub(super) reserve: Script,
    pub(super) settling: Script,
    pub(super) not_settled: Script,
    pub(super) renew: Script,
    pub(super) commit: Script,
    /// The commit with an answer to keep.
    pub(super) keep: Script,
    pub(super) release: Script,
    pub(super) consumed: Script,
    /// The settlement that was begun.
    pub(super) begun: Script,
    pub(super) health: Script,
    pub(super) counts: Script,
    pub(super) sweep: Script,
    /// The sales of a span of time.
    pub(super) page: Script,
    /// Sales that wait for their announcement.
    pub(super) unannounced: Script,
    pub(super) announced: Script,
    /// The records of payments.
    pub(super) known: Script,
    pub(super) refund: Script,
    /// The present state of an account.
    pub(super) account: Script,
    pub(super) set_account: Script,
    /// Writes an account after the end or renewal of a lease, even when memory is short.
    pub(super) set_account_at_last: Script,
    /// Lists claimable accounts.
    pub(super) list_accounts: Script,
    pub(super) forget_accounts: Script,
}

impl Scripts {
    /// Creates the scripts with or without the permanent book.
    pub(super) fn new(keeps_book: bool) -> Self {
        if keeps_book { scripts!("book.lua") } else { scripts!("no_book.lua") }
    }
}
