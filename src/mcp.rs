//! The tools of an MCP server, sold call by call.
//!
//! [`McpLayer`] wraps a service that speaks MCP's *Streamable HTTP*. Its prices are set by
//! [`Merchant::tools`](crate::Merchant::tools); the [guide](crate::guide::mcp) shows a whole server.

pub use crate::paywall::{Mcp, McpBody, McpLayer};
