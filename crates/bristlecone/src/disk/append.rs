//! Writing the frames of a group: as few writes as possible, and nothing left behind by one that fails.

use std::{collections::HashMap, io, sync::atomic::Ordering::*};

use bristlecone_core::{Location, Sink as _};
use smallvec::SmallVec;

use super::{
    frame::{self, EMPTY_BYTES, Frame, FrameKind, HEAD_BYTES, put_ref, ref_bytes},
    log::{DiskState, LogWriter, Tail},
    refs::Refs,
    request::{AppendRequest, Appended},
    segment::Segment,
    spare::RESERVED_BYTES,
};
use crate::{
    Error,
    backend::{Batch, Position, RefMove, RefTarget, check_moves},
};

/// Records from this length on are written from where they are, not copied into the buffer first: two
/// more system calls cost less.
const DIRECT_BYTES: usize = 64 << 10;
/// The buffer is written before it grows beyond this.
const BUFFER_BYTES: usize = 4 << 20;

impl DiskState {
    /// Writes a frame for each request whose moves may happen, and answers each.
    pub(super) fn write_frames<'a>(
        &self,
        log: &mut LogWriter,
        requests: &[AppendRequest<'a>],
        appended: &mut [Option<Appended>],
    ) -> Result<(), Error> {
        let mut run = FrameRun::new(&log.tail);
        log.buffer.clear();
        for (index, request) in requests.iter().enumerate() {
            let refused = |index: usize| matches!(appended[index], Some(Err(_)));
            let earlier = requests[..index].iter().enumerate().filter(|(index, _)| !refused(*index));
            // Who lost a race learns that, though what it built on was cut meanwhile.
            let checked = self.look_up(&mut run, request).and_then(|()| self.check_moves(&run, request));
            if let Err(error) = checked.and_then(|()| self.check_needed(request, earlier.map(|(_, request)| request))) {
                appended[index] = Some(Err(error));
                continue;
            }
            let payload_bytes = payload_bytes(request.moves);
            let bytes = EMPTY_BYTES + request.records.len() as u64 + payload_bytes as u64;
            let mut segment = self.tail_segment(&log.tail)?;
            if run.tail.next != 0 || run.tail.end + bytes + RESERVED_BYTES > segment.bytes {
                self.write_run(log, &mut run, &segment, appended)?;
                match self.roll(log, bytes) {
                    // Only this one is too large; others may fit.
                    Err(error @ Error::TooLarge { .. }) => {
                        appended[index] = Some(Err(error));
                        continue;
                    }
                    other => other?,
                }
                run = FrameRun::new(&log.tail);
                // What had moved may be in a table by now.
                if let Err(error) = self.look_up(&mut run, request) {
                    appended[index] = Some(Err(error));
                    continue;
                }
                segment = self.tail_segment(&log.tail)?;
            }
            let direct = request.records.len() >= DIRECT_BYTES;
            if direct || log.buffer.len() + bytes as usize > BUFFER_BYTES {
                self.write_run(log, &mut run, &segment, appended)?;
            }
            self.put_frame(log, &mut run, index, request, payload_bytes, direct);
            if requests.len() > 1 {
                let planned = run.frames.last().map_or(&[][..], |planned| &planned.targets);
                run.overlay.extend(request.moves.iter().map(|wanted| &*wanted.name).zip(planned.iter().cloned()));
            }
            if direct {
                self.write_direct(log, &mut run, &segment, request, appended)?;
            }
        }
        let segment = self.tail_segment(&log.tail)?;
        self.write_run(log, &mut run, &segment, appended)
    }

    /// Checks that what a batch left out, since it was there by an earlier state of the store, is there now. The caller
    /// holds the store's lock; `earlier`: what the group appends before.
    fn check_needed<'b, 'r: 'b>(
        &self,
        request: &AppendRequest<'_>,
        earlier: impl Iterator<Item = &'b AppendRequest<'r>>,
    ) -> Result<(), Error> {
        let mut gone = request.batch.needed(request.moves, self.tables.epoch());
        if gone.is_empty() {
            return Ok(());
        }
        earlier.for_each(|earlier| gone.retain(|oid| earlier.batch.known(oid).is_none()));
        let table = self.table();
        let view = self.view(&table);
        let mut failed = None;
        // By the id alone: the place that a batch knows is one of before.
        gone.retain(|oid| match view.find(oid) {
            Ok(found) => found.is_none(),
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        match failed {
            Some(error) => Err(error),
            None if gone.is_empty() => Ok(()),
            None => Err(Error::Gone { oids: gone }),
        }
    }

    /// Looks up what tables say of refs that an append moves and that have not moved lately.
    fn look_up<'a>(&self, run: &mut FrameRun<'a>, request: &AppendRequest<'a>) -> Result<(), Error> {
        let refs = self.published.refs();
        for wanted in request.moves {
            if let Err(tables) = refs.moved(&wanted.name)
                && !run.tabled.contains_key(&*wanted.name)
            {
                run.tabled.insert(&wanted.name, tables.get(&wanted.name)?);
            }
        }
        Ok(())
    }

    /// Checks an append against the refs as those before it in the group leave them.
    fn check_moves(&self, run: &FrameRun<'_>, request: &AppendRequest<'_>) -> Result<(), Error> {
        if request.moves.is_empty() {
            return Ok(());
        }
        let refs = self.published.refs();
        check_moves(request.moves, |name| match (run.overlay.get(name), refs.moved(name)) {
            (Some(target), _) => target.as_ref(),
            (None, Ok(target)) => target,
            (None, Err(_)) => run.tabled.get(name).and_then(Option::as_ref),
        })
    }

    /// Adds a frame to the run; `direct`: its records are left out of the buffer.
    fn put_frame<'a>(
        &self,
        log: &mut LogWriter,
        run: &mut FrameRun<'a>,
        index: usize,
        request: &AppendRequest<'a>,
        payload_bytes: usize,
        direct: bool,
    ) {
        let head = Frame {
            kind: FrameKind::Batch,
            sequence: run.tail.sequence,
            durable_end: self.sync.durable_end(),
            previous: run.tail.chain,
            nonce: self.stamp(&run.tail),
            record_bytes: request.records.len() as u32,
            payload_bytes: payload_bytes as u32,
            records_check: request.check,
        };
        let location = run.tail.location();
        let base = Location(location + HEAD_BYTES as u64);
        let bytes = head.encode(location, self.header.salt);
        let out = &mut log.buffer;
        out.extend_from_slice(&bytes);
        if !direct {
            out.extend_from_slice(request.records);
        }
        let payload_at = out.len();
        let targets: Targets = request.moves.iter().map(|wanted| wanted.resolved(base)).collect();
        for (wanted, target) in request.moves.iter().zip(&targets) {
            put_ref(out, &wanted.name, target.as_ref());
        }
        out.resize(payload_at + payload_bytes, 0);
        let trailer = frame::trailer(&bytes, &out[payload_at..]);
        out.extend_from_slice(&trailer.to_le_bytes());
        run.tail.pass_frame(&head, trailer);
        run.frames.push(Planned { index, batch: request.batch, base, moves: request.moves, targets, after: run.tail });
    }

    /// Writes the frames of a run in one write, and lets them count.
    ///
    /// Frames that reached the file whole before a failure count; the rest is zeroed.
    fn write_run(
        &self,
        log: &mut LogWriter,
        run: &mut FrameRun<'_>,
        segment: &Segment,
        appended: &mut [Option<Appended>],
    ) -> Result<(), Error> {
        if run.frames.is_empty() {
            return Ok(());
        }
        let start = log.tail.end;
        let (written, error) = write_counted(segment, &log.buffer, start);
        let whole = run.frames.iter().take_while(|planned| planned.after.end <= start + written).count();
        let end = start + log.buffer.len() as u64;
        self.finish_run(log, run, segment, whole, appended);
        match error {
            None => Ok(()),
            Some(error) => {
                let error = self.io(&segment.name, error);
                Err(self.erase_torn_tail(segment, log.tail.end, end, &error).unwrap_or(error))
            }
        }
    }

    /// Writes the one frame of a run around records that are not in the buffer; its head comes last.
    fn write_direct(
        &self,
        log: &mut LogWriter,
        run: &mut FrameRun<'_>,
        segment: &Segment,
        request: &AppendRequest<'_>,
        appended: &mut [Option<Appended>],
    ) -> Result<(), Error> {
        let start = log.tail.end;
        let records_at = start + HEAD_BYTES as u64;
        let (head, rest) = log.buffer.split_at(HEAD_BYTES);
        let result = segment
            .write_all_at(request.records, records_at)
            .and_then(|()| segment.write_all_at(rest, records_at + request.records.len() as u64))
            .and_then(|()| segment.write_all_at(head, start));
        match result {
            Ok(()) => {
                self.counters.bytes_written.fetch_add(request.records.len() as u64, Relaxed);
                self.finish_run(log, run, segment, 1, appended);
                Ok(())
            }
            Err(error) => {
                let error = self.io(&segment.name, error);
                Err(self.erase_torn_tail(segment, start, run.tail.end, &error).unwrap_or(error))
            }
        }
    }

    /// Lets the first `whole` frames of the run count, and forgets the others.
    fn finish_run(
        &self,
        log: &mut LogWriter,
        run: &mut FrameRun<'_>,
        segment: &Segment,
        whole: usize,
        appended: &mut [Option<Appended>],
    ) {
        let before_run = log.tail.end;
        self.counters.writes.fetch_add(1, Relaxed);
        self.counters.batches.fetch_add(whole as u64, Relaxed);
        self.counters.bytes_written.fetch_add(log.buffer.len() as u64, Relaxed);
        run.frames.truncate(whole);
        let mut before = log.tail;
        for planned in &run.frames {
            self.unreached.pass(before.location(), planned.after.end - before.end, &planned.targets);
            before = planned.after;
        }
        if let Some(last) = run.frames.last() {
            log.tail = last.after;
        }
        if run.frames.iter().any(|planned| !planned.targets.is_empty()) {
            self.publish_with(&log.tail, |refs| self.move_refs(refs, run));
        } else {
            self.publish(&log.tail);
        }
        let begins = std::iter::once(before_run).chain(run.frames.iter().map(|planned| planned.after.end));
        let frames = begins.zip(&run.frames).map(|(at, planned)| AppendedFrame {
            at,
            end: planned.after.end,
            batch: planned.batch,
        });
        frames.clone().for_each(|frame| log.written.pass(segment.number, &frame));
        self.index_appended(segment, frames);
        for planned in run.frames.drain(..) {
            appended[planned.index] = Some(Ok((planned.base, planned.after.location())));
        }
        log.buffer.clear();
        run.tail = log.tail;
    }

    /// Moves the refs as the frames say, in their order.
    fn move_refs(&self, refs: &mut Refs, run: &mut FrameRun<'_>) {
        for planned in &mut run.frames {
            let position = Position(planned.after.location());
            for (wanted, target) in planned.moves.iter().zip(planned.targets.drain(..)) {
                let before = match refs.put(&wanted.name, target) {
                    Some(before) => before,
                    None => run.tabled.get(&*wanted.name).cloned().flatten(),
                };
                before.into_iter().for_each(|before| self.pins.displaced(position, &before));
            }
        }
    }

    /// Puts zeroes where a write failed, so that nothing of it can ever count, and syncs them.
    ///
    /// Returns an error of its own, after which nothing more is written, if that fails too.
    pub(super) fn erase_torn_tail(&self, segment: &Segment, from: u64, to: u64, why: &Error) -> Option<Error> {
        if segment.zero_shown(from, to).is_err() {
            return Some(self.poison.set(format!("{why}")));
        }
        self.sync_bytes(segment).err()
    }
}

/// Writes all of `bytes`, and returns how many were written for sure and why not all.
fn write_counted(segment: &Segment, bytes: &[u8], offset: u64) -> (u64, Option<io::Error>) {
    let file = match segment.file() {
        Ok(file) => file,
        Err(error) => return (0, Some(error)),
    };
    let mut written = 0;
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return (written as u64, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written as u64, Some(error)),
        }
    }
    (written as u64, None)
}

/// What moved refs hold, in the order of the moves.
type Targets = SmallVec<[Option<RefTarget>; 1]>;

/// Frames that are written together.
#[derive(Debug)]
struct FrameRun<'a> {
    /// Where the log ends once they are written.
    tail: Tail,
    frames: Vec<Planned<'a>>,
    /// What refs hold by then, as far as they move.
    overlay: HashMap<&'a str, Option<RefTarget>>,
    /// What tables say of refs that move, where these have not moved lately.
    tabled: HashMap<&'a str, Option<RefTarget>>,
}

/// A frame that was written.
pub(super) struct AppendedFrame<'a> {
    /// Where it begins and ends in its segment.
    pub(super) at: u64,
    pub(super) end: u64,
    /// What its records are of.
    pub(super) batch: &'a Batch,
}

#[derive(Debug)]
struct Planned<'a> {
    /// Which of the group's requests it is.
    index: usize,
    batch: &'a Batch,
    base: Location,
    moves: &'a [RefMove],
    targets: Targets,
    after: Tail,
}

impl FrameRun<'_> {
    fn new(tail: &Tail) -> Self {
        Self { tail: *tail, frames: Vec::new(), overlay: HashMap::new(), tabled: HashMap::new() }
    }
}

/// Returns the length of the payload that moves these refs.
pub(super) fn payload_bytes(moves: &[RefMove]) -> usize {
    moves.iter().map(|wanted| ref_bytes(&wanted.name, wanted.to.as_ref())).sum::<usize>().next_multiple_of(8)
}
