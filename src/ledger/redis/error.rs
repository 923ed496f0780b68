//! The reasons to refuse a server.

use crate::ledger::LedgerError;

pub(super) const URL: LedgerError = LedgerError::setting(
    "this is not a URL such as `redis://user:password@host:6379/0` (`rediss` needs the feature `redis-tls`)",
);
pub(super) const KEY_PREFIX: LedgerError =
    LedgerError::setting("a key prefix is 1 to 32 of the characters a to z, 0 to 9 and _");
pub(super) const REPLICAS: LedgerError =
    LedgerError::setting("a commit waits for at least one replica, and for 1 ms to 1 s");
pub(super) const SENTINELS: LedgerError = LedgerError::setting(
    "sentinels are named for a server that is not found through them: name one or more, and the server by its URL",
);
pub(super) const EVICTS: LedgerError =
    LedgerError::not_safe("the server may evict what was sold: set `maxmemory-policy noeviction`");
pub(super) const POLICY_UNKNOWN: LedgerError =
    LedgerError::not_safe("the server does not tell its `maxmemory-policy`: allow the user `config|get` or `info`");
pub(super) const NOT_DURABLE: LedgerError = LedgerError::not_safe(
    "the server may lose what was sold: set `appendonly yes`, and `appendfsync always` or `everysec`",
);
