//! A password, as a person types it or as a program hands it in.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::accounts::Password;

#[derive(Args, Debug, Clone, Copy)]
pub struct PasswordInput {
    /// Read the password from the first line of standard input, instead of asking for it
    #[arg(long)]
    password_stdin: bool,
}

impl PasswordInput {
    /// One that exists: it is asked for once.
    pub fn read(self) -> anyhow::Result<Password> {
        self.of(|terminal| typed(terminal, "Password: "))
    }

    /// A new one: nobody sees what is typed, so it is asked for twice.
    pub fn read_new(self) -> anyhow::Result<Password> {
        self.of(|terminal| {
            let first = typed(terminal, "New password: ")?;
            ensure!(first == typed(terminal, "Once more: ")?, "the two passwords differ");
            Ok(first)
        })
    }

    fn of(self, ask: impl FnOnce(&mut File) -> anyhow::Result<String>) -> anyhow::Result<Password> {
        if self.password_stdin {
            let line = line(&mut io::stdin().lock())?;
            return line.parse().map_err(|error| anyhow!("--password-stdin: {error}"));
        }
        if !io::stdin().is_terminal() {
            bail!("there is no terminal to ask for the password; give it on standard input with --password-stdin");
        }
        // What is printed may go elsewhere: the question is for whoever sits there.
        let mut terminal = File::options().read(true).write(true).open("/dev/tty").context("there is no terminal")?;
        ask(&mut terminal)?.parse().map_err(|error| anyhow!("the password {error}"))
    }
}

/// What somebody types behind a question, unseen.
fn typed(terminal: &mut File, question: &str) -> anyhow::Result<String> {
    let silence = Silence::on(terminal.try_clone()?.as_fd())?;
    terminal.write_all(question.as_bytes())?;
    let typed = line(&mut BufReader::with_capacity(1, &*terminal));
    drop(silence);
    // The end of the line was not shown either.
    terminal.write_all(b"\n")?;
    typed
}

fn line(input: &mut impl BufRead) -> anyhow::Result<String> {
    let mut line = String::new();
    input.read_line(&mut line).context("the password cannot be read")?;
    let typed = line.strip_suffix('\n').unwrap_or(&line);
    Ok(typed.strip_suffix('\r').unwrap_or(typed).to_owned())
}

/// A terminal that does not show what is typed, until this is dropped.
struct Silence {
    terminal: std::os::fd::OwnedFd,
    before: Termios,
}

impl Silence {
    fn on(terminal: BorrowedFd<'_>) -> io::Result<Silence> {
        let terminal = terminal.try_clone_to_owned()?;
        let before = tcgetattr(&terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Flush, &silent)?;
        Ok(Silence { terminal, before })
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use std::os::fd::OwnedFd;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    use super::*;

    /// Both ends of a terminal: where somebody sits, and where a program runs.
    fn terminal() -> (File, File) {
        let person: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).and_then(|()| unlockpt(&person)).expect("a terminal");
        let name = ptsname(&person, Vec::new()).expect("its name");
        let program = File::options().read(true).write(true).open(name.to_str().expect("text")).expect("its other end");
        (person.into(), program)
    }

    fn echoes(terminal: &File) -> bool {
        tcgetattr(terminal).expect("its settings").local_modes.contains(LocalModes::ECHO)
    }

    #[test]
    fn issue_15_a_password_is_typed_unseen_and_the_terminal_shows_what_follows() {
        let (mut person, program) = terminal();
        let mut asking = program.try_clone().expect("a copy");
        let asked = std::thread::spawn(move || typed(&mut asking, "Password: "));
        let mut shown = vec![0; b"Password: ".len()];
        person.read_exact(&mut shown).expect("the question");
        assert!(!echoes(&program), "it is silent once it asks");
        person.write_all(b"correct horse\n").expect("typed");
        assert_eq!(asked.join().expect("no panic").expect("a line"), "correct horse");
        assert!(echoes(&program));
        let mut after = [0; 8];
        let read = person.read(&mut after).expect("the end of the line");
        assert_eq!(&after[..read], b"\r\n", "nothing of what was typed");
    }
}
