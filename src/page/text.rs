//! All texts of the page in one table, so that it can be translated.

use crate::protocol::ParseError;

macro_rules! texts {
    ($($(#[$doc:meta])* $name:ident = $key:literal, $english:literal;)+) => {
        /// One text of the page. Words in braces are replaced.
        ///
        /// Those whose key begins with `error.` replace the `detail` of a problem of that code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Text { $($(#[$doc])* #[doc = concat!("“", $english, "”")] $name,)+ }

        impl Text {
            /// Every text.
            pub(super) const ALL: &[Self] = &[$(Self::$name),+];

            /// The text's name in the page's script.
            pub(super) const fn key(self) -> &'static str { match self { $(Self::$name => $key,)+ } }

            /// The default text.
            pub(super) const fn english(self) -> &'static str { match self { $(Self::$name => $english,)+ } }
        }

        /// All default texts, a line `key = words` for each.
        pub(super) const ENGLISH: &str = concat!($($key, " = ", $english, "\n"),+);
    };
}

texts! {
    /// Above the description of the offer.
    Buying = "buying", "You are buying";
    /// Above the visitor's question.
    Asked = "asked", "You asked";
    /// Behind the price.
    OnNetwork = "on", "on {network}";
    /// On networks whose money has no value.
    TestNetwork = "testnet", "This is a test network: its money has no value.";
    /// Below the price.
    Intro = "intro", "Pay once, and the answer appears on this page. You need no account.";
    /// Beside the price.
    HoldsUntil = "holds", "This price holds until {time}.";
    /// The countdown.
    TimeLeft = "left", "{time} left at this price";
    /// Once the countdown has ended.
    Expired = "expired", "This price has expired. If you have not paid, get a new one.";
    /// A button.
    NewPrice = "renew", "Get a new price";
    /// A heading.
    WithWallet = "with_wallet", "Pay with your wallet";
    /// A button, if signed payments are accepted.
    Sign = "sign", "Pay with {wallet}, without network fee";
    /// A button: pays by a transaction.
    Send = "send", "Pay with {wallet}";
    /// A link below that button: pays by a transaction.
    SendInstead = "send_instead", "Send a transaction instead";
    /// Stands for a wallet that does not tell its name.
    Nameless = "nameless", "browser wallet";
    /// If there is no wallet.
    NoWallet = "no_wallet", "No wallet was found in this browser. Open this page in your wallet's own browser:";
    /// A link that opens this page in an app.
    OpenIn = "open_in", "Open in {wallet}";
    /// Beside the code of the page's address.
    ScanPage = "scan_page", "Or scan this code with your phone, and open the page in the wallet there.";
    /// A description of that code for screen readers.
    PageCode = "page_qr", "QR code: the address of this page";
    /// What the wallet will ask to confirm.
    WillShow = "will_show", "Your wallet will show {price} {symbol} to {recipient}.";
    /// A heading.
    Elsewhere = "elsewhere", "Pay from another wallet";
    /// Beside the QR code.
    Scan = "scan", "Scan this code with your wallet, or send a transfer with these details:";
    /// A description of the QR code for screen readers.
    QrLabel = "qr", "QR code: pay {price} {symbol} on {network} to {recipient}";
    /// Below the QR code.
    PlainTransfer = "plain_transfer", "A plain transfer is public: anyone who sees it on the chain can ask for its answer before you. A wallet in this browser pays safely, and the wallet that paid can show with a signature that the payment is its own.";
    /// A detail.
    Amount = "amount", "Amount";
    /// A detail.
    Token = "token", "Token contract";
    /// A detail.
    Recipient = "recipient", "Recipient";
    /// A detail.
    Network = "network", "Network";
    /// A button.
    Copy = "copy", "Copy";
    /// The button's text for a moment after copying.
    Copied = "copied", "Copied";
    /// A heading.
    HavePaid = "have_paid", "I have paid";
    /// A field.
    Hash = "hash", "Transaction hash";
    /// Below that field.
    HashHint = "hash_hint", "Your wallet shows it once the payment is sent: 0x and 64 letters and digits.";
    /// A button.
    Redeem = "redeem", "Get the answer";
    /// At the end.
    Once = "once", "One payment buys one answer. It is never necessary to pay twice: a payment that was made stays good until its answer is delivered.";
    /// If an ordinary transfer is not enough.
    BoundOnly = "bound_only", "This seller asks who paid. Pay with a wallet in this browser, or be ready to sign with the one that paid.";
    /// If no transfers are accepted.
    SignedOnly = "signed_only", "This seller takes signed payments: you need script, and a wallet in this browser or a wallet with a browser of its own.";
    /// While the wallet asks for confirmation.
    Confirm = "confirm", "Confirm the payment in your wallet.";
    /// After the sentence above, if the wallet tells the balance.
    Balance = "balance", "This account has {balance} {symbol}.";
    /// While the wallet asks for the network.
    Switching = "switching", "Your wallet is asked to use {network}.";
    /// For a wallet that stays on another network.
    WrongNetwork = "wrong_network", "Your wallet is not on {network}. Nothing was sent.";
    /// After the visitor declined.
    Declined = "declined", "You declined in your wallet. Nothing was sent.";
    /// After a wallet failed at a transaction.
    WalletFailed = "wallet_failed", "Your wallet reports an error. If it shows that the payment was sent, enter its transaction hash below, and do not pay again.";
    /// After a wallet failed before anything could be sent.
    WalletFailedEarly = "wallet_failed_early", "Your wallet reports an error. Nothing was sent.";
    /// If no outcome is known from the wallet.
    Began = "began", "You began to pay here. If your wallet shows that the payment was sent, enter its transaction hash below, and do not pay again. If nothing was sent, you can pay now.";
    /// The first request.
    Fetching = "fetching", "Payment sent. Getting your answer.";
    /// The transaction is not in a block.
    Waiting = "waiting", "Payment sent. Waiting for the network to confirm it. You may close this tab and come back later.";
    /// Another request holds the payment, such as one of a page that was loaded anew.
    BeingServed = "in_progress", "Your payment is being redeemed by a request that was sent before. Asking again in {seconds} s.";
    /// If the network has not known a transaction for a while.
    Unknown = "unknown", "The network does not know this transaction yet. If your wallet sped it up or replaced it, it has a new hash: enter that one below. Asking again in {seconds} s.";
    /// For an account with less than the price.
    Short = "short", "This account has {balance} {symbol} on {network}, and the price is {price} {symbol}. Nothing was sent.";
    /// The answer is sold and on its way.
    Receiving = "receiving", "Paid {price} {symbol}. Receiving your answer.";
    /// After the connection broke during the answer.
    CutOff = "cut", "Paid {price} {symbol}. The answer broke off: what arrived is below. You can ask for the rest again, at no cost.";
    /// If the seller asks to retry later.
    Later = "later", "The seller cannot answer right now. Your payment is safe. Asking again in {seconds} s.";
    /// Without a connection.
    Offline = "offline", "There is no connection to the seller. Your payment is safe. Asking again in {seconds} s.";
    /// After the service's own refusal.
    Unsold = "unsold", "The seller did not answer your request ({status}). Your payment is kept: you can try again.";
    /// After a success that is no sale, such as a proxy's.
    NoReceipt = "no_receipt", "A reply came with no receipt ({status}), so it is not the answer that you pay for. It may be from something between you and the seller. Your payment is kept: you can try again.";
    /// The heading of a reply that is not the answer.
    Reply = "reply", "A reply, not your answer";
    /// A button.
    Again = "again", "Try again";
    /// A button.
    Forget = "forget", "Forget this payment and start over";
    /// Before the payment is forgotten.
    ForgetAsks = "forget_asks", "Forget this payment? Note its transaction hash first if the payment was sent: with it, you can still get the answer here.";
    /// A button.
    ForgetIt = "forget_it", "Forget it";
    /// A button.
    GoOn = "go_on", "Keep it";
    /// A button, shown once the answer is there.
    BuyAgain = "buy_again", "Buy again";
    /// Before the seller's address.
    Contact = "contact", "Questions? Write to the seller:";
    /// If the typed text is no hash.
    NoHash = "no_hash", "This is not a transaction hash: it has 0x and 64 characters from 0 to 9 and a to f.";
    /// A heading.
    Answer = "answer", "Your answer";
    /// Above the answer.
    Paid = "paid", "Paid {price} {symbol}.";
    /// A line of the receipt.
    Seller = "seller", "Seller";
    /// A line of the receipt.
    Item = "item", "Purchase";
    /// A line of the receipt.
    Date = "date", "Date";
    /// A line of the receipt.
    Payer = "payer", "Payer";
    /// A line of the receipt.
    Transaction = "transaction", "Transaction";
    /// A link to a public page about the transaction.
    Explorer = "explorer", "Show the transaction";
    /// A button.
    Download = "download", "Download";
    /// A link to an answer at another address.
    Moved = "moved", "Open your answer";
    /// For an answer that is not text.
    File = "file", "Your answer is a file.";
    /// A button.
    Prove = "prove", "Sign as the payer with {wallet}";
    /// While the wallet asks for a signature.
    Proving = "proving", "Sign the message in your wallet. It costs nothing.";
    /// A heading above the passes that are accepted here.
    BuyPass = "buy_pass", "Or buy several answers at once";
    /// While a pass is shown.
    ShowsPass = "shows_pass", "Your answer is being fetched with your pass.";
    /// Above an answer.
    PaidByPass = "by_pass", "Your pass paid for this answer.";
    /// If the reply to a pass was lost or broke off.
    PassUnsure = "pass_unsure", "No whole answer arrived, but your pass may have paid for it. Trying again may charge it once more.";
    /// A line of the receipt.
    LeftOnPass = "on_pass", "Left on your pass";
    /// After a pass is bought, and if one is stored.
    PassKept = "pass_kept", "Your pass is kept in this browser. It pays on the pages of this seller.";
    /// A button, after a pass is bought, and if one is stored.
    UsePass = "use_pass", "Use it for your question";
    /// The title of a refusal, without script.
    NotYet = "not_yet", "Not delivered yet";
    /// The title of a refusal that a retry does not change.
    NotDelivered = "not_delivered", "Not delivered";
    /// A refusal of a signed payment.
    AuthorizationRefused = "error.authorization_refused", "The signed payment was refused, and nothing was taken.";
    /// A refusal.
    TxNotConfirmed = "error.tx_not_confirmed", "The network has not confirmed this transaction yet. Ask again in a few seconds. Do not pay again.";
    /// A refusal.
    TransferNotFound = "error.transfer_not_found", "This transaction does not pay this seller: it has no transfer of an accepted token to the recipient. Check the hash, and find out what was sent before you pay again.";
    /// A refusal.
    Insufficient = "error.insufficient_amount", "This transaction pays {paid}, and the price is {required}. Payments are not added up. Write to the seller before you pay again.";
    /// A refusal.
    PaymentBound = "error.payment_bound", "This payment was made with another purchase, or by another account. Its payer can redeem it with a signature.";
    /// A refusal.
    PayerProof = "error.payer_proof_required", "This seller asks who paid: sign with the wallet that sent the payment.";
    /// A refusal.
    WrongSigner = "error.invalid_signature", "The account that signed is not the one that paid. Choose the account that sent the payment.";
    /// A refusal.
    TooOld = "error.payment_too_old", "This payment is older than the seller accepts. Write to the seller.";
    /// A refusal.
    AlreadyUsed = "error.tx_already_used", "This transaction has bought an answer already. Nothing was taken now.";
    /// A refusal.
    AlreadyConsumed = "error.already_consumed", "This purchase was delivered already. Nothing was taken now.";
    /// A refusal.
    InProgress = "error.redemption_in_progress", "This payment is being redeemed right now. Ask again in a few seconds. Do not pay again.";
    /// A refusal.
    Malformed = "error.invalid_redemption", "This is not a transaction hash: it has 0x and 64 characters from 0 to 9 and a to f. Do not pay again.";
    /// A refusal.
    NotFound = "error.intent_not_found", "This payment can still be redeemed: ask again. Do not pay again.";
    /// A refusal.
    PaidLate = "error.intent_expired", "The payment came after its price had expired. It can still be redeemed: ask again. Do not pay again.";
}

impl Text {
    /// Returns the text for a problem of this code.
    pub(super) fn of_error(code: &str) -> Option<Self> {
        let of_code = |text: &&Self| text.key().strip_prefix("error.") == Some(code);
        Self::ALL.iter().find(of_code).copied()
    }
}

/// Reads a file with a line `key = words` for each text. Empty lines and lines that begin with `#` are ignored.
pub(super) fn read(lines: &str) -> impl Iterator<Item = Result<(Text, &str), ParseError>> {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (key, words) = line.split_once('=').ok_or(NO_LINE)?;
        let text = Text::ALL.iter().find(|text| text.key() == key.trim_end()).ok_or(UNKNOWN)?;
        let words = words.trim_start();
        if words.is_empty() { Err(NO_LINE) } else { Ok((*text, words)) }
    })
}

const NO_LINE: ParseError = ParseError::new("the texts of a page are lines `key = words`");
const UNKNOWN: ParseError = ParseError::new("a text of the page has one of the keys of `Page::ENGLISH`");

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::protocol::ProblemCode;

    #[test]
    fn keys_are_unique_and_those_of_errors_are_codes() {
        let keys: HashSet<_> = Text::ALL.iter().map(|text| text.key()).collect();
        assert_eq!(keys.len(), Text::ALL.len());
        for code in keys.iter().filter_map(|key| key.strip_prefix("error.")) {
            assert!(code.parse::<ProblemCode>().is_ok(), "{code}");
            assert!(Text::of_error(code).is_some());
        }
        assert_eq!(Text::of_error("no_such_code"), None);
    }

    #[test]
    fn the_english_file_is_read_as_it_was_written() {
        let read: Vec<_> = read(ENGLISH).map(Result::unwrap).collect();
        let all: Vec<_> = Text::ALL.iter().map(|text| (*text, text.english())).collect();
        assert_eq!(read, all);
    }

    #[test]
    fn a_line_has_a_key_and_words() {
        let of = |lines| read(lines).collect::<Result<Vec<_>, _>>();
        assert_eq!(of("# Italian\n\n  copy=Copia = copia \r\n").unwrap(), [(Text::Copy, "Copia = copia")]);
        for (lines, error) in
            [("copy", NO_LINE), ("copy = ", NO_LINE), ("coppy = Copia", UNKNOWN), ("= Copia", UNKNOWN)]
        {
            assert_eq!(of(lines).unwrap_err(), error, "{lines}");
        }
    }

    /// Each text that the script uses is in the table, and each text in the table is used.
    #[test]
    fn script_and_table_know_the_same_texts() {
        let script = concat!(
            include_str!("script/begin.js"),
            include_str!("script/memory.js"),
            include_str!("script/view.js"),
            include_str!("script/wallets.js"),
            include_str!("script/redeem.js"),
            include_str!("script/pass.js"),
            include_str!("script/answer.js"),
            include_str!("script/end.js"),
        );
        let document = concat!(include_str!("document.rs"), include_str!("layer.rs"));
        for text in Text::ALL {
            let said = script.contains(&format!("\"${}\"", text.key()))
                || document.contains(&format!("Text::{text:?}"))
                || text.key().starts_with("error.");
            assert!(said, "{text:?} is said nowhere");
        }
        for named in script.split("\"$").skip(1) {
            let key = named.split('"').next().unwrap();
            assert!(Text::ALL.iter().any(|text| text.key() == key), "{key} is no text");
        }
        for call in ["say(\"", "tell(\"", "wait(\""].iter().flat_map(|call| script.split(call).skip(1)) {
            assert!(call.starts_with('$'), "{} is no name of a text", call.split('"').next().unwrap());
        }
    }
}
