(* Replays a recorded trace, with every answer and every commit hash compared with the recorded one. *)

open Lwt.Syntax

(* What the trace and the store do not agree on, and where. The rest of the trace would be about another state. *)
exception Differs of string

type counts = {
  mutable checkout : int;
  mutable add : int;
  mutable remove : int;
  mutable copy : int;
  mutable find : int;
  mutable mem : int;
  mutable mem_tree : int;
  mutable commit : int;
  (* Bytes of the values that Find has read, and their sum. *)
  mutable value_bytes : int;
  mutable value_sum : int;
}

let rows c = c.checkout + c.add + c.remove + c.copy + c.find + c.mem + c.mem_tree + c.commit

module Make
    (S : Irmin.Generic_key.S
           with type Schema.Path.t = string list
            and type Schema.Contents.t = bytes
            and type Schema.Hash.t = Irmin_tezos.Schema.Hash.t) =
struct
  type state = {
    repo : S.repo;
    contexts : (int64, S.tree) Hashtbl.t;
    (* What each recorded hash became. *)
    commits : (string, S.commit_key) Hashtbl.t;
    check_hashes : bool;
    empty_values : bool;
    counts : counts;
    mutable latencies : float list;
    mutable head : (S.commit * string) option;
    trace : Trace.t;
  }

  let differs state reason = raise (Differs (Printf.sprintf "%s: row %d: %s" state.trace.file state.trace.row reason))

  (* Returns what a mention names; its last mention forgets it. *)
  let mentioned state table (mention : _ Trace.mention) what =
    match Hashtbl.find_opt table mention.it with
    | None -> differs state ("there is no such " ^ what)
    | Some found ->
        if mention.last then Hashtbl.remove table mention.it;
        found

  let context state mention = mentioned state state.contexts mention "context"

  (* Binds an output; one that is not mentioned again is not kept. *)
  let bind table (mention : _ Trace.mention) it =
    if mention.last then Hashtbl.remove table mention.it else Hashtbl.replace table mention.it it

  let shown key = String.escaped (String.concat "/" key)

  let answer state key ~recorded found =
    if recorded <> found then
      differs state (Printf.sprintf "%s: the trace says %b, Irmin says %b" (shown key) recorded found)

  let hash_text commit = Irmin.Type.to_string S.hash_t (S.Commit.hash commit)

  let commit state hash date message parents input =
    let parents = List.map (fun parent -> mentioned state state.commits parent "commit") parents in
    let tree = context state input in
    (* As a node does, and Irmin's own replay. *)
    let* _ = S.Tree.list tree [] in
    let began = Suite.now () in
    let info = S.Info.v ~author:"Tezos" ~message date in
    let+ made = S.Commit.v state.repo ~info ~parents tree in
    state.latencies <- Suite.(seconds_between began (now ())) :: state.latencies;
    S.Tree.clear tree;
    if state.check_hashes && hash_text made <> hash.Trace.it then
      differs state (Printf.sprintf "the trace has commit %S, Irmin made %s" hash.it (hash_text made));
    bind state.commits hash (S.Commit.key made);
    state.head <- Some (made, hash.it)

  let apply state (row : Trace.row) =
    let counts = state.counts in
    match row with
    | Checkout { hash; output } -> (
        counts.checkout <- counts.checkout + 1;
        let* found = S.Commit.of_key state.repo (mentioned state state.commits hash "commit") in
        match found with
        | None -> differs state ("Irmin does not find its commit " ^ String.escaped hash.it)
        | Some commit ->
            bind state.contexts output (S.Commit.tree commit);
            Lwt.return_unit)
    | Add { key; value; input; output } ->
        counts.add <- counts.add + 1;
        let value = if state.empty_values then Bytes.empty else Bytes.unsafe_of_string value in
        let+ tree = S.Tree.add (context state input) key value in
        bind state.contexts output tree
    | Remove { key; input; output } ->
        counts.remove <- counts.remove + 1;
        let+ tree = S.Tree.remove (context state input) key in
        bind state.contexts output tree
    | Copy { source; destination; input; output } -> (
        counts.copy <- counts.copy + 1;
        let tree = context state input in
        let* part = S.Tree.find_tree tree source in
        match part with
        | None -> differs state ("there is nothing to copy at " ^ shown source)
        | Some part ->
            let+ tree = S.Tree.add_tree tree destination part in
            bind state.contexts output tree)
    | Find { key; found; input } ->
        counts.find <- counts.find + 1;
        let+ value = S.Tree.find (context state input) key in
        answer state key ~recorded:found (value <> None);
        Option.iter
          (fun value ->
            counts.value_bytes <- counts.value_bytes + Bytes.length value;
            Bytes.iter (fun byte -> counts.value_sum <- counts.value_sum + Char.code byte) value)
          value
    | Mem { key; found; input } ->
        counts.mem <- counts.mem + 1;
        let+ there = S.Tree.mem (context state input) key in
        answer state key ~recorded:found there
    | Mem_tree { key; found; input } ->
        counts.mem_tree <- counts.mem_tree + 1;
        let+ there = S.Tree.mem_tree (context state input) key in
        answer state key ~recorded:found there
    | Commit { hash; date; message; parents; input } ->
        counts.commit <- counts.commit + 1;
        commit state hash date message parents input

  let rec go state commits_max =
    if state.counts.commit = commits_max then Lwt.return_unit
    else
      match Trace.next state.trace with
      | None -> Lwt.return_unit
      | Some row ->
          let* () = apply state row in
          go state commits_max

  let figures state seconds =
    let c = state.counts in
    let answers = c.find + c.mem + c.mem_tree in
    let rows =
      [
        ("checkout", c.checkout); ("add", c.add); ("remove", c.remove); ("copy", c.copy); ("find", c.find);
        ("mem", c.mem); ("mem_tree", c.mem_tree); ("commit", c.commit);
      ]
    in
    let unchecked =
      if state.check_hashes then [] else [ ("hashes_unchecked", Row.Text "every value is the empty one") ]
    in
    Row.Fields
      ([
         ("format", Row.Text "tezos");
         ("rows", Row.Fields (List.map (fun (name, count) -> (name, Row.Int count)) rows));
         ("commits_per_s", Float (float c.commit /. seconds));
         ("answers_checked", Int answers);
         ("answers_wrong", Int 0);
         ("hashes_checked", Int (if state.check_hashes then c.commit else 0));
         ("hashes_wrong", Int 0);
         ("commit_max_us", Float (1e6 *. List.fold_left max 0. state.latencies));
         ("value_bytes", Int c.value_bytes);
         ("value_sum", Int c.value_sum);
       ]
      @ unchecked
      @ match state.head with None -> [] | Some (_, recorded) -> [ ("recorded_head", Row.Text recorded) ])

  (* Opens the store again and looks the last commit up; returns what is wrong. *)
  let check repo = function
    | None -> Lwt.return (Some "the trace has no commit")
    | Some (made, _) -> (
        let+ found = S.Commit.of_hash repo (S.Commit.hash made) in
        match found with
        | Some _ -> None
        | None -> Some "the last commit is not in the store when it is opened again")

  (* Replays the trace up to [commits_max] commits, all of them if it is negative. *)
  let run trace ~commits_max ~empty_values (access : _ Stores.access) dir : Row.run Lwt.t =
    let* repo = access.create () in
    let counts =
      {
        checkout = 0; add = 0; remove = 0; copy = 0; find = 0; mem = 0; mem_tree = 0; commit = 0;
        value_bytes = 0; value_sum = 0;
      }
    in
    let contexts = Hashtbl.create 16 in
    Hashtbl.replace contexts 0L (S.Tree.empty ());
    let state =
      {
        repo; contexts; counts; trace; empty_values;
        commits = Hashtbl.create 16;
        check_hashes = not empty_values;
        latencies = [];
        head = None;
      }
    in
    let began = Suite.now () in
    let* () = go state commits_max in
    let seconds = Suite.(seconds_between began (now ())) in
    let* repo = access.reopen repo in
    let* wrong = check repo state.head in
    let+ () = access.close repo in
    let root, head =
      match state.head with
      | None -> ("", "")
      | Some (made, _) -> (Irmin.Type.to_string S.hash_t (S.Tree.hash (S.Commit.tree made)), hash_text made)
    in
    {
      Row.scenario = Printf.sprintf "tezos-%dcommits" counts.commit;
      operations = rows counts;
      seconds; root; head; wrong;
      latencies = Array.of_list state.latencies;
      value_bytes = 0;
      writes = true;
      file_bytes = (if Sys.file_exists dir then Stores.folder_bytes dir else 0);
      more = [ ("replay", figures state seconds) ];
    }
end
