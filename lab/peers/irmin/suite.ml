(* The scenarios of the tree suite: commits, incremental and reads, on any store of Irmin whose contents are strings. *)

open Lwt.Syntax

type order = In_order | At_random

(* [long]: twenty times the commits, a hundred times the lookups. *)
type scenario = Commits | Incremental of { long : bool } | Reads of { order : order; long : bool }

let scenario_name scenario bytes =
  let size = Workload.size_name bytes in
  match scenario with
  | Commits -> "commits-" ^ size
  | Incremental { long = false } -> "incremental-" ^ size
  | Incremental { long = true } -> "incremental-long-" ^ size
  | Reads { order = In_order; _ } -> "reads-" ^ size
  | Reads { order = At_random; long = false } -> "reads-random-" ^ size ^ "-1t"
  | Reads { order = At_random; long = true } -> "reads-random-long-" ^ size ^ "-1t"

let now () = Mtime.to_uint64_ns (Mtime_clock.now ())
let seconds_between began ended = Int64.to_float (Int64.sub ended began) *. 1e-9

(* Values longer than this are given as one contents node for all entries of a commit, as `cone bench` gives ours. *)
let plain_bytes_max = 48

module Make (S : Irmin.Generic_key.KV with type Schema.Contents.t = string) = struct
  let text ty it = Irmin.Type.to_string ty it
  let info i = S.Info.v ~author:"Laboratory" ~message:(Workload.message i) 0L

  (* Does [step] for every number below [count], one after another. *)
  let rec each ?(from = 0) count step =
    if from = count then Lwt.return_unit
    else
      let* () = step from in
      each ~from:(from + 1) count step

  (* Commits a tree above [head] and moves the branch, which must be there still. *)
  let commit branch head tree i =
    let parents = match head with None -> [] | Some commit -> [ S.Commit.key commit ] in
    let* made = S.Commit.v (S.repo branch) ~info:(info i) ~parents tree in
    let* moved = S.Head.test_and_set branch ~test:head ~set:(Some made) in
    if moved then Lwt.return_unit else failwith "the branch was moved meanwhile"

  let tree_of paths values =
    let tree = ref (S.Tree.empty ()) in
    let* () =
      each (Array.length paths) (fun n ->
          let+ added = S.Tree.add !tree paths.(n) values.(n) in
          tree := added)
    in
    Lwt.return !tree

  (* Runs [count] commits, each an edit of the tree that the branch is on; returns the seconds and what each took. *)
  let timed_commits branch count edit =
    let latencies = Array.make count 0. in
    Gc.compact ();
    let began = now () in
    let last = ref began in
    let* () =
      each count (fun i ->
          let* head = S.Head.find branch in
          let* tree = edit (match head with None -> S.Tree.empty () | Some head -> S.Commit.tree head) i in
          let+ () = commit branch head tree i in
          let ended = now () in
          latencies.(i) <- seconds_between !last ended;
          last := ended)
    in
    Lwt.return (seconds_between began !last, latencies)

  let rec history repo count commit =
    match S.Commit.parents commit with
    | [] -> Lwt.return (count + 1)
    | parent :: _ -> (
        let* parent = S.Commit.of_key repo parent in
        match parent with
        | Some parent -> history repo (count + 1) parent
        | None -> failwith "a commit's parent is missing")

  (* Reads everything that a scenario has left, in a store that was opened again. Returns the root, the last commit, and
     what is wrong. *)
  let check (w : Workload.t) repo paths values commits =
    let* branch = S.main repo in
    let* head = S.Head.get branch in
    let tree = S.Commit.tree head in
    let wrong = ref None in
    let note reason = if !wrong = None then wrong := Some reason in
    let* () =
      each (Array.length paths) (fun n ->
          let+ found = S.Tree.find tree paths.(n) in
          if found <> Some values.(n) then note (String.concat "/" paths.(n) ^ " does not hold its value"))
    in
    let* names = S.Tree.list tree (Workload.dir w) in
    if List.length names <> Array.length paths then
      note (Printf.sprintf "the directory has %d entries in place of %d" (List.length names) (Array.length paths));
    let* count = history repo 0 head in
    if count <> commits then note (Printf.sprintf "%d commits lead to the head in place of %d" count commits);
    let root = S.Tree.hash tree in
    let* again = tree_of paths values in
    if not (Irmin.Type.(unstage (equal S.hash_t)) root (S.Tree.hash again)) then
      note "the root is not that of its contents made at once";
    Lwt.return (text S.hash_t root, text S.hash_t (S.Commit.hash head), !wrong)

  let commits (w : Workload.t) paths repo =
    let values = Array.init w.ncommits (Workload.value w) in
    let add_all add tree value =
      let tree = ref tree in
      let+ () =
        each w.entries (fun n ->
            let+ added = add !tree paths.(n) value in
            tree := added)
      in
      !tree
    in
    let edit tree i =
      if w.value_bytes <= plain_bytes_max then add_all (fun tree path value -> S.Tree.add tree path value) tree values.(i)
      else add_all S.Tree.add_tree tree (S.Tree.of_contents values.(i))
    in
    let* branch = S.main repo in
    let+ seconds, latencies = timed_commits branch w.ncommits edit in
    let left = Array.make w.entries values.(w.ncommits - 1) in
    (repo, w.ncommits * w.entries, seconds, latencies, left, w.ncommits, None)

  (* Commits every entry with its first value, and opens the store again. *)
  let with_base w paths repo (access : _ Stores.access) =
    let* branch = S.main repo in
    let* tree = tree_of paths (Workload.base w) in
    let* () = commit branch None tree 0 in
    access.reopen repo

  let incremental (w : Workload.t) ~long paths repo access =
    let* repo = with_base w paths repo access in
    let count = if long then 20 * w.ncommits else w.ncommits in
    let values = Array.init count (fun i -> Workload.(value w (changed_value w i))) in
    let* branch = S.main repo in
    let edit tree i = S.Tree.add tree paths.(Workload.changed_entry w i) values.(i) in
    let+ seconds, latencies = timed_commits branch count edit in
    let left = Workload.base w in
    Array.iteri (fun i value -> left.(Workload.changed_entry w i) <- value) values;
    (repo, count, seconds, latencies, left, count + 1, None)

  let reads (w : Workload.t) ~order ~long paths repo access =
    let* repo = with_base w paths repo access in
    let count = if long then 100 * w.nreads else w.nreads in
    let lookups = Workload.lookups w ~random_order:(order = At_random) count in
    let* branch = S.main repo in
    let sum = ref 0 in
    Gc.compact ();
    let began = now () in
    let* tree = S.tree branch in
    let+ () =
      each count (fun i ->
          let+ found = S.Tree.find tree paths.(lookups.(i)) in
          match found with
          | Some value -> sum := !sum + String.length value + if value = "" then 0 else Char.code value.[0]
          | None -> failwith ("nothing was found at " ^ String.concat "/" paths.(lookups.(i))))
    in
    let seconds = seconds_between began (now ()) in
    let first = if w.value_bytes = 0 then 0 else Char.code 'v' in
    let right = !sum = count * (w.value_bytes + first) in
    let wrong = if right then None else Some "lookups found other values than were set" in
    (repo, count, seconds, [||], Workload.base w, 1, wrong)

  (* Runs a scenario in a new store and checks what it has left in the store opened again. *)
  let run (w : Workload.t) scenario (access : _ Stores.access) dir : Row.run Lwt.t =
    let paths = Workload.paths w in
    let* repo = access.create () in
    let* repo, operations, seconds, latencies, left, commits, wrong =
      match scenario with
      | Commits -> commits w paths repo
      | Incremental { long } -> incremental w ~long paths repo access
      | Reads { order; long } -> reads w ~order ~long paths repo access
    in
    let* repo = access.reopen repo in
    let* root, head, otherwise = check w repo paths left commits in
    let+ () = access.close repo in
    {
      Row.scenario = scenario_name scenario w.value_bytes;
      operations; seconds; latencies; root; head;
      value_bytes = w.value_bytes;
      writes = (match scenario with Reads _ -> false | _ -> true);
      file_bytes = (if Sys.file_exists dir then Stores.folder_bytes dir else 0);
      wrong = (if wrong = None then otherwise else wrong);
      more = [];
    }
end
