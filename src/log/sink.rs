//! Lines on their way out: they gather in memory, and a thread of their own writes
//! what has gathered. To wake it for every line would cost more than the line.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long lines gather.
const GATHER: Duration = Duration::from_millis(2);

/// How long the end of the process waits for somebody to take the last lines.
const LAST: Duration = Duration::from_secs(1);

/// Who logs while so many bytes wait, waits too: no line is lost.
const MOST: usize = 1 << 20;

#[derive(Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    emptied: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Nobody logs any more: what waits is the last.
    is_over: bool,
    /// And that is written, too.
    is_done: bool,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where lines are written to.
#[derive(Clone)]
pub struct Sink(Arc<Shared>);

/// Sees to it that what is left is written when it is dropped.
pub struct Guard(Arc<Shared>);

/// Starts to write to `out` whatever the sink is given.
pub fn start(out: impl Write + Send + 'static) -> io::Result<(Sink, Guard)> {
    let shared = Arc::new(Shared::default());
    let ours = shared.clone();
    std::thread::Builder::new().name("log".into()).spawn(move || write_out(&ours, out))?;
    Ok((Sink(shared.clone()), Guard(shared)))
}

fn write_out(shared: &Shared, mut out: impl Write) {
    let mut lines = Vec::new();
    loop {
        let is_idle = |waiting: &mut Waiting| waiting.lines.is_empty() && !waiting.is_over;
        let waiting = shared.filled.wait_while(shared.waiting(), is_idle).unwrap_or_else(PoisonError::into_inner);
        let is_last = waiting.is_over;
        drop(waiting);
        if !is_last {
            std::thread::sleep(GATHER);
        }
        std::mem::swap(&mut shared.waiting().lines, &mut lines);
        shared.emptied.notify_all();
        // Nobody is left to be told that the log cannot be written.
        let _ = out.write_all(&lines).and_then(|()| out.flush());
        lines.clear();
        if is_last {
            shared.waiting().is_done = true;
            return shared.emptied.notify_all();
        }
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_full = |waiting: &mut Waiting| waiting.lines.len() >= MOST && !waiting.is_over;
        let waiting = self.0.emptied.wait_while(self.0.waiting(), is_full);
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let was_empty = waiting.lines.is_empty();
        waiting.lines.extend_from_slice(line);
        drop(waiting);
        if was_empty {
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.waiting().is_over = true;
        self.0.filled.notify_one();
        self.0.emptied.notify_all();
        // Where nobody reads it, the log does not keep the process from ending.
        let _ = self.0.emptied.wait_timeout_while(self.0.waiting(), LAST, |waiting| !waiting.is_done);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was written, slowly.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let some = &bytes[..bytes.len().min(70_000)];
            self.0.lock().expect("paper").extend_from_slice(some);
            Ok(some.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn every_line_is_written_whole_and_each_writers_in_order_also_when_much_more_waits_than_may() {
        let paper = Paper::default();
        let (sink, guard) = start(paper.clone()).expect("a sink");
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let mut sink = sink.clone();
                std::thread::spawn(move || {
                    for line in 0..20_000 {
                        sink.write_all(format!("{writer} {line} {}\n", "x".repeat(40)).as_bytes()).expect("a line");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        drop(guard);
        let text = String::from_utf8(paper.0.lock().expect("paper").clone()).expect("text");
        let mut next = [0; 4];
        for line in text.lines() {
            let mut parts = line.split(' ');
            let mut number = || parts.next().and_then(|part| part.parse::<usize>().ok()).expect("a number");
            let (writer, count) = (number(), number());
            assert_eq!(count, next[writer], "{line}");
            next[writer] += 1;
            assert_eq!(parts.next().map(str::len), Some(40));
        }
        assert_eq!(next, [20_000; 4]);
    }

    /// Takes nothing, for ever.
    struct Wall;

    impl Write for Wall {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            loop {
                std::thread::park();
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_that_nobody_reads_does_not_keep_the_process_from_ending() {
        let (mut sink, guard) = start(Wall).expect("a sink");
        sink.write_all(b"one\n").expect("a line");
        std::thread::sleep(GATHER * 5);
        sink.write_all(b"two\n").expect("a line");
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            drop(guard);
            done.send(())
        });
        assert!(ended.recv_timeout(LAST * 20).is_ok(), "the guard waits for ever");
    }

    #[test]
    fn a_line_comes_out_by_itself() {
        let paper = Paper::default();
        let (mut sink, _guard) = start(paper.clone()).expect("a sink");
        sink.write_all(b"one\n").expect("a line");
        let is_there = || paper.0.lock().expect("paper").as_slice() == b"one\n";
        assert!((0..1000).any(|_| is_there() || {
            std::thread::sleep(GATHER);
            false
        }));
    }
}
