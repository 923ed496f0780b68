//! The ledger's questions to the server.

use std::{collections::HashMap, sync::atomic::Ordering, time::Duration};

use ::redis as driver;
use driver::{ErrorKind, FromRedisValue, RedisResult, Script, ServerErrorKind, aio::ConnectionManager, cmd, pipe};
use tokio::time::timeout;

use super::{
    super::{
        AccountLedger, Announcements, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, LedgerErrorKind,
        RenewOutcome, ReserveOutcome, Sale, Settling, answer_space, events, last_sale,
    },
    connection::code,
    error::{EVICTS, NOT_DURABLE, POLICY_UNKNOWN},
    handle::RedisLedger,
    words::{NAME, chain, hex, millis, name, recorded, seconds, word},
};
use crate::{
    ledger::stored::transaction,
    protocol::{ChainTime, IntentKey, Network, PaymentId},
};

/// How much longer several questions together may take than one.
const SLACK: Duration = Duration::from_millis(50);

impl Ledger for RedisLedger {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.begin, &[chain(network), seconds(now)]).await?;
        self.inner.begun.store(true, Ordering::Relaxed);
        word(&answer, &[("done", ())])?;
        let mark = answer.get(1).and_then(|mark| mark.parse().ok());
        mark.map(ChainTime::from_unix).ok_or(LedgerError::incompatible())
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let permit = async {
            match claim.is_unproven() {
                true => self.inner.unproven.acquire().await.map(Some),
                false => Ok(None),
            }
        };
        let permit = timeout(self.inner.connection.time_limit(), permit).await;
        let Ok(Ok(_permit)) = permit else { return Err(LedgerError::unavailable()) };
        let mut words = recorded(&self.inner.last_sales.get());
        words.extend([hex(claim.intent()), claim.resource().to_owned(), millis(claim.lease())]);
        words.push(claim.purchase().map_or_else(String::new, |purchase| const_hex::encode(purchase.as_bytes())));
        for paid in claim.payments() {
            let keep_until = claim.keep_until(paid);
            let state = if paid.is_settled() { "settled" } else { "unsettled" };
            let times = [paid.time(), keep_until].map(seconds);
            words.push(paid.id().to_string());
            words.extend(times);
            words.push(state.to_owned());
        }
        let answer: Vec<String> = self.ask(&self.inner.scripts.reserve, &words).await?;
        let [why, number, expired, grant @ ..] = answer.as_slice() else {
            return Err(LedgerError::incompatible());
        };
        let [number, expired] = [number, expired].map(|text| text.parse::<u64>().unwrap_or(0));
        events::expired(expired);
        let retry_after = Duration::from_millis(number);
        Ok(match why.as_str() {
            "granted" => {
                let chosen = usize::try_from(number).ok().and_then(|index| claim.payments().get(index));
                let fence = grant.first().and_then(|fence| fence.parse().ok());
                let settling = grant.get(1..4).map(begun).transpose()?;
                let (Some(paid), Some(fence)) = (chosen, fence) else { return Err(LedgerError::incompatible()) };
                let lease = Lease::new(claim, paid, fence).with_settling(settling);
                events::reserved(&lease);
                ReserveOutcome::Granted(lease)
            }
            "intent consumed" => ReserveOutcome::IntentConsumed,
            "payment used" => ReserveOutcome::PaymentUsed,
            "purchase consumed" => ReserveOutcome::PurchaseConsumed,
            "intent held" => ReserveOutcome::IntentHeld { retry_after },
            "busy" => ReserveOutcome::Busy { retry_after },
            "before memory" => ReserveOutcome::BeforeMemory,
            _ => return Err(LedgerError::incompatible()),
        })
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        let words = name(lease, [millis(lease.length())]);
        let answer: Vec<String> = self.ask(&self.inner.scripts.renew, &words).await?;
        word(&answer, &[("done", RenewOutcome::Held), ("lease lost", RenewOutcome::LeaseLost)])
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        let transaction = settling.transaction.map_or_else(String::new, |transaction| transaction.to_string());
        // The head is passed as it is: the scripts only store it, and Lua could not represent a head that marks a
        // settler's confirmation.
        let (head, keep_until) = (settling.head.unix().to_string(), seconds(lease.keep_until()));
        let begun = [millis(lease.length()), const_hex::encode(settling.request), head, transaction, keep_until];
        let answer = self.ask_for_good(&self.inner.scripts.settling, &name(lease, begun), None).await?;
        word(&answer, &[("done", RenewOutcome::Held), ("lease lost", RenewOutcome::LeaseLost)])
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.not_settled, &name(lease, [])).await?;
        word(&answer, &[("done", ()), ("lease lost", ())])
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let paid = lease.payment();
        let book = [
            ("chain_id", paid.network().chain_id().to_string()),
            ("tx_hash", transaction(paid).to_string()),
            ("log_position", paid.position().unwrap_or_default().to_string()),
            ("payer", paid.payer().to_string()),
            ("recipient", paid.recipient().to_string()),
            ("token", paid.token().to_string()),
            ("amount", paid.amount().to_string()),
            ("block_number", paid.block_number().unwrap_or_default().to_string()),
        ];
        let since = lease
            .settled_since()
            .map(|settled| [("block_time", seconds(settled.time())), ("keep_until", seconds(lease.keep_until()))]);
        let maximum = lease.maximum().map(|maximum| ("maximum", maximum.to_string()));
        // The last word is the time until which the sale is kept.
        let book = book.into_iter().chain(maximum).chain(since.into_iter().flatten());
        let announce = if lease.is_to_announce() { "announce" } else { "" };
        let book = book.flat_map(|(field, value)| [field.to_owned(), value]);
        let words = name(lease, std::iter::once(announce.to_owned()).chain(book));
        let answer = self.ask_for_good(&self.inner.scripts.commit, &words, KeptAnswer::to_keep(answer)).await?;
        if answer.first().is_some_and(|word| word == "done") {
            events::consumed(lease);
        }
        let outcome = word(
            &answer,
            &[
                ("done", CommitOutcome::Done),
                ("done before", CommitOutcome::Done),
                ("lease lost", CommitOutcome::LeaseLost),
            ],
        )?;
        if outcome == CommitOutcome::Done {
            self.inner.last_sales.note(lease);
        }
        Ok(outcome)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.release, &name(lease, [])).await?;
        if word(&answer, &[("done", true), ("lease lost", false)])? {
            events::released(lease);
        }
        Ok(())
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        let mut told: Vec<Vec<u8>> = self.ask(&self.inner.scripts.consumed, &[hex(intent)]).await?;
        let consumed = word(&told, &[("yes", true), ("no", false)])?;
        let answer = told.drain(..).nth(1).map(Into::into);
        Ok(consumed.then(|| Sale::new().with_answer(answer)))
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        Ok(self.begun_among(intent, &[payment]).await?.map(|(_, begun)| begun))
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        let told: Vec<String> = self.ask(&self.inner.scripts.begun, &[hex(intent)]).await?;
        if !word(&told, &[("yes", true), ("no", false)])? {
            return Ok(None);
        }
        let [_, payment, record @ ..] = told.as_slice() else { return Err(LedgerError::incompatible()) };
        let payment: PaymentId = payment.parse().map_err(|_| LedgerError::incompatible())?;
        if !payments.contains(&payment) {
            return Ok(None);
        }
        Ok(Some((payment, begun(record)?)))
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.check().await.map_err(|error| match error.kind() {
            LedgerErrorKind::Unsafe => {
                tracing::error!(reason = %error, "the ledger's server is misconfigured");
                LedgerError::unavailable()
            }
            _ => error,
        })
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        let mut sum = 0;
        loop {
            let answer: Vec<String> = self.ask(&self.inner.scripts.sweep, &[chain(network), seconds(head)]).await?;
            let [_, expired, forgotten, ended] = answer.as_slice() else { return Err(LedgerError::incompatible()) };
            let [expired, forgotten, ended] =
                [expired, forgotten, ended].map(|number| number.parse::<u64>().unwrap_or(0));
            events::expired(expired);
            events::forgotten(forgotten);
            if expired == 0 && forgotten == 0 && ended == 0 {
                return Ok(sum);
            }
            sum += forgotten;
        }
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        Some(self.inner.answer_bytes)
    }
}

impl RedisLedger {
    /// Asks one question, and returns the words of the answer.
    pub(super) async fn ask<W>(&self, script: &Script, words: &[String]) -> Result<Vec<W>, LedgerError>
    where
        W: FromRedisValue + AsRef<[u8]>,
    {
        let key = &self.inner.key;
        let call = |mut connection: ConnectionManager| async move {
            script.key(key).arg(words).invoke_async(&mut connection).await
        };
        self.usable(self.inner.connection.ask(call).await?)
    }

    /// Asks a question whose write must last: if replicas are configured, enough of them must have it. With an answer
    /// to keep, the question is a commit, which keeps the answer unless memory is short.
    pub(super) async fn ask_for_good(
        &self,
        script: &Script,
        words: &[String],
        answer: Option<&KeptAnswer>,
    ) -> Result<Vec<String>, LedgerError> {
        let scripts = &self.inner.scripts;
        let connection = self.inner.replicated.as_ref().map_or(&self.inner.connection, |own| &own.connection);
        let call = |mut connection: ConnectionManager| async move {
            if let Some(answer) = answer {
                match self.written(&mut connection, &scripts.keep, words, Some(answer)).await {
                    Err(error) if code(&error).as_deref() == Some("OOM") => {}
                    Ok((told, _)) if told.first().is_some_and(|word| word == "no room") => {}
                    told => return told,
                }
                answer_space::is_short();
            }
            self.written(&mut connection, script, words, None).await
        };
        let (told, have) = connection.ask(call).await?;
        let told = self.usable(told)?;
        if let Some(replicated) = &self.inner.replicated
            && have < replicated.replicas
        {
            tracing::warn!(have, "what was written has not reached enough replicas in time");
            return Err(LedgerError::unavailable());
        }
        Ok(told)
    }

    /// Returns the words of the answer, and the number of replicas that have the write, if replicas are configured.
    async fn written(
        &self,
        connection: &mut ConnectionManager,
        script: &Script,
        words: &[String],
        answer: Option<&KeptAnswer>,
    ) -> RedisResult<(Vec<String>, u32)> {
        let mut both = pipe();
        let (lease, rest) = words.split_at(NAME.min(words.len()));
        let command = both.cmd("EVALSHA").arg(script.get_hash()).arg(1).arg(&self.inner.key).arg(lease);
        if let Some(answer) = answer {
            command.arg(millis(answer.keep_for())).arg(self.inner.answer_bytes).arg(&answer.content()[..]);
        }
        command.arg(rest);
        if let Some(replicated) = &self.inner.replicated {
            // Directly after the write on the same connection: `WAIT` counts the replicas that have that connection's
            // last write.
            both.cmd("WAIT").arg(replicated.replicas).arg(millis(replicated.wait));
        }
        for again in [true, false] {
            let told = match self.inner.replicated {
                Some(_) => both.query_async(connection).await,
                None => both.query_async(connection).await.map(|(told,)| (told, 0)),
            };
            match told {
                Err(error) if again && error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                    script.load_async(connection).await?;
                }
                told => return told,
            }
        }
        Err((ErrorKind::Client, "the script is gone again").into())
    }

    fn usable<W: AsRef<[u8]>>(&self, answer: Vec<W>) -> Result<Vec<W>, LedgerError> {
        match answer.first().map(AsRef::as_ref) {
            Some(b"not begun") => Err(self.inner.not_begun()),
            Some(b"lost") => {
                last_sale::is_unknown();
                Err(LedgerError::unavailable())
            }
            Some(b"incompatible") | None => Err(LedgerError::incompatible()),
            Some(_) => Ok(answer),
        }
    }

    /// Checks that the server is fit for a ledger, can be written to, and has not lost the ledger.
    pub(super) async fn check(&self) -> Result<(), LedgerError> {
        let check = async {
            if !self.inner.evicts {
                let policy = self.inner.connection.ask(eviction_policy).await?;
                match policy.as_deref() {
                    Some("noeviction") => {}
                    Some(_) => return Err(EVICTS),
                    None => return Err(POLICY_UNKNOWN),
                }
            }
            if self.inner.durable && !self.durability().await?.is_durable() {
                return Err(NOT_DURABLE);
            }
            let answer: Vec<String> =
                self.ask(&self.inner.scripts.health, &recorded(&self.inner.last_sales.get())).await?;
            if !word(&answer, &[("begun", true), ("fresh", false)])? && self.inner.begun.load(Ordering::Relaxed) {
                return Err(self.inner.not_begun());
            }
            Ok(())
        };
        // A little longer than one question takes, so that a hanging connection is noticed, and replaced.
        timeout(self.inner.connection.time_limit() + SLACK, check).await.unwrap_or(Err(LedgerError::unavailable()))
    }
}

/// The server's eviction policy, if it reports one.
async fn eviction_policy(mut connection: ConnectionManager) -> RedisResult<Option<String>> {
    let mut config = cmd("CONFIG");
    config.arg("GET").arg("maxmemory-policy");
    match config.query_async::<HashMap<String, String>>(&mut connection).await {
        Ok(found) if !found.is_empty() => return Ok(found.into_values().next()),
        Err(error) if !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => return Err(error),
        // Hosted servers forbid or rename the command.
        Ok(_) | Err(_) => {}
    }
    match cmd("INFO").arg("memory").query_async::<String>(&mut connection).await {
        Ok(info) => Ok(info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")).map(str::to_owned)),
        Err(error) if !matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension) => Err(error),
        Err(_) => Ok(None),
    }
}

/// Parses the record of a settlement: the request's digest, head, and transaction, which may be empty.
fn begun(words: &[String]) -> Result<Settling, LedgerError> {
    let [request, head, transaction] = words else { return Err(LedgerError::incompatible()) };
    let request = const_hex::decode_to_array(request).map_err(|_| LedgerError::incompatible())?;
    let head = head.parse().map(ChainTime::from_unix).map_err(|_| LedgerError::incompatible())?;
    let begun = Settling::new(request, head);
    if transaction.is_empty() {
        return Ok(begun);
    }
    transaction.parse().map(|transaction| begun.with_transaction(transaction)).map_err(|_| LedgerError::incompatible())
}
