//! What each client is charged for one purchase, whatever the seller's facilitator does: one price per answer, and no second signature
//! where the first may still be used.

use super::{
    PRICE, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
    seller::{facilitated, merchant},
};
use crate::served::shop::{INSIGHTS, Shop};

const REALM: &str = "api.example.com";

/// What a client may make of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The payment is made: it is charged once, and answered, or told to wait.
    Settles,
    /// The payment is certainly not made, and the client is told so.
    Refuses,
    /// Nothing is made, and the client is told to wait.
    Leaves,
}

pub const FAULTS: [(&str, Fault); 10] = [
    ("settles-and-hangs", Fault::Settles),
    ("settles-and-errs", Fault::Settles),
    ("settles-and-babbles", Fault::Settles),
    ("settles-and-says-refused", Fault::Settles),
    ("says-refused", Fault::Refuses),
    ("says-failed", Fault::Leaves),
    ("says-settled", Fault::Leaves),
    ("hangs", Fault::Leaves),
    ("drops", Fault::Leaves),
    ("redirects", Fault::Leaves),
];

impl Fault {
    /// Whether a client may be answered so. Some report what they do not know by an error.
    fn allows(self, answer: Option<u64>) -> bool {
        answer.is_none_or(|status| match self {
            Self::Settles => [200, 503].contains(&status),
            Self::Refuses => status == 402,
            Self::Leaves => status == 503,
        })
    }

    /// How many payments it may sign at most. Only where the first was certainly not used, another may be signed.
    fn signatures(self) -> u64 {
        if self == Self::Refuses { 3 } else { 1 }
    }
}

struct Stage {
    world: World,
    facilitator: Facilitator,
    shop: Shop,
}

impl Stage {
    async fn new() -> Option<Self> {
        let world = World::with(Token::Circles).await?;
        let facilitator = Facilitator::start(&world).await;
        let shop = Shop::open(merchant(&world).await.settler(facilitated(&facilitator)).mpp(REALM)).await;
        Some(Self { world, facilitator, shop })
    }
}

async fn is_charged_once_at_most(client: Client) {
    let Some(Stage { world, facilitator, shop }) = &Stage::new().await else { return };
    for (name, fault) in FAULTS {
        let before = world.balance(SELLER).await;
        facilitator.fault(name).await;
        let url = shop.url(INSIGHTS);
        let Some(purchase) = client.buy(world, Order::post(&url, question())).await else { return };
        facilitator.fault("").await;
        assert!(fault.allows(purchase.answer()), "{client:?} {name}: {purchase:?}");
        let signed = purchase.payments();
        assert!(
            signed.is_none_or(|signed| (1..=fault.signatures()).contains(&signed)),
            "{client:?} {name}: {purchase:?}"
        );
        let charged = (world.balance(SELLER).await - before) / PRICE;
        assert_eq!(charged, u128::from(fault == Fault::Settles), "{client:?} {name}: {purchase:?}");
    }
}

#[tokio::test]
async fn mppx_is_charged_once_at_most() {
    is_charged_once_at_most(Client::Mppx).await;
}

#[tokio::test]
async fn pympp_is_charged_once_at_most() {
    is_charged_once_at_most(Client::Pympp).await;
}

#[tokio::test]
async fn the_fetch_client_is_charged_once_at_most() {
    is_charged_once_at_most(Client::Fetch).await;
}

#[tokio::test]
async fn the_python_client_is_charged_once_at_most() {
    is_charged_once_at_most(Client::Httpx).await;
}

#[tokio::test]
async fn the_fetch_client_of_version_1_is_charged_once_at_most() {
    is_charged_once_at_most(Client::FetchV1).await;
}

#[tokio::test]
async fn the_axios_client_of_version_1_is_charged_once_at_most() {
    is_charged_once_at_most(Client::AxiosV1).await;
}

#[tokio::test]
async fn the_python_client_of_version_1_is_charged_once_at_most() {
    is_charged_once_at_most(Client::HttpxV1).await;
}
