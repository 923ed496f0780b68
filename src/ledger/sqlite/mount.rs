//! Detects a file that was mounted into a container without the folder of its companion files.

use std::path::Path;

/// The log lies beside the file: two containers that share only the file have a log each, and neither sees the other's
/// sales. Returns `false` if Linux does not tell, and on other systems.
#[cfg(target_os = "linux")]
pub(super) fn is_mounted_alone(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let (Ok(path), Ok(mounts)) = (std::fs::canonicalize(path), std::fs::read("/proc/self/mountinfo")) else {
        return false;
    };
    is_mount_point(path.as_os_str().as_bytes(), &mounts)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_mounted_alone(_: &Path) -> bool {
    false
}

/// Whether something is mounted at the path itself, by the text of `/proc/self/mountinfo`: each line's fifth field.
#[cfg(any(target_os = "linux", test))]
fn is_mount_point(path: &[u8], mounts: &[u8]) -> bool {
    let mut points = mounts.split(|byte| *byte == b'\n').filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.any(|point| unescaped(point) == path)
}

/// Decodes a field: blanks, line ends and backslashes are written as a backslash and three octal digits.
#[cfg(any(target_os = "linux", test))]
fn unescaped(field: &[u8]) -> Vec<u8> {
    let (mut text, mut rest) = (Vec::with_capacity(field.len()), field);
    loop {
        rest = match rest {
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', rest @ ..] => {
                text.push(((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'));
                rest
            }
            [byte, rest @ ..] => {
                text.push(*byte);
                rest
            }
            [] => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container's mount table.
    const MOUNTS: &str = r"1502 1390 0:312 / / rw,relatime master:311 - overlay overlay rw,lowerdir=/var/lib/l/A:/var/lib/l/B
1503 1502 0:315 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1511 1502 8:1 /srv/shop /data rw,relatime - ext4 /dev/sda1 rw
1512 1502 8:1 /srv/shop/ledger.db /srv/ledger.db rw,relatime shared:7 master:2 - ext4 /dev/sda1 rw
1513 1502 8:1 /srv/odd /srv/my\040shop\011a\134b\012c.db rw - ext4 /dev/sda1 rw
1514 1502 8:1 /srv/x /srv/caf\303\251.db rw - ext4 /dev/sda1 rw
1515 1502 8:1 /srv/y /srv/half\04 rw - ext4 /dev/sda1 rw
";

    #[test]
    fn a_mount_point_is_told_by_the_fifth_field() {
        for (path, is) in [
            ("/srv/ledger.db", true),
            ("/srv/my shop\ta\\b\nc.db", true),
            ("/srv/café.db", true),
            ("/srv/half\\04", true),
            ("/data", true),
            ("/data/ledger.db", false),
            ("/srv/shop/ledger.db", false),
            ("/srv/ledger.db-wal", false),
            ("/srv/ledger", false),
            ("/srv/my\\040shop\\011a\\134b\\012c.db", false),
            ("rw,relatime", false),
            ("", false),
        ] {
            assert_eq!(is_mount_point(path.as_bytes(), MOUNTS.as_bytes()), is, "{path}");
        }
    }

    #[test]
    fn what_is_no_table_of_mounts_has_no_mount_point() {
        for mounts in ["", "\n\n", "1 2 3", "1 2 3 4", "/a.db"] {
            assert!(!is_mount_point(b"/a.db", mounts.as_bytes()), "{mounts}");
        }
        assert!(is_mount_point(b"/\xff.db", b"1 2 3 4 /\xff.db rw"), "no text, and a path all the same");
    }
}
