# Speaks as `bristlecone-irmin` does, without doing anything. The first argument says how it behaves.
how=$1 command=$2
shift 2
name="irmin memory" entries=1 commits=1 reads=1 bytes=0 long=0 head=one
while [ $# -gt 0 ]; do
    case $1 in
    --backend) [ "$2" = memory ] || name="irmin pack" durability=none ;;
    --durability) durability=$2 ;;
    --index) index=minimal-index ;;
    --value-size) bytes=$2 ;;
    --ncommits) commits=$2 ;;
    --tree-add) entries=$2 ;;
    --nreads) reads=$2 ;;
    --long) long=1 ;;
    esac
    shift
done
size=${bytes}B threads= form=
[ $long = 1 ] && form=-long
[ "$bytes" = 10000 ] && size=10K
case $command in
commits) operations=$((commits * entries)) ;;
incremental) operations=$commits ;;
reads) operations=$reads ;;
reads-random) operations=$((long ? reads * 100 : reads)) threads=-1t ;;
esac
checked=true wrong= code=0 scenario=$command$form-$size$threads
case $how in
wrong) checked=false wrong=',"wrong":"an entry is another"' code=1 ;;
unchecked) checked=false ;;
elsewhere) scenario=$scenario-elsewhere ;;
nameless) name=another ;;
fewer) operations=$((operations - 1)) ;;
idle) operations=0 ;;
ids) head=two$index ;;
text) echo "no row" && exit 0 ;;
silent) exit 0 ;;
fails) echo "the disk is full" >&2 && exit 1 ;;
esac
printf '{"name":"%s","scenario":"%s","total_ops":%s,"total_time":0.5,"backend":"%s","durability":"%s","variant":"%s",' \
    "$name${durability:+ $durability}${index:+ $index}" "$scenario" "$operations" "$name" "${durability:-none}" "$index"
printf '"value_bytes":%s,"threads":1,"runs":1,"head":"%s","version":"stand-in","checked":%s%s}\n' \
    "$bytes" "$head" "$checked" "$wrong"
exit $code
