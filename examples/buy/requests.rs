//! The requests of purchases that may be open, stored beside the journal. The journal has only a fingerprint of each
//! request, and without its request no purchase can be finished.
//!
//! Only the process that has the journal open writes here.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Write as _},
    path::{Path, PathBuf},
};

use super::order::Order;

/// A file with one request a line, readable by its owner alone. It does not exist while nothing is open.
pub(crate) struct Requests {
    path: PathBuf,
}

impl Requests {
    pub(crate) fn beside(journal: &Path) -> Self {
        Self { path: named(journal, ".requests.jsonl") }
    }

    /// Returns the requests, each once. A line that cannot be read was cut short by a crash, before anything was
    /// sent.
    ///
    /// # Errors
    /// Fails with the error of the file system.
    pub(crate) fn load(&self) -> io::Result<Vec<Order>> {
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut orders = Vec::new();
        for order in text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()) {
            if !orders.contains(&order) {
                orders.push(order);
            }
        }
        Ok(orders)
    }

    /// Stores a request durably, before anything is paid for it.
    ///
    /// # Errors
    /// Fails with the error of the file system.
    pub(crate) fn keep(&self, order: &Order) -> io::Result<()> {
        let mut orders = self.load()?;
        if orders.contains(order) {
            return Ok(());
        }
        orders.push(order.clone());
        self.write(&orders)
    }

    /// Deletes the requests that `keep` rejects.
    ///
    /// # Errors
    /// Fails with the error of the file system. Nothing is lost then.
    pub(crate) fn retain(&self, keep: impl Fn(&Order) -> bool) -> io::Result<()> {
        let mut orders = self.load()?;
        let before = orders.len();
        orders.retain(keep);
        match orders.len() {
            0 if before > 0 => fs::remove_file(&self.path),
            left if left < before => self.write(&orders),
            _ => Ok(()),
        }
    }

    /// Replaces the file by one with these requests.
    fn write(&self, orders: &[Order]) -> io::Result<()> {
        let new = named(&self.path, ".new");
        // A crash may have left it, perhaps readable for other users.
        let _ = fs::remove_file(&new);
        let mut file = private(&new)?;
        for order in orders {
            writeln!(file, "{}", serde_json::to_string(order)?)?;
        }
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        sync_folder(&self.path)
    }
}

fn named(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes the file's name survive a crash. Only on Unix can a folder be opened like a file.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::{super::order::Method, *};

    fn order(path: &str) -> Order {
        let url = format!("https://seller.example/{path}").parse().unwrap();
        Order::new(Method::Post, &url, Some(r#"{"query":"why"}"#)).unwrap()
    }

    #[test]
    fn requests_are_kept_once_and_until_they_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let requests = Requests::beside(&folder.path().join("journal"));
        assert!(requests.load().unwrap().is_empty());
        requests.retain(|_| false).unwrap();
        for path in ["a", "b", "a"] {
            requests.keep(&order(path)).unwrap();
        }
        assert!(requests.load().unwrap() == [order("a"), order("b")]);
        requests.retain(|kept| kept.name() == "POST /b").unwrap();
        assert!(requests.load().unwrap() == [order("b")]);
        requests.retain(|_| false).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    #[cfg(unix)]
    fn nobody_else_reads_them_and_a_line_that_was_cut_short_is_none() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let requests = Requests::beside(&folder.path().join("journal"));
        let whole = serde_json::to_string(&order("a")).unwrap();
        fs::write(&requests.path, format!("{whole}\n{}", &whole[..20])).unwrap();
        requests.keep(&order("b")).unwrap();
        assert!(requests.load().unwrap() == [order("a"), order("b")]);
        assert_eq!(fs::metadata(&requests.path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
