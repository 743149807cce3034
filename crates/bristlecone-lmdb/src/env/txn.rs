//! Transactions: what is read and written through an environment.

use std::{marker::PhantomData, ptr, slice, sync::MutexGuard};

use lmdb_master_sys as ffi;

use super::{Code, Env, done, lock, pool::Claim};

/// A database of an environment: a map of keys to values, in order of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Database(ffi::MDB_dbi);

/// What reads have in common. Dereferenced to by both kinds of transactions.
pub(crate) struct Txn<'e> {
    env: &'e Env,
    ptr: *mut ffi::MDB_txn,
}

/// A transaction that reads what was committed when it was opened.
///
/// Pages that it can see are not used again by any process as long as it is open: it is held for a moment.
pub(crate) struct ReadTxn<'e> {
    // Declared first, and so reset before the place is given back.
    txn: Reset<'e>,
    _claim: Claim<'e>,
}

/// A transaction that is reset when dropped.
struct Reset<'e>(Txn<'e>);

impl Drop for Reset<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the transaction reads and is open; nothing that was borrowed from it is left.
        unsafe { ffi::mdb_txn_reset(self.0.ptr) };
    }
}

impl<'e> std::ops::Deref for ReadTxn<'e> {
    type Target = Txn<'e>;

    #[inline]
    fn deref(&self) -> &Txn<'e> {
        &self.txn.0
    }
}

impl<'e> ReadTxn<'e> {
    #[inline]
    pub(super) fn begin(env: &'e Env) -> Result<Self, Code> {
        let mut claim = env.pool.claim();
        env.check_map()?;
        let ptr = match claim.txn {
            Some(txn) => {
                // SAFETY: what a claimed place holds is a transaction of this environment that was reset. A failure
                // leaves it so.
                done(unsafe { ffi::mdb_txn_renew(txn.as_ptr()) })?;
                txn.as_ptr()
            }
            None => {
                let mut txn = ptr::null_mut();
                // SAFETY: the environment is open and has a map; the function writes a pointer to `txn`, or fails.
                done(unsafe { ffi::mdb_txn_begin(env.ptr.as_ptr(), ptr::null_mut(), ffi::MDB_RDONLY, &raw mut txn) })?;
                claim.txn = ptr::NonNull::new(txn);
                txn
            }
        };
        Ok(Self { txn: Reset(Txn { env, ptr }), _claim: claim })
    }

    /// Opens databases by name, for as long as the environment is open; `None` if one of them is not there.
    pub(crate) fn databases<const N: usize>(&self, names: [&str; N]) -> Result<Option<[Database; N]>, Code> {
        // Handles that a transaction opened are the environment's once it commits, and one that is reset loses them. So this
        // one is not of the pool.
        let env = self.env;
        let mut txn = ptr::null_mut();
        // SAFETY: as in `begin`. The transaction is ended below.
        done(unsafe { ffi::mdb_txn_begin(env.ptr.as_ptr(), ptr::null_mut(), ffi::MDB_RDONLY, &raw mut txn) })?;
        let opened = open_databases(txn, names, 0);
        match opened {
            Ok(found) => {
                // SAFETY: the transaction is open, and is not used again.
                done(unsafe { ffi::mdb_txn_commit(txn) }).map(|()| Some(found))
            }
            Err(code) => {
                // SAFETY: as above.
                unsafe { ffi::mdb_txn_abort(txn) };
                if code == Code::NOT_FOUND { Ok(None) } else { Err(code) }
            }
        }
    }
}

fn open_databases<const N: usize>(txn: *mut ffi::MDB_txn, names: [&str; N], flags: u32) -> Result<[Database; N], Code> {
    let mut found = [Database(0); N];
    for (database, name) in found.iter_mut().zip(names) {
        let name = std::ffi::CString::new(name).map_err(|_| Code(libc::EINVAL))?;
        // SAFETY: the transaction is open; the name ends in a zero and is copied; the handle is written to `database`.
        done(unsafe { ffi::mdb_dbi_open(txn, name.as_ptr(), flags, &raw mut database.0) })?;
    }
    Ok(found)
}

impl Txn<'_> {
    /// Returns the number of the transaction: of the last one that was committed, for one that reads.
    pub(crate) fn id(&self) -> u64 {
        // SAFETY: the transaction is open.
        unsafe { ffi::mdb_txn_id(self.ptr) as u64 }
    }

    /// Returns the value of a key.
    #[inline]
    pub(crate) fn get(&self, database: Database, key: &[u8]) -> Result<Option<&[u8]>, Code> {
        let (mut key, mut value) = (val(key), val(&[]));
        // SAFETY: the transaction is open, the handle is of its environment, and the key is only read.
        match unsafe { ffi::mdb_get(self.ptr, database.0, &raw mut key, &raw mut value) } {
            ffi::MDB_NOTFOUND => Ok(None),
            // SAFETY: the value lies in the map, or in a page of the transaction, and stays until that ends or writes; a
            // write takes the transaction exclusively, and ends this borrow.
            code => done(code).map(|()| Some(unsafe { bytes(value) })),
        }
    }

    /// Returns a scan over the entries of a database, from the first whose key is `from` or higher.
    pub(crate) fn scan<'t>(&'t self, database: Database, from: &'t [u8]) -> Result<Scan<'t>, Code> {
        let mut cursor = ptr::null_mut();
        // SAFETY: the transaction is open and the handle is of its environment; a pointer is written to `cursor`.
        done(unsafe { ffi::mdb_cursor_open(self.ptr, database.0, &raw mut cursor) })?;
        Ok(Scan { cursor, from: Some(from), _txn: PhantomData })
    }

    /// Returns how many pages a database has.
    pub(crate) fn pages(&self, database: Database) -> Result<u64, Code> {
        // SAFETY: the structure is plain numbers.
        let mut stat: ffi::MDB_stat = unsafe { std::mem::zeroed() };
        // SAFETY: the transaction is open, and the function writes to the structure alone.
        done(unsafe { ffi::mdb_stat(self.ptr, database.0, &raw mut stat) })?;
        Ok((stat.ms_branch_pages + stat.ms_leaf_pages + stat.ms_overflow_pages) as u64)
    }

    /// Returns the offset in the file of bytes that the transaction lent.
    pub(crate) fn offset_of(&self, lent: &[u8]) -> u64 {
        (lent.as_ptr() as usize).saturating_sub(self.env.info_of_map().map_at) as u64
    }
}

/// A key and its value.
pub(crate) type Entry<'t> = (&'t [u8], &'t [u8]);

/// The entries of a database, in order.
pub(crate) struct Scan<'t> {
    cursor: *mut ffi::MDB_cursor,
    /// Where the scan begins, as long as it has not.
    from: Option<&'t [u8]>,
    _txn: PhantomData<&'t ()>,
}

impl<'t> Scan<'t> {
    /// Returns the next entry.
    pub(crate) fn next(&mut self) -> Result<Option<Entry<'t>>, Code> {
        let (mut key, mut value) = (val(&[]), val(&[]));
        let how = match self.from.take() {
            None => ffi::MDB_NEXT,
            Some([]) => ffi::MDB_FIRST,
            Some(from) => {
                key = val(from);
                ffi::MDB_SET_RANGE
            }
        };
        // SAFETY: the cursor is open, and so is its transaction, which is borrowed; a key that is given is only read.
        match unsafe { ffi::mdb_cursor_get(self.cursor, &raw mut key, &raw mut value, how) } {
            ffi::MDB_NOTFOUND => Ok(None),
            // SAFETY: as in `Txn::get`.
            code => done(code).map(|()| Some(unsafe { (bytes(key), bytes(value)) })),
        }
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        // SAFETY: the cursor is open, and its transaction, too.
        unsafe { ffi::mdb_cursor_close(self.cursor) };
    }
}

/// The transaction that writes. Dropped without a commit, it changes nothing.
pub(crate) struct WriteTxn<'e> {
    txn: Txn<'e>,
    /// Whether the transaction was ended by a commit.
    ended: bool,
    _writer: MutexGuard<'e, ()>,
}

impl<'e> std::ops::Deref for WriteTxn<'e> {
    type Target = Txn<'e>;

    fn deref(&self) -> &Txn<'e> {
        &self.txn
    }
}

impl<'e> WriteTxn<'e> {
    pub(super) fn begin(env: &'e Env, synced: bool) -> Result<Self, Code> {
        let writer = lock(&env.writer);
        env.check_map()?;
        let flags = if synced { 0 } else { ffi::MDB_NOMETASYNC };
        let mut ptr = ptr::null_mut();
        // SAFETY: the environment is open and has a map, which is not replaced while `writer` is held; a pointer is written
        // to `ptr`. The guard, and so this value, stays on the thread that begins.
        done(unsafe { ffi::mdb_txn_begin(env.ptr.as_ptr(), ptr::null_mut(), flags, &raw mut ptr) })?;
        Ok(Self { txn: Txn { env, ptr }, ended: false, _writer: writer })
    }

    /// Opens databases by name and makes those that are not there. They are open once this transaction is committed.
    pub(crate) fn create_databases<const N: usize>(&mut self, names: [&str; N]) -> Result<[Database; N], Code> {
        open_databases(self.ptr, names, ffi::MDB_CREATE)
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, database: Database, key: &[u8], value: &[u8]) -> Result<(), Code> {
        let (mut key, mut value) = (val(key), val(value));
        // SAFETY: the transaction is open, the handle is of its environment, and without `MDB_RESERVE` key and value are
        // only read.
        done(unsafe { ffi::mdb_put(self.ptr, database.0, &raw mut key, &raw mut value, 0) })
    }

    /// Sets the value of a key that has none, and returns `None`; or returns the value that it has.
    pub(crate) fn put_new(&mut self, database: Database, key: &[u8], value: &[u8]) -> Result<Option<&[u8]>, Code> {
        let (mut key, mut value) = (val(key), val(value));
        let flags = ffi::MDB_NOOVERWRITE;
        // SAFETY: as in `put`; for a key that is there, `value` is pointed to what it has.
        match unsafe { ffi::mdb_put(self.ptr, database.0, &raw mut key, &raw mut value, flags) } {
            // SAFETY: as in `Txn::get`.
            ffi::MDB_KEYEXIST => Ok(Some(unsafe { bytes(value) })),
            code => done(code).map(|()| None),
        }
    }

    /// Removes a key, if it is there.
    pub(crate) fn remove(&mut self, database: Database, key: &[u8]) -> Result<(), Code> {
        let mut key = val(key);
        // SAFETY: as in `put`.
        match unsafe { ffi::mdb_del(self.ptr, database.0, &raw mut key, ptr::null_mut()) } {
            ffi::MDB_NOTFOUND => Ok(()),
            code => done(code),
        }
    }

    /// Commits.
    pub(crate) fn commit(mut self) -> Result<(), Code> {
        self.ended = true;
        // SAFETY: the transaction is open, on the thread that opened it, and is not used again, whatever is returned.
        done(unsafe { ffi::mdb_txn_commit(self.ptr) })
    }
}

impl Drop for WriteTxn<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // SAFETY: the transaction is open, on the thread that opened it, and is not used again.
            unsafe { ffi::mdb_txn_abort(self.ptr) };
        }
    }
}

/// Returns bytes as LMDB takes them.
#[inline]
const fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

/// Returns bytes that LMDB gave.
///
/// # Safety
/// As long as `'a` lasts the bytes are there and do not change.
#[inline]
unsafe fn bytes<'a>(value: ffi::MDB_val) -> &'a [u8] {
    if value.mv_size == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(value.mv_data.cast(), value.mv_size) }
}
