//! An allocator that refuses what no input of a target can need, so that a length that was believed ends the run.

use std::alloc::{GlobalAlloc, Layout, System};

/// No target needs more in one piece: an input has 64 KiB at most, and what is deflated in it a thousand times that. The native format
/// reserves as much for a value before it reads its pieces.
const ALLOCATION_BYTES_MAX: usize = 256 << 20;

/// The system's allocator, below a bound.
#[derive(Debug)]
pub struct Bounded;

// SAFETY: every call is passed on to the system's allocator as it is, or answered with null, which the contract allows.
unsafe impl GlobalAlloc for Bounded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of this same method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of this same method.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if bytes > ALLOCATION_BYTES_MAX {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of this same method, and memory that this allocator gave is the system's.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: memory that this allocator gave is the system's.
        unsafe { System.dealloc(at, layout) }
    }
}
