//! Deflate and inflate with state that is reused from object to object.
