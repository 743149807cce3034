//! The user who runs this process.

use std::os::unix::ffi::OsStrExt as _;

/// Returns the user who runs this process, as `USER <USER@HOST>`: by the environment (`USER`, `LOGNAME`, `USERNAME`), else
/// by the number of the user. What a signature cannot hold is left out.
#[must_use]
pub fn user_at_host() -> Vec<u8> {
    let named = ["USER", "LOGNAME", "USERNAME"].into_iter().filter_map(std::env::var_os);
    let user = named.map(|name| clean(name.as_bytes())).find(|name| !name.is_empty());
    let user = user.unwrap_or_else(|| format!("uid{}", rustix::process::getuid().as_raw()).into_bytes());
    let host = clean(rustix::system::uname().nodename().to_bytes());
    [&user[..], b" <", &user, b"@", &host, b">"].concat()
}

fn clean(name: &[u8]) -> Vec<u8> {
    let kept = name.iter().copied().filter(|byte| !byte.is_ascii_control() && !b"<>".contains(byte));
    kept.collect::<Vec<u8>>().trim_ascii().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_form_of_signatures() {
        assert_eq!(clean(b" A<n>n\n\0 "), b"Ann");
        let ident = user_at_host();
        assert_eq!(ident.iter().filter(|&&byte| byte == b'<').count(), 1);
        assert!(ident.ends_with(b">") && !ident.starts_with(b" "));
    }
}
