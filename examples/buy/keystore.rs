//! A keystore: a private key in a file, under a password.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use alloy::signers::local::PrivateKeySigner;

/// Where the password is, unless a file is named.
const VARIABLE: &str = "X402_KEYSTORE_PASSWORD";

/// Opens it. To guess passwords is to be slow, so this takes a second or two.
///
/// # Errors
/// A sentence without what was read.
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
    let mut text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read the password file {}: {}", file.display(), error.kind()))?;
    // One end of line is the editor's. Anything else may belong to the password.
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.strip_suffix('\r').map_or(text.len(), str::len));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of the format's own description, with scrypt.
    const KEYSTORE: &str = r#"{"crypto":{"cipher":"aes-128-ctr","cipherparams":{"iv":"83dbcc02d8ccb40e466191a123791e0e"},"ciphertext":"d172bf743a674da9cdad04534d56926ef8358534d458fffccd4e6ad2fbde479c","kdf":"scrypt","kdfparams":{"dklen":32,"n":262144,"r":1,"p":8,"salt":"ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"},"mac":"2103ac29920d71da29f15d75b4a16dbe95cfd7ff8faea1056c33131d846e3097"},"id":"3198bc9c-6672-5ab3-d995-4942343ae5b6","version":3}"#;
    const KEY: &str = "7a28b5ba57c53603b0b07b56bba752f7784bf506fa95edc395f5cf6c7514fe9d";

    #[tokio::test]
    async fn a_keystore_opens_with_its_password_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (keystore, password) = (folder.path().join("keystore.json"), folder.path().join("password"));
        fs::write(&keystore, KEYSTORE).unwrap();
        fs::write(&password, "testpassword\r\n").unwrap();
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
