(* The command: one scenario, or one trace, on one store of Irmin, and its row on standard output. *)

open Cmdliner
module Suite_in_memory = Suite.Make (Stores.Suite_memory)
module Suite_in_pack = Suite.Make (Stores.Suite_pack)
module Replay_in_memory = Replay.Make (Stores.Tezos_memory)
module Replay_in_pack = Replay.Make (Stores.Tezos_pack)

(* Runs [work] in a folder of its own, prints its row, and returns the exit code. *)
let with_row place work =
  Stores.with_folder place.Stores.dir (fun dir ->
      let place = { place with dir } in
      let run = Lwt_main.run (work place) in
      Row.write (Stores.described place) run;
      match run.Row.wrong with
      | None -> 0
      | Some reason ->
          Printf.eprintf "%s: wrong result: %s\n%!" run.scenario reason;
          1)

let suite place scenario workload =
  with_row place (fun place ->
      match place.backend with
      | Memory ->
          let v () = Stores.Suite_memory.Repo.v (Irmin_mem.config ()) in
          Suite_in_memory.run workload scenario (Stores.in_memory v Stores.Suite_memory.Repo.close) place.dir
      | Pack ->
          let access = Stores.(on_disk place Suite_pack.Repo.v Suite_pack.Repo.close) in
          Suite_in_pack.run workload scenario access place.dir)

let replay place file commits empty_values =
  with_row place (fun place ->
      let trace = Trace.open_file file in
      let commits_max = if commits = 0 then -1 else commits in
      match place.backend with
      | Memory ->
          let v () = Stores.Tezos_memory.Repo.v (Irmin_pack.config ~fresh:true place.dir) in
          let access = Stores.in_memory v Stores.Tezos_memory.Repo.close in
          Replay_in_memory.run trace ~commits_max ~empty_values access place.dir
      | Pack ->
          let access = Stores.(on_disk place Tezos_pack.Repo.v Tezos_pack.Repo.close) in
          Replay_in_pack.run trace ~commits_max ~empty_values access place.dir)

(* Options *)

let at_least least =
  let parse text =
    match int_of_string_opt text with
    | Some count when count >= least -> Ok count
    | _ -> Error (`Msg (Printf.sprintf "%s is not a whole number of at least %d" text least))
  in
  Arg.conv (parse, Format.pp_print_int)

let count names ?(least = 1) default doc = Arg.(value & opt (at_least least) default & info names ~docv:"N" ~doc)

let chosen names choices default doc =
  let doc = Printf.sprintf "%s: %s." doc (Arg.doc_alts_enum choices) in
  Arg.(value & opt (enum choices) default & info names ~docv:"NAME" ~doc)

let place =
  let backends = [ ("memory", Stores.Memory); ("pack", Stores.Pack) ] in
  let backend = chosen [ "backend" ] backends Stores.Memory "The store: Irmin's own in memory, or irmin-pack on disk" in
  let durabilities = [ ("none", Stores.Unsynced); ("synced", Stores.Synced) ] in
  let durability =
    let doc = "When irmin-pack acknowledges a commit: after the write or the sync" in
    chosen [ "durability" ] durabilities Stores.Unsynced doc
  in
  let indexes = [ ("always", Stores.Always); ("minimal", Stores.Minimal) ] in
  let index = chosen [ "index" ] indexes Stores.Always "What irmin-pack indexes: every object, or commits alone" in
  let dir =
    let doc = "The folder in which the store is made and removed again." in
    Arg.(value & opt dir (Filename.get_temp_dir_name ()) & info [ "dir" ] ~docv:"DIR" ~doc)
  in
  let make backend durability index dir = { Stores.backend; durability; index; dir } in
  Term.(const make $ backend $ durability $ index $ dir)

let workload =
  let value_bytes = count [ "value-size" ] ~least:0 20 "The size of a value in bytes." in
  let ncommits = count [ "ncommits" ] 100 "Commits of a scenario." in
  let entries = count [ "tree-add" ] 1000 "Entries of the wide directory." in
  let depth = count [ "depth" ] ~least:0 10 "Directories above an entry." in
  let nreads = count [ "nreads" ] 10_000 "Lookups." in
  let make value_bytes ncommits entries depth nreads = { Workload.value_bytes; ncommits; entries; depth; nreads } in
  Term.(const make $ value_bytes $ ncommits $ entries $ depth $ nreads)

let long =
  let doc = "The long form: 20 times as many commits, 100 times as many lookups." in
  Arg.(value & flag & info [ "long" ] ~doc)

let exits =
  [
    Cmd.Exit.info 0 ~doc:"if the row was checked and is right.";
    Cmd.Exit.info 1 ~doc:"if an answer, the contents or a hash is wrong, or the store failed.";
    Cmd.Exit.info 2 ~doc:"if the options make no sense.";
  ]

let info name doc = Cmd.info name ~doc ~exits

(* A scenario that has a long form. *)
let scenario name doc make =
  let run place workload long = suite place (make long) workload in
  Cmd.v (info name doc) Term.(const run $ place $ workload $ long)

let commits =
  let doc = "set every entry, commit, move the branch, 100 times" in
  let run place workload = suite place Suite.Commits workload in
  Cmd.v (info "commits" doc) Term.(const run $ place $ workload)

let incremental =
  let doc = "change one entry of 1,000, commit, move the branch, 100 times" in
  scenario "incremental" doc (fun long -> Suite.Incremental { long })

let reads =
  let doc = "look up 10,000 entries in order, in a store that was opened again" in
  let run place workload = suite place (Suite.Reads { order = In_order; long = false }) workload in
  Cmd.v (info "reads" doc) Term.(const run $ place $ workload)

let reads_random =
  let doc = "look up 10,000 entries in random order, in a store that was opened again" in
  scenario "reads-random" doc (fun long -> Suite.Reads { order = At_random; long })

let replay =
  let file = Arg.(required & pos 0 (some non_dir_file) None & info [] ~docv:"FILE" ~doc:"The trace.") in
  let commits = count [ "commits" ] ~least:0 0 "Stop after the N-th commit; 0: at the end of the trace." in
  let empty =
    let doc = "Write the empty value in every Add; hashes are then not checked." in
    Arg.(value & flag & info [ "empty-blobs" ] ~doc)
  in
  let doc = "do the operations of a recorded trace, and compare answers and hashes with the recorded ones" in
  Cmd.v (info "replay" doc) Term.(const replay $ place $ file $ commits $ empty)

let command =
  let doc = "the scenarios of cone bench on Irmin" in
  let man =
    [
      `S Manpage.s_description;
      `P
        "Does one run of one scenario, or of one trace, on one store of Irmin, and prints its row in JSON on standard \
         output. Paths, values, lookups and checks are those of $(b,cone bench).";
      `S Manpage.s_examples;
      `Pre "bristlecone-irmin commits --backend pack --value-size 10000";
      `Pre "bristlecone-irmin replay trace.repr --backend pack --durability synced";
    ]
  in
  Cmd.group (Cmd.info "bristlecone-irmin" ~version:Row.version ~doc ~man ~exits)
    [ commits; incremental; reads; reads_random; replay ]

let () =
  let failed reason =
    Printf.eprintf "bristlecone-irmin: %s\n%!" reason;
    1
  in
  match Cmd.eval_value ~catch:false command with
  | Ok (`Ok code) -> exit code
  | Ok (`Help | `Version) -> exit 0
  | Error _ -> exit 2
  | exception (Trace.Damaged reason | Replay.Differs reason | Failure reason | Sys_error reason) -> exit (failed reason)
  | exception Unix.Unix_error (error, call, file) ->
      exit (failed (Printf.sprintf "%s: %s: %s" file call (Unix.error_message error)))
  | exception other -> exit (failed ("Irmin failed: " ^ Printexc.to_string other))
