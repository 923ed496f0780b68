//! The key of the account that pays: from a file or the environment. On the command line, every user of the machine
//! could read it, and in the place of URL or BODY, the seller would get it.

use std::{env, ffi::OsString, path::Path};

use alloy::{primitives::hex, signers::local::PrivateKeySigner};

use super::secret_file;

/// The environment variable that holds the key, unless a file is named.
const VARIABLE: &str = "X402_BUYER_KEY";

/// The flag that disables the check of URL and BODY.
pub(crate) const NO_CHECK: &str = "--no-key-check";

const MISPLACED: &str = "an argument has 64 hexadecimal digits, as a private key has, and arguments are no place for one: \
    write the key into a file for --key-file, or into the environment variable X402_BUYER_KEY. If it is none (a \
    transaction's hash, for instance), add --no-key-check";

/// A private key as text. It is never shown.
pub(crate) struct Key(String);

impl Key {
    /// Reads the key from the file, or else from the environment.
    ///
    /// # Errors
    /// The error does not repeat what was read.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, String> {
        let text = match file {
            Some(file) => secret_file::read("the key file", file)?,
            None => env::var(VARIABLE)
                .map_err(|_| format!("name the account that pays: --key-file, --keystore, or {VARIABLE}"))?,
        };
        let digits = digits(&text);
        if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("the key file, or X402_BUYER_KEY, holds one private key: 0x and 64 hexadecimal digits".into());
        }
        Ok(Self(digits.to_owned()))
    }

    /// Returns the key of a signer.
    pub(crate) fn of(signer: &PrivateKeySigner) -> Self {
        Self(hex::encode(signer.to_bytes()))
    }

    /// Returns the key's 64 digits.
    pub(crate) fn digits(&self) -> &str {
        &self.0
    }

    /// Refuses a text that would reveal the key to the seller.
    ///
    /// # Errors
    /// The error does not contain the key.
    pub(crate) fn is_not_in(&self, text: &str) -> Result<(), &'static str> {
        if text.to_ascii_lowercase().contains(&self.0.to_ascii_lowercase()) { Err(MISPLACED) } else { Ok(()) }
    }
}

fn digits(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix("0x").unwrap_or(text)
}

/// Refuses arguments if one of them could be a private key, except the hash that `--paid` takes.
///
/// # Errors
/// The error does not contain the argument.
pub(crate) fn is_none_of(args: &[OsString]) -> Result<(), &'static str> {
    if args.iter().any(|arg| arg == NO_CHECK) {
        return Ok(());
    }
    let mut hash = false;
    for arg in args {
        let arg = arg.to_string_lossy();
        let expected = hash || arg.starts_with("--paid=");
        hash = arg == "--paid";
        if !expected && has_key(&arg) {
            return Err(MISPLACED);
        }
    }
    Ok(())
}

/// Returns whether the text has a run of exactly 64 hexadecimal digits.
fn has_key(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_hexdigit()).any(|run| run.len() == 64)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const KEY: &str = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80";

    fn check(args: &[&str]) -> Result<(), &'static str> {
        is_none_of(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn a_key_is_found_wherever_it_stands() {
        for text in ["KEY", "0xKEY", "{\"a\":\"0xKEY\"}", "--key=0xKEY", "https://seller.example/KEY?x=1"] {
            let text = text.replace("KEY", KEY);
            assert_eq!(check(&["buy", "https://seller.example", &text]), Err(MISPLACED), "{text}");
            assert_eq!(check(&["buy", &text.to_uppercase()]), Err(MISPLACED), "{text}");
            assert_eq!(check(&["buy", "--key", &text, "--paid", KEY]), Err(MISPLACED), "{text}");
            assert_eq!(check(&["buy", &text, NO_CHECK]), Ok(()), "{text}");
        }
    }

    #[test]
    fn other_arguments_are_none() {
        let (longer, address) = (format!("{KEY}0"), &KEY[..40]);
        for text in [&longer, address, &KEY[1..], "{\"query\":\"why\"}", ""] {
            assert_eq!(check(&["buy", text]), Ok(()), "{text}");
        }
        assert_eq!(check(&["buy", "--paid", KEY, "x"]), Ok(()));
        assert_eq!(check(&["buy", &format!("--paid=0x{KEY}")]), Ok(()));
        assert_eq!(check(&["buy", "--paid", KEY, KEY]), Err(MISPLACED));
    }

    #[test]
    fn ones_own_key_is_never_sent() {
        let key = Key(KEY.to_owned());
        assert!(key.is_not_in("{}").is_ok());
        assert!(key.is_not_in(&format!("ff{}ff", KEY.to_uppercase())).is_err());
    }

    #[test]
    fn a_file_holds_one_key() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for text in [format!("{KEY}\n"), format!(" 0x{KEY}\r\n")] {
            fs::write(file.path(), text).unwrap();
            assert_eq!(Key::read(Some(file.path())).map(|key| key.0), Ok(KEY.to_owned()));
        }
        for text in [format!("0x{KEY}\n{KEY}"), KEY[..63].to_owned(), String::new(), "test test junk".to_owned()] {
            fs::write(file.path(), &text).unwrap();
            let said = Key::read(Some(file.path())).map(|_| ()).unwrap_err();
            assert!(said.contains("64 hexadecimal digits") && !said.contains(&KEY[..8]), "{said}");
        }
        assert!(Key::read(Some(Path::new("/nowhere/key"))).is_err());
    }
}
