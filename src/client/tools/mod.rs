//! Tools of MCP servers, paid for by the call.

mod paid_tools;
mod server;

pub use paid_tools::{CalledTool, PaidTools};
