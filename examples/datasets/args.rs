//! The flags, each also an environment variable.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{
    Parser, Subcommand,
    builder::BoolishValueParser,
    error::{ContextValue, ErrorKind},
};
use tower_x402::{
    PaymentIdentifier,
    protocol::{Address, Network},
    verify::Finality,
};

use super::{
    book::{RefundArgs, Sales, Span},
    keys,
    ledger::LedgerArg,
    log::Log,
    on_network::OnNetwork,
    pass::PassOffer,
    replay::Replay,
    secret::Secret,
    units::{HeadAge, duration, finality, head_age, payment_identifier, some_time},
};

/// Sells answers from three datasets: quote, payment in USDC on Base, answer.
#[derive(Clone, Debug, Parser)]
#[command(name = "datasets", version)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, env = "X402_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:4020")]
    pub(crate) listen: SocketAddr,
    /// Start a local chain, use throw-away accounts, and print commands that buy an answer
    #[arg(long, env = "X402_DEV", value_parser = BoolishValueParser::new())]
    pub(crate) dev: bool,
    /// With --dev: buy one answer from each endpoint, showing each step, then keep serving
    #[arg(long, env = "X402_BUY", value_parser = BoolishValueParser::new())]
    pub(crate) buy: bool,
    /// Ethereum JSON-RPC endpoint, of the first network unless another one's number is before it, such as
    /// 84532=https://sepolia.base.org; repeat it for more than one
    #[arg(
        long,
        env = "X402_RPC_URL",
        value_name = "[ID=]URL",
        value_delimiter = ',',
        hide_env_values = true,
        global = true
    )]
    pub(crate) rpc_url: Vec<OnNetwork<Secret>>,
    /// How long to wait at the start for an endpoint that answers
    #[arg(long, env = "X402_WAIT_FOR_RPC", value_name = "TIME", default_value = "0s", value_parser = duration, global = true)]
    pub(crate) wait_for_rpc: Duration,
    /// Start even while no endpoint answers: free routes are served, and nothing is quoted or sold until one has
    /// proved to serve the right chain
    #[arg(long, env = "X402_START_WITHOUT_RPC", value_parser = BoolishValueParser::new())]
    pub(crate) start_without_rpc: bool,
    /// EIP-155 id of a chain to be paid on; repeat it for more than one, the first of which goes first in quotes
    /// [default: 8453, Base]
    #[arg(long, env = "X402_NETWORK", value_name = "ID", value_delimiter = ',', global = true)]
    pub(crate) network: Vec<u64>,
    /// URL under which clients reach this server, such as https://shop.example: quotes and descriptions name it [default: the host
    /// that a client names]
    #[arg(long, env = "X402_PUBLIC_URL", value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// The seller's contact, such as an e-mail address: sent to payers whose payment is too old
    #[arg(long, env = "X402_CONTACT", value_name = "TEXT")]
    pub(crate) contact: Option<String>,
    /// Address that is paid
    #[arg(long, env = "X402_RECIPIENT", value_name = "0x…", global = true)]
    pub(crate) recipient: Option<Address>,
    /// Address that was paid before: its open quotes and payments still count; repeat it for more than one
    #[arg(long, env = "X402_FORMER_RECIPIENT", value_name = "0x…", value_delimiter = ',', global = true)]
    pub(crate) former_recipient: Vec<Address>,
    /// Accepted token contract, on the first network unless another one's number is before it, such as 84532=0x…; repeat it for more than
    /// one [default: the USDC of each chain]
    #[arg(long, env = "X402_TOKEN", value_name = "[ID=]0x…", value_delimiter = ',', global = true)]
    pub(crate) token: Vec<OnNetwork<Address>>,
    /// Former token contract, which quotes no longer name but which still counts, in the same form; repeat it for
    /// more than one
    #[arg(long, env = "X402_FORMER_TOKEN", value_name = "[ID=]0x…", value_delimiter = ',', global = true)]
    pub(crate) former_token: Vec<OnNetwork<Address>>,
    /// Price of one answer, in whole tokens [default: 0.49]; for `unredeemed` the lowest price of the service, below which a payment
    /// never bought anything [default: unknown]
    #[arg(long, env = "X402_PRICE", value_name = "AMOUNT", global = true)]
    pub(crate) price: Option<String>,
    /// Sell a pass for this many answers, at this price in whole tokens, such as 10:3.90, at /pass; it counts on all
    /// three datasets
    #[arg(long, env = "X402_PASS", value_name = "CALLS:AMOUNT")]
    pub(crate) pass: Option<PassOffer>,
    /// How far the chain's head may be from this machine's clock; `off` for a chain that mines on demand
    #[arg(long, env = "X402_MAX_HEAD_AGE", value_name = "TIME|off", default_value = "3m", value_parser = head_age, global = true)]
    pub(crate) max_head_age: HeadAge,
    /// How long a quote can be paid
    #[arg(long, env = "X402_QUOTE_TTL", value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub(crate) quote_ttl: Duration,
    /// How much later than that a payment still counts
    #[arg(long, env = "X402_QUOTE_GRACE", value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub(crate) quote_grace: Duration,
    /// How old a payment may be when it is redeemed
    #[arg(long, env = "X402_MAX_PAYMENT_AGE", value_name = "TIME", default_value = "24h", value_parser = duration, global = true)]
    pub(crate) max_payment_age: Duration,
    /// When a payment counts: after this many blocks, or once its block is `safe` or `finalized`
    #[arg(long, env = "X402_FINALITY", value_name = "1|N|safe|finalized", default_value = "1", value_parser = finality, global = true)]
    pub(crate) finality: Finality,
    /// How long an unbound payment is held, in chain time, before the first request that shows it gets the answer;
    /// with a signature, its payer gets it at once
    #[arg(long, env = "X402_HOLD_UNBOUND", value_name = "TIME", default_value = "5s", value_parser = duration)]
    pub(crate) hold_unbound: Duration,
    /// Answer only clients that prove to be the payer: by the secret that the payment is bound to, or by a signature
    #[arg(long, env = "X402_REQUIRE_BOUND", value_parser = BoolishValueParser::new())]
    pub(crate) require_bound: bool,
    /// Facilitator that settles signed payments of x402 version 2: its https URL; repeat it for more than one, to be
    /// tried in this order
    #[arg(long, env = "X402_FACILITATOR", value_name = "URL", value_delimiter = ',', hide_env_values = true)]
    pub(crate) facilitator: Vec<Secret>,
    /// File with the private key, 0x and 64 hexadecimal digits, of an account with ether that settles signed payments of x402
    /// version 2 itself; each replica needs an account of its own
    #[arg(long, env = "X402_SETTLE_KEY", value_name = "FILE")]
    pub(crate) settle_key: Option<PathBuf>,
    /// Also accept transfers in the standard's header PAYMENT-SIGNATURE, from clients that prove to be the payer: the
    /// client-submitted family of x402 version 2
    #[arg(long, env = "X402_CLIENT_SUBMITTED", value_parser = BoolishValueParser::new())]
    pub(crate) client_submitted: bool,
    /// Also ask for payments in the form of MPP, with this realm, the same for all replicas [default: the host of
    /// --public-url]
    #[arg(long, env = "X402_MPP", value_name = "REALM", num_args = 0..=1, default_missing_value = "")]
    pub(crate) mpp: Option<String>,
    /// Let clients name their purchases, or require it: each purchase is charged once, even if a client signs it
    /// again
    #[arg(long, env = "X402_PAYMENT_IDENTIFIER", value_name = "optional|required", value_parser = payment_identifier)]
    pub(crate) payment_identifier: Option<PaymentIdentifier>,
    /// How long a sold answer is stored in the ledger, and delivered again for the same intent and transaction; `0s`
    /// stores none
    #[arg(long, env = "X402_REDELIVER", value_name = "TIME", default_value = "15m", value_parser = duration)]
    pub(crate) redeliver: Duration,
    /// Key that seals quotes: 64 hexadecimal digits, or a file with one such key a line, of which the first seals and the
    /// others open what they sealed before; required with postgres and redis, whose
    /// replicas share it [default: with sqlite one that is made and kept in PATH.key, with memory one that lives with
    /// the process]
    #[arg(long, env = "X402_KEY", value_name = "HEX|FILE", hide_env_values = true)]
    pub(crate) sealing_key: Option<Secret>,
    /// Where sales are recorded: `memory` forgets them at the end of the process, `sqlite:PATH` keeps them in a file,
    /// `postgres://…` and `redis://…` share them among replicas [default: sqlite:x402-ledger.db, with --dev memory]
    #[arg(long, env = "X402_LEDGER", value_name = "memory|sqlite:PATH|URL", hide_env_values = true, global = true)]
    ledger: Option<Secret>,
    /// With a ledger on Redis: keep every sale in its book for good, which takes unlimited memory; other ledgers keep
    /// it anyway
    #[arg(long, env = "X402_KEEP_BOOK", value_parser = BoolishValueParser::new())]
    pub(crate) keep_book: bool,
    /// Folder with chats.jsonl, goals.jsonl and conversions.jsonl [default: the synthetic data of this example]
    #[arg(long, env = "X402_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// How long a request's head may take, a connection may be idle, and its answers may stay unread
    #[arg(long, env = "X402_HEAD_TIMEOUT", value_name = "TIME", default_value = "30s", value_parser = some_time)]
    pub(crate) head_timeout: Duration,
    /// How long requests in flight may take at shutdown; less than the supervisor waits
    #[arg(long, env = "X402_SHUTDOWN_TIMEOUT", value_name = "TIME", default_value = "20s", value_parser = duration)]
    pub(crate) shutdown_timeout: Duration,
    /// Serve metrics for Prometheus at /metrics of this address; keep it private
    #[arg(long, env = "X402_METRICS", value_name = "ADDRESS")]
    pub(crate) metrics: Option<SocketAddr>,
    /// Format of the log on standard error
    #[arg(long, env = "X402_LOG", value_enum, default_value_t, global = true)]
    pub(crate) log: Log,
    /// Write the synthetic data into a folder, and end
    #[arg(long, value_name = "DIR")]
    pub(crate) generate: Option<PathBuf>,
    /// Command to run instead of selling
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands other than selling.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Look after the ledger
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Show the sales in the ledger's book
    Sales(Sales),
    /// Record that a payment was given back
    Refund(RefundArgs),
    /// Show the payments that bought nothing, so that they can be given back: needs --recipient, --rpc-url and the
    /// ledger
    Unredeemed(Span),
}

/// The commands for the ledger.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Before a restored backup sells again: refuse every payment mined until now that the ledger does not know
    RaiseMark {
        /// A time in seconds since 1970, instead of the time of the chain's head
        #[arg(long, value_name = "SECONDS")]
        to: Option<u64>,
    },
    /// Before the mark of a restored backup is raised: record the sales that the server's log has and the backup lacks. Needs
    /// --recipient, --rpc-url and the server's other flags about payments
    Replay(Replay),
}

/// A text to show before the program ends: help, or the error of the flags.
#[derive(Debug)]
pub(crate) enum Ending {
    Help(String),
    Wrong(String),
}

impl Args {
    /// Reads flags and environment.
    ///
    /// # Errors
    /// Returns the text to print instead of running; an error is one sentence.
    pub(crate) fn read(args: impl IntoIterator<Item = OsString>) -> Result<Self, Ending> {
        let args = Self::try_parse_from(args).map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ending::Help(error.to_string()),
            _ => Ending::Wrong(one_sentence(&without_urls(&error))),
        })?;
        args.check().map_err(|wrong| Ending::Wrong(wrong.to_owned()))?;
        Ok(args)
    }

    /// Returns where sales are recorded.
    ///
    /// # Errors
    /// The error does not repeat what was given.
    pub(crate) fn ledger(&self) -> Result<LedgerArg, &'static str> {
        match &self.ledger {
            Some(text) => LedgerArg::parse(text),
            None => Ok(LedgerArg::default_for(self.dev)),
        }
    }

    /// Returns the price of one answer.
    pub(crate) fn price(&self) -> &str {
        self.price.as_deref().unwrap_or("0.49")
    }

    /// Checks what no single flag can tell.
    fn check(&self) -> Result<(), &'static str> {
        if self.generate.is_some() || self.command.is_some() {
            return Ok(());
        }
        self.check_chain()?;
        if !self.facilitator.is_empty() && self.settle_key.is_some() {
            return Err("--facilitator and --settle-key contradict each other: name one who settles signed payments");
        }
        if self.ledger()?.is_shared() && self.sealing_key.is_none() { Err(keys::SHARED) } else { Ok(()) }
    }

    fn check_chain(&self) -> Result<(), &'static str> {
        let own_chain = !self.rpc_url.is_empty() || !self.network.is_empty() || self.names_tokens();
        match (self.dev, self.buy) {
            (false, true) => Err("--buy needs --dev: it pays with the account of a local chain"),
            (true, _) if own_chain || self.recipient.is_some() => {
                Err("--dev brings its own chain: leave out --rpc-url, --network, --token and --recipient")
            }
            (false, _) if self.recipient.is_none() => {
                Err("name who is paid with --recipient 0x…, or try it out on a local chain with --dev")
            }
            (false, _) if self.rpc_url.is_empty() => {
                Err("name an Ethereum JSON-RPC endpoint with --rpc-url URL, or try it out on a local chain with --dev")
            }
            (false, _) if !self.networks().all(|network| self.endpoints(network).next().is_some()) => {
                Err("each --network needs an endpoint of its own: --rpc-url ID=URL")
            }
            (false, _) if !self.named().all(|named| self.networks().any(|network| network == named)) => {
                Err("a value with a number before it, such as 84532=…, needs that number as a --network")
            }
            _ if self.start_without_rpc && self.names_tokens() => Err(
                "--start-without-rpc is for the chain's USDC: what decimals another token has, only the chain can tell",
            ),
            _ => Ok(()),
        }
    }

    /// Returns the networks that single values name.
    fn named(&self) -> impl Iterator<Item = Network> {
        let tokens = self.token.iter().chain(&self.former_token).filter_map(|token| token.network);
        self.rpc_url.iter().filter_map(|url| url.network).chain(tokens)
    }

    fn names_tokens(&self) -> bool {
        !self.token.is_empty() || !self.former_token.is_empty()
    }
}

/// Returns clap's message without values that are URLs, which may hold a password: for instance one in the place of a
/// forgotten flag.
fn without_urls(error: &clap::Error) -> String {
    let values = error.context().flat_map(|(_, value)| match value {
        ContextValue::String(text) => vec![text.clone()],
        ContextValue::Strings(texts) => texts.clone(),
        _ => vec![],
    });
    let urls = values.filter(|text| text.contains("://"));
    urls.fold(error.to_string(), |message, url| message.replace(&url, "…"))
}

/// Returns the first paragraph of clap's message, on one line.
fn one_sentence(message: &str) -> String {
    let paragraph = message.strip_prefix("error: ").unwrap_or(message);
    let lines = paragraph.lines().map(str::trim).take_while(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Result<Args, String> {
        let args = ["datasets"].iter().chain(args).map(OsString::from);
        Args::read(args).map_err(|ending| match ending {
            Ending::Help(text) | Ending::Wrong(text) => text,
        })
    }

    const PAID: [&str; 4] = ["--recipient", "0x000000000000000000000000000000000000dEaD", "--rpc-url", "http://x"];

    #[test]
    fn defaults_are_those_of_the_issue() {
        let args = read(&PAID).unwrap();
        assert_eq!(args.listen.to_string(), "127.0.0.1:4020");
        assert_eq!((args.price(), args.finality), ("0.49", Finality::Confirmations(1)));
        assert_eq!([args.quote_ttl, args.quote_grace, args.max_payment_age].map(|d| d.as_secs()), [900, 60, 86_400]);
        assert_eq!([args.hold_unbound, args.redeliver].map(|d| d.as_secs()), [5, 900]);
        assert!(!args.require_bound && !args.client_submitted);
        assert_eq!(args.ledger(), Ok(LedgerArg::Sqlite("x402-ledger.db".into())));
        assert_eq!(read(&["--dev"]).unwrap().ledger(), Ok(LedgerArg::Memory));
    }

    #[test]
    fn who_may_redeem_and_what_is_kept_is_said_by_flags() {
        let flags = ["--hold-unbound", "0s", "--require-bound", "--redeliver", "0s", "--client-submitted"];
        let args = read(&[&PAID[..], &flags].concat()).unwrap();
        assert!(args.hold_unbound.is_zero() && args.require_bound && args.redeliver.is_zero());
        assert!(args.client_submitted);
        let args = read(&[&PAID[..], &["--hold-unbound", "1m", "--redeliver", "2h"]].concat()).unwrap();
        assert_eq!([args.hold_unbound, args.redeliver].map(|d| d.as_secs()), [60, 7_200]);
    }

    #[test]
    fn what_the_price_of_a_service_is_can_be_left_unsaid() {
        let unredeemed = ["unredeemed", "--since", "2026-11-01"];
        assert_eq!(read(&unredeemed).unwrap().price, None);
        let priced = read(&[&unredeemed[..], &["--price", "0.05"]].concat()).unwrap();
        assert_eq!(priced.price.as_deref(), Some("0.05"));
    }

    #[test]
    fn replicas_need_a_key_that_they_share() {
        for ledger in ["postgres://u:hunter2@host/db", "redis://u:hunter2@host", "rediss://u:hunter2@host"] {
            let flags = [&PAID[..], &["--ledger", ledger]].concat();
            assert_eq!(read(&flags).unwrap_err(), keys::SHARED);
            let args = read(&[&flags[..], &["--sealing-key", "hunter3"]].concat()).unwrap();
            assert!(args.ledger().unwrap().is_shared());
            assert!(!format!("{args:#?}").contains("hunter"));
        }
    }

    #[test]
    fn no_url_is_shown_wherever_it_stands() {
        for flag in
            ["--ledger", "--ledger=sqlite", "--recipient", "--price", "--network", "--listen", "--token", "--unknown"]
        {
            for url in
                ["postgress://u:hunter2@host", "redis://u:hun'ter2@host\n\nhunter2", "a,postgres://u:hunter2@host"]
            {
                for flags in [vec![flag, url], vec![url, flag], vec![&format!("{flag}={url}")]] {
                    let said = read(&[&PAID[..], &flags].concat()).err().unwrap_or_default();
                    assert!(!said.contains("hunter2") && !said.contains("ter2"), "{flags:?}: {said}");
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_one_sentence() {
        for (args, wrong) in [
            (&[][..], "--recipient"),
            (&PAID[..2], "--rpc-url"),
            (&PAID[2..], "--recipient"),
            (&["--buy"], "--buy needs --dev"),
            (&["--dev", "--network", "1"], "--dev brings its own chain"),
            (&[&PAID[..], &["--network", "8453", "--network", "84532"]].concat(), "endpoint of its own"),
            (&[&PAID[..], &["--rpc-url", "84532=http://y"]].concat(), "as a --network"),
            (&["--finality", "0"], "number of blocks"),
            (&["--quote-ttl", "15"], "such as 90s"),
            (&["--hold-unbound", "soon"], "--hold-unbound"),
            (&["--redeliver", "15"], "such as 90s"),
            (&["--require-bound", "yes"], "yes"),
            (&["--dev", "--ledger", "paper"], "`memory`"),
            (&["--dev", "--ledger", "sqlite:"], "path of a file"),
            (&["--dev", "--ledger", "postgres://host/db"], "--sealing-key"),
            (&["--recipient", "0x1"], "--recipient"),
            (&["--dev", "--facilitator", "https://f.example", "--settle-key", "key"], "contradict each other"),
            (&["--dev", "--pass", "ten"], "such as 10:3.90"),
            (&["--nonsense"], "--nonsense"),
            (&["--head-timeout", "0s"], "at least 1s"),
            (&["--log", "xml"], "text, json"),
            (&[PAID[0], PAID[1], PAID[2], PAID[3], "--start-without-rpc", "--former-token", PAID[1]], "decimals"),
        ] {
            let said = read(args).unwrap_err();
            assert!(said.contains(wrong) && !said.contains('\n'), "{args:?}: {said}");
        }
    }

    #[test]
    fn help_shows_every_flag_and_no_secret() {
        let help = read(&["--help"]).unwrap_err();
        for flag in
            ["listen", "dev", "buy", "rpc-url", "network", "recipient", "token", "price", "quote-ttl", "quote-grace"]
        {
            assert!(help.contains(&format!("--{flag}")), "{flag}");
        }
        for flag in [
            "max-payment-age",
            "hold-unbound",
            "require-bound",
            "redeliver",
            "pass",
            "facilitator",
            "settle-key",
            "client-submitted",
            "finality",
            "ledger",
            "data",
            "metrics",
        ] {
            let variable = format!("X402_{}", flag.to_uppercase().replace('-', "_"));
            assert!(help.contains(&format!("--{flag}")) && help.contains(&variable), "{flag}");
        }
        // The guides use these names for every program.
        assert!(help.contains("--sealing-key") && help.contains("X402_KEY"));
    }
}
