//! ERC-20 transfers over JSON-RPC.
