//! `Log`: a write-ahead log. It appends to a file atomically.

use std::io;

use crate::client::JournalError;

/// The operations that a log needs of a file. Tests use one that fails.
pub(super) trait Storage {
    /// Returns the file's length.
    fn length(&self) -> io::Result<u64>;
    /// Appends to the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns once all content would survive a crash.
    fn sync(&mut self) -> io::Result<()>;
    /// Truncates the file to `length`.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

/// Appends to a file, and tracks where it ends.
#[derive(Debug)]
pub(super) struct Log<S> {
    storage: S,
    length: u64,
    broken: bool,
}

impl<S: Storage> Log<S> {
    /// Creates a log on a file whose last complete line ends at `length`.
    pub(super) fn new(storage: S, length: u64) -> Self {
        Self { storage, length, broken: false }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Allows no further additions.
    pub(super) fn give_up(&mut self) {
        self.broken = true;
    }

    /// Appends durably. After an error nothing was added, or the log is broken.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), JournalError> {
        if self.broken {
            return Err(JournalError::Broken);
        }
        match self.storage.length() {
            Ok(length) if length == self.length => {}
            // Another program wrote, truncated or removed the file.
            _ => return Err(self.breaks()),
        }
        if let Err(error) = self.storage.append(bytes) {
            self.broken = self.storage.cut(self.length).is_err();
            return Err(error.into());
        }
        if let Err(error) = self.storage.sync() {
            // The content of the disk is now unknown, and another sync would not tell.
            self.broken = true;
            return Err(error.into());
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn breaks(&mut self) -> JournalError {
        self.broken = true;
        JournalError::Broken
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind::StorageFull;

    use super::*;

    /// A disk in memory with limited space.
    #[derive(Default)]
    struct Small {
        bytes: Vec<u8>,
        room: usize,
        cannot_sync: bool,
        cannot_cut: bool,
    }

    fn ok_unless(fails: bool) -> io::Result<()> {
        if fails { Err(StorageFull.into()) } else { Ok(()) }
    }

    impl Storage for Small {
        fn length(&self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
            let fits = bytes.len().min(self.room - self.bytes.len());
            self.bytes.extend_from_slice(&bytes[..fits]);
            ok_unless(fits < bytes.len())
        }

        fn sync(&mut self) -> io::Result<()> {
            ok_unless(self.cannot_sync)
        }

        fn cut(&mut self, length: u64) -> io::Result<()> {
            ok_unless(self.cannot_cut)?;
            self.bytes.truncate(length as usize);
            Ok(())
        }
    }

    fn log(room: usize) -> Log<Small> {
        Log::new(Small { room, ..Small::default() }, 0)
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_works_again_with_room() {
        let mut log = log(10);
        log.append(b"one\n").unwrap();
        assert!(matches!(log.append(b"second\n"), Err(JournalError::Io(_))));
        assert_eq!(log.storage.bytes, b"one\n");
        log.append(b"2\n").unwrap();
        log.storage.room = 100;
        log.append(b"third\n").unwrap();
        assert_eq!(log.storage.bytes, b"one\n2\nthird\n");
        assert_eq!(log.length(), 12);
    }

    #[test]
    fn what_cannot_be_undone_breaks_it() {
        let mut log = log(5);
        log.storage.cannot_cut = true;
        assert!(matches!(log.append(b"second\n"), Err(JournalError::Io(_))));
        log.storage.room = 100;
        log.storage.cannot_cut = false;
        assert!(matches!(log.append(b"third\n"), Err(JournalError::Broken)));
        assert_eq!(log.storage.bytes, b"secon", "a torn line stays the last");
    }

    #[test]
    fn a_failed_sync_breaks_it() {
        let mut log = log(100);
        log.storage.cannot_sync = true;
        assert!(matches!(log.append(b"one\n"), Err(JournalError::Io(_))));
        log.storage.cannot_sync = false;
        assert!(matches!(log.append(b"two\n"), Err(JournalError::Broken)));
        assert!(log.is_broken());
    }

    #[test]
    fn another_writer_breaks_it() {
        let mut log = log(100);
        log.append(b"one\n").unwrap();
        log.storage.bytes.clear();
        assert!(matches!(log.append(b"two\n"), Err(JournalError::Broken)));
        assert_eq!(log.storage.bytes, b"");
    }
}
