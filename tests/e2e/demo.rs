//! `cargo demo`, as a newcomer sees it: three answers and a tool's bought, one theft refused, and commands that work as they are printed.

use std::{
    io::{BufRead as _, BufReader, Read},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
};

use super::app::{PATIENT, program};

/// The program under way, with the lines of each of its outputs.
struct Demo {
    process: Child,
    /// What it prints for people to copy.
    shown: Lines,
    /// What it says meanwhile.
    said: Lines,
}

struct Lines(Receiver<String>);

impl Lines {
    fn of(output: impl Read + Send + 'static) -> Self {
        let (send, lines) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).all(|line| send.send(line).is_ok())
        });
        Self(lines)
    }

    /// The next lines, up to one with this in it.
    fn until(&self, what: &str) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let line = self.0.recv_timeout(PATIENT);
            said.push(line.unwrap_or_else(|_| panic!("no {what:?} in\n{}", said.join("\n"))));
            if said.last().is_some_and(|line| line.contains(what)) {
                return said;
            }
        }
    }
}

impl Demo {
    fn start() -> Self {
        let mut command = program(&["--dev", "--buy", "--listen", "127.0.0.1:0"]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let (shown, said) = (Lines::of(process.stdout.take().unwrap()), Lines::of(process.stderr.take().unwrap()));
        Self { process, shown, said }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newcomer_sees_a_theft_refused_and_buys_by_hand() {
    tokio::task::spawn_blocking(|| {
        let demo = Demo::start();
        let shown = demo.said.until("theft ").pop().unwrap();
        let refused = demo.said.until("refused").pop().unwrap();
        assert!(shown.contains(" presents 0x"), "{shown}");
        assert_eq!(refused.trim(), "refused     403 payment_bound");
        demo.said.until("tools/call demand_insights");
        demo.said.until("    # ");
        demo.shown.until("Or step by step");
        let commands = demo.shown.until("sleep 3; curl").join("\n");
        let bought = Command::new("sh").args(["-c", &commands]).output().unwrap();
        let answers = String::from_utf8_lossy(&bought.stdout);
        assert!(answers.contains("402 Payment Required") && answers.contains(r#""resultType":"chat""#), "{answers}");
    })
    .await
    .unwrap();
}
