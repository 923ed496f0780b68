//! The configuration: one file, checked in full before anything is contacted.

pub(crate) mod file;
mod money;
mod reader;
mod source;
mod values;

pub(crate) use reader::load;
pub(crate) use values::{
    Action, Config, Cost, Fixed, McpConfig, NetworkConfig, Offer, RouteConfig, SettlerConfig, Shelf,
};
