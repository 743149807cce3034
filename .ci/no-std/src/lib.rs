//! See Cargo.toml.

#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};

use bristlecone_core::{Format, Kind, NoSource, Object, native::Native, tezos::Tezos};

struct NoMemory;

// SAFETY: returning null is always allowed; nothing is ever allocated, so nothing is freed.
unsafe impl GlobalAlloc for NoMemory {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: NoMemory = NoMemory;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// Uses the crate, so that it is linked.
#[unsafe(no_mangle)]
pub extern "C" fn check() -> bool {
    let empty: &[u8] = b"";
    let object = Object::from_body(Kind::Contents, empty.into());
    let ids = (Native::new().object_id(&NoSource, &object), Tezos::new().object_id(&NoSource, &object));
    matches!(ids, (Ok(_), Ok(oid)) if Tezos::new().commit_text(&oid).is_some_and(|text| text.starts_with("Co")))
}
