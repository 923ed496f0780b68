//! The keys that seal quotes: given as text or as a file, stored beside the ledger, or as short-lived as the process.

use std::{
    io::{self, Write as _},
    path::Path,
};

use rand::{TryRngCore as _, rngs::OsRng};
use tempfile::NamedTempFile;
use tower_x402::protocol::SealingKeys;

use super::{failure::Failure, ledger::LedgerArg, secret_file};

pub(crate) const SHARED: &str = "replicas that share a ledger must share a key: make one with `openssl rand -hex 32`, and give it to each with --sealing-key";

/// The form of a key file, for an operator whose file has another.
const FORM: &str = "a key file has one key a line, 64 hexadecimal digits each: the first one seals, the others open what \
    they sealed before";

/// Parses one key in hexadecimal, or reads the keys of a file.
///
/// # Errors
/// The error does not repeat what was given: it may be a mistyped key.
pub(crate) fn given(text: &str) -> Result<SealingKeys, Failure> {
    if let Ok(keys) = SealingKeys::parse(text) {
        return Ok(keys);
    }
    let file = Path::new(text);
    if !file.exists() {
        return Err(Failure::usage("--sealing-key is neither 64 hexadecimal digits nor a file to read"));
    }
    let text = secret_file::read("the file of --sealing-key,", file).map_err(Failure::usage)?;
    lines(&text).map_err(|error| Failure::usage(format!("the file of --sealing-key: {error}")))
}

/// Parses one key a line, the sealing one first. Empty lines and lines that begin with `#` are ignored.
pub(crate) fn lines(text: &str) -> Result<SealingKeys, String> {
    let mut keys = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if SealingKeys::parse(line).is_err() {
            return Err(format!("line {} is no key; {FORM}", number + 1));
        }
        keys.push(line);
    }
    if keys.is_empty() { Err(format!("it has no key; {FORM}")) } else { join(&keys) }
}

fn join(keys: &[&str]) -> Result<SealingKeys, String> {
    SealingKeys::parse(&keys.join(",")).map_err(|error| error.to_string())
}

/// Returns keys that last as long as the ledger does.
///
/// # Errors
/// Fails if the key file cannot be used, or if replicas share the ledger and must be given a key.
pub(crate) fn made_for(ledger: &LedgerArg) -> Result<SealingKeys, Failure> {
    match ledger.key_file() {
        Some(file) => kept(&file),
        None if ledger.is_shared() => Err(Failure::usage(SHARED)),
        None => SealingKeys::random().map_err(Failure::environment),
    }
}

/// Reads the keys in the file, which is created if missing.
fn kept(file: &Path) -> Result<SealingKeys, Failure> {
    let shown = file.display();
    if !file.exists() {
        create(file).map_err(|error| Failure::environment(format!("cannot write the sealing key {shown}: {error}")))?;
    }
    let text = secret_file::read("the sealing key", file).map_err(Failure::environment)?;
    lines(&text).map_err(|error| {
        Failure::environment(format!("{shown}: {error}. Restore the file, or remove it to get a new key"))
    })
}

/// Creates a key file atomically, readable by its owner alone. If another process was faster, its key stays.
pub(crate) fn create(file: &Path) -> io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut key = [0; 32];
    OsRng.try_fill_bytes(&mut key).map_err(io::Error::other)?;
    let mut draft = NamedTempFile::new_in(folder)?;
    writeln!(draft, "{}", const_hex::encode(key))?;
    draft.as_file().sync_all()?;
    match draft.persist_noclobber(file) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf, thread};

    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn ledger(folder: &tempfile::TempDir) -> (LedgerArg, PathBuf) {
        let path = folder.path().join("ledger.db");
        let key = folder.path().join("ledger.db.key");
        (LedgerArg::Sqlite(path), key)
    }

    #[test]
    fn a_file_gets_one_key_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, file) = ledger(&folder);
        made_for(&ledger).unwrap();
        let key = fs::read_to_string(&file).unwrap();
        assert_eq!((key.len(), key.trim().len()), (65, 64));
        assert!(SealingKeys::parse(key.trim()).is_ok());
        made_for(&ledger).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), key);
        // No draft is left behind.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);

        let elsewhere = tempfile::tempdir().unwrap();
        let (other, other_file) = self::ledger(&elsewhere);
        made_for(&other).unwrap();
        assert_ne!(fs::read_to_string(other_file).unwrap(), key);
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (ledger, file) = ledger(&folder);
        made_for(&ledger).unwrap();
        assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn of_many_who_make_it_at_once_all_have_the_same() {
        for _ in 0..20 {
            let folder = tempfile::tempdir().unwrap();
            let (_, file) = ledger(&folder);
            let seen: Vec<String> = thread::scope(|scope| {
                let make = || {
                    create(&file).unwrap();
                    fs::read_to_string(&file).unwrap()
                };
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(seen.iter().all(|key| key.len() == 65 && *key == seen[0]), "{seen:?}");
        }
    }

    #[test]
    fn a_file_that_is_no_key_is_never_replaced_nor_shown() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, file) = ledger(&folder);
        fs::write(&file, &KEY[..62]).unwrap();
        #[cfg(unix)]
        fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let said = format!("{:?}", made_for(&ledger).unwrap_err());
        assert!(said.contains("ledger.db.key") && !said.contains(&KEY[..8]), "{said}");
        assert_eq!(fs::read_to_string(&file).unwrap(), &KEY[..62]);
        fs::write(&file, format!(" {KEY}\n")).unwrap();
        made_for(&ledger).unwrap();
    }

    #[test]
    fn a_key_is_given_itself_or_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), format!("{KEY}\n")).unwrap();
        for text in [KEY, &file.path().display().to_string()] {
            given(text).unwrap();
        }
        let said = format!("{:?}", given(&KEY[..62]).unwrap_err());
        assert!(!said.contains(&KEY[..8]), "{said}");
    }

    #[test]
    fn a_file_has_one_key_a_line() {
        let (new, old) = (KEY.replace("00", "ff"), KEY);
        let keys = lines(&format!("# since November\n{new}\r\n\n  {old}\n")).unwrap();
        assert_eq!(format!("{keys:?}"), "SealingKeys { keys: 2, .. }");
        for (text, said) in [
            (format!("{new}\n{}\n", &old[..63]), "line 2 is no key"),
            (format!("{new} {old}"), "line 1 is no key"),
            (String::new(), "it has no key"),
            (format!("{old}\n{old}"), "listed twice"),
        ] {
            let error = lines(&text).unwrap_err();
            assert!(error.contains(said) && !error.contains(&KEY[8..16]), "{error}");
            assert!(said == "listed twice" || error.contains("one key a line"), "{error}");
        }
    }
}
