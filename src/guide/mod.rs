//! Guides: how to sell, to pay, to operate, to test, and what stays compatible.
//!
//! These modules hold prose and no items; they exist in the documentation only.
//!
//! | Guide | Read it to |
//! |---|---|
//! | [`first_answer`] | *sell your first answer*, under axum, hyper or in a `ServiceBuilder` |
//! | [`gateway`] | put the *gateway* in front of a service in any language |
//! | [`selling`] | set prices, place the layer among others, configure CORS |
//! | [`standard`] | learn *how this relates to x402*, and take signed payments from official clients |
//! | [`coming_from_x402_axum`] | *come from x402-axum*: names and differences |
//! | [`metered`] | sell *metered answers*: the payer allows a maximum, and the handler says what the answer costs |
//! | [`passes`] | sell *passes and tickets*: pay once, call many times; resume a download |
//! | [`channels`] | sell by *payment channels*: one deposit, a signature for each answer, and claims |
//! | [`streaming`] | sell *streaming and gRPC*: what a sale is, and what a tonic client sees |
//! | [`mcp`] | sell the tools of an MCP server, and let an agent pay for them |
//! | [`page`] | show people a page instead of JSON, with a button to pay |
//! | [`payment_proof`] | take transfers in the standard's header: the text of the method |
//! | [`ledgers`] | choose where sales are recorded |
//! | [`verification`] | choose RPC endpoints and finality |
//! | [`going_live`] | *go live*: endpoints, finality, ledger, keys, proxy, systemd, container |
//! | [`operating`] | run a server: health, keys, restarts, backups |
//! | [`metrics`] | watch a server: names, labels, a dashboard |
//! | [`paying`] | redeem by hand, read refusals, or let a client pay |
//! | [`who_can_redeem`] | learn *who can redeem a payment*, tag a transfer, sign a redemption |
//! | [`security`] | learn the guarantees and their limits |
//! | [`threats`] | weigh the *threats*: attackers, their gain, accepted risks |
//! | [`testing`] | *test your service* |
//! | [`backends`] | *write a ledger, a verifier or a settler* |
//! | [`api_policy`] | learn the public interface and the rules for changes |
//! | [`when_it_does_not_compile`] | cure the usual compile errors |

/// Declares the guides. Their examples need features that a crate built without them does not have: there, the doc tests see
/// empty modules.
macro_rules! guides {
    ($($name:ident = $text:literal;)+) => {
        $(
            #[cfg_attr(
                any(
                    not(doctest),
                    all(
                        feature = "axum",
                        feature = "wallet",
                        feature = "facilitator",
                        feature = "mcp",
                        feature = "page",
                        feature = "reqwest",
                        feature = "evm",
                        feature = "postgres",
                        feature = "redis",
                        feature = "sqlite",
                        feature = "devchain",
                    )
                ),
                doc = include_str!($text)
            )]
            pub mod $name {}
        )+
    };
}

guides! {
    first_answer = "first_answer.md";
    gateway = "gateway.md";
    selling = "selling.md";
    standard = "standard.md";
    coming_from_x402_axum = "coming_from_x402_axum.md";
    metered = "metered.md";
    passes = "passes.md";
    channels = "channels.md";
    streaming = "streaming.md";
    mcp = "mcp.md";
    page = "page.md";
    payment_proof = "payment_proof.md";
    ledgers = "ledgers.md";
    verification = "verification.md";
    going_live = "going_live.md";
    operating = "operating.md";
    metrics = "metrics.md";
    paying = "paying.md";
    who_can_redeem = "who_can_redeem.md";
    security = "security.md";
    threats = "threats.md";
    testing = "testing.md";
    backends = "backends.md";
    api_policy = "api_policy.md";
    when_it_does_not_compile = "when_it_does_not_compile.md";
}
