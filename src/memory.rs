//! What is made once takes its memory once.

use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread;

/// Something that is made when it is first asked for, because making it takes time and memory, as descriptions do.
/// Clones share it.
pub struct Lazily<T>(Arc<dyn Fn() -> Arc<T> + Send + Sync>);

impl<T: Send + Sync + 'static> Lazily<T> {
    pub fn new(make: impl FnOnce() -> T + Send + 'static) -> Lazily<T> {
        let made = LazyLock::new(move || Arc::new(made_apart(make)));
        Lazily(Arc::new(move || made.clone()))
    }

    /// A part of it, for those who need no more.
    pub fn part<P: 'static>(&self, part: fn(&T) -> &Arc<P>) -> Lazily<P> {
        let whole = self.clone();
        Lazily(Arc::new(move || part(&whole.get()).clone()))
    }
}

impl<T> Lazily<T> {
    pub fn get(&self) -> Arc<T> {
        (self.0)()
    }
}

impl<T> Clone for Lazily<T> {
    fn clone(&self) -> Lazily<T> {
        Lazily(self.0.clone())
    }
}

/// Makes something that takes much memory for a moment. A thread that goes on keeps what it has freed, so this is done
/// by one that ends, and what it leaves goes back to the system.
pub fn made_apart<T: Send>(make: impl FnOnce() -> T + Send) -> T {
    let made = thread::scope(|scope| scope.spawn(make).join());
    give_back();
    made.unwrap_or_else(|panic| resume_unwind(panic))
}

#[expect(unsafe_code, reason = "the allocator is written in C")]
fn give_back() {
    // SAFETY: it takes nothing from us, and any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
