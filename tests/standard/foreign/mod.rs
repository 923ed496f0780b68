//! Sellers that others wrote: official middleware of the standard, unmodified, each over a facilitator that can be told to misbehave.

mod faults;
pub mod paying;
mod selling;

use std::path::Path;

use reqwest::RequestBuilder;
use serde_json::Value;
use tokio::process::Command;
use tower_x402::protocol::Address;

use super::{
    SELLER, World,
    facilitator::Facilitator,
    programs::{Server, script},
    tools,
};
use crate::served::shop::{Answer, client};

/// Costs [`CHEAP`].
pub const WEATHER: &str = "/weather";
/// Takes a JSON body, and costs twice as much.
pub const REPORT: &str = "/report";
/// Offers what nobody knows before what is meant, where version 2 is spoken; costs three times as much.
pub const CHOICE: &str = "/choice";
/// Costs as much as [`WEATHER`], and its handler answers 500.
pub const BROKEN: &str = "/broken";
/// Costs five dollars, and has no other limit than the client's.
pub const DEAR: &str = "/dear";
/// Costs nothing.
pub const FREE: &str = "/free";
/// A cent, in base units.
pub const CHEAP: u128 = 10_000;

/// Whose middleware sells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// `@x402/express`.
    Express,
    /// Python's `x402` with FastAPI.
    FastApi,
    /// `x402-express`, of version 1.
    ExpressV1,
    /// `mppx` with express, by MPP alone.
    Mppx,
}

impl Make {
    /// Those of x402.
    pub const ALL: [Self; 3] = [Self::Express, Self::FastApi, Self::ExpressV1];

    /// The header that a payment is shown in.
    pub const fn header(self) -> &'static str {
        match self {
            Self::Express | Self::FastApi => "payment-signature",
            Self::ExpressV1 => "x-payment",
            Self::Mppx => "authorization",
        }
    }

    async fn command(self) -> Option<Command> {
        Some(match self {
            Self::Express => script("express.mjs").await,
            Self::ExpressV1 => script("express_v1.mjs").await,
            Self::Mppx => script("express_mpp.mjs").await,
            Self::FastApi => {
                let mut command = Command::new(tools::python().await?);
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standard/python/seller.py"));
                command
            }
        })
    }
}

/// One that sells until it is dropped or killed.
pub struct ForeignSeller {
    pub make: Make,
    /// Who settles for it.
    pub facilitator: Facilitator,
    server: Server,
    http: reqwest::Client,
}

impl ForeignSeller {
    /// A seller of this make over an honest facilitator; `None` where what it runs on is missing.
    pub async fn open(make: Make, world: &World) -> Option<Self> {
        let facilitator = Facilitator::start(world).await;
        let server = serve(make, &facilitator, "0").await?;
        Some(Self { make, facilitator, server, http: client() })
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url)
    }

    /// Whom its customers pay.
    pub const fn recipient(&self) -> Address {
        SELLER
    }

    /// What it was paid so far, in base units.
    pub async fn earned(&self, world: &World) -> u128 {
        world.balance(self.recipient()).await
    }

    /// How often the handler of that path ran since the seller was started.
    pub async fn runs(&self, path: &str) -> u64 {
        let runs = Answer::to(self.http.get(self.url("/runs"))).await;
        runs.body[path].as_u64().unwrap_or_default()
    }

    /// From now on its facilitator has this fault, as `facilitator.mjs` names them; none, if there is no name.
    pub async fn fault(&self, name: &str) {
        self.facilitator.fault(name).await;
    }

    /// Ends it at once: nobody answers there any more.
    pub async fn kill(&mut self) {
        self.server.kill().await;
    }

    /// Starts it anew where it was, after it was [killed](Self::kill).
    pub async fn restart(&mut self) {
        let port = self.server.url.rsplit(':').next().unwrap().to_owned();
        self.server = serve(self.make, &self.facilitator, &port).await.unwrap();
    }

    /// Asks without a payment.
    pub async fn ask(&self, path: &str) -> Answer {
        Answer::to(self.http.get(self.url(path))).await
    }

    /// Shows a payment for a path that needs no body.
    pub async fn show(&self, path: &str, payment: &str) -> Answer {
        Answer::to(self.paid(self.http.get(self.url(path)), payment)).await
    }

    fn paid(&self, request: RequestBuilder, payment: &str) -> RequestBuilder {
        request.header(self.make.header(), payment)
    }

    /// What an answer says of why it is no sale, wherever this make says it: in the bill, in the settlement or in the body.
    pub fn reason(&self, answer: &Answer) -> String {
        let bill = told(answer, "payment-required").map(|bill| bill["error"].clone());
        let settlement = told(answer, "payment-response").map(|settled| settled["errorReason"].clone());
        let said = bill.or(settlement).unwrap_or_else(|| answer.body["error"].clone());
        said.as_str().unwrap_or_default().to_owned()
    }

    /// What an answer says was settled.
    pub fn settled(&self, answer: &Answer) -> Option<Value> {
        told(answer, if self.make == Make::ExpressV1 { "x-payment-response" } else { "payment-response" })
    }
}

async fn serve(make: Make, facilitator: &Facilitator, port: &str) -> Option<Server> {
    let mut command = make.command().await?;
    command.args([facilitator.url(), &SELLER.to_string(), port]);
    Some(Server::start(&mut command).await)
}

/// A header of base64 and JSON.
fn told(answer: &Answer, header: &str) -> Option<Value> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let text = STANDARD.decode(answer.headers.get(header)?).unwrap();
    Some(serde_json::from_slice(&text).unwrap())
}
