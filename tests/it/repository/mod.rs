//! What must be true of the repository itself: its texts and its files.

mod imports;
mod payment_proof;
mod readme;
mod security_table;
