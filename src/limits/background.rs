//! Threads for work that may wait: they give way to those that answer.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

#[cfg(target_os = "linux")]
use rustix::process::{getpriority_process, setpriority_process};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::Error;

/// How far such a thread stands back, as `nice` counts: of a core that another
/// thread wants as well it gets a tenth, and the other one is served at once.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

type Job = Box<dyn FnOnce() + Send>;

/// A few threads that work off one queue. Clones share them.
///
/// They are few and stay, because an allocator keeps for each thread what it has
/// freed.
#[derive(Clone)]
pub struct Background {
    jobs: mpsc::Sender<Job>,
}

impl Background {
    pub fn start(name: &str, threads: usize) -> Background {
        let (sender, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..threads {
            let jobs = jobs.clone();
            let next = move || jobs.lock().ok()?.recv().ok();
            let work = move || {
                give_way();
                std::iter::from_fn(&next).for_each(|job| job());
            };
            // Where no thread can be started, whoever needs one is told so.
            let _ = std::thread::Builder::new().name(name.into()).spawn(work);
        }
        Background { jobs: sender }
    }

    /// What comes of some work.
    pub async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let (reply, done) = oneshot::channel();
        let job = move || {
            // A panic ends the request, and not the thread.
            if let Ok(done) = std::panic::catch_unwind(AssertUnwindSafe(work)) {
                let _ = reply.send(done);
            }
        };
        self.jobs.send(Box::new(job)).map_err(|_| Error::Internal)?;
        done.await.map_err(|_| Error::Internal)
    }

    /// Lets go of something that takes a while to go.
    pub fn discard(&self, what: impl Send + 'static) {
        let _ = self.jobs.send(Box::new(move || drop(what)));
    }
}

/// Runs something that goes on for long on a thread of its own, which gives way as
/// well. A panic there ends whoever waits for it; where nobody waits any more, it
/// ends at its next pause.
pub async fn aside<T: Send + 'static>(name: &str, work: impl Future<Output = T> + Send + 'static) -> T {
    let (reply, done) = oneshot::channel();
    let (wanted, mut unwanted) = oneshot::channel::<()>();
    let runtime = Handle::current();
    let run = move || {
        give_way();
        runtime.block_on(async {
            tokio::select! {
                biased;
                _ = &mut unwanted => {}
                result = work => drop(reply.send(result)),
            }
        });
    };
    let thread = match std::thread::Builder::new().name(name.into()).spawn(run) {
        Ok(thread) => thread,
        Err(error) => std::panic::resume_unwind(Box::new(error.to_string())),
    };
    let _waited_for = WaitedFor { wanted: Some(wanted), thread: Some(thread) };
    done.await.unwrap_or_else(|_| std::panic::resume_unwind(Box::new("it panicked")))
}

/// A thread that somebody waits for. When it is let go the thread has ended: it must
/// not outlive the runtime, whose clock it uses.
struct WaitedFor {
    wanted: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WaitedFor {
    fn drop(&mut self) {
        drop(self.wanted.take());
        // Whether it panicked is told by its not having answered.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Lowers the priority of the thread that asks. On Linux each has its own; elsewhere
/// it would be that of the process.
fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = getpriority_process(None).and_then(|own| setpriority_process(None, own.max(NICE))) {
        tracing::debug!(%error, "a thread keeps its priority");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_that_panics_ends_alone() {
        let background = Background::start("test", 1);
        for _ in 0..3 {
            assert!(matches!(background.run(|| -> usize { panic!("on purpose") }).await, Err(Error::Internal)));
        }
        assert_eq!(background.run(|| 5).await.expect("done"), 5);
    }

    #[tokio::test]
    async fn a_panic_aside_ends_who_waits_for_it() {
        let waiting = tokio::spawn(aside("test", async { panic!("on purpose") }));
        assert!(waiting.await.is_err_and(|error| error.is_panic()));
        assert_eq!(aside("test", async { 5 }).await, 5);
    }

    #[test]
    fn work_aside_has_ended_when_its_runtime_has() {
        let (said, heard) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let work = async move {
            loop {
                // It is as often in the middle of something as it waits for the clock.
                std::thread::sleep(Duration::from_millis(1));
                said.send(()).expect("it is heard");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        runtime.spawn(async move { aside::<()>("test", work).await });
        heard.recv().expect("it has begun");
        drop(runtime);
        while heard.try_recv().is_ok() {}
        assert!(matches!(heard.try_recv(), Err(mpsc::TryRecvError::Disconnected)));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn its_threads_stand_back_and_others_do_not() {
        let own = || getpriority_process(None).expect("a priority");
        let before = own();
        let background = Background::start("test", 1);
        assert_eq!(background.run(own).await.expect("done"), before.max(NICE));
        assert_eq!(aside("test", async move { own() }).await, before.max(NICE));
        assert_eq!(own(), before);
    }
}
