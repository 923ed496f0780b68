//! What turns authorizations into transfers.

mod wallet;
