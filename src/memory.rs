//! What is made once takes its memory once, and what is remembered no more than it may.

use std::ffi::c_long;
use std::hash::Hash;
use std::panic::resume_unwind;
use std::sync::{Arc, LazyLock};
use std::thread;

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

/// What knows about how many bytes it holds beside itself.
pub trait Held {
    fn held(&self) -> u64;
}

/// About how many bytes a text takes once it is read into a tree.
pub fn held_when_read(length: usize) -> u64 {
    6 * length as u64
}

/// What a value takes in a [`WeighedCache`].
#[derive(Clone)]
pub struct Weight;

impl<K, V: Held> Weighter<K, Arc<V>> for Weight {
    fn weight(&self, _: &K, value: &Arc<V>) -> u64 {
        /// The key, what belongs to them, and their place.
        const ENTRY: usize = 256;
        value.held() + (ENTRY + size_of::<V>()) as u64
    }
}

/// Remembers values of which some are large.
pub type WeighedCache<K, V> = Cache<K, Arc<V>, Weight>;

/// How much a [`WeighedCache`] may hold.
pub struct Room {
    /// About how many values are expected: they are bounded by their bytes alone.
    pub values: usize,
    /// How many bytes, of all and of the largest.
    pub bytes: u64,
    pub largest: u64,
}

pub fn weighed_cache<K: Eq + Hash, V: Held>(room: &Room) -> WeighedCache<K, V> {
    // Each part has its own share of the room, which must not be too small for the largest.
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let parts = usize::try_from(room.bytes / room.largest).unwrap_or(1).clamp(1, 4 * cores);
    let parts = if parts.is_power_of_two() { parts } else { parts.next_power_of_two() / 2 };
    let mut options = OptionsBuilder::new();
    options.shards(parts).estimated_items_capacity(room.values).weight_capacity(room.bytes);
    match options.build() {
        Ok(options) => Cache::with_options(options, Weight, DefaultHashBuilder::default(), DefaultLifecycle::default()),
        Err(_) => Cache::with_weighter(room.values, room.bytes, Weight),
    }
}

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

/// The allocator's setting for how many milliseconds memory that was freed is kept; the crate has no name for it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// So long that requests that follow each other use the same memory: what is given back at once is zeroed and mapped
/// again for the next, a twelfth of what the threads that answer do.
const MOMENT: c_long = 10;

/// Lets memory that is freed go back to the system soon. Kept, it adds up while the processor is busy: a file whose
/// rows are a mebibyte each took twice as much. Whoever sets `MIMALLOC_PURGE_DELAY` knows better.
#[expect(unsafe_code, reason = "the allocator is written in C")]
pub fn keep_freed_for_a_moment() {
    // SAFETY: it sets a number, which any thread may do at any time.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, MOMENT) }
}

#[expect(unsafe_code, reason = "the allocator is written in C")]
fn give_back() {
    // SAFETY: it takes nothing from us, and any thread may call it at any time.
    unsafe { libmimalloc_sys::mi_collect(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Held for u64 {
        fn held(&self) -> u64 {
            *self
        }
    }

    #[test]
    fn a_weighed_cache_keeps_the_largest_and_no_more_than_it_has_room_for() {
        let cache: WeighedCache<u32, u64> = weighed_cache(&Room { values: 1_000, bytes: 32 << 20, largest: 8 << 20 });
        cache.insert(0, Arc::new(6 << 20));
        assert!(cache.get(&0).is_some(), "there is room for it");
        (1..1_000).for_each(|key| cache.insert(key, Arc::new(1 << 20)));
        assert!(cache.len() > 8 && cache.weight() <= 32 << 20, "{} values, {} bytes", cache.len(), cache.weight());
    }

    #[test]
    #[expect(unsafe_code, reason = "the allocator is written in C")]
    fn the_setting_is_the_one_that_is_meant() {
        // SAFETY: it reads a number.
        let delay = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay(), 1000, "what the allocator does unless told otherwise");
        keep_freed_for_a_moment();
        assert_eq!(delay(), MOMENT);
    }
}
