//! The `anvil` process: starts it, reads its output, and kills it on drop.

use std::{
    io::{self, BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tokio::sync::oneshot;

use super::error::{DevChainError, Failure, excerpt};

/// The time limit until it listens.
const LIMIT: Duration = Duration::from_secs(30);

/// A running `anvil`. Dropping it kills the process and waits for its end.
#[derive(Debug)]
pub(super) struct Anvil {
    child: Child,
    guard: Option<Child>,
    port: u16,
}

impl Anvil {
    /// Starts `program` on a free port of 127.0.0.1 and waits until it listens.
    pub(super) async fn start(program: &Path, arguments: &[String]) -> Result<Self, DevChainError> {
        let child = spawn(program, arguments).map_err(|source| Failure::Start { path: program.to_owned(), source })?;
        let guard = guard(child.id());
        let mut anvil = Self { child, guard, port: 0 };

        let port = anvil.child.stdout.take().map(|out| in_thread(move |tell| follow(out, tell)));
        let complaint = anvil.child.stderr.take().map(|err| in_thread(move |tell| collect(err, tell)));
        let (Some(port), Some(complaint)) = (port, complaint) else {
            return Err(Failure::NotListening { said: "it has no output".to_owned() }.into());
        };

        match tokio::time::timeout(LIMIT, port).await {
            Ok(Ok(port)) => {
                anvil.port = port;
                Ok(anvil)
            }
            Ok(Err(_)) => Err(not_listening(complaint.await.unwrap_or_default())),
            Err(_) => Err(not_listening(format!("silent for {} s", LIMIT.as_secs()))),
        }
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        // The guard goes first: it must not outlive the process whose id it knows.
        for child in self.guard.iter_mut().chain([&mut self.child]) {
            // Both fail only for a process that has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn spawn(program: &Path, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["--host", "127.0.0.1", "--port", "0"]).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    apart(&mut command);
    command.spawn()
}

/// Starts a process that kills `anvil` if this process ends without dropping it: by a signal, by `exit`, or with the
/// chain in a `static`. A shell waits for the end of its input, which comes when this process ends for any reason.
#[cfg(unix)]
fn guard(anvil: u32) -> Option<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "read _; kill -9 \"$0\"", &anvil.to_string()]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    apart(&mut command);
    command.spawn().ok()
}

#[cfg(not(unix))]
fn guard(_: u32) -> Option<Child> {
    None
}

/// Keeps Ctrl-C in the terminal from the child: the program may still need the chain for requests in progress.
#[cfg(unix)]
fn apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

#[cfg(not(unix))]
fn apart(_: &mut Command) {}

/// Runs `work` in a thread, not a task: the output must be read as long as `anvil` runs, and a runtime may end earlier.
fn in_thread<T: Send + 'static>(work: impl FnOnce(oneshot::Sender<T>) + Send + 'static) -> oneshot::Receiver<T> {
    let (tell, told) = oneshot::channel();
    // Without a thread, the sender is dropped, which the receiver notices.
    let _ = thread::Builder::new().name("anvil output".to_owned()).spawn(move || work(tell));
    told
}

/// Sends the port of the line `Listening on 127.0.0.1:PORT`, and reads on until the end.
fn follow(output: impl Read, tell: oneshot::Sender<u16>) {
    let mut output = BufReader::new(output);
    let mut line = String::new();
    while output.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(port) = port(&line) {
            let _ = tell.send(port);
            break;
        }
        line.clear();
    }
    let _ = io::copy(&mut output, &mut io::sink());
}

fn port(line: &str) -> Option<u16> {
    line.trim().strip_prefix("Listening on ")?.rsplit(':').next()?.parse().ok()
}

/// Sends the beginning of the output, and reads on until the end.
fn collect(mut output: impl Read, tell: oneshot::Sender<String>) {
    let mut beginning = Vec::new();
    let _ = output.by_ref().take(4096).read_to_end(&mut beginning);
    let _ = io::copy(&mut output, &mut io::sink());
    let _ = tell.send(String::from_utf8_lossy(&beginning).into_owned());
}

fn not_listening(said: String) -> DevChainError {
    let said = if said.trim().is_empty() { "it ended without a word".to_owned() } else { excerpt(&said) };
    Failure::NotListening { said }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_read_from_one_line_only() {
        assert_eq!(port("Listening on 127.0.0.1:45617\n"), Some(45617));
        assert_eq!(port("Listening on 127.0.0.1:99999\n"), None);
        assert_eq!(port("Chain ID\n"), None);
    }
}
