//! The real binary: commands, and servers that run until they are dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A command of the product, without the settings of whoever runs the tests.
pub fn posthorn(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthorn_tested"));
    for (name, _) in std::env::vars() {
        if name.starts_with("POSTHORN_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a command said.
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Asserts success and gives what was printed.
    pub fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}{}", self.out, self.err);
        self.out
    }

    /// Asserts failure and gives what was complained about.
    pub fn failed(self) -> String {
        assert!(self.code.is_some_and(|code| code != 0), "{}{}", self.out, self.err);
        self.err
    }

    pub fn json(self) -> serde_json::Value {
        let out = self.ok();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
    }
}

pub fn say(mut command: Command, input: &str) -> Said {
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a binary that starts");
    // A command that fails early does not read its input.
    let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
    let Output { status, stdout, stderr } = child.wait_with_output().expect("a binary that ends");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    Said { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// A server of its own process.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
    pub greeting: String,
}

impl Server {
    pub fn start(args: &[&str]) -> Server {
        let mut command = posthorn(&["--listen", "127.0.0.1:0", "--log", "error"]);
        let mut child = command.args(args).stderr(Stdio::inherit()).spawn().expect("a binary that starts");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut greeting = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).expect("a greeting") > 0, "it ended: {greeting}");
            greeting.push_str(&line);
            let found = line.trim().strip_prefix("Reference").and_then(|url| url.trim().strip_prefix("http://"));
            if let Some(address) = found.and_then(|url| url.split('/').next()) {
                break address.parse().expect("an address");
            }
        };
        let mut server = Server { child, address, greeting };
        server.wait_until_ready();
        // Whatever else it says is there once it answers.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        server
    }

    fn wait_until_ready(&mut self) {
        let began = Instant::now();
        while !self.request("GET", "/readyz", &[], "").is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
            assert!(began.elapsed() < Duration::from_secs(20), "the server does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// One request on a connection of its own; the whole answer as text.
    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Option<String> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n", self.address);
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        raw(self.address, format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes())
    }

    /// Asks it to stop, and tells how it ended and how long that took.
    pub fn terminate(mut self) -> (Option<i32>, Duration) {
        let began = Instant::now();
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill");
        assert!(told.success());
        let status = self.child.wait().expect("an end");
        (status.code(), began.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends bytes as they are and reads until the connection ends; `None` where it
/// could not be used.
pub fn raw(address: SocketAddr, bytes: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).ok()?;
    // A server that has heard enough may close before all was said.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    Some(String::from_utf8_lossy(&answer).into_owned())
}
