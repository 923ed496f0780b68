//! `init`: a commented configuration, and the keys that it names.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use rand::{TryRngCore as _, rngs::OsRng};
use tempfile::NamedTempFile;
use tower_x402::{alloy::signers::local::PrivateKeySigner, protocol::Address};

use super::{failure::Failure, keys};

const TEMPLATE: &str = include_str!("gateway.toml");
/// The template's placeholder for the recipient's address.
const RECIPIENT: &str = "0xRECIPIENT";

/// Writes the files. If one of them exists already, none is written.
///
/// # Errors
/// Fails if a file exists or cannot be written.
pub(crate) fn init(config: &Path, recipient: Option<Address>) -> Result<(), Failure> {
    let folder = config.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let [seal, settle] = ["seal.key", "settle.key"].map(|name| folder.join(name));
    for file in [config, &seal, &settle] {
        if file.symlink_metadata().is_ok() {
            return Err(Failure::usage(format!("{} is there already; nothing was written", file.display())));
        }
    }
    let signer = settling_key()?;
    keys::create(&seal).map_err(|error| unwritten(&seal, &error))?;
    create(&settle, &format!("0x{}\n", const_hex::encode(signer.to_bytes())))?;
    let recipient = recipient.map(|recipient| recipient.to_string());
    create(config, &TEMPLATE.replace(RECIPIENT, recipient.as_deref().unwrap_or(RECIPIENT)))?;
    let told = told(config, &seal, &settle, &signer.address().to_string(), recipient.is_some());
    io::stdout()
        .write_all(told.as_bytes())
        .map_err(|error| Failure::environment(format!("cannot write: {}", error.kind())))
}

fn settling_key() -> Result<PrivateKeySigner, Failure> {
    let mut key = [0; 32];
    OsRng.try_fill_bytes(&mut key).map_err(Failure::environment)?;
    PrivateKeySigner::from_slice(&key).map_err(Failure::environment)
}

fn told(config: &Path, seal: &Path, settle: &Path, address: &str, is_complete: bool) -> String {
    let (config, seal, settle) = (config.display(), seal.display(), settle.display());
    let first = if is_complete { "Adapt" } else { "Write your address and" };
    let adapt = if is_complete { "" } else { " adapt" };
    format!(
        "{config}  the configuration, with comments\n\
         {seal}  the key that seals quotes; replicas share it\n\
         {settle}  the key of {address}, which settles signed payments once it owns some ether and settle_key_file names it\n\n\
         {first}{adapt} {config}, then run: x402-gateway --config {config} --check\n"
    )
}

/// Creates a file atomically, readable by its owner alone.
///
/// # Errors
/// Fails if the file exists or cannot be written.
pub(crate) fn create(file: &Path, text: &str) -> Result<(), Failure> {
    let write = || {
        let folder: PathBuf = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => ".".into(),
        };
        let mut draft = NamedTempFile::new_in(folder)?;
        draft.write_all(text.as_bytes())?;
        draft.as_file().sync_all()?;
        draft.persist_noclobber(file).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| unwritten(file, &error))
}

fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot write {}: {}", file.display(), error.kind()))
}
