//! `AnyLedger`: an address is a ledger, or an error that keeps the address to itself.

use tempfile::TempDir;
use tower_x402::{
    ledger::{AnyLedger, Ledger as _, LedgerErrorKind, Maintenance as _, MemoryLedger, SalesBook as _},
    protocol::{ChainTime, Network},
};

const MARK: ChainTime = ChainTime::from_unix(1_795_280_000);

#[tokio::test]
async fn a_file_is_opened_again_with_what_it_remembers() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    for address in [format!("sqlite:{}", path.display()), format!("sqlite://{}", path.display())] {
        let ledger = AnyLedger::open(&address).await.unwrap();
        assert_eq!(ledger.begin(Network::BASE, MARK).await, Ok(MARK));
        assert!(ledger.announcements().is_some() && ledger.known(&[]).await.is_ok());
    }
    let again = AnyLedger::open(&format!("sqlite:{}", path.display())).await.unwrap();
    assert_eq!(again.low_water_mark(Network::BASE).await, Ok(Some(MARK)));
}

#[tokio::test]
async fn memory_has_no_book() {
    let opened = AnyLedger::open("memory").await.unwrap();
    for ledger in [opened, AnyLedger::from(MemoryLedger::new())] {
        assert_eq!(ledger.begin(Network::BASE, MARK).await, Ok(MARK));
        assert_eq!(ledger.known(&[]).await.unwrap_err().kind(), LedgerErrorKind::Other);
    }
}

#[tokio::test]
async fn what_cannot_be_opened_says_why_and_shows_no_password() {
    for (address, kind) in [
        ("", LedgerErrorKind::Setting),
        ("sqlite:", LedgerErrorKind::Setting),
        ("sqlite::memory:", LedgerErrorKind::Setting),
        ("mysql://seller:hunter2@127.0.0.1/x", LedgerErrorKind::Setting),
        ("/var/lib/hunter2.db", LedgerErrorKind::Setting),
        ("sqlite:/no/such/folder/hunter2.db", LedgerErrorKind::Unavailable),
        ("postgres://seller:hunter2@127.0.0.1:1/x", LedgerErrorKind::Unavailable),
        ("redis://seller:hunter2@127.0.0.1:1", LedgerErrorKind::Unavailable),
    ] {
        let error = AnyLedger::open(address).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{address}");
        let shown = format!("{error} {error:?} {:?}", std::error::Error::source(&error).map(ToString::to_string));
        assert!(!shown.contains("hunter2") && error.to_string().len() > 20, "{shown}");
    }
}
