(* Paths, values and lookups as docs/bench.md defines them: the same as those of `cone bench`, byte for byte. *)

type t = {
  ncommits : int;
  entries : int;
  depth : int;
  nreads : int;
  value_bytes : int;
}

(* The directories above every entry. *)
let dir t = List.init t.depth string_of_int

(* The path of entry [n] is at index [n - 1]. *)
let paths t = Array.init t.entries (fun i -> dir t @ [ string_of_int (i + 1) ])

(* Value [i]: the text value-i-, cut or padded with x. *)
let value t i =
  let text = Printf.sprintf "value-%d-" i in
  let bytes = Bytes.make t.value_bytes 'x' in
  Bytes.blit_string text 0 bytes 0 (min (String.length text) t.value_bytes);
  Bytes.unsafe_to_string bytes

(* The value of each entry before the timed part of incremental and reads. *)
let base t = Array.init t.entries (fun i -> value t (i + 1))

(* Which entry commit [i] of incremental changes, counted from 0, and the number of the value that it sets. *)
let changed_entry t i = i * 7919 mod t.entries
let changed_value t i = t.entries + 1 + i

(* Pseudo-random numbers below [bound], which is at most 2^31: xorshift64* from the given seed. *)
let random seed =
  let state = ref Int64.(logor (mul (of_int seed) 0x9e37_79b9_7f4a_7c15L) 1L) in
  fun bound ->
    let open Int64 in
    let x = logxor !state (shift_right_logical !state 12) in
    let x = logxor x (shift_left x 25) in
    let x = logxor x (shift_right_logical x 27) in
    state := x;
    let x = mul x 0x2545_f491_4f6c_dd1dL and bound = of_int bound in
    (* The upper half of the product of 128 bits. *)
    let low = mul (logand x 0xffff_ffffL) bound and high = mul (shift_right_logical x 32) bound in
    to_int (shift_right_logical (add high (shift_right_logical low 32)) 32)

(* Which entries are looked up, counted from 0. *)
let lookups t ~random_order count =
  let next = random 1 in
  Array.init count (fun i -> if random_order then next t.entries else i mod t.entries)

(* A value's size in a scenario's name. *)
let size_name bytes =
  if bytes >= 1000 && bytes mod 1000 = 0 then Printf.sprintf "%dK" (bytes / 1000) else Printf.sprintf "%dB" bytes

let message i = Printf.sprintf "commit %d" i
