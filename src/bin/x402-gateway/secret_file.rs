//! A file with a secret: a regular file that only its owner can read.

use std::{
    fs::{self, File, Metadata},
    io::Read as _,
    path::Path,
};

/// Reads a file. `what` describes it in errors.
///
/// # Errors
/// The error says what to do, without the file's content.
pub(crate) fn read(what: &str, path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unread = |error: std::io::Error| format!("cannot read {what} {shown}: {}", error.kind());
    // Checked before opening: opening a pipe would wait for its other end.
    check(&fs::symlink_metadata(path).map_err(unread)?, what, path)?;
    let mut file = File::open(path).map_err(unread)?;
    // Checked again: another file may have replaced it.
    check(&file.metadata().map_err(unread)?, what, path)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unread)?;
    Ok(text)
}

fn check(file: &Metadata, what: &str, path: &Path) -> Result<(), String> {
    let shown = path.display();
    if file.is_symlink() {
        return Err(format!("{what} {shown} is a link: name the file itself"));
    }
    if !file.is_file() {
        return Err(format!("{what} {shown} is no regular file"));
    }
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o077 != 0 {
        return Err(format!(
            "other users of this machine can read {what} {shown}: run `chmod 600 {shown}`, and change what it holds if they may have"
        ));
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn a_secret_is_read_from_a_file_of_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "s3cret").unwrap();
        symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        for open in [0o640, 0o604, 0o620, 0o644, 0o777] {
            mode(open);
            let said = read("the key file", &file).unwrap_err();
            assert!(said.contains("chmod 600") && said.contains("file") && !said.contains("s3cret"), "{said}");
        }
        for closed in [0o600, 0o400, 0o700] {
            mode(closed);
            assert_eq!(read("the key file", &file).as_deref(), Ok("s3cret"));
        }
        for (path, why) in [
            (link.as_path(), "is a link"),
            (&pipe, "regular file"),
            (folder.path(), "regular file"),
            (Path::new("/dev/null"), "regular file"),
            (Path::new("/nowhere"), "not found"),
        ] {
            let said = read("the key file", path).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
