//! The door for MCP: sells the calls of tools inside JSON-RPC messages, one by one.
//!
//! `service` receives requests, `message` sorts their messages, `order` sells a call, `tool` runs the server for it and reads its answer,
//! `voice` writes the layer's own messages, and `stream` lets an answer begin before its sale has ended.

mod body;
mod events;
mod filter;
mod layer;
mod message;
mod order;
mod server;
mod service;
mod stream;
mod table;
mod tool;
mod voice;

pub use body::McpBody;
pub use layer::McpLayer;
pub use service::Mcp;
