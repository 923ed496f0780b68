//! A keystore: a private key in a file, encrypted with a password.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use alloy::signers::local::PrivateKeySigner;

use super::secret_file;

/// The environment variable that holds the password, unless a file is named.
const VARIABLE: &str = "X402_KEYSTORE_PASSWORD";

/// Opens the keystore. This takes a second or two, because the format makes guessing passwords slow.
///
/// # Errors
/// The error does not repeat what was read.
pub(crate) async fn open(keystore: PathBuf, password_file: Option<&Path>) -> Result<PrivateKeySigner, String> {
    let password = password(password_file)?;
    if let Err(error) = fs::File::open(&keystore) {
        return Err(format!("cannot read the keystore {}: {}", keystore.display(), error.kind()));
    }
    let wrong = format!(
        "the keystore {} does not open: the password is another one, or this is no file of Web3 Secret Storage, \
         version 3",
        keystore.display()
    );
    let opening = move || PrivateKeySigner::decrypt_keystore(keystore, password).ok();
    tokio::task::spawn_blocking(opening).await.ok().flatten().ok_or(wrong)
}

fn password(file: Option<&Path>) -> Result<String, String> {
    let Some(file) = file else {
        return env::var(VARIABLE).map_err(|_| format!("name the keystore's password: --password-file, or {VARIABLE}"));
    };
    let mut text = secret_file::read("the password file", file)?;
    // The editor adds one end of line. Everything else may belong to the password.
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Created by Python's `eth_keyfile`.
    const KEYSTORE: &str = r#"{"address":"008AeEda4D805471dF9b2A5B0f38A0C3bCBA786b","crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"a46945e2bb75ad0ee6691f0dcf973cbc"},"ciphertext":"c01cd3d8fa2d7351476d8a0b04e7f9d4224b2650459a3bf39a6cee10f5f03a58","kdf":"scrypt","kdfparams":{"dklen":32,"n":4096,"r":8,"p":1,"salt":"f25ad133c85db9e62c91e69f942a1543"},"mac":"53c8b2fbe5e90d4b516e75786faae1d007390f115fb4ebc52c9ed3f21d74a8ec"},"id":"d5bff4ce-2c00-41b6-bcf9-6d8bf97b6946","version":3}"#;
    const KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";

    #[tokio::test]
    async fn a_keystore_opens_with_its_password_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (keystore, password) = (folder.path().join("keystore.json"), folder.path().join("password"));
        fs::write(&keystore, KEYSTORE).unwrap();
        fs::write(&password, "testpassword\r\n").unwrap();
        #[cfg(unix)]
        fs::set_permissions(&password, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let signer = open(keystore.clone(), Some(&password)).await.unwrap();
        assert_eq!(alloy::primitives::hex::encode(signer.to_bytes()), KEY);

        fs::write(&password, "testpassword \n").unwrap();
        let said = open(keystore.clone(), Some(&password)).await.map(|_| ()).unwrap_err();
        assert!(said.contains("another one") && !said.contains("testpassword"), "{said}");
        fs::write(&keystore, "{}").unwrap();
        assert!(open(keystore, Some(&password)).await.is_err());
        assert!(
            open(folder.path().join("nothing"), Some(&password)).await.is_err_and(|said| said.contains("not found"))
        );
    }
}
