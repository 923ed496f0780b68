//! What may be at a ledger's path: one regular file, under one name.

use std::{fs::Permissions, os::unix::fs::PermissionsExt as _};

use super::*;

/// It is unsafe, and why.
fn unsafe_as(opened: Result<SqliteLedger, LedgerError>, says: &str) -> bool {
    let error = opened.unwrap_err();
    error.kind() == LedgerErrorKind::Unsafe && error.to_string().starts_with(says)
}

/// Each name has a write-ahead log of its own: what is sold by one is unknown to the other, and the file is corrupted.
#[tokio::test]
async fn a_file_of_two_names_sells_nothing() {
    let files = Files::new(0);
    let (path, other) = (files.path(0), files.path(1));
    let ledger = begun(&path).await;
    sell(&ledger, &claim(1, 1)).await;
    let lease = hold(&ledger, &claim(2, 2)).await;
    std::fs::hard_link(&path, &other).unwrap();

    for name in [&path, &other] {
        assert!(unsafe_as(SqliteLedger::open(name).await, "the ledger's file has a second name"));
        let unchecked = SqliteLedger::builder().run_migrations(false).open(name).await.unwrap();
        sells_nothing(&unchecked, &claim(1, 1)).await;
    }
    sells_nothing(&ledger, &claim(3, 3)).await;
    assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()));

    std::fs::remove_file(&other).unwrap();
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done), "it has one name again");
    assert_eq!(SqliteLedger::open(&path).await.map(drop), Ok(()));
}

/// A special file is neither opened nor changed.
#[tokio::test]
async fn a_special_file_is_refused_and_left_as_it_is() {
    let files = Files::new(0);
    let special = files.path(0);
    let made = |program: &str, rest: &[&str]| {
        Command::new(program).arg(&special).args(rest).output().unwrap().status.success()
    };
    assert!(made("mknod", &["c", "1", "3"]) || made("mkfifo", &[]), "no special file can be made");
    std::fs::set_permissions(&special, Permissions::from_mode(0o666)).unwrap();
    let link = files.path(1);
    std::os::unix::fs::symlink(&special, &link).unwrap();
    for path in [special.as_path(), &link, files.folder.path()] {
        let opened = tokio::time::timeout(PATIENT, SqliteLedger::open(path)).await.expect("it waits");
        assert!(unsafe_as(opened, "the ledger's path is no regular file"), "{path:?}");
    }
    assert_eq!(std::fs::metadata(&special).unwrap().permissions().mode() & 0o777, 0o666);
}
