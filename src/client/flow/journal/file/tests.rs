//! Tests of a journal on a real file: crashes, a second process, and time.

#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::{
    collections::BTreeMap,
    fs,
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use proptest::prelude::*;
use tempfile::TempDir;

use super::{disk::beside, *};
use crate::{
    client::{JournalPayment, PreparedTransfer, PurchaseId, PurchaseState, RETENTION},
    protocol::{Address, Amount, ChainTime, Network, TxHash},
};

/// Some time in the past.
const T0: u64 = 1_700_000_000;
const KEPT: u64 = RETENTION.as_secs();

fn entry(id: u8, at: u64, state: PurchaseState) -> JournalEntry {
    let hash = TxHash::new([id; 32]);
    let transfer =
        PreparedTransfer::signed(Address::new([1; 20]), Network::BASE, Address::new([3; 20]), 7, hash, "0x02f8");
    JournalEntry {
        id: PurchaseId::new([id; 16]),
        at: ChainTime::from_unix(at),
        state,
        host: "api.example".to_owned(),
        request: "POST /v1/\"insights\"\n".to_owned(),
        fingerprint: "00ff".repeat(8),
        intent: "intent".to_owned(),
        secret: Some("first intent".to_owned()),
        expiry: ChainTime::from_unix(at + 60),
        recipient: Address::new([2; 20]),
        network: Network::BASE,
        is_elsewhere: false,
        amount: Amount::from_base_units(490_000),
        decimals: 6,
        payment: JournalPayment::Transfer(vec![transfer]),
        transaction: Some(hash),
        settled: None,
        delivered: false,
        billed: 0,
        charged: None,
        is_pass: false,
    }
}

pub(super) fn paying(id: u8) -> JournalEntry {
    entry(id, T0, PurchaseState::Paying)
}

struct Place {
    _folder: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Place { path: folder.path().join("purchases.jsonl"), _folder: folder }
}

impl Place {
    async fn open(&self) -> FileJournal {
        FileJournal::open(&self.path).await.unwrap()
    }

    async fn holding(&self, entries: &[JournalEntry]) -> Vec<u8> {
        let journal = self.open().await;
        for entry in entries {
            journal.record(entry).await.unwrap();
        }
        drop(journal);
        self.bytes()
    }

    async fn entries(&self) -> Vec<JournalEntry> {
        self.open().await.load().await.unwrap()
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn lines(&self) -> usize {
        self.bytes().iter().filter(|byte| **byte == b'\n').count()
    }
}

#[tokio::test]
async fn the_last_state_of_each_is_there_again() {
    let place = place();
    let last = [entry(1, T0, PurchaseState::Redeeming), paying(2)];
    place.holding(&[paying(1), paying(2), last[0].clone()]).await;
    assert_eq!(place.entries().await, last);
    assert_eq!(place.lines(), 2, "what was replaced goes when it is opened");
    assert_eq!(place.entries().await, last);
}

#[tokio::test]
async fn one_that_was_settled_late_is_kept_for_its_time_from_then() {
    let late =
        JournalEntry { settled: Some(ChainTime::from_unix(T0 + 10 * KEPT)), ..entry(1, T0, PurchaseState::Answered) };
    let place = place();
    place.holding(std::slice::from_ref(&late)).await;
    place.holding(&[entry(2, T0 + 11 * KEPT - 1, PurchaseState::Answered)]).await;
    assert_eq!(place.entries().await[0], late);
    place.holding(&[entry(3, T0 + 11 * KEPT, PurchaseState::Answered)]).await;
    assert_eq!(place.entries().await.len(), 2);
}

#[tokio::test]
async fn what_was_written_before_secrets_were_kept_is_read() {
    let place = place();
    let old = String::from_utf8(place.holding(&[paying(1)]).await).unwrap();
    fs::write(&place.path, old.replacen("\"secret\":\"first intent\",", "", 1)).unwrap();
    assert_eq!(place.entries().await, [JournalEntry { secret: None, ..paying(1) }]);
}

#[tokio::test]
async fn a_line_cut_anywhere_is_as_if_it_had_never_been() {
    let place = place();
    let whole = place.holding(&[paying(1), paying(2)]).await;
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(whole.len() > first + 400);
    for end in first..whole.len() {
        fs::write(&place.path, &whole[..end]).unwrap();
        let journal = place.open().await;
        assert_eq!(journal.load().await.unwrap(), [paying(1)], "cut at {end}");
        assert_eq!(place.bytes(), whole[..first]);
        if end % 40 == 0 {
            journal.record(&paying(3)).await.unwrap();
            drop(journal);
            assert_eq!(place.entries().await, [paying(1), paying(3)], "cut at {end}");
        }
    }
    fs::write(&place.path, &whole).unwrap();
    assert_eq!(place.entries().await, [paying(1), paying(2)]);
}

#[tokio::test]
async fn zeros_where_a_line_was_to_be_are_cut_off() {
    let place = place();
    let mut bytes = place.holding(&[paying(1)]).await;
    bytes.extend([0; 300]);
    fs::write(&place.path, bytes).unwrap();
    assert_eq!(place.entries().await, [paying(1)]);
}

#[tokio::test]
async fn a_line_that_cannot_be_read_is_named_and_nothing_is_touched() {
    let place = place();
    let good = place.holding(&[paying(1)]).await;
    let text = String::from_utf8(good.clone()).unwrap();
    let other_version = text.replacen("\"version\":1", "\"version\":3", 1);
    let no_state = text.replacen("\"state\":\"paying\"", "\"state\":\"unheard\"", 1);
    assert!(other_version != text && no_state != text);
    for bad in
        ["\n", "{}\n", "null\n", &text[10..], &text[..40], &other_version, &no_state, "\u{0}\n", "\u{7f}\u{ff}\n"]
    {
        let bad = bad.trim_end_matches('\n').to_owned() + "\n";
        let bytes = [&good[..], bad.as_bytes(), &good].concat();
        fs::write(&place.path, &bytes).unwrap();
        let error = FileJournal::open(&place.path).await.unwrap_err();
        assert!(matches!(error, JournalError::Corrupt { line: 2 }), "{bad:?}: {error:?}");
        assert_eq!(place.bytes(), bytes);
    }
}

#[tokio::test]
async fn one_at_a_time_by_whatever_way() {
    let place = place();
    let journal = place.open().await;
    let locked = |path: PathBuf| async move { matches!(FileJournal::open(path).await, Err(JournalError::Locked)) };
    assert!(locked(place.path.clone()).await);
    assert!(locked(place.path.parent().unwrap().join(".").join("purchases.jsonl")).await);
    #[cfg(unix)]
    {
        let link = beside(&place.path, ".link");
        std::os::unix::fs::symlink(&place.path, &link).unwrap();
        assert!(locked(link).await, "by a link");
    }
    let clone = journal.clone();
    drop(journal);
    assert!(locked(place.path.clone()).await, "a clone has it");
    clone.record(&paying(1)).await.unwrap();
    drop(clone);
    assert_eq!(place.entries().await, [paying(1)]);
}

#[tokio::test]
#[cfg(unix)]
async fn only_the_owner_reads_it() {
    let place = place();
    fs::write(&place.path, "").unwrap();
    fs::set_permissions(&place.path, fs::Permissions::from_mode(0o644)).unwrap();
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    place.holding(&[paying(1), paying(1)]).await;
    assert_eq!(mode(&place.path), 0o600, "one that was there");
    place.entries().await;
    assert_eq!((mode(&place.path), place.lines()), (0o600, 1), "written anew");
    assert_eq!(mode(&beside(&place.path, ".lock")), 0o600);
}

/// Makes a character device, or a pipe where only an administrator may make devices.
#[cfg(unix)]
fn special_file(path: &std::path::Path) {
    let made = |program: &str, rest: &[&str]| {
        let outcome = std::process::Command::new(program).arg(path).args(rest).output().unwrap();
        outcome.status.success()
    };
    assert!(made("mknod", &["c", "1", "3"]) || made("mkfifo", &[]), "no special file can be made");
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
}

/// Regression: a journal opened at `/dev/null` as root locked every other program out of the device.
#[tokio::test]
#[cfg(unix)]
async fn a_special_file_is_refused_and_left_as_it_is() {
    let mode = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for end in ["", ".lock"] {
        let place = place();
        let special = beside(&place.path, end);
        special_file(&special);
        let link = place.path.with_extension("link");
        std::os::unix::fs::symlink(&place.path, &link).unwrap();
        for path in [&place.path, &link] {
            let refused = FileJournal::open(path).await.unwrap_err();
            assert!(matches!(refused, JournalError::NotAFile), "{end}: {refused}");
            assert_eq!(mode(&special), 0o666, "{end}");
        }
    }
}

#[tokio::test]
async fn closed_ones_are_kept_for_their_time_and_open_ones_for_ever() {
    let place = place();
    let open = [PurchaseState::Paying, PurchaseState::Redeeming, PurchaseState::Unspent];
    let closed = [PurchaseState::Answered, PurchaseState::Refused, PurchaseState::Void];
    let entries: Vec<_> = (0..).zip(open.into_iter().chain(closed)).map(|(id, state)| entry(id, T0, state)).collect();
    place.holding(&entries).await;
    place.holding(&[entry(9, T0 + KEPT - 1, PurchaseState::Answered)]).await;
    assert_eq!(place.entries().await.len(), 7, "within their time");
    place.holding(&[entry(9, T0 + KEPT, PurchaseState::Answered)]).await;
    let left = place.entries().await;
    assert_eq!(left.iter().map(|entry| entry.state.is_open()).collect::<Vec<_>>(), [true, true, true, false]);
    assert_eq!(place.lines(), 4);
    // A clock that was wrong once must not make the budget forget spending.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    place.holding(&[entry(10, now, PurchaseState::Answered), entry(11, u64::MAX / 2, PurchaseState::Answered)]).await;
    assert_eq!(place.entries().await.iter().filter(|entry| !entry.state.is_open()).count(), 2);
}

#[tokio::test]
async fn a_crash_while_it_is_written_anew_changes_nothing() {
    let place = place();
    let before = place.holding(&[paying(1), entry(1, T0, PurchaseState::Redeeming), paying(2)]).await;
    for half in [&b""[..], b"{\"version\":1,\"ent", &before[..before.len() / 2], b"garbage\n"] {
        fs::write(&place.path, &before).unwrap();
        fs::write(beside(&place.path, ".new"), half).unwrap();
        assert_eq!(place.entries().await, [entry(1, T0, PurchaseState::Redeeming), paying(2)]);
        assert!(!beside(&place.path, ".new").exists());
        assert_eq!(place.lines(), 2);
    }
}

#[tokio::test]
async fn what_cannot_be_written_anew_is_used_as_it_is() {
    let place = place();
    let before = place.holding(&[paying(1), entry(1, T0, PurchaseState::Redeeming)]).await;
    // A non-empty folder occupies the place of the new file.
    fs::create_dir_all(beside(&place.path, ".new").join("in the way")).unwrap();
    let journal = place.open().await;
    journal.record(&paying(2)).await.unwrap();
    drop(journal);
    assert!(place.bytes().starts_with(&before));
    assert_eq!(place.entries().await, [entry(1, T0, PurchaseState::Redeeming), paying(2)]);
}

#[tokio::test]
async fn a_file_in_use_stays_small_and_locked() {
    let place = place();
    let journal = place.open().await;
    let mut longest = 0;
    let mut big = entry(1, T0, PurchaseState::Paying);
    big.host = "h".repeat(64 * 1024);
    for at in 0..100 {
        big.at = ChainTime::from_unix(T0 + at);
        journal.record(&big).await.unwrap();
        longest = longest.max(fs::metadata(&place.path).unwrap().len());
    }
    assert!((900_000..1_200_000).contains(&longest), "{longest}");
    assert!(matches!(FileJournal::open(&place.path).await, Err(JournalError::Locked)));
    drop(journal);
    assert_eq!(place.entries().await, [big]);
}

#[tokio::test]
async fn a_file_that_is_deleted_or_written_by_others_is_given_up() {
    for spoil in [|path: &PathBuf| fs::remove_file(path).unwrap(), |path: &PathBuf| fs::write(path, "x").unwrap()] {
        let place = place();
        let journal = place.open().await;
        journal.record(&paying(1)).await.unwrap();
        spoil(&place.path);
        assert!(matches!(journal.record(&paying(2)).await, Err(JournalError::Broken)));
        assert!(matches!(journal.load().await, Err(JournalError::Broken)));
    }
}

#[tokio::test]
async fn a_record_that_nobody_waits_for_is_written() {
    let place = place();
    let journal = place.open().await;
    for id in 0..50 {
        let (first, second) = (entry(id, T0, PurchaseState::Paying), entry(id, T0, PurchaseState::Redeeming));
        // Polled once, then dropped: the second record must still be written after it.
        let _ = tokio::time::timeout(Duration::ZERO, journal.record(&first)).await;
        journal.record(&second).await.unwrap();
    }
    let _ = tokio::time::timeout(Duration::ZERO, journal.record(&paying(99))).await;
    let entries = journal.load().await.unwrap();
    assert_eq!(entries.len(), 51);
    assert!(entries[..50].iter().all(|entry| entry.state == PurchaseState::Redeeming));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_share_the_disk_and_are_all_there() {
    let place = place();
    let journal = place.open().await;
    let tasks: Vec<_> = (0..200_u8)
        .map(|id| {
            let journal = journal.clone();
            tokio::spawn(async move { journal.record(&paying(id)).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    drop(journal);
    assert_eq!(place.entries().await.len(), 200);
}

#[tokio::test]
async fn an_error_names_no_secret_and_a_missing_folder_is_one() {
    let place = place();
    let error = FileJournal::open(place.path.join("nowhere").join("file")).await.unwrap_err();
    assert!(matches!(error, JournalError::Io(_)), "{error:?}");
    assert_eq!(format!("{:?}", place.open().await), "FileJournal { .. }");
}

#[derive(Clone, Debug)]
enum Step {
    Record(u8, u64, PurchaseState),
    Reopen,
    Tear(u8),
}

/// A runtime ends before it begins a write: that write fails, and later ones do not wait for it.
#[test]
fn a_runtime_that_ends_does_not_block_the_next_one() {
    let runtime =
        || tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let place = place();
    let journal = first.block_on(place.open());
    let (go, wait) = std::sync::mpsc::channel::<()>();
    first.block_on(async {
        tokio::task::spawn_blocking(move || wait.recv());
        let _ = tokio::time::timeout(Duration::ZERO, journal.record(&paying(1))).await;
    });
    first.shutdown_background();
    go.send(()).unwrap();
    let recorded = async { tokio::time::timeout(Duration::from_secs(5), journal.record(&paying(2))).await };
    let _ = second.block_on(recorded).expect("an answer");
    second.block_on(journal.record(&paying(3))).unwrap();
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let states = [
        PurchaseState::Paying,
        PurchaseState::Redeeming,
        PurchaseState::Unspent,
        PurchaseState::Answered,
        PurchaseState::Refused,
        PurchaseState::Void,
    ];
    let record = (0..6_u8, prop::sample::select(states.to_vec()))
        .prop_map(|(id, state)| Step::Record(id, T0 + u64::from(id) * (KEPT / 3 + 1), state));
    prop::collection::vec(
        prop_oneof![6 => record, 1 => Just(Step::Reopen), 1 => any::<u8>().prop_map(Step::Tear)],
        0..40,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// After any sequence of steps, every entry that must be kept is there in its last recorded state, and no others
    /// are.
    #[test]
    fn it_is_a_map_that_survives(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let place = place();
            let mut journal = Some(place.open().await);
            let mut model = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Record(id, at, state) => {
                        let entry = entry(id, at, state);
                        journal.as_ref().unwrap().record(&entry).await.unwrap();
                        model.insert(entry.id, entry);
                    }
                    Step::Reopen => {
                        drop(journal.take());
                        journal = Some(place.open().await);
                    }
                    Step::Tear(length) => {
                        drop(journal.take());
                        let mut torn = Vec::new();
                        format::write(&mut torn, &paying(200)).unwrap();
                        torn.truncate((length as usize).min(torn.len() - 1));
                        let mut bytes = place.bytes();
                        bytes.extend(torn);
                        fs::write(&place.path, bytes).unwrap();
                        journal = Some(place.open().await);
                    }
                }
                let newest = model.values().map(JournalEntry::counts_from).max().unwrap_or(ChainTime::from_unix(0));
                model.retain(|_, entry| entry.is_kept_at(newest));
                let loaded = journal.as_ref().unwrap().load().await.unwrap();
                prop_assert!(loaded.iter().eq(model.values()));
            }
            Ok(())
        })?;
    }
}
