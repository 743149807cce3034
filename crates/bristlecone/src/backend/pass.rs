//! Backends around backends say what they change, and pass the rest on.

/// Passes methods of a [`Backend`](crate::Backend) on to the one inside, in an implementation around it: first the
/// field that has it, then the names of the methods.
///
/// What a wrapper does not name and does not write itself the trait's own default would do, on top of the wrapper: the lint
/// `clippy::missing_trait_methods` finds such methods.
///
/// ```
/// #![deny(clippy::missing_trait_methods)]
/// use std::sync::Arc;
/// use bristlecone::{Backend, Capabilities, MemoryBackend, pass_backend};
///
/// /// A backend that promises no positions.
/// #[derive(Debug)]
/// struct Modest(Arc<dyn Backend>);
///
/// impl Backend for Modest {
///     fn capabilities(&self) -> Capabilities {
///         Capabilities { positions: false, ..self.0.capabilities() }
///     }
///
///     pass_backend! { 0: name, snapshot, read, locate, position, sweeps, sweep, sweep_due, append, append_keeping, append_many, get_ref, list_refs,
///     shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object, each_with_prefix, clear_caches, stats, read_derived,
///     write_derived }
/// }
/// # let modest = Modest(Arc::new(MemoryBackend::new()));
/// # assert_eq!((modest.name(), modest.capabilities().positions), ("memory", false));
/// ```
#[macro_export]
macro_rules! pass_backend {
    ($to:tt : $($method:ident),+ $(,)?) => { $($crate::pass_backend! { @ $method $to })+ };
    (@ name $to:tt) => {
        fn name(&self) -> &'static str {
            self.$to.name()
        }
    };
    (@ capabilities $to:tt) => {
        fn capabilities(&self) -> $crate::Capabilities {
            self.$to.capabilities()
        }
    };
    (@ snapshot $to:tt) => {
        fn snapshot(&self, roots: &[$crate::Oid]) -> ::std::sync::Arc<dyn $crate::Snapshot> {
            self.$to.snapshot(roots)
        }
    };
    (@ read $to:tt) => {
        fn read(&self, at: &$crate::ObjRef) -> ::std::result::Result<Option<$crate::Object<'static>>, $crate::Error> {
            self.$to.read(at)
        }
    };
    (@ locate $to:tt) => {
        fn locate(&self, oid: &$crate::Oid) -> Option<$crate::Location> {
            self.$to.locate(oid)
        }
    };
    (@ position $to:tt) => {
        fn position(&self) -> ::std::result::Result<Option<$crate::Position>, $crate::Error> {
            self.$to.position()
        }
    };
    (@ sweeps $to:tt) => {
        fn sweeps(&self) -> u64 {
            self.$to.sweeps()
        }
    };
    (@ sweep $to:tt) => {
        fn sweep(
            &self,
            roots: &$crate::Roots<'_>,
            limits: &$crate::SweepLimits,
        ) -> ::std::result::Result<$crate::Swept, $crate::Error> {
            self.$to.sweep(roots, limits)
        }
    };
    (@ sweep_due $to:tt) => {
        fn sweep_due(&self) -> $crate::SweepDue {
            self.$to.sweep_due()
        }
    };
    (@ append $to:tt) => {
        fn append(
            &self,
            batch: $crate::Batch,
            moves: &[$crate::RefMove],
            durability: $crate::Durability,
        ) -> ::std::result::Result<$crate::Location, $crate::Error> {
            self.$to.append(batch, moves, durability)
        }
    };
    (@ append_keeping $to:tt) => {
        fn append_keeping(
            &self,
            batch: &mut $crate::Batch,
        ) -> ::std::result::Result<$crate::Location, $crate::Error> {
            self.$to.append_keeping(batch)
        }
    };
    (@ append_many $to:tt) => {
        fn append_many(
            &self,
            batches: Vec<($crate::Batch, Vec<$crate::RefMove>)>,
            durability: $crate::Durability,
        ) -> Vec<::std::result::Result<$crate::Location, $crate::Error>> {
            self.$to.append_many(batches, durability)
        }
    };
    (@ get_ref $to:tt) => {
        fn get_ref(&self, name: &str) -> ::std::result::Result<Option<$crate::RefTarget>, $crate::Error> {
            self.$to.get_ref(name)
        }
    };
    (@ list_refs $to:tt) => {
        fn list_refs(
            &self,
            prefix: &str,
        ) -> ::std::result::Result<::std::collections::BTreeMap<String, $crate::RefTarget>, $crate::Error> {
            self.$to.list_refs(prefix)
        }
    };
    (@ shallow $to:tt) => {
        fn shallow(&self) -> ::std::result::Result<::std::collections::BTreeSet<$crate::Oid>, $crate::Error> {
            self.$to.shallow()
        }
    };
    (@ absent $to:tt) => {
        fn absent(&self) -> ::std::result::Result<::std::sync::Arc<$crate::AbsentCommits>, $crate::Error> {
            self.$to.absent()
        }
    };
    (@ note_absent $to:tt) => {
        fn note_absent(&self, absent: &$crate::AbsentCommits) -> ::std::result::Result<(), $crate::Error> {
            self.$to.note_absent(absent)
        }
    };
    (@ retention $to:tt) => {
        fn retention(&self) -> ::std::result::Result<$crate::Retention, $crate::Error> {
            self.$to.retention()
        }
    };
    (@ replace_retention $to:tt) => {
        fn replace_retention(
            &self,
            expected: ::std::option::Option<&$crate::Retention>,
            retention: &$crate::Retention,
        ) -> ::std::result::Result<bool, $crate::Error> {
            self.$to.replace_retention(expected, retention)
        }
    };
    (@ promised_to $to:tt) => {
        fn promised_to(&self) -> ::std::result::Result<Option<String>, $crate::Error> {
            self.$to.promised_to()
        }
    };
    (@ flush $to:tt) => {
        fn flush(&self) -> ::std::result::Result<(), $crate::Error> {
            self.$to.flush()
        }
    };
    (@ each_object $to:tt) => {
        fn each_object(
            &self,
            each: &mut dyn FnMut($crate::Oid, &$crate::Object<'_>) -> ::std::result::Result<(), $crate::Error>,
            damage: &mut dyn FnMut($crate::Damage),
        ) -> ::std::result::Result<(), $crate::Error> {
            self.$to.each_object(each, damage)
        }
    };
    (@ each_with_prefix $to:tt) => {
        fn each_with_prefix(
            &self,
            prefix: &$crate::OidPrefix,
            each: &mut dyn FnMut($crate::Oid, &$crate::Object<'_>) -> ::std::result::Result<(), $crate::Error>,
        ) -> ::std::result::Result<(), $crate::Error> {
            self.$to.each_with_prefix(prefix, each)
        }
    };
    (@ clear_caches $to:tt) => {
        fn clear_caches(&self) {
            self.$to.clear_caches();
        }
    };
    (@ stats $to:tt) => {
        fn stats(&self) -> $crate::BackendStats {
            self.$to.stats()
        }
    };
    (@ read_derived $to:tt) => {
        fn read_derived(&self, name: &str) -> ::std::result::Result<Option<Vec<u8>>, $crate::Error> {
            self.$to.read_derived(name)
        }
    };
    (@ write_derived $to:tt) => {
        fn write_derived(&self, name: &str, bytes: &[u8]) -> ::std::result::Result<(), $crate::Error> {
            self.$to.write_derived(name, bytes)
        }
    };
}

/// As [`pass_backend!`](crate::pass_backend), for a [`Snapshot`](crate::Snapshot) in an `Arc` inside.
#[macro_export]
macro_rules! pass_snapshot {
    ($to:tt : $($method:ident),+ $(,)?) => { $($crate::pass_snapshot! { @ $method $to })+ };
    (@ locate $to:tt) => {
        fn locate(&self, oid: &$crate::Oid) -> Option<$crate::Location> {
            self.$to.locate(oid)
        }
    };
    (@ position $to:tt) => {
        fn position(&self) -> Option<$crate::Position> {
            self.$to.position()
        }
    };
    (@ sweeps $to:tt) => {
        fn sweeps(&self) -> Option<u64> {
            self.$to.sweeps()
        }
    };
    (@ absent $to:tt) => {
        fn absent(&self) -> Result<Option<::std::sync::Arc<$crate::AbsentCommits>>, $crate::Error> {
            self.$to.absent()
        }
    };
    (@ keep $to:tt) => {
        fn keep(&self, root: &$crate::Oid) {
            self.$to.keep(root);
        }
    };
    (@ refresh $to:tt) => {
        fn refresh(&mut self, roots: &[$crate::Oid]) -> bool {
            ::std::sync::Arc::get_mut(&mut self.$to).is_some_and(|inner| inner.refresh(roots))
        }
    };
}
