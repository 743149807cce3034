//! Setters of options: structures that grow fields are made by naming what differs from the default.

/// Makes a method for each field that returns the options with that field set. A field marked `into` takes whatever
/// becomes its type.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident { $($fields:tt)* }) => {
        impl $options {
            $crate::setters!(@each $($fields)*);
        }
    };
    (@each $field:ident: into $type:ty, $($rest:tt)*) => {
        $crate::setters!(@one $field, impl Into<$type>, |value| value.into());
        $crate::setters!(@each $($rest)*);
    };
    (@each $field:ident: $type:ty, $($rest:tt)*) => {
        $crate::setters!(@one $field, $type, |value| value);
        $crate::setters!(@each $($rest)*);
    };
    (@each) => {};
    (@one $field:ident, $type:ty, |$value:ident| $set:expr) => {
        #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
        #[must_use]
        pub fn $field(mut self, $value: $type) -> Self {
            self.$field = $set;
            self
        }
    };
}
