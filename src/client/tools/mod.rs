//! Tools of MCP servers, paid per call.

mod paid_tools;
mod server;

pub use paid_tools::{CalledTool, PaidTools};
