//! The layer on a scripted chain: every request that it can meet, and every answer that it gives.

mod binding;
mod bodies;
mod commits;
mod config;
mod consumption;
mod discovery;
mod drops;
mod grpc;
mod holds;
mod hyper_server;
mod leases;
mod memory;
mod pricing;
mod proofs;
mod purchase;
mod races;
mod redelivery;
mod standard;
mod tower_contract;
