(* Recorded traces, as docs/formats/trace.md describes them. Memory is taken as bytes arrive, never by what a length
   announces. *)

(* What is wrong with a file, and where. *)
exception Damaged of string

type 'a mention = { it : 'a; last : bool }
type key = string list

type row =
  | Checkout of { hash : string mention; output : int64 mention }
  | Add of { key : key; value : string; input : int64 mention; output : int64 mention }
  | Remove of { key : key; input : int64 mention; output : int64 mention }
  | Copy of { source : key; destination : key; input : int64 mention; output : int64 mention }
  | Find of { key : key; found : bool; input : int64 mention }
  | Mem of { key : key; found : bool; input : int64 mention }
  | Mem_tree of { key : key; found : bool; input : int64 mention }
  | Commit of {
      hash : string mention;
      date : int64;
      message : string;
      parents : string mention list;
      input : int64 mention;
    }

(* A row of more bytes than this is refused. *)
let row_bytes_max = 1 lsl 30

(* The file is read in pieces of this many bytes. *)
let chunk_bytes = 1 lsl 16

type t = { file : string; channel : in_channel; mutable row : int; buffer : Buffer.t; chunk : Bytes.t }

let damaged t reason =
  raise (Damaged (Printf.sprintf "%s: row %d, before byte %d: %s" t.file t.row (pos_in t.channel) reason))

(* Reads an unsigned number in groups of seven bits, the lowest first: below 2^62, in at most 9 bytes. *)
let varint next fail =
  let rec go shift sum =
    if shift > 56 then fail "a number is longer than 9 bytes"
    else
      let byte = next () in
      let sum = sum lor ((byte land 0x7f) lsl shift) in
      if sum < 0 then fail "a number is not below 2^62" else if byte < 0x80 then sum else go (shift + 7) sum
  in
  go 0 0

let open_file file =
  let channel = open_in_bin file in
  let t = { file; channel; row = 0; buffer = Buffer.create chunk_bytes; chunk = Bytes.create chunk_bytes } in
  let head = try really_input_string channel 13 with End_of_file -> "" in
  if head <> "IrmRepBT\000\000\000\000\000" then
    raise (Damaged (file ^ ": not a trace of version 0; name a file that begins with IrmRepBT"));
  t

(* What a row is decoded from. *)
type cursor = { bytes : string; mutable at : int; fail : 'a. string -> 'a }

let byte c =
  if c.at >= String.length c.bytes then c.fail "the row ends within a field";
  let it = Char.code c.bytes.[c.at] in
  c.at <- c.at + 1;
  it

let number c = varint (fun () -> byte c) c.fail

let taken c count =
  if count > String.length c.bytes - c.at then c.fail "the row ends within a field";
  let at = c.at in
  c.at <- at + count;
  at

let text c =
  let count = number c in
  String.sub c.bytes (taken c count) count

let int64 c = String.get_int64_be c.bytes (taken c 8)
let flag c = byte c <> 0

(* Each item takes at least a byte, so that the row bounds how many there are. *)
let many c item =
  let rec go items count = if count = 0 then List.rev items else go (item c :: items) (count - 1) in
  go [] (number c)

let key c = many c text

let mention c item =
  let last =
    match number c with
    | 0 -> true
    | 1 -> false
    | _ -> c.fail "a mention is neither the last nor one that others follow"
  in
  { it = item c; last }

let hash c = mention c text
let context c = mention c int64

let decode c =
  match number c with
  | 0 ->
      let hash = hash c in
      Checkout { hash; output = context c }
  | 1 ->
      let key = key c in
      let value = text c in
      let input = context c in
      Add { key; value; input; output = context c }
  | 2 ->
      let key = key c in
      let input = context c in
      Remove { key; input; output = context c }
  | 3 ->
      let source = key c in
      let destination = key c in
      let input = context c in
      Copy { source; destination; input; output = context c }
  | (4 | 5 | 6) as operation -> (
      let key = key c in
      let found = flag c in
      let input = context c in
      match operation with
      | 4 -> Find { key; found; input }
      | 5 -> Mem { key; found; input }
      | _ -> Mem_tree { key; found; input })
  | 7 ->
      let made = hash c in
      let date = int64 c in
      let message = text c in
      let parents = many c hash in
      Commit { hash = made; date; message; parents; input = context c }
  | _ -> c.fail "there is no such operation"

(* Returns the next row; [None] at the end of the file. That may be within a row, as it is of the published trace: the row does not
   count then. *)
let next t =
  let exception Cut in
  let fail reason = damaged t reason in
  let read first =
    let first = ref (Some first) in
    let next_byte () =
      match !first with
      | Some byte -> first := None; byte
      | None -> ( try input_byte t.channel with End_of_file -> raise Cut)
    in
    let length = varint next_byte fail in
    if length > row_bytes_max then fail "a row is longer than 1 GiB";
    Buffer.clear t.buffer;
    while Buffer.length t.buffer < length do
      let count = input t.channel t.chunk 0 (min chunk_bytes (length - Buffer.length t.buffer)) in
      if count = 0 then raise Cut;
      Buffer.add_subbytes t.buffer t.chunk 0 count
    done;
    let cursor = { bytes = Buffer.contents t.buffer; at = 0; fail = (fun reason -> damaged t reason) } in
    let row = decode cursor in
    if cursor.at <> length then fail "a row is longer than its fields";
    row
  in
  t.row <- t.row + 1;
  match input_byte t.channel with
  | exception End_of_file -> None
  | first -> (
      try Some (read first)
      with Cut ->
        Printf.eprintf "%s ends within row %d, which is left out\n%!" t.file t.row;
        None)
