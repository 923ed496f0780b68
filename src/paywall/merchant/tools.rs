//! The tools of an MCP server.

use crate::paywall::{door::mcp::McpLayer, merchant::Merchant};

impl Merchant {
    /// Returns a layer that sells the tools of an MCP server, once prices are set on it; see [`McpLayer`].
    pub fn tools(&self) -> McpLayer {
        McpLayer::new(self.inner())
    }
}
