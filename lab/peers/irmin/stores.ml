(* The stores of Irmin that are measured, and the folder in which they are made. *)

type backend = Memory | Pack
type durability = Unsynced | Synced

(* [Minimal] indexes commits alone; [Always], the default of irmin-pack, every object. *)
type index = Always | Minimal

type place = { backend : backend; durability : durability; index : index; dir : string }

let described place : Row.store =
  match place.backend with
  | Memory -> { backend = "irmin memory"; durability = ""; variant = "" }
  | Pack ->
      {
        backend = "irmin pack";
        durability = (match place.durability with Unsynced -> "none" | Synced -> "synced");
        variant = (match place.index with Always -> "" | Minimal -> "minimal-index");
      }

(* The tree suite: string values, the hash that Irmin takes by itself. In memory, Irmin's own store in memory. *)
module Suite_memory = Irmin_mem.KV.Make (Irmin.Contents.String)

module Suite_pack = struct
  module Conf = struct
    let entries = 32
    let stable_hash = 256
    let contents_length_header = Some `Varint
    let inode_child_order = `Hash_bits
    let forbid_empty_dir_persistence = false
  end

  module Maker = Irmin_pack_unix.KV (Conf)
  include Maker.Make (Irmin.Contents.String)
end

(* Replays: contents and hashes of Tezos. *)
module Tezos_memory = struct
  module Maker = Irmin_pack_mem.Maker (Irmin_tezos.Conf)
  include Maker.Make (Irmin_tezos.Schema)
end

module Tezos_pack = Irmin_tezos.Store

let config place ~fresh =
  let indexing_strategy =
    match place.index with
    | Always -> Irmin_pack.Indexing_strategy.always
    | Minimal -> Irmin_pack.Indexing_strategy.minimal
  in
  Irmin_pack.config ~fresh ~use_fsync:(place.durability = Synced) ~indexing_strategy place.dir

(* How a scenario opens, closes and opens again. A store in memory lives as long as its repository: it stays open. *)
type 'repo access = { create : unit -> 'repo Lwt.t; reopen : 'repo -> 'repo Lwt.t; close : 'repo -> unit Lwt.t }

let in_memory create close = { create; reopen = Lwt.return; close }

let on_disk place v close =
  let reopen repo = Lwt.bind (close repo) (fun () -> v (config place ~fresh:false)) in
  { create = (fun () -> v (config place ~fresh:true)); reopen; close }

let rec folder_bytes path =
  match Unix.lstat path with
  | { st_kind = S_DIR; _ } ->
      Array.fold_left (fun sum name -> sum + folder_bytes (Filename.concat path name)) 0 (Sys.readdir path)
  | { st_kind = S_REG; st_size; _ } -> st_size
  | _ -> 0

let rec remove path =
  match Unix.lstat path with
  | { st_kind = S_DIR; _ } ->
      Array.iter (fun name -> remove (Filename.concat path name)) (Sys.readdir path);
      Unix.rmdir path
  | _ -> Unix.unlink path

(* Makes a folder below [above] for [work], and removes it at the end, also where Ctrl-C or a kill ends the process. *)
let with_folder above work =
  let dir = Filename.concat above (Printf.sprintf "bristlecone-irmin-%d" (Unix.getpid ())) in
  Unix.mkdir dir 0o700;
  let end_at signal = Sys.set_signal signal (Sys.Signal_handle (fun _ -> exit 130)) in
  List.iter end_at [ Sys.sigint; Sys.sigterm ];
  let removed = ref false in
  let finally () =
    if not !removed then begin
      removed := true;
      try remove dir with Unix.Unix_error _ | Sys_error _ -> Printf.eprintf "%s could not be removed\n%!" dir
    end
  in
  at_exit finally;
  Fun.protect ~finally (fun () -> work (Filename.concat dir "store"))
