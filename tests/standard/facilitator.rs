//! A facilitator over the official packages, which can be told to misbehave.

use serde_json::Value;

use super::{
    World,
    programs::{Server, script},
};
use crate::served::shop::client;

pub struct Facilitator {
    server: Server,
    http: reqwest::Client,
}

impl Facilitator {
    /// One that is honest, and pays the gas with the settler's key.
    pub async fn start(world: &World) -> Self {
        Self::start_with(world, &[]).await
    }

    /// The same with more flags.
    pub async fn start_with(world: &World, flags: &[&str]) -> Self {
        let mut command = script("facilitator.mjs").await;
        command.args([world.chain.rpc_url(), world.settler().private_key()]).args(flags);
        Self { server: Server::start(&mut command).await, http: client() }
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// From now on it has this fault; none, if there is no name.
    pub async fn fault(&self, name: &str) {
        let answer = self.http.post(format!("{}/fault", self.url())).body(name.to_owned()).send().await.unwrap();
        assert!(answer.status().is_success(), "{name}");
    }

    /// Ends it: nobody answers there any more.
    pub async fn kill(&mut self) {
        self.server.kill().await;
    }

    /// How often it was asked for this.
    pub async fn calls(&self, path: &str) -> u64 {
        let answer = self.http.get(format!("{}/calls", self.url())).send().await.unwrap();
        answer.json::<Value>().await.unwrap()[path].as_u64().unwrap()
    }
}
