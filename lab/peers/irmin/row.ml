(* A row of results in JSON, one a line, with the keys that docs/bench.md lists. *)

type json =
  | Bool of bool
  | Int of int
  | Float of float
  | Text of string
  | Fields of (string * json) list

let escaped text =
  let out = Buffer.create (String.length text + 2) in
  let add = function
    | ('"' | '\\') as c -> Buffer.add_char out '\\'; Buffer.add_char out c
    | c when Char.code c < 0x20 || Char.code c >= 0x7f -> Printf.bprintf out "\\u%04x" (Char.code c)
    | c -> Buffer.add_char out c
  in
  String.iter add text;
  Buffer.contents out

let rec print out = function
  | Bool it -> Buffer.add_string out (string_of_bool it)
  | Int it -> Buffer.add_string out (string_of_int it)
  | Float it when Float.is_finite it -> Printf.bprintf out "%.6f" it
  | Float _ -> Buffer.add_string out "0"
  | Text it -> Printf.bprintf out "\"%s\"" (escaped it)
  | Fields fields ->
      let field i (key, it) =
        Printf.bprintf out "%s\"%s\":" (if i > 0 then "," else "") key;
        print out it
      in
      Buffer.add_char out '{';
      List.iteri field fields;
      Buffer.add_char out '}'

(* What was measured on. *)
type store = { backend : string; durability : string; variant : string }

(* What one run found. [latencies] has what each commit took, in seconds. *)
type run = {
  scenario : string;
  operations : int;
  seconds : float;
  latencies : float array;
  value_bytes : int;
  writes : bool;
  file_bytes : int;
  root : string;
  head : string;
  wrong : string option;
  more : (string * json) list;
}

let version =
  let irmin = if String.length Irmin.version > 0 && Irmin.version.[0] = '%' then "unreleased" else Irmin.version in
  Printf.sprintf "irmin %s, OCaml %s" irmin Sys.ocaml_version

let percentile sorted percent =
  sorted.(max 0 ((((Array.length sorted * percent) + 99) / 100) - 1)) *. 1e6

(* The high-water mark of resident memory in KiB, where the system says it. *)
let high_water_kb () =
  match open_in "/proc/self/status" with
  | exception Sys_error _ -> 0
  | status ->
      let rec next () =
        match input_line status with
        | exception End_of_file -> 0
        | line -> (
            match Scanf.sscanf line "VmHWM: %d" Fun.id with
            | kib -> kib
            | exception (Scanf.Scan_failure _ | End_of_file | Failure _) -> next ())
      in
      Fun.protect ~finally:(fun () -> close_in_noerr status) next

let fields store run =
  let rate = float run.operations /. run.seconds in
  let name = List.filter (( <> ) "") [ store.backend; store.durability; store.variant ] in
  let latencies = Array.copy run.latencies in
  Array.sort compare latencies;
  let latency =
    if latencies = [||] then []
    else
      [ ("latency_p50_us", Float (percentile latencies 50)); ("latency_p99_us", Float (percentile latencies 99)) ]
  in
  [
    ("name", Text (String.concat " " name));
    ("scenario", Text run.scenario);
    ("total_ops", Int run.operations);
    ("total_time", Float run.seconds);
    ("ops_per_sec", Float rate);
    ("ops_per_sec_min", Float rate);
    ("ops_per_sec_max", Float rate);
    ("maxrss_kb", Int (high_water_kb ()));
    ("backend", Text store.backend);
    ("durability", Text (if not run.writes then "" else if store.durability = "" then "none" else store.durability));
    ("variant", Text store.variant);
    ("value_bytes", Int run.value_bytes);
    ("threads", Int 1);
    ("runs", Int 1);
    ("commits", Int (Array.length latencies));
  ]
  @ latency
  @ [
      ("file_bytes", Int run.file_bytes);
      ("checked", Bool (run.wrong = None));
      ("version", Text version);
      ("root", Text run.root);
      ("head", Text run.head);
    ]
  @ (match run.wrong with None -> [] | Some reason -> [ ("wrong", Text reason) ])
  @ run.more

(* Prints the row of a run on standard output. *)
let write store run =
  let out = Buffer.create 1024 in
  print out (Fields (fields store run));
  print_endline (Buffer.contents out)
